"""The second round of a shuffle: the records of one task, gathered from all files of the first round into a file on this machine."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.errors import NotWhole
from dataprep_converter.core.tensors import to_numpy
from dataprep_converter.readers import LINE
from dataprep_converter.readers.base.windows import take_rows
from dataprep_converter.readers.shuffle import shuffle_file
from dataprep_converter.readers.shuffle.shuffle_file import BAD, StoredRange
from dataprep_converter.readers.shuffle.stored_rows import RowForm, bad_samples, no_rows
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.runtime.ahead import mapped_ahead
from dataprep_converter.runtime.mapped_table import MappedTable
from dataprep_converter.runtime.temporary import TemporaryFile

_AT_ONCE: Final = 4
"""The number of ranges that are requested at the same time."""
_PIECE_BYTES: Final = 16 << 20
"""Rows are kept in pieces of about this size, because look-ups in thousands of small pieces would be slower."""
_WHAT: Final = "the records of a shuffle"
_arrow: Any = pa  # the type stubs lack some functions

Samples = npt.NDArray[np.int64]


class TaskRecords:
    """The records of one task in the order of their samples, in a file that is mapped into memory."""

    def __init__(self, form: RowForm, ranges: Iterator[StoredRange], *, samples: int) -> None:
        """Reads the ranges, which must be in the order of the samples. Raises StoreFull. Raises NotWhole if the number of their samples
        isn't `samples`."""
        self.form = form
        self.bytes_in = 0
        """The number of bytes read from the store."""
        found = 0

        def good() -> Iterator[pa.RecordBatch]:
            nonlocal found
            for each in ranges:
                found += each.samples
                self.bytes_in += each.bytes_in
                bad.write(each.bad)
                yield from shuffle_file.batches(each.records, form.schema)

        # Each range is read only once. So keep its bad samples in a compressed file until all good samples are stored.
        with TemporaryFile(_WHAT) as bad:
            self._good = _Rows(_in_large_pieces(good(), form.schema), form.schema, SAMPLE)
            stored = memoryview(bad.map() if bad.size else b"")
            self._bad = _Rows(_in_large_pieces(shuffle_file.batches(stored, BAD), BAD), BAD, "sample")
        if found != samples:
            raise NotWhole(f"The files of the shuffle have {found:,} of the {samples:,} samples of a task.")

    @property
    def row_bytes(self) -> int:
        """The average size of a row in memory."""
        return max(1, self.nbytes // max(1, len(self._good)))

    @property
    def nbytes(self) -> int:
        """The size of all rows in memory."""
        return self._good.nbytes

    def stored(self, samples: Samples) -> Batch:
        """Returns the rows of these samples, in their order and with all stored columns, and the samples that could not be read. Raises
        NotWhole if a sample is missing."""
        good, bad = self._good.take(samples), self._bad.take(samples)
        if good.num_rows + bad.num_rows != len(samples):
            raise NotWhole("The files of the shuffle lack a sample of this task.")
        return Batch(records=good, bad=bad_samples(bad), bytes_in=0)

    def lines(self, samples: Samples) -> Samples:
        """Returns the line on which each of these samples begins. The samples must not include bad samples."""
        return self._good.numbers(LINE, samples)


class _Rows:
    """Rows in a mapped file, which are looked up by their sample numbers."""

    def __init__(self, pieces: Iterator[pa.RecordBatch], schema: pa.Schema, key: str) -> None:
        """Stores the pieces, which must be sorted by the column `key`."""
        self._table = MappedTable(schema, pieces, what=_WHAT).table
        self._pieces = [piece for piece in self._table.to_batches() if piece.num_rows] or [no_rows(schema)]
        self._firsts = np.cumsum([0, *(piece.num_rows for piece in self._pieces)])
        self._keys: list[Samples] = [to_numpy(piece.column(key)) for piece in self._pieces]
        """The sample numbers of each piece, in ascending order. The numbers stay in the mapped file."""
        self._first_keys = np.array([keys[0] for keys in self._keys if len(keys)], np.int64)

    @property
    def nbytes(self) -> int:
        """The size of the rows in memory."""
        return self._table.nbytes

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def take(self, samples: Samples) -> pa.RecordBatch:
        """Returns the rows of these samples, in the order of `samples`. Samples that aren't stored here are left out."""
        return take_rows(self._pieces, self._firsts, self._places(samples))

    def numbers(self, column: str, samples: Samples) -> Samples:
        """Like `take`, but returns the values of a single column, which must contain numbers without nulls."""
        pieces = [piece.select([column]) for piece in self._pieces]
        numbers: Samples = to_numpy(take_rows(pieces, self._firsts, self._places(samples)).column(0))
        return numbers

    def _places(self, samples: Samples) -> Samples:
        """Returns the positions of these samples' rows in the concatenated pieces. Samples that aren't stored here are left out."""
        places = np.full(len(samples), -1, np.int64)
        which = np.searchsorted(self._first_keys, samples, side="right") - 1
        for number in np.unique(which[which >= 0]).tolist():
            inside, keys = np.flatnonzero(which == number), self._keys[number]
            within = np.minimum(np.searchsorted(keys, samples[inside]), len(keys) - 1)
            is_here = keys[within] == samples[inside]
            places[inside[is_here]] = self._firsts[number] + within[is_here]
        return places[places >= 0]


def _in_large_pieces(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the same rows in pieces of about _PIECE_BYTES."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _PIECE_BYTES:
            yield _arrow.concat_batches(waiting)
            waiting, size = [], 0
    yield _arrow.concat_batches(waiting) if waiting else no_rows(schema)


def gather(form: RowForm, read: Callable[[int], StoredRange], numbers: Sequence[int], *, samples: int) -> TaskRecords:
    """Returns a task's records. `read` reads the task's range from the file of the slice with the given number. `numbers` contains the
    numbers of all slices, and `samples` is the task's number of samples. Raises NotFound if a file is missing, NotWhole if a file is
    damaged, and StoreFull if the disk is full."""
    with closing(mapped_ahead(read, numbers, most=_AT_ONCE)) as ranges:
        return TaskRecords(form, ranges, samples=samples)
