"""Data sets and jobs of earlier releases, which stored times and decimals as numbers."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from tests.builders.columnar import write_table
from tests.builders.jobs import run_job, verified_run
from tests.converter.steps.kept_types import MOMENTS, PRICES, a_job, decimals, made, manifest_of, records_in

from dataprep_api.dataset import run_id
from dataprep_api.dataset.report import Manifest
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools import repair

_pq: Any = pq  # the module has no type stubs
_orc: Any = pyarrow.orc
_arrow: Any = pa


def made_before(job: DataPrepJob, monkeypatch: pytest.MonkeyPatch) -> Manifest:
    """Makes the data set as releases did before `types` was added to `run_id.PARTS`."""
    with monkeypatch.context() as then:
        then.setattr(run_id, "versions", lambda _spec: {})
        return verified_run(job)


NUMBERS = [pa.int64(), pa.float64()]


def a_table_of(tmp_path: Path) -> None:
    write_table(tmp_path / "in", pa.table({"t": MOMENTS, "price": PRICES}), "parquet")


def test_only_a_job_that_keeps_a_type_has_another_run_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_table_of(tmp_path)
    features = [{"name": "t", "dtype": "int64"}, {"name": "price", "dtype": "float64"}]
    numbers = a_job(tmp_path, "parquet", out="numbers", features=features)
    before = made_before(numbers, monkeypatch)
    assert verified_run(numbers) == before
    before = made_before(a_job(tmp_path, "jsonl", out="lines"), monkeypatch)
    assert verified_run(a_job(tmp_path, "jsonl", out="lines")) == before
    before = made_before(a_job(tmp_path, "parquet"), monkeypatch)
    after = verified_run(a_job(tmp_path, "parquet"))
    assert (before.parts, after.parts, after.run_id == before.run_id) == ({}, {"types": 2}, False)
    assert b'"version":5' in after.to_bytes()


def test_a_data_set_with_numbers_is_repaired_and_extended_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_table_of(tmp_path)
    job = a_job(tmp_path, "parquet", output={"overwrite": "Extend"})
    before = made_before(job, monkeypatch)
    (tmp_path / "out" / before.files[0].file).unlink()
    repair.repair(str(tmp_path / "out"), Access())
    assert manifest_of(tmp_path / "out") == before
    (tmp_path / "in/sequel.parquet").write_bytes((tmp_path / "in/rows.parquet").read_bytes())
    assert verified_run(job).records_out == 6
    assert records_in(tmp_path / "out").schema.types == NUMBERS


def test_a_data_set_that_keeps_types_is_extended(tmp_path: Path) -> None:
    a_table_of(tmp_path)
    job = a_job(tmp_path, "parquet", output={"overwrite": "Extend"})
    run_job(job)
    (tmp_path / "in/sequel.parquet").write_bytes((tmp_path / "in/rows.parquet").read_bytes())
    found = made(job)
    assert found.to_pylist() == pa.table({"t": MOMENTS, "price": PRICES}).to_pylist() * 2


def test_a_data_set_with_numbers_is_extended_with_numbers_of_other_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(tmp_path / "in", pa.table({"price": decimals("1.25", precision=5)}), "parquet")
    job = a_job(tmp_path, "parquet", output={"overwrite": "Extend"})
    made_before(job, monkeypatch)
    write_table(tmp_path / "in", pa.table({"price": pa.array([7])}), "parquet", "sequel")
    assert made(job).column("price").to_pylist() == [1.25, 7.0]


@pytest.mark.parametrize(
    ("first", "second", "features", "message"),
    [
        (PRICES, decimals("0.0001", precision=22, scale=4), None, r"'x' would be decimal128(22, 4), .* with decimal128(20, 2)"),
        (PRICES, pa.array([0.5]), None, r"'x' would be float64, .* with decimal128(20, 2)"),
        (MOMENTS, MOMENTS.cast(pa.timestamp("ms", tz="Asia/Tokyo")), None, r"'x' would be timestamp[ms, tz=Asia/Tokyo], .* tz=UTC]"),
        (
            MOMENTS,
            MOMENTS.cast(pa.timestamp("us", tz="UTC")),
            [{"name": "x", "dtype": "int64"}],
            r"times of the column 'x' would be us, .* ms",
        ),
    ],
    ids=["digits", "float", "zone", "unit of numbers"],
)
def test_an_extension_that_would_change_a_type_is_refused(tmp_path: Path, first: Any, second: Any, features: Any, message: str) -> None:
    write_table(tmp_path / "in", pa.table({"x": first}), "parquet")
    job = a_job(tmp_path, "parquet", output={"overwrite": "Extend"}, **({"features": features} if features else {}))
    before = verified_run(job)
    write_table(tmp_path / "in", pa.table({"x": second}), "parquet", "a file that comes first")
    with pytest.raises(BadSpec, match=re.sub(r"[][()]", r"\\\g<0>", message)):
        run_job(job)
    assert manifest_of(tmp_path / "out") == before


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("lost", ["plan.json", "manifest.json"])
def test_a_lost_plan_or_manifest_is_made_again_by_its_own_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str, is_before: bool
) -> None:
    a_table_of(tmp_path)
    job = a_job(tmp_path, "parquet")
    before = made_before(job, monkeypatch) if is_before else verified_run(job)
    for file in (tmp_path / "out" / before.files[0].file, tmp_path / "out/_dataprep" / before.run_id / lost):
        file.unlink()
    repair.repair(str(tmp_path / "out"), Access(), job=job)
    assert manifest_of(tmp_path / "out") == before


def test_a_job_that_had_numbers_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_table_of(tmp_path)
    before = made_before(a_job(tmp_path, "parquet"), monkeypatch)
    planned, _ = run_job(a_job(tmp_path, "parquet"))
    (told,) = planned.warnings
    assert told == (
        f"the data set of run {before.run_id}, which this job replaces, may have numbers in place of times and decimals. "
        "Now these keep their types; set dtype (int64 for times, float64 for decimals) in features to have numbers as before"
    )
    assert run_job(a_job(tmp_path, "parquet"))[0].warnings == []
