"""Rows of one size in a file, by number, as bytes: for records of fixed length and for arrays, which say what the bytes mean.

Rows that follow each other are one read and no copy. In any other order they are read where they lie, neighbours together; where that would
be slow (many small rows of a remote file), from an unlinked temporary copy.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dataprep_converter.access import Access, Input
from dataprep_converter.errors import InputChanged
from dataprep_converter.readers.blocks import KEPT_FILES, Count, Counted, Kept
from dataprep_converter.readers.inputs import Forward, Spool, open_pinned
from dataprep_converter.readers.zips import Member, Stored, inflated
from dataprep_converter.stores import scheme_of
from dataprep_converter.units import Unit, Units

Bytes = npt.NDArray[np.uint8]

_GAP_BYTES: Final = 8 << 10
"""Reading over a gap of so much is cheaper than asking again."""
_BLOCK_BYTES: Final = 8 << 20
"""Most bytes of one read, gaps included; a larger row is read by itself."""
_REMOTE_ROW_BYTES: Final = 1 << 20
"""Rows of a remote file that are smaller than this aren't asked for one by one."""
_SCATTERED_RUNS: Final = 8
"""So many jumps within one batch are a shuffle."""


class Rows:
    """The rows of one file that begin at `start`."""

    def __init__(self, source: Input, uri: str, *, start: int, row_bytes: int, is_far: bool) -> None:
        self._source = source
        self._uri = uri
        self._start = start
        self._row_bytes = row_bytes
        self._is_far = is_far and row_bytes < _REMOTE_ROW_BYTES
        self._spool: Spool | None = None

    def take(self, rows: npt.NDArray[np.int64]) -> Bytes:
        """These rows, in this order: an array of `(len(rows), row_bytes)` that may be a view of read-only bytes."""
        unique, places = np.unique(rows, return_inverse=True)
        gap_rows = max(1, _GAP_BYTES // self._row_bytes)
        ends = np.flatnonzero(np.diff(unique) > gap_rows) + 1
        if self._is_far and self._spool is None and len(ends) >= _SCATTERED_RUNS:
            self._spool = Spool(Forward(self._source, self._uri, zipped=False))
        pieces: list[bytes] = []
        at_once = max(1, _BLOCK_BYTES // self._row_bytes)
        for start, end in zip([0, *ends.tolist()], [*ends.tolist(), len(unique)], strict=True):
            low = start
            while low < end:
                # As many rows as lie within one read.
                high = int(np.searchsorted(unique[low:end], unique[low] + at_once)) + low
                pieces.append(self._run(unique[low:high]))
                low = high
        joined = np.frombuffer(pieces[0] if len(pieces) == 1 else b"".join(pieces), np.uint8).reshape(-1, self._row_bytes)
        is_in_order = len(rows) == len(unique) and bool(np.all(np.diff(rows) > 0))
        return joined if is_in_order else joined[places]

    def _run(self, rows: npt.NDArray[np.int64]) -> bytes:
        """Ascending rows, read as a whole with the gaps between them."""
        first, count = int(rows[0]), int(rows[-1] - rows[0]) + 1
        source = self._spool or self._source
        data = source.read_at(self._start + first * self._row_bytes, count * self._row_bytes)
        if len(data) != count * self._row_bytes:
            raise InputChanged(f"{self._uri} became shorter while it was read.", uri=self._uri)
        if count == len(rows):
            return data
        return np.frombuffer(data, np.uint8).reshape(count, self._row_bytes)[rows - first].tobytes()


class RowFiles:
    """The files of rows that were used last, pinned."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._count = Count()
        self._open: Kept[tuple[str, int, int], Rows] = Kept(KEPT_FILES)

    def rows(self, uri: str, pin: str, *, start: int, row_bytes: int, member: Member | None = None) -> Rows:
        """The rows of this size from `start` on, of the file or of a member of it.

        Raises InputChanged when the file is not the one that was planned.
        """

        def make() -> Rows:
            source: Input = Counted(open_pinned(self._access.store(uri), uri, pin), self._count)
            is_far = scheme_of(uri) not in ("", "file") and (member is None or not member.deflated)
            if member is not None:
                source = inflated(source, member, uri) if member.deflated else Stored(source, member, uri)
            return Rows(source, uri, start=start, row_bytes=row_bytes, is_far=is_far)

        return self._open.get((uri, member.header if member else -1, start), make)

    def taken(self) -> int:
        """Bytes read from the stores since the last call."""
        return self._count.taken()


def gathered(
    units: Units,
    wanted: npt.NDArray[np.int64],
    take: Callable[[Unit, npt.NDArray[np.int64]], npt.NDArray[Any]],
) -> npt.NDArray[Any]:
    """What `take` gives for the rows of each unit, in the order of the samples. `wanted` is not empty."""
    index, rows = units.locate(wanted)
    numbers = np.unique(index)
    if len(numbers) == 1:
        return take(units.unit(int(numbers[0])), rows)
    out: npt.NDArray[Any] | None = None
    for number in numbers.tolist():
        here = index == number
        values = take(units.unit(number), rows[here])
        if out is None:
            out = np.empty((len(wanted), *values.shape[1:]), values.dtype)
        out[here] = values
    return out if out is not None else np.empty(0)
