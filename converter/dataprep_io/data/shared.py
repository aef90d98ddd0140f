"""The code that `write` shares with Spark's data source: partitions are written into hidden files, and then published together.

This is the only module here that imports `dataprep_spark`.
"""

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

import pyarrow as pa

from dataprep_api import API_VERSION, KIND, names
from dataprep_api.dataset.messages import CommitResult
from dataprep_api.errors import Fault, SpecError
from dataprep_api.formats import RULES
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import BadSpec, ConvertError, Unreachable
from dataprep_converter.dataset import python_rows
from dataprep_converter.records.columns import similar
from dataprep_converter.stores import StoreSettings
from dataprep_spark import attempts, publishing
from dataprep_spark.attempts import WrittenPartition
from dataprep_spark.options import Mode, WriteOptions
from dataprep_spark.writing import Write

__all__ = ["ConvertError", "Write", "WriteOptions", "WrittenPartition", "abort", "begin_write", "commit", "write_partition"]

logger = logging.getLogger(__name__)

MOST_ATTEMPTS: Final = 3
"""How often a shard is written if the store can't be reached."""
MODES: Final[dict[str, Mode]] = {"error": "errorifexists", "overwrite": "overwrite", "append": "append", "ignore": "ignore"}
"""The save modes, and the names that Spark has for them."""
_OVERWRITE: Final = {"error": "Never", "overwrite": "Always", "append": "Extend", "ignore": "Never"}
_WORDS: Final = (
    (r"save mode is errorifexists or ignore", 'mode is "error" or "ignore"'),
    (
        r"the save mode is errorifexists\. Use the mode overwrite, append or ignore",
        'mode is "error". Use the mode "overwrite", "append" or "ignore"',
    ),
    (r'mode\("(\w+)"\)', r'mode="\1"'),
    (r"[Tt]he options of df\.write", "the parameters of write"),
    (r"of df\.write", "of write"),
    (r"Spark can't write", "write can't write"),
    (r"^The DataFrame", "The data"),
    (r"[Tt]he DataFrame", "the data"),
    (r"\(splitColumn\)", "(split_column)"),
    (r"which the option splitColumn names", "which split_column names"),
    (r"the option nested", "nested"),
    (r"spark:partition-(\d+)", r"shard \1 of the data"),
    (r"df\.write", "write"),
)
"""Patterns in messages, and the words of `write` for them."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _in_words_of_write(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Puts messages that speak of Spark into the words of `write`."""

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except ConvertError as exc:
            text = str(exc)
            for pattern, words in _WORDS:
                text = re.sub(pattern, words, text)
            exc.args = (text,)
            raise

    return call


def write_options(
    uri: str, *, format_: str, mode: str, split: str, split_column: str | None, nested: Sequence[str], output: dict[str, Any]
) -> WriteOptions:
    """Returns what a write is to do. `output` has further fields of `spec.output`. Raises SpecError for an invalid value."""
    if format_ not in RULES:
        raise BadSpec(f"There is no format {format_!r}.{similar(format_, list(RULES))} The formats are {', '.join(RULES)}.")
    fields = {"uri": uri, "format": format_, "overwrite": _OVERWRITE[mode], **output}
    template = fields.get("fileName") or names.extendable_template(format_)
    if template is not None:
        fields["fileName"] = template
    if template is not None and ("{shard" not in template or "{shards" in template):
        raise BadSpec(
            f"file_name needs {{shard}} and can't have {{shards}}, got {template!r}: the number of shards isn't known in advance."
        )
    spec = {"source": python_rows.source(nested), "output": fields}
    options = WriteOptions(spec=_spec(spec), mode=MODES[mode], split_column=split_column)
    return replace(options, split=options.with_split_name(split))


def _spec(spec: dict[str, Any]) -> DataPrepJobSpec:
    document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "write"}, "spec": spec}
    try:
        return DataPrepJob.parse(document).spec
    except SpecError as exc:
        raise SpecError([_without_spec(fault) for fault in exc.faults]) from exc


def _without_spec(fault: Fault) -> Fault:
    """Returns the fault with the name of a parameter of `write`, because users don't see the spec."""
    return replace(fault, path=fault.path.removeprefix("spec.output."))


@_in_words_of_write
def begin_write(options: WriteOptions, schema: pa.Schema, settings: Iterable[StoreSettings]) -> Write:
    """See `publishing.begin_write`."""
    return publishing.begin_write(options, schema, settings)


@_in_words_of_write
def write_partition(write: Write, batches: Sequence[pa.RecordBatch], *, number: int, first: int | None) -> WrittenPartition:
    """See `attempts.write_partition`. Tries again if the store can't be reached; files of earlier attempts stay hidden.

    `first` is the number of the partition's first record, for messages, or None if the records weren't consecutive.
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
            exc.args = (re.sub(r"spark:partition-\d+, record (\d+)", lambda found: f"record {first + int(found[1])}", str(exc)),)
        raise


@_in_words_of_write
def commit(write: Write, written: Sequence[WrittenPartition]) -> CommitResult | None:
    """See `publishing.commit`."""
    return publishing.commit(write, written)


abort = publishing.abort
