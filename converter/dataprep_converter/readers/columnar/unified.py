"""Unifies the columns of files whose schemas differ: finds common columns that can hold the values of all files.

| in one file and another | common column |
|---|---|
| absent, or a column of the type null | the column of the other file |
| integers | the smallest integer type that holds both types |
| floats | the wider float |
| an integer and a float | the smallest float that is as wide as the float and holds the integers, or float64 |
| a decimal and a number | float64 |
| times of one kind in different units | the finer unit |
| text, bytes or lists with small and large offsets | the type with large offsets |
| structs that are kept, or lists of structs | a struct with the fields of both, each with the common type; decimals keep all digits |

All other differences are refused. Only the planner unifies columns; `aligned.py` converts each file's batches to the common columns.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_api.dataset.run_id import FLAT, StructRule
from dataprep_converter.core.arrow_types import is_bytes, is_text
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import NUMPY_NAMES, is_tensor
from dataprep_converter.formats.nested.descriptions import plain_type
from dataprep_converter.readers.columnar.columns import Column, columns_of, digits

WHOLE: Final[pa.DataType] = pa.decimal128(19, 0)
"""The original type that is recorded for integers read as float64. Like decimals, integers with many digits lose some of their digits."""
UNITS: Final = ("s", "ms", "us", "ns")
"""Arrow's time units, the coarsest first."""

_arrow: Any = pa  # the type stubs lack some functions
_TOLD: Final = 5
_MOST_DIGITS: Final = 76
"""The maximum number of digits of an Arrow decimal."""


@dataclass
class Selection:
    """Selects which columns of a file are read. The selected columns don't depend on other files. Several threads may use one
    `Selection`."""

    columns: Sequence[str] | None
    """The selected columns, or None for all."""
    of: str
    """The source's name in messages."""
    structs: StructRule = FLAT
    asked: Collection[str] = ()
    """The columns that the spec keeps as nested values."""
    _latest: tuple[pa.Schema, list[Column]] | None = None

    def columns_of(self, schema: pa.Schema, uri: str) -> list[Column]:
        """The columns of a file with this schema, without the columns of the type null. Raises BadSpec for a column that can't be read."""
        latest = self._latest
        if latest is None or not latest[0].equals(schema):
            latest = (schema, self._columns_of(_without_nulls(schema, self.is_kept), uri))
            self._latest = latest
        return latest[1]

    def _columns_of(self, schema: pa.Schema, uri: str) -> list[Column]:
        known = set(_names(schema)) if self.columns is not None or self.asked else set()
        names = None if self.columns is None else [name for name in self.columns if name in known]
        if names == []:
            return []
        asked = [name for name in self.asked if name in known]
        return columns_of(schema, names, of=self.of, uri=uri, structs=self.structs, asked=asked)

    def is_kept(self, path: str) -> bool:
        """Whether a struct with this path becomes a column itself."""
        return (self.structs.keeps and "/" not in path) or path in self.structs.named or path in self.asked


@dataclass
class _Common:
    """A common column, and the files that have it."""

    column: Column
    uri: str
    """The latest file that changed the column or, if no file changed it, the first file that has the column."""
    first: pa.DataType | None
    """The original type in the first file."""
    files: int = 0
    absent_in: str = ""
    """The first file without the column."""


class CommonColumns:
    """Collects the columns of one file after another, and unifies them."""

    def __init__(self, selection: Sequence[str] | None, *, of: str, structs: StructRule = FLAT, asked: Collection[str] = ()) -> None:
        self.selection: Final = Selection(selection, of, structs, asked)
        self._of = of
        self._files = 0
        self._first: tuple[pa.Schema, str] | None = None
        self._common: dict[str, _Common] = {}
        self._latest: tuple[pa.Schema, list[Column]] | None = None
        self._repeated = 0
        """The number of files with the latest schema that are not yet counted in `_Common.files`."""
        self._inner: dict[tuple[str, ...], str] = {}
        """Maps the path of each column, and of each struct that contains columns, to the name of the first column at or below that path."""
        self._nothing: dict[str, tuple[pa.Schema, str]] = {}
        """The columns of the type null, each with the first file that has it."""
        self._differences: dict[str, str] = {}
        """Describes the first difference in the types of each column."""

    def add(self, schema: pa.Schema, uri: str) -> list[Column]:
        """Adds a file, and returns its columns. Raises BadSpec for a column that can't be read, or that has no common type with an earlier
        file's column. If there is no common type, the message names both files."""
        self._files += 1
        if self._latest is not None and self._latest[0].equals(schema):
            self._repeated += 1
            return self._latest[1]
        self._count_repeated()
        self._first = self._first or (schema, uri)
        for name in _null_names(schema, self.selection.is_kept):
            self._nothing.setdefault(name, (schema, uri))
        columns = self.selection.columns_of(schema, uri)
        for column in columns:
            if column.name not in self._common:
                self._check_path(column, uri)
                self._common[column.name] = _Common(column, uri, column.was, absent_in=self._first[1] if self._files > 1 else "")
            common = self._common[column.name]
            common.column = self._unified(common, column, uri)
            common.files += 1
        names = {column.name for column in columns}
        if len(names) < len(self._common):
            for name, common in self._common.items():
                common.absent_in = common.absent_in or ("" if name in names else uri)
        self._latest = (schema, columns)
        return columns

    def columns(self) -> list[Column]:
        """The common columns, in the order of the selection or, without a selection, in the order of their first occurrence. Raises BadSpec
        for a selected column that no file has, and for a column that has the type null in all files."""
        if self._first is None:
            return []
        found = [common.column for common in self._common.values()]
        names = self.selection.columns
        selected = found if names is None else [each for name in names for each in self._matching(name, found)]
        for name, (schema, uri) in self._nothing.items():
            if names is None and name not in self._common:
                columns_of(schema, [name], of=self._of, uri=uri)
        for name in self.selection.asked:
            if name not in self._common:
                columns_of(self._first[0], names, of=self._of, uri=self._first[1], structs=self.selection.structs, asked=[name])
        if not selected:
            raise BadSpec(f"{self._first[1]} has no columns.")
        return selected

    def units(self) -> dict[str, str]:
        """The common type, as text, of each time column whose first file has a different unit."""
        return {
            name: str(common.column.was)
            for name, common in self._common.items()
            if common.column.was is not None
            and pa.types.is_temporal(common.column.was)
            and getattr(common.column.was, "unit", None) != getattr(common.first, "unit", None)
        }

    def warnings(self) -> list[str]:
        """A sentence for each column that differs between files."""
        self._count_repeated()
        told = [
            f"{self._of}: the column {name!r} {difference}; all files are read as {_shown(self._common[name].column)}"
            for name, difference in self._differences.items()
        ]
        for name, common in self._common.items():
            if common.files < self._files:
                have = "have" if self._files - common.files > 1 else "has"
                told.append(
                    f"{self._of}: {self._files - common.files:,} of {self._files:,} files {have} no column {name!r}; the first is "
                    f"{common.absent_in}. The column is null in the records of such files"
                )
        if len(told) > _TOLD:
            told = [*told[:_TOLD], f"{self._of}: {len(told) - _TOLD:,} more columns differ between files"]
        return told

    def _count_repeated(self) -> None:
        for column in self._latest[1] if self._latest is not None and self._repeated else ():
            self._common[column.name].files += self._repeated
        self._repeated = 0

    def _matching(self, name: str, columns: Iterable[Column]) -> list[Column]:
        """The column with this name, or the columns of the struct with this name. If there are none, `columns_of` raises the error. The
        error is about the first file in which the column has the type null or, if there is no such file, about the source's first file."""
        exact = [column for column in columns if column.name == name]
        matching = exact or [column for column in columns if column.name.startswith(f"{name}/")]
        if not matching and self._first is not None:
            schema, uri = self._nothing.get(name, self._first)
            columns_of(schema, [name], of=self._of, uri=uri)
        return matching

    def _check_path(self, column: Column, uri: str) -> None:
        """Raises BadSpec if the column, or a struct that contains it, is a struct in some files and has another type in others."""
        if isinstance(column.nested, pa.StructType):
            return  # the fields of this struct can be columns too
        outer = [column.path[:length] for length in range(1, len(column.path))]
        for path in (column.path, *outer):
            other = self._common.get(self._inner.get(path, ""))
            if other is not None and (path == column.path) != (path == other.column.path):
                inside, whole = (other.uri, uri) if path == column.path else (uri, other.uri)
                raise BadSpec(
                    f"{uri}: the column {'/'.join(path)!r} is a struct in {inside}, but not in {whole}; no common type holds both."
                    f"{self._advice()}"
                )
        for path in (column.path, *outer):
            self._inner.setdefault(path, column.name)

    def _advice(self) -> str:
        return f" Leave it out of {self._of}.columns, or write the files with one type."

    def _unified(self, common: _Common, column: Column, uri: str) -> Column:
        known = common.column
        if known == column:
            return known
        unified = _unified_column(known, column) if known.path == column.path else None
        one, other = _shown(known), _shown(column)
        if unified is None:
            raise BadSpec(
                f"{uri}: the column {column.name!r} is {other}, but {one} in {common.uri}; no common type holds both.{self._advice()}"
            )
        if one != other and not _is_alike(known, column):
            self._differences.setdefault(column.name, f"is {one} in {common.uri}, but {other} in {uri}")
        if unified != known:
            common.uri = uri
        return unified


def _is_alike(one: Column, other: Column) -> bool:
    """Whether the values of both columns look the same in records.

    This is true of decimals with different types, of times with different zones, and of text with small and large offsets.
    """
    if one.was is not None and other.was is not None:
        is_same_time = pa.types.is_temporal(one.was) and getattr(one.was, "unit", None) == getattr(other.was, "unit", None)
        return is_same_time or bool(digits(one.was) and digits(other.was))
    return not {one.type, other.type} & NUMPY_NAMES.keys() and _item(one.type) not in NUMPY_NAMES


def _shown(column: Column) -> str:
    """The type of a column's values, for messages."""
    return str(column.nested or (column.type if column.was is None or column.was == WHOLE else column.was))


def _names(fields: Iterable[Any], within: str = "") -> Iterator[str]:
    """The paths of all fields. A path consists of the names of the structs that contain the field, followed by the field's name."""
    for field in fields:
        path = f"{within}{field.name}"
        yield path
        if pa.types.is_struct(field.type):
            yield from _names(field.type, f"{path}/")


def _null_names(fields: Iterable[Any], is_kept: Callable[[str], bool], within: str = "") -> list[str]:
    """The names of the columns that have the type null.

    Fields of kept structs are left out, because these fields are allowed to have the type null.
    """
    names = []
    for field in fields:
        path = f"{within}{field.name}"
        if pa.types.is_null(field.type):
            names.append(path)
        elif pa.types.is_struct(field.type) and not is_kept(path):
            names += _null_names(field.type, is_kept, f"{path}/")
    return names


def _without_nulls(schema: pa.Schema, is_kept: Callable[[str], bool]) -> pa.Schema:
    """The schema without columns of the type null."""

    def others(fields: Iterable[Any], within: str = "") -> list[Any]:
        return [
            field.with_type(pa.struct(others(field.type, f"{within}{field.name}/")))
            if pa.types.is_struct(field.type) and not is_kept(f"{within}{field.name}")
            else field
            for field in fields
            if not pa.types.is_null(field.type)
        ]

    return pa.schema(others(schema)) if _null_names(schema, is_kept) else schema


# --- types --------------------------------------------------------------------------------------------------------


def _unified_column(one: Column, other: Column) -> Column | None:
    """A column that can hold the values of both columns, or None if there isn't one."""
    if one.nested is not None and other.nested is not None:
        nested = unified_nested(one.nested, other.nested)
        return None if nested is None else replace(one, nested=nested)
    if one.nested is not None or other.nested is not None:
        return None
    times = [each.was for each in (one, other) if each.was is not None and pa.types.is_temporal(each.was)]
    if times:
        unit = _finer(*times) if len(times) == 2 and one.type == other.type else None
        if (
            unit is None
            or (unit != one.was and not pa.types.is_int64(one.type))
            or (unit != other.was and not pa.types.is_int64(other.type))
        ):
            return None
        return replace(one, was=unit)
    kind = unified_type(one.type, other.type)
    if kind is None:
        return None
    originals = [each.was for each in (one, other) if each.was is not None]
    if _item(kind) == pa.float64() and any(_item(each.type) == pa.int64() for each in (one, other)):
        originals.append(WHOLE)
    was = max(originals, key=digits, default=None)
    common = None if was is None else _common_decimal(one, other)
    return replace(one, type=kind, was=was, common=None if common == was else common)


def _common_decimal(one: Column, other: Column) -> pa.DataType:
    """The decimal type that holds the values of both columns, or the type null if there is none."""
    first, second = _decimal_of(one), _decimal_of(other)
    return (_wider(first, second) if pa.types.is_decimal(first) and pa.types.is_decimal(second) else None) or pa.null()


def _decimal_of(column: Column) -> pa.DataType:
    """The decimal type that holds the values of a column, or the type null if there is none."""
    if column.was is not None:
        return column.was if column.common is None else column.common
    return pa.decimal128(len(str(np.iinfo(NUMPY_NAMES[column.type]).max)), 0) if pa.types.is_integer(column.type) else pa.null()


def unified_type(one: Any, other: Any) -> pa.DataType | None:
    """A type that can hold the values of both types, or None if there isn't one."""
    types: Any = pa.types
    if one == other:
        unchanged: pa.DataType = one
        return unchanged
    if one in NUMPY_NAMES and other in NUMPY_NAMES and not types.is_boolean(one) and not types.is_boolean(other):
        return _unified_number(one, other)
    for is_kind, large in ((is_text, pa.large_string()), (is_bytes, pa.large_binary())):
        if is_kind(one) and is_kind(other):
            return large
    if is_tensor(one) and is_tensor(other) and one.shape == other.shape and len(one.shape) == 1:
        value = unified_type(one.value_type, other.value_type)
        return None if value is None else _arrow.fixed_shape_tensor(value, one.shape)
    if all((types.is_list(kind) or types.is_large_list(kind)) for kind in (one, other)):
        value = unified_type(one.value_type, other.value_type)
        is_large_list = types.is_large_list(one) or types.is_large_list(other)
        return None if value is None else (pa.large_list(value) if is_large_list else pa.list_(value))
    return None


def unified_nested(one: Any, other: Any) -> pa.DataType | None:
    """A type that can hold the nested values of both given types, or None if there isn't one. A struct gets the fields of both."""
    types: Any = pa.types
    if one == other or types.is_null(other):
        unchanged: pa.DataType = one
        return unchanged
    if types.is_null(one):
        return unified_nested(other, one)
    if types.is_struct(one) and types.is_struct(other):
        fields = {field.name: field.type for field in one}
        for field in other:
            kind = unified_nested(fields[field.name], field.type) if field.name in fields else field.type
            if kind is None:
                return None
            fields[field.name] = kind
        return pa.struct(list(fields.items()))
    if types.is_list(one) and types.is_list(other):
        value = unified_nested(one.value_type, other.value_type)
        return None if value is None else pa.list_(value)
    if types.is_nested(one) or types.is_nested(other):
        return None
    if types.is_decimal(one) and types.is_decimal(other):
        return _wider(one, other)
    return unified_type(one, other) or _finer(one, other)


def _wider(one: Any, other: Any) -> pa.DataType | None:
    """The decimal type that holds all digits of both types, or None if there is none."""
    scale = max(one.scale, other.scale)
    precision = max(one.precision - one.scale, other.precision - other.scale) + scale
    if precision > _MOST_DIGITS:
        return None
    return plain_type(_arrow.decimal256(precision, scale))


def _unified_number(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    first, second = np.dtype(NUMPY_NAMES[one]), np.dtype(NUMPY_NAMES[other])
    # NumPy returns the smallest type that holds both, but no float larger than float64.
    return pa.from_numpy_dtype(np.promote_types(first, second))


def _item(kind: Any) -> Any:
    """The type of the single values of lists and tensors."""
    return kind.value_type if is_tensor(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind


def _finer(one: Any, other: Any) -> pa.DataType | None:
    """The time type with the finer unit, or None if the two types are of different kinds."""
    types: Any = pa.types
    if one == other:
        same: pa.DataType = one
        return same
    if types.is_timestamp(one) and types.is_timestamp(other):
        # Timestamps with a time zone are always counted from 1970 in UTC, so the zones may differ.
        is_same_kind = (one.tz is None) == (other.tz is None)
    else:
        is_same_kind = any(is_kind(one) and is_kind(other) for is_kind in (types.is_duration, types.is_time))
    if not is_same_kind:
        return None
    finer: pa.DataType = max(one, other, key=lambda kind: UNITS.index(kind.unit))
    return finer
