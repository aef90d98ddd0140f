"""The code that `write` shares with the engines of data frames: partitions are written into hidden files, and then published together.

This is the only module here that imports `dataprep_frames`.
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from dataprep_api.dataset.messages import CommitResult
from dataprep_api.errors import SpecError
from dataprep_converter.core.errors import BadSpec, ConvertError, Unreachable
from dataprep_converter.dataset.frame_rows import PYTHON
from dataprep_converter.stores import StoreSettings
from dataprep_frames import attempts, columns, publishing
from dataprep_frames.attempts import WrittenPartition
from dataprep_frames.families import may_become
from dataprep_frames.messages import in_words, in_words_of
from dataprep_frames.options import SPLIT, Mode, WriteOptions, check_format, checked_split_name, location, spec_of
from dataprep_frames.rows import has_void
from dataprep_frames.writing import Write

__all__ = [
    "MODES",
    "SPLIT",
    "ConvertError",
    "Write",
    "WriteOptions",
    "WrittenPartition",
    "abort",
    "begin_write",
    "commit",
    "has_void",
    "may_become",
    "with_columns",
    "write_options",
    "write_partition",
]

logger = logging.getLogger(__name__)

MOST_ATTEMPTS: Final = 3
"""How often writing a shard is tried if the store can't be reached."""
MODES: Final[dict[str, Mode]] = {"error": "errorifexists", "overwrite": "overwrite", "append": "append", "ignore": "ignore"}
"""The modes of `write`, each with its name in the data frame engines."""
_WORDS: Final = (
    (r"save mode is errorifexists or ignore", 'mode is "error" or "ignore"'),
    (
        r"the save mode is errorifexists\. Use the mode overwrite, append or ignore",
        'mode is "error". Use the mode "overwrite", "append" or "ignore"',
    ),
    (r"[Tt]he options of write", "the parameters of write"),
    (r"the option (nested|split_column)", r"\1"),
    (r"fileName", "file_name"),
    (r"python:shard-(\d+)", r"shard \1 of the data"),
)
"""Pairs of strings: a pattern that matches text in messages about data frames, and the replacement in messages of `write`."""

_in_words_of_write = in_words(_WORDS)
"""A decorator that rewords messages about data frames for users of `write`."""


@_in_words_of_write
def write_options(
    uri: str, *, format_: str, mode: str, split: str, split_column: str | None, nested: Sequence[str], output: dict[str, Any]
) -> WriteOptions:
    """Returns the options of a write. `output` contains further fields of `spec.output`.

    Raises BadSpec for an unknown mode or format and for invalid names, and SpecError for an invalid value of a field.
    """
    if not isinstance(mode, str) or mode not in MODES:
        raise BadSpec(f"mode must be one of {', '.join(map(repr, MODES))}; got {mode!r}.")
    if not isinstance(format_, str):
        raise BadSpec(f"format must be the name of a format, such as 'tfrecord'; got {format_!r}.")
    if split_column is not None and (not isinstance(split_column, str) or not split_column):
        raise BadSpec(f"split_column must be the name of a column; got {split_column!r}.")
    if split_column is not None and split != SPLIT:
        raise BadSpec(
            "split and split_column contradict each other: set only split if all rows have the same split, otherwise only split_column."
        )
    check_format(format_)
    try:
        spec = spec_of(PYTHON, {"uri": location(uri), "format": format_, **output}, mode=MODES[mode], nested=nested or None)
    except BadSpec as exc:
        if not isinstance(exc.__cause__, SpecError):
            raise
        faults = exc.__cause__.faults
        raise SpecError([replace(fault, path=fault.path.removeprefix("spec.output.")) for fault in faults]) from exc
    return WriteOptions(spec=spec, mode=MODES[mode], engine=PYTHON, split=checked_split_name(split), split_column=split_column)


@_in_words_of_write
def begin_write(options: WriteOptions, settings: Iterable[StoreSettings]) -> Write:
    """See `publishing.begin_write`. The columns aren't known yet."""
    return publishing.begin_write(options, None, settings)


@_in_words_of_write
def with_columns(write: Write, schema: pa.Schema, *, classes: Mapping[str, tuple[str, ...]], split_column: str | None) -> Write:
    """Returns the write with these columns and class names. See `columns.with_columns`."""
    options = replace(write.options, classes=classes, split_column=split_column)
    with in_words_of(write.engine):
        return columns.with_columns(replace(write, options=options), schema)


@_in_words_of_write
def write_partition(write: Write, batches: Sequence[pa.RecordBatch], *, number: int, first: int | None) -> WrittenPartition:
    """See `attempts.write_partition`. Tries again if the store can't be reached; files of earlier attempts stay hidden.

    In messages, `first` is the number of the partition's first record. It is None if the records weren't consecutive.
    """
    try:
        for attempt in range(1, MOST_ATTEMPTS):
            try:
                return attempts.write_partition(write, batches, partition=number, attempt=f"{number}-{attempt}")
            except Unreachable as exc:
                logger.warning("shard %d is written again (attempt %d of %d): %s", number, attempt + 1, MOST_ATTEMPTS, exc)
        return attempts.write_partition(write, batches, partition=number, attempt=f"{number}-{MOST_ATTEMPTS}")
    except ConvertError as exc:
        if first is not None:
            exc.args = (re.sub(r"python:shard-\d+, record (\d+)", lambda found: f"record {first + int(found[1])}", str(exc)),)
        raise


@_in_words_of_write
def commit(write: Write, written: Sequence[WrittenPartition]) -> CommitResult | None:
    """See `publishing.commit`."""
    return publishing.commit(write, written)


abort = publishing.abort
