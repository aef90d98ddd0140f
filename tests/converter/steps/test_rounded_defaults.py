"""Tests of decimal defaults that float64 can't represent exactly. Earlier releases rounded such defaults."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from tests.builders.columnar import write_table
from tests.builders.jobs import run_job
from tests.converter.steps.kept_types import a_job, decimals, made, manifest_of

from dataprep_api import names
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadSpec, RoundedDefault
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.columnar import tables
from dataprep_converter.steps.plan_step import run_plan_step
from dataprep_converter.tools import repair

_pq: Any = pq  # the module has no type stubs
_orc: Any = pyarrow.orc
_arrow: Any = pa


@pytest.mark.parametrize(("default", "rounded"), [("12345678901234567.25", "1.2345678901234568e+16"), ("1e400", "inf")])
def test_a_default_of_decimals_that_would_be_rounded_is_refused(tmp_path: Path, default: str, rounded: str) -> None:
    write_table(tmp_path / "in", pa.table({"t": decimals(None, "5")}), "parquet")
    message = (
        f"source.parquet.defaults: the default '{default}' of 't', a column of decimal128(20, 2), would be rounded to {rounded}; "
        "write a number of at most 15 digits."
    )
    for format_ in ("parquet", "jsonl"):
        with pytest.raises(BadSpec) as refused:
            run_job(a_job(tmp_path, format_, reading={"defaults": {"t": default}}))
        assert str(refused.value) == message


ROUNDED = "12345678901234567.25"


def a_rounding_job(folder: Path, **output: Any) -> DataPrepJob:
    return a_job(folder, "parquet", reading={"defaults": {"t": ROUNDED}}, output=output)


@pytest.fixture
def earlier(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """While this fixture is in use, defaults are rounded without a check, as in earlier releases."""
    with monkeypatch.context() as then:
        then.setattr(tables, "check_digits", lambda *_, **__: None)
        yield then


def rounded_data_set(folder: Path, earlier: pytest.MonkeyPatch, **output: Any) -> tuple[DataPrepJob, Path, bytes]:
    """Makes a data set as an earlier release did, with a rounded default. Returns the job, the data set's only shard, and the shard's
    bytes."""
    write_table(folder / "in", pa.table({"t": decimals(None, "5")}), "parquet")
    job = a_rounding_job(folder, **output)
    run_job(job)
    earlier.undo()
    (file,) = (folder / "out").glob("*.parquet")
    return job, file, file.read_bytes()


@pytest.mark.parametrize("lost", [(), ("plan",), ("plan", "manifest")], ids=["nothing", "the plan", "the manifest too"])
def test_a_data_set_with_a_rounded_default_is_repaired(tmp_path: Path, earlier: pytest.MonkeyPatch, lost: Sequence[str]) -> None:
    job, file, before = rounded_data_set(tmp_path, earlier)
    run = manifest_of(tmp_path / "out").run_id
    for name in lost:
        (tmp_path / "out" / (names.plan_file(run) if name == "plan" else names.manifest_file(run))).write_text("{}")
    file.unlink()
    assert repair.repair(str(tmp_path / "out"), Access(), job=job).shards == [file.name]
    assert file.read_bytes() == before


def test_a_data_set_with_a_rounded_default_is_extended(tmp_path: Path, earlier: pytest.MonkeyPatch) -> None:
    job, file, before = rounded_data_set(tmp_path, earlier, overwrite="Extend")
    run_job(job)
    write_table(tmp_path / "in", pa.table({"t": decimals("7", None)}), "parquet", "rows2")
    run_job(job)
    assert file.read_bytes() == before
    shards = [_pq.read_table(each).column("t").to_pylist() for each in sorted((tmp_path / "out").glob("*.parquet"))]
    default = shards[0][0]
    assert shards == [[default, Decimal(5)], [Decimal(7), default]]
    assert default != Decimal(ROUNDED)
    manifest_of(tmp_path / "out")


def test_a_data_set_with_a_rounded_default_is_reused_unless_its_inputs_change(tmp_path: Path, earlier: pytest.MonkeyPatch) -> None:
    job, file, before = rounded_data_set(tmp_path, earlier, overwrite="IfChanged")
    run_job(job)
    assert file.read_bytes() == before
    write_table(tmp_path / "in", pa.table({"t": decimals("7", None)}), "parquet", "rows2")
    with pytest.raises(RoundedDefault, match="would be rounded"):
        run_job(job)
    assert file.read_bytes() == before


def test_an_unfinished_run_with_a_rounded_default_is_finished(tmp_path: Path, earlier: pytest.MonkeyPatch) -> None:
    write_table(tmp_path / "in", pa.table({"t": decimals(None, "5")}), "parquet")
    job = a_rounding_job(tmp_path)
    run_plan_step(job, Access())
    earlier.undo()
    assert made(job).column("t").to_pylist()[1] == Decimal(5)


def test_a_long_default_that_float64_holds_is_kept(tmp_path: Path) -> None:
    write_table(tmp_path / "in", pa.table({"t": decimals(None, "5")}), "parquet")
    found = made(a_job(tmp_path, "parquet", reading={"defaults": {"t": "12345678901234560.00"}}))
    assert found.column("t").to_pylist() == [Decimal("12345678901234560.00"), Decimal(5)]
