"""The splits of the rows that `write` gets: either each split has a separate table, or a column names each row's split."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from dataprep_converter.core.arrow_types import is_any_text, without_dictionary
from dataprep_converter.core.errors import BadSpec, ConvertError, NoInput
from dataprep_io.data.arrays import is_array
from dataprep_io.data.classes import Wanted, with_classes
from dataprep_io.data.parameters import shown
from dataprep_io.data.streams import Options, Stream, conformed, is_of, stream_of

_SHOWN: Final = 60


# Any here and below, because other libraries' classes are recognised by name and never imported.
def has_table_for_each_split(data: Any) -> bool:
    """Returns whether the data is a mapping from splits to their data."""
    is_mapping = isinstance(data, Mapping) and len(data) > 0 and not any(is_array(values) for values in data.values())
    return is_mapping or is_of(data, "datasets", "DatasetDict", "IterableDatasetDict")


def stream_with_splits(data: Any, options: Options, wanted: Wanted, split_column: str | None) -> tuple[Stream, str | None]:
    """Returns the rows of `data` with the wanted classes, and the column that contains each row's split (or None)."""
    if has_table_for_each_split(data):
        if not data:
            raise NoInput("The data has no splits, so there is nothing to write.")
        streams: dict[str, Stream] = {}
        for split, rows in data.items():
            streams[str(split)] = stream = _stream_of_split(str(split), rows, options, wanted)
            if len(streams) > 1 and stream.classes != wanted:
                raise BadSpec(
                    f"Split {split}: the data has classes for {', '.join(stream.classes.keys() - wanted)}, but the data of the first split "
                    "has no such classes."
                )
            # If a column's own categories are wanted, all splits use the categories of the first split.
            wanted = stream.classes
        return _with_split_column(streams)
    stream = with_classes(stream_of(data, options), wanted)
    return (stream, None) if split_column is None else (_with_texts(stream, split_column), split_column)


def _stream_of_split(split: str, rows: Any, options: Options, wanted: Wanted) -> Stream:
    """Returns the rows of a split with the wanted classes. Error messages name the split."""
    first = rows[0] if isinstance(rows, list | tuple) and rows else None
    is_value = isinstance(rows, int | float | str | bytes | None) or (
        options.columns is None and isinstance(first, int | float | str | bytes)
    )
    if is_value:
        raise TypeError(
            f"A dictionary must map each split to its records, but {split!r} has {shown(rows, _SHOWN)}. If the keys are "
            "columns, pass a table or arrays, such as pyarrow.table(data). If the dictionary is a record, pass a list of records."
        )
    with _naming_split(split):
        stream = with_classes(stream_of(rows, options), wanted)
    return replace(stream, batches=_named_batches(split, stream.batches))


def _named_batches(split: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with _naming_split(split):
        yield from batches


@contextmanager
def _naming_split(split: str) -> Iterator[None]:
    """Puts the split's name at the start of error messages."""
    try:
        yield
    except ConvertError as exc:
        exc.args = (f"Split {split}: {exc}",)
        raise


def _with_split_column(streams: dict[str, Stream]) -> tuple[Stream, str]:
    """Returns one stream with a column that names the split of each row. All splits get the columns of the first split."""
    first, stream = next(iter(streams.items()))
    schema = stream.schema
    column = "split"
    while column in schema.names:
        column += "_"
    sizes = [stream.size for stream in streams.values()]
    batches = [
        _named(conformed(each, schema, what=f"The split {split}", known=f"the split {first}"), column, split)
        for split, each in streams.items()
    ]
    known = [size for size in sizes if size is not None]
    size = max(known) if len(known) == len(sizes) else None
    return Stream(schema.append(pa.field(column, pa.string())), chain.from_iterable(batches), size, stream.classes), column


def _with_texts(stream: Stream, column: str) -> Stream:
    """Returns the stream with a text column as Arrow's `string`. Other libraries may use another type of text, or a dictionary type."""
    place = stream.schema.get_field_index(column)
    if place < 0 or not is_any_text(without_dictionary(kind := stream.schema.field(place).type)) or kind == pa.string():
        return stream
    field = pa.field(column, pa.string())
    batches = (batch.set_column(place, field, batch.column(place).cast(pa.string())) for batch in stream.batches)
    return replace(stream, schema=stream.schema.set(place, field), batches=batches)


def _named(batches: Iterator[pa.RecordBatch], column: str, split: str) -> Iterator[pa.RecordBatch]:
    """Yields the batches, each with an added column that contains the split's name in each row."""
    for batch in batches:
        yield batch.append_column(column, pa.repeat(split, batch.num_rows))
