"""Tests ORC files that pyarrow writes: types, stripes, compressions, and broken data."""

import datetime as dt
import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job
from tests.converter.readers.reader_contract import ReaderContract, batches, opened, plan, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData
from dataprep_converter.readers import Reader
from dataprep_converter.readers.columnar.orc import OrcReader

_orc: Any = orc  # the type stubs lack some options


def put(file: Path, table: pa.Table, *, size: int = 64 << 20, **options: Any) -> Path:
    """Writes a table to a file. A stripe ends with the first batch after which it has about `size` bytes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    _orc.write_table(table, str(file), stripe_size=size, batch_size=100, **options)
    return file


def a_source(*uris: Path | str, **options: Any) -> Source:
    return Source.model_validate({"orc": {"uris": [str(uri) for uri in uris], **options}})


def read(source: Source) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "_sample"} for row in rows(batches(OrcReader, source))]


class TestOrc(ReaderContract):
    reader: ClassVar[type[Reader]] = OrcReader

    def a_source(self, folder: Path) -> Source:
        noise = np.random.default_rng(5)
        for name, first in (("a", 0), ("b", 1_000_000)):
            numbers = range(first, first + 300)
            table = pa.table({"n": numbers, "word": [f"word {n % 3}" for n in numbers], "noise": noise.random(len(numbers))})
            put(folder / f"{name}.orc", table.append_column("o", pa.array([{"l": list(range(n % 3))} for n in numbers])), size=2048)
        return a_source(folder)

    def an_empty_source(self, folder: Path) -> Source:
        return a_source(put(folder / "a.orc", pa.table({"a": pa.array([], pa.int64())})))

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        file = put(folder / "a.orc", pa.table({"a": [1]}))
        return a_source(file, folder / "absent.orc"), str(folder / "absent.orc")

    def change(self, folder: Path) -> Path:
        return put(folder / "b.orc", pa.table({"a": [1]}))


TABLE = pa.table(
    {
        "b": [True, None, False],
        "tiny": pa.array([-1, 2, None], pa.int8()),
        "i": pa.array([1, 2, 3], pa.int32()),
        "l": pa.array([2**62, None, -(2**62)], pa.int64()),
        "f": pa.array([0.5, 1.5, None], pa.float32()),
        "d": [0.1, None, 1e300],
        "s": ["ä", None, ""],
        "raw": pa.array([b"\xff", None, b""], pa.binary()),
        "list": pa.array([[1, 2], [], None], pa.list_(pa.int64())),
        "o": [{"x": 1, "y": "a"}, {"x": None, "y": "b"}, {"x": 3, "y": None}],
        "day": pa.array([dt.date(2026, 1, 2), None, dt.date(1969, 12, 31)]),
    }
)


@pytest.mark.parametrize("compression", ["uncompressed", "snappy", "zlib", "lz4", "zstd"])
def test_values_are_those_that_pyarrow_reads(compression: str, tmp_path: Path) -> None:
    file = put(tmp_path / "a.orc", TABLE, compression=compression)
    expected: list[dict[str, Any]] = _orc.read_table(str(file)).to_pylist()
    for row in expected:
        inner = row.pop("o")
        row |= {f"o/{name}": value for name, value in inner.items()}
        row["day"] = None if row["day"] is None else (row["day"] - dt.date(1970, 1, 1)).days
    found = read(a_source(file))
    assert found == expected
    assert len(found) == 3


def test_times_and_decimals_are_numbers(tmp_path: Path) -> None:
    when = dt.datetime(2026, 1, 2, 3, 4, 5, 678_000, dt.UTC)
    table = pa.table({"t": pa.array([when], pa.timestamp("us", "UTC")), "x": pa.array([1.25]).cast(pa.decimal128(10, 2))})
    assert read(a_source(put(tmp_path / "a.orc", table))) == [{"t": 1_767_323_045_678_000_000, "x": 1.25}]


@pytest.mark.parametrize(
    ("when", "shown"),
    [
        (dt.datetime(9999, 12, 31, 23, 59, 59), "9999-12-31 23:59:59"),  # noqa: DTZ001 - a table without a time zone
        (dt.datetime(1, 1, 1), "0001-01-01 00:00:00"),  # noqa: DTZ001
    ],
    ids=["far", "long ago"],
)
@pytest.mark.parametrize("inside", [False, True], ids=["a column", "a struct"])
def test_a_time_that_nanoseconds_can_not_hold_names_its_column(tmp_path: Path, when: dt.datetime, shown: str, inside: bool) -> None:
    times: Any = pa.array([dt.datetime(2026, 1, 1), when], pa.timestamp("us"))  # noqa: DTZ001
    near: Any = pa.array([dt.datetime(2026, 1, 1)] * 2, pa.timestamp("us"))  # noqa: DTZ001
    far: Any = pa.StructArray.from_arrays([times], names=["inner"]) if inside else times
    file = put(tmp_path / "a.orc", pa.table({"n": [1, 2], "near": near, "until": far}))
    with pytest.raises(BadData) as refused:
        read(a_source(file))
    assert str(refused.value) == (
        f"{file}: the column 'until' has the time {shown} in stripe 0, and ORC times are read in nanoseconds, from 1677-09-21 to "
        "2262-04-11. Leave the column out of source.orc.columns, or write the files as Parquet."
    )
    assert [row["n"] for row in read(a_source(file, columns=["n", "near"]))] == [1, 2]


def test_a_unit_is_a_stripe(tmp_path: Path) -> None:
    noise = np.random.default_rng(5).random(20_000)
    source = a_source(put(tmp_path / "a.orc", pa.table({"n": range(20_000), "x": noise}), size=16_384))
    units, state = plan(OrcReader, source)
    counts: list[Any] = units.table["records"].to_pylist()
    assert sum(counts) == 20_000
    assert len(counts) == _orc.ORCFile(str(tmp_path / "a.orc")).nstripes > 5
    samples = np.array([19_999, 0, 10_000], np.int64)
    with opened(OrcReader, source, state) as reader:
        (batch,) = reader.read(units, iter([samples]))
    assert batch.records["n"].to_pylist() == samples.tolist()
    assert batch.records["x"].to_pylist() == noise[samples].tolist()


def test_only_the_bytes_of_selected_columns_are_read(tmp_path: Path) -> None:
    noise = np.random.default_rng(5).random(100_000)
    file = put(tmp_path / "a.orc", pa.table({"n": range(100_000), "x": noise, "o": [{"x": n, "y": n} for n in range(100_000)]}))
    found = batches(OrcReader, a_source(file, columns=["o/y", "n"]), size=100_000)
    assert rows(found)[7] == {"o/y": 7, "n": 7, "_sample": 7}
    assert sum(batch.bytes_in for batch in found) < file.stat().st_size / 4


def test_names_with_dots_are_read(tmp_path: Path) -> None:
    assert read(a_source(put(tmp_path / "a.orc", pa.table({"a.b": [1], "c": [2]})), columns=["a.b"])) == [{"a.b": 1}]


def test_nulls_have_their_defaults(tmp_path: Path) -> None:
    file = put(tmp_path / "a.orc", pa.table({"a": pa.array([None, 2], pa.int64()), "s": [None, "s"]}))
    assert read(a_source(file, defaults={"a": "7"})) == [{"a": 7, "s": None}, {"a": 2, "s": "s"}]


def test_maps_are_nested_values(tmp_path: Path) -> None:
    table = pa.table({"a": [5], "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))})
    file = put(tmp_path / "a.orc", table)
    assert read(a_source(file)) == [{"a": 5, "m": '{"k":1}'}]


def test_files_that_are_not_orc_are_named(tmp_path: Path) -> None:
    file = tmp_path / "a.orc"
    for text in (b"", b"ORC", b"no ORC at all" * 100, put(tmp_path / "b/b.orc", TABLE).read_bytes()[:-5]):
        file.write_bytes(text)
        with pytest.raises(BadData, match=f"{file} is not a readable ORC file: "):
            plan(OrcReader, a_source(file))


def test_a_damaged_stripe_is_named(tmp_path: Path) -> None:
    file = put(tmp_path / "a.orc", pa.table({"s": [f"text {n}" for n in range(5000)]}), compression="zlib")
    text = bytearray(file.read_bytes())
    text[100:140] = b"\xff" * 40
    file.write_bytes(text)
    with pytest.raises(BadData, match=f"{file} is not readable in stripe 0: "):
        read(a_source(file))


def test_a_job_writes_the_records(tmp_path: Path) -> None:
    table = pa.table({"n": range(10), "s": [None if n == 3 else f"s{n}" for n in range(10)]})
    put(tmp_path / "in/day=1/a.orc", table)
    put(tmp_path / "in/day=2/a.orc", table)
    source = {"uris": [str(tmp_path / "in")], "hivePartitions": "Infer", "partitions": {"day": "== 2"}}
    run_job(parse_job({"source": {"orc": source}, "output": {"uri": str(tmp_path / "out"), "format": "jsonl"}}))
    (made,) = (tmp_path / "out").glob("*.jsonl")
    assert [json.loads(line) for line in made.read_text().splitlines()] == [row | {"day": 2} for row in table.to_pylist()]


def test_the_error_for_a_null_names_the_line_to_add(tmp_path: Path) -> None:
    file = put(tmp_path / "in/a.orc", pa.table({"i": [1, None]}))
    with pytest.raises(BadData) as caught:
        run_job(parse_job({"source": {"orc": {"uris": [str(file)]}}, "output": {"uri": str(tmp_path / "out"), "format": "npz"}}))
    assert 'i has no value, and npz has no null for this feature; add defaults: {i: "0"} to source.orc.' in str(caught.value)
