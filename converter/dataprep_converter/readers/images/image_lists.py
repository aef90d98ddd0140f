"""Reads a file that lists images, as CSV, JSON Lines or plain paths. Only the planner reads it. A few threads look up the images."""

import csv
import json
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from dataprep_api.redaction import unsigned
from dataprep_api.spec.sources.images import ImageList
from dataprep_converter.core.errors import BadData, BadSpec, NotFound
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.compressions import MAGIC_BYTES, compression_of, without_suffix
from dataprep_converter.inputs.pinned import ForwardReader, entry_of
from dataprep_converter.readers.images.image_listing import ListedFile, extension_of, listed
from dataprep_converter.stores import Entry

_FORMATS: Final = {"csv": "Csv", "tsv": "Csv", "jsonl": "Jsonl", "ndjson": "Jsonl", "txt": "Text", "lst": "Text"}
_LONGEST_LINE: Final = 1 << 20
_THREADS: Final = 16
_AHEAD: Final = 256


@dataclass(frozen=True, slots=True)
class _Line:
    """An image in the list."""

    number: int
    path: str
    label: str


def images_of(access: Access, source: ImageList, *, subset_from: str) -> Iterator[tuple[ListedFile, str]]:
    """Yields the images in the order of the list, with their classes (empty without `labelColumn`).

    Raises NotFound, which names the list and the line, for an image that doesn't exist, and BadSpec or BadData for an invalid list.
    """
    root = (source.root or source.uri.rpartition("/")[0] or ".").rstrip("/") or "/"
    for line, uri, entry in _look_up_images(access, source, root):
        if entry is None:
            raise NotFound(f"{source.uri}, line {line.number}: {uri} does not exist.", uri=uri)
        path = uri.removeprefix(root.rstrip("/") + "/").removeprefix("./")
        yield listed(0, path, entry, folders=[name for name in path.split("/")[:-1] if name], uri=root, subset_from=subset_from), line.label


def _look_up_images(access: Access, source: ImageList, root: str) -> Iterator[tuple[_Line, str, Entry | None]]:
    pending: deque[tuple[_Line, str, Future[Entry | None]]] = deque()
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="list") as threads:
        try:
            for line in _lines(access, source):
                uri = _uri(line, root, source.uri)
                pending.append((line, uri, threads.submit(access.store(uri).stat, uri)))
                if len(pending) >= _AHEAD:
                    first, uri, entry = pending.popleft()
                    yield first, uri, entry.result()
            while pending:
                first, uri, entry = pending.popleft()
                yield first, uri, entry.result()
        finally:
            for _, _, lookup in pending:
                lookup.cancel()


def _uri(line: _Line, root: str, list_uri: str) -> str:
    if not line.path:
        raise BadSpec(f"{list_uri}, line {line.number}: the path is empty.", uri=list_uri)
    if ".." in line.path.split("/") or "\0" in line.path:
        raise BadSpec(f"{list_uri}, line {line.number}: the path {line.path!r} must not leave its folder by '..'.", uri=list_uri)
    if unsigned(line.path) != line.path:
        raise BadSpec(
            f"{list_uri}, line {line.number}: {unsigned(line.path)} is signed or holds a token, which would be stored with the plan. "
            "Only addresses in the job's spec may have signatures or tokens. Instead, list images of a store, which gets its credentials from an entry of stores.",
            uri=list_uri,
        )
    if "://" in line.path or line.path.startswith("/"):
        return line.path
    return f"{root.rstrip('/')}/{line.path.removeprefix('./')}"


def _lines(access: Access, source: ImageList) -> Iterator[_Line]:
    kind = source.format or _FORMATS.get(extension_of(without_suffix(source.uri)))
    if kind is None:
        raise BadSpec(
            f"{source.uri}: its format can't be determined from its extension; set source.images.list.format to Csv, Jsonl or Text."
        )
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
        # The last line may continue in the next piece. A \r at the end of this line may be the first half of \r\n.
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


def _of_text(text: Iterator[str], source: ImageList) -> Iterator[_Line]:
    if source.label_column is not None:
        raise BadSpec(f"{source.uri}: a list of format Text has no columns; write it as Csv (its delimiter may be a space) or Jsonl.")
    for number, line in enumerate(text, start=1):
        if path := line.strip():
            yield _Line(number, path, "")


def _of_csv(text: Iterator[str], source: ImageList) -> Iterator[_Line]:
    delimiter = source.delimiter or ("\t" if extension_of(without_suffix(source.uri)) == "tsv" else ",")
    if ord(delimiter) > 0x7F or delimiter in '\r\n\0"':
        raise BadSpec(f"source.images.list.delimiter is one ASCII character, got {delimiter!r}.")
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


def _of_jsonl(text: Iterator[str], source: ImageList) -> Iterator[_Line]:
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
            raise BadSpec(f"{source.uri}, line {number}: no object with a text {source.path_column or 'path'!r}.", uri=source.uri)
        label = None
        if source.label_column is not None:
            label = record.get(source.label_column)
            if not isinstance(label, (str, int)):
                raise BadSpec(
                    f"{source.uri}, line {number}: {source.label_column!r} is neither text nor a whole number: {label!r}.", uri=source.uri
                )
            label = str(label)
        yield _make_line(number, path, label, source)


def _make_line(number: int, path: str, label: str | None, source: ImageList) -> _Line:
    if label is not None and not label.strip():
        raise BadSpec(f"{source.uri}, line {number}: the label of {path!r} is empty.", uri=source.uri)
    return _Line(number, path.strip(), "" if label is None else label.strip())
