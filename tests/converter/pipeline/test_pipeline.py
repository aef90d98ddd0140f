"""The pipeline: a source's samples pass through steps and features, in the requested order."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.builders.jobs import plan_of
from tests.builders.specs import parse_job

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.pipeline import Pipeline
from dataprep_converter.sampling.plan import Plan

ROWS = 20
FEATURES = [{"name": "x", "columns": ["x"], "dtype": "float32"}]


def a_job(folder: Path, *, rows: str = "", **spec: Any) -> DataPrepJob:  # Any, because the spec is parsed YAML
    file = folder / "rows.csv"
    file.write_text("x,name\n" + "".join(f"{number}.5,n{number % 2}\n" for number in range(ROWS)) + rows)
    written = {
        "source": {"csv": {"uris": [str(file)], "header": True}},
        "features": FEATURES,
        "output": {"uri": str(folder / "out")},
        "onBadRecord": {"policy": "Skip"},
    }
    return parse_job(written | spec)


def opened(job: DataPrepJob, plan: Plan) -> Pipeline:
    return Pipeline(job.spec, plan.head.reader_state, Access(), plan.head.learned)


def numbers(*chunks: list[int]) -> Iterator[np.ndarray[Any, Any]]:
    return (np.array(chunk, np.int64) for chunk in chunks)


def test_records_come_in_the_order_asked_for(tmp_path: Path) -> None:
    job = a_job(tmp_path)
    plan = plan_of(job)
    with opened(job, plan) as pipeline:
        batches = list(pipeline.batches(plan.units, numbers([7, 3], [0, 19, 1])))
    assert [batch.records.column("x").to_pylist() for batch in batches] == [[7.5, 3.5], [0.5, 19.5, 1.5]]


def test_bad_records_are_counted_by_reason_and_name_their_line(tmp_path: Path) -> None:
    job = a_job(tmp_path, rows="oops,n0\n")
    plan = plan_of(job)
    with opened(job, plan) as pipeline:
        stream = pipeline.batches(plan.units, numbers([0, ROWS]))
        (batch,) = stream
    assert batch.records.column("x").to_pylist() == [0.5]
    (rejected,) = batch.bad
    assert rejected.sample == ROWS
    assert f"line {ROWS + 2}" in rejected.reason
    assert "'oops'" in rejected.reason
    assert sum(stream.refused.values()) == 1
    assert set(stream.seconds) == {"read", "transform"}


def test_the_estimated_size_is_that_of_the_encoded_records(tmp_path: Path) -> None:
    job = a_job(tmp_path)
    plan = plan_of(job)
    with opened(job, plan) as pipeline:
        size, good = pipeline.encoded_size(plan.units, np.arange(ROWS))
        one, _ = pipeline.encoded_size(plan.units, np.arange(1))
    assert good == ROWS
    assert size == ROWS * one


def test_a_step_is_fitted_once_and_loaded_by_others(tmp_path: Path) -> None:
    vocabulary = {"vocabulary": {"columns": ["name"]}}
    job = a_job(tmp_path, transforms=[vocabulary], features=[{"name": "name"}])
    plan = plan_of(job)
    assert list(plan.head.learned) == ["0"]
    with opened(job, plan) as pipeline:
        (batch,) = pipeline.batches(plan.units, numbers([0, 1, 2]))
    first, second, third = batch.records.column("name").to_pylist()
    assert first == third != second


def test_a_step_that_cannot_take_the_columns_is_refused_when_the_pipeline_is_made(tmp_path: Path) -> None:
    job = a_job(tmp_path, transforms=[{"scale": {"columns": ["nowhere"]}}])
    with pytest.raises(BadSpec, match="nowhere"):
        plan_of(job)


def test_closing_it_closes_the_reader(tmp_path: Path) -> None:
    job = a_job(tmp_path)
    pipeline = opened(job, plan_of(job))
    closed: list[bool] = []
    close = pipeline.reader.close
    pipeline.reader.close = lambda: closed.append(True) or close()  # type: ignore[func-returns-value, method-assign]
    with pipeline:
        pass
    assert closed == [True]
