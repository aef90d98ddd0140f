"""The encodings of text files. Readers see UTF-8 only.

A byte order mark at the beginning of a file says how the file is encoded, and takes precedence over the spec. The single-byte encodings
have the same line ends and delimiters as UTF-8. So files in these encodings are divided like UTF-8 files, and each part is converted when
it is parsed. UTF-16 is converted while a file is read from its beginning.
"""

import codecs
from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

Encoding: TypeAlias = Literal["Utf8", "Utf16Le", "Utf16Be", "Latin1", "Windows1252"]

UTF8_MARK: Final = codecs.BOM_UTF8
MARK_BYTES: Final = 4
"""`marked_encoding` needs this many bytes from the beginning of a file."""
UTF16: Final = frozenset(("Utf16Le", "Utf16Be"))
_MARKS: Final[tuple[tuple[bytes, Encoding], ...]] = (
    (codecs.BOM_UTF8, "Utf8"),
    (codecs.BOM_UTF16_LE, "Utf16Le"),
    (codecs.BOM_UTF16_BE, "Utf16Be"),
)
_CODECS: Final = {"Utf16Le": "utf-16-le", "Utf16Be": "utf-16-be"}


def _windows_1252() -> tuple[str, ...]:
    # Windows-1252 leaves five bytes undefined. Read them as control characters, as browsers do.
    return tuple(bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(256))


_CHARACTERS: Final = {"Latin1": tuple(map(chr, range(256))), "Windows1252": _windows_1252()}
_TABLES: Final = {name: "".join(characters) for name, characters in _CHARACTERS.items()}


class BrokenText(ValueError):
    """Raised for bytes that aren't text in the encoding of their file."""


def marked_encoding(head: bytes) -> Encoding | None:
    """Returns the encoding that a file's byte order mark names, or None if the file has no mark. Raises BrokenText for UTF-32."""
    if head[:4] in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE):
        raise BrokenText("the file is UTF-32, which isn't supported")
    return next((encoding for mark, encoding in _MARKS if head.startswith(mark)), None)


def in_utf8(data: bytes, encoding: Encoding) -> bytes:
    """Converts text in a single-byte encoding to UTF-8. UTF-8 stays as it is, even if it isn't valid."""
    if encoding not in _TABLES or data.isascii():
        return data
    return codecs.charmap_decode(data, "strict", _TABLES[encoding])[0].encode()


def from_utf16(pieces: Iterable[bytes], encoding: Encoding) -> Iterator[bytes]:
    """Yields UTF-16 text as UTF-8. A byte order mark is kept. Raises BrokenText, which names the first invalid byte."""
    decoder = codecs.getincrementaldecoder(_CODECS[encoding])()
    position = 0
    for piece in pieces:
        pending = len(decoder.getstate()[0])
        try:
            text = decoder.decode(piece)
        except UnicodeDecodeError as exc:
            raise BrokenText(f"not UTF-16 at byte {position - pending + exc.start:,}: {exc.reason}") from exc
        position += len(piece)
        if text:
            yield text.encode()
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as exc:
        raise BrokenText("the UTF-16 text ends within a character") from exc


def whole_in_utf8(content: bytes, encoding: Encoding) -> bytes:
    """Returns a file's complete content as UTF-8. A byte order mark takes precedence over `encoding`, and is kept. Raises BrokenText."""
    actual = marked_encoding(content) or encoding
    return b"".join(from_utf16([content], actual)) if actual in UTF16 else in_utf8(content, actual)
