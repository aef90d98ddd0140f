"""Recognises binary files by their first bytes, and refuses to read them as text, because their rows would be meaningless."""

from typing import Final

from dataprep_converter.core.errors import BadSpec

_PARQUET: Final = b"PAR1"
_ORC: Final = b"ORC"
_KINDS: Final = (
    (_PARQUET, "a Parquet file", "use source.parquet"),
    (b"ARROW1\0\0", "an Arrow file", "use source.arrow"),
    (b"Obj\x01", "an Avro file", "use source.avro"),
    (_ORC, "an ORC file", "use source.orc"),
    (b"\x93NUMPY", "a numpy array", "use source.numpy"),
    (b"SEQ\x06", "a SequenceFile", "use source.sequenceFile"),
    (b"SQLite format 3\0", "a SQLite database", "use source.sql"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "save its arrays as .npy files and use source.numpy"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Excel or Office file", "save each sheet as CSV, or convert it to Parquet"),
    (b"%PDF-", "a PDF document", "extract its text first"),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture", "use source.images"),
    (b"\xff\xd8\xff", "a JPEG picture", "use source.images"),
)
_ZIP: Final = b"PK\3\4"
MOST_BYTES: Final = 4096
"""This many bytes from the beginning of a file are enough to recognise any known kind of binary file."""


def refuse_binary(start: bytes, uri: str) -> None:
    """Raises BadSpec if a file that begins with these bytes is of a known binary kind."""
    for magic, name, advice in _KINDS:
        if start.startswith(magic) and (magic not in (_PARQUET, _ORC) or _has_controls(start)):
            raise BadSpec(f"{uri} is {name}: {advice}.", uri=uri)
    if start.startswith(_ZIP):
        if b"xl/" in start[:MOST_BYTES]:
            raise BadSpec(f"{uri} is an Excel workbook: save each sheet as CSV, or convert it to Parquet.", uri=uri)
        raise BadSpec(f"{uri} is a zip archive: end its URI with !/ to read the files within it.", uri=uri)


def _has_controls(start: bytes) -> bool:
    """Whether a file's first bytes include control characters that never occur in text. The first letters alone don't identify a Parquet or
    ORC file: a CSV header can begin with `PAR1` or `ORCID`."""
    return any(byte < ord("\t") for byte in start[:MOST_BYTES])
