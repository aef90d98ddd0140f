"""`write`: writes data that a program has in memory, or makes, as a finished data set."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from dataprep_api import names, quantity
from dataprep_converter.core.errors import BadSpec, NotWhole
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs import job_file
from dataprep_converter.inputs.store_settings import access_of
from dataprep_converter.runtime import limits
from dataprep_io import results
from dataprep_io.data import shared
from dataprep_io.data.classes import Wanted, wanted_classes, with_classes
from dataprep_io.data.sharding import DEFAULT_BYTES, Limits, shards_of, written_by_threads
from dataprep_io.data.streams import Options, Stream, stream_of, streams_of_splits
from dataprep_io.fields import output_fields
from dataprep_io.notebook import Bar, Written
from dataprep_io.results import Result

if TYPE_CHECKING:
    from dataprep_converter.stores import StoreSettings

logger = logging.getLogger(__name__)

AnyPath = str | os.PathLike[str]


# Any, because data can be an object of any library that docs/python.md lists.
def write(
    data: Any,
    uri: AnyPath,
    *,
    format: str = "tfrecord",  # noqa: A002 - the name of the field
    mode: Literal["error", "overwrite", "append", "ignore"] = "error",
    split: str = "train",
    split_column: str | None = None,
    columns: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    nested: Sequence[str] = (),
    classes: Mapping[str, Sequence[str] | None] | Sequence[str] | None = None,
    shard_records: int | None = None,
    shard_size: int | str = DEFAULT_BYTES,
    workers: int | None = None,
    job: AnyPath | None = None,
    **output: Any,
) -> Result:
    """Writes rows as a finished data set, in any format and to any store. Nothing is visible before the data set is whole.

    `data` is a table of pandas, Polars, Arrow or DuckDB, a data set of Arrow, Hugging Face or torch, a dictionary of arrays, or an iterable
    of dictionaries or tables. A dictionary of tables has a split for each table. `uri` is the folder.

    format         the format of the shards
    mode           if there is a data set: "error" refuses, "overwrite" replaces it, "append" adds shards to it, "ignore" writes nothing
    split          the split of all rows
    split_column   instead, the column with the name of each row's split; it isn't written
    columns        names of the values, if records are tuples
    schema         types of the columns, if records are dictionaries or tuples; by default those of the first records
    nested         structs, and lists that contain nulls, to keep as nested values
    classes        columns to write as numbers of classes: for each, the names of the classes; a list of columns takes their own categories
    shard_records  the maximum number of records of a shard
    shard_size     the maximum size of a shard's rows in memory, such as "64Mi"
    workers        the number of shards that are written at the same time; by default one per processor, fewer if memory is short
    job            a job's YAML file whose spec.stores describes the stores; without it, the environment describes them
    output         further fields of spec.output, such as tfrecord={"compression": "Gzip"}

    Data from memory can't be read again. So the data set gets a random run id, and can be neither resumed nor repaired.

    Raises OutputExists if there is a data set and the mode is "error", BadData naming the record for a record that doesn't fit, SpecError
    and BadSpec for columns and options that can't be, NoInput if there are no rows, TypeError for data of an unknown type, and the stores'
    errors.
    """
    if mode not in shared.MODES:
        raise BadSpec(f"mode is {', '.join(map(repr, shared.MODES))}, got {mode!r}.")
    wanted = wanted_classes(classes)
    if split_column in wanted:
        raise BadSpec(f"The column {split_column!r} has the names of splits and isn't written, so it can't have classes.")
    options = Options(columns=None if columns is None else tuple(columns), schema=schema, categories=tuple(wanted))
    by_split = streams_of_splits(data, options)
    if by_split is not None:
        if split_column is not None:
            raise BadSpec("The data has a table for each split, so split_column can't be set.")
        stream, split_column = _with_split_column(_with_same_classes(by_split, wanted))
    else:
        stream = with_classes(stream_of(data, options), wanted)
        if split_column is not None:
            stream = _with_texts(stream, split_column)
    chosen = shared.write_options(
        os.fspath(uri),
        format_=format,
        mode=mode,
        split=split,
        split_column=split_column,
        nested=nested,
        output=output_fields(output),
    )
    chosen = replace(chosen, classes=stream.classes)
    full = Limits(shard_records, quantity.to_bytes(shard_size) if isinstance(shard_size, str) else shard_size)
    settings = () if job is None else access_of(job_file.load(os.fspath(job))).settings
    return _written(stream, chosen, full, settings, workers or limits.processes())


def _with_same_classes(streams: Mapping[str, Stream], wanted: Wanted) -> dict[str, Stream]:
    """Returns the streams with the same classes: where a column's own categories are wanted, those of the first split."""
    (first, stream), *others = streams.items()
    stream = with_classes(stream, wanted)
    return {first: stream, **{split: with_classes(other, stream.classes) for split, other in others}}


def _with_split_column(streams: Mapping[str, Stream]) -> tuple[Stream, str]:
    """Returns one stream with a column that names the split of each row."""
    first = next(iter(streams.values()))
    schema = first.schema
    for split, stream in streams.items():
        if stream.schema != schema:
            raise BadSpec(f"The splits have different columns: {split} has {_described(stream.schema)}, expected {_described(schema)}.")
    column = "split"
    while column in schema.names:
        column += "_"
    sizes = [stream.size for stream in streams.values()]
    batches = chain.from_iterable(_named(stream.batches, column, split) for split, stream in streams.items())
    known = [size for size in sizes if size is not None]
    size = max(known) if len(known) == len(sizes) else None
    return Stream(schema.append(pa.field(column, pa.string())), batches, size, first.classes), column


def _with_texts(stream: Stream, column: str) -> Stream:
    """Returns the stream with texts of the usual type in a column. Libraries have texts of several types, and dictionaries of texts."""
    place = stream.schema.get_field_index(column)
    if place < 0 or not _is_text(kind := stream.schema.field(place).type) or kind == pa.string():
        return stream
    field = pa.field(column, pa.string())
    batches = (batch.set_column(place, field, batch.column(place).cast(pa.string())) for batch in stream.batches)
    return replace(stream, schema=stream.schema.set(place, field), batches=batches)


def _is_text(kind: Any) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _named(batches: Iterator[pa.RecordBatch], column: str, split: str) -> Iterator[pa.RecordBatch]:
    """Yields the batches with a column that has the name of their split in each row."""
    for batch in batches:
        yield batch.append_column(column, pa.repeat(split, batch.num_rows))


def _described(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def _written(stream: Stream, options: "shared.WriteOptions", full: Limits, settings: "Sequence[StoreSettings]", workers: int) -> Result:
    uri = options.spec.output.uri
    write = shared.begin_write(options, stream.schema, settings)
    if write.is_skipped:
        return _existing(write)
    bar = Bar()
    is_divided = write.options.split_column is not None
    try:
        written = written_by_threads(
            shards_of(stream, full, split_column=write.options.split_column),
            lambda number, first, rows: shared.write_partition(write, rows, number=number, first=None if is_divided else first),
            workers=workers,
            watch=lambda shards, records: bar.show(Written(shards, records)),
        )
        result = shared.commit(write, written)
    except BaseException:
        shared.abort(write)
        raise
    if result is None:
        return _existing(write)
    bar.show(Written(result.files, result.records.out, is_finished=True))
    for warning in result.warnings:
        logger.warning("%s", warning)
    return results.of_commit(uri, result, classes=shared.class_names(write))


def _existing(write: "shared.Write") -> Result:
    """Returns the result of the data set that was there before."""
    uri = write.spec.output.uri
    folder = OutputFolder(uri, write.access())
    success = folder.success()
    if success is None:
        raise NotWhole(f"The data set of {uri} was removed while this write began.", uri=uri)
    return results.of_manifest(uri, names.join(uri, success.manifest), folder.manifest(success))
