"""Reads the rows of a table of images with the reader of the source `csv`, `jsonl` or `parquet`.

The table can also have other columns than paths and labels. The planner reads the table once, and stores each row's values in the unit of
the row's image. A table of images is small compared with the images, so storing its rows costs little. Workers don't read the table.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_api.spec import Source
from dataprep_api.spec.sources.images import ImageList
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import to_numpy
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.compressions import without_suffix
from dataprep_converter.inputs.pinned import entry_of
from dataprep_converter.readers import reader_class
from dataprep_converter.readers.columnar.parquet import fields_of
from dataprep_converter.readers.images.image_extras import is_plain
from dataprep_converter.readers.images.image_listing import extension_of
from dataprep_converter.records.batch import INT96, SAMPLE, RejectedSample
from dataprep_converter.records.columns import similar

_CHUNK: Final = 4096
_SOURCES: Final = {"Csv": "csv", "Jsonl": "jsonl", "Parquet": "parquet"}
_OF: Final = "source.images.list"


@dataclass(frozen=True, slots=True)
class Line:
    """An image in a list."""

    place: str
    """The line or the row in the list, for messages."""
    path: str
    label: str
    values: Mapping[str, Any] = field(default_factory=dict)
    """The values of the other columns. Empty if there are no other columns."""
    bad: str = ""
    """The reason why the row can't be used. Such a row has no path."""


class ImageTable(Closeable):
    """An open table of images. See the module."""

    def __init__(self, access: Access, listed: ImageList, kind: str) -> None:
        """Reads the columns. Raises BadSpec for a column that doesn't exist, or whose values don't fit into a unit."""
        self._uri = listed.uri
        name = _SOURCES[kind]
        options: dict[str, Any] = {"uris": [listed.uri]}
        if kind == "Csv":
            tab = "\t" if extension_of(without_suffix(listed.uri)) == "tsv" else ","
            options |= {"header": listed.header, "delimiter": listed.delimiter or tab}
        if listed.defaults is not None:
            options["defaults"] = dict(listed.defaults)
        path_column = listed.path_column or ("path" if kind == "Jsonl" else "0")
        references = [path_column, *([listed.label_column] if listed.label_column is not None else []), *(listed.columns or [])]
        if kind == "Parquet":
            # Read only these columns, because the file's other columns might have types that no record can hold.
            fields = _fields_of(access, listed.uri)
            references = [self._top_level(reference, fields) for reference in references]
            options["columns"] = list(dict.fromkeys(references))
        source = Source.model_validate({name: options})
        reader_type = reader_class(name)
        self._units, state = reader_type.discover(source.member, access).collect()
        self.warnings: Sequence[str] = state.get("warnings", [])
        self.has_int96 = INT96 in state
        with reader_type(source.member, state, access) as reader:
            names = reader.schema().names
        self._path = self._found(references[0], names)[0]
        self._label = None if listed.label_column is None else self._found(references[1], names)[0]
        others = references[1 if listed.label_column is None else 2 :]
        columns = list(dict.fromkeys(name for reference in others for name in self._found(reference, names)))
        if kind == "Csv":
            # Read columns that aren't added to the images as text. Any cell is valid as text, and a path or class such as 007 isn't a
            # number.
            typed = {*columns} - {self._path, self._label}
            state["columns"] = [column | ({"type": "String"} if column["name"] not in typed else {}) for column in state["columns"]]
        member = source.member
        if kind == "Jsonl":
            # Set `columns` to a list, even an empty one, so that records can have additional keys with any values.
            needed = {*columns, self._path, self._label}
            state["columns"] = [[column, path] for column, path in state["columns"] if column["name"] in needed]
            member = member.model_copy(update={"columns": []})
        self._reader = reader_type(member, state, access)
        self.schema: pa.Schema = pa.schema([self._reader.schema().field(name) for name in columns])
        """The columns that are added to the images."""
        for column in self.schema:
            if not is_plain(column.type):
                raise BadSpec(
                    f"{listed.uri}: the column {column.name!r} is {column.type}; the columns of a list must contain text, numbers, booleans, or lists or structs of these.",
                    uri=listed.uri,
                )

    def close(self) -> None:
        """Closes the table."""
        self._reader.close()

    def lines(self) -> Iterator[Line]:
        """Yields the rows in the order of the table. A row that the source refuses becomes a Line with a reason in `bad`."""
        samples = np.arange(self._units.samples, dtype=np.int64)
        chunks = (samples[start : start + _CHUNK] for start in range(0, len(samples), _CHUNK))
        for batch in self._reader.read(self._units, chunks):
            numbers: list[int] = to_numpy(batch.records.column(SAMPLE)).tolist()
            good = dict(zip(numbers, self._lines(batch.records, numbers), strict=True))
            bad = {each.sample: Line(_place(each.sample), "", "", bad=self._reason(each)) for each in batch.bad}
            lines = good | bad
            yield from (lines[sample] for sample in sorted(lines))

    def _lines(self, records: pa.RecordBatch, numbers: Sequence[int]) -> Iterator[Line]:
        paths = records.column(self._path).to_pylist()
        labels = records.column(self._label).to_pylist() if self._label is not None else [""] * records.num_rows
        rows = records.select(self.schema.names).to_pylist() if len(self.schema) else [{}] * records.num_rows
        for sample, path, label, row in zip(numbers, paths, labels, rows, strict=True):
            place = _place(sample)
            text = "" if path is None else self._text(path, self._path, place).strip()
            bad = "" if text else f"{self._uri}, {place}: {self._path!r} is empty"
            yield Line(place, text, "" if bad else self._label_text(label, place), row, bad)

    def _label_text(self, value: Any, place: str) -> str:
        if self._label is None:
            return ""
        label = self._text(value, self._label, place).strip()
        if not label:
            raise BadSpec(f"{self._uri}, {place}: the label in {self._label!r} is empty.", uri=self._uri)
        return label

    def _text(self, value: Any, column: str, place: str) -> str:
        if value is None or isinstance(value, bool) or not isinstance(value, (str, int)):
            raise BadSpec(f"{self._uri}, {place}: {column!r} is neither text nor a whole number: {value!r}.", uri=self._uri)
        return str(value)

    def _top_level(self, reference: str, fields: Sequence[str]) -> str:
        """The name of the column that `reference` (a name or position) refers to. A struct field's name, such as `a/b`, is returned
        unchanged."""
        is_inner = reference not in fields and reference.partition("/")[0] in fields
        return reference if is_inner else self._found(reference, fields)[0]

    def _found(self, reference: str, names: Sequence[str]) -> list[str]:
        """The columns that `reference` (a name or position) refers to. The name of a struct refers to all of its columns."""
        if reference in names:
            return [reference]
        if reference.isascii() and reference.isdigit() and int(reference) < len(names):
            return [names[int(reference)]]
        parts = [name for name in names if name.startswith(f"{reference}/")]
        if not parts:
            shown = ", ".join(names[:20]) or "no columns"
            raise BadSpec(f"{_OF}: {self._uri} has no column {reference!r}; it has {shown}.{similar(reference, names)}", uri=self._uri)
        return parts

    def _reason(self, bad: RejectedSample) -> str:
        return f"{self._uri}, {_place(bad.sample)}: {bad.reason}"


def _fields_of(access: Access, uri: str) -> list[str]:
    store = access.store(uri)
    entry_of(store, uri)
    with store.open(uri) as source:
        return fields_of(source, uri)


def _place(sample: int) -> str:
    return f"row {sample + 1}"
