"""The benchmark of large jobs: the simulated store lists the files that it serves, each measurement works with little data, and the page
agrees with the results. The measured figures are not tested."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.scale import __main__ as program
from benchmarks.scale import divided_steps, measurements, played_job
from benchmarks.scale.ledger import FILE_BYTES, LISTING_REQUESTS, PAGES_AT_ONCE, TB, Coefficients, Cost, Job, Kind, costs, job_of
from benchmarks.scale.measured_process import MeasurementFailed
from benchmarks.scale.page import page_of
from benchmarks.scale.played_files import INPUT, Content, PlayedFiles
from benchmarks.scale.played_job import Figures
from benchmarks.scale.played_store import KEYS_OF_A_PAGE, OUTPUT, PlayedStore
from benchmarks.scale.rows import ROWS, Bench, Row

from dataprep_converter.core.errors import AlreadyExists, NotFound
from dataprep_converter.planning import planner
from dataprep_converter.readers.base import examined
from dataprep_converter.runtime import scans
from dataprep_converter.stores import Entry
from dataprep_converter.stores.objects.parts import PART_BYTES
from dataprep_converter.stores.ranged import AHEAD_BYTES

# --- the played store -------------------------------------------------------------------------------------------------


def files(count: int) -> PlayedFiles:
    return PlayedFiles(count, "bin", Content(b"head", b"0123456789"), size=100, spread=7)


def a_store(folder: Path, count: int = 2500) -> PlayedStore:
    return PlayedStore(folder, {f"{INPUT}/": files(count)})


@pytest.mark.parametrize("count", [1, 999, 2500])
def test_the_store_lists_as_many_files_as_it_plays(tmp_path: Path, count: int) -> None:
    store = a_store(tmp_path, count)
    listed = list(store.list(INPUT))

    uris = [entry.uri for entry in listed]
    assert len(set(uris)) == len({entry.pin for entry in listed}) == count
    assert uris == sorted(uris)
    assert store.requests.counts()["list"] == -(-count // KEYS_OF_A_PAGE)


def test_a_played_file_is_the_listed_one(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    for entry in list(store.list(INPUT))[::617]:
        assert store.stat(entry.uri) == entry
        with store.open(entry.uri) as source:
            content = source.read_at(0, 10**6)
            assert (source.pin, source.size, len(content)) == (entry.pin, entry.size, entry.size)
            assert b"".join(source.stream(3, 40)) == content[3:43]
    assert store.stat(f"{INPUT}/0000/000002500.bin") is None
    assert store.stat(f"{INPUT}/0001/000000000.bin") is None


@pytest.mark.parametrize("offset", [0, 2, 4, 13, 25])
def test_contents_are_the_same_wherever_they_are_read(offset: int) -> None:
    content = Content(b"head", b"0123456789")

    assert content.read(offset, 30) == (b"head" + b"0123456789" * 6)[offset : offset + 30]


def test_written_objects_are_listed_among_the_played_ones(tmp_path: Path) -> None:
    store = PlayedStore(tmp_path, {f"{OUTPUT}/m-": _Two()})
    store.put(f"{OUTPUT}/a", b"1")
    upload = store.create(f"{OUTPUT}/z/object")
    upload.write(b"12")
    entry = upload.commit(replace=False)

    assert [entry.uri for entry in store.list(OUTPUT)] == [f"{OUTPUT}/{name}" for name in ("a", "m-1", "m-2", "z/object")]
    assert [entry.uri for entry in store.list(f"{OUTPUT}/z")] == [f"{OUTPUT}/z/object"]
    assert store.stat(f"{OUTPUT}/z/object") == entry
    assert store.get(f"{OUTPUT}/z/object") == b"12"
    with pytest.raises(AlreadyExists):
        store.put(f"{OUTPUT}/a", b"2", replace=False)
    store.delete(f"{OUTPUT}/a")
    with pytest.raises(NotFound, match="played://out/a does not exist"):
        store.get(f"{OUTPUT}/a")


class _Two:
    def entries(self) -> Iterator[Entry]:
        return (self.entry(f"{OUTPUT}/m-{number}") for number in (1, 2))

    def entry(self, uri: str) -> Entry:
        return Entry(uri, 1, "pin")

    def read(self, uri: str, offset: int, length: int) -> bytes:  # noqa: ARG002 - a protocol
        return b"x"[offset : offset + length]


@pytest.mark.parametrize(("size", "requests"), [(0, 1), (1, 1), (PART_BYTES + 1, 4)])
def test_an_upload_counts_the_requests_of_its_parts(tmp_path: Path, size: int, requests: int) -> None:
    store = a_store(tmp_path)
    upload = store.create(f"{OUTPUT}/object")
    upload.write(bytes(size))
    upload.commit(replace=True)

    assert store.requests.counts()["put"] == requests


# --- measurements -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["images", "parquet", "tables", "csv"])
def test_a_job_of_each_kind_is_planned_and_worked_on(tmp_path: Path, kind: str) -> None:
    count = 1 if kind in ("tables", "csv") else 30
    planned = measurements.plan(str(tmp_path), kind, count, {})
    worked = measurements.work(str(tmp_path), kind, count, {}, most_shards=1)

    assert planned["plan_list_requests"] == 1
    assert planned["units"] == {"images": 30, "parquet": 30 * 4, "tables": 4, "csv": 16}[kind]
    assert worked["units"] == planned["units"]
    assert worked["shards"] == 1
    assert worked["mib"] > 0
    assert worked["work_put_requests"] >= 2


def test_a_played_data_set_is_committed(tmp_path: Path) -> None:
    prepared = measurements.prepare_commit(str(tmp_path), 12, {})
    committed = measurements.commit(str(tmp_path), 12, {})

    assert prepared["shards"] == committed["shards"] == 12
    assert committed["commit_list_requests"] > 0
    assert committed["commit_put_requests"] > 0


def test_the_bundles_of_a_played_data_set_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(played_job, "WORKERS", 1)
    measurements.prepare_commit(str(tmp_path), 80, {})
    committed = measurements.commit(str(tmp_path), 80, {})

    assert committed["shards"] == 80
    assert committed["commit_get_requests"] < 20


def test_a_part_is_scanned_and_a_plan_is_made_from_all_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "PART_BYTES", 64 << 20)
    scanned = divided_steps.scan(str(tmp_path / "one"), "csv", 2)
    divided_steps.scan_all(str(tmp_path / "all"), "csv", 2)
    merged = divided_steps.merge(str(tmp_path / "all"), "csv", 2)

    assert scanned["parts"] == 2
    assert (scanned["scan_list_requests"], scanned["scan_put_requests"]) == (0, 1)
    # Only the header and the first rows are read again.
    assert merged["merge_get_requests"] < scanned["scan_get_requests"]
    assert merged["units"] == 2 * 16


def test_the_requests_of_a_part_do_not_depend_on_the_files_of_other_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examined, "FILE_BYTES", 1 << 16)
    monkeypatch.setattr(scans, "PART_BYTES", 1 << 20)
    monkeypatch.setattr(scans, "LEAST_PART_BYTES", 1 << 20)
    small, large = (divided_steps.scan(str(tmp_path / str(count)), "parquet", count) for count in (32, 4800))

    assert (small.pop("parts"), large.pop("parts")) == (2, 300)
    assert {name: count for name, count in small.items() if name.endswith("_requests")} == {
        name: count for name, count in large.items() if name.endswith("_requests")
    }


def test_a_shuffle_is_divided_and_a_task_is_made_from_its_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "KEPT_BYTES", 0)
    fields = {"shuffle": {"seed": 1}, "limit": 1000}
    measurements.plan(str(tmp_path), "csv", 1, fields)
    divided = divided_steps.divide(str(tmp_path), "csv", 1, fields, most_slices=None)
    worked = measurements.work(str(tmp_path), "csv", 1, fields, most_shards=None)

    assert divided["slices"] >= 1
    assert 0 < divided["mib_out"] < divided["mib"]
    assert worked["shards"] >= 1


@pytest.mark.slow
def test_a_measurement_has_a_process_of_its_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path, seconds=300)
    figures = bench.plan("images", 20, {})[1]

    assert figures["units"] == 20
    assert 0 < figures["imports_mib"] <= figures["peak_mib"]
    assert bench.plan("images", 20, {})[1] is figures
    with pytest.raises(MeasurementFailed, match=r"(?s)plan ended with 1: .*KeyError: 'nothing'"):
        bench.measured("plan", disk=str(tmp_path), kind="nothing", count=1, fields={})


# --- rows -------------------------------------------------------------------------------------------------------------


def figures(*, peak: float = 200.0, seconds: float = 1.0) -> Figures:
    return {"peak_mib": peak, "x_seconds": seconds}


def a_row(**more: Any) -> Row:
    return Row("row", "Row", lambda _, size: figures(seconds=size), usual=(10, 100), small=(1,), large=(1000,), **more)


@pytest.mark.parametrize(
    ("more", "found", "message"),
    [
        ({}, {10: figures(peak=513)}, "row: a process with 10 took 513 MiB, but at most 512 MiB are allowed"),
        ({"grows": {"peak_mib": 1.1}}, {10: figures(), 100: figures(peak=221)}, "row: peak_mib is 221.00 with 100 and 200.00 with 10"),
        ({"grows_per_item": {"x_seconds": 1.5}}, {10: figures(), 100: figures(seconds=16)}, "row: x_seconds for each of 100 is 0.16"),
    ],
)
def test_a_figure_beyond_its_limit_is_named(more: dict[str, Any], found: dict[int, Figures], message: str) -> None:
    (beyond,) = a_row(**more).beyond(found)

    assert beyond.startswith(message)


def test_figures_within_their_limits_are_accepted() -> None:
    row = a_row(grows={"peak_mib": 1.1}, grows_per_item={"x_seconds": 1.5})

    assert row.beyond({10: figures(), 100: figures(peak=219, seconds=14)}) == []
    assert row.beyond({}) == []


def test_figures_of_sizes_that_are_not_measured_are_kept(tmp_path: Path) -> None:
    results, page = tmp_path / "scale.json", tmp_path / "scale.md"
    bench = Bench(tmp_path, seconds=1)
    assert program.measure([a_row()], bench, sizes="all", results=results, page=page) == 0
    assert program.measure([a_row()], bench, sizes="usual", results=results, page=page, at=[7]) == 0

    assert list(json.loads(results.read_text())["row"]["sizes"]) == ["10", "100", "1000", "7"]


def test_a_row_that_fails_is_told_and_the_others_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(_: Bench, __: int) -> Figures:
        raise MeasurementFailed("plan ended with 1: no disk")

    broken = Row("broken", "Broken", fails, usual=(1,), small=(1,))
    results = tmp_path / "scale.json"
    code = program.measure([broken, a_row()], Bench(tmp_path, seconds=1), sizes="usual", results=results, page=tmp_path / "scale.md")

    assert code == 1
    assert json.loads(results.read_text())["broken"]["error"] == "1: MeasurementFailed: plan ended with 1: no disk"
    assert "broken: not measured: MeasurementFailed: plan ended with 1: no disk" in capsys.readouterr().err
    assert json.loads(results.read_text())["row"]["sizes"].keys() == {"10", "100"}


# --- the ledger and the page ------------------------------------------------------------------------------------------


def stored() -> dict[str, Any]:
    results: dict[str, Any] = json.loads(program.RESULTS.read_text())
    return results


def test_the_page_agrees_with_the_results() -> None:
    assert program.PAGE.read_text() == page_of(stored())


def test_each_row_has_results() -> None:
    assert stored().keys() == {row.name for row in ROWS}
    for row in ROWS:
        assert {str(size) for size in row.usual} <= stored()[row.name]["sizes"].keys()


def test_a_page_without_all_results_has_no_costs() -> None:
    page = page_of({name: found for name, found in stored().items() if name != "commit"})

    assert "## Measurements" in page
    assert "## Formulas" not in page
    assert "## What doesn't scale yet" in page


def by_step(kind: Kind, size: int) -> dict[str, Cost]:
    known = Coefficients(stored())
    return {cost.step: cost for cost in costs(job_of(kind, size, known), known)}


def test_costs_grow_with_the_job() -> None:
    kinds: tuple[Kind, ...] = ("images", "parquet", "csv")
    for kind in kinds:
        small, large = by_step(kind, TB), by_step(kind, 100 * TB)
        assert large.keys() == small.keys()
        # The number of tasks is limited, so the ranges of a shuffle become larger.
        for step in small.keys() - {"load the plan", "read the divided records, convert, publish", *SCANNED.values()}:
            assert large[step].time.seconds == pytest.approx(100 * small[step].time.seconds, rel=0.1)


SCANNED: dict[Kind, str] = {"parquet": "read the footers", "csv": "read all text for the ends of records"}


def test_a_scan_of_footers_takes_less_time_than_one_process_and_few_more_requests() -> None:
    small, large = by_step("parquet", TB), by_step("parquet", 100 * TB)  # one part, 568 parts
    alone, scan = small["read the footers"], large["read the footers"]
    assert scan.time.seconds < 100 * alone.time.seconds / 10
    assert scan.requests - 100 * alone.requests == pytest.approx(568 * LISTING_REQUESTS, rel=0.2)


def test_a_scan_of_text_has_at_most_ten_thousand_parts() -> None:
    scan = by_step("csv", 100 * TB)["read all text for the ends of records"]
    assert scan.requests == pytest.approx(10_000 * LISTING_REQUESTS + 100 * TB / AHEAD_BYTES)


def test_a_listing_of_a_billion_files_takes_a_million_pages() -> None:
    listing = by_step("images", 10**9 * FILE_BYTES["images"])["list the files"]

    assert listing.requests == 10**6
    assert listing.time.seconds == pytest.approx(100_000 / PAGES_AT_ONCE)


def test_a_job_has_at_most_ten_thousand_tasks() -> None:
    assert [Job("csv", size, shards=size // 10**8).tasks for size in (10**9, TB, 100 * TB)] == [10, 5000, 10_000]
