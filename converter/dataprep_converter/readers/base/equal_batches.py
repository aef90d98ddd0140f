"""Regroups batches of any length into batches of equal length."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

_arrow: Any = pa  # the type stubs lack some functions


def equal_batches(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yields the given rows, regrouped into batches of `rows` rows. The last batch may be shorter."""
    waiting: list[pa.RecordBatch] = []
    there = 0
    for batch in batches:
        rest = batch
        while there + rest.num_rows >= rows:
            cut = rows - there
            yield _joined([*waiting, rest.slice(0, cut)])
            waiting, there, rest = [], 0, rest.slice(cut)
        if rest.num_rows:
            waiting.append(rest)
            there += rest.num_rows
    if waiting:
        yield _joined(waiting)


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    whole: pa.RecordBatch = parts[0] if len(parts) == 1 else _arrow.concat_batches(parts)
    return whole
