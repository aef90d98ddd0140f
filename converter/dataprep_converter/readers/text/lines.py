"""Finds where lines begin and end, and plans sources whose records are lines.

A line ends with \\n or \\r\\n; the last one of a file needs no end. A byte order mark of a UTF-8 file is not part of the first line.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from dataprep_converter.core import native
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.base.listing import input_files
from dataprep_converter.readers.text.stretches import BOM, cut, opened, units_of
from dataprep_converter.sampling.units import Unit

_LIMIT: Final = "a line of more than {} MiB; is the file no text?"
_BLANKS: Final = b" \t\r\n"
_IS_BLANK: Final = np.isin(np.arange(256), np.frombuffer(_BLANKS, np.uint8))


@dataclass(frozen=True)
class Lines:
    """The lines of some text that begins at a line's start."""

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    """Where the next line begins, or the text ends."""
    size: int
    """Bytes up to the end of the last whole line."""
    feeds: npt.NDArray[np.int64]
    """Every \\n."""

    def __len__(self) -> int:
        return len(self.starts)

    def unclosed(self) -> None:
        """A line has nothing to close."""

    def lines_before(self, place: int) -> int:
        """Line ends before a place."""
        return int(np.searchsorted(self.feeds, place))

    def lines_before_each(self) -> npt.NDArray[np.int64]:
        """Line ends before each record."""
        return np.searchsorted(self.feeds, self.starts)


def scan(data: bytes, at_end: bool, *, skip_blank: bool) -> Lines:
    """The whole lines of `data`; the last one needs no end when `at_end`. A blank line has spaces and tabs at most."""
    text = np.frombuffer(data, np.uint8)
    feeds = native.places_of(data, ord("\n"))
    size = len(data) if at_end else int(feeds[-1]) + 1 if len(feeds) else 0
    ends = feeds + 1
    if size > (int(ends[-1]) if len(ends) else 0):
        ends = np.append(ends, size)
    starts = np.concatenate((np.zeros(1, np.int64), ends))[: len(ends)]
    # Only a line that begins with a blank can be one.
    if skip_blank and len(starts) and _IS_BLANK[text[starts]].any():
        has_text = np.logical_or.reduceat(~_IS_BLANK[text[:size]], starts)
        starts, ends = starts[has_text], ends[has_text]
    return Lines(starts=starts, ends=ends, size=size, feeds=feeds)


def line_units(access: Access, uris: Sequence[str], *, skip_blank: bool, skip_mark: bool) -> Iterator[Unit]:
    """The units of files of lines. Reads every file once. Raises NotFound, and BadData for a line beyond all bounds."""
    for root, path, entry in input_files(access, uris):
        with access.store(entry.uri).open(entry.uri) as source, opened(source, entry) as forward:
            begun = forward.read(len(BOM))
            begun = b"" if skip_mark and begun == BOM else begun
            found = cut(forward, begun, line=1, scan=partial(scan, skip_blank=skip_blank), uri=entry.uri, limit=_LIMIT)
            yield from units_of(root, path, entry, found, zipped=forward.zipped)


def not_utf8(data: bytes, lines: Lines) -> dict[int, str]:
    """The lines that are not UTF-8, with the first byte at fault. Looks at each, so ask only when the whole is not."""
    faults: dict[int, str] = {}
    for number, (start, end) in enumerate(zip(lines.starts.tolist(), lines.ends.tolist(), strict=True)):
        try:
            data[start:end].decode()
        except UnicodeDecodeError as exc:
            faults[number] = f"not UTF-8 (byte 0x{exc.object[exc.start]:02x} after {exc.start} others)"
    return faults


def with_lines(reasons: dict[int, str], lines: Lines, line: int) -> dict[int, str]:
    """The reasons with the line of each record; `line` is that of the first byte."""
    return {number: f"line {line + lines.lines_before(int(lines.starts[number]))}: {reason}" for number, reason in reasons.items()}
