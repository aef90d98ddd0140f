"""DuckDB alone: two tables joined by key and written as Parquet, in the order of the keys.

duckdb_join.py join INPUT OUTPUT RECORDS
"""

import sys
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from clocked import clocked


def join(source: Path, output: Path) -> int:
    """The number of joined rows."""
    with duckdb.connect(config={"threads": "2"}) as connection:
        connection.read_parquet(f"{source}/left.parquet").create_view("one")
        connection.read_parquet(f"{source}/right.parquet").create_view("other")
        joined = connection.sql("select * from one join other using (id) order by id")
        joined.write_parquet(f"{output}/joined.parquet")
    return pq.ParquetFile(output / "joined.parquet").metadata.num_rows


if __name__ == "__main__":
    clocked(lambda: join(Path(sys.argv[2]), Path(sys.argv[3])))
