"""`write`: makes a finished data set from data that a program has in memory or generates."""

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa

from dataprep_api import names
from dataprep_converter.core.errors import BadSpec, NotWhole
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs import job_file
from dataprep_converter.inputs.store_settings import access_of
from dataprep_converter.runtime import limits
from dataprep_io import results
from dataprep_io.data import shared
from dataprep_io.data.classes import wanted_classes
from dataprep_io.data.parameters import AnyPath, path, size, whole_number
from dataprep_io.data.parameters import names as names_in
from dataprep_io.data.parameters import schema as schema_in
from dataprep_io.data.sharding import DEFAULT_BYTES, Limits, shards_of, written_by_threads
from dataprep_io.data.splits import has_table_for_each_split, stream_with_splits
from dataprep_io.data.streams import Options, Stream
from dataprep_io.fields import output_fields
from dataprep_io.notebook import Bar, Written
from dataprep_io.results import Result

logger = logging.getLogger(__name__)


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
    """Writes rows as a finished data set, in any format and to any store. Nothing is visible before the data set is complete.

    `data` is a table of pandas, Polars, Arrow or DuckDB, a data set of Arrow, Hugging Face or torch, a dictionary of arrays, or an iterable
    of dictionaries or tables. In a dictionary of tables, each table is a split. `uri` is the data set's folder.

    format         the format of the shards
    mode           if there is a data set: "error" refuses, "overwrite" replaces it, "append" adds shards to it, "ignore" writes nothing
    split          the split of all rows
    split_column   instead of `split`, the column with the name of each row's split; the column isn't written
    columns        names of the columns, if records are tuples
    schema         types of the columns, if data isn't a table or arrays; by default those of the first 1,024 records, or of the first table
    nested         structs, and lists that contain nulls, to keep as nested values
    classes        columns to write as class numbers: a dictionary gives each column's class names; for columns in a list, their categories
    shard_records  the maximum number of records of a shard
    shard_size     the maximum size of a shard's rows in memory, such as "64Mi"
    workers        the number of shards that are written at the same time; by default one per processor, fewer if memory is short
    job            a job's YAML file whose spec.stores describes the stores; without it, the environment describes them
    output         further fields of spec.output, such as tfrecord={"compression": "Gzip"}

    Data from memory can't be read again. So the data set gets a random run id, and can be neither resumed nor repaired.

    Raises OutputExists if there is already a data set and the mode is "error". Raises BadData for a record that doesn't fit; the message
    names the record. Raises SpecError and BadSpec for impossible columns and options, NoInput if there are no rows, and TypeError for data
    of an unknown type. Also raises the stores' errors.
    """
    by_split = has_table_for_each_split(data)
    if by_split and (split_column is not None or split != shared.SPLIT):
        raise BadSpec("The data has a table for each split, so neither split nor split_column can be set.")
    wanted = wanted_classes(classes)
    if split_column in wanted:
        raise BadSpec(f"The column {split_column!r} contains the names of the splits and isn't written, so it can't be in classes.")
    chosen = shared.write_options(
        path(uri),
        format_=format,
        mode=mode,
        split=split,
        split_column="split" if by_split else split_column,
        nested=names_in(nested or (), "nested"),
        output=output_fields(output),
    )
    given = Options(columns=None if columns is None else names_in(columns, "columns"), schema=schema_in(schema), categories=tuple(wanted))
    full = Limits(None if shard_records is None else whole_number(shard_records, "shard_records"), size(shard_size, "shard_size"))
    threads = limits.processes() if workers is None else whole_number(workers, "workers")
    settings = () if job is None else access_of(job_file.load(os.fspath(job))).settings
    # Check the output before reading any data.
    begun = shared.begin_write(chosen, settings)
    if begun.is_skipped:
        return _existing(begun)
    with ExitStack() as opened:
        stream, column = stream_with_splits(data, replace(given, opened=opened), wanted, split_column)
        write = shared.with_columns(begun, stream.schema, classes=stream.classes, split_column=column)
        return _written(write, stream, full, threads)


def _written(write: "shared.Write", stream: Stream, full: Limits, workers: int) -> Result:
    bar = Bar()
    column = write.options.split_column
    try:
        written = written_by_threads(
            shards_of(stream, full, split_column=column),
            lambda number, first, rows: shared.write_partition(write, rows, number=number, first=first if column is None else None),
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
    # The features are the columns, with the same names.
    classes = dict(sorted(write.options.classes.items()))
    return results.of_commit(write.spec.output.uri, result, classes=classes)


def _existing(write: "shared.Write") -> Result:
    """Returns the result of the data set that already exists."""
    uri = write.spec.output.uri
    folder = OutputFolder(uri, write.access())
    success = folder.success()
    if success is None:
        raise NotWhole(f"The data set in {uri} was removed while this write was starting.", uri=uri)
    return results.of_manifest(uri, names.join(uri, success.manifest), folder.manifest(success))
