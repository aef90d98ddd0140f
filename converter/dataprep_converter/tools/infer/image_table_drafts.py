"""For `infer`, finds the table that lists a folder's images: a CSV, JSON Lines or Parquet file with a column that names the images.

Examples are `metadata.csv` in Hugging Face image folders and most label files in competitions. The column can contain paths, or file names
with or without an extension.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow.parquet as pq

from dataprep_converter.core.errors import ConvertError
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.ranged import RangedFile
from dataprep_converter.readers.images.image_extras import is_plain
from dataprep_converter.tools.infer.csv_layout import layout_of
from dataprep_converter.tools.infer.file_types import extension
from dataprep_converter.tools.infer.source_drafts import File, head_of
from dataprep_converter.tools.infer.text_heads import text_of

_TABLES: Final = frozenset({"csv", "tsv", "jsonl", "ndjson", "parquet"})
_LABELS: Final = ("label", "labels", "class", "target", "category", "breed", "species")
_MOST_TABLES: Final = 8
_ROWS: Final = 200
_FITTING: Final = 0.5
"""At least this share of the first rows must name images. The other rows' images may be missing or in another folder."""

_NAMES_KEYS: Final = re.compile(r"id$|^id|key|image|img|file|name|photo|picture", re.IGNORECASE)

_pq: Any = pq  # the type stubs lack some options


@dataclass(frozen=True)
class _Head:
    """The first rows of a table."""

    names: Sequence[str]
    rows: Sequence[Sequence[Any]]
    """The cells of each row. CSV cells are text."""
    options: dict[str, Any]
    """Fields of `images.list` that the file's layout requires."""


def table_of(uri: str, files: Sequence[File], images: Sequence[File], access: Access) -> tuple[File, dict[str, Any]] | None:
    """Returns the table that lists the images, and the source's fields `list` and `labelFrom`, or None if there is no such table."""
    tables = [file for file in files if extension(file.path) in _TABLES]
    for file in sorted(tables, key=lambda file: file.path.count("/"))[:_MOST_TABLES]:
        head = _head_of(file, access)
        fields = _fields(uri, file, head, images) if head is not None else None
        if fields is not None:
            return file, fields
    return None


def _fields(uri: str, table: File, head: _Head, images: Sequence[File]) -> dict[str, Any] | None:
    folder = table.path.rpartition("/")[0]
    below = {file.path.removeprefix(f"{folder}/") if folder else file.path for file in images}
    names = [file.path.rpartition("/")[2] for file in images]
    # If several images have the same file name, they can only be matched by path.
    is_unique = len(set(names)) == len(names)
    keys = [name.rpartition(".")[0] for name in names]
    ways: list[tuple[str, set[str]]] = [("Path", below), ("FileName", set(names) if is_unique else set())]
    ways.append(("Key", set(keys) if len(set(keys)) == len(keys) else set()))
    for match, known in ways:
        for place, name in enumerate(head.names):
            cells = [row[place] for row in head.rows]
            if match == "Key" and all(str(cell).isdigit() for cell in cells) and not _NAMES_KEYS.search(name):
                continue  # Small numbers, such as class numbers, would match the names of numbered images.
            found = sum(isinstance(cell, (str, int)) and str(cell).removeprefix("./") in known for cell in cells)
            if known and cells and found >= _FITTING * len(cells):
                return _list_of(uri, table, head, name, match)
    return None


def _list_of(uri: str, table: File, head: _Head, path: str, match: str) -> dict[str, Any]:
    label = next((name for word in _LABELS for name in head.names if name.lower() == word and name != path), None)
    columns = [name for name in head.names if name not in (path, label)]
    listed: dict[str, Any] = {"uri": table.entry.uri, **head.options, "pathColumn": path}
    if match != "Path":
        listed |= {"match": match, "root": uri.rstrip("/") or "/"}
    if label is not None:
        listed["labelColumn"] = label
    if columns:
        listed["columns"] = columns
    return {"list": listed, "labelFrom": "None" if label is None else "List"}


def _head_of(file: File, access: Access) -> _Head | None:
    """Returns a table's first rows, or None if the file can't be a list of images."""
    if extension(file.path) == "parquet":
        return _parquet_head(file, access)
    text = text_of(head_of(file, access))
    if text is None or text.encoding != "Utf8":
        return None
    if extension(file.path) in ("jsonl", "ndjson"):
        return _json_head(text.lines)
    layout = layout_of(text.lines)
    if not layout.header or layout.lines_above or layout.columns < 1:
        return None
    default = "\t" if extension(file.path) == "tsv" else ","
    options = {"delimiter": layout.delimiter} if layout.delimiter != default else {}
    return _Head(layout.rows[0], layout.rows[1:_ROWS], options) if all(layout.rows[0]) else None


def _json_head(lines: bytes) -> _Head | None:
    try:
        records = [json.loads(line) for line in lines.split(b"\n")[:_ROWS] if line.strip()]
    except (ValueError, RecursionError):
        return None
    if not records or not all(isinstance(record, dict) for record in records):
        return None
    names = list(records[0])
    return _Head(names, [[record.get(name) for name in names] for record in records], {})


def _parquet_head(file: File, access: Access) -> _Head | None:
    try:
        with access.store(file.entry.uri).open(file.entry.uri) as source:
            table = _pq.ParquetFile(RangedFile(source))
            batch = next(table.iter_batches(batch_size=_ROWS), None)
    except (ConvertError, OSError, ValueError):
        return None
    if batch is None:
        return None
    batch = batch.select([field.name for field in batch.schema if is_plain(field.type)])
    return _Head(batch.schema.names, [list(row.values()) for row in batch.to_pylist()], {})
