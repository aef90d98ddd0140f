"""For `inspect` and `head`, reads the first records of files written by any program, with one function for each file format.

This module reads only the beginning of one file, and shows every value unchanged. It is independent of the source readers, which plan all
files of a source and refuse data that a job can't convert.
"""

import csv
import io
import itertools
import json
import math
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dataprep_converter.core.errors import BadData, BrokenRecord, NotWhole
from dataprep_converter.core.lists import is_list
from dataprep_converter.formats.tfrecord import records as tfrecords
from dataprep_converter.inputs.compressions import Compression
from dataprep_converter.inputs.pinned import ForwardReader
from dataprep_converter.inputs.ranged import RangedFile
from dataprep_converter.readers.columnar.parquet import INT96_UNIT
from dataprep_converter.readers.text.csv_starts import header_names
from dataprep_converter.records.kept_types import time_text
from dataprep_converter.stores import Input
from dataprep_converter.tools.infer.csv_layout import layout_of
from dataprep_converter.tools.infer.file_types import kind_of
from dataprep_converter.tools.infer.text_heads import HEAD_BYTES, text_of

_SHOWN_BYTES: Final = 64 << 10
"""Maximum number of bytes read from a tar member."""
_MOST_LEVELS: Final = 100
"""Maximum nesting depth of lists and objects in a value that is shown."""
_LONGEST_CONFIG: Final = 1 << 20
_TEXTS: Final = frozenset({"txt", "text", "caption", "json", "cls", "cls2", "index", "inx", "id", "transcript"})
"""Extensions of the members that the webdataset library decodes as text."""
_MDS_NUMBERS: Final = frozenset({
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
})  # fmt: skip
_MDS_TEXTS: Final = frozenset({"str", "str_int", "str_float", "str_decimal"})
_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"\s*")
_arrow: Any = pa  # the stubs lack some functions
_pq: Any = pq


@dataclass(frozen=True)
class RawFile:
    """A file whose records are shown."""

    uri: str
    source: Input
    head: bytes
    """The file's first bytes, decompressed."""
    compression: Compression | None

    def forward(self) -> ForwardReader:
        """Returns a reader of the decompressed contents."""
        return ForwardReader(self.source, self.uri, compression=self.compression)


@dataclass(frozen=True)
class RawRecords:
    """The first records of a file."""

    columns: Mapping[str, str]
    """Maps each column to its type, named as in the file if the file declares types."""
    records: Sequence[Mapping[str, Any]]
    total: int | None = None
    """The file's total number of records, if the file states it."""


@dataclass(frozen=True)
class Form:
    """A file format whose records can be shown."""

    name: str
    matches: Callable[[str, bytes], bool]
    """Called with a file's path and its first bytes, decompressed."""
    read: Callable[[RawFile, int], RawRecords]
    """Returns at most this many records. Raises BadData if the file doesn't have this format."""


def form_of(path: str, head: bytes) -> Form | None:
    """Returns a file's format, or None if its records can't be shown."""
    return next((form for form in FORMS if form.matches(path, head)), None)


# --- tables -------------------------------------------------------------------------------------------------------------


def _parquet(file: RawFile, count: int) -> RawRecords:
    with _arrow_errors(file, "Parquet"):
        parquet = _pq.ParquetFile(RangedFile(file.source), pre_buffer=False, coerce_int96_timestamp_unit=INT96_UNIT)
        batch = next(parquet.iter_batches(batch_size=count), None) if count else None
        return _of_arrow(parquet.schema_arrow, batch, count, total=parquet.metadata.num_rows)


def _arrow_file(file: RawFile, count: int) -> RawRecords:
    with _arrow_errors(file, "Arrow"):
        if file.head.startswith(b"ARROW1"):
            opened = _arrow.ipc.open_file(RangedFile(file.source))
            batches: Iterable[Any] = (opened.get_batch(number) for number in range(opened.num_record_batches))
        else:
            opened = batches = _arrow.ipc.open_stream(RangedFile(file.source))
        batch = next((each for each in batches if each.num_rows), None) if count else None
        return _of_arrow(opened.schema, batch, count)


def _of_arrow(schema: Any, batch: Any, count: int, *, total: int | None = None) -> RawRecords:
    columns = {field.name: str(field.type) for field in schema}
    return RawRecords(columns, _values_of(batch.slice(0, count)) if batch is not None else [], total)


def _values_of(batch: Any) -> list[dict[str, Any]]:
    try:
        return list(batch.to_pylist())
    except (OverflowError, ValueError):  # a time outside Python's range of years, or nanoseconds without pandas
        names = batch.schema.names
        return [{name: _value(column[row]) for name, column in zip(names, batch.columns, strict=True)} for row in range(batch.num_rows)]


def _value(scalar: Any) -> Any:
    """Converts a value as Arrow's `as_py()` does, but times that Python can't represent become text.

    A time in nanoseconds becomes ISO 8601 text, and a time outside Python's range of years becomes its number as text.
    """
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_struct(kind):
        return {name: _value(each) for name, each in scalar.items()}
    if is_list(kind):
        return [_value(each) for each in scalar.values]
    if pa.types.is_map(kind):
        return [(_value(each[kind.key_field.name]), _value(each[kind.item_field.name])) for each in scalar.values]
    try:
        return scalar.as_py()
    except (OverflowError, ValueError) as exc:
        if pa.types.is_temporal(kind):
            return str(scalar.value) if isinstance(exc, OverflowError) else time_text(scalar.value, kind)
        return str(kind)  # the name of the type, for example for a dictionary of times


@contextmanager
def _arrow_errors(file: RawFile, name: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as exc:
        raise BadData(f"{file.uri} is not a readable {name} file: {exc}.", uri=file.uri) from exc


def _csv(file: RawFile, count: int) -> RawRecords:
    text = text_of(file.head)
    lines = text.lines if text is not None else file.head
    layout = layout_of(lines)
    reader = csv.reader(io.StringIO(lines.decode("utf-8-sig", "replace"), newline=""), delimiter=layout.delimiter)
    rows = itertools.islice(reader, layout.lines_above, None)
    names = header_names(layout.rows[0]) if layout.header else [str(at) for at in range(layout.columns)]
    try:
        if layout.header:
            next(rows, None)
        records = [dict(zip(names, row, strict=False)) for row in itertools.islice((row for row in rows if row), count)]
    except csv.Error as exc:
        raise BadData(f"{file.uri} is not readable as CSV: {exc}.", uri=file.uri) from exc
    return RawRecords(dict.fromkeys(names, "text"), records)


def _json(file: RawFile, count: int) -> RawRecords:
    head = text_of(file.head)
    text = (head.lines if head is not None else file.head).decode("utf-8-sig", "replace")
    values = (
        _elements(text, is_whole=len(file.head) < HEAD_BYTES)
        if text.lstrip().startswith("[")
        else map(json.loads, filter(str.strip, text.split("\n")))
    )
    records: list[Mapping[str, Any]] = []
    try:
        for value in itertools.islice(values, count):
            _check_depth(value)
            records.append(value if isinstance(value, dict) else {"value": value})
    except RecursionError as exc:
        raise BadData(f"{file.uri}, record {len(records)} is nested too deeply.", uri=file.uri) from exc
    except ValueError as exc:
        raise BadData(f"{file.uri}, record {len(records)} isn't JSON: {exc}.", uri=file.uri) from exc
    return RawRecords(_types_of(records), records)


def _check_depth(value: Any) -> None:
    """Raises RecursionError if a value is nested too deeply to be shown."""
    level = [value]
    for _ in range(_MOST_LEVELS):
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each if isinstance(each, list) else ())]
        if not level:
            return
    raise RecursionError


def _elements(text: str, *, is_whole: bool) -> Iterator[Any]:
    """Yields the elements of a JSON array. If the text is incomplete, an element that is cut off at the end is left out."""
    at = _past_space(text, text.index("[") + 1)
    if text[at : at + 1] == "]":
        return
    while True:
        try:
            value, at = _DECODER.raw_decode(text, at)
        except ValueError:
            if is_whole:
                raise
            return
        yield value
        at = _past_space(text, at)
        if text[at : at + 1] != ",":
            break
        at = _past_space(text, at + 1)
    if is_whole and text[at : at + 1] != "]":
        raise json.JSONDecodeError("Expecting ',' delimiter", text, at)


def _past_space(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches anywhere


# --- records of bytes ---------------------------------------------------------------------------------------------------


def _tfrecord(file: RawFile, count: int) -> RawRecords:
    found: list[Mapping[str, Any]] = []
    with closing(file.forward()) as forward:
        try:
            for _, payload in itertools.islice(tfrecords.read(forward.pieces()), count):
                try:
                    found.append(tfrecords.parse_example(payload))
                except NotWhole:
                    found.append({"record": payload})
        except BrokenRecord as exc:
            raise BadData(f"{file.uri}: {exc}.", uri=file.uri) from exc
    return RawRecords(_types_of(found), found)


def _webdataset(file: RawFile, count: int) -> RawRecords:
    found: list[dict[str, Any]] = []
    with closing(file.forward()) as forward:
        try:
            with tarfile.open(fileobj=forward, mode="r|") as archive:  # type: ignore[call-overload] # tarfile only calls read
                for member in archive:
                    folder, slash, last = member.name.rpartition("/")
                    base, dot, extension = last.partition(".")
                    if not (member.isfile() and base and dot):
                        continue
                    key = folder + slash + base
                    if not found or found[-1]["__key__"] != key:
                        if len(found) == count:
                            break
                        found.append({"__key__": key})
                    content = archive.extractfile(member)
                    found[-1][extension] = _member(extension, content.read(_SHOWN_BYTES) if content is not None else b"", member.size)
        except (tarfile.TarError, EOFError) as exc:
            raise BadData(f"{file.uri} is not a readable tar file: {exc}.", uri=file.uri) from exc
    return RawRecords(_types_of(found), found)


def _member(extension: str, content: bytes, size: int) -> Any:
    """Returns a member's content: text, an array's values, or bytes."""
    last = extension.rpartition(".")[2].lower()
    try:
        if last in _TEXTS:
            return content.decode()
        if last == "npy" and len(content) == size:
            return np.load(io.BytesIO(content), allow_pickle=False).tolist()
    except ValueError:  # invalid UTF-8 or an invalid array
        pass
    return Cut(content, size)


@dataclass(frozen=True)
class Cut:
    """The beginning of a long value."""

    content: bytes
    size: int
    """The size of the complete value in bytes."""


def _mds(file: RawFile, count: int) -> RawRecords:
    with closing(file.forward()) as forward:
        try:
            total = int.from_bytes(forward.read(4), "little")
            offsets = np.frombuffer(forward.read(4 * (total + 1)), "<u4").tolist()
            if any(end < begin for begin, end in itertools.pairwise([forward.position, *offsets])):
                raise ValueError("the offsets of its records decrease")
            layout = json.loads(forward.read(min(offsets[0] - forward.position, _LONGEST_CONFIG)))
            names, encodings, sizes = (layout[f"column_{part}"] for part in ("names", "encodings", "sizes"))
            columns = dict(zip(names, encodings, strict=True))
            found = []
            for begin, end in itertools.pairwise(offsets[: count + 1]):
                contents = _split(forward.read(end - begin), sizes)
                found.append({name: _mds_value(content, columns[name]) for name, content in zip(names, contents, strict=True)})
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as exc:
            raise BadData(f"{file.uri} is not a readable MDS shard: {exc}.", uri=file.uri) from exc
    return RawRecords(columns, found, total)


def _split(record: bytes, sizes: Sequence[int | None]) -> Iterator[bytes]:
    """Yields the contents of a record's columns. The record begins with the sizes of its variable-size columns."""
    at = 4 * sum(size is None for size in sizes)
    varying = iter(np.frombuffer(record[:at], "<u4").tolist())
    for size in sizes:
        length = next(varying) if size is None else size
        yield record[at : at + length]
        at += length


def _mds_value(content: bytes, encoding: str) -> Any:
    kind, _, rest = encoding.partition(":")
    if kind in _MDS_TEXTS:
        return content.decode("utf-8", "replace")
    if kind == "json":
        return json.loads(content)
    if kind == "int" or kind in _MDS_NUMBERS:
        return np.frombuffer(content, np.dtype("int64" if kind == "int" else kind).newbyteorder("<"))[0].item()
    dtype, _, shape = rest.partition(":")
    if kind == "ndarray" and dtype in _MDS_NUMBERS:
        sizes = [int(size) for size in shape.split(",")] if shape else None
        if sizes is None:
            # The first byte is `ndim << 2 | n`. Then the shape follows as integers of `8 << n` bits.
            width = 1 << (content[0] & 3)
            end = 1 + (content[0] >> 2) * width
            sizes, content = np.frombuffer(content[1:end], f"<u{width}").tolist(), content[end:]
        values = np.frombuffer(content, np.dtype(dtype).newbyteorder("<"))
        if math.prod(sizes) != len(values):
            raise ValueError(f"{len(values)} numbers for the shape {sizes}")
        return values.reshape(sizes).tolist()
    # Pickles are never loaded.
    return content


def _is_mds(path: str, head: bytes) -> bool:
    """Whether the file begins like an MDS shard: with a count and offsets.

    The first offset must point past the list of offsets and past the column description, which follows the list.
    """
    count, first = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:8], "little")
    begin = 4 * (count + 2)
    return ".mds" in path.rpartition("/")[2] and begin < first <= begin + _LONGEST_CONFIG and head[begin : begin + 1] in (b"{", b"")


def _types_of(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns the value types of each column, in the order in which the columns occur."""
    types: dict[str, list[str]] = {}
    for record in records:
        for name, value in record.items():
            kind = _type_of(value)
            if kind not in types.setdefault(name, []) and kind:
                types[name].append(kind)
    return {name: " or ".join(kinds) or "null" for name, kinds in types.items()}


def _type_of(value: Any) -> str:
    names = {str: "text", dict: "object", Cut: "bytes", type(None): ""}
    if isinstance(value, list):
        inner = {_type_of(each) for each in value} - {""}
        return f"list of {inner.pop()}" if len(inner) == 1 else "list"
    return names.get(type(value), type(value).__name__)


def _kind(name: str) -> Callable[[str, bytes], bool]:
    return lambda path, head: kind_of(path, head) == name


FORMS: Final[Sequence[Form]] = (
    Form("Parquet", _kind("parquet"), _parquet),
    Form("Arrow", _kind("arrow"), _arrow_file),
    Form("TFRecord", _kind("tfrecord"), _tfrecord),
    Form("WebDataset", lambda _, head: head[257:262] == b"ustar", _webdataset),
    Form("MDS", _is_mds, _mds),
    Form("JSON", _kind("jsonl"), _json),
    Form("CSV", _kind("csv"), _csv),
)
"""All formats. Formats that are recognised by their bytes come first."""
