"""Finds where lines begin and end.

A line ends with \\n or \\r\\n. The last line of a file needs no line end. The byte order mark of a UTF-8 file is not part of the first
line.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dataprep_converter.core import native

LIMIT: Final = "a line of more than {} MiB; is the file not text?"
"""The message for a line that is too long."""
_BLANKS: Final = b" \t\r\n"
_IS_BLANK: Final = np.isin(np.arange(256), np.frombuffer(_BLANKS, np.uint8))


@dataclass(frozen=True)
class Lines:
    """The lines of a text, which begins at the start of a line."""

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    """For each line, the position at which it ends: the start of the next line, a separator, or the end of the text."""
    size: int
    """The number of bytes up to the end of the last complete line."""
    feeds: npt.NDArray[np.int64]
    """The positions of all \\n."""

    def __len__(self) -> int:
        return len(self.starts)

    def unclosed_quote(self) -> None:
        """None, because lines have no quotes to close."""

    def lines_before(self, place: int) -> int:
        """The number of line ends before a position."""
        return int(np.searchsorted(self.feeds, place))

    def lines_before_each(self) -> npt.NDArray[np.int64]:
        """The number of line ends before each record."""
        return np.searchsorted(self.feeds, self.starts)


def scan(data: bytes, at_end: bool, *, skip_blank: bool) -> Lines:
    """The complete lines of `data`. If `at_end`, the last line needs no line end. A blank line is empty or has only spaces and tabs."""
    text = np.frombuffer(data, np.uint8)
    feeds = native.places_of(data, ord("\n"))
    size = len(data) if at_end else int(feeds[-1]) + 1 if len(feeds) else 0
    ends = feeds + 1
    if size > (int(ends[-1]) if len(ends) else 0):
        ends = np.append(ends, size)
    starts = np.concatenate((np.zeros(1, np.int64), ends))[: len(ends)]
    # Check only lines whose first character is white space, because only they can be blank.
    if skip_blank and len(starts) and _IS_BLANK[text[starts]].any():
        has_text = np.logical_or.reduceat(~_IS_BLANK[text[:size]], starts)
        starts, ends = starts[has_text], ends[has_text]
    return Lines(starts=starts, ends=ends, size=size, feeds=feeds)


def not_utf8(data: bytes, lines: Lines) -> dict[int, str]:
    """Maps the index of each line that is not UTF-8 to a reason that names the first invalid byte. Decodes each line, so call this function
    only if the text as a whole is not UTF-8."""
    faults: dict[int, str] = {}
    for number, (start, end) in enumerate(zip(lines.starts.tolist(), lines.ends.tolist(), strict=True)):
        try:
            data[start:end].decode()
        except UnicodeDecodeError as exc:
            faults[number] = f"not UTF-8 (byte 0x{exc.object[exc.start]:02x} after {exc.start} others)"
    return faults


def with_lines(reasons: dict[int, str], lines: Lines, line: int) -> dict[int, str]:
    """The reasons, each with the record's line number in front. `line` is the line number of the text's first byte."""
    return {number: f"line {line + lines.lines_before(int(lines.starts[number]))}: {reason}" for number, reason in reasons.items()}
