"""Computes statistics and an index with numpy and Arrow alone. The columns are in memory. They and the number of index lines are the same
as in our job. Each column is scanned once."""

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

_LOOKED_AT = 1 << 16
_BUCKETS = 256
_TOGETHER = 1 << 16
_LINES = csv.WriteOptions(include_header=False, delimiter=" ")


def statistics(table: pa.Table) -> list[tuple[Any, ...]]:
    """Returns the least and greatest value of each column, and the mean, deviation and histogram of a sample of its values.

    For whole numbers, also counts how often each value occurs in the sample.
    """
    every = max(1, table.num_rows // _LOOKED_AT)
    return [_described(column, every) for column in table.columns]


def _described(column: Any, every: int) -> tuple[Any, ...]:
    values = np.concatenate([chunk.to_numpy()[::every] for chunk in column.chunks])
    counted = pc.value_counts(pa.array(values)) if values.dtype.kind == "i" else None
    return pc.min_max(column), values.mean(dtype=np.float64), values.std(dtype=np.float64), np.histogram(values, _BUCKETS), counted


def index(records: int, record_bytes: int, place: Path) -> str:
    """Digests and writes a line `<offset> <size>` for each record. Returns the digest."""
    digest = hashlib.sha256()
    with place.open("wb", buffering=0) as out:
        for first in range(0, records, _TOGETHER):
            numbers = np.arange(first, min(records, first + _TOGETHER)) * record_bytes
            lines = io.BytesIO()
            csv.write_csv(pa.table({"offset": numbers, "size": np.full(len(numbers), record_bytes)}), lines, _LINES)
            digest.update(lines.getbuffer())
            out.write(lines.getbuffer())
    return digest.hexdigest()
