"""Turns the data that a user passes to `write` into a stream of Arrow record batches.

A library is recognised by the Arrow protocol or by the names of its classes, so none is imported for this. Only pandas comes before the
protocol, because through the protocol its unnamed index would become a column.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from dataprep_converter.core.errors import BadData, BadSpec, NoInput
from dataprep_io.data import hugging_face, polars_frames, views
from dataprep_io.data.arrays import array_batches, is_array
from dataprep_io.data.records import record_batches

_MOST_RECORDS: Final = 65_536
_arrow: Any = pa  # the stubs lack the protocol's functions


@dataclass(frozen=True)
class Stream:
    """Rows as record batches. They can be read once."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    size: int | None = None
    """The number of bytes of all rows, if the rows are in memory already."""
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of the classes of columns with numbers, as far as the data has them."""


@dataclass(frozen=True)
class Options:
    """How rows that aren't a table become one."""

    columns: tuple[str, ...] | None = None
    """The names of the values in tuples."""
    schema: pa.Schema | None = None
    """The columns' types; without it, they are those of the first records."""
    categories: tuple[str, ...] = ()
    """The columns whose categories are needed as a whole."""


# Any, because the types of other libraries are only known by their names.
def streams_of_splits(data: Any, options: Options) -> dict[str, Stream] | None:
    """Returns a stream for each split, or None if the data isn't a mapping from splits to their data."""
    if _is(data, "datasets", "DatasetDict", "IterableDatasetDict") or (
        isinstance(data, Mapping) and data and not any(is_array(values) for values in data.values())
    ):
        return {str(split): stream_of(rows, options) for split, rows in data.items()}
    return None


def stream_of(data: Any, options: Options) -> Stream:
    """Returns the rows of `data`. Raises TypeError for data of an unknown type, and NoInput for an iterator without records."""
    for matches, convert in _KINDS:
        if matches(data):
            stream = convert(data, options)
            return replace(stream, schema=views.schema_without(stream.schema), batches=views.batches_without(stream.schema, stream.batches))
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise TypeError(
            f"write expects a table, arrays, a data set or an iterable of dictionaries, got {_class(data)}. docs/python.md has the list."
        )
    return _of_iterable(data, options)


def _is(data: Any, library: str, *classes: str) -> bool:
    """Whether the data is an object of one of a library's classes, or of a class derived from them."""
    return any(each.__module__.partition(".")[0] == library and each.__name__ in classes for each in type(data).__mro__)


def _class(data: Any) -> str:
    return f"{type(data).__module__}.{type(data).__qualname__}".removeprefix("builtins.")


# --- tables -------------------------------------------------------------------------------------------------------


def _of_reader(reader: pa.RecordBatchReader, size: int | None = None) -> Stream:
    return Stream(reader.schema.remove_metadata(), iter(reader), size)


def _of_table(table: Any, options: Options) -> Stream:
    for name in options.categories:
        place = table.schema.get_field_index(name)
        if place >= 0 and pa.types.is_dictionary(table.schema.field(place).type):
            table = table.set_column(place, name, table.column(place).unify_dictionaries())
    return Stream(table.schema.remove_metadata(), iter(table.to_batches(max_chunksize=_MOST_RECORDS)), table.nbytes)


def _of_pandas(frame: Any, options: Options) -> Stream:
    """Returns the rows of a DataFrame. Named levels of the index become columns."""
    levels = [name for name in frame.index.names if name is not None]
    if levels:
        frame = frame.reset_index(levels)
    unnamed = [name for name in frame.columns if not isinstance(name, str)]
    if unnamed:
        raise BadSpec(f"The DataFrame has a column named {unnamed[0]!r}. Names of columns are texts: use frame.rename(columns=str).")
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except pa.ArrowException as exc:
        raise BadData(f"The DataFrame can't be converted to an Arrow table: {'; '.join(map(str, exc.args))}.") from exc
    return _of_table(table, options)


def _of_arrow_stream(data: Any, options: Options) -> Stream:
    """Returns the rows of anything that implements Arrow's protocol."""
    if isinstance(data, pa.Table):
        return _of_table(data, options)
    if isinstance(data, pa.RecordBatch):
        return _of_table(pa.Table.from_batches([data]), options)
    try:
        reader = _arrow.RecordBatchReader.from_stream(data)
    except (pa.ArrowException, ValueError) as exc:
        raise TypeError(f"write expects a table, but Arrow can't read the columns of {_class(data)}: {exc}") from exc
    return _of_reader(reader)


def _of_arrow_data_set(data: Any, options: Options) -> Stream:
    """Returns the rows of an Arrow data set, of which only a few batches are read ahead."""
    del options
    if _is(data, "pyarrow", "Dataset"):
        data = data.scanner(batch_size=_MOST_RECORDS, batch_readahead=2, fragment_readahead=1)
    return _of_reader(data.to_reader())


def _of_polars(frame: Any, options: Options) -> Stream:
    """Returns the rows of a Polars frame."""
    polars_frames.check_columns(frame)
    stream = _of_arrow_stream(frame, options)
    if not polars_frames.has_tensors(stream.schema):
        return stream
    return replace(stream, schema=polars_frames.schema_with_tensors(stream.schema), batches=polars_frames.with_tensors(stream.batches))


def _of_lazy_frame(frame: Any, options: Options) -> Stream:
    """Returns the result of a Polars query."""
    return _of_polars(frame.collect(engine="streaming"), options)


# --- data sets ----------------------------------------------------------------------------------------------------


def _of_hugging_face(data: Any, options: Options) -> Stream:
    """Returns the rows of a Hugging Face data set."""
    rows = hugging_face.rows_without_features(data)
    if rows is not None:
        return _of_iterable(rows, options)
    return replace(_of_tables(hugging_face.tables_of(data), options), classes=hugging_face.class_names(data))


def _refuse_loader(data: Any, options: Options) -> Stream:
    """Raises TypeError, because batches aren't records."""
    del options
    raise TypeError(f"write expects the records of a data set, but {_class(data)} yields batches. Pass its data set, loader.dataset.")


def _of_torch(data: Any, options: Options) -> Stream:
    """Returns the samples of a torch data set."""
    if hasattr(type(data), "__iter__"):
        return _of_iterable(data, options)
    if not hasattr(data, "__len__"):
        raise TypeError(f"write needs the number of samples, but {_class(data)} has no __len__. Define it, or pass an IterableDataset.")
    return _of_iterable((data[number] for number in range(len(data))), options)


def _of_arrays(data: Any, options: Options) -> Stream:
    """Returns the rows of NumPy arrays: those of a mapping, or the fields of a structured array."""
    del options
    if not isinstance(data, Mapping):
        if getattr(data.dtype, "names", None) is None:  # dtypes of torch have no names at all
            raise TypeError('An array needs a name for its column: pass a dictionary, such as {"x": array}.')
        data = {name: data[name] for name in data.dtype.names}
    schema, batches, size = array_batches(data)
    return Stream(schema, batches, size)


# --- iterables ----------------------------------------------------------------------------------------------------


def _of_iterable(data: Iterable[Any], options: Options) -> Stream:
    """Returns the rows of an iterable of records, or of tables."""
    items = iter(data)
    try:
        first = next(items)
    except StopIteration:
        raise NoInput("The iterable has no records, so there is nothing to write.") from None
    items = chain((first,), items)
    if _is_table(first):
        return _of_tables(items, options)
    schema, batches = record_batches(items, columns=options.columns, schema=options.schema)
    return Stream(schema, batches)


def _is_table(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__") or _is(data, "pandas", "DataFrame")


def _of_tables(tables: Iterable[Any], options: Options) -> Stream:
    """Returns the rows of tables that have the same columns."""
    streams = (stream_of(table, options) for table in tables)
    first = next(streams, None)
    if first is None:
        raise NoInput("The data set has no records, so there is nothing to write.")
    schema = options.schema or first.schema
    return Stream(schema, _conformed(chain((first,), streams), schema))


def _conformed(streams: Iterable[Stream], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the batches with the columns of `schema`. Raises BadData for a table with other columns."""
    for number, stream in enumerate(streams):
        for batch in stream.batches:
            if sorted(batch.schema.names) != sorted(schema.names):
                raise BadData(f"Table {number} has the columns {', '.join(batch.schema.names)}, expected {', '.join(schema.names)}.")
            try:
                yield pa.RecordBatch.from_arrays([batch.column(field.name).cast(field.type) for field in schema], schema=schema)
            except pa.ArrowException as exc:
                raise BadData(f"Table {number} doesn't have the types of the first one: {'; '.join(map(str, exc.args))}.") from exc


def _is_arrays(data: Any) -> bool:
    return is_array(data) or (isinstance(data, Mapping) and any(is_array(values) for values in data.values()))


_KINDS: Final[Sequence[tuple[Callable[[Any], bool], Callable[[Any, Options], Stream]]]] = (
    (lambda data: _is(data, "pandas", "DataFrame"), _of_pandas),
    (lambda data: _is(data, "polars", "DataFrame"), _of_polars),
    (lambda data: hasattr(data, "__arrow_c_stream__"), _of_arrow_stream),
    (lambda data: _is(data, "pyarrow", "Dataset", "Scanner"), _of_arrow_data_set),
    (lambda data: _is(data, "polars", "LazyFrame"), _of_lazy_frame),
    (lambda data: _is(data, "datasets", "Dataset", "IterableDataset"), _of_hugging_face),
    (lambda data: _is(data, "torch", "Dataset", "IterableDataset"), _of_torch),
    (lambda data: _is(data, "torch", "DataLoader"), _refuse_loader),
    (_is_arrays, _of_arrays),
)
"""For each kind of data, how it is recognised and how it is read, in the order in which they are tried."""
