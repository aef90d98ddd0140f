"""Reads samples in any order from a reader that is fast only in input order.

A window consists of the samples of many batches. The samples of a window are read together in input order, so that each unit is decoded
only once. After a window has been read, its samples are divided into the batches. If the next requests are known, the same pass also stores
the rows of the next windows in a temporary file, separately for each window. With more memory and disk, fewer passes over the input are
needed. The contents of the batches don't depend on the number of passes.
"""

import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import StoreFull
from dataprep_converter.core.tensors import to_arrow, to_numpy
from dataprep_converter.records.batch import SAMPLE, Batch, RejectedSample
from dataprep_converter.runtime import limits
from dataprep_converter.runtime.temporary import TemporaryFile, free_bytes

logger = logging.getLogger(__name__)

MOST_BYTES: Final = 256 << 20
"""The maximum number of bytes of decoded rows in memory."""
MOST_ROWS: Final = 8 << 20
"""The maximum number of rows that a pass stores on disk.

Decoding this many rows takes about ten seconds, and no batch is returned during that time.
"""

_PIECE_ROWS = 8192
_SPILL_ROWS, _SPILL_BYTES = 65_536, 16 << 20
"""Rows are read in pieces of at most this size, and each piece is divided among the windows.

Larger pieces mean fewer parts for each window.
"""
_NUMBER_BYTES = 44
"""The number of bytes of memory that a pass needs for each row that it stores: the row's number, position and window, and space to sort
them."""
SHARE_OF_MEMORY: Final = 16
"""Each process may use 1/SHARE_OF_MEMORY of the memory."""
_SHARE_OF_DISK = 4
_MOST_BAD = 10_000
_arrow: Any = pa  # the type stubs lack some functions

Samples = npt.NDArray[np.int64]
Read = Callable[[Samples], Batch]
"""Reads the samples with the given numbers, which must be in ascending order, as a batch."""
Window = list[Samples]


def windows(samples: Iterator[Samples], *, rows: int) -> Iterator[Window]:
    """Yields groups of consecutive arrays. Each group has at least one array, and about `rows` samples in total."""
    window: Window = []
    count = 0
    for numbers in samples:
        window.append(numbers)
        count += len(numbers)
        if count >= rows:
            yield window
            window, count = [], 0
    if window:
        yield window


def fit_into_one_pass(rows: int, size: int) -> bool:
    """Whether one pass over the input can store all of its rows, which take about `size` bytes."""
    return rows <= _most_rows_in_memory() and size <= free_bytes() // _SHARE_OF_DISK


def _most_rows_in_memory() -> int:
    """The number of rows whose positions fit into memory during a pass."""
    return min(MOST_ROWS, limits.memory_bytes() // SHARE_OF_MEMORY // _NUMBER_BYTES)


class ShuffleWindows(Closeable):
    """Reads windows of samples in passes over the input. A pass stores the requested window, and as many of the next windows as memory and
    disk allow."""

    def __init__(self) -> None:
        self._spilled: _SpilledWindows | None = None
        self.coming: Callable[[], Iterator[Iterator[Samples]]] = lambda: iter(())
        """The sample arrays for the current call of `batches` and all later calls."""

    def batches(self, read: Read, samples: Iterator[Samples], *, row_bytes: int) -> Iterator[Batch]:
        """Yields a batch for each array of sample numbers, as `read` does. `row_bytes` is the approximate size of a decoded row."""
        rows = max(1, min(MOST_BYTES, limits.memory_bytes() // SHARE_OF_MEMORY) // row_bytes)
        for window in windows(samples, rows=rows):
            window_rows = self._spilled.take(window) if self._spilled is not None else None
            if window_rows is None:
                self.close()  # Remove the old temporary file first.
                self._spilled = _spill_windows(read, self._ahead(window, rows=rows, row_bytes=row_bytes), row_bytes=row_bytes)
                window_rows = self._spilled.take(window) if self._spilled is not None else None
            yield from _batches(window, _read_window(read, window) if window_rows is None else window_rows)

    def close(self) -> None:
        """Removes the temporary file."""
        spilled, self._spilled = self._spilled, None
        if spilled is not None:
            spilled.close()

    def _ahead(self, window: Window, *, rows: int, row_bytes: int) -> list[Window]:
        """This window and as many of the next windows as possible. The sample numbers of the windows must fit into memory, and their rows
        must fit on the disk."""
        most = min(_most_rows_in_memory(), free_bytes() // _SHARE_OF_DISK // row_bytes)
        coming = (each for samples in self.coming() for each in windows(samples, rows=rows))
        ahead: list[Window] = []
        count = 0
        for each in itertools.dropwhile(lambda other: not _are_equal(other, window), coming):
            count += _rows(each)
            if count > most:
                break
            ahead.append(each)
        return ahead


@dataclass
class _WindowRows:
    """The rows of one window, in the order of the input."""

    pieces: list[pa.RecordBatch]
    """At least one piece, which can be empty."""
    bad: dict[int, RejectedSample] = field(default_factory=dict)
    bytes_in: int = 0


def _read_window(read: Read, window: Window) -> _WindowRows:
    """Reads the rows of `window` in a separate pass that stores no rows of other windows."""
    ordered = np.unique(np.concatenate(window))
    rows = _WindowRows([])
    for start in range(0, max(1, len(ordered)), _PIECE_ROWS):
        batch = read(ordered[start : start + _PIECE_ROWS])
        rows.pieces.append(batch.records)
        rows.bad |= {each.sample: each for each in batch.bad}
        rows.bytes_in += batch.bytes_in
    return rows


def _batches(window: Window, rows: _WindowRows) -> Iterator[Batch]:
    numbers = np.concatenate([to_numpy(piece.column(SAMPLE)) for piece in rows.pieces])
    firsts = np.cumsum([0, *(piece.num_rows for piece in rows.pieces)])
    for position, samples in enumerate(window):
        at = np.searchsorted(numbers, samples)
        is_good = np.zeros(len(samples), np.bool_)
        inside = at < len(numbers)
        is_good[inside] = numbers[at[inside]] == samples[inside]
        yield Batch(
            records=take_rows(rows.pieces, firsts, at[is_good]),
            bad=[rows.bad[sample] for sample in samples[~is_good].tolist()],
            bytes_in=rows.bytes_in if position == 0 else 0,
        )


class _SpilledWindows(Closeable):
    """The rows of several windows in a temporary file. Each window can be taken only once."""

    def __init__(self, ahead: Sequence[Window]) -> None:
        self._windows = {_first(window): (number, window) for number, window in enumerate(ahead)}
        self._parts: list[list[tuple[int, int]]] = [[] for _ in ahead]
        self._bad: list[dict[int, RejectedSample]] = [{} for _ in ahead]
        self._file = TemporaryFile("the rows of a shuffle")
        self.bytes_in = 0
        """The number of bytes that the pass has read, which is reported with the first window that is taken."""
        self.empty: pa.RecordBatch | None = None

    def add(self, number: int, rows: pa.RecordBatch) -> None:
        """Adds rows to a window. The rows must be in the order of the input."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_batch(rows)
        data = sink.getvalue()
        self._parts[number].append((self._file.size, data.size))
        self._file.write(memoryview(data))

    def add_bad(self, number: int, bad: RejectedSample) -> None:
        """Adds a bad sample to a window."""
        self._bad[number][bad.sample] = bad

    def take(self, window: Window) -> _WindowRows | None:
        """The rows of a window, or None if its rows were not stored or were already taken."""
        number, stored_window = self._windows.pop(_first(window), (0, None))
        if stored_window is None or not _are_equal(stored_window, window) or self.empty is None:
            return None
        pieces = [self._read_piece(offset, length) for offset, length in self._parts[number]]
        bytes_in, self.bytes_in = self.bytes_in, 0
        return _WindowRows(pieces or [self.empty], self._bad[number], bytes_in)

    def _read_piece(self, offset: int, length: int) -> pa.RecordBatch:
        with pa.ipc.open_stream(pa.py_buffer(self._file.read_at(offset, length))) as stream:
            return stream.read_next_batch()

    def close(self) -> None:
        """Removes the file."""
        self._file.close()


def _spill_windows(read: Read, ahead: Sequence[Window], *, row_bytes: int) -> _SpilledWindows | None:
    """Reads the rows of the windows `ahead` in one pass.

    Returns None if one pass for all windows isn't possible or saves nothing. Each window then needs a separate pass.
    """
    if len(ahead) < 2:
        return None
    numbers = np.concatenate([samples for window in ahead for samples in window])
    order = np.argsort(numbers)
    window_of = np.repeat(np.arange(len(ahead), dtype=np.int32), [_rows(window) for window in ahead])[order]
    numbers = numbers[order]
    del order
    if np.any(numbers[1:] == numbers[:-1]):
        return None
    with ExitStack() as failed:
        spilled = failed.enter_context(_SpilledWindows(ahead))
        try:
            is_whole = _spill(read, numbers, window_of, spilled, rows=max(1, min(_SPILL_ROWS, _SPILL_BYTES // row_bytes)))
        except StoreFull as exc:
            logger.warning("%s The shuffle will read the input more often.", exc)
            return None
        if not is_whole:
            return None
        failed.pop_all()
        return spilled


def _spill(read: Read, numbers: Samples, window_of: npt.NDArray[np.int32], spilled: _SpilledWindows, *, rows: int) -> bool:
    """Reads samples in ascending order and stores each with its window. Returns False if too many samples are bad."""
    count_of_bad = 0
    for start in range(0, len(numbers), rows):
        piece, windows_here = numbers[start : start + rows], window_of[start : start + rows]
        batch = read(piece)
        spilled.empty = batch.records.slice(0, 0)
        spilled.bytes_in += batch.bytes_in
        row_windows = windows_here[np.searchsorted(piece, to_numpy(batch.records.column(SAMPLE)))]
        order = np.argsort(row_windows, kind="stable")
        records = batch.records.take(to_arrow(order.astype(np.int64)))
        window_numbers, starts = np.unique(row_windows[order], return_index=True)
        for number, low, high in zip(window_numbers.tolist(), starts.tolist(), [*starts.tolist()[1:], len(order)], strict=True):
            spilled.add(number, records.slice(low, high - low))
        count_of_bad += len(batch.bad)
        if count_of_bad > _MOST_BAD:
            # Bad samples are kept in memory, so their number must be limited.
            return False
        for bad in batch.bad:
            spilled.add_bad(int(windows_here[np.searchsorted(piece, bad.sample)]), bad)
    return True


def _rows(window: Window) -> int:
    return sum(map(len, window))


def _first(window: Window) -> int:
    """The number of the window's first sample. This number identifies the window, because no other window has the same first sample."""
    return next((int(samples[0]) for samples in window if len(samples)), -1)


def _are_equal(one: Window, other: Window) -> bool:
    return len(one) == len(other) and all(itertools.starmap(np.array_equal, zip(one, other, strict=True)))


def take_rows(pieces: Sequence[pa.RecordBatch], firsts: npt.NDArray[np.int64], places: Samples) -> pa.RecordBatch:
    """The rows at positions `places` of the concatenated pieces, in that order."""
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
    rows: pa.RecordBatch = _arrow.concat_batches(parts).take(to_arrow(back))
    return rows
