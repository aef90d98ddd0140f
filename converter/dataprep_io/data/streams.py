"""Turns the data that a user passes to `write` into a stream of Arrow record batches.

Data is recognised by the Arrow protocol or by the name of its class, so no library is imported for this. pandas is tried before the
protocol, because the protocol would turn a DataFrame's unnamed index into a column.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from dataprep_converter.core.arrow_types import without_dictionary
from dataprep_converter.core.errors import BadData, BadSpec, NoInput
from dataprep_io.data import hugging_face, polars_frames, views
from dataprep_io.data.arrays import array_batches, is_array
from dataprep_io.data.parameters import check_column_name
from dataprep_io.data.records import record_batches
from dataprep_io.data.shared import may_become

_MOST_RECORDS: Final = 65_536
_arrow: Any = pa  # the stubs lack the protocol's functions


@dataclass(frozen=True)
class Stream:
    """Rows as record batches, which can be read only once."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    size: int | None = None
    """The size of all rows in bytes, if the rows are already in memory."""
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The class names of columns that contain class numbers, if the data has these names."""


@dataclass(frozen=True)
class Options:
    """How to turn the data into a stream of rows."""

    columns: tuple[str, ...] | None = None
    """The names of the columns, if the records are tuples."""
    schema: pa.Schema | None = None
    """The columns' types. By default, they are inferred from the first records."""
    categories: tuple[str, ...] = ()
    """The columns for which the complete list of categories is needed."""
    opened: ExitStack | None = None
    """Closes the resources that were opened to read the rows. Called when the rows aren't needed any more, because a DuckDB connection is
    blocked until then."""


# Any, because other libraries' classes are recognised by name and never imported.
def stream_of(data: Any, options: Options) -> Stream:
    """Returns the rows of `data`. Raises TypeError for data of an unknown type, BadSpec for parameters that this data doesn't take, and
    NoInput for an iterator without records."""
    for matches, convert in _KINDS:
        if matches(data):
            stream = convert(data, options)
            return replace(stream, schema=views.schema_without(stream.schema), batches=views.batches_without(stream.schema, stream.batches))
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise TypeError(
            f"write expects a table, arrays, a data set or an iterable of dictionaries; got {_class(data)}. docs/python.md lists what "
            "write accepts."
        )
    return _of_iterable(data, options)


def _has_columns(convert: Callable[[Any, Options], Stream]) -> Callable[[Any, Options], Stream]:
    """Wraps `convert`, for data that already has columns. The wrapper raises BadSpec if the options set names or types of columns."""

    def call(data: Any, options: Options) -> Stream:
        given = next((name for name, value in (("columns", options.columns), ("schema", options.schema)) if value is not None), None)
        if given is not None:
            raise BadSpec(
                f"{given} can be set only for records that are tuples{' or dictionaries' if given == 'schema' else ''}, but {_class(data)} "
                "has columns and types of its own: select or cast the columns in the data."
            )
        return convert(data, options)

    return call


def is_of(data: Any, library: str, *classes: str) -> bool:
    """Returns whether the data is an object of one of these classes of a library, or of a derived class."""
    return any(each.__module__.partition(".")[0] == library and each.__name__ in classes for each in type(data).__mro__)


def _class(data: Any) -> str:
    return f"{type(data).__module__}.{type(data).__qualname__}".removeprefix("builtins.")


# --- tables -------------------------------------------------------------------------------------------------------


def _of_reader(reader: Any, options: Options) -> Stream:
    if options.opened is not None:
        options.opened.callback(reader.close)
    return Stream(reader.schema.remove_metadata(), iter(reader))


def _of_table(table: Any, options: Options) -> Stream:
    for name in options.categories:
        place = table.schema.get_field_index(name)
        if place >= 0 and pa.types.is_dictionary(table.schema.field(place).type):
            table = table.set_column(place, name, table.column(place).unify_dictionaries())
    return Stream(table.schema.remove_metadata(), iter(table.to_batches(max_chunksize=_MOST_RECORDS)), table.nbytes)


def _of_pandas(frame: Any, options: Options) -> Stream:
    """Returns the rows of a DataFrame. Named levels of the index become columns."""
    levels = [name for name in frame.index.names if name is not None]
    for name in levels:
        check_column_name(name, "The DataFrame's index")
    names = [*levels, *frame.columns]
    for name in names:
        if not isinstance(name, str):
            raise BadSpec(
                f"The DataFrame has a column named {name!r}. Column names must be strings: set frame.columns = frame.columns.map(str), or "
                "join the levels of the names."
            )
    repeated = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if repeated is not None:
        also = ", one of them a level of the index: rename it, or call frame.reset_index(drop=True)" if repeated in levels else ""
        raise BadSpec(f"The DataFrame has two columns {repeated!r}{also}.")
    try:
        table = pa.Table.from_pandas(frame.reset_index(levels) if levels else frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as exc:
        raise BadData(f"The DataFrame can't be converted to an Arrow table: {'; '.join(map(str, exc.args))}.") from exc
    return _of_table(table, options)


def _of_arrow_stream(data: Any, options: Options) -> Stream:
    """Returns the rows of anything that implements Arrow's protocol. Raises TypeError for a single column."""
    if isinstance(data, pa.Table):
        return _of_table(data, options)
    if isinstance(data, pa.RecordBatch):
        return _of_table(pa.Table.from_batches([data]), options)
    try:
        reader = _arrow.RecordBatchReader.from_stream(data)
    except (pa.ArrowException, ValueError) as exc:
        if not hasattr(data, "dtype") and not isinstance(data, pa.ChunkedArray):
            raise TypeError(f"write expects a table, but Arrow can't read the columns of {_class(data)}: {exc}") from exc
        raise TypeError(f'write expects a table, but {_class(data)} is a single column. Give it a name: {{"x": data}}. ({exc})') from exc
    return _of_reader(reader, options)


def _of_arrow_array(data: Any, options: Options) -> Stream:
    """Returns the rows of an array of structs. Raises TypeError for any other array."""
    array: Any = _arrow.array(data)
    if not pa.types.is_struct(array.type):
        raise TypeError(f'write expects a table, but {_class(data)} is a single column of {array.type}. Give it a name: {{"x": data}}.')
    return _of_table(_arrow.Table.from_struct_array(array), options)


def _of_arrow_data_set(data: Any, options: Options) -> Stream:
    """Returns the rows of an Arrow data set. Only a few batches are read ahead."""
    if is_of(data, "pyarrow", "Dataset"):
        data = data.scanner(batch_size=_MOST_RECORDS, batch_readahead=2, fragment_readahead=1)
    return _of_reader(data.to_reader(), options)


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


def _of_reader_of_data_set(reader: Any, options: Options) -> Stream:
    """Returns the records of a finished data set. Raises TypeError if the reader yields arrays, which represent nulls and lists
    differently."""
    del options
    if reader.yields_numpy:
        raise TypeError('To write the records of a reader, open it with as_="arrow".')
    return _of_tables(iter(reader), Options())


# --- data sets ----------------------------------------------------------------------------------------------------


def _of_hugging_face(data: Any, options: Options) -> Stream:
    """Returns the rows of a Hugging Face data set."""
    rows = hugging_face.rows_without_features(data)
    if rows is not None:
        return _of_iterable(rows, options)
    return replace(_of_tables(hugging_face.tables_of(data), options), classes=hugging_face.class_names(data))


def _refuse_loader(data: Any, options: Options) -> Stream:
    """Raises TypeError, because a DataLoader yields batches, not records."""
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
    """Returns the rows of NumPy arrays: either the arrays in a mapping, or the fields of a structured array."""
    del options
    if not isinstance(data, Mapping):
        if (
            isinstance(data, pa.Array | pa.ChunkedArray) or getattr(data.dtype, "names", None) is None
        ):  # dtypes of torch have no names at all
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
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__") or is_of(data, "pandas", "DataFrame")


def _of_tables(tables: Iterable[Any], options: Options) -> Stream:
    """Returns the rows of tables that have the same columns."""
    if options.columns is not None:
        raise BadSpec(
            "columns can be set only for records that are tuples, but the iterable contains tables, which name their own columns."
        )
    streams = (stream_of(table, Options()) for table in tables)
    first = next(streams, None)
    if first is None:
        raise NoInput("The data set has no records, so there is nothing to write.")
    schema = options.schema or first.schema
    known = "schema" if options.schema is not None else "the first table"
    return Stream(schema, _of_each_table(chain((first,), streams), schema, known))


def _of_each_table(streams: Iterable[Stream], schema: pa.Schema, known: str) -> Iterator[pa.RecordBatch]:
    for number, stream in enumerate(streams):
        yield from conformed(stream, schema, what=f"Table {number}", known=known)


def conformed(stream: Stream, schema: pa.Schema, *, what: str, known: str) -> Iterator[pa.RecordBatch]:
    """Returns the batches with the columns of `schema`. `known` says in error messages where `schema` comes from.

    Raises BadData if the column names differ, or if values would lose their meaning when they are converted to the types of `schema`. While
    the batches are read, raises BadData for values that don't fit.
    """
    if sorted(stream.schema.names) != sorted(schema.names):
        raise BadData(
            f"{what} has the columns {', '.join(stream.schema.names)}; expected the columns of {known}: {', '.join(schema.names)}."
        )
    for wanted in schema:
        kind = stream.schema.field(wanted.name).type
        if kind != wanted.type and not may_become(without_dictionary(kind), without_dictionary(wanted.type)):
            raise BadData(f"{what} has the column {wanted.name!r} as {kind}; expected {wanted.type}, as in {known}.")
    return _cast(stream.batches, schema, what, known)


def _cast(batches: Iterator[pa.RecordBatch], schema: pa.Schema, what: str, known: str) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        try:
            yield pa.RecordBatch.from_arrays([batch.column(field.name).cast(field.type) for field in schema], schema=schema)
        except pa.ArrowException as exc:
            raise BadData(f"{what} has a value that doesn't fit the types of {known}: {'; '.join(map(str, exc.args))}.") from exc


def _is_arrays(data: Any) -> bool:
    return is_array(data) or (isinstance(data, Mapping) and any(is_array(values) for values in data.values()))


_KINDS: Final[Sequence[tuple[Callable[[Any], bool], Callable[[Any, Options], Stream]]]] = (
    (lambda data: is_of(data, "pandas", "DataFrame"), _has_columns(_of_pandas)),
    (lambda data: is_of(data, "polars", "DataFrame"), _has_columns(_of_polars)),
    (lambda data: hasattr(data, "__arrow_c_stream__"), _has_columns(_of_arrow_stream)),
    (lambda data: hasattr(data, "__arrow_c_array__"), _has_columns(_of_arrow_array)),
    (lambda data: is_of(data, "pyarrow", "Dataset", "Scanner"), _has_columns(_of_arrow_data_set)),
    (lambda data: is_of(data, "polars", "LazyFrame"), _has_columns(_of_lazy_frame)),
    (lambda data: is_of(data, "dataprep_reader", "Reader"), _has_columns(_of_reader_of_data_set)),
    (lambda data: is_of(data, "datasets", "Dataset", "IterableDataset"), _of_hugging_face),
    (lambda data: is_of(data, "torch", "Dataset", "IterableDataset"), _of_torch),
    (lambda data: is_of(data, "torch", "DataLoader"), _refuse_loader),
    (_is_arrays, _has_columns(_of_arrays)),
)
"""For each kind of data, the function that recognises it and the function that reads it. The kinds are tried in this order."""
