"""Finds where the rows of CSV text begin and end, in agreement with Arrow's parser on every quote and line end.

Rows end at \\n, \\r\\n or \\r outside quotes; blank lines are no rows. A quote opens a quoted cell only at the cell's start, and is doubled
inside it; anywhere else it is text. So the state at a line end is the parity of the opening and closing quotes before it.
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
    """The rows of some text that begins at a row's start."""

    starts: Places
    stops: Places
    """Without the line end."""
    size: int
    """Bytes up to the end of the last whole row, blank lines included."""
    line_ends: Places
    """Every line end, those inside quotes too, for counting lines."""
    quotes: Places
    """Every quote that opens or closes a cell."""

    def __len__(self) -> int:
        return len(self.starts)

    def unclosed(self) -> int | None:
        """Position of a quote that is never closed. Only for complete text: otherwise the rest may close it."""
        return int(self.quotes[-1]) if len(self.quotes) % 2 else None

    def lines_before(self, place: int) -> int:
        """Line ends before a place."""
        return int(np.searchsorted(self.line_ends, place))

    def lines_before_each(self) -> npt.NDArray[np.int64]:
        """Line ends before each record."""
        return np.searchsorted(self.line_ends, self.starts)


def scan(data: bytes, *, delimiter: str, quote: str, at_end: bool) -> Rows:
    """The whole rows of `data`; the last one needs no line end when `at_end`."""
    text = np.frombuffer(data, np.uint8)
    line_ends = _line_ends(data, text, at_end=at_end)
    quotes = _quotes(data, text, delimiter=ord(delimiter), quote=ord(quote))
    ends = line_ends[np.searchsorted(quotes, line_ends) % 2 == 0] if len(quotes) else line_ends
    starts = np.concatenate((np.zeros(1, np.int64), ends + 1))
    stops = ends
    if len(ends) and b"\r" in data:
        # In \r\n, \n is the end, and \r not part of the row.
        stops = ends - ((text[ends] == _LINE_FEED) & (ends > starts[:-1]) & (text[ends - 1] == _RETURN))
    if at_end:
        stops = np.append(stops, len(data))
    else:
        starts = starts[:-1]
    size = len(data) if at_end else int(ends[-1]) + 1 if len(ends) else 0
    has_text = stops > starts
    return Rows(starts=starts[has_text], stops=stops[has_text], size=size, line_ends=line_ends, quotes=quotes)


def _line_ends(data: bytes, text: npt.NDArray[np.uint8], *, at_end: bool) -> Places:
    feeds = native.places_of(data, _LINE_FEED)
    if b"\r" not in data:
        return feeds
    returns = native.places_of(data, _RETURN)
    is_last = returns == len(text) - 1
    # A \r at the end of a piece may be half of \r\n: only the next piece tells.
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


def _quotes_one_by_one(data: bytes, places: Places, *, delimiter: int, quote: int) -> Places:
    """Some quotes are text, so examine each in turn."""
    found: list[int] = []
    inside = False
    doubled = -1
    for place in places.tolist():
        if place == doubled:
            continue
        if not inside:
            inside = place == 0 or data[place - 1] in (delimiter, _LINE_FEED, _RETURN)
            if inside:
                found.append(place)
        elif data[place + 1 : place + 2] == bytes([quote]):
            doubled = place + 1
        else:
            inside = False
            found.append(place)
    return np.array(found, np.int64)
