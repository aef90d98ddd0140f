"""Reads a JSON file that is a single array, such as `[{"x": 1}, {"x": 2}]`, piece by piece.

Finds where the elements begin and end, and puts each element on its own line, so that the parser for JSON Lines can read them.

A stretch of such a file begins with the bracket or comma before its first element. It ends before the comma or bracket after its last
element. A stretch can therefore be scanned without the text before it. Putting each element on its own line doesn't change the stretch's
length.

If the first line of a file is a complete array and more text follows, the file is not an array: each of its lines is a record. To recognise
such files, up to START_BYTES are examined before a file is divided. A file with a longer first line is treated as an array. If that array
then ends on the first line and more text follows, `ArrayInFirstLine` is raised.

An array with an empty element, such as `[{}, , {}]`, is refused, because an empty element can't be a record.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from dataprep_converter.core import native
from dataprep_converter.core.errors import BadData, BadSample
from dataprep_converter.inputs.pinned import ForwardReader
from dataprep_converter.readers.columnar.columns import shown
from dataprep_converter.readers.text import stretches
from dataprep_converter.readers.text.lines import Lines
from dataprep_converter.readers.text.stretches import BOM, Stretch, cut
from dataprep_converter.readers.text_scan.text_file import TextFile, text_file
from dataprep_converter.stores import Entry, Input

START_BYTES: Final = 1 << 20
"""The maximum number of bytes at the beginning of a file that are examined to recognise an array."""
_FIRST_BYTES: Final = 4096
"""The number of bytes that suffices for most files."""
_LIMIT: Final = "an element of more than {} MiB"
_ARRAY: Final = re.compile(rb"\s*\[\s*[{\]]")
_BLANKS: Final = b" \t\r\n"
_RUN_OF_BLANKS: Final = re.compile(rb"[ \t\r\n]+")
_USUAL_BLANKS: Final = 16
"""Up to this many blanks before each element are skipped for all elements at once. With many elements and few blanks, this is fast."""
_IS_BLANK: Final = np.isin(np.arange(256), np.frombuffer(_BLANKS, np.uint8))
_IS_SIGN: Final = np.isin(np.arange(256), np.frombuffer(b"{}[],", np.uint8))
_STEPS: Final = np.zeros(256, np.int64)
_STEPS[list(b"{[")] = 1
_STEPS[list(b"}]")] = -1


class ArrayInFirstLine(Exception):
    """Raised for a file that was treated as an array, although only its first line is an array."""


class _ClosedEarly(BadSample):
    """Raised for an array that is closed by a brace, or before the end of the text."""

    def __init__(self, fault: str, *, on_first_line: bool) -> None:
        super().__init__(fault)
        self.on_first_line = on_first_line
        """Whether there is no line end between the text's first bracket, brace or comma and the end of the array."""


def begins_like_array(start: bytes) -> bool:
    """Whether a file that begins with these bytes could be a single array of objects, or an empty array."""
    return _ARRAY.match(start) is not None


def is_array(start: bytes, *, at_end: bool) -> bool | None:
    """Whether a file that begins with these bytes is a single array of objects, or an empty array. Returns None if more bytes are needed to
    decide. `at_end` says whether `start` is the complete file.
    """
    if not begins_like_array(start):
        return False
    feed = start.find(b"\n", start.index(b"["))
    first_line = start if feed < 0 else start[:feed]
    signs = _signs(first_line)
    closings = np.flatnonzero(signs.depths == 0)
    if not len(closings):
        return True if feed >= 0 or at_end else None
    if start[int(signs.places[closings[0]]) + 1 :].strip(_BLANKS):
        return False
    return True if at_end else None


def read_start(forward: ForwardReader) -> tuple[bytes, bool]:
    """Reads as much of a file's beginning as is needed to decide whether the file is an array. Returns the bytes read, without the byte
    order mark, and whether the file is an array."""
    start = b""

    def read(length: int) -> bytes:
        nonlocal start
        start = forward.read(length - len(start), after=start)
        return start

    found = _decide(read)
    return start.removeprefix(BOM), found


def begins_as_array(source: Input) -> bool:
    """Decides whether a plain file is an array, as `read_start` does. Reads only the beginning of the file."""
    return _decide(partial(source.read_at, 0))


def _decide(read: Callable[[int], bytes]) -> bool:
    """Whether a file is an array. `read` returns the first bytes of the file."""
    for length in (min(_FIRST_BYTES, stretches.UNIT_BYTES), min(START_BYTES, stretches.UNIT_BYTES)):
        start = read(length)
        found = is_array(start.removeprefix(BOM), at_end=len(start) < length)
        if found is not None:
            return found
    return True


def examine_array(entry: Entry, start: bytes, forward: ForwardReader) -> TextFile:
    """Finds the elements of a file that is a single array. `start` contains the first bytes, which have already been read.

    If the array isn't closed or is followed by more text, the error is stored as the file's `fault`. But if the array ends on the file's
    first line and more text follows, raises ArrayInFirstLine.
    """
    is_past_first_line = False

    def watched() -> Iterator[Stretch]:
        nonlocal is_past_first_line
        with _faults_of(entry.uri):
            try:
                for stretch, data in cut(forward, start, line=1, scan=_scan_file, uri=entry.uri, limit=_LIMIT):
                    if not is_past_first_line:
                        # A stretch ends before a comma, or at the end of the text if the array is closed.
                        text = data[: stretch.size].lstrip(_BLANKS)
                        is_past_first_line = b"\n" in (text if stretch.size < len(data) else text.rstrip(_BLANKS))
                    yield stretch
            except _ClosedEarly as exc:
                if exc.on_first_line and not is_past_first_line:
                    raise ArrayInFirstLine from exc
                raise

    found = text_file(watched(), forward, form={"array": True})
    # If the array might be only the first line of the file, don't list any elements.
    return found if found.fault is None or is_past_first_line else replace(found, stretches=[])


def sample_of(start: bytes, uri: str) -> Lines:
    """The complete elements at the beginning of a file. Raises BadData for text after the array, or ArrayInFirstLine if the array ends on
    the file's first line."""
    with _faults_of(uri):
        try:
            return scan_stretch(start, False)
        except _ClosedEarly as exc:
            if exc.on_first_line:
                raise ArrayInFirstLine from exc
            raise


def closed(start: bytes) -> bytes:
    """The complete elements at the beginning of an array, as an array. Returns any other text unchanged."""
    if not is_array(start.removeprefix(BOM), at_end=True):
        return start
    try:
        elements = scan_stretch(start.removeprefix(BOM), False)
    except BadSample:
        return start
    return start.removeprefix(BOM)[: int(elements.ends[-1])] + b"]" if len(elements) else start


@contextmanager
def _faults_of(uri: str) -> Iterator[None]:
    try:
        yield
    except BadSample as exc:
        raise BadData(f"{uri}: {exc}.", uri=uri) from exc


def _scan_file(data: bytes, at_end: bool) -> Lines:
    """The complete elements. At the end of the file, the array must be closed."""
    return _scan(data, closed=at_end, at_end=False)


def scan_stretch(data: bytes, at_end: bool) -> Lines:
    """The complete elements. If `at_end`, the last element is complete without a comma or bracket after it, because a stretch doesn't
    include this character."""
    return _scan(data, closed=False, at_end=at_end)


def _scan(data: bytes, *, closed: bool, at_end: bool) -> Lines:
    """The complete elements as lines without their separators.

    Raises BadSample for text that isn't part of the array and, if `closed`, for an array that has no end.
    """
    first = data[:1] if not data[:1].isspace() else data.lstrip(_BLANKS)[:1]
    if first not in (b"[", b",", b"]", b""):
        raise _ClosedEarly(f"there is more text after the end of the array: {shown(_text_at(data, 0))}", on_first_line=True)
    found = _signs(data)
    signs, kinds, depths = found.places, found.kinds, found.depths + (first != b"[")
    closings = np.flatnonzero(depths == 0)
    is_separator = ((kinds == ord(",")) & (depths == 1)) | ((kinds == ord("[")) & (depths == 1) & (np.arange(len(signs)) == 0))
    feeds = native.places_of(data, ord("\n"))
    if len(closings):
        close = int(signs[closings[0]])
        has_more = bool(data[close + 1 :].strip(_BLANKS))
        on_first_line = has_more and b"\n" not in data[int(signs[0]) : close]
        if kinds[closings[0]] != ord("]"):
            raise _ClosedEarly("the array is closed by a brace", on_first_line=on_first_line)
        if has_more:
            raise _ClosedEarly(
                f"there is more text after the end of the array: {shown(_text_at(data, close + 1))}", on_first_line=on_first_line
            )
        separators = np.append(signs[: closings[0]][is_separator[: closings[0]]], close)
        size = len(data)
    else:
        if closed and first:
            raise BadSample("the array is never closed, so the file may be incomplete")
        separators = signs[is_separator]
        if at_end and first:
            separators = np.append(separators, len(data))
        size = len(data) if at_end or not first else int(separators[-1]) if len(separators) else 0
    starts, ends = separators[:-1] + 1, separators[1:]
    _skip_blanks(data, starts, ends)
    empty = np.flatnonzero(starts == ends)
    if len(starts) == len(empty) == 1 and first == b"[" and len(closings):
        return Lines(starts=starts[:0], ends=ends[:0], size=size, feeds=feeds)
    if len(empty):
        place = int(separators[empty[0]])
        raise BadSample(f"an element of the array is empty: {shown(_text_at(data, place))}")
    return Lines(starts=starts, ends=ends, size=size, feeds=feeds)


@dataclass(frozen=True)
class _Signs:
    """The brackets, braces and commas outside strings."""

    places: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.uint8]
    depths: npt.NDArray[np.int64]
    """For each of these characters, the number of brackets and braces that are open after it."""


def _signs(data: bytes) -> _Signs:
    text = np.frombuffer(data, np.uint8)
    places = np.flatnonzero(_IS_SIGN[text])
    places = places[np.searchsorted(_quotes(data), places) % 2 == 0]
    kinds = text[places]
    return _Signs(places, kinds, np.cumsum(_STEPS[kinds]))


def _skip_blanks(data: bytes, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> None:
    """Moves each start past the blanks that begin there, but not beyond the element's end."""
    text = np.frombuffer(data, np.uint8)
    for _ in range(_USUAL_BLANKS):
        blank = np.flatnonzero((starts < ends) & _IS_BLANK[text[np.minimum(starts, len(text) - 1)]])
        if not len(blank):
            return
        starts[blank] += 1
    for each in blank.tolist():
        more = _RUN_OF_BLANKS.match(data, int(starts[each]), int(ends[each]))
        starts[each] += len(more[0]) if more else 0


def in_lines(data: bytes, elements: Lines) -> bytes:
    """Text of the same length, in which each element is a single line at its original position and everything between elements is blank."""
    text = np.frombuffer(data, np.uint8).copy()
    borders = np.zeros(len(text) + 1, np.int8)
    borders[elements.starts] = 1
    borders[elements.ends] = -1
    text[elements.feeds] = ord(" ")
    text[np.cumsum(borders[:-1], dtype=np.int8) == 0] = ord(" ")
    text[elements.ends[elements.ends < len(text)]] = ord("\n")
    return text.tobytes()


def _quotes(data: bytes) -> npt.NDArray[np.int64]:
    """The positions of the quotes that open or close a string."""
    quotes = native.places_of(data, ord('"'))
    escapes = native.places_of(data, ord("\\"))
    if not len(escapes):
        return quotes
    # A quote is part of a string if it follows an odd number of backslashes.
    first_of_run = np.flatnonzero(np.diff(escapes, prepend=-2) != 1)
    before = np.searchsorted(escapes, quotes) - 1
    follows = (before >= 0) & (escapes[np.maximum(before, 0)] == quotes - 1)
    run = first_of_run[np.searchsorted(first_of_run, np.maximum(before, 0), side="right") - 1]
    is_text: npt.NDArray[np.bool_] = follows & ((before - run) % 2 == 0)
    outside: npt.NDArray[np.int64] = quotes[~is_text]
    return outside


def _text_at(data: bytes, place: int) -> str:
    return data[place : place + 200].strip(_BLANKS).decode("utf-8", "replace")
