"""Reads rows of equal size from a file by number, and returns the rows' bytes. The readers of fixed-length records and of arrays interpret
the bytes.

Consecutive rows are read in one request and aren't copied. If rows are not consecutive, neighbouring rows are read together. If separate
requests would be slow (many small rows of a remote file), the rows are read from an unlinked temporary copy of the file.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import InputChanged
from dataprep_converter.core.lru import LruCache
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.metered import ByteCounter, MeteredInput
from dataprep_converter.inputs.pinned import ForwardReader, InputCopy, open_pinned
from dataprep_converter.inputs.zips import Member, StoredMember, inflated
from dataprep_converter.readers.base.open_files import KEPT_FILES
from dataprep_converter.sampling.units import Unit, Units
from dataprep_converter.stores import Input, read_each, scheme_of

Bytes = npt.NDArray[np.uint8]

_GAP_BYTES: Final = 8 << 10
"""The largest gap between rows, in bytes, that is cheaper to read than to skip with another request."""
_BLOCK_BYTES: Final = 8 << 20
"""The maximum size of a read in bytes, including gaps. A row larger than this maximum is read separately."""
_REMOTE_ROW_BYTES: Final = 1 << 20
"""Scattered rows of a remote file are requested one by one only if each row has at least this many bytes."""
_SCATTERED_RUNS: Final = 8
"""A batch with at least this number of jumps between its rows counts as shuffled."""


class Rows(Closeable):
    """The rows of a file, which begin at offset `start`. `copy` makes a temporary copy of a file whose store is slow to respond."""

    def __init__(
        self, source: Input | InputCopy, uri: str, *, start: int, row_bytes: int, copy: Callable[[], InputCopy] | None = None
    ) -> None:
        self._source = source
        self._uri = uri
        self._start = start
        self._row_bytes = row_bytes
        self._copy = copy if row_bytes < _REMOTE_ROW_BYTES else None
        self.is_copied = False
        """Whether rows are read from the temporary copy."""
        self.owned = ExitStack()
        """The objects to close together with this object: the copy, and anything else that the caller adds."""

    def take(self, rows: npt.NDArray[np.int64]) -> Bytes:
        """The given rows, in the given order, as an array of shape (len(rows), row_bytes). The array can be a view of read-only bytes."""
        unique, places = np.unique(rows, return_inverse=True)
        ends = np.flatnonzero(np.diff(unique) > max(1, _GAP_BYTES // self._row_bytes)) + 1
        if self._copy is not None and len(ends) >= _SCATTERED_RUNS:
            self._source, self._copy, self.is_copied = self.owned.enter_context(self._copy()), None, True
        if 2 * len(ends) > len(rows):
            return self._read_each(rows)
        unique_rows = self._as_rows(b"".join([piece for run in np.split(unique, ends) for piece in self._run(run)]))
        is_in_order = len(rows) == len(unique) and bool(np.all(np.diff(rows) > 0))
        return unique_rows if is_in_order else unique_rows.take(places, axis=0)

    def close(self) -> None:
        """Closes the objects in `owned`."""
        self.owned.close()

    def _read_each(self, rows: npt.NDArray[np.int64]) -> Bytes:
        """Reads each row with a separate request. This method is meant for rows that are mostly not adjacent."""
        data = read_each(self._source, self._start + rows * self._row_bytes, self._row_bytes)
        if len(data) != len(rows) * self._row_bytes:
            raise self._became_shorter()
        return self._as_rows(data)

    def _run(self, rows: npt.NDArray[np.int64]) -> Iterator[bytes]:
        """Reads ascending rows that are close together, including the gaps between them. Yields the bytes of the rows."""
        for low, high in within_reads(rows, self._row_bytes):
            first = int(rows[low])
            count = int(rows[high - 1]) + 1 - first
            data = self._source.read_at(self._start + first * self._row_bytes, count * self._row_bytes)
            if len(data) != count * self._row_bytes:
                raise self._became_shorter()
            yield data if count == high - low else self._as_rows(data)[rows[low:high] - first].tobytes()

    def _as_rows(self, data: bytes) -> Bytes:
        return np.frombuffer(data, np.uint8).reshape(-1, self._row_bytes)

    def _became_shorter(self) -> InputChanged:
        return InputChanged(f"{self._uri} shrank while it was being read.", uri=self._uri)


def within_reads(rows: npt.NDArray[np.int64], row_bytes: int) -> Iterator[tuple[int, int]]:
    """Groups ascending rows into reads. Each read includes the gaps between its rows. For each read, yields the pair (begin, end) of
    positions in `rows`."""
    at_once = max(1, _BLOCK_BYTES // row_bytes)
    low = 0
    while low < len(rows):
        high = int(np.searchsorted(rows, int(rows[low]) + at_once))
        yield low, high
        low = high


class RowFiles(Closeable):
    """A cache of the most recently used row files. Each file is checked against its pin."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._count = ByteCounter()
        self._open: LruCache[tuple[str, int, int], Rows] = LruCache(KEPT_FILES, evicted=lambda _place, rows: rows.close())

    def rows(self, uri: str, pin: str, *, start: int, row_bytes: int, member: Member | None = None) -> Rows:
        """The rows of a file or of a member of a zip file. The rows begin at offset `start`.

        Raises InputChanged if the file has changed since planning.
        """

        def make() -> Rows:
            with ExitStack() as cleanup:
                source: Input = cleanup.enter_context(MeteredInput(open_pinned(self._access.store(uri), uri, pin), self._count))
                is_far = scheme_of(uri) not in ("", "file") and (member is None or not member.deflated)
                if member is not None:
                    contents: Input = inflated(source, member, uri) if member.deflated else StoredMember(source, member, uri)
                    source = cleanup.enter_context(contents)
                copy = (lambda: InputCopy(ForwardReader(source, uri, compression=None))) if is_far else None
                rows = Rows(source, uri, start=start, row_bytes=row_bytes, copy=copy)
                rows.owned.push(cleanup.pop_all())
                return rows

        return self._open.get((uri, member.header if member else -1, start), make)

    def close(self) -> None:
        """Closes the files."""
        self._open.clear()

    def taken(self) -> int:
        """The number of bytes read from the stores since the last call."""
        return self._count.take_count()


def gathered(
    units: Units,
    sample_numbers: npt.NDArray[np.int64],
    take: Callable[[Unit, npt.NDArray[np.int64]], npt.NDArray[Any]],
) -> npt.NDArray[Any]:
    """Calls `take` for the rows of each unit, and returns all rows in the order of the samples. `sample_numbers` must not be empty."""
    index, rows = units.locate(sample_numbers)
    numbers = np.unique(index)
    if len(numbers) == 1:
        return take(units.unit(int(numbers[0])), rows)
    out: npt.NDArray[Any] | None = None
    for number in numbers.tolist():
        is_in_unit = index == number
        values = take(units.unit(number), rows[is_in_unit])
        if out is None:
            out = np.empty((len(sample_numbers), *values.shape[1:]), values.dtype)
        out[is_in_unit] = values
    return out if out is not None else np.empty(0)
