"""The planner: identical plans for identical inputs, errors, and the number of tasks.

The plan has at least as many tasks as workers, and more if this balances slow tasks. But each task must have enough work to be worth a pod.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.builders.jobs import plan_of
from tests.builders.specs import parse_job

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadSpec, NoInput
from dataprep_converter.pipeline.pipeline import Pipeline
from dataprep_converter.planning import planner
from dataprep_converter.readers.text import stretches
from dataprep_converter.runtime.plugins import CODE_VARIABLE

ROW_BYTES = 940
"""The size in bytes of the record for one input row. It is a few bytes more than the row's text."""


@pytest.fixture(autouse=True)
def _small_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "POD_BYTES", 10 * ROW_BYTES + 100)
    monkeypatch.setattr(planner, "TASK_BYTES", 20 * ROW_BYTES + 200)


def a_job(folder: Path, *, rows: int, shards: int = 100, **spec: Any) -> DataPrepJob:  # Any, because the spec is parsed YAML
    (folder / "rows.csv").write_text(f"{'x' * 900}\n" * rows)
    written: dict[str, Any] = {
        "source": {"csv": {"uris": [str(folder / "rows.csv")], "columns": [{"name": "text", "type": "String"}]}},
        "output": {"uri": str(folder / "out"), "shards": {"count": shards}},
        **spec,
    }
    return parse_job(written)


def tasks(folder: Path, *, rows: int, shards: int = 100, **spec: Any) -> int:  # Any, because the spec is parsed YAML
    return plan_of(a_job(folder, rows=rows, shards=shards, **spec)).head.tasks


def test_equal_inputs_make_equal_plans(tmp_path: Path) -> None:
    job = a_job(
        tmp_path, rows=30, shards=3, shuffle={"seed": 1}, splits={"into": [{"name": "a", "fraction": 0.5}, {"name": "b", "fraction": 0.5}]}
    )
    first, second = plan_of(job), plan_of(job)
    assert first.head.to_bytes() == second.head.to_bytes()
    assert first.sha256 == second.sha256


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        ("csv", {}, "source.csv: the column '_sample' has a reserved name; give it another name, or list the other columns in source.csv.select."),
        ("jsonl", {}, "source.jsonl: the column '_sample' has a reserved name; give it another name, or list the other columns in source.jsonl.columns."),
        (
            "csv", {"features": [{"name": "x", "columns": ["_sample"]}]},
            "The feature 'x': no column can have the name '_sample', which is reserved; give the column another name in the source.",
        ),
    ],
    ids=["csv", "jsonl", "a feature"],
)  # fmt: skip
def test_a_column_with_the_name_of_the_sample_numbers_is_refused(tmp_path: Path, kind: str, spec: dict[str, Any], message: str) -> None:
    file = tmp_path / f"rows.{kind}"
    file.write_text('{"_sample": 1, "a": 2}\n' if kind == "jsonl" else "_sample,a\n1,2\n")
    reading = {"uris": [str(file)]} | ({"header": True} if kind == "csv" else {})
    job: dict[str, Any] = {"source": {kind: reading}, "output": {"uri": str(tmp_path / "out")}}
    with pytest.raises(BadSpec) as refused:
        plan_of(parse_job(job | spec))
    assert str(refused.value) == message


def test_the_other_columns_beside_a_reserved_name_are_read(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("_sample,a\n1,2\n")
    source = {"csv": {"uris": [str(tmp_path / "rows.csv")], "header": True, "select": ["a"]}}
    assert plan_of(parse_job({"source": source, "output": {"uri": str(tmp_path / "out")}})).head.samples == 1


def test_the_plan_pins_its_inputs(tmp_path: Path) -> None:
    before = plan_of(a_job(tmp_path, rows=30))
    assert before.head.samples == 30
    after = plan_of(a_job(tmp_path, rows=31))
    assert after.head.samples == 31
    assert before.head.inputs_sha256 != after.head.inputs_sha256
    assert before.head.run_id != after.head.run_id


def test_an_empty_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoInput, match=r"^The source csv contains no records; set allowEmpty: true if this is intended\.$"):
        plan_of(a_job(tmp_path, rows=0))


def test_every_sample_is_in_one_split(tmp_path: Path) -> None:
    head = plan_of(a_job(tmp_path, rows=30, splits={"into": [{"name": "a", "fraction": 0.3}, {"name": "b", "fraction": 0.7}]})).head
    assert sum(split.records for split in head.splits) == head.samples == 30


def test_a_new_plan_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    before = set(Path("/proc/self/fd").iterdir())
    plan_of(a_job(tmp_path, rows=30, shuffle={"seed": 1}))
    assert list(temporary.iterdir()) == []
    assert set(Path("/proc/self/fd").iterdir()) == before


@pytest.mark.parametrize(
    ("rows", "shards", "parallelism", "expected"),
    [
        pytest.param(10, 10, 1, 1, id="one worker, bytes for one pod"),
        pytest.param(10, 10, 3, 3, id="each worker has a task, however few the bytes"),
        pytest.param(30, 30, 1, 3, id="bytes for three pods"),
        pytest.param(60, 60, 3, 6, id="bytes for twice the workers"),
        pytest.param(60, 60, 1, 4, id="four for a worker are enough"),
        pytest.param(60, 60, 2, 6, id="between one and four for each worker"),
        pytest.param(60, 4, 3, 4, id="never more than shards"),
        pytest.param(100, 100, 1, 5, id="a task has no more than its most bytes"),
    ],
)
def test_a_pod_is_worth_its_start(tmp_path: Path, rows: int, shards: int, parallelism: int, expected: int) -> None:
    assert tasks(tmp_path, rows=rows, shards=shards, workers={"parallelism": parallelism}) == expected


def test_a_job_without_records_has_no_task(tmp_path: Path) -> None:
    assert tasks(tmp_path, rows=0, allowEmpty=True, workers={"parallelism": 2}) == 0


def test_the_users_own_code_may_take_long_for_few_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "code").mkdir()
    monkeypatch.setenv(CODE_VARIABLE, str(tmp_path / "code"))
    assert tasks(tmp_path, rows=10, code={"configMapRef": {"name": "mine"}}, workers={"parallelism": 2}) == 8


@pytest.mark.parametrize(
    ("kept", "parallelism", "expected"),
    [
        pytest.param(1 << 20, 2, None, id="kept in memory"),
        pytest.param(0, 2, 3, id="by size"),
        pytest.param(0, 5, 5, id="one for each worker"),
        pytest.param(0, 20, 6, id="enough for a pod"),
    ],
)
def test_a_shuffle_that_does_not_fit_into_memory_has_a_first_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int, parallelism: int, expected: int | None
) -> None:
    monkeypatch.setattr(planner, "KEPT_BYTES", kept)
    monkeypatch.setattr(planner, "RANGE_BYTES", 100)
    monkeypatch.setattr(stretches, "UNIT_BYTES", 5 * ROW_BYTES)
    job = a_job(tmp_path, rows=60, shuffle={"seed": 1}, workers={"parallelism": parallelism})
    head = plan_of(job).head
    assert head.shuffle_tasks == expected
    assert ("shuffleTasks" in json.loads(head.to_bytes())) == (expected is not None)
    monkeypatch.setattr(planner, "KEPT_BYTES", 1 << 20)
    assert plan_of(job).head.run_id == head.run_id, "another way of reading makes the same data set"


def test_the_ranges_of_a_first_round_do_not_become_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "KEPT_BYTES", 0)
    monkeypatch.setattr(planner, "RANGE_BYTES", 2 * ROW_BYTES)
    monkeypatch.setattr(planner, "TASK_BYTES", 2 * ROW_BYTES)
    monkeypatch.setattr(stretches, "UNIT_BYTES", 2 * ROW_BYTES)
    head = plan_of(a_job(tmp_path, rows=80, shards=8, shuffle={"seed": 1}, workers={"parallelism": 2})).head
    assert (head.tasks, head.shuffle_tasks) == (8, 4)


def test_an_order_that_is_not_shuffled_needs_no_first_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "KEPT_BYTES", 0)
    assert plan_of(a_job(tmp_path, rows=60)).head.shuffle_tasks is None


@pytest.mark.parametrize(
    ("output", "probed"),
    [
        pytest.param({"shards": {"count": 7}}, 4, id="a number"),
        pytest.param({"shards": {"records": 10}}, 4, id="records of a shard"),
        pytest.param({"granularity": "Minibatch", "minibatchSize": 5}, 4, id="a file for each batch"),
        pytest.param({"shards": {"targetSize": "64Ki"}}, 64, id="size of a shard"),
        pytest.param({}, 64, id="nothing"),
    ],
)
def test_records_are_made_beforehand_where_their_size_decides_on_the_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: dict[str, Any], probed: int
) -> None:
    seen: list[int] = []
    measure = Pipeline.encoded_size

    def noted(self: Pipeline, units: Any, samples: Any) -> tuple[int, int]:
        seen.append(len(samples))
        return measure(self, units, samples)

    monkeypatch.setattr(Pipeline, "encoded_size", noted)
    tasks(tmp_path, rows=100, output={"uri": str(tmp_path / "out"), **output})
    assert seen == [probed]
