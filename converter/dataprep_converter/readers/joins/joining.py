"""Defines the interface of all methods of joining tables, and implements the method that joins tables in this process.

`joining_by_sql.py` contains the other method. Both methods return the same findings, counts and records.
"""

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import Final, Protocol

import pyarrow as pa

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.readers.joins import open_table
from dataprep_converter.readers.joins.joined_tables import Join
from dataprep_converter.readers.joins.keys import KeyCounts
from dataprep_converter.readers.joins.open_table import Findings, OpenTable, read_rows
from dataprep_converter.records.batch import SAMPLE
from dataprep_converter.runtime import limits

_READER_BYTES: Final = 512 << 20
"""The memory that each table needs while it is read, if several tables are read concurrently."""


class Joining(Protocol):
    """A way to join tables. The methods of this class must be called in the order in which they are defined."""

    def read(self) -> Generator[Findings, None, None]:
        """Reads all tables, and yields the findings about each of them. A table's error is raised only when the table's turn comes."""
        ...

    def match(self) -> KeyCounts:
        """Matches the keys."""
        ...

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yields the joined records in the order of the keys; see `joined_tables.records_of`."""
        ...

    def close(self) -> None:
        """Frees disk and memory."""
        ...


class JoinHere(Closeable):
    """Joins tables in this process; see `Joining`."""

    def __init__(self, tables: Sequence[OpenTable], version: int) -> None:
        """`version` is the version of JOINS; see `run_id.PARTS`."""
        self._tables = tables
        self._join = Join([table.columns for table in tables], version)
        # Several threads can read tables, but only one thread at a time may add rows to the join.
        self._turn = Lock()
        self._stopped = Event()

    def close(self) -> None:
        """Frees disk and memory."""
        self._join.close()

    def read(self) -> Generator[Findings, None, None]:
        """Adds all rows to the join, except bad rows. Reads several tables concurrently if the memory suffices."""
        at_once = max(1, min(len(self._tables), limits.processors(), limits.memory_bytes() // _READER_BYTES))
        with ThreadPoolExecutor(at_once, "join-table") as pool:
            futures = [pool.submit(self._read_table, table) for table in self._tables]
            try:
                # Report errors in the order of the tables, even if a later table failed earlier.
                for future in futures:
                    yield future.result()
            finally:
                # Makes all threads stop before their next batch.
                self._stopped.set()

    def match(self) -> KeyCounts:
        """Matches the keys."""
        return self._join.match()

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yields the joined records."""
        return self._join.records()

    def _read_table(self, table: OpenTable) -> Findings:
        """Adds the rows of a table to the join. Stops if there are too many bad rows."""
        findings = Findings()
        for batch in read_rows(table.reader, table.units, table.keys, range(table.units.samples), batch_rows=table.batch_rows()):
            findings.add(batch)
            if len(findings.bad) > open_table.MOST_BAD or self._stopped.is_set():
                break
            if batch.records.num_rows:
                with self._turn:
                    self._join.add(
                        table.number,
                        batch.records.column(SAMPLE),
                        [batch.records.column(name) for name in table.keys],
                        [batch.records.column(name) for name in table.others],
                    )
        return findings
