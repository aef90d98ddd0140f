"""Detects which kind of source a file is. The first bytes take precedence over the name; if neither is conclusive, the kind is guessed."""

import csv
import io
import json
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Final

from dataprep_converter.core import framing

HEAD_BYTES: Final = 256 << 10
"""Number of bytes read from a file."""

_IMAGES: Final = frozenset({"jpg", "jpeg", "png", "bmp", "gif", "tif", "tiff", "webp"})
_BY_NAME: Final = {
    "csv": "csv", "tsv": "csv", "jsonl": "jsonl", "ndjson": "jsonl", "libsvm": "libsvm", "svm": "libsvm", "svmlight": "libsvm",
}  # fmt: skip
"""Text formats that are recognised by extension. Binary formats are recognised by their first bytes."""
_IDX_TYPES: Final = b"\x08\x09\x0b\x0c\x0d\x0e"
_LIBSVM: Final = re.compile(rb"[-+]?[\d.]+([eE][-+]?\d+)?(,[-+\d.]+)*( +qid:\d+)?( +\d+:[-+\d.eE]+)+ *(#.*)?\r?")
_DELIMITERS: Final = ",\t;|"
_SAMPLE_ROWS: Final = 200


def extension(path: str) -> str:
    """Returns the extension of a file name, in lower case and without `.gz`."""
    name = path.rpartition("/")[2].lower().removesuffix(".gz")
    return name.rpartition(".")[2] if "." in name else ""


def unzipped(head: bytes) -> bytes:
    """Returns the first decompressed bytes of a gzip file. Other bytes are returned unchanged."""
    if not head.startswith(b"\x1f\x8b"):
        return head
    try:
        return zlib.decompressobj(31).decompress(head, HEAD_BYTES)
    except zlib.error:
        return head


def kind_of(path: str, head: bytes) -> str:
    """Returns the member of `spec.source` for a file that begins with `head` (already decompressed), or `whole_file` if no other fits."""
    ending = extension(path)
    for kind, matches in _MAGIC:
        if matches(head):
            return kind
    if ending in _IMAGES:
        return "images"
    text = _complete_lines(head)
    if text is None:
        return "whole_file"
    # A .txt file may hold any line-based format.
    return _BY_NAME[ending] if ending in _BY_NAME else _kind_of_lines(text, or_else="text" if ending in ("", "txt") else "whole_file")


def _is_image(head: bytes) -> bool:
    return (
        head.startswith((b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*"))
        or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")
        or (head[:2] == b"BM" and head[6:10] == b"\0\0\0\0")
    )


def _is_idx(head: bytes) -> bool:
    return len(head) >= 8 and head[:2] == b"\0\0" and head[2] in _IDX_TYPES and 1 <= head[3] <= 8


def _is_tfrecord(head: bytes) -> bool:
    return len(head) >= framing.HEADER + framing.FOOTER and framing.header(int.from_bytes(head[:8], "little")) == head[: framing.HEADER]


_MAGIC: Final[Sequence[tuple[str, Callable[[bytes], bool]]]] = (
    ("images", _is_image),
    ("parquet", lambda head: head.startswith(b"PAR1")),
    ("arrow", lambda head: head.startswith((b"ARROW1", b"\xff\xff\xff\xff"))),
    ("numpy", lambda head: head.startswith((b"\x93NUMPY", b"PK\3\4")) and (head[:1] == b"\x93" or b".npy" in head[:512])),
    ("idx", _is_idx),
    ("tfrecord", _is_tfrecord),
    ("sequence_file", lambda head: head.startswith(b"SEQ\x06")),
)


def _complete_lines(head: bytes) -> bytes | None:
    """Returns the complete lines of a text, or None if the bytes are not text."""
    if b"\0" in head:
        return None
    text = head if len(head) < HEAD_BYTES else head[: head.rfind(b"\n") + 1]
    try:
        text.decode()
    except UnicodeDecodeError:
        return None
    return text


def _kind_of_lines(text: bytes, *, or_else: str) -> str:
    """Returns the kind of a line-based text whose name is inconclusive."""
    lines = [line for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n")[:20] if line.strip()]
    if lines and all(_is_object(line) for line in lines[:5]):
        return "jsonl"
    if lines and all(_LIBSVM.fullmatch(line) for line in lines):
        return "libsvm"
    return "csv" if len(lines) > 1 and dialect(text).columns > 1 and not _is_prose(lines) else or_else


def _is_prose(lines: Sequence[bytes]) -> bool:
    """Whether the commas are punctuation in prose."""
    return b", " in b"".join(lines) and not any(line.strip()[:1].isdigit() for line in lines[1:])


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


# --- CSV ----------------------------------------------------------------------------------------------------------


class Dialect:
    """The delimiter of a CSV file, and its first rows."""

    def __init__(self, delimiter: str, rows: Sequence[Sequence[str]]) -> None:
        self.delimiter = delimiter
        self.rows = rows
        """The first rows that have the most common number of cells. If no delimiter fits, each row has a single cell."""
        self.columns = len(rows[0]) if rows else 0

    @property
    def header(self) -> bool:
        """Whether the first row has the columns' names: it has no numbers, no duplicates, and no value that occurs again in a later row."""
        if not self.rows:
            return False
        first, other_rows = self.rows[0], self.rows[1:]
        are_names = all(cell.strip() and not _is_number(cell) for cell in first) and len(set(first)) == len(first)
        repeated = any(cell in {row[at] for row in other_rows} for at, cell in enumerate(first))
        return are_names and not repeated

    @property
    def first_is_foreign(self) -> bool:
        """Whether the first row, which wasn't recognized as a header, has text in a column where all other rows have numbers."""
        if self.header or len(self.rows) < 3:
            return False
        return any(not _is_number(cell) and all(_is_number(row[at]) for row in self.rows[1:]) for at, cell in enumerate(self.rows[0]))


def dialect(text: bytes) -> Dialect:
    """Returns the first rows, and the delimiter that splits at least 80 % of them into the same number of cells.

    If several delimiters qualify, returns the one that gives the most cells; if none qualifies, returns a comma.
    """
    lines = text.decode("utf-8", "replace").removeprefix("\ufeff")
    best, best_size = Dialect(",", []), 1
    for delimiter in _DELIMITERS:
        rows = [row for row in csv.reader(io.StringIO(lines, newline=""), delimiter=delimiter) if row][:_SAMPLE_ROWS]
        sizes = [len(row) for row in rows]
        usual = max(set(sizes), key=sizes.count, default=0)
        if sizes.count(usual) >= 0.8 * len(sizes) and usual > best_size:
            best, best_size = Dialect(delimiter, [row for row in rows if len(row) == usual]), usual
        elif not best.rows:
            best = Dialect(delimiter, [row for row in rows if len(row) == usual])
    return best


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return not cell.strip()
    return True
