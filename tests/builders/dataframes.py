"""Writes DataFrames without Spark: makes the calls that Spark's driver and tasks make, with the arguments that Spark passes."""

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from dataprep_converter.stores import StoreSettings
from dataprep_frames import publishing
from dataprep_frames.attempts import WrittenPartition, write_partition
from dataprep_frames.writing import Write
from dataprep_reader import open as open_data_set
from dataprep_spark.options import write_options


def numbers(first: int, count: int, **columns: Any) -> pa.RecordBatch:
    """Return rows with consecutive numbers, a text for each number, and these additional columns."""
    rows = range(first, first + count)
    return pa.RecordBatch.from_pydict({"n": list(rows), "word": [f"word {row}" for row in rows], **columns})


def begin(
    folder: Path | str, schema: pa.Schema | None, *, overwrite: bool = False, settings: Sequence[StoreSettings] = (), **options: str
) -> Write:
    """Begin a write as Spark's driver does. Return the `Write` after a round trip through pickle, as Spark's tasks receive it."""
    named = {name.replace("_", "."): value for name, value in options.items()}
    write = publishing.begin_write(write_options({"path": str(folder), **named}, overwrite=overwrite), schema, settings)
    made: Write = pickle.loads(pickle.dumps(write))  # noqa: S301 - it was pickled just now
    return made


def run_tasks(write: Write, partitions: Sequence[Sequence[pa.RecordBatch]], *, first_attempt: int = 0) -> list[WrittenPartition]:
    """Run one attempt of each task. The attempts are numbered from `first_attempt`."""
    return [
        write_partition(write, batches, partition=number, attempt=str(first_attempt + number)) for number, batches in enumerate(partitions)
    ]


def write_frame(folder: Path, partitions: Sequence[Sequence[pa.RecordBatch]], *, overwrite: bool = False, **options: Any) -> Write:
    """Write a DataFrame with these partitions, each given as its batches. The first partition must have at least one batch."""
    write = begin(folder, partitions[0][0].schema, overwrite=overwrite, **options)
    publishing.commit(write, run_tasks(write, partitions))
    return write


def rows_of(folder: Path, *, split: str = "train") -> list[dict[str, Any]]:
    """Return the records of a split, in the order of the files."""
    reader = open_data_set(folder, split=split, as_="arrow", batch_size=1000)
    return [row for batch in reader for row in batch.to_pylist()]


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the content of each file of a folder, by its path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
