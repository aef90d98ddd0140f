"""Fills tables of the fake MaxCompute server with numbered rows, and defines a `source.table` that reads them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from tests.converter.readers.reader_contract import chunks, plan, read_all, rows

from dataprep_api.spec import Source
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.databases.table import TableReader
from dataprep_converter.records.batch import SAMPLE
from dataprep_converter.sampling.units import UnitTable
from storeservers.odps import FakeMaxCompute, Rows

COLUMNS: dict[str, pa.DataType] = {"id": pa.int64(), "x": pa.float64()}
ROWS = pa.schema(list(COLUMNS.items()))
TYPES = {"id": "bigint", "x": "double"}
T = "odps://p/tables/t"


def counted(count: int) -> Rows:
    """Yields rows, each with a number (0, 1, 2 …) and half of this number."""

    def at(start: int, length: int) -> pa.Table:
        ids = np.arange(start, start + length)
        return pa.table({"id": ids, "x": ids / 2}, schema=ROWS)

    return Rows(count, at, ROWS)


def numbered(fake: FakeMaxCompute, count: int, name: str = "t") -> None:
    fake.make(name, TYPES, ROWS)
    fake.fill(name, counted(count))


def a_source(*uris: str, **options: Any) -> Source:
    return Source.model_validate({"table": {"uris": list(uris or [T]), **options}})


def read(source: Source, units: UnitTable, state: dict[str, Any], order: Sequence[int] | None = None) -> list[dict[str, Any]]:
    samples = np.arange(units.samples) if order is None else np.array(order)
    return rows(read_all(TableReader(source.member, state, Access()), units, chunks(samples, 1000)))


def values(source: Source) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != SAMPLE} for row in read(source, *plan(TableReader, source))]
