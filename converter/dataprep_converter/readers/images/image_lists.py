"""Reads a file that lists images, as CSV, JSON Lines, Parquet or plain paths, and finds the images. Only the planner reads it.

A list that only has paths and labels is read line by line. A list with other columns is read as a table (`image_tables.py`). If the list
has paths, a few threads look up the images. If it has names, the images below the root are listed (`image_names.py`).
"""

import csv
import json
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from dataprep_api.redaction import unsigned
from dataprep_api.spec import ImagesSource
from dataprep_api.spec.sources.images import ImageList
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import BadData, BadSpec, NotFound
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.compressions import MAGIC_BYTES, compression_of, without_suffix
from dataprep_converter.inputs.pinned import ForwardReader, entry_of
from dataprep_converter.readers.images.image_listing import IgnoredFiles, ListedFile, extension_of, listed
from dataprep_converter.readers.images.image_names import ImagesByName
from dataprep_converter.readers.images.image_tables import ImageTable, Line
from dataprep_converter.stores import Entry

_FORMATS: Final = {"csv": "Csv", "tsv": "Csv", "jsonl": "Jsonl", "ndjson": "Jsonl", "txt": "Text", "lst": "Text", "parquet": "Parquet"}
_LONGEST_LINE: Final = 1 << 20
_THREADS: Final = 16
_AHEAD: Final = 256
_NO_COLUMNS: Final = "a list of format Text has no columns; write it as Csv (its delimiter may be a space) or Jsonl."


@dataclass(frozen=True, slots=True)
class ListedImage:
    """An image of the list, and the list's information about the image."""

    file: ListedFile
    """The image's file. If the image is bad, this file has no size and no pin, and isn't read."""
    label: str
    values: Mapping[str, Any]
    """The values of `list.columns`."""
    bad: str = ""
    """The reason why the image is bad: it doesn't exist, or its row can't be read."""


class ImagesOfList(Closeable):
    """The images of a list, in the order of the list."""

    def __init__(self, access: Access, source: ImagesSource, listed: ImageList) -> None:
        """Opens the list. Raises BadSpec if the list lacks a column that the spec names."""
        self._access = access
        self._source = source
        self._listed = listed
        self._root = (listed.root or listed.uri.rpartition("/")[0] or ".").rstrip("/") or "/"
        kind = _kind_of(listed)
        if kind == "Text" and listed.columns is not None:
            raise BadSpec(f"{listed.uri}: {_NO_COLUMNS}")
        self._kind = kind
        self._table = ImageTable(access, listed, kind) if listed.columns is not None or kind == "Parquet" else None
        self.ignored = IgnoredFiles()
        """If the list has names, the number of files below the root that aren't read: images that the list doesn't name, and other files.
        If the list has paths, no files are counted."""

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the list, or None if the list has only paths and labels."""
        return self._table.schema if self._table is not None and self._listed.columns is not None else None

    @property
    def warnings(self) -> list[str]:
        """Warnings for the user about the columns."""
        return list(self._table.warnings) if self._table is not None else []

    @property
    def has_int96(self) -> bool:
        """Whether the list is a Parquet file with INT96 times, which are read in microseconds."""
        return self._table is not None and self._table.has_int96

    def close(self) -> None:
        """Closes the table."""
        if self._table is not None:
            self._table.close()

    def images(self) -> Iterator[ListedImage]:
        """Yields the images. An image that doesn't exist is bad.

        If no image exists, raises NotFound, which names the list and the first image. Raises BadSpec or BadData for an invalid list.
        """
        lines = self._table.lines() if self._table is not None else _lines(self._access, self._listed, self._kind)
        found = self._by_path(lines) if self._listed.match == "Path" else self._by_name(lines)
        if self._source.subset_from == "FirstFolder":
            found = _with_subsets(found)
        exists = False
        first: ListedImage | None = None
        for image in found:
            first = first or image
            exists = exists or not image.bad
            yield image
        if first is not None and not exists:
            raise NotFound(f"No image of {self._listed.uri} can be read; the first: {first.bad}.", uri=self._listed.uri)

    def _by_path(self, lines: Iterator[Line]) -> Iterator[ListedImage]:
        for line, uri, entry in _look_up_images(self._access, lines, self._root, self._listed.uri):
            if line.bad:
                yield self._bad(line, line.bad)
                continue
            path = uri.removeprefix(self._root.rstrip("/") + "/").removeprefix("./")
            folders = [name for name in path.split("/")[:-1] if name]
            file = listed(0, path, entry or Entry(uri, 0, ""), folders=folders, uri=self._root, subset_from=self._source.subset_from)
            bad = "" if entry is not None else f"{self._listed.uri}, {line.place}: {uri} does not exist"
            yield ListedImage(file, line.label, line.values, bad)

    def _by_name(self, lines: Iterator[Line]) -> Iterator[ListedImage]:
        source = self._source
        names = ImagesByName(
            self._access, source, root=self._root, has_extensions=self._listed.match == "FileName", list_uri=self._listed.uri
        )
        for line in lines:
            file = names.find(line.path, line.place) if line.path else None
            if line.bad or file is None:
                what = "the name" if self._listed.match == "FileName" else "the key"
                yield self._bad(line, line.bad or f"{self._listed.uri}, {line.place}: no image below {self._root} has {what} {line.path!r}")
            else:
                yield ListedImage(file, line.label, line.values)
        self.ignored.count = names.ignored()

    def _bad(self, line: Line, reason: str) -> ListedImage:
        """A bad image for a line without a usable image. The line's place in the list identifies the record."""
        path = f"{self._listed.uri.rpartition('/')[2]}, {line.place}"
        subset = self._root.rpartition("/")[2] if self._source.subset_from == "Root" else ""
        return ListedImage(ListedFile(0, path, Entry(self._listed.uri, 0, ""), subset, ()), "", {}, reason)


def _with_subsets(images: Iterator[ListedImage]) -> Iterator[ListedImage]:
    """Gives a subset to bad images that are in no folder, because either all records or none must have a subset. Such an image gets the
    subset of the image before it or, at the beginning of the list, of the first image that has a subset."""
    subset = ""
    waiting: list[ListedImage] = []
    for image in images:
        subset = image.file.subset or subset
        waiting.append(image)
        if subset:
            yield from (replace(each, file=replace(each.file, subset=each.file.subset or subset)) for each in waiting)
            waiting = []
    yield from waiting


def _look_up_images(access: Access, lines: Iterator[Line], root: str, list_uri: str) -> Iterator[tuple[Line, str, Entry | None]]:
    """Yields the lines with their URIs and entries. The entry is None for an image that doesn't exist, and for a bad line."""
    pending: deque[tuple[Line, str, Future[Entry | None] | None]] = deque()
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="list") as threads:
        try:
            for line in lines:
                uri = "" if line.bad else _uri(line, root, list_uri)
                pending.append((line, uri, None if line.bad else threads.submit(access.store(uri).stat, uri)))
                if len(pending) >= _AHEAD:
                    yield _looked_up(*pending.popleft())
            while pending:
                yield _looked_up(*pending.popleft())
        finally:
            for _, _, lookup in pending:
                if lookup is not None:
                    lookup.cancel()


def _looked_up(line: Line, uri: str, lookup: Future[Entry | None] | None) -> tuple[Line, str, Entry | None]:
    return line, uri, None if lookup is None else lookup.result()


def _uri(line: Line, root: str, list_uri: str) -> str:
    if not line.path:
        raise BadSpec(f"{list_uri}, {line.place}: the path is empty.", uri=list_uri)
    if ".." in line.path.split("/") or "\0" in line.path:
        raise BadSpec(f"{list_uri}, {line.place}: the path {line.path!r} must not lead out of the folder with '..'.", uri=list_uri)
    if unsigned(line.path) != line.path:
        raise BadSpec(
            f"{list_uri}, {line.place}: {unsigned(line.path)} is signed or holds a token, which would be stored with the plan. "
            "Only addresses in the job's spec may have signatures or tokens. Instead, list images of a store, which gets its credentials from an entry of stores.",
            uri=list_uri,
        )
    if "://" in line.path or line.path.startswith("/"):
        return line.path
    return f"{root.rstrip('/')}/{line.path.removeprefix('./')}"


def _kind_of(source: ImageList) -> str:
    kind = source.format or _FORMATS.get(extension_of(without_suffix(source.uri)))
    if kind is None:
        raise BadSpec(
            f"{source.uri}: its format can't be determined from its extension; set source.images.list.format to Csv, Jsonl, Text or Parquet."
        )
    return kind


def _lines(access: Access, source: ImageList, kind: str) -> Iterator[Line]:
    store = access.store(source.uri)
    entry_of(store, source.uri)
    with store.open(source.uri) as file:
        compression = compression_of(file.read_at(0, MAGIC_BYTES))
        text = _text(ForwardReader(file, source.uri, compression=compression), source.uri)
        if kind == "Csv":
            yield from _of_csv(text, source)
        elif kind == "Jsonl":
            yield from _of_jsonl(text, source)
        else:
            yield from _of_text(text, source)


def _text(forward: ForwardReader, uri: str) -> Iterator[str]:
    """Yields the lines of a file, including their line ends. Raises BadData for text that isn't UTF-8, and for a line that is too long."""
    rest = b""
    number = 0
    for piece in forward.pieces():
        *lines, rest = (rest + piece).splitlines(keepends=True) or [b""]
        # The last line might continue in the next piece. A \r at the end of this line might be the first half of \r\n.
        if rest.endswith(b"\n"):
            lines, rest = [*lines, rest], b""
        for line in lines:
            number += 1
            yield _decode_line(line, number, uri)
        if len(rest) > _LONGEST_LINE:
            raise BadData(f"{uri}, line {number + 1}: a line of more than 1 MiB; this is not a list of images.", uri=uri)
    if rest:
        yield _decode_line(rest, number + 1, uri)


def _decode_line(line: bytes, number: int, uri: str) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as exc:
        raise BadData(f"{uri}, line {number}: not UTF-8: {exc.reason} at byte {exc.start}.", uri=uri) from exc


def _of_text(text: Iterator[str], source: ImageList) -> Iterator[Line]:
    if source.label_column is not None:
        raise BadSpec(f"{source.uri}: {_NO_COLUMNS}")
    for number, line in enumerate(text, start=1):
        if path := line.strip():
            yield Line(f"line {number}", path, "")


def _of_csv(text: Iterator[str], source: ImageList) -> Iterator[Line]:
    delimiter = source.delimiter or ("\t" if extension_of(without_suffix(source.uri)) == "tsv" else ",")
    if ord(delimiter) > 0x7F or delimiter in '\r\n\0"':
        raise BadSpec(f"source.images.list.delimiter must be one ASCII character, got {delimiter!r}.")
    rows = csv.reader(text, delimiter=delimiter, strict=True)
    try:
        names = next(rows, None) if source.header else None
        path_at = _position(source.path_column or "0", names, source.uri)
        label_at = None if source.label_column is None else _position(source.label_column, names, source.uri)
        min_cells = max(path_at, label_at or 0) + 1
        for row in rows:
            if not row:
                continue
            if len(row) < min_cells:
                raise BadSpec(f"{source.uri}, line {rows.line_num}: {len(row)} cells, at least {min_cells} are needed.", uri=source.uri)
            yield _make_line(rows.line_num, row[path_at], None if label_at is None else row[label_at], source)
    except csv.Error as exc:
        raise BadSpec(f"{source.uri}, line {rows.line_num}: not CSV: {exc}.", uri=source.uri) from exc


def _position(column: str, names: list[str] | None, uri: str) -> int:
    if names is not None and column in names:
        return names.index(column)
    if column.isascii() and column.isdigit() and (names is None or int(column) < len(names)):
        return int(column)
    has = f"its header has {', '.join(names[:20])}" if names is not None else "without a header, columns have only positions: 0, 1, …"
    raise BadSpec(f"{uri}: there is no column {column!r}; {has}.", uri=uri)


def _of_jsonl(text: Iterator[str], source: ImageList) -> Iterator[Line]:
    for number, line in enumerate(text, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            # JSON can contain unpaired surrogates, which file names and records can't contain. `encode` raises ValueError for them.
            json.dumps(record, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as exc:
            raise BadSpec(f"{source.uri}, line {number}: not JSON: {exc}.", uri=source.uri) from exc
        path = record.get(source.path_column or "path") if isinstance(record, dict) else None
        if not isinstance(path, str):
            raise BadSpec(
                f"{source.uri}, line {number}: expected an object whose {source.path_column or 'path'!r} is a string.", uri=source.uri
            )
        label = None
        if source.label_column is not None:
            label = record.get(source.label_column)
            if not isinstance(label, (str, int)):
                raise BadSpec(
                    f"{source.uri}, line {number}: {source.label_column!r} is neither text nor a whole number: {label!r}.", uri=source.uri
                )
            label = str(label)
        yield _make_line(number, path, label, source)


def _make_line(number: int, path: str, label: str | None, source: ImageList) -> Line:
    if label is not None and not label.strip():
        raise BadSpec(f"{source.uri}, line {number}: the label of {path!r} is empty.", uri=source.uri)
    return Line(f"line {number}", path.strip(), "" if label is None else label.strip())
