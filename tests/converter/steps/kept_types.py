"""Tables with times and decimals, and the jobs that convert them."""

from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
from tests.builders.jobs import verified_run
from tests.builders.specs import parse_job

from dataprep_api.dataset.report import Manifest
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify

_pq: Any = pq  # the module has no type stubs
_orc: Any = pyarrow.orc
_arrow: Any = pa

ZONES = (None, "UTC", "Europe/Berlin")
UNITS = ("s", "ms", "us", "ns")
TIMES: list[Any] = [
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    *(_arrow.timestamp(unit, tz=zone) for unit in UNITS for zone in ZONES),
    *(_arrow.duration(unit) for unit in UNITS),
]
DECIMALS: list[Any] = [
    _arrow.decimal32(9, 2),
    _arrow.decimal64(18, 2),
    pa.decimal128(1, 0),
    pa.decimal128(15, 0),
    pa.decimal128(15, 15),
    pa.decimal128(16, 4),
    pa.decimal128(38, 10),
    _arrow.decimal256(10, 2),
    _arrow.decimal256(76, 5),
]
IN_PARQUET: dict[Any, Any] = {
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time32("ms"),
    **{_arrow.timestamp("s", tz=zone): _arrow.timestamp("ms", tz=zone) for zone in ZONES},
    _arrow.decimal32(9, 2): pa.decimal128(9, 2),
    _arrow.decimal64(18, 2): pa.decimal128(18, 2),
    _arrow.decimal256(10, 2): pa.decimal128(10, 2),
}
"""Maps each type that Parquet lacks to the type that replaces it."""
EXACT = Context(prec=100)


def values_of(kind: Any) -> Any:
    """Five values of a type, one of them null.

    They include the least and the greatest value of the type, or else values that steps easily get wrong.
    """
    if pa.types.is_decimal(kind):
        most = Decimal(10**kind.precision - 1).scaleb(-kind.scale, EXACT)
        third = Decimal(10**kind.precision // 3).scaleb(-kind.scale, EXACT)
        return _arrow.array([most, most.copy_negate(), None, third, Decimal(0)], kind)
    day = 86_400_000
    numbers = [0, 1, None, 5, 86_399] if pa.types.is_time(kind) else [0, -5, None, 1_704_067_201, 2**31 - 1]
    if kind == pa.date64():
        numbers = [0, -day, None, day, 20_000 * day]
    return _arrow.array(numbers, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)


TABLE = pa.table({str(kind): values_of(kind) for kind in (*TIMES, *DECIMALS)})


def a_job(folder: Path, format_: str, *, source: str = "parquet", out: str = "out", reading: Any = None, output: Any = None, **spec: Any) -> DataPrepJob:  # fmt: skip
    written = {source: {"uris": [str(folder / "in")]} | (reading or {})}
    options = {"uri": str(folder / out), "format": format_, "shards": {"count": 1}, "overwrite": "IfChanged"} | (output or {})
    return parse_job({"source": written, "output": options} | spec)


def records_in(folder: Path) -> pa.Table:
    """All records of a finished data set of Parquet or Arrow files, as read by pyarrow."""
    files = sorted(folder.glob("*.parquet")) + sorted(folder.glob("*.arrow"))
    tables = [_pq.read_table(file) if file.suffix == ".parquet" else _arrow.ipc.open_file(file).read_all() for file in files]
    table: pa.Table = pa.concat_tables(tables)
    return table


def made(job: DataPrepJob) -> pa.Table:
    """The records of the data set that the job makes, after all of them have been verified."""
    verified_run(job)
    return records_in(Path(job.spec.output.uri))


def manifest_of(folder: Path) -> Manifest:
    return verify(str(folder), Access(), every_record=True)


def decimals(*values: str | None, precision: int = 20, scale: int = 2) -> Any:
    return _arrow.array([None if value is None else Decimal(value) for value in values], pa.decimal128(precision, scale))


MOMENTS = pa.array([1_704_067_200_123, None, -1], pa.timestamp("ms", tz="UTC"))
PRICES = decimals("12345678901234567.89", None, "-0.10")
