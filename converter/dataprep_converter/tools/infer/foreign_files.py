"""Names the types of files that no source reads, and gives advice on them. `infer` shows the name and the advice instead of guessing a
source."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from dataprep_converter.tools.infer.text_heads import text_of

_ARCHIVE: Final = "end its URI with !/ to read the files within it, such as data.zip!/"
_TO_JSONL: Final = "source.jsonl reads one object per line, or an array of objects"
_MEDIA: Final = "source.wholeFile stores each file unchanged"


def _holds(*names: bytes) -> Callable[[bytes], bool]:
    """Matches a zip file whose first members include one of these names."""
    return lambda head: head.startswith(b"PK\3\4") and any(name in head[:4096] for name in names)


def _starts(*magics: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(magics)


_KINDS: Final[Sequence[tuple[str, str, Callable[[bytes], bool]]]] = (
    ("an Excel workbook", "save each sheet as CSV, or convert it to Parquet", _holds(b"xl/")),
    ("an old Excel or Office file", "save each sheet as CSV, or convert it to Parquet", _starts(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")),
    ("an Office document", "extract its text or tables first", _holds(b"[Content_Types].xml")),
    ("an OpenDocument file", "save each sheet as CSV, or convert it to Parquet", _holds(b"application/vnd.oasis")),
    ("a PDF document", "extract its text or pictures first; source.wholeFile stores each file unchanged", _starts(b"%PDF-")),
    ("a 7z archive", "unpack it, or pack it as zip or tar", _starts(b"7z\xbc\xaf\x27\x1c")),
    ("a RAR archive", "unpack it, or pack it as zip or tar", _starts(b"Rar!\x1a\x07")),
    ("a PyTorch file", "save its tensors as .npy files", _holds(b"data.pkl", b".data/serialization_id")),
    ("a zip archive", _ARCHIVE, _starts(b"PK\3\4", b"PK\5\6")),
    ("a tar archive", f"{_ARCHIVE}, or read it by source.webdataset if its members are samples", lambda head: head[257:262] == b"ustar"),
    ("a SQLite database", "read it by source.sql", _starts(b"SQLite format 3\0")),
    ("an HDF5 file", "save its arrays as .npy files", _starts(b"\x89HDF\r\n\x1a\n")),
    ("a Feather file of version 1", "write it again with a current pyarrow", _starts(b"FEA1")),
    ("an encrypted Parquet file", "decrypt it", _starts(b"PARE")),
    ("an R data file", "write it as CSV or Parquet", _starts(b"RDX2\n", b"RDX3\n", b"X\n\0\0", b"B\n")),
    ("a Stata file", "write it as CSV or Parquet", _starts(b"<stata_dta>")),
    ("an SPSS file", "write it as CSV or Parquet", _starts(b"$FL2", b"$FL3")),
    ("a video", _MEDIA, lambda head: head[4:8] == b"ftyp" or head.startswith(b"\x1a\x45\xdf\xa3") or head[8:12] == b"AVI "),
    ("a sound file", _MEDIA, lambda head: head.startswith((b"ID3", b"fLaC", b"OggS")) or head[8:12] == b"WAVE"),
    ("a file compressed by the program compress", "compress it with gzip", _starts(b"\x1f\x9d")),
    (
        "a Python pickle",
        "save its arrays as .npy files, or its table as Parquet",
        lambda head: head[:1] == b"\x80" and head[1:2] in b"\2\3\4\5",
    ),
)
_TEXTS: Final[Sequence[tuple[str, str, re.Pattern[bytes]]]] = (
    ("a JSON document", _TO_JSONL, re.compile(rb"\s*(\[\s*[\[{\"\d-]|\{\s*\"[^\"]*\"\s*:)")),
    ("an HTML page", "extract its text first; source.wholeFile stores each file unchanged", re.compile(rb"\s*<(!doctype html|html)", re.I)),
    ("an XML document", "convert it to JSON Lines; source.wholeFile stores each file unchanged", re.compile(rb"\s*<\?xml", re.I)),
)


_LIST_OF_OBJECTS: Final = re.compile(rb'"([A-Za-z_][A-Za-z0-9_]*)"\s*:\s*\[\s*\{')


def is_document(text: bytes) -> bool:
    """Whether a JSON object contains a list of records and is therefore probably not a record itself. `text` may be only the beginning of
    the object."""
    return _LIST_OF_OBJECTS.search(text) is not None


def description_of(head: bytes) -> tuple[str, str]:
    """Returns the name of a file's type, and advice on what to do with it. `head` is the beginning of the decompressed file."""
    for name, advice, matches in _KINDS:
        if matches(head):
            return name, advice
    text = text_of(head)
    if text is None:
        first = head[:8].hex(" ")
        return (
            f"of a type that infer doesn't know (its first bytes are {first})",
            "source.wholeFile stores each file unchanged; source.plugin reads anything",
        )
    lines = text.lines.removeprefix(b"\xef\xbb\xbf")
    for name, advice, pattern in _TEXTS:
        if pattern.match(lines):
            key = _LIST_OF_OBJECTS.search(lines) if advice == _TO_JSONL else None
            records = f"; extract the objects in {key[1].decode()!r}, for example with jq -c '.{key[1].decode()}[]'" if key else ""
            return name, advice + records
    return (
        "text, but neither its name nor its content shows what its records are",
        "source.text makes each line a record, and source.wholeFile each file",
    )
