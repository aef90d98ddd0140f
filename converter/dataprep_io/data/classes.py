"""Gives columns class names: replaces strings and categories with class numbers, and checks columns that already contain class numbers.

A column gets class names if the data has names for the column's numbers, as with Hugging Face's `ClassLabel`, or if the caller asks for
them. Otherwise, a column of categories is treated like any other column of text, because many libraries use categories only to save memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_api.spec.transforms.vocabulary import MOST_TERMS
from dataprep_converter.core.arrow_types import is_any_text, without_dictionary
from dataprep_converter.core.errors import BadData, BadSpec, NoInput
from dataprep_converter.core.tensors import pc
from dataprep_converter.records.columns import similar
from dataprep_io.data.parameters import shown
from dataprep_io.data.streams import Stream

Names = tuple[str, ...]
"""The names of a column's classes, in the order of their numbers."""
Wanted = Mapping[str, Names | None]
"""Maps each column to the names of its classes, or to None if the column's own categories are its classes."""

UNLABELLED: Final = -1
"""The class number that Hugging Face uses for records without a label. Many test splits have such records."""
_SHOWN_NAMES: Final = 10


# Any, because users can pass values of every type.
def wanted_classes(classes: Any) -> Wanted:
    """Returns the columns that should have classes.

    Raises BadSpec unless `classes` lists column names, or maps column names to class names.
    """
    if classes is None:
        return {}
    if isinstance(classes, str) or not isinstance(classes, Mapping | Sequence):
        raise BadSpec(
            f'classes must list column names, or map column names to class names, such as {{"label": ["cat", "dog"]}}; got {classes!r}.'
        )
    if not isinstance(classes, Mapping):
        return {str(column): None for column in classes}
    return {str(column): None if names is None else _checked(str(column), names) for column, names in classes.items()}


def with_classes(stream: Stream, wanted: Wanted) -> Stream:
    """Returns the stream, with class numbers in the wanted columns and in the columns for which the data has class names.

    Raises BadSpec for a column that can't have classes, and NoInput if there are no rows from which to take a column's categories. When the
    rows are read, raises BadData if a value isn't one of the classes; the message names the record.
    """
    wanted = {**{column: _checked(column, names) for column, names in stream.classes.items()}, **_agreed(wanted, stream)}
    if not wanted:
        return stream
    for column in wanted:
        if column not in stream.schema.names:
            raise BadSpec(
                f"classes: the data has no column {column!r}; it has {', '.join(stream.schema.names)}."
                f"{similar(column, stream.schema.names)}"
            )
    stream, categories = _with_categories(stream, [column for column, names in wanted.items() if names is None])
    named = {column: categories[column] if names is None else names for column, names in wanted.items()}
    schema = stream.schema
    for column in named:
        place = schema.get_field_index(column)
        schema = schema.set(place, pa.field(column, _type_of_numbers(column, schema.field(place).type)))
    columns = [_Column(column, names, is_unlabelled_allowed=column in stream.classes) for column, names in named.items()]
    return replace(stream, schema=schema, batches=_numbered(stream.batches, columns), classes=named)


def _with_categories(stream: Stream, columns: Sequence[str]) -> tuple[Stream, dict[str, Names]]:
    """Returns a stream with all of the batches, and the categories that these columns have in the first batch."""
    for column in columns:
        _check_has_categories(column, stream.schema.field(column).type)
    if not columns:
        return stream, {}
    first: Any = next(stream.batches, None)
    if first is None:
        raise NoInput(f"The data has no rows, so there is nothing to write, and the classes of {columns[0]!r} are unknown.")
    categories = {column: _checked(column, first.column(column).dictionary.to_pylist()) for column in columns}
    return replace(stream, batches=chain((first,), stream.batches)), categories


def _agreed(wanted: Wanted, stream: Stream) -> dict[str, Names | None]:
    """Returns the wanted classes that the data doesn't already have. Raises BadSpec if the data has other classes for a column."""
    agreed = {}
    for column, names in wanted.items():
        there = stream.classes.get(column)
        if there is None:
            agreed[column] = names
        elif names not in (None, there):
            raise BadSpec(f"classes: the classes of {column!r} are {_shown(names or ())}, but the data has the classes {_shown(there)}.")
    return agreed


def _checked(column: str, names: Any) -> Names:
    """Returns the names of classes. Raises BadSpec unless they are strings that differ from each other."""
    if isinstance(names, str) or not isinstance(names, Sequence | np.ndarray) or not len(names):
        raise BadSpec(f"classes: the classes of {column!r} must be a list of names; got {names!r}.")
    if len(names) > MOST_TERMS:
        raise BadSpec(f"classes: {column!r} has {len(names):,} classes, but at most {MOST_TERMS:,} can have names.")
    for name in names:
        if not isinstance(name, str):
            raise BadSpec(f"classes: the class names of {column!r} must be strings, but one is {name!r}, a {type(name).__name__}.")
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise BadSpec(f"classes: the class {twice!r} of {column!r} occurs twice.")
    return tuple(str(name) for name in names)


def _check_has_categories(column: str, kind: Any) -> None:
    if not pa.types.is_dictionary(kind):
        raise BadSpec(
            f'classes: the column {column!r} is {kind}, which has no categories. Pass the names of its classes, such as classes={{"{column}": '
            '["cat", "dog"]}.'
        )


def _type_of_numbers(column: str, kind: Any) -> pa.DataType:
    """Returns the type of a column's class numbers. Raises BadSpec for a column that has neither numbers nor strings."""
    if pa.types.is_integer(kind):
        numbers: pa.DataType = kind
        return numbers
    if not is_any_text(without_dictionary(kind)):
        raise BadSpec(f"classes: the column {column!r} is {kind}, but a column with classes must contain whole numbers or strings.")
    return pa.int64()


def _shown(names: Names) -> str:
    return ", ".join(names[:_SHOWN_NAMES]) + ", …" * (len(names) > _SHOWN_NAMES)


def _numbered(batches: Iterator[pa.RecordBatch], columns: Sequence["_Column"]) -> Iterator[pa.RecordBatch]:
    """Yields the batches with class numbers."""
    start = 0
    for batch in batches:
        rows: Any = batch
        for column in columns:
            place = batch.schema.get_field_index(column.name)
            values = column.numbers(batch.column(place), start)
            rows = rows.set_column(place, pa.field(column.name, values.type), values)
        yield rows
        start += batch.num_rows


class _Column:
    """A column with classes."""

    def __init__(self, name: str, names: Names, *, is_unlabelled_allowed: bool) -> None:
        self.name = name
        self._names = names
        self._values: Any = pa.array(names, pa.string())
        self._least = UNLABELLED if is_unlabelled_allowed else 0

    def numbers(self, values: Any, start: int) -> Any:
        """Returns the numbers of the classes. `start` is the number of the first record. Raises BadData for a value that isn't a class."""
        if pa.types.is_integer(values.type):
            self._check_numbers(values, start)
            return values
        if pa.types.is_dictionary(values.type):
            numbers = pc.take(self._numbers_of(values.dictionary), values.indices)
        else:
            numbers = self._numbers_of(values)
        if numbers.null_count > values.null_count:
            values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
            self._refuse_first(pc.and_(pc.is_null(numbers), pc.is_valid(values)), values, start)
        return numbers

    def _numbers_of(self, texts: Any) -> Any:
        return pc.index_in(texts.cast(pa.string()), value_set=self._values).cast(pa.int64())

    def _check_numbers(self, values: Any, start: int) -> None:
        ends = pc.min_max(values)
        least, most = ends["min"].as_py(), ends["max"].as_py()
        if least is not None and (least < self._least or most >= len(self._names)):
            # An unsigned column has no number below 0, and can't be compared with -1.
            below = pc.less(values, self._least) if least < self._least else pa.scalar(False)
            above = pc.greater_equal(values, len(self._names)) if most >= len(self._names) else pa.scalar(False)
            self._refuse_first(pc.or_(below, above), values, start)

    def _refuse_first(self, is_wrong: Any, values: Any, start: int) -> None:
        """Raises BadData for the first wrong value, if there is one."""
        row = pc.index(is_wrong, True).as_py()
        if row < 0:
            return
        value = shown(values[row].as_py())
        expected = f"a number from {self._least} to {len(self._names) - 1}" if pa.types.is_integer(values.type) else "a class"
        raise BadData(f"Record {start + row}: {self.name!r} is {value}, expected {expected}. The classes are {_shown(self._names)}.")
