"""Splits text files into stretches. A stretch is a part of about 4 MiB that contains complete records. Subclasses define and parse the
records.

Each stretch of a plain file is a unit. A compressed or UTF-16 file is a single unit, and its stretches are found while it is read. If its
records are requested out of order, they are read from an unlinked temporary copy of the uncompressed file.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import BadData, InputChanged
from dataprep_converter.core.lru import LruCache
from dataprep_converter.core.tensors import to_arrow
from dataprep_converter.formats.tfrecord import frames
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.compressions import MAGIC_BYTES, Compression, compression_of
from dataprep_converter.inputs.encodings import Encoding, in_utf8
from dataprep_converter.inputs.pinned import ForwardReader, InputCopy
from dataprep_converter.readers import LINE
from dataprep_converter.readers.base.blocks import KEPT_BLOCKS, Block, BlockReader, FolderColumns
from dataprep_converter.records.batch import Raw
from dataprep_converter.runtime.ahead import continue_alone, end_if_not_needed
from dataprep_converter.sampling.units import Unit, Units
from dataprep_converter.stores import Entry, Input

UNIT_BYTES: Final = 4 << 20
LONGEST_RECORD: Final = 64 << 20
LARGE_RECORD: Final = 2 * UNIT_BYTES
"""Scanning a larger record takes up to several hundred MiB of memory, so only one such scan runs at a time (`continue_alone`)."""
BOM: Final = b"\xef\xbb\xbf"


class RecordScan(Protocol):
    """The complete records at the start of a text. The length of this object is the number of complete records."""

    @property
    def size(self) -> int:
        """The number of bytes up to the end of the last record."""
        ...

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """The position of each record's first byte."""
        ...

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """For each record, a position between the end of the record and the start of the next one."""
        ...

    def __len__(self) -> int: ...

    def unclosed_quote(self) -> int | None:
        """The position of a quote that is never closed, or None. Meaningful only for a complete text, because more text could close the
        quote."""
        ...

    def lines_before(self, place: int) -> int:
        """The number of line ends before a position."""
        ...

    def lines_before_each(self) -> npt.NDArray[np.int64]:
        """The number of line ends before each record."""
        ...


Scan: TypeAlias = Callable[[bytes, bool], RecordScan]
"""Finds the complete records in bytes that begin at the start of a record. If the bytes reach the end of the file, the last record needs no
line end."""


class Parse(Protocol):
    """Parses the records of a stretch."""

    def __call__(self, data: bytes, *, records: int, line: int, uri: str) -> Block:
        """Parses the records. The stretch begins on line `line`. Raises InputChanged if the number of records isn't `records`."""
        ...


@dataclass(frozen=True)
class Reading:
    """How the text of a unit is read. The planner must have split the files into units with the same `scan`."""

    scan: Scan
    parse: Parse


@dataclass(frozen=True)
class Stretch(frames.Stretch):
    """A part of a text file that has complete records."""

    line: int
    """The line number of the first byte. Lines are numbered from 1."""


def compression_in(source: Input) -> Compression | None:
    """The compression of a file, determined from its first bytes."""
    return compression_of(source.read_at(0, MAGIC_BYTES))


def open_forward(
    source: Input, entry: Entry, encoding: Encoding | None, *, ahead: bool, first: int | None = None
) -> closing[ForwardReader]:
    """Opens the file for reading from its beginning. See `ForwardReader` for `ahead` and `first`.

    A byte order mark takes precedence over `encoding`. If `encoding` is None, the text isn't converted.
    """
    compression = compression_in(source)
    return closing(ForwardReader(source, entry.uri, compression=compression, encoding=encoding, obeys_mark=True, ahead=ahead, first=first))


def long_record(uri: str, line: int, limit: str) -> BadData:
    """The error for a record of more than LONGEST_RECORD bytes.

    `limit` is the template of its message, such as "a row of more than {} MiB".
    """
    return BadData(f"{uri}, line {line}: {limit.format(LONGEST_RECORD >> 20)}", uri=uri)


def open_quote(uri: str, line: int) -> BadData:
    """The error for a quote on line `line` that is still open at the end of the file."""
    return BadData(f"{uri}, line {line}: a quote is never closed.", uri=uri)


def cut(forward: ForwardReader, first_bytes: bytes, *, line: int, scan: Scan, uri: str, limit: str) -> Iterator[tuple[Stretch, bytes]]:
    """Divides the rest of a file into stretches. Yields each stretch with a piece of text that begins with the stretch.

    `first_bytes` is the part of the rest that has already been read, and begins on line `line`. Raises BadData for a record of more than
    LONGEST_RECORD bytes, with the message `limit`, such as "a row of more than {} MiB". Also raises BadData for a quote that is still open
    at the end of the file, because all rows after it would become one record.
    """
    data = first_bytes
    first = 0
    length = UNIT_BYTES
    while True:
        end_if_not_needed()
        data = forward.read(max(0, length - len(data)), after=data)
        at_end = len(data) < length
        records = scan(data, at_end)
        if records.size == 0 and not at_end:
            if len(data) >= LONGEST_RECORD:
                raise long_record(uri, line, limit)
            if length >= LARGE_RECORD:
                continue_alone()
            length *= 2
            continue
        if at_end and (place := records.unclosed_quote()) is not None:
            raise open_quote(uri, line + records.lines_before(place))
        if len(records):
            yield Stretch(forward.position - len(data), records.size, first, len(records), line), data
        first += len(records)
        line += records.lines_before(records.size)
        data = data[records.size :]
        length = UNIT_BYTES
        if at_end:
            return


class StretchReader(BlockReader):
    """A `BlockReader` of text. A subclass implements `scan` and `parse`."""

    def __init__(self, access: Access, folders: FolderColumns | None = None) -> None:
        super().__init__(access, folders)
        self._whole_files: LruCache[str, _WholeFile] = self._files.views(close=_WholeFile.close)
        self._lines: LruCache[tuple[str, int], npt.NDArray[np.int64]] = LruCache(KEPT_BLOCKS)
        self._lines_were_asked_for = False

    def scan(self, data: bytes, at_end: bool) -> RecordScan:
        """Finds records; see `Scan`. The planner must have split the files into units with the same function."""
        raise NotImplementedError

    def parse(self, data: bytes, *, records: int, line: int, uri: str) -> Block:
        """Parses the records of a stretch that begins on line `line`. Raises InputChanged if the number of records isn't `records`."""
        raise NotImplementedError

    def reading_of(self, extra: Mapping[str, Any]) -> "Reading":
        """How a unit is scanned and parsed. `extra` is the parsed JSON of the unit's `extra`."""
        del extra
        return Reading(self.scan, self.parse)

    def number_lines(self) -> None:
        """Adds the column LINE to all batches, with the number of the line on which each record begins. Must be called before the first
        batch is read."""
        self._added = [pa.field(LINE, pa.int64())]

    def load(self, unit: Unit, source: Input) -> Block:
        """Reads and parses a stretch of a plain file."""
        data = source.read_at(unit.offset, unit.size)
        if len(data) != unit.size:
            raise InputChanged(f"{unit.uri} shrank while it was being read.", uri=unit.uri)
        extra = json.loads(unit.extra)
        reading = self.reading_of(extra)
        block = reading.parse(in_utf8(data, _encoding_in(extra)), records=unit.records, line=extra["line"], uri=unit.uri)
        return self._with_lines(_with_raws(block, data, reading.scan), data, reading.scan, extra["line"])

    def parts(self, unit: Unit, source: Input, rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, Block]]:
        """Yields the unit as a single block for a plain file, or the stretches that contain `rows` for a compressed file."""
        extra = json.loads(unit.extra)
        if not _is_whole(extra):
            yield from super().parts(unit, source, rows)
            return
        file = self._whole_files.get(unit.uri, partial(_WholeFile, source, unit.uri, extra, self.reading_of(extra)))
        for stretch in file.stretches(rows):
            yield stretch.first, self.cached_block(unit, stretch.offset, stretch.first, partial(self._parse_stretch, unit, file, stretch))

    def lines(self, units: Units, samples: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The number of the line on which each sample begins. Lines are numbered from 1. Reads and scans the stretches again, except for
        the most recent ones."""
        # From now on, store the line numbers while a compressed file is parsed, because going back in the file is expensive.
        self._lines_were_asked_for = True
        index, rows = units.locate(samples)
        line_numbers = np.zeros(len(samples), np.int64)
        for number in np.unique(index).tolist():
            unit = units.unit(number)
            positions = np.flatnonzero(index == number)
            for first, lines in self._lines_of(unit, rows[positions]):
                within = rows[positions] - first
                inside = (within >= 0) & (within < len(lines))
                line_numbers[positions[inside]] = lines[within[inside]]
        return line_numbers

    def _lines_of(self, unit: Unit, rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """For each stretch that contains at least one of the given rows, yields a pair: the number of the stretch's first row, and the line
        numbers of all its rows."""
        extra = json.loads(unit.extra)
        source = self._file(unit)
        if not _is_whole(extra):
            yield (
                0,
                self._lines.get(
                    (unit.uri, unit.offset),
                    lambda: _number_lines(self.reading_of(extra).scan, source.read_at(unit.offset, unit.size), extra["line"]),
                ),
            )
            return
        file = self._whole_files.get(unit.uri, partial(_WholeFile, source, unit.uri, extra, self.reading_of(extra)))
        for stretch in file.stretches(rows):
            yield stretch.first, self._lines.get((unit.uri, stretch.offset), partial(self._lines_in, file, stretch))

    def _lines_in(self, file: "_WholeFile", stretch: Stretch) -> npt.NDArray[np.int64]:
        return _number_lines(file.reading.scan, file.data(stretch), stretch.line)

    def _parse_stretch(self, unit: Unit, file: "_WholeFile", stretch: Stretch) -> Block:
        data = file.data(stretch)
        if self._lines_were_asked_for:
            self._lines.get((unit.uri, stretch.offset), lambda: _number_lines(file.reading.scan, data, stretch.line))
        scan = file.reading.scan
        block = file.reading.parse(in_utf8(data, file.encoding), records=stretch.records, line=stretch.line, uri=unit.uri)
        return self._with_lines(_with_raws(block, data, scan), data, scan, stretch.line)

    def _with_lines(self, block: Block, data: bytes, scan: Scan, line: int) -> Block:
        """Returns the block. If `number_lines` has been called, adds the line of each good row. The stretch begins on line `line`."""
        if not self._added:
            return block
        lines = to_arrow(_number_lines(scan, data, line)[block.places >= 0])
        columns = [*block.records.columns, lines]
        return replace(block, records=pa.RecordBatch.from_arrays(columns, schema=pa.schema([*block.records.schema, *self._added])))


def _number_lines(scan: Scan, data: bytes, line: int) -> npt.NDArray[np.int64]:
    """The line number of each record in a stretch that begins on line `line`."""
    return line + scan(data, True).lines_before_each()


def _with_raws(block: Block, data: bytes, scan: Scan) -> Block:
    """The block with the text of its bad records added."""
    if not block.reasons:
        return block
    records = scan(data, True)
    spans = {row: data[int(records.starts[row]) : int(records.ends[row])] for row in block.reasons}
    return replace(block, raws={row: Raw.of(span.rstrip(b"\r\n")) for row, span in spans.items()})


def _is_whole(extra: Mapping[str, Any]) -> bool:
    """Whether a unit is a complete file, whose stretches are found while it is read."""
    return bool(extra.get("gzip")) or "compression" in extra


def _encoding_in(extra: Mapping[str, Any]) -> Encoding:
    encoding: Encoding = extra.get("encoding", "Utf8")
    return encoding


class _WholeFile(Closeable):
    """An open file that is a single unit, together with the file's stretches."""

    def __init__(self, source: Input, uri: str, extra: Mapping[str, Any], reading: Reading) -> None:
        self._source = source
        self._uri = uri
        self._compression: Compression | None = "gzip" if extra.get("gzip") else extra["compression"]
        self.encoding = _encoding_in(extra)
        self.reading = reading
        self._forward = ForwardReader(source, uri, compression=self._compression, encoding=self.encoding)
        self._forward.skip_to(extra["start"])
        self._ahead = cut(self._forward, b"", line=extra["line"], scan=reading.scan, uri=uri, limit="a record of more than {} MiB.")
        self._stretches: list[Stretch] = []
        self._latest: tuple[Stretch, bytes] | None = None
        self._spool: InputCopy | None = None

    def stretches(self, rows: npt.NDArray[np.int64]) -> Iterator[Stretch]:
        """Yields the stretches that contain the given rows, each stretch once."""
        # Yield the known stretches before reading on. Otherwise, the stretch that was read last would have to be read again.
        end = self._stretches[-1].first + self._stretches[-1].records if self._stretches else 0
        firsts = np.array([stretch.first for stretch in self._stretches])
        for number in np.unique(np.searchsorted(firsts, rows[rows < end], side="right") - 1).tolist():
            yield self._stretches[number]
        remaining = rows[rows >= end]
        while len(remaining):
            stretch = self._next_stretch()
            inside = remaining < stretch.first + stretch.records
            if inside.any():
                yield stretch
                remaining = remaining[~inside]

    def data(self, stretch: Stretch) -> bytes:
        """The bytes of the stretch, uncompressed, and converted to UTF-8 if the file is UTF-16."""
        if self._latest is not None and self._latest[0] == stretch:
            return self._latest[1]
        if self._spool is None:
            self._spool = InputCopy(ForwardReader(self._source, self._uri, compression=self._compression, encoding=self.encoding))
        return self._spool.read_at(stretch.offset, stretch.size)

    def close(self) -> None:
        """Stops reading and removes the temporary copy."""
        self._forward.close()
        if self._spool is not None:
            self._spool.close()

    def _next_stretch(self) -> Stretch:
        stretch, data = next(self._ahead, (None, b""))
        if stretch is None:
            raise InputChanged(f"{self._uri} has fewer records than were planned.", uri=self._uri)
        self._latest = stretch, data[: stretch.size]
        self._stretches.append(stretch)
        return stretch
