"""Several processes read the source before the plan step. The plan is byte for byte the same as with one process."""

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.archives import a_tar
from tests.builders.examples import examples
from tests.builders.jobs import run_job
from tests.builders.scans import begun_scan, discovered, listings, opened_files, scan, scan_files
from tests.builders.specs import parse_job

from dataprep_api import names
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadData, BadSpec, ConvertError, OutputExists, StoreError, Unreachable
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning.scan import digest_of_rules, divide
from dataprep_converter.readers.text import stretches
from dataprep_converter.readers.text_scan import files
from dataprep_converter.runtime import scans
from dataprep_converter.steps import plan_step
from dataprep_converter.steps.conversion.scan_step import remove_scan, run_scan_step, scan_request
from dataprep_converter.steps.kinds import Conversion
from dataprep_converter.stores.files import FileStore

SOURCES: dict[str, dict[str, Any]] = {
    "csv": {"csv": {"header": True}},
    "csv-hive": {"csv": {"hivePartitions": "Infer"}},
    "jsonl": {"jsonl": {}},
    "text": {"text": {}},
    "libsvm": {"libsvm": {"numFeatures": 4}},
}


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "UNIT_BYTES", 32)
    monkeypatch.setattr(files, "CELL_BYTES", 128)
    monkeypatch.setattr(scans, "PART_BYTES", 300)
    monkeypatch.setattr(scans, "LEAST_PART_BYTES", 1)


def content_of(kind: str, rows: int, first: int) -> bytes:
    numbers = range(first, first + rows)
    if kind == "csv":
        return b"n,t\n" + b"".join(b'%d,"a\n""%d"""\r\n' % (row, row) for row in numbers)
    if kind == "csv-hive":
        return b"".join(b"%d,%d\n" % (row, row * row) for row in numbers)
    if kind == "jsonl":
        return b"\n".join(json.dumps({"n": row, "t": [row, row]}).encode() for row in numbers)
    return b"".join((b"%d 1:%d\n" if kind == "libsvm" else b"line %d of %d\n\n") % (row, row) for row in numbers)


def put(folder: Path, kind: str, sizes: list[int], *, first: int = 0) -> None:
    for number, rows in enumerate(sizes, start=first):
        file = folder / "in" / (f"k={number % 2}/{number:02}" if kind == "csv-hive" else f"{number:02}")
        file.parent.mkdir(parents=True, exist_ok=True)
        content = content_of(kind, rows, number * 100)
        file.write_bytes(gzip.compress(content, mtime=0) if number % 4 == 3 else content)


def put_again(folder: Path, kind: str, sizes: list[int | None]) -> None:
    """Writes files as `put` does, but leaves files whose size is None unchanged."""
    for number, rows in enumerate(sizes):
        if rows is not None:
            put(folder, kind, [max(1, rows) if number == 0 else rows], first=number)


def a_job(folder: Path, kind: str, **spec: Any) -> DataPrepJob:
    ((name, options),) = SOURCES[kind].items()
    source = {name: {"uris": [str(folder / "in")], **options}}
    output = {"uri": str(folder / "out"), "format": "jsonl", "shards": {"count": 3}, **spec.pop("output", {})}
    return parse_job({"source": source, "output": output, **spec})


def planned(job: DataPrepJob) -> tuple[bytes, str, Any]:
    with Conversion().plan(job.spec, Access()) as draft:
        plan: Any = draft.plan
        return plan.head.to_bytes(), plan.sha256, [vars(plan.units.unit(number)) for number in range(len(plan.units))]


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES)
@settings(max_examples=examples(40), deadline=None)
@given(
    before=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    after=st.lists(st.integers(0, 40) | st.none(), max_size=6),
    cut=st.integers(1, 600),
    cell=st.integers(1, 8),
    most=st.integers(1, 20) | st.none(),
    size=st.sampled_from([1, 500, 1 << 20]),
    is_listed=st.booleans(),
    fates=st.lists(st.sampled_from(["lost", "damaged", "kept"]), max_size=8),
)
def test_the_plan_is_that_of_one_process(
    kind: str,
    tmp_path_factory: pytest.TempPathFactory,
    before: list[int],
    after: list[int | None],
    cut: int,
    cell: int,
    most: int | None,
    size: int,
    is_listed: bool,
    fates: list[str],
) -> None:
    """The plan doesn't depend on the parts. Results may be lost or damaged, and files may be changed or added after the scan."""
    folder = tmp_path_factory.mktemp("scan")
    put(folder, kind, [max(1, before[0]), *before[1:]])
    job = a_job(folder, kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scans, "PART_BYTES", cut)
        patch.setattr(scans, "RESULTS_BYTES", size)
        patch.setattr(files, "CELL_BYTES", 32 * cell)
        scan(job, most=most, is_listed=is_listed)
        for fate, file in zip(fates, scan_files(folder), strict=False):
            if fate == "lost":
                file.unlink()
            elif fate == "damaged":
                file.write_bytes(file.read_bytes().replace(b"[[0,", b"[[1,").replace(b'"records":[', b'"records":[7'))
        put_again(folder, kind, after)
        found = planned(job)
        remove_scan(job.spec, Access())
        assert scan_files(folder) == []
        assert found == planned(job)


@pytest.mark.parametrize("kind", SOURCES)
def test_the_plan_step_reads_no_file_that_was_scanned(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, kind, [20, 30, 5, 10, 40])
    job = a_job(tmp_path, kind)
    expected = planned(job)
    count = scan(job)
    assert count == len(scan_files(tmp_path)) > 3
    examines: list[str] = []

    def examine(*arguments: Any) -> None:
        examines.append(arguments[-1].path)

    monkeypatch.setattr(files, "_open_and_examine", examine)
    assert planned(job) == expected
    assert examines == []


@pytest.mark.parametrize("kind", SOURCES)
def test_a_part_lists_the_source_only_if_no_listing_is_stored(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The results are the same without a listing. There is no listing if the plan pod of an earlier release began the scan."""
    put(tmp_path, kind, [20, 30, 5, 10, 40])
    job = a_job(tmp_path, kind)
    found: list[dict[str, bytes]] = []
    for is_listed in (True, False):
        name, parts = begun_scan(job, is_listed=is_listed)
        with monkeypatch.context() as patch:
            listed = listings(patch)
            for part in range(parts):
                run_scan_step(job.spec, Access(), part, scan=name)
        assert {str(tmp_path / "in")}.isdisjoint(listed) is is_listed
        found.append({file.name: file.read_bytes() for file in scan_files(tmp_path)})
        remove_scan(job.spec, Access())
    assert found[0] == found[1]
    assert len(found[0]) == parts > 3


@pytest.mark.parametrize("change", ["removed", "shorter", "longer", "new"])
@pytest.mark.parametrize("kind", SOURCES)
def test_a_file_that_changes_between_the_listing_and_the_scan_is_examined_by_the_plan_step(kind: str, tmp_path: Path, change: str) -> None:
    put(tmp_path, kind, [20, 30, 5, 10, 40])
    job = a_job(tmp_path, kind)
    name, parts = begun_scan(job)
    if change == "removed":
        next((tmp_path / "in").rglob("04")).unlink()
    else:
        put(tmp_path, kind, [{"shorter": 1, "longer": 90, "new": 9}[change]], first=5 if change == "new" else 4)
    for part in range(parts):
        run_scan_step(job.spec, Access(), part, scan=name)
    assert len(scan_files(tmp_path)) == parts
    found = planned(job)
    remove_scan(job.spec, Access())
    assert found == planned(job)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_file_is_not_examined_in_another_version_than_listed(kind: str, tmp_path: Path) -> None:
    """A file can be replaced after the listing, scanned, and then restored. The plan step must not use the results of the other version."""
    put(tmp_path, kind, [20, 30, 2])
    job = a_job(tmp_path, kind)
    name, parts = begun_scan(job)
    (listed,) = (tmp_path / "in").rglob("02")
    listed.rename(tmp_path / "away")
    put(tmp_path, kind, [3], first=2)
    for part in range(parts):
        run_scan_step(job.spec, Access(), part, scan=name)
    (tmp_path / "away").rename(listed)
    found = discovered(job)
    remove_scan(job.spec, Access())
    assert found == discovered(job)


def test_a_listing_without_results_is_removed_too(tmp_path: Path) -> None:
    """A plan pod that was paused can store the listing even after another pod has stored the plan."""
    put(tmp_path, "csv", [20, 30, 40])
    job = a_job(tmp_path, "csv")
    begun_scan(job)
    assert [*(tmp_path / "out/_dataprep").glob("scan-*/listing-*")]
    run_job(job)
    assert [*(tmp_path / "out/_dataprep").glob("scan-*/*")] == []


def test_results_of_other_versions_of_a_file_are_not_used(tmp_path: Path) -> None:
    put(tmp_path, "csv", [20, 30, 40])
    job = a_job(tmp_path, "csv")
    scan(job)
    (tmp_path / "in/01").write_bytes(content_of("csv", 7, 0))
    after = planned(job)
    for file in scan_files(tmp_path):
        file.unlink()
    assert after == planned(job)


@pytest.mark.parametrize("damage", [b"", b"{}", b"0\n[]", None])
def test_damaged_results_are_not_used(tmp_path: Path, damage: bytes | None) -> None:
    put(tmp_path, "text", [20, 30, 40])
    job = a_job(tmp_path, "text")
    expected = planned(job)
    scan(job)
    for file in scan_files(tmp_path):
        file.write_bytes(file.read_bytes().replace(b"1", b"2") if damage is None else damage)
    assert planned(job) == expected


def test_results_of_other_rules_are_not_used(tmp_path: Path) -> None:
    put(tmp_path, "csv", [20, 30, 40])
    jobs = [a_job(tmp_path, "csv"), a_job(tmp_path, "csv")]
    jobs[1] = parse_job({"source": {"csv": {"uris": [str(tmp_path / "in")], "quote": "'"}}, "output": {"uri": str(tmp_path / "out")}})
    expected = planned(jobs[1])
    scan(jobs[0])
    assert digest_of_rules(jobs[0].spec) != digest_of_rules(jobs[1].spec)
    assert planned(jobs[1]) == expected


def test_a_second_scan_of_a_part_reads_only_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "text", [10, 10, 10])
    job = a_job(tmp_path, "text")
    monkeypatch.setattr(scans, "PART_BYTES", 1 << 20)
    scan(job)
    (before,) = (file.read_bytes() for file in scan_files(tmp_path))
    (tmp_path / "in/01").write_bytes(content_of("text", 11, 0))
    opened = opened_files(monkeypatch)
    scan(job)
    assert {Path(uri).name for uri in opened} == {"01"}
    assert [file.read_bytes() == before for file in scan_files(tmp_path)] == [False]


def test_the_results_of_a_part_are_stored_in_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "text", [10, 10, 10])
    job = a_job(tmp_path, "text")
    monkeypatch.setattr(files, "CELL_BYTES", 1 << 20)
    expected = planned(job)
    monkeypatch.setattr(scans, "PART_BYTES", 1 << 20)
    monkeypatch.setattr(scans, "RESULTS_BYTES", 1)
    assert scan(job) == 1
    stored = {file.name: file.read_bytes() for file in scan_files(tmp_path)}
    assert list(stored) == ["00000-0.json", "00000-1.json", "00000-2.json"]
    assert planned(job) == expected
    opened = opened_files(monkeypatch)
    (tmp_path / "in/01").write_bytes(content_of("text", 11, 0))
    scan(job)
    assert {Path(uri).name for uri in opened} == {"01"}
    assert [file.read_bytes() == stored[file.name] for file in scan_files(tmp_path)] == [True, False, True]


def test_a_part_that_ends_early_keeps_the_results_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "text", [10, 10, 10])
    job = a_job(tmp_path, "text")
    monkeypatch.setattr(scans, "PART_BYTES", 1 << 20)
    monkeypatch.setattr(scans, "RESULTS_BYTES", 1)
    opened = opened_files(monkeypatch)
    with monkeypatch.context() as patch:
        examine = files._open_and_examine

        def fail_at_the_last(*arguments: Any) -> Any:
            if arguments[-1].path == "02":
                raise Unreachable("The store can't be reached.")
            return examine(*arguments)

        patch.setattr(files, "_open_and_examine", fail_at_the_last)
        with pytest.raises(Unreachable):
            scan(job)
    opened.clear()
    scan(job)
    assert {Path(uri).name for uri in opened} == {"01", "02"}


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("03", b'n,t\n1,2\n3,"', BadData, r"03, line 3: a quote is never closed\."),
        ("03", b"n,x\n1,2\n", BadSpec, r"03: its header has the columns n, x; .*00 has n, t\."),
        ("00", b"n,n\n1,2\n", BadSpec, r"'n'"),
    ],
    ids=["a fault", "another header", "the first header"],
)
def test_a_fault_is_raised_by_the_plan_step(tmp_path: Path, name: str, content: bytes, error: type[Exception], message: str) -> None:
    put(tmp_path, "csv", [20, 30, 10])
    (tmp_path / "in" / name).write_bytes(content)
    job = a_job(tmp_path, "csv")
    scan(job)
    assert scan_files(tmp_path)
    with pytest.raises(error, match=message):
        planned(job)


def test_the_results_are_removed_when_the_plan_is_stored(tmp_path: Path) -> None:
    put(tmp_path, "csv", [20, 30, 40])
    job = a_job(tmp_path, "csv")
    scan(job)
    (folder,) = {file.parent for file in scan_files(tmp_path)}
    assert str(folder).endswith(names.scan_folder(digest_of_rules(job.spec)))
    planned_result, _ = run_job(job)
    assert planned_result.records == 90
    assert list(folder.iterdir()) == []
    remove_scan(job.spec, Access())


@pytest.mark.parametrize(("error", "stay"), [(OutputExists, False), (StoreError, True)])
def test_the_results_stay_only_if_a_retry_can_use_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[ConvertError], stay: bool
) -> None:
    put(tmp_path, "csv", [20, 30, 40])
    job = a_job(tmp_path, "csv")
    scan(job)

    def fails(*_: object, **__: object) -> None:
        raise error("")

    monkeypatch.setattr(plan_step, "take_output", fails)
    with pytest.raises(error):
        run_job(job)
    assert bool(scan_files(tmp_path)) is stay


def test_eight_results_are_removed_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "text", [10] * 8)
    job = a_job(tmp_path, "text")
    monkeypatch.setattr(files, "CELL_BYTES", 1 << 20)
    monkeypatch.setattr(scans, "PART_BYTES", 1)
    assert scan(job, is_listed=False) == len(scan_files(tmp_path)) == 8
    meeting, delete = threading.Barrier(8), FileStore.delete

    def meet_and_delete(store: FileStore, uri: str) -> None:
        meeting.wait(60)
        delete(store, uri)

    monkeypatch.setattr(FileStore, "delete", meet_and_delete)
    remove_scan(job.spec, Access())
    assert scan_files(tmp_path) == []


@pytest.mark.parametrize(
    ("number_of_files", "pods", "parts"),
    [(16, 8, 0), (17, 1, 2), (17, 8, 8), (17, 100, 17), (64, 1, 4), (64, 2, 4), (64, 3, 6), (64, 8, 8), (64, 1000, 64), (144, 8, 16)],
)
def test_the_pods_of_a_job_have_equally_many_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number_of_files: int, pods: int, parts: int
) -> None:
    """The files are 64 MiB long. Only input of more than 1 GiB is scanned, in parts of 64 MiB to 1 GiB."""
    monkeypatch.undo()
    (tmp_path / "in").mkdir()
    for number in range(number_of_files):
        with (tmp_path / f"in/{number:03}").open("wb") as file:
            file.truncate(1 << 26)
    request = scan_request(a_job(tmp_path, "text", workers={"parallelism": pods}), Access())
    assert (request.parts if request is not None else 0) == parts


def test_a_scan_goes_on_with_its_parts_when_the_number_of_pods_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "text", [20, 30, 5, 10, 40])
    request = scan_request(a_job(tmp_path, "text", workers={"parallelism": 2}), Access())
    assert request is not None
    job = a_job(tmp_path, "text", workers={"parallelism": 7})
    for part in range(request.parts):
        run_scan_step(job.spec, Access(), part, scan=request.scan)
    opened = opened_files(monkeypatch)
    planned(job)
    # The planner reads a few records of the first file to estimate sizes.
    assert {Path(uri).name for uri in opened} == {"00"}


def test_other_sources_have_no_parts(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_bytes(b"x" * 1000)
    job = parse_job({"source": {"wholeFile": {"uris": [str(tmp_path / "in")]}}, "output": {"uri": str(tmp_path / "out")}})
    assert divide(job.spec, Access()).parts == 0


def test_members_of_archives_have_no_parts(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(a_tar({"b.txt": b"line\n" * 400}))
    job = parse_job({"source": {"text": {"uris": [f"{tmp_path}/a.tar!/"]}}, "output": {"uri": str(tmp_path / "out")}})
    assert divide(job.spec, Access()).parts == 0
    assert planned(job)[2][0]["path"] == "b.txt"
