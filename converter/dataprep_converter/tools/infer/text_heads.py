"""Recognises the encoding of a text file from its first bytes.

A byte order mark determines the encoding. Without a mark, valid UTF-8 is read as UTF-8, and text in which every second byte is zero is read
as UTF-16. Any other text is probably Windows-1252, which includes Latin-1. The user must be told that this encoding is a guess.
"""

import re
from dataclasses import dataclass
from typing import Final

from dataprep_converter.inputs.encodings import UTF16, BrokenText, Encoding, marked_encoding, whole_in_utf8

HEAD_BYTES: Final = 256 << 10
"""Number of bytes read from a file."""
_CONTROLS: Final = bytes(set(range(32)) - set(b"\t\n\r\f\x1a\x1b"))
_UNDEFINED: Final = b"\x81\x8d\x8f\x90\x9d"
"""The bytes that Windows-1252 leaves undefined."""
_CUT_CHARACTER: Final = re.compile(rb"[\xc0-\xff][\x80-\xbf]{0,3}\Z")
_MOST_HIGH: Final = 0.3
"""Maximum share of non-ASCII bytes in text in a Western language."""


@dataclass(frozen=True)
class TextHead:
    """The complete lines at the beginning of a text file."""

    lines: bytes
    """The lines as UTF-8."""
    encoding: Encoding
    is_marked: bool
    """Whether a byte order mark names the encoding."""

    @property
    def sample(self) -> str:
        """The first decoded word with a non-ASCII character, or an empty string if there is none."""
        return next((word for word in self.lines.decode("utf-8", "replace").split() if not word.isascii()), "")[:40]


def text_of(head: bytes) -> TextHead | None:
    """Returns the text at the beginning of a file, or None if the bytes aren't text. `head` is decompressed."""
    try:
        marked = marked_encoding(head)
        encoding = marked or _encoding_of(head)
        if encoding is None:
            return None
        whole = head if len(head) < HEAD_BYTES else _complete_lines(head, encoding)
        return TextHead(whole_in_utf8(whole, encoding), encoding, marked is not None)
    except BrokenText:
        return None


def _encoding_of(head: bytes) -> Encoding | None:
    if b"\0" in head:
        return _utf16_of(head)
    try:
        _complete_lines(head, "Utf8").decode()
    except UnicodeDecodeError:
        high = sum(byte >= 0x80 for byte in head)
        if head.translate(None, _CONTROLS) != head or head.translate(None, _UNDEFINED) != head or high > _MOST_HIGH * len(head):
            return None
        return "Windows1252" if any(0x80 <= byte < 0xA0 for byte in head) else "Latin1"
    return "Utf8"


def _utf16_of(head: bytes) -> Encoding | None:
    """Detects UTF-16 without a mark. Most text consists mainly of ASCII characters, so nearly every second byte of its UTF-16 is zero."""
    pairs = len(head) // 2
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if odd > 0.7 * pairs and not even:
        return "Utf16Le"
    return "Utf16Be" if even > 0.7 * pairs and not odd else None


def _complete_lines(head: bytes, encoding: Encoding) -> bytes:
    if len(head) < HEAD_BYTES:
        return head
    if encoding in UTF16:
        end = "\n".encode("utf-16-le" if encoding == "Utf16Le" else "utf-16-be")
        at = head.rfind(end)
        while at % 2 == 1:
            at = head.rfind(end, 0, at)
        return head[: at + 2] if at >= 0 else head[:-2]
    if b"\n" in head:
        return head[: head.rfind(b"\n") + 1]
    # Leave out a UTF-8 character that is cut off at the end of the head.
    return _CUT_CHARACTER.sub(b"", head) if encoding == "Utf8" else head
