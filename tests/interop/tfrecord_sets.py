"""The data sets of `data_sets.py` as `tfrecord`, and the expected features."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from tests.interop import data_sets

from dataprep_api import names

KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    "idx": {"image": "bytes", "pixels": "int64", "label": "int64"},
    "csv": {"measures": "float", "exact": "float", "count": "int64", "name": "bytes", "id": "bytes", "about": "bytes", "label": "int64"},
    "libsvm": {"keys": "int64", "values": "float", "label": "float"},
}
"""The list type (of tf.train.Feature) of each feature."""
_IDX_FEATURES: Final[list[dict[str, Any]]] = [{"name": "image"}, {"name": "pixels", "columns": ["image"], "encoding": "Values"}]


def made(folder: Path) -> dict[str, Path]:
    """A data set from each source."""
    return {
        source: data_sets.made(source, folder / source, output={"format": "tfrecord"}, features=_IDX_FEATURES if source == "idx" else None)
        for source in KINDS
    }


def examples(source: str) -> list[data_sets.Row]:
    """All records: integers, float32 numbers, and bytes in hex."""
    return [_example(source, row) for row in data_sets.rows(source)]


def index(folder: Path, shard: Path) -> Path:
    """A shard's index as written by the job."""
    return folder / names.index_file(shard.name)


def _example(source: str, row: data_sets.Row) -> data_sets.Row:
    if source == "idx":
        return {"image": [bytes(row["image"]).hex()], "pixels": row["image"], "label": row["label"]}
    return {name: [_stored(KINDS[source][name], value) for value in values] for name, values in row.items()}


def _stored(kind: str, value: Any) -> Any:
    return value.encode().hex() if kind == "bytes" else float(np.float32(value)) if kind == "float" else value
