"""A shuffle in two rounds: the same data set as in one round, and each unit is decoded once."""

import gzip
import json
import shutil
from collections.abc import Callable
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders import pairs
from tests.builders.specs import parse_job
from tests.converter.cli.commandline import code_of
from tests.converter.steps.two_rounds import contents, convert, divide, make_rounds, planned, run_in_one_round, run_in_two_rounds

from dataprep_api import names
from dataprep_api.dataset.messages import FailureResult, PlanResult
from dataprep_api.exits import Exit
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.cli import display
from dataprep_converter.core.errors import BadData, InputChanged, OutputLost, StoreFull
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning import planner
from dataprep_converter.readers.base import windows
from dataprep_converter.readers.shuffled import shuffle_file, shuffled_reader, task_records
from dataprep_converter.readers.text import stretches
from dataprep_converter.runtime.temporary import free_bytes_at
from dataprep_converter.steps import plan_step, pool
from dataprep_converter.steps.conversion import convert_commit, shuffle
from dataprep_converter.steps.kinds import Conversion
from dataprep_converter.steps.run import run
from dataprep_converter.stores import files
from dataprep_converter.tools.repair import repair
from dataprep_converter.tools.verification import verify

_pq: Any = pq  # the type stubs lack some options

pytestmark = pytest.mark.slow

ROWS = 200
THREE = [{"name": "train", "fraction": 0.5}, {"name": "val", "fraction": 0.2}, {"name": "test", "fraction": 0.3}]


def as_text(folder: Path) -> dict[str, Any]:
    (folder / "a.txt").write_text("".join(f"the text of line {number}\n" for number in range(ROWS)))
    return {"text": {"uris": [str(folder / "a.txt")]}}


def as_csv(folder: Path, *, zipped: bool = False) -> dict[str, Any]:
    text = "".join(f"{n},{'abc'[n % 3]},t{n}\n" if n % 37 else f"bad {n},a,t\n" for n in range(ROWS)).encode()
    (folder / "a.csv").write_bytes(gzip.compress(text, mtime=0) if zipped else text)
    columns = [{"name": "id", "type": "Int64"}, {"name": "part", "type": "String"}, {"name": "s", "type": "String"}]
    return {"csv": {"uris": [str(folder / "a.csv")], "columns": columns}}


def as_zipped_csv(folder: Path) -> dict[str, Any]:
    return as_csv(folder, zipped=True)


def as_jsonl(folder: Path) -> dict[str, Any]:
    for half in (0, 1):
        rows = (
            {"id": n, "part": "abc"[n % 3], "v": [n, n + 1], "o": {"x": n} if n % 5 else None} for n in range(half * 100, half * 100 + 100)
        )
        lines = [json.dumps(row) if row["id"] % 41 else "{not json" for row in rows]  # type: ignore[operator]
        (folder / f"{half}.jsonl").write_text("\n".join(lines) + "\n")
    return {"jsonl": {"uris": [str(folder / f"{half}.jsonl") for half in (0, 1)], "nested": ["o"]}}


def as_parquet(folder: Path, *, compression: str = "zstd") -> dict[str, Any]:
    table = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "part": pa.array(["abc"[n % 3] for n in range(ROWS)]),
            "w": pa.array([n / 7 if n % 11 else None for n in range(ROWS)], pa.float64()),
            "d": pa.array([Decimal(f"12345678901234567{n:03d}.25") for n in range(ROWS)], pa.decimal128(25, 2)),
            "t": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(ROWS * 4, dtype=np.float32).reshape(ROWS, 2, 2)),
        }
    )
    (folder / "key=1").mkdir()
    _pq.write_table(table, folder / "key=1" / "a.parquet", row_group_size=17, compression=compression)
    return {"parquet": {"uris": [str(folder)]}}


def as_plain_parquet(folder: Path) -> dict[str, Any]:
    return as_parquet(folder, compression="none")


SOURCES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "text": as_text,
    "csv": as_csv,
    "csv.gz": as_zipped_csv,
    "jsonl": as_jsonl,
    "parquet": as_parquet,
    "parquet without compression": as_plain_parquet,
}
SPECS: dict[str, dict[str, Any]] = {
    "one split": {},
    "fractions": {"splits": {"seed": 7, "into": THREE}},
}
WITH_PARTS = ("csv", "parquet")
"""The sources with which the next specs are tested."""
PART_SPECS: dict[str, dict[str, Any]] = {
    "a column": {"splits": {"column": "part", "into": [{"name": "a", "values": ["a"]}, {"name": "b", "values": ["b"]}]}},
    "groups": {"splits": {"groupBy": "part", "into": THREE}},
    "exact": {"splits": {"exact": True, "into": THREE}, "limit": 150},
    "no duplicates": {"deduplicate": {"columns": ["part"]}, "output": {"shards": {"count": 1}}},
    "provenance": {"output": {"provenance": True}},
    "refused": {"features": [{"name": "id", "dtype": "int8"}, {"name": "part"}]},
    "parquet": {"output": {"format": "parquet"}},
}


def a_job(source: dict[str, Any], folder: Path, **spec: Any) -> DataPrepJob:
    written = {
        "source": source,
        "shuffle": {"seed": 1},
        "onBadRecord": {"policy": "Quarantine"},
        "workers": {"parallelism": 3},
        **spec,
        "output": {"uri": str(folder), "shards": {"count": 5}, **spec.get("output", {})},
    }
    return parse_job(written)


def remove(folder: Path) -> None:
    """Removes the inputs, so that no convert task can read them."""
    folder.rename(folder.with_name("removed"))


@pytest.fixture(autouse=True)
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    make_rounds(monkeypatch)
    monkeypatch.setattr(stretches, "UNIT_BYTES", 300)


def is_by_day(source: str, name: str) -> bool:
    """Return whether a case is in the quick run: each source with one of the specs, and each spec with one of its sources."""
    sources, specs = (list(SOURCES), list(SPECS)) if name in SPECS else (list(WITH_PARTS), list(PART_SPECS))
    return pairs.has_turn(source, name, sources, specs)


@pytest.mark.parametrize(
    ("source", "name"),
    pairs.chosen([*product(SOURCES, SPECS), *product(WITH_PARTS, PART_SPECS)], is_by_day),
)
def test_two_rounds_make_the_same_data_set_as_one(tmp_path: Path, source: str, name: str) -> None:
    spec = (SPECS | PART_SPECS)[name]
    (tmp_path / "in").mkdir()
    written = SOURCES[source](tmp_path / "in")
    one = run_in_one_round(a_job(written, tmp_path / "one", **spec), Access())
    two = run_in_two_rounds(a_job(written, tmp_path / "two", **spec), Access(), between=lambda: remove(tmp_path / "in"))
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    assert one.records == two.records
    assert not [file for file in (tmp_path / "two").rglob("*") if "shuffle" in str(file.relative_to(tmp_path)) and file.is_file()]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_on_one_machine_reads_the_source_only_in_the_first_round(
    tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pool, "INLINE_BYTES", 0)
    monkeypatch.setattr(windows, "MOST_ROWS", 10)
    monkeypatch.setattr(display, "_LINE_SECONDS", 0)
    (tmp_path / "in").mkdir()
    source = as_csv(tmp_path / "in")
    run_in_one_round(a_job(source, tmp_path / "one"), Access())
    shuffled = pool.run_shuffle

    def then_remove(*args: Any, **more: Any) -> None:
        shuffled(*args, **more)
        remove(tmp_path / "in")

    monkeypatch.setattr(pool, "run_shuffle", then_remove)
    run(a_job(source, tmp_path / "two"), access=Access(), workers=workers, display=display.Display())
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    shown = capsys.readouterr().err
    assert f"shuffling: {ROWS} of {ROWS} records" in shown
    assert f"converting: {ROWS} of {ROWS} records" in shown


def test_one_process_that_can_gather_all_records_in_one_pass_needs_no_first_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "run_shuffle", None)
    run(a_job(as_csv(tmp_path), tmp_path / "out"), access=Access(), workers=1, display=display.Display(quiet=True))
    assert verify(str(tmp_path / "out"), Access()).records_in == ROWS


def test_a_finished_first_round_is_not_done_again(tmp_path: Path) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    plan = planned(job, Access())
    first = divide(job, plan, Access())
    assert sum(each.records for each in first) == ROWS
    assert [each.records for each in divide(job, plan, Access())] == [0] * len(first)
    (tmp_path / "out" / names.shuffle_file(plan.head.run_id, 2)).write_bytes(b"cut")
    assert [each.records for each in divide(job, plan, Access())] == [
        each.records if number == 2 else 0 for number, each in enumerate(first)
    ]


class SourceBytes:
    """Counts the bytes that are read from files in one folder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.bytes = 0
        read_at = files.FileInput.read_at

        def counted(source: files.FileInput, offset: int, length: int) -> bytes:
            data = read_at(source, offset, length)
            self.bytes += len(data) if str(folder) in source.uri else 0
            return data

        monkeypatch.setattr(files.FileInput, "read_at", counted)


def spoil(file: Path, damage: str) -> None:
    """Removes or damages a file of the first round."""
    content = file.read_bytes()
    file.unlink()
    if damage == "damaged":
        file.write_bytes(content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_file_that_is_lost_is_made_again_and_no_task_reads_the_source(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "in").mkdir()
    source = as_csv(tmp_path / "in")
    run_in_one_round(a_job(source, tmp_path / "one", output={"shards": {"count": 20}}), Access())
    job = a_job(source, tmp_path / "two", output={"shards": {"count": 20}})
    access = Access()
    plan = planned(job, access)
    divide(job, plan, access)
    spoil(tmp_path / "two" / names.shuffle_file(plan.head.run_id, 1), damage)
    read = SourceBytes(monkeypatch, tmp_path / "in")
    convert(job, plan, access)
    assert read.bytes <= (tmp_path / "in" / "a.csv").stat().st_size
    assert "made again" in caplog.text
    convert_commit.commit(job.spec, plan=plan, access=access)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def test_a_convert_task_without_space_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    plan = planned(job, Access())
    divide(job, plan, Access())

    def full(*_: Any, **__: Any) -> None:
        raise StoreFull("$TMPDIR is full.")

    monkeypatch.setattr(task_records, "MappedTable", full)
    with pytest.raises(StoreFull):
        convert(job, plan, Access())


@pytest.mark.parametrize("cause", ["replaced", "finished"])
def test_a_late_task_does_not_read_the_source(tmp_path: Path, cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    source = as_csv(tmp_path / "in")
    job = a_job(source, tmp_path / "out")
    plan = planned(job, Access())
    if cause == "finished":
        divide(job, plan, Access())
        convert(job, plan, Access())
        convert_commit.commit(job.spec, plan=plan, access=Access())
        report = tmp_path / "out" / names.report_file(plan.head.run_id, 0)
        report.unlink()
    else:
        planned(a_job(source, tmp_path / "out", shuffle={"seed": 2}, output={"overwrite": "IfChanged"}), Access())
    read = SourceBytes(monkeypatch, tmp_path / "in")
    with pytest.raises(OutputLost):
        convert(job, plan, Access())
    assert read.bytes == 0


def test_a_file_that_a_late_worker_replaces_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    run_in_one_round(a_job(as_csv(tmp_path), tmp_path / "one"), Access())
    read_range, replaced = shuffle_file.read_range, [True]

    def read(source: Any, *args: Any, **more: Any) -> Any:
        if replaced:
            replaced.clear()
            raise InputChanged(f"{source.uri} has been replaced since it was listed.", uri=source.uri)
        return read_range(source, *args, **more)

    monkeypatch.setattr(shuffle_file, "read_range", read)
    run_in_two_rounds(job, Access(), between=(tmp_path / "a.csv").unlink)
    assert contents(tmp_path / "out") == contents(tmp_path / "one")


def test_a_late_worker_does_not_replace_a_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    plan = planned(job, Access())
    file = tmp_path / "out" / names.shuffle_file(plan.head.run_id, 0)
    stage = files.FileUpload.stage
    inode: list[int] = []

    def late(upload: Any) -> None:
        stage(upload)
        if not inode:
            inode.append(0)
            shuffle.shuffle_task(job.spec, 0, plan=plan, access=Access())
            inode[0] = file.stat().st_ino

    monkeypatch.setattr(files.FileUpload, "stage", late)
    assert shuffle.shuffle_task(job.spec, 0, plan=plan, access=Access()).bytes_out == 0
    assert file.stat().st_ino == inode[0]


def test_hdfs_output_of_one_process_has_a_first_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    plan = planned(job, Access())
    rounds: list[bool] = []
    monkeypatch.setattr(pool, "scheme_of", lambda _: "hdfs")
    monkeypatch.setattr(pool, "run_shuffle", lambda *_, **__: rounds.append(True))
    monkeypatch.setattr(pool, "run_tasks", lambda *_, **__: None)
    Conversion().work_here(job, plan=plan, access=Access(), workers=1, watch=display.Display(quiet=True))
    assert rounds == [True]


@pytest.mark.parametrize(("lost", "rounds"), [(1, 0), (5, 1)])
def test_the_repair_of_several_tasks_divides_the_records_once(
    tmp_path: Path, lost: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "INLINE_BYTES", 0)
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    run_in_two_rounds(job, Access())
    before = contents(tmp_path / "out")
    for shard in sorted((tmp_path / "out").glob("*.tfrecord*"))[:lost]:
        shard.unlink()
    shuffled = pool.run_shuffle
    done: list[bool] = []

    def counted(*args: Any, **more: Any) -> None:
        done.append(True)
        shuffled(*args, **more)

    monkeypatch.setattr(pool, "run_shuffle", counted)
    assert len(repair(str(tmp_path / "out"), Access(), workers=2).shards) == lost
    assert len(done) == rounds
    assert contents(tmp_path / "out") == before


def test_more_records_than_fit_into_memory_are_gathered_in_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = as_csv(tmp_path)
    run_in_one_round(a_job(source, tmp_path / "one", output={"shards": {"count": 2}}), Access())
    monkeypatch.setattr(shuffled_reader, "MOST_BYTES", 100)
    monkeypatch.setattr(windows, "MOST_BYTES", 300)
    run_in_two_rounds(a_job(source, tmp_path / "two", output={"shards": {"count": 2}}), Access(), between=(tmp_path / "a.csv").unlink)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def test_another_run_in_the_folder_removes_the_files_of_the_first_round(tmp_path: Path) -> None:
    source = as_csv(tmp_path)
    first = a_job(source, tmp_path / "out")
    plan = planned(first, Access())
    divide(first, plan, Access())
    run_in_one_round(a_job(source, tmp_path / "out", shuffle={"seed": 2}, output={"overwrite": "IfChanged"}), Access())
    assert not (tmp_path / "out" / names.shuffle_file(plan.head.run_id, 0)).exists()


def test_pods_divide_the_records_if_the_operator_runs_the_first_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    (tmp_path / "job.yaml").write_text(job.model_dump_json(by_alias=True, exclude_none=True))
    on_job = ["--job", str(tmp_path / "job.yaml")]
    assert code_of("plan", *on_job) == 0
    alone = PlanResult.model_validate_json(capsys.readouterr().out)
    assert (alone.shuffle_tasks, alone.tasks) == (None, 3)

    shutil.rmtree(tmp_path / "out")
    monkeypatch.setenv(names.TWO_ROUNDS, "1")
    assert code_of("plan", *on_job) == 0
    plan = PlanResult.model_validate_json(capsys.readouterr().out)
    assert plan.shuffle_tasks is not None
    assert plan.run_id == alone.run_id
    of_plan = [*on_job, "--run", plan.run_id, "--plan-sha256", plan.plan_sha256]
    assert code_of("shuffle", *of_plan, "--index", str(plan.shuffle_tasks)) == Exit.BAD_SPEC
    for number in range(plan.shuffle_tasks):
        assert code_of("shuffle", *of_plan, "--index", str(number)) == 0
    (tmp_path / "a.csv").unlink()
    for index in range(plan.tasks):
        assert code_of("work", *of_plan, "--index", str(index)) == 0
    assert code_of("commit", *of_plan) == 0


def test_the_failure_of_a_first_round_names_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    plan = planned(job, Access())
    (tmp_path / "a.csv").unlink()
    (tmp_path / "job.yaml").write_text(job.model_dump_json(by_alias=True, exclude_none=True))
    monkeypatch.setenv("DATAPREP_MOUNTS", str(tmp_path / "mounts"))
    monkeypatch.setenv("DATAPREP_TERMINATION_LOG", str(tmp_path / "log"))
    of_plan = ["--run", plan.head.run_id, "--plan-sha256", plan.sha256]
    assert code_of("shuffle", "--job", str(tmp_path / "job.yaml"), *of_plan, "--index", "2") == Exit.NOT_FOUND
    assert FailureResult.model_validate_json((tmp_path / "log").read_text()).index == 2


def test_too_little_space_is_warned_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    monkeypatch.setattr(plan_step, "free_bytes_at", lambda _: 10)
    monkeypatch.setattr(shuffle, "free_bytes", lambda: 10)
    assert any("has 0 MiB free" in warning for warning in plan_step.run_plan_step(job, Access()).result.warnings)
    divide(job, planned(job, Access()), Access())
    assert "$TMPDIR has 0 MiB free" in caplog.text


def test_a_finished_data_set_that_is_reused_needs_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out", output={"overwrite": "IfChanged"})
    run_in_two_rounds(job, Access())
    monkeypatch.setattr(plan_step, "free_bytes_at", lambda _: 10)
    result = plan_step.run_plan_step(job, Access()).result
    assert result.reused
    assert result.warnings == []


def test_a_copy_has_no_first_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(pool, "INLINE_BYTES", 0)
    run_in_two_rounds(a_job(as_csv(tmp_path), tmp_path / "out"), Access())
    monkeypatch.setattr(plan_step, "free_bytes_at", lambda _: 10)
    copy = parse_job({"source": {"dataset": {"uri": str(tmp_path / "out")}}, "output": {"uri": str(tmp_path / "copy"), "format": "copy"}})
    plan, _ = run(copy, access=Access(), workers=2, display=display.Display(quiet=True))
    assert (plan.shuffle_tasks, plan.warnings) == (None, [])
    assert verify(str(tmp_path / "copy"), Access()).records_in == ROWS

    (tmp_path / "copy.yaml").write_text(copy.model_dump_json(by_alias=True, exclude_none=True))
    of_plan = ["--job", str(tmp_path / "copy.yaml"), "--run", plan.run_id, "--plan-sha256", plan.plan_sha256]
    assert code_of("shuffle", *of_plan, "--index", "0") == Exit.BAD_SPEC
    assert "Only a conversion" in capsys.readouterr().err


@pytest.mark.parametrize("has_rounds", [False, True])
def test_repair_plans_again_with_the_rounds_of_the_damaged_plan(tmp_path: Path, has_rounds: bool) -> None:
    access = Access()
    access.divides_shuffles = has_rounds
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    plan = planned(job, access)
    convert(job, plan, access)
    convert_commit.commit(job.spec, plan=plan, access=access)
    (tmp_path / "out" / names.plan_file(plan.head.run_id)).write_bytes(b"{}")
    next((tmp_path / "out").glob("*.tfrecord*")).unlink()
    assert len(repair(str(tmp_path / "out"), Access(), job=job).shards) == 1


def test_a_bad_record_that_fails_the_job_fails_the_first_round(tmp_path: Path) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out", onBadRecord={"policy": "Fail"})
    with pytest.raises(BadData) as second:
        run_in_one_round(
            a_job(as_csv(tmp_path), tmp_path / "one", onBadRecord={"policy": "Fail"}, output={"shards": {"count": 1}}), Access()
        )
    plan = planned(job, Access())
    with pytest.raises(BadData, match="record 0: .*bad 0") as first:
        divide(job, plan, Access())
    assert str(first.value).partition(". ")[2] == str(second.value).partition(". ")[2]
    assert not (tmp_path / "out" / names.shuffle_file(plan.head.run_id, 0)).exists()


def test_a_store_that_keeps_removed_files_gets_no_first_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "WritesAside", files.FileStore)
    head = planned(a_job(as_csv(tmp_path), tmp_path / "out"), Access()).head
    assert (head.shuffle_tasks, head.tasks) == (None, 3)


def test_the_free_space_of_a_folder_that_does_not_exist_is_that_of_its_parent(tmp_path: Path) -> None:
    assert (free_bytes_at(str(tmp_path / "not" / "there")) or 0) > 0
