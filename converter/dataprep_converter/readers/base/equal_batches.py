"""Regroups batches of any length into batches of equal length."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

_arrow: Any = pa  # the type stubs lack some functions


def equal_batches(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yields the given rows, regrouped into batches of `rows` rows. The last batch can be shorter."""
    parts: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        rest = batch
        while count + rest.num_rows >= rows:
            cut = rows - count
            yield _concatenate([*parts, rest.slice(0, cut)])
            parts, count, rest = [], 0, rest.slice(cut)
        if rest.num_rows:
            parts.append(rest)
            count += rest.num_rows
    if parts:
        yield _concatenate(parts)


def _concatenate(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    batch: pa.RecordBatch = parts[0] if len(parts) == 1 else _arrow.concat_batches(parts)
    return batch
