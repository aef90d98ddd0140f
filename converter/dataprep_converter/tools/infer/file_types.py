"""Detects which kind of source a file is. The first bytes take precedence over the name; if neither is conclusive, the kind is guessed."""

import io
import itertools
import json
import re
import tarfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from dataprep_converter.core import framing
from dataprep_converter.images.heif_headers import format_of
from dataprep_converter.inputs.compressions import without_suffix
from dataprep_converter.readers.foreign.webdataset import NAME
from dataprep_converter.readers.text.json_arrays import begins_like_array
from dataprep_converter.tools.infer.csv_layout import layout_of
from dataprep_converter.tools.infer.foreign_files import is_document
from dataprep_converter.tools.infer.text_heads import text_of

_IMAGES: Final = frozenset({"jpg", "jpeg", "png", "bmp", "gif", "tif", "tiff", "webp", "avif", "heic", "heif"})
_BY_NAME: Final = {
    "csv": "csv", "tsv": "csv", "jsonl": "jsonl", "ndjson": "jsonl", "libsvm": "libsvm", "svm": "libsvm", "svmlight": "libsvm",
}  # fmt: skip
"""Text formats that are recognised by extension. Binary formats are recognised by their first bytes."""
_MOST_MEMBERS: Final = 1000
_IDX_TYPES: Final = b"\x08\x09\x0b\x0c\x0d\x0e"
_LIBSVM: Final = re.compile(rb"[-+]?[\d.]+([eE][-+]?\d+)?(,[-+\d.]+)*( +qid:\d+)?( +\d+:[-+\d.eE]+)+ *(#.*)?\r?")


def extension(path: str) -> str:
    """Returns the extension of a file name, in lower case and ignoring a compression suffix."""
    name = without_suffix(path.rpartition("/")[2].lower())
    return name.rpartition(".")[2] if "." in name else ""


def kind_of(path: str, head: bytes) -> str | None:
    """Returns the member of `spec.source` for a file that begins with `head` (already decompressed), or None if no source fits."""
    ending = extension(path)
    for kind, matches in _MAGIC:
        if matches(head):
            return kind
    if ending in _IMAGES:
        return "images"
    text = text_of(head)
    if text is None or head.startswith(b"%PDF-"):
        return None
    # A .txt file can have any line-based format.
    return _BY_NAME[ending] if ending in _BY_NAME else _kind_of_lines(text.lines, or_else="text" if ending in ("", "txt") else None)


def _is_image(head: bytes) -> bool:
    return (
        head.startswith((b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*"))
        or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")
        or format_of(head) is not None
        or (head[:2] == b"BM" and head[6:10] == b"\0\0\0\0")
    )


def _is_idx(head: bytes) -> bool:
    return len(head) >= 8 and head[:2] == b"\0\0" and head[2] in _IDX_TYPES and 1 <= head[3] <= 8


def _is_webdataset(head: bytes) -> bool:
    """Whether at least two of a tar file's first members belong to the same sample. If not, the tar file is an archive of single files."""
    if head[257:262] != b"ustar":
        return False
    keys: list[str] = []
    archive: Any
    # The head is only the beginning of the file, so its last member may be cut off.
    with suppress(tarfile.TarError, ValueError, OverflowError, EOFError), tarfile.open(fileobj=io.BytesIO(head), mode="r:") as archive:
        for info in itertools.islice(archive, _MOST_MEMBERS):
            match = NAME.fullmatch(info.name) if info.isreg() else None
            keys += [match[1]] if match is not None else []
    return any(one == other for one, other in itertools.pairwise(keys))


def _is_tfrecord(head: bytes) -> bool:
    return len(head) >= framing.HEADER + framing.FOOTER and framing.header(int.from_bytes(head[:8], "little")) == head[: framing.HEADER]


_MAGIC: Final[Sequence[tuple[str, Callable[[bytes], bool]]]] = (
    ("images", _is_image),
    ("parquet", lambda head: head.startswith(b"PAR1")),
    ("arrow", lambda head: head.startswith((b"ARROW1", b"\xff\xff\xff\xff"))),
    ("avro", lambda head: head.startswith(b"Obj\x01")),
    ("orc", lambda head: head.startswith(b"ORC")),
    ("numpy", lambda head: head.startswith((b"\x93NUMPY", b"PK\3\4")) and (head[:1] == b"\x93" or b".npy" in head[:512])),
    ("idx", _is_idx),
    ("tfrecord", _is_tfrecord),
    ("webdataset", _is_webdataset),
    ("sequence_file", lambda head: head.startswith(b"SEQ\x06")),
)


def _kind_of_lines(text: bytes, *, or_else: str | None) -> str | None:
    """Returns the kind of a line-based text file whose name is inconclusive."""
    if begins_like_array(text.removeprefix(b"\xef\xbb\xbf")):
        return "jsonl"
    lines = [line for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n")[:20] if line.strip()]
    if lines and all(_is_object(line) for line in lines[:5]):
        return None if len(lines) == 1 and is_document(lines[0]) else "jsonl"
    if lines and all(_LIBSVM.fullmatch(line) for line in lines):
        return "libsvm"
    return "csv" if len(lines) > 1 and layout_of(text).columns > 1 and not _is_prose(lines) else or_else


def _is_prose(lines: Sequence[bytes]) -> bool:
    """Whether the commas are punctuation in prose."""
    return b", " in b"".join(lines) and not any(line.strip()[:1].isdigit() for line in lines[1:])


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
