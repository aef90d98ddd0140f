"""`deduplicate` and `filter` compare all digits of decimals, in every format.

For data sets from earlier releases, decimals are still compared as float64.
"""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.builders.columnar import write_table
from tests.builders.jobs import run_job, verified_run
from tests.builders.specs import parse_job

from dataprep_api.dataset import run_id
from dataprep_api.dataset.report import Manifest
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools import repair
from dataprep_converter.tools.verification import verify

_arrow: Any = pa

PRICES = ["12345678901234567890.12", "12345678901234567890.13", None, "12345678901234567890.12", "-12345678901234567890.13", "0.30", None]
"""As float64, the first two prices would be the same number."""
LIMITS = ["12345678901234567890.13", "12345678901234567890.13", "1.00", None, "-12345678901234567890.12", "0.30", None]


def decimals(values: list[str | None], *, precision: int = 22, scale: int = 2) -> Any:
    return _arrow.array([None if value is None else Decimal(value) for value in values], pa.decimal128(precision, scale))


def put(folder: Path, kind: str = "parquet", name: str = "rows", **columns: Any) -> None:
    write_table(folder, pa.table({"n": pa.array(range(len(next(iter(columns.values())))))} | columns), kind, name)


def a_job(folder: Path, *, source: Any = "parquet", out: str = "out", output: Any = None, **spec: Any) -> DataPrepJob:
    """`source` is the job's source, or only its kind. If only the kind is given, the source reads the files in `in`."""
    options = {"uri": str(folder / out), "format": "jsonl", "shards": {"count": 1}, "overwrite": "IfChanged"} | (output or {})
    return parse_job({"source": {source: {"uris": [str(folder / "in")]}} if isinstance(source, str) else source, "output": options} | spec)


def numbers_in(folder: Path) -> list[int]:
    """The numbers of the records in a JSON Lines data set, in order."""
    lines = "".join(file.read_text() for file in sorted(folder.glob("*.jsonl"))).splitlines()
    return [json.loads(line)["n"] for line in lines]


def kept(folder: Path, **spec: Any) -> list[int]:
    """Runs a job on the records in `in`, and returns the numbers of the records that it keeps."""
    manifest = verified_run(a_job(folder, **spec))
    assert manifest.parts == {"decimals": 2}
    return numbers_in(folder / "out")


def where(expression: str) -> dict[str, Any]:
    return {"transforms": [{"filter": {"where": expression}}]}


UNIQUE: dict[str, Any] = {"deduplicate": {"columns": ["price"]}}


@pytest.mark.parametrize("source", ["parquet", "arrow", "orc"])
def test_decimals_that_differ_in_a_digit_are_no_duplicates(source: str, tmp_path: Path) -> None:
    put(tmp_path / "in", source, price=decimals(PRICES))
    assert kept(tmp_path, source=source, **UNIQUE) == [0, 1, 2, 4, 5]


def test_equal_decimals_of_two_scales_are_duplicates(tmp_path: Path) -> None:
    put(tmp_path / "in", name="a", price=decimals(["12345678901234567.5", "0.5", "100000000000000001"], scale=2))
    put(tmp_path / "in", name="b", price=decimals(["12345678901234567.500", "0.500", "100000000000000001.001"], precision=30, scale=3))
    planned, _ = run_job(a_job(tmp_path, **UNIQUE))
    assert "2 of 6 records say the same as an earlier one and are left out" in planned.warnings
    assert numbers_in(tmp_path / "out") == [0, 1, 2, 2]


@pytest.mark.parametrize(
    ("expression", "rows"),
    [
        ("price == 12345678901234567890.12", [0, 3]),
        ("price != 12345678901234567890.12", [1, 4, 5]),
        ("price > 12345678901234567890.12", [1]),
        ("price >= 12345678901234567890.12", [0, 1, 3]),
        ("price < 12345678901234567890.13", [0, 3, 4, 5]),
        ("price <= -12345678901234567890.13", [4]),
        ("price < -12345678901234567890.12", [4]),
        ("12345678901234567890 < price <= 12345678901234567890.12", [0, 3]),
        ("price == 12345678901234567890", []),
        ("price == 0.3", [5]),
        ("price == 0.30000000000000001", []),
        ("price in [12345678901234567890.13, 0.3]", [1, 5]),
        ("price not in [12345678901234567890.13]", [0, 2, 3, 4, 5, 6]),
        ("price < limit", [0, 4]),
        ('price == col("limit")', [1, 5]),
        ("not (price == limit)", [0, 4]),
        ("price > n", [0, 1, 3]),
        ("is_null(price)", [2, 6]),
    ],
)
def test_a_filter_compares_all_digits(expression: str, rows: list[int], tmp_path: Path) -> None:
    put(tmp_path / "in", price=decimals(PRICES), limit=decimals(LIMITS))
    run_job(a_job(tmp_path, **where(expression)))
    assert numbers_in(tmp_path / "out") == rows


def test_a_decimal_that_keeps_its_digits_does_not_equal_a_number_that_loses_some(tmp_path: Path) -> None:
    put(tmp_path / "in", price=decimals(["12345678901234567000", "0.30"]))
    assert float("12345678901234567000.01") == float("12345678901234567000")
    assert kept(tmp_path, **where("price >= 12345678901234567000.01")) == []
    assert kept(tmp_path, **where("price in [12345678901234567000.01, 0.3]")) == [1]


def test_whole_numbers_of_64_bits_are_compared_exactly_with_decimals(tmp_path: Path) -> None:
    most = 2**63 - 1
    put(tmp_path / "in", price=decimals([f"{most}.00", f"{most}.01", f"{most - 1}.99"]), limit=pa.array([most] * 3))
    assert kept(tmp_path, **where("price > limit")) == [1]
    assert kept(tmp_path, **where(f"price == {most}")) == [0]


def test_a_renamed_column_keeps_its_digits_and_a_computed_one_is_a_float64(tmp_path: Path) -> None:
    put(tmp_path / "in", price=decimals(PRICES), limit=decimals(LIMITS))
    renamed = {"rename": {"columns": {"price": "limit", "limit": "price"}}}
    exact = {"filter": {"where": "limit == 12345678901234567890.12"}}
    assert kept(tmp_path, transforms=[renamed, exact]) == [0, 3]
    filled = {"fillNulls": {"columns": ["price"], "value": "7"}}
    assert kept(tmp_path, transforms=[filled, {"filter": {"where": "price in [7, 12345678901234567890.13]"}}]) == [1, 2, 6]
    rounded = [
        {"filter": {"where": "not is_null(price)"}},
        {"cast": {"columns": ["price"], "dtype": "float64"}},
        {"filter": {"where": "price > 12345678901234567890.12"}},
    ]
    assert verified_run(a_job(tmp_path, transforms=rounded)).parts == {}
    assert numbers_in(tmp_path / "out") == []


def test_a_data_set_that_keeps_its_decimals_is_compared_by_all_digits(tmp_path: Path) -> None:
    put(tmp_path / "in", price=decimals(PRICES))
    run_job(a_job(tmp_path, out="first", output={"format": "parquet"}))
    assert kept(tmp_path, source={"dataset": {"uri": str(tmp_path / "first")}}, **UNIQUE) == [0, 1, 2, 4, 5]


# --- jobs and data sets of earlier releases -----------------------------------------------------------------------


def made_before(job: DataPrepJob, monkeypatch: pytest.MonkeyPatch) -> Manifest:
    """Makes the data set as releases did before `decimals` was added to `run_id.PARTS`."""
    with monkeypatch.context() as then:
        then.setattr(run_id, "versions", lambda _spec: {})
        return verified_run(job)


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        pytest.param((15, 2), UNIQUE, id="15 digits"),
        pytest.param((15, 2), where("price > 0.3"), id="15 digits in a filter"),
        pytest.param((22, 2), {"deduplicate": {"columns": ["n"]}}, id="other columns"),
        pytest.param((22, 2), where("n > 2 and not is_null(price)"), id="other columns in a filter"),
        pytest.param((22, 2), where("price * 2 > 1"), id="a computed number"),
    ],
)
def test_a_job_that_compares_no_long_decimals_keeps_its_run_id(
    kind: tuple[int, int], spec: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "in", price=decimals(["0.30", "0.40", "0.30", "1", None], precision=kind[0], scale=kind[1]))
    before = made_before(a_job(tmp_path, **spec), monkeypatch)
    planned, _ = run_job(a_job(tmp_path, **spec))
    assert planned.reused
    assert verify(str(tmp_path / "out"), Access()) == before


@pytest.mark.parametrize(
    ("spec", "then", "now"), [(UNIQUE, 4, 5), (where("price > 12345678901234567890.12"), 0, 1)], ids=["unique", "filter"]
)
def test_a_job_that_compares_long_decimals_makes_its_data_set_again(
    spec: dict[str, Any], then: int, now: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "in", price=decimals(PRICES))
    before = made_before(a_job(tmp_path, **spec), monkeypatch)
    assert (before.records_out, before.parts) == (then, {})
    planned, _ = run_job(a_job(tmp_path, **spec))
    (warning,) = [warning for warning in planned.warnings if "replaces" in warning]
    assert warning == (
        f"the data set of run {before.run_id}, which this job replaces, may lack records or have additional ones, because decimals were "
        "compared as float64. Now all their digits are compared"
    )
    after = verify(str(tmp_path / "out"), Access(), every_record=True)
    assert (after.records_out, after.parts, planned.reused) == (now, {"decimals": 2}, False)


def test_a_data_set_of_before_is_repaired_and_extended_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "in", price=decimals(PRICES))
    job = a_job(tmp_path, output={"overwrite": "Extend"}, **where("price <= 12345678901234567890.12"))
    before = made_before(job, monkeypatch)
    assert before.records_out == 5
    (tmp_path / "out" / before.files[0].file).unlink()
    repair.repair(str(tmp_path / "out"), Access())
    assert verify(str(tmp_path / "out"), Access(), every_record=True) == before
    put(tmp_path / "in", name="sequel", price=decimals(PRICES))
    assert verified_run(job).records_out == 10


def test_a_plan_and_a_manifest_of_before_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The previous release already kept the types of decimals."""
    put(tmp_path / "in", price=decimals(PRICES))
    job = a_job(tmp_path, output={"format": "parquet"}, **UNIQUE)
    with monkeypatch.context() as then:
        then.setattr(run_id, "versions", lambda _spec: {"types": 2})
        before = verified_run(job)
    assert (before.parts, before.records_out) == ({"types": 2}, 4)
    for name in (f"_dataprep/{before.run_id}/manifest.json", before.files[0].file):
        (tmp_path / "out" / name).unlink()
    (tmp_path / f"out/_dataprep/{before.run_id}/plan.json").write_bytes(b"damaged")
    repair.repair(str(tmp_path / "out"), Access(), job=job)
    assert verify(str(tmp_path / "out"), Access(), every_record=True) == before
