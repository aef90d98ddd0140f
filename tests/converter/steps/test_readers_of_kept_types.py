"""What readers, loaders and commands return for data sets in which times and decimals keep their types."""

import io
import json
import runpy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from tests.builders.columnar import write_table
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job
from tests.converter.cli.commandline import code_of
from tests.converter.steps.kept_types import IN_PARQUET, MOMENTS, PRICES, TABLE, a_job, decimals, made, records_in, values_of
from tests.reader.fake_torch import FakeTorch

from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.inspect import inspection
from dataprep_reader import open as open_data_set

_pq: Any = pq  # the module has no type stubs
_orc: Any = pyarrow.orc
_arrow: Any = pa


@pytest.mark.parametrize("second", ["parquet", "arrow"])
@pytest.mark.parametrize("first", ["parquet", "arrow"])
def test_the_source_dataset_keeps_the_types_of_a_data_set(tmp_path: Path, first: str, second: str) -> None:
    write_table(tmp_path / "in", TABLE, "arrow")
    before = made(a_job(tmp_path, first, source="arrow"))
    output = {"uri": str(tmp_path / "again"), "format": second, "shards": {"count": 1}}
    after = made(parse_job({"source": {"dataset": {"uri": str(tmp_path / "out")}}, "output": output}))
    assert sorted(after.schema.names) == sorted(before.schema.names)
    for name in before.schema.names:
        expected = before.column(name)
        stored = IN_PARQUET.get(expected.type, expected.type) if second == "parquet" else expected.type
        assert after.column(name).type == stored
        assert after.column(name).equals(expected.cast(stored))


def test_the_source_dataset_tells_what_another_format_stores_as_numbers(tmp_path: Path) -> None:
    write_table(tmp_path / "in", pa.table({"t": MOMENTS, "price": PRICES}), "parquet")
    run_job(a_job(tmp_path, "parquet"))
    output = {"uri": str(tmp_path / "again"), "format": "jsonl"}
    _, result = run_job(parse_job({"source": {"dataset": {"uri": str(tmp_path / "out")}}, "output": output}))
    of_prices, of_times = result.warnings
    assert of_prices == (
        "column 'price': decimals of 1 record have more digits than float64 holds, such as 12345678901234567.89, read as 1.2345678901234568e+16"
    )
    assert of_times == (
        "column 't': times of 2 records are stored as numbers of milliseconds since 1970 in UTC (timestamp[ms, tz=UTC]), "
        "such as 2024-01-01 00:00:00.123Z, read as 1704067200123"
    )


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_our_reader_returns_numbers(tmp_path: Path, format_: str) -> None:
    write_table(tmp_path / "in", TABLE, "arrow")
    run_job(a_job(tmp_path, format_, source="arrow"))
    found = records_in(tmp_path / "out")
    opened: Any = list(open_data_set(str(tmp_path / "out"), split="train", as_="arrow"))
    read = pa.Table.from_batches(opened)
    for name in found.schema.names:
        column = found.column(name).combine_chunks()
        number = pa.int32() if column.type.bit_width == 32 else pa.int64()
        expected = column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column.cast(number).cast(pa.int64())
        assert read.column(name).combine_chunks().equals(expected)


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_the_torch_loader_has_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str) -> None:
    """tests/interop/heavy/test_loaders.py loads other data sets with PyTorch itself."""
    table = pa.table(
        {
            "t": pa.array([1, None], pa.timestamp("ns")),
            "day": pa.array([3, 4], pa.int32()).cast(pa.date32()),
            "price": decimals("0.50", "2"),
        }
    )
    write_table(tmp_path / "in", table, "parquet")
    run_job(a_job(tmp_path, format_))
    FakeTorch().install_torch(monkeypatch)
    loader = runpy.run_path(str(tmp_path / "out/_dataprep/loaders/load_torch.py"))
    assert list(loader["Records"]("train")) == [{"t": 1, "day": 3, "price": 0.5}, {"t": None, "day": 4, "price": 2.0}]


def test_the_spark_loader_names_the_columns_that_spark_cannot_read(tmp_path: Path) -> None:
    kinds = [
        pa.date32(),
        pa.time32("ms"),
        pa.timestamp("us"),
        pa.timestamp("ns"),
        pa.duration("s"),
        pa.decimal128(38, 2),
        pa.decimal256(39, 2),
    ]
    write_table(tmp_path / "in", pa.table({f"c{place}": values_of(kind) for place, kind in enumerate(kinds)}), "parquet")
    run_job(a_job(tmp_path, "parquet"))
    assert (tmp_path / "out/_dataprep/loaders/load_spark.py").read_text() == (
        "raise SystemExit(\"load_spark.py: Spark can't read c1 (time32[ms]), c3 (timestamp[ns]), c6 (decimal256(39, 2)). "
        'Give these features a dtype, int64 for times and float64 for decimals.")\n'
    )


def test_croissant_has_the_types_that_it_knows(tmp_path: Path) -> None:
    kinds = {"day": pa.date32(), "t": pa.timestamp("us"), "price": pa.decimal128(5, 2), "time": pa.time32("ms"), "took": pa.duration("s")}
    write_table(tmp_path / "in", pa.table({name: values_of(kind) for name, kind in kinds.items()}), "parquet")
    run_job(a_job(tmp_path, "parquet"))
    (file,) = (tmp_path / "out").rglob("croissant.json")
    (records,) = [each for each in json.loads(file.read_text())["recordSet"] if each["@id"].startswith("records/")]
    assert {field["name"]: field["dataType"] for field in records["field"]} == {"day": "sc:Date", "t": "sc:Date", "price": "sc:Float"}


def test_inspect_shows_times(tmp_path: Path) -> None:
    write_table(tmp_path / "in", pa.table({"t": MOMENTS, "price": decimals("0.50", "1", "2")}), "parquet")
    run_job(a_job(tmp_path, "arrow"))
    shown = io.StringIO()
    inspection.show(str(tmp_path / "out"), Access(), records=2, as_json=False, stream=shown)
    assert "t: 2024-01-01 00:00:00.123Z\n" in shown.getvalue()
    assert "price: 0.50\n" in shown.getvalue()


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_records_are_shown_with_all_digits(tmp_path: Path, format_: str, capsys: pytest.CaptureFixture[str]) -> None:
    prices = {"wide": decimals("12345678901234567890.12", None, precision=22), "small": decimals("1E-10", "0.5", scale=10)}
    write_table(tmp_path / "in", pa.table(prices), "parquet")
    run_job(a_job(tmp_path, format_))
    (file,) = (tmp_path / "out").glob(f"*.{format_}")
    raw = tmp_path / "raw" / file.name
    raw.parent.mkdir()
    raw.write_bytes(file.read_bytes())
    capsys.readouterr()
    for place in (tmp_path / "out", raw):
        for command in ("inspect", "head"):
            assert code_of(command, place) == 0
            shown = capsys.readouterr().out
            assert "wide: 12345678901234567890.12\n" in shown
            assert "small: 0.0000000001\n" in shown
        assert code_of("head", place, "--json") == 0
        first = json.loads(capsys.readouterr().out)[0]
        values = ["12345678901234567890.12", "0.0000000001"]
        assert [first["wide"], first["small"]] == (values if place == raw else [[value] for value in values])
    assert code_of("inspect", tmp_path / "out", "--html", tmp_path / "report.html") == 0
    assert "12345678901234567890.12" in (tmp_path / "report.html").read_text()


def test_hugging_face_has_the_types(tmp_path: Path) -> None:
    write_table(tmp_path / "in", pa.table({"t": MOMENTS, "price": PRICES}), "parquet")
    found = made(a_job(tmp_path, "parquet", output={"parquet": {"huggingFace": {}}}))
    assert found.to_pylist() == pa.table({"t": MOMENTS, "price": PRICES}).to_pylist()
