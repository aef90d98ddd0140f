"""Writes a data set of TensorFlow Datasets with `store_as_tfds_dataset`, its function for existing data.

tfds_records.py images|table INPUT OUTPUT RECORDS
"""

import importlib.resources.abc
import itertools
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Replace two modules that TensorFlow Datasets imports. `promise` is available only as source code, and is needed only for downloads.
# `importlib_resources` is the backport of a standard library module.
sys.modules |= {"promise": MagicMock(), "importlib_resources": importlib.resources}

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import tensorflow_datasets as tfds  # noqa: E402
from clocked import clocked  # noqa: E402


def images(source: Path) -> Iterator[Mapping[str, Any]]:
    for folder in sorted(source.iterdir()):
        for path in sorted(folder.iterdir()):
            yield {"image/encoded": str(path), "image/class/label": folder.name, "image/class/text": folder.name}


def image_features(source: Path) -> Any:
    classes = sorted(folder.name for folder in source.iterdir())
    return tfds.features.FeaturesDict(
        {
            "image/encoded": tfds.features.Image(shape=(None, None, 3), encoding_format="jpeg"),
            "image/class/label": tfds.features.ClassLabel(names=classes),
            "image/class/text": tfds.features.Text(),
        }
    )


def table_features(schema: pa.Schema) -> Any:
    return tfds.features.FeaturesDict({field.name: np.dtype(field.type.to_pandas_dtype()).type for field in schema})


def store(rows: Iterable[Mapping[str, Any]], features: Any, folder: Path) -> None:
    tfds.dataset_builders.store_as_tfds_dataset(
        name="data",
        version="1.0.0",
        features=features,
        split_datasets={"train": enumerate(rows)},
        data_dir=str(folder),
        disable_shuffling=True,
    )


def main(kind: str, source: Path, output: Path, records: int) -> None:
    first: Mapping[str, Any]
    rows: Iterable[Mapping[str, Any]]
    if kind == "images":
        features, first, rows = image_features(source), next(images(source)), itertools.islice(images(source), records)
    else:
        held = pa.ipc.open_file(pa.memory_map(str(source / "table.arrow"))).read_all().slice(0, records)
        listed = held.to_pylist()
        features, first, rows = table_features(held.schema), listed[0], listed
    # The first use imports most of TensorFlow Datasets and TensorFlow.
    store([first], features, output / "tried")
    shutil.rmtree(output / "tried")

    def work() -> int:
        store(rows, features, output / "made")
        return records

    clocked(work, again=False)
    for number, part in enumerate(sorted((output / "made").rglob("*.tfrecord*"))):
        part.rename(output / f"{number:05d}.tfrecords")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
