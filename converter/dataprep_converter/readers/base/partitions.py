"""Hive partitions: columns that are stored in folder names, as in `country=de/day=2024-01-01/part-0.parquet`.

The planner takes the keys from the path of the first file, checks that all other files have the same keys, and freezes the types. Workers
derive the values of the partition columns from the path of a unit. Readers handle only the columns inside the files.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn, TypeAlias, TypeVar
from urllib.parse import unquote_to_bytes

import pyarrow as pa

from dataprep_api.redaction import unsigned
from dataprep_api.spec import CsvSource
from dataprep_api.spec.sources.jsonl import JsonlSource
from dataprep_api.spec.sources.table_files import TableFiles
from dataprep_api.spec.sources.text import TextSource
from dataprep_converter.core.errors import BadSpec, NotFound
from dataprep_converter.core.tensors import Array
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.examined import first_file
from dataprep_converter.readers.base.listing import input_files
from dataprep_converter.readers.base.partition_filter import PartitionFilter
from dataprep_converter.readers.columnar.columns import TYPES, default_of, shown
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Entry

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""The value in a folder name that represents a null in Hive and Spark."""

_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
_INT64: Final = range(-(2**63), 2**63)

_arrow: Any = pa  # the type stubs lack some functions

S = TypeVar("S", CsvSource, JsonlSource, TableFiles, TextSource)
ListFiles: TypeAlias = Callable[[], Iterator[tuple[int, str, Entry]]]
"""Lists the files of a source, like `input_files`, but without the folders that `partitions` leaves out."""


def discover_with_partitions(source: S, access: Access, *, of: str, units: Callable[[S, ListFiles], Listing[Unit]]) -> Discovery:
    """The discovery of a source whose units are listed by `units`.

    The arguments of `units` are the source without its partition columns, and a function that lists the source's files.

    With `hivePartitions`, the partition columns are also stored in the state. Raises BadSpec if folders have no keys, if a value doesn't
    have its column's type, or if a condition names a key that the folders don't have. Also raises BadSpec if two files have different keys;
    the message names both files. Raises NotFound if no file satisfies the conditions of `partitions`.
    """
    if source.hive_partitions is None:
        return Discovery(units(source, partial(input_files, access, source.uris)))
    return Discovery(_list_units(source, access, of, units))


@dataclass(frozen=True)
class _Column:
    name: str
    type: pa.DataType
    default: Any
    """An Arrow scalar, or None."""


class Partitions:
    """The columns from the folder names, for workers. Adds no columns if the state has no partitions."""

    def __init__(self, uris: Sequence[str], state: Mapping[str, Any], *, of: str, keep_nulls: bool) -> None:
        self._uris = uris
        self._keep_nulls = keep_nulls
        self._of = of
        self._columns = [
            _Column(name, TYPES[kind], None if default is None else default_of(default, TYPES[kind], column=name, of=of, called=kind))
            for name, kind, default in state.get("partitions", [])
        ]

    def schema(self, files: pa.Schema) -> pa.Schema:
        """The columns of the files, followed by the columns from the folder names. Raises BadSpec for a column that is in both the files
        and the folder names."""
        for column in self._columns:
            if column.name in files.names:
                raise BadSpec(
                    f"{self._of}.hivePartitions: the column {column.name!r} is in the files and in the names of their folders; "
                    "leave the column out of either the files or the folder names."
                )
        return pa.schema([*files, *((column.name, column.type) for column in self._columns)])

    def refusal(self, unit: Unit) -> str | None:
        """The reason why all records of the unit are bad, or None.

        All records are bad if a folder name has a null for a column without a default, and the job doesn't keep nulls.
        """
        if self._keep_nulls:
            return None
        values = self._values(unit)
        for column in self._columns:
            if values[column.name] is None and column.default is None:
                return f"column {column.name!r} has no value and no default: the folder is {column.name}={NULL}"
        return None

    def with_columns(self, records: pa.RecordBatch, unit: Unit) -> pa.RecordBatch:
        """The given records of the unit, with the columns from its folder names added."""
        if not self._columns:
            return records
        values = self._values(unit)
        arrays: list[Array] = []
        for column in self._columns:
            text = values[column.name]
            scalar = column.default if text is None else _scalar(text, column.type)
            arrays.append(_arrow.nulls(records.num_rows, column.type) if scalar is None else _arrow.repeat(scalar, records.num_rows))
        return pa.RecordBatch.from_arrays([*records.columns, *arrays], schema=self.schema(records.schema))

    def _values(self, unit: Unit) -> dict[str, str | None]:
        return dict(keys_of(self._uris[unit.root], unit.path, unit.uri)) if self._columns else {}


def names_from(state: Mapping[str, Any]) -> list[str]:
    """The names of the partition columns that `discover_with_partitions` stored in the state."""
    return [name for name, _, _ in state.get("partitions", [])]


def without_partition_columns(source: S, names: Collection[str], *, of: str) -> S:
    """The source without its settings for the partition columns `names`. Raises BadSpec if all columns that the source lists are partition
    columns."""
    changed: dict[str, Any] = {}
    for field in ("columns", "select"):
        columns = getattr(source, field, None)
        if columns is not None and names:
            changed[field] = [each for each in columns if _name_of(each) not in names]
            if not changed[field]:
                raise BadSpec(f"{of}.{field} names only columns that come from folder names; name at least one column of the files.")
    if getattr(source, "defaults", None) is not None:
        changed["defaults"] = {name: default for name, default in getattr(source, "defaults").items() if name not in names}  # noqa: B009
    return source.model_copy(update=changed)


# --- planning -----------------------------------------------------------------------------------------------------


def _list_units(source: S, access: Access, of: str, units: Callable[[S, ListFiles], Listing[Unit]]) -> Listing[Unit]:
    conditions = PartitionFilter(source.partitions or {}, _types_of(source), of=of)

    def is_kept(root: int, path: str, uri: str) -> bool:
        return conditions.keeps(keys_of(source.uris[root], path, uri), uri)

    files = partial(input_files, access, source.uris, is_kept if source.partitions else None)
    root, path, entry = first_file(access, files()) or _no_file_left(conditions, source.uris)
    first = keys_of(source.uris[root], path, entry.uri)
    names = [name for name, _ in first]
    if not names:
        below = "" if entry.uri == source.uris[root] else f" below {source.uris[root]}"
        raise BadSpec(f"{of}.hivePartitions: {entry.uri} is in no folder{below} that is named KEY=VALUE.", uri=entry.uri)
    conditions.check_names(names, entry.uri)
    columns = _ColumnTypes(names, source, of)
    latest = ""
    listing = units(without_partition_columns(source, names, of=of), files)
    state: dict[str, Any] = {}

    def units_with_state() -> Iterator[Unit]:
        state.update((yield from listing))

    for unit in units_with_state():
        if unit.uri != latest:
            latest = unit.uri
            values = dict(keys_of(source.uris[unit.root], unit.path, unit.uri))
            if values.keys() != set(names):
                raise BadSpec(
                    f"{unit.uri} is in folders with the keys {', '.join(values) or 'none'}, "
                    f"but {entry.uri} is in folders with {', '.join(names)}; every file needs the same keys.",
                    uri=unit.uri,
                )
            columns.take(values, unit.uri)
        yield unit
    return state | {"partitions": columns.as_json()}


def _no_file_left(conditions: PartitionFilter, uris: Sequence[str]) -> NoReturn:
    raise NotFound(f"{conditions.of}.partitions ({conditions}) leaves out every file of {', '.join(uris)}.", uri=uris[0])


def _types_of(source: S) -> dict[str, str | None]:
    """The type of each column for which the spec gives a type. With `hivePartitions: String`, all other columns from folder names are
    text."""
    columns = [column for column in getattr(source, "columns", None) or [] if not isinstance(column, str)]
    text: dict[str, str | None] = dict.fromkeys(source.partitions or {}, "String" if source.hive_partitions == "String" else None)
    return text | {column.name: column.type for column in columns}


class _ColumnTypes:
    """Determines the types of the partition columns: the types in the spec, or else types inferred from the values."""

    def __init__(self, names: Sequence[str], source: S, of: str) -> None:
        spec_columns = {column.name: column for column in getattr(source, "columns", None) or [] if not isinstance(column, str)}
        defaults: Mapping[str, str] = getattr(source, "defaults", None) or {}
        self._types: dict[str, str | None] = {}
        self._defaults: dict[str, str | None] = {}
        for name in names:
            column = spec_columns.get(name)
            if getattr(column, "list", False):
                raise BadSpec(f"{of}.columns: {name!r} comes from the names of folders, so it can't be a list.")
            kind = getattr(column, "type", None)
            self._types[name] = "String" if kind is None and source.hive_partitions == "String" else kind
            default = getattr(column, "default", None)
            self._defaults[name] = defaults.get(name) if default is None else default
        self._are_numbers: dict[str, bool | None] = dict.fromkeys(names)

    def take(self, values: Mapping[str, str | None], uri: str) -> None:
        """Updates the types with the values in one file's folder names.

        Raises BadSpec for a value that doesn't have the type in the spec.
        """
        for name, text in values.items():
            kind = self._types[name]
            if text is None:
                continue
            if kind is None:
                self._are_numbers[name] = self._are_numbers[name] is not False and _is_whole_number(text)
            elif _scalar(text, TYPES[kind]) is None:
                raise BadSpec(
                    f"{uri}: {shown(text)} in the name of its folder is "
                    f"not {'an' if kind[0] in 'AEIOU' else 'a'} {kind} (column {name!r}).",
                    uri=uri,
                )

    def as_json(self) -> list[list[str | None]]:
        """The (name, type, default) of each column, as JSON values."""
        return [
            [name, kind or ("Int64" if self._are_numbers[name] else "String"), self._defaults[name]] for name, kind in self._types.items()
        ]


# --- names --------------------------------------------------------------------------------------------------------


def keys_of(root: str, path: str, uri: str) -> list[tuple[str, str | None]]:
    """The (key, value) of each folder named `KEY=VALUE`, the outermost first. A null is returned as None.

    Only folders below the URI `root` count, or all folders if `root` is the URI of the file itself. Raises BadSpec for a duplicate key, and
    for a name that is not UTF-8.
    """
    # The query string of a web address is not part of its path.
    folder_path = (uri.partition("?")[0] if uri.startswith(("http://", "https://")) else uri) if unsigned(uri) == unsigned(root) else path
    keys: list[tuple[str, str | None]] = []
    for folder in folder_path.split("/")[:-1]:
        key, sign, value = folder.partition("=")
        if not (key and sign):
            continue
        name = _decode(key, folder, uri)
        if any(name == other for other, _ in keys):
            raise BadSpec(f"{uri}: the key {name!r} is in the names of two of its folders.", uri=uri)
        keys.append((name, None if value == NULL else _decode(value, folder, uri)))
    return keys


def _decode(text: str, folder: str, uri: str) -> str:
    try:
        return unquote_to_bytes(text.encode(errors="surrogateescape")).decode()
    except UnicodeDecodeError as exc:
        raise BadSpec(f"{uri}: the name of its folder {folder!r} is not UTF-8.", uri=uri) from exc


def _is_whole_number(text: str) -> bool:
    return _WHOLE_NUMBER.fullmatch(text) is not None and int(text) in _INT64


def _scalar(text: str, kind: pa.DataType) -> Any:
    """The value as an Arrow scalar, or None if the value is not of the type `kind`. The syntax of integers is checked before the cast,
    because Arrow would accept 0x10."""
    if kind == pa.int64() and not _is_whole_number(text):
        return None
    try:
        return _arrow.scalar(text).cast(kind)
    except pa.ArrowInvalid:
        return None


def _name_of(column: Any) -> str:
    """The name of a column that the spec gives either as a model or as a name."""
    name: str = column if isinstance(column, str) else column.name
    return name
