"""A shuffle in two rounds makes the same data set as a shuffle in one round."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.builders import pairs
from tests.converter.steps.shuffle_jobs import ROWS, SOURCES, a_job, as_csv, plan_small_rounds, remove
from tests.converter.steps.two_rounds import contents, divide, planned, run_in_one_round, run_in_two_rounds

from dataprep_api import names
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning import planner
from dataprep_converter.readers.base import windows
from dataprep_converter.readers.shuffle import task_reader
from dataprep_converter.steps.conversion import shuffle
from dataprep_converter.stores import files

pytestmark = pytest.mark.slow

THREE = [{"name": "train", "fraction": 0.5}, {"name": "val", "fraction": 0.2}, {"name": "test", "fraction": 0.3}]
SPECS: dict[str, dict[str, Any]] = {
    "one split": {},
    "fractions": {"splits": {"seed": 7, "into": THREE}},
}
WITH_PARTS = ("csv", "parquet")
"""The sources with which each of the specs below is tested."""
PART_SPECS: dict[str, dict[str, Any]] = {
    "a column": {"splits": {"column": "part", "into": [{"name": "a", "values": ["a"]}, {"name": "b", "values": ["b"]}]}},
    "groups": {"splits": {"groupBy": "part", "into": THREE}},
    "exact": {"splits": {"exact": True, "into": THREE}, "limit": 150},
    "no duplicates": {"deduplicate": {"columns": ["part"]}, "output": {"shards": {"count": 1}}},
    "provenance": {"output": {"provenance": True}},
    "refused": {"features": [{"name": "id", "dtype": "int8"}, {"name": "part"}]},
    "parquet": {"output": {"format": "parquet"}},
}


@pytest.fixture(autouse=True)
def small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    plan_small_rounds(monkeypatch)


def is_by_day(source: str, name: str) -> bool:
    """Return whether a case is in the quick run, which tests each source with one spec, and each spec with one source."""
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
    assert not [file for file in (tmp_path / "two").rglob("*") if "shuffle" in str(file.relative_to(tmp_path))]


def test_a_finished_first_round_is_not_done_again(tmp_path: Path) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    plan = planned(job, Access())
    first = divide(job, plan, Access())
    assert sum(each.records_in for each in first) == ROWS
    again = divide(job, plan, Access())
    assert [(each.records_in, each.bytes_in) for each in again] == [(each.records_in, 0) for each in first]
    (tmp_path / "out" / names.shuffle_file(plan.head.run_id, 2)).write_bytes(b"cut")
    assert [each.bytes_in > 0 for each in divide(job, plan, Access())] == [number == 2 for number in range(len(first))]


def test_the_last_counts_of_a_slice_are_watched(tmp_path: Path) -> None:
    job = a_job(as_csv(tmp_path), tmp_path / "out")
    plan = planned(job, Access())
    counts: list[tuple[int, int]] = []
    for _ in ("made", "found"):
        done = shuffle.shuffle_task(
            job.spec, 0, plan=plan, access=Access(), watch=lambda each: counts.append((each.records_in, each.bytes_out))
        )
        assert done.records_in > 0
        assert counts[-1] == (done.records_in, done.bytes_out)
        counts.clear()


def test_more_records_than_fit_into_memory_are_gathered_in_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = as_csv(tmp_path)
    run_in_one_round(a_job(source, tmp_path / "one", output={"shards": {"count": 2}}), Access())
    monkeypatch.setattr(task_reader, "MOST_BYTES", 100)
    monkeypatch.setattr(windows, "MOST_BYTES", 300)
    run_in_two_rounds(a_job(source, tmp_path / "two", output={"shards": {"count": 2}}), Access(), between=(tmp_path / "a.csv").unlink)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def test_a_store_that_keeps_removed_files_gets_no_first_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "WritesAside", files.FileStore)
    head = planned(a_job(as_csv(tmp_path), tmp_path / "out"), Access()).head
    assert (head.shuffle_tasks, head.tasks) == (None, 3)
