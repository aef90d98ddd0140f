"""Parses a large JSON object member by member, and its arrays element by element, so that only one element at a time is in memory."""

import codecs
import json
from collections.abc import Iterator
from typing import Any, Final

from dataprep_converter.core.errors import BadData

LONGEST_ELEMENT: Final = 64 << 20
"""The maximum number of characters in an element of an array, or in any other value."""

_SPACE = " \t\r\n"
_DECODER = json.JSONDecoder()


def elements(pieces: Iterator[bytes], *, uri: str, arrays: set[str]) -> Iterator[tuple[str, Any]]:
    """Yields a pair (member name, element) for each element of the arrays in the top-level object. Elements can be any JSON values.

    Members that aren't arrays are skipped. The names of the arrays are added to `arrays`. Raises BadData, which names the position, if the
    text is not a JSON object.
    """
    text = _Text(pieces, uri)
    text.expect("{", "a JSON object")
    if text.peek() == "}":
        text.skip()
    else:
        while True:
            key = text.value()
            if not isinstance(key, str):
                raise text.fault("a member's name is not a string")
            text.expect(":", "':' after a member's name")
            if text.peek() == "[":
                text.skip()
                arrays.add(key)
                for element in _array(text):
                    yield key, element
            else:
                text.value()
            if text.one_of(",}") == "}":
                break
    if text.peek():
        raise text.fault("there is something after the object")


def _array(text: "_Text") -> Iterator[Any]:
    if text.peek() == "]":
        text.skip()
        return
    while True:
        yield text.value()
        if text.one_of(",]") == "]":
            return


class _Text:
    """The text of a stream. Only the current part of the text is in memory."""

    def __init__(self, pieces: Iterator[bytes], uri: str) -> None:
        self._pieces = pieces
        self._uri = uri
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._before = 0
        self._ended = False

    def fault(self, what: str) -> BadData:
        """An error that names the file and the current position."""
        return BadData(f"{self._uri}: invalid JSON at character {self._before + self._at:,}: {what}.", uri=self._uri)

    def peek(self) -> str:
        """The next character that is not white space, or an empty string at the end. The character isn't consumed."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def skip(self) -> None:
        """Consumes the character that `peek` returned."""
        self._at += 1

    def one_of(self, characters: str) -> str:
        """Consumes and returns the next character. Raises BadData if this character is not one of `characters`."""
        character = self.peek()
        if not character or character not in characters:
            raise self.fault(f"expected {' or '.join(map(repr, characters))}, got {character!r}" if character else "the text ends early")
        self.skip()
        return character

    def expect(self, character: str, what: str) -> None:
        """Consumes the next character. Raises BadData if the next character is not `character`."""
        next_character = self.peek()
        if next_character != character:
            raise self.fault(f"expected {what}, got {next_character!r}" if next_character else f"expected {what}, but the text ends")
        self.skip()

    def value(self) -> Any:
        """Consumes and returns the next complete value."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError as exc:
                raise self.fault("nested too deeply") from exc
            except ValueError as exc:
                if len(self._text) - self._at > LONGEST_ELEMENT:
                    raise self.fault(f"a value of more than {LONGEST_ELEMENT >> 20} MiB, or not JSON") from exc
                if not self._more():
                    raise self.fault(str(exc)) from exc
                continue
            # A number at the end of the buffer might continue in the next piece.
            if end == len(self._text) and self._more():
                continue
            self._at = end
            return value

    def _more(self) -> bool:
        """Reads more text. Returns False at the end of the stream.

        Each call at least doubles the unconsumed text, so that parsing a long value isn't restarted too often.
        """
        rest = self._text[self._at :]
        parts = [rest]
        needed = max(1, len(rest))
        while needed > 0 and not self._ended:
            piece = next(self._pieces, None)
            self._ended = piece is None
            try:
                parts.append(self._decoder.decode(piece or b"", final=self._ended))
            except UnicodeDecodeError as exc:
                raise self.fault(f"not UTF-8: {exc.reason}") from exc
            needed -= len(parts[-1])
        self._before += self._at
        self._at = 0
        self._text = "".join(parts)
        return len(self._text) > len(rest)
