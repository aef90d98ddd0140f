"""Writes a table to TFRecord with `dataprep_io.write`, or runs a job that reads it from Parquet.

python_write.py job|arrow|pandas|polars|numpy|duckdb|iterator INPUT OUTPUT RECORDS

The data is in memory before the clock starts, with two exceptions: an iterator makes its dictionaries while the data set is written, and
the job reads its file. Every variant writes shards of the same number of records, in two processes or threads.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ours
import pyarrow as pa
from clocked import clocked
from pyarrow import parquet as pq

import dataprep_io as dp

_SHARDS = 4
_WORKERS = 2
_ROWS = 8192


def arrow(table: Any) -> Any:
    return table


def pandas(table: Any) -> Any:
    return table.to_pandas()


def polars(table: Any) -> Any:
    import polars as pl

    return pl.DataFrame(table)


def numpy(table: Any) -> Any:
    return {name: table.column(name).to_numpy() for name in table.column_names}


def duckdb(table: Any) -> Any:
    import duckdb

    return duckdb.from_arrow(table)


def iterator(table: Any) -> Iterator[Any]:
    for batch in table.to_batches(max_chunksize=_ROWS):
        yield from batch.to_pylist()


DATA: dict[str, Callable[[Any], Any]] = {each.__name__: each for each in (arrow, pandas, polars, numpy, duckdb, iterator)}


def main(kind: str, source: Path, output: Path, records: int) -> None:
    file = source / "table.parquet"
    shards = -(-records // _SHARDS)
    if kind == "job":
        spec = {"source": {"parquet": {"uris": [str(file)]}}, "output": {"uri": "OUTPUT", "shards": {"records": shards}}}
        job = ours.a_job(spec, source, output)
        ours.load(job)
        ours.import_for_others()
        clocked(lambda: ours.convert(job, workers=_WORKERS), waits=False)
        return
    table: Any = pq.read_table(file).slice(0, records)
    data = DATA[kind](table)
    del table
    with tempfile.TemporaryDirectory() as folder:
        dp.write(pa.table({"n": [1]}), folder, mode="overwrite")  # imports the modules that the first write would import
    clocked(lambda: dp.write(data, output, shard_records=shards, workers=_WORKERS).records)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
