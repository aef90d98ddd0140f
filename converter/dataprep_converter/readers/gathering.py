"""Gathering: samples in any order from a reader for which only the input's order is cheap.

Samples of many batches are read together, in the input's order, so that each unit is decoded once for all of them; then the batches are
taken from what was read. The more memory, the fewer passes over the input; batches are the same for any.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.readers import SAMPLE, Bad, Batch
from dataprep_converter.tensors import to_arrow, to_numpy

MOST_BYTES: Final = 256 << 20
"""Of decoded rows that are held."""

_PIECE_ROWS = 8192
_arrow: Any = pa  # the stubs don't know all functions

Samples = npt.NDArray[np.int64]


def windows(samples: Iterator[Samples], *, rows: int) -> Iterator[list[Samples]]:
    """Runs of arrays of about so many samples together, at least one."""
    window: list[Samples] = []
    held = 0
    for wanted in samples:
        window.append(wanted)
        held += len(wanted)
        if held >= rows:
            yield window
            window, held = [], 0
    if window:
        yield window


def gathered(read: Callable[[Samples], Batch], wanted: Sequence[Samples]) -> Iterator[Batch]:
    """A batch for each array of sample numbers, as `read` would make it, from one pass in the input's order."""
    ordered = np.unique(np.concatenate(wanted))
    pieces: list[pa.RecordBatch] = []
    bad: dict[int, Bad] = {}
    bytes_in = 0
    for start in range(0, len(ordered), _PIECE_ROWS):
        batch = read(ordered[start : start + _PIECE_ROWS])
        pieces.append(batch.records)
        bad |= {each.sample: each for each in batch.bad}
        bytes_in += batch.bytes_in
    held = np.concatenate([to_numpy(piece.column(SAMPLE)) for piece in pieces]) if pieces else np.empty(0, np.int64)
    firsts = np.cumsum([0, *(piece.num_rows for piece in pieces)])
    for number, samples in enumerate(wanted):
        at = np.searchsorted(held, samples)
        is_good = np.zeros(len(samples), np.bool_)
        inside = at < len(held)
        is_good[inside] = held[at[inside]] == samples[inside]
        yield Batch(
            records=_taken(pieces, firsts, at[is_good]),
            bad=[bad[sample] for sample in samples[~is_good].tolist()],
            bytes_in=bytes_in if number == 0 else 0,
        )


def _taken(pieces: Sequence[pa.RecordBatch], firsts: npt.NDArray[np.int64], places: Samples) -> pa.RecordBatch:
    """Rows of the pieces laid end to end, in the order of `places`."""
    if not len(places):
        return pieces[0].slice(0, 0)
    order = np.argsort(places, kind="stable")
    ascending = places[order]
    cuts = np.searchsorted(ascending, firsts)
    parts = [
        piece.take(to_arrow(ascending[low:high] - first))
        for piece, first, low, high in zip(pieces, firsts.tolist(), cuts.tolist(), cuts[1:].tolist(), strict=False)
        if high > low
    ]
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    found: pa.RecordBatch = _arrow.concat_batches(parts).take(to_arrow(back))
    return found
