"""Joins two tables by key with DuckDB alone, in the order of the keys or in any order, to Parquet or to Arrow in memory.

duckdb_join.py parquet|any-order|arrow INPUT OUTPUT RECORDS
"""

import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
from clocked import clocked


def written(joined: Any, place: Path) -> int:
    """Writes the joined rows to a file and returns the number of rows in the file."""
    joined.write_parquet(str(place))
    return pq.ParquetFile(place).metadata.num_rows


def join(kind: str, source: Path, output: Path) -> int:
    """Joins the tables and returns the number of joined rows."""
    with duckdb.connect(config={"threads": "2"}) as connection:
        connection.read_parquet(f"{source}/left.parquet").create_view("one")
        connection.read_parquet(f"{source}/right.parquet").create_view("other")
        joined = connection.sql("select * from one join other using (id)")
        if kind == "any-order":
            connection.execute("set preserve_insertion_order = false")
            return written(joined, output / "in any order.parquet")
        if kind == "parquet":
            return written(joined.order("id"), output / "joined.parquet")
        return sum(batch.num_rows for batch in joined.order("id").fetch_arrow_reader())


if __name__ == "__main__":
    clocked(lambda: join(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
