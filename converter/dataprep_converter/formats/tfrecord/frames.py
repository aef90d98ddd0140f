"""Find the records of TFRecord files. Planning finds offsets by reading only headers. Workers read and check stretches of records.

A length or a payload is used only if its CRC is correct.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from dataprep_converter.core.errors import BadData
from dataprep_converter.core.framing import FOOTER, HEADER, mask
from dataprep_converter.core.native import broken
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Entry

_LENGTH: Final = struct.Struct("<QI")
_KNOWN_HEADERS: Final = 1 << 16

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive complete records of a file that are parsed together."""

    offset: int
    """The offset of the first record's header in the uncompressed file."""
    size: int
    first: int
    """The number of the first record within the file."""
    records: int

    def values(self) -> list[int]:
        """Return the values of the fields, in order."""
        return [self.offset, self.size, self.first, self.records]

    def unit(self, root: int, path: str, entry: Entry, *, subset: str = "", extra: str = "") -> Unit:
        """Return the unit that consists of this stretch of the file."""
        return Unit(
            root=root,
            path=path,
            uri=entry.uri,
            records=self.records,
            size=self.size,
            pin=entry.pin,
            subset=subset,
            offset=self.offset,
            row=self.first,
            extra=extra,
        )


def stretches(read_at: Callable[[int, int], bytes], uri: str, *, window: int, most: int) -> Iterator[Stretch]:
    """Yield the records of a file in stretches of at most `most` bytes. A record larger than `most` becomes a separate stretch.

    The file is read `window` bytes at a time, and payloads are skipped where possible. Raises BadData, naming the file and the offset, for
    a damaged header and for a file that ends within a record.
    """
    begin = first = count = end = 0
    for offset, length in _headers(read_at, uri, window=window):
        end = offset + HEADER + length + FOOTER
        if count and end - begin > most:
            yield Stretch(begin, offset - begin, first, count)
            begin, first, count = offset, first + count, 0
        count += 1
    if count:
        yield Stretch(begin, end - begin, first, count)


def _headers(read_at: Callable[[int, int], bytes], uri: str, *, window: int) -> Iterator[tuple[int, int]]:
    """Yield (offset, data length) for every record. If no error is raised, the last record is complete."""
    headers = _Headers(uri)
    offset = latest = length = 0
    while True:
        # Each read begins with the footer of the previous record: if the footer is there, that record is complete.
        behind = FOOTER if offset else 0
        data = read_at(offset - behind, window + behind)
        if len(data) < behind:
            raise _truncated(length, latest, uri)
        at = behind
        while len(data) - at >= HEADER:
            latest = offset - behind + at
            length = headers.length(data, at, latest)
            yield latest, length
            at += HEADER + length + FOOTER
        if len(data) < window + behind:
            if at > len(data):
                raise _truncated(length, latest, uri)
            if at < len(data):
                raise _broken(f"truncated length ({len(data) - at} of {HEADER} bytes)", offset - behind + at, uri)
            return
        offset += at - behind
        del data  # before the next window is read


class _Headers:
    """Reads lengths from headers. Each distinct header is checked only once, because most files have few distinct headers."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._lengths: dict[bytes, int] = {}

    def length(self, data: bytes, at: int, offset: int) -> int:
        """Return the length in the header at `data[at:]`, which is at `offset` in the file. Raises BadData."""
        head = data[at : at + HEADER]
        length = self._lengths.get(head)
        if length is None:
            length, crc = _LENGTH.unpack(head)
            if mask(crc32c(head[:8])) != crc:
                raise _broken("bad length CRC" if offset else "bad length CRC (is it a TFRecord file?)", offset, self._uri)
            if len(self._lengths) < _KNOWN_HEADERS:
                self._lengths[head] = length
        return length


def payloads(data: bytes, uri: str, offset: int) -> tuple[Places, Places]:
    """Check both CRCs of each record in a planned stretch. Return where the records' payloads begin and end.

    Raises BadData, naming the file and the offset.
    """
    starts, ends = _places(data, uri, offset)
    wrong = broken(np.frombuffer(data, np.uint8), starts, ends)
    if len(wrong):
        raise _broken("bad data CRC", offset + int(starts[wrong[0]]) - HEADER, uri)
    return starts, ends


def _places(data: bytes, uri: str, offset: int) -> tuple[Places, Places]:
    headers = _Headers(uri)
    first = HEADER + headers.length(data, 0, offset) + FOOTER
    if len(data) % first == 0:
        heads = np.frombuffer(data, np.uint8).reshape(-1, first)[:, :HEADER]
        if (heads == heads[0]).all():
            starts = np.arange(HEADER, len(data), first, dtype=np.int64)
            return starts, starts + (first - HEADER - FOOTER)
    # The loop runs once per record, so its body must be fast. `sizes` maps the bytes of a header to the size of the complete record.
    sizes: dict[bytes, int] = {}
    begins: list[int] = []
    at = 0
    while at < len(data):
        begins.append(at)
        head = data[at : at + HEADER]
        if head not in sizes:
            sizes[head] = HEADER + headers.length(data, at, offset + at) + FOOTER
        at += sizes[head]
    bounds = np.array([*begins, at], np.int64)
    return bounds[:-1] + HEADER, bounds[1:] - FOOTER


def _broken(fault: str, offset: int, uri: str) -> BadData:
    return BadData(f"{uri}: {fault} at offset {offset}.", uri=uri)


def _truncated(length: int, offset: int, uri: str) -> BadData:
    return BadData(f"{uri}: truncated record at offset {offset}: it has {length:,} bytes of data, but the file ends before that.", uri=uri)
