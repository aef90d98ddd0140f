"""TensorFlow Datasets: `store_as_tfds_dataset`, which is how data in hand becomes one of its data sets.

tfds_records.py images|table INPUT OUTPUT RECORDS
"""

import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pyarrow as pa
import tensorflow_datasets as tfds
from clocked import clocked


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


def main(kind: str, source: Path, output: Path, records: int) -> None:
    rows: Iterable[Mapping[str, Any]]
    if kind == "images":
        features, rows = image_features(source), itertools.islice(images(source), records)
    else:
        held = pa.ipc.open_file(str(source / "table.arrow")).read_all().slice(0, records)
        features, rows = table_features(held.schema), held.to_pylist()

    def work() -> int:
        tfds.dataset_builders.store_as_tfds_dataset(
            name="data",
            version="1.0.0",
            features=features,
            split_datasets={"train": rows},
            data_dir=str(output / "made"),
            disable_shuffling=True,
        )
        return records

    clocked(work)
    for number, part in enumerate(sorted((output / "made").rglob("*.tfrecord*"))):
        part.rename(output / f"{number:05d}.tfrecords")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
