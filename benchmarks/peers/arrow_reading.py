"""Only reads a table with pyarrow. This is the limit for a conversion that uses Arrow.

arrow_reading.py csv|parquet INPUT OUTPUT RECORDS THREADS
"""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from clocked import clocked
from pyarrow import csv

_ROWS = 8192


def delimited(path: Path, *, threads: int) -> int:
    return sum(batch.num_rows for batch in csv.open_csv(path, csv.ReadOptions(use_threads=threads > 1)))


def parquet(path: Path, *, threads: int) -> int:
    return sum(batch.num_rows for batch in pq.ParquetFile(path).iter_batches(_ROWS, use_threads=threads > 1))


def main(kind: str, source: Path, threads: int) -> None:
    pa.set_cpu_count(threads)
    read = {"csv": delimited, "parquet": parquet}[kind]
    clocked(lambda: read(source / f"table.{kind}", threads=threads))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[5]))
