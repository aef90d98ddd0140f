"""Scans a cell: a part of a large text file that is scanned without the text before it, so that several processes can scan one file.

Units begin at the first record that begins at or after a multiple of UNIT_BYTES. So the units that begin in a cell depend only on the text
of the cell and on the state at its start. For example, the start can be inside or outside the quotes of a CSV cell. There are at most three
such states. A single pass over the cell's bytes scans the cell for each of these states. As soon as two scans reach the start of the same
record, only one of them continues. From there on, both would find the same records. The merge chooses the right state (`cell_merge.py`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dataprep_converter.inputs.pinned import ForwardReader
from dataprep_converter.readers.text import stretches
from dataprep_converter.readers.text.stretches import RecordScan
from dataprep_converter.runtime.ahead import continue_alone, end_if_not_needed
from dataprep_converter.stores import Entry, Input

_FIRST_BYTES: Final = 64 << 10
"""After this many bytes, the scans of most cells have reached the same record."""

Numbers: TypeAlias = npt.NDArray[np.int64]
ScanT = TypeVar("ScanT", bound=RecordScan)
Fault: TypeAlias = Literal["LongRecord", "OpenQuote"]


class ScansCells(Protocol[ScanT]):
    """Finds records in text whose beginning is missing.

    A *prefix* is a string of up to two characters that represents all text before a position. A scan that begins with the prefix finds the
    same records after this position as a scan that begins with all the text before it.
    """

    def scan(self, data: bytes, at_end: bool) -> ScanT:
        """See `Scan`."""
        ...

    def prefixes(self, previous: bytes) -> Sequence[bytes]:
        """All prefixes that a position can have if the byte before it is `previous`."""
        ...

    def prefix_after(self, data: bytes, records: ScanT) -> bytes:
        """The prefix of the position after `data`. `records` is the scan of `data`."""
        ...


@dataclass(frozen=True)
class CellUnits:
    """The units that begin in a cell, for one state in which the text before the cell can end."""

    offsets: Sequence[int]
    sizes: Sequence[int]
    """Each unit extends from the start of its first record to the end of its last record, which can be after the end of the cell."""
    records: Sequence[int]
    lines: Sequence[int]
    """For each unit, the number of line ends between the start of the cell and the unit."""
    line_ends: int
    """The number of line ends in the cell."""
    prefix: bytes | None
    """The prefix of the next cell, or None if there is no next cell or if a fault ended the scan."""
    fault: tuple[Fault, int] | None = None
    """The fault that ended the scan, and the number of line ends between the start of the cell and the fault."""


def scan_cell(
    source: Input, entry: Entry, rule: ScansCells[ScanT], *, begin: int, end: int, is_start: bool, ahead: bool
) -> Mapping[bytes, CellUnits]:
    """Returns the units that begin between the offsets `begin` and `end`, for each prefix.

    `is_start` means that a record begins at `begin`. The only prefix is then the empty string. Continues reading after `end`, up to the end
    of the last record. `ahead` reads the next bytes in advance.
    """
    before = 0 if is_start else 1
    ended: list[_Track[ScanT]] = []
    with closing(
        ForwardReader(source, entry.uri, compression=None, offset=begin - before, length=end - begin + before, ahead=ahead)
    ) as forward:
        prefixes = rule.prefixes(forward.read(1)) if before else [b""]
        tracks = [_Track(rule, prefix, begin, end) for prefix in prefixes]
        position, length = begin, min(_FIRST_BYTES, stretches.UNIT_BYTES)
        is_last = False
        while not is_last:
            end_if_not_needed()
            piece = forward.read(min(length, end - position))
            is_complete = len(piece) == min(length, end - position)
            position += len(piece)
            at_end = position >= entry.size or not is_complete
            is_last = at_end or position == end
            for track in tracks:
                track.advance(piece, at_end=at_end)
                if is_last:
                    track.end_cell(at_end=at_end)
            ended += (track for track in tracks if track.is_done)
            tracks = _distinct(track for track in tracks if not track.is_done)
            length = stretches.UNIT_BYTES
    _read_on(source, entry, tracks, position)
    return {prefix: units for track in (*ended, *tracks) for prefix, units in track.results()}


def _read_on(source: Input, entry: Entry, tracks: Sequence["_Track[ScanT]"], position: int) -> None:
    """Continues reading to the end of the last record that begins in a cell."""
    length = min(_FIRST_BYTES, stretches.UNIT_BYTES)
    while unfinished := [track for track in tracks if not track.is_done]:
        piece = source.read_at(position, min(length, max(0, entry.size - position)))
        position += len(piece)
        at_end = position >= entry.size or not piece
        for track in unfinished:
            track.advance(piece, at_end=at_end)
        length = min(2 * length, stretches.UNIT_BYTES)


@dataclass
class _Units:
    """The units that one or several scans of a cell find. The unit with the key n begins at the first record at or after n * UNIT_BYTES."""

    prefix: bytes
    units: dict[int, list[int]] = field(default_factory=dict)
    """For each unit: its offset, its end, its number of records, and the number of line ends before it."""

    def add(self, starts: Numbers, ends: Numbers, lines: Callable[[int], int]) -> None:
        """Adds records in order. `lines(number)` returns the number of line ends before a record."""
        first, last = int(starts[0]) // stretches.UNIT_BYTES, int(starts[-1]) // stretches.UNIT_BYTES
        bounds = np.searchsorted(starts, np.arange(first, last + 2) * stretches.UNIT_BYTES)
        for number, (low, high) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True), start=first):
            if low == high:
                continue
            unit = self.units.setdefault(number, [int(starts[low]), 0, 0, lines(low)])
            unit[1] = int(ends[high - 1])
            unit[2] += high - low


class _Track(Generic[ScanT]):
    """One scan of a cell, for one prefix or for several prefixes whose scans have reached the same record."""

    def __init__(self, rule: ScansCells[ScanT], prefix: bytes, begin: int, end: int) -> None:
        self.found = [_Units(prefix)]
        self.is_done = False
        self._rule = rule
        self._end = end
        self._pending = prefix
        self._guessed = len(prefix)
        """The length of the prefix at the start of `_pending`, or 0 once the scan has reached a record that began in the cell."""
        self.position = begin - len(prefix)
        """The offset of the first byte of `_pending`."""
        # A line end in the prefix isn't counted, because it belongs to the text before the cell.
        self._line_ends = -1 if prefix == b"\n" else 0
        self._waiting: list[bytes] = []
        """For a long record in progress, the bytes that follow `_pending`. The record doesn't end in these bytes either."""
        self._read: tuple[int, bytes] = (self._line_ends, prefix)
        """The number of line ends in the cell up to the latest bytes, and the prefix of the position after these bytes."""
        self._in_cell: tuple[int, bytes | None] = (0, None)
        self._is_after_cell = False
        self._fault: tuple[Fault, int] | None = None

    @property
    def is_at_record(self) -> bool:
        """Whether the scan has found the start of a record or of a blank line.

        From there on, the text before the cell no longer matters.
        """
        return not self._guessed

    def advance(self, piece: bytes, *, at_end: bool) -> None:
        """Scans the next bytes."""
        while not self.is_done:
            room = len(piece) if self._guessed else stretches.LONGEST_RECORD - self._length
            self._step(piece[:room], at_end=at_end and len(piece) <= room)
            piece = piece[room:]
            if not piece:
                return

    def end_cell(self, *, at_end: bool) -> None:
        """Called when all bytes of the cell have been scanned."""
        if self._is_after_cell or self._fault is not None:
            return
        line_ends, prefix = self._read
        self._in_cell = line_ends, None if at_end else prefix
        self._is_after_cell = True
        self.is_done = at_end or bool(self._guessed) or not self._pending

    def join(self, other: "_Track[ScanT]") -> None:
        """Takes over the prefixes of another scan that is at the same record."""
        self.found += other.found

    def results(self) -> Iterator[tuple[bytes, CellUnits]]:
        """Yields the units for each prefix."""
        for found in self.found:
            units = [found.units[number] for number in sorted(found.units)]
            yield (
                found.prefix,
                CellUnits(
                    offsets=[offset for offset, _, _, _ in units],
                    sizes=[end - offset for offset, end, _, _ in units],
                    records=[records for _, _, records, _ in units],
                    lines=[lines for _, _, _, lines in units],
                    line_ends=self._in_cell[0],
                    prefix=self._in_cell[1] if self._fault is None else None,
                    fault=self._fault,
                ),
            )

    @property
    def _length(self) -> int:
        """The number of bytes read so far of a record whose end isn't known yet."""
        return len(self._pending) + sum(map(len, self._waiting))

    def _step(self, piece: bytes, *, at_end: bool) -> None:
        if not at_end and self._continues(piece):
            return
        self._waiting.append(piece)
        data = b"".join([self._pending, *self._waiting])
        self._waiting.clear()
        records = self._rule.scan(data, at_end)
        if at_end and self._stops_at_quote(records):
            return
        self._add(records)
        read = self._line_ends + records.lines_before(len(data))
        self._read = read, self._rule.prefix_after(data, records)
        if records.size:
            self._pending, self._guessed = data[records.size :], 0
            self._line_ends += records.lines_before(records.size)
            self.position += records.size
        elif self._guessed:
            # Keep only the prefix, so that a long record that began before the cell takes no memory.
            self._pending = self._read[1]
            self._guessed = len(self._pending)
            self._line_ends = read
            self.position += len(data) - self._guessed
        else:
            self._pending = data
            if len(data) > stretches.LARGE_RECORD:
                continue_alone()
            if len(data) >= stretches.LONGEST_RECORD and not at_end:
                self._stop("LongRecord", self._line_ends)
        self.is_done = self.is_done or at_end or (self._is_after_cell and records.size > 0)

    def _continues(self, piece: bytes) -> bool:
        """Whether the next bytes only continue a long record, without reaching its end.

        This check scans only the next bytes. They are scanned again when the end of the record is known.
        """
        is_long = not self._guessed and len(self._pending) >= min(_FIRST_BYTES, stretches.UNIT_BYTES)
        if not is_long or self._length + len(piece) >= stretches.LONGEST_RECORD:
            return False
        if self._length > stretches.LARGE_RECORD:
            continue_alone()
        line_ends, prefix = self._read
        data = prefix + piece
        records = self._rule.scan(data, False)
        if records.size > 0:
            return False
        self._waiting.append(piece)
        self._read = line_ends + records.lines_before(len(data)), self._rule.prefix_after(data, records)
        return True

    def _add(self, records: ScanT) -> None:
        """Adds the records that begin in the cell."""
        low, high = np.searchsorted(records.starts, (self._guessed, self._end - self.position)).tolist()
        if low >= high:
            return
        starts, line_ends = records.starts[low:high], self._line_ends
        for found in self.found:
            found.add(
                starts + self.position,
                records.ends[low:high] + self.position,
                lambda number: line_ends + records.lines_before(int(starts[number])),
            )

    def _stops_at_quote(self, records: ScanT) -> bool:
        """Whether a record that begins in the cell has a quote that is never closed. If so, the scan ends."""
        place = records.unclosed_quote()
        if place is None or not len(records) or not self._guessed <= records.starts[-1] < self._end - self.position:
            return False
        self._stop("OpenQuote", self._line_ends + records.lines_before(place))
        return True

    def _stop(self, fault: Fault, line_ends: int) -> None:
        self._fault = fault, line_ends
        self.is_done = True


def _distinct(tracks: Iterable[_Track[ScanT]]) -> list[_Track[ScanT]]:
    """The scans, after joining all scans that are at the same record."""
    distinct: dict[int, _Track[ScanT]] = {}
    guessing: list[_Track[ScanT]] = []
    for track in tracks:
        if not track.is_at_record:
            guessing.append(track)
        elif track.position in distinct:
            distinct[track.position].join(track)
        else:
            distinct[track.position] = track
    return [*distinct.values(), *guessing]
