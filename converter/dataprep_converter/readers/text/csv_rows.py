"""Finds where the rows of CSV text begin and end. Treats all quotes and line ends exactly like Arrow's parser.

A row ends at \\n, \\r\\n or \\r outside quotes. Blank lines are not rows. A quote opens a quoted cell only at the start of the cell. Inside
a quoted cell, a doubled quote is a literal quote; elsewhere a quote is text. A line end is therefore inside quotes if an odd number of
opening and closing quotes come before it.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dataprep_converter.core import native

_LINE_FEED: Final = 10
_RETURN: Final = 13

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """The rows of a text, which begins at the start of a row."""

    starts: Places
    stops: Places
    """The position at which each row ends, before its line end."""
    ends: Places
    """The position after each row and its line end."""
    size: int
    """The number of bytes up to the end of the last complete row, including blank lines."""
    line_ends: Places
    """The positions of all line ends, including those inside quotes, for counting lines."""
    quotes: Places
    """The positions of all quotes that open or close a cell.

    May include the two quotes of a doubled quote. If a complete text has a quote that is never closed, no quotes after it are included.
    """

    def __len__(self) -> int:
        return len(self.starts)

    def unclosed_quote(self) -> int | None:
        """The position of a quote that is never closed. The position is meaningful only for a complete text, because more text could close
        the quote."""
        return int(self.quotes[-1]) if len(self.quotes) % 2 else None

    def lines_before(self, place: int) -> int:
        """The number of line ends before a position."""
        return int(np.searchsorted(self.line_ends, place))

    def lines_before_each(self) -> npt.NDArray[np.int64]:
        """The number of line ends before each row."""
        return np.searchsorted(self.line_ends, self.starts)


def scan(data: bytes, *, delimiter: str, quote: str, at_end: bool) -> Rows:
    """The complete rows of `data`. If `at_end`, the last row needs no line end."""
    text = np.frombuffer(data, np.uint8)
    line_ends = _line_ends(data, text, at_end=at_end)
    quotes = _quotes(data, text, delimiter=ord(delimiter), quote=ord(quote))
    ends = line_ends[np.searchsorted(quotes, line_ends) % 2 == 0] if len(quotes) else line_ends
    starts = np.concatenate((np.zeros(1, np.int64), ends + 1))
    if at_end and len(quotes) % 2:
        quotes = _without_doubled(data, quotes, row=int(starts[-1]), delimiter=ord(delimiter), quote=ord(quote))
    after, stops = ends + 1, ends
    if len(ends) and b"\r" in data:
        # In \r\n, the \n is the row's end, and the \r is not part of the row.
        stops = ends - ((text[ends] == _LINE_FEED) & (ends > starts[:-1]) & (text[ends - 1] == _RETURN))
    if at_end:
        after, stops = np.append(after, len(data)), np.append(stops, len(data))
    else:
        starts = starts[:-1]
    size = len(data) if at_end else int(ends[-1]) + 1 if len(ends) else 0
    has_text = stops > starts
    return Rows(starts=starts[has_text], stops=stops[has_text], ends=after[has_text], size=size, line_ends=line_ends, quotes=quotes)


def prefixes(previous: bytes, *, delimiter: str, quote: str) -> list[bytes]:
    """The prefixes (see `ScansCells`) of a position after the byte `previous`.

    There are up to three cases: the position is outside quotes; inside quotes; or directly after a quote, which closes the cell if no other
    quote follows.
    """
    mark = quote.encode()
    closed = [mark + mark] if previous == mark else []
    return [_outside(previous, delimiter=delimiter, quote=quote), _inside(previous, mark), *closed]


def prefix_after(data: bytes, quotes: Places, *, delimiter: str, quote: str) -> bytes:
    """The prefix of the position after `data`. `quotes` are the quotes that open or close a cell of `data`."""
    mark, last = quote.encode(), data[-1:]
    if len(quotes) % 2:
        return _inside(last, mark)
    if len(quotes) and quotes[-1] == len(data) - 1:
        return mark + mark
    return _outside(last, delimiter=delimiter, quote=quote)


def _inside(previous: bytes, mark: bytes) -> bytes:
    # Keep a final \r, because only the next byte shows whether the \r ends a line.
    return mark + previous if previous == b"\r" else mark


def _outside(previous: bytes, *, delimiter: str, quote: str) -> bytes:
    if previous != quote.encode():
        return previous
    # After any other character, a quote is text.
    return next(character for character in "abc" if character not in (delimiter, quote)).encode() + previous


def _line_ends(data: bytes, text: npt.NDArray[np.uint8], *, at_end: bool) -> Places:
    feeds = native.places_of(data, _LINE_FEED)
    if b"\r" not in data:
        return feeds
    returns = native.places_of(data, _RETURN)
    is_last = returns == len(text) - 1
    # A \r at the end of a piece might be the first half of \r\n, which only the next piece can show.
    followed = np.where(is_last, 0 if at_end else _LINE_FEED, text[np.minimum(returns + 1, len(text) - 1)])
    alone = returns[followed != _LINE_FEED]
    return np.sort(np.concatenate((feeds, alone))) if len(alone) else feeds


def _quotes(data: bytes, text: npt.NDArray[np.uint8], *, delimiter: int, quote: int) -> Places:
    if bytes([quote]) not in data:
        return np.empty(0, np.int64)
    places = native.places_of(data, quote)
    opening = places[::2]
    before = text[opening - 1]
    may_open = (before == delimiter) | (before == _LINE_FEED) | (before == _RETURN) | (before == quote) | (opening == 0)
    if may_open.all():
        return places
    return _quotes_one_by_one(data, places, delimiter=delimiter, quote=quote)


def _without_doubled(data: bytes, quotes: Places, *, row: int, delimiter: int, quote: int) -> Places:
    """The quotes, without the doubled quotes in the row that begins at `row`.

    If a quote is never closed, it is the last of the returned quotes.
    """
    before = int(np.searchsorted(quotes, row))
    return np.concatenate((quotes[:before], _quotes_one_by_one(data, quotes[before:], delimiter=delimiter, quote=quote)))


def _quotes_one_by_one(data: bytes, places: Places, *, delimiter: int, quote: int) -> Places:
    """Like `_quotes`, but examines one quote after another, which is necessary if some quotes are text."""
    cell_quotes: list[int] = []
    inside = False
    second_quote = -1
    for place in places.tolist():
        if place == second_quote:
            continue
        if not inside:
            inside = place == 0 or data[place - 1] in (delimiter, _LINE_FEED, _RETURN)
            if inside:
                cell_quotes.append(place)
        elif data[place + 1 : place + 2] == bytes([quote]):
            second_quote = place + 1
        else:
            inside = False
            cell_quotes.append(place)
    return np.array(cell_quotes, np.int64)
