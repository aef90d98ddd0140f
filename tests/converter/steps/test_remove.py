"""`dataprep remove` removes exactly the files that a job's runs have written, and never any other file."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.converter.stores import small_jobs
from tests.converter.stores.crashing import CrashingAccess, Killed, Operations, Point, stops
from tests.converter.stores.places import PLACES, Place, in_folder
from tests.converter.stores.small_jobs import SmallJob

from dataprep_api.dataset.messages import RemoveResult
from dataprep_converter.core.errors import BadSpec, NotWhole, OutputLost
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps.remove import remove


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return in_folder(tmp_path / "place")


@pytest.fixture
def small(place: Place) -> SmallJob:
    return small_jobs.of_rows(place)


def make(small: SmallJob, *, until: str = "commit", **output: Any) -> str:  # Any, because fields of the output have many types
    """Runs the job up to the given step and returns its run id."""
    job, access = small.to("out", **output), Access([small.place.settings])
    planned = small_jobs.plan(job, access)
    if until != "plan":
        small_jobs.work(job, access, planned)
    if until == "commit":
        small_jobs.commit(job, access, planned)
    return planned.result.run_id


def removed(small: SmallJob, *runs: str) -> RemoveResult:
    return remove(small.place.at("out"), Access([small.place.settings]), runs=runs)


def there(place: Place) -> list[str]:
    return [name.removeprefix("out/") for name in place.names() if name.startswith("out/")]


@pytest.mark.parametrize("until", ["plan", "work", "commit"])
@pytest.mark.parametrize("shape", [{}, {"format": "mapFile"}, {"format": "mds", "index": False}], ids=["tfrecord", "map-files", "mds"])
def test_nothing_of_the_run_is_left(small: SmallJob, until: str, shape: dict[str, Any]) -> None:
    run = make(small, until=until, **shape)
    before = there(small.place)

    result = removed(small, run)

    assert there(small.place) == []
    # OWNER and _SUCCESS are markers, which don't count as files of the run.
    assert result.files == len([name for name in before if name not in ("_SUCCESS", "_dataprep/OWNER")])
    assert (result.kept, result.owner) == (0, None)
    assert removed(small, run) == RemoveResult()


@pytest.mark.store
@pytest.mark.parametrize("made", [place for place in PLACES if place.id in ("files", "s3", "oss", "gcs")])
def test_an_upload_in_which_a_worker_died_goes_too(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, made: Callable[[pytest.FixtureRequest], Place]
) -> None:
    small_jobs.least_parts(monkeypatch)
    small = small_jobs.of_parts(made(request))
    job, settings = small.to("out"), (small.place.settings,)
    planned = small_jobs.plan(job, Access(settings))
    counted = Operations()
    small_jobs.work(small.to("other"), CrashingAccess(settings, counted), small_jobs.plan(small.to("other"), Access(settings)))
    publishing = next(number for number, name in enumerate(counted.names, start=1) if name.startswith("commit ") and ".tfrecords" in name)
    dying = Operations(Point(publishing, "before"), stops)
    with pytest.raises(Killed):
        small_jobs.work(job, CrashingAccess(settings, dying), planned)
    assert small.place.leftovers("out") > 0

    removed(small, planned.result.run_id)

    assert small.place.leftovers("out") == 0
    assert there(small.place) == []


def test_what_a_join_made_while_planning_goes_too(place: Place) -> None:
    job = small_jobs.of_a_join(place)
    run = make(job, until="plan")
    assert any("/made/" in name for name in there(place))

    removed(job, run)

    assert there(place) == []


def test_the_files_of_a_shuffles_first_round_go_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    small_jobs.two_rounds(monkeypatch)
    small = small_jobs.of_a_shuffle(place)
    planned = small_jobs.plan(small.to("out"), Access((place.settings,)))
    small_jobs.divide(small.to("out"), Access((place.settings,)), planned)
    assert sum("/shuffle/" in name for name in there(place)) == 2

    removed(small, planned.result.run_id)

    assert there(place) == []


def test_the_listing_and_the_results_of_a_scan_go_too(small: SmallJob) -> None:
    run = make(small)
    of_scan = ("00000.json", "00001-12.json", "listing-0123456789ab.zst", "listing-0123456789ab.index")
    for name in (*(f"scan-0123456789abcdef/{file}" for file in of_scan), "scan-mine/00000.json"):
        small.place.store().put(small.place.at(f"out/_dataprep/{name}"), b"[]")
    removed(small, run)
    assert there(small.place) == ["_dataprep/scan-mine/00000.json"]


def test_late_rows_of_a_join_go_too(small: SmallJob) -> None:
    run = make(small)
    for name in ("join-0123456789abcdef/t0-000000-0a.arrow", "join-0123456789abcdef/state.json", "join-mine/state.json"):
        small.place.store().put(small.place.at(f"out/_dataprep/{name}"), b"rows")
    removed(small, run)
    assert there(small.place) == ["_dataprep/join-mine/state.json"]


def test_late_results_of_a_deduplication_go_too(small: SmallJob) -> None:
    run = make(small)
    for name in ("deduplication-0123456789abcdef/kept-000000-0a.bits", "deduplication-mine/kept-000000-0a.bits"):
        small.place.store().put(small.place.at(f"out/_dataprep/{name}"), b"bits")
    removed(small, run)
    assert there(small.place) == ["_dataprep/deduplication-mine/kept-000000-0a.bits"]


def test_foreign_files_stay(small: SmallJob) -> None:
    run = make(small)
    foreign = ["_dataprep/notes.txt", f"_dataprep/{run}/notes.txt", f"_dataprep/{run}/reports/mine.json", "sub/_SUCCESS"]
    for name in foreign:
        small.place.store().put(small.place.at(f"out/{name}"), b"mine")

    removed(small, run)

    assert there(small.place) == sorted(foreign)


def test_a_shard_that_somebody_replaced_stays_and_is_named(small: SmallJob) -> None:
    run = make(small)
    shard = next(name for name in there(small.place) if name.endswith(".tfrecords"))
    small.place.store().put(small.place.at(f"out/{shard}"), b"mine")

    result = removed(small, run)

    assert (result.kept, result.kept_files) == (1, [shard])
    assert there(small.place) == [shard]


def test_a_shard_that_was_touched_only_is_still_ours(small: SmallJob) -> None:
    run = make(small)
    for name in there(small.place):
        os.utime(small.place.at(f"out/{name}"), (1, 1))

    assert removed(small, run).kept == 0
    assert there(small.place) == []


def test_a_folder_that_another_run_has_taken_is_left_alone(small: SmallJob) -> None:
    first = make(small)
    second = make(small, overwrite="Always", shards={"count": 3})
    before = there(small.place)

    assert removed(small, first) == RemoveResult(owner=second)
    assert there(small.place) == before


def test_earlier_attempts_of_the_same_job_go_with_the_last(small: SmallJob) -> None:
    first = make(small, until="work")
    second = make(small, until="work", overwrite="Always", shards={"count": 3})

    removed(small, second, first)

    assert there(small.place) == []


def test_what_the_run_was_about_to_replace_stays(small: SmallJob) -> None:
    older = make(small)
    shards = sorted(name for name in there(small.place) if name.endswith(".tfrecords"))
    newer = make(small, until="plan", overwrite="Always", index=False)
    assert newer != older

    result = removed(small, newer)

    assert [name for name in there(small.place) if name.endswith(".tfrecords")] == shards
    assert result.kept == len(shards)


@pytest.mark.slow
def test_removal_that_was_cut_off_goes_on(small: SmallJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupts the removal at each of its deletions.

    After the next attempt, no file of the job is left. Other files are always kept.
    """
    delete: Callable[[OutputFolder, str], None] = OutputFolder.delete
    cut = 0
    while True:
        run = make(small)
        shard = next(name for name in there(small.place) if name.endswith(".tfrecords"))
        small.place.store().put(small.place.at(f"out/{shard}"), b"mine")
        left = [cut]

        def deleting(folder: OutputFolder, path: str, left: list[int] = left) -> None:
            if not left[0]:
                raise ConnectionError("cut off")
            left[0] -= 1
            delete(folder, path)

        monkeypatch.setattr(OutputFolder, "delete", deleting)
        try:
            removed(small, run)
            ended = True
        except ConnectionError:
            ended = False
        monkeypatch.setattr(OutputFolder, "delete", delete)
        removed(small, run)
        assert there(small.place) == [shard], cut
        small.place.store().delete(small.place.at(f"out/{shard}"))
        if ended:
            break
        cut += 5
    assert cut > 10


def test_a_folder_that_is_taken_meanwhile_is_let_be(small: SmallJob, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make(small)
    gone = RunFolder.remove_success

    def taken(folder: RunFolder) -> None:
        gone(folder)
        small.place.store().put(small.place.at("out/_dataprep/OWNER"), json.dumps({"runId": "f" * 16, "epoch": 9}).encode())

    monkeypatch.setattr(RunFolder, "remove_success", taken)
    before = there(small.place)
    with pytest.raises(OutputLost, match="run ffffffffffffffff has taken it over"):
        removed(small, run)
    assert there(small.place) == [name for name in before if name != "_SUCCESS"]


def test_a_damaged_owner_is_told(small: SmallJob) -> None:
    run = make(small)
    small.place.store().put(small.place.at("out/_dataprep/OWNER"), b"?")
    with pytest.raises(NotWhole, match=r"_dataprep/OWNER is damaged, so the run that owns this folder is unknown; nothing was removed"):
        removed(small, run)


@pytest.mark.parametrize("run", ["../../etc", "", "0123ABCD01234567"])
def test_a_run_id_of_another_form_is_refused(small: SmallJob, run: str) -> None:
    with pytest.raises(BadSpec, match="A run id has 16 hex digits"):
        removed(small, run)
