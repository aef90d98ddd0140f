"""The columns of a write.

Either the driver knows the columns before the tasks begin, or each task takes the columns of its own rows. In the second case, the driver
compares the columns of all tasks before it publishes anything.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from dataprep_converter.core.errors import BadSpec
from dataprep_converter.pipeline.pipeline import Pipeline
from dataprep_converter.readers.columnar.arrow import class_names
from dataprep_converter.readers.columnar.tables import columns_from
from dataprep_frames.options import WriteOptions, found_name
from dataprep_frames.rows import frozen_state
from dataprep_frames.writing import Write

_SHOWN: Final = 10


@dataclass(frozen=True)
class PartColumns:
    """The columns of the rows that a task has written."""

    partition: int
    schema: pa.Schema


def with_columns(write: Write, schema: pa.Schema) -> Write:
    """Returns the write of a data frame with these columns. If the rows are appended, the columns get the order of the existing data set.

    Raises BadSpec for columns that can't be written, or whose names or types differ from the columns of the existing data set.
    """
    options = write.options
    if options.split_column is not None:
        options = replace(options, split_column=_split_column(options, schema))
        schema = pa.schema([each for each in schema if each.name != options.split_column])
    existing = write.existing_state
    order = [] if existing is None else list(dict.fromkeys(column.path[0] for column in columns_from(existing)))
    if sorted(order) == sorted(schema.names):
        schema = pa.schema([schema.field(name) for name in order])
    access = write.access()
    state = frozen_state(schema, write.source, access.structs, write.engine, options.classes)
    write = replace(write, options=options, schema=schema, state=state)
    with Pipeline(write.spec, state, access) as pipeline, pipeline.encoder():
        pass  # the constructors raise BadSpec for features that the format can't store
    if existing is not None:
        check_columns(write, existing)
    return write


def first_rows(batches: Iterable[pa.RecordBatch]) -> tuple[pa.RecordBatch | None, Iterator[pa.RecordBatch]]:
    """Returns two values: the first batch that has rows (or None), and an iterator over this batch and all later batches."""
    coming = iter(batches)
    first = next((batch for batch in coming if batch.num_rows), None)
    return first, coming if first is None else chain([first], coming)


def with_agreed_columns(write: Write, columns: Sequence[PartColumns]) -> Write:
    """Returns the write with the columns of all tasks. Raises BadSpec if the columns differ; the message names a column and two tasks."""
    first = columns[0]
    for other in columns[1:]:
        if not other.schema.equals(first.schema):
            raise BadSpec(_difference(write, first, other))
    return with_columns(write, first.schema)


def _difference(write: Write, one: PartColumns, other: PartColumns) -> str:
    part, schema = (
        write.engine.part,
        f"Set schema to the columns of the {write.engine.frame}, so that all {write.engine.part}s have the same columns.",
    )
    for first, second in ((one, other), (other, one)):
        for field in first.schema:
            if field.name not in second.schema.names:
                return f"The rows of {part} {first.partition} have a column {field.name!r}, but those of {part} {second.partition} have none. {schema}"
            there = second.schema.field(field.name).type
            if there != field.type:
                return (
                    f"The column {field.name!r} is {field.type} in the rows of {part} {first.partition}, but {there} in those of {part} "
                    f"{second.partition}. {schema}"
                )
    return f"The columns of {part} {one.partition} and {part} {other.partition} have different orders. {schema}"


def check_columns(write: Write, existing: Mapping[str, object]) -> None:
    """Raises BadSpec if the rows' columns differ from the columns of the data set to which the rows are appended.

    `existing` is the state of that data set's reader.
    """
    if existing != write.state:
        there, here = (_described(state) for state in (existing, write.state))
        raise BadSpec(
            f"The rows can't be appended to {write.spec.output.uri}: its columns are {there}, but those of the {write.engine.frame} are "
            f"{here}. Use {write.engine.overwrite}, or write to another URI."
        )


def _described(state: Mapping[str, Any]) -> str:
    """Describes the columns in a reader's state."""
    classes = class_names(state)
    return ", ".join(
        f"{column.name}: {column.nested or column.was or column.type}{_in_brackets(classes.get(column.name, []))}"
        for column in columns_from(state)
    )


def _in_brackets(names: Sequence[str]) -> str:
    """Returns the first class names in brackets, or "" if there are no names."""
    return f" ({', '.join(names[:_SHOWN])}{', …' * (len(names) > _SHOWN)})" if names else ""


def _split_column(options: WriteOptions, schema: pa.Schema) -> str:
    """Returns the data frame's column with the names of splits. Raises BadSpec if this column is missing, or isn't text."""
    name, engine = str(options.split_column), options.engine
    found = found_name(name, schema.names)
    if found is None:
        raise BadSpec(
            f"The {engine.frame} has no column {name!r}, which the option {engine.split_column} names: it has {', '.join(schema.names)}."
        )
    if not pa.types.is_string(schema.field(found).type):
        raise BadSpec(
            f"The column {found!r} ({engine.split_column}) has the names of splits, so it must be text, but it is "
            f"{schema.field(found).type}."
        )
    return found
