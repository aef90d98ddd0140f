"""Small jobs that use every part of the commit protocol. Functions here run the jobs' steps as pods do, and check their output."""

from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from tests.builders.specs import parse_job
from tests.converter.stores.places import Place

from dataprep_api.dataset.messages import CommitResult
from dataprep_api.dataset.plan import FEWEST_BUNDLED, Maker, task
from dataprep_api.dataset.report import Manifest, Success
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.dataset.stored_plan import load_plan
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning import planner
from dataprep_converter.readers.text import stretches
from dataprep_converter.readers.text_scan import files
from dataprep_converter.runtime import scans
from dataprep_converter.steps import one_pod, plan_step
from dataprep_converter.steps.conversion import scan_step, shuffle
from dataprep_converter.steps.kinds import kind_of
from dataprep_converter.stores.objects import objects, oss

RECORDS: Final = 24
_ROWS = [f"{number},{number % 3}" for number in range(RECORDS)]
_ROWS[5] = '"not\na number",1'
ROWS: Final = "\n".join(_ROWS)
"""The rows as CSV without a header."""
_ROWS_OF_A_FILE: Final = 6
_COLUMNS: Final = [{"name": "x", "type": "Int64"}, {"name": "label", "type": "Int64"}]


@dataclass(frozen=True)
class SmallJob:
    """A job of 24 rows in two shards with indexes. One row is bad. Source and output are in the same place."""

    place: Place
    source: dict[str, Any]
    spec: dict[str, Any] = field(default_factory=dict)
    output: dict[str, Any] = field(default_factory=dict)

    def to(self, output: str, **spec: Any) -> DataPrepJob:
        """Return the job with this folder of the place as its output."""
        written: dict[str, Any] = {
            "source": self.source,
            "onBadRecord": {"policy": "Quarantine"},
            "workers": {"parallelism": 2},
            **self.spec,
        }
        made_to: dict[str, Any] = {
            "uri": self.place.at(output),
            "shards": {"count": 2},
            "index": True,
            "overwrite": "IfChanged",
            **self.output,
            **spec,
        }
        document = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "small"}}
        return DataPrepJob.parse({**document, "spec": {**written, "output": made_to}})


def of_rows(place: Place) -> SmallJob:
    """Return a job whose rows are in one CSV file."""
    place.store().put(place.at("in/rows.csv"), ROWS.encode())
    return of_csv(place, place.at("in/rows.csv"))


def of_many_shards(place: Place) -> SmallJob:
    """Return a job whose only task has just enough shards that their reports are stored together in one file."""
    of = of_rows(place)
    return SmallJob(place, of.source, {"workers": {"parallelism": 1}}, {"shards": {"count": FEWEST_BUNDLED}})


_LEAST_PART_BYTES: Final = {"oss": 100 << 10, "s3": 5 << 20, "gs": 5 << 20, "abfs": 100 << 10}
"""Maps a store to the smallest part that its server accepts, except as the last part. Azure has no limit. Other stores have no parts."""


def least_parts(monkeypatch: pytest.MonkeyPatch, place: Place | None = None) -> None:
    """Make uploads use the smallest parts that the place's store accepts.

    Without a place, the size is the smallest that S3, Cloud Storage and Azure all accept. OSS has its own smallest size.
    """
    of_objects = _LEAST_PART_BYTES.get(_scheme(place) if place is not None else "s3", _LEAST_PART_BYTES["s3"])
    monkeypatch.setattr(oss, "part_bytes_for", lambda _: _LEAST_PART_BYTES["oss"])
    monkeypatch.setattr(objects, "part_bytes_for", lambda _: of_objects)


def of_parts(place: Place) -> SmallJob:
    """Return a job with so much text that each shard is uploaded in two parts of the size that `least_parts` sets.

    For stores without multipart uploads, return `of_rows`.
    """
    if _scheme(place) not in _LEAST_PART_BYTES:
        return of_rows(place)
    part_bytes: int = vars(oss if _scheme(place) == "oss" else objects)["part_bytes_for"](None)
    # A shard has 11 or 12 rows with this text.
    text = "x" * (part_bytes // 10)
    store, rows = place.store(), [f"{row},{text}" for row in _ROWS]
    # Each file is uploaded in one request and read completely, because stores have checksums only for such objects.
    uris = [place.at(f"in/rows-{number}.csv") for number in range(RECORDS // _ROWS_OF_A_FILE)]
    for number, uri in enumerate(uris):
        store.put(uri, "\n".join(rows[number * _ROWS_OF_A_FILE :][:_ROWS_OF_A_FILE]).encode())
    return SmallJob(place, {"csv": {"uris": uris, "columns": [*_COLUMNS, {"name": "text", "type": "String"}]}})


def _scheme(place: Place) -> str:
    return place.root.partition(":")[0]


def of_files(place: Place, *names: str) -> SmallJob:
    """Create CSV files with these names. Each file contains all the rows. Return a job that reads the files' folder."""
    for name in names:
        place.store().put(place.at(f"in/{name}.csv"), ROWS.encode())
    return of_csv(place, place.at("in"))


def of_csv(place: Place, *uris: str) -> SmallJob:
    """Return a job that reads the rows from CSV files or folders at these URIs."""
    return SmallJob(place, {"csv": {"uris": list(uris), "columns": _COLUMNS}})


def two_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan two rounds even for small jobs with a shuffle. In the first round, there are as many tasks as input files."""
    monkeypatch.setattr(planner, "KEPT_BYTES", 0)
    monkeypatch.setattr(planner, "RANGE_BYTES", 1)
    monkeypatch.setattr(planner, "TASK_BYTES", len(ROWS))


def of_a_shuffle(place: Place) -> SmallJob:
    """Return a job that shuffles two CSV files. With `two_rounds`, the shuffle has two rounds."""
    return shuffled(of_files(place, "a", "b"))


def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make scans so fine that each file or cell is a separate part."""
    monkeypatch.setattr(scans, "PART_BYTES", 1)
    monkeypatch.setattr(scans, "LEAST_PART_BYTES", 1)


def small_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide even the small files of `of_rows` into cells, the parts into which a scan divides large text files."""
    monkeypatch.setattr(stretches, "UNIT_BYTES", 32)
    monkeypatch.setattr(files, "CELL_BYTES", 64)


def shuffled(job: SmallJob) -> SmallJob:
    """Return the job with a shuffle. With `two_rounds`, it has two rounds."""
    return SmallJob(job.place, job.source, job.spec | {"shuffle": {"seed": 1}}, job.output)


def of_all_steps(place: Place) -> SmallJob:
    """Return a job whose input has several files and is shuffled. With `small_parts` and `two_rounds`, it has all steps."""
    return shuffled(of_parts(place) if _scheme(place) in _LEAST_PART_BYTES else of_files(place, "a", "b"))


def of_a_join(place: Place) -> SmallJob:
    """Return a job that joins two tables by key. Its plan step leaves intermediate files for the workers."""
    store = place.store()
    store.put(place.at("in/left.csv"), "\n".join(["id,x", *(f"{n},{n * n}" for n in range(RECORDS))]).encode())
    store.put(place.at("in/right.csv"), "\n".join(["id,label", *(f"{n},{n % 3}" for n in range(RECORDS))]).encode())
    tables = [{"name": name, "source": {"csv": {"uris": [place.at(f"in/{name}.csv")], "header": True}}} for name in ("left", "right")]
    return SmallJob(place, {"join": {"keys": ["id"], "missing": "Drop", "tables": tables}}, {"onBadRecord": {"policy": "Fail"}})


def a_copy(source: str, output: str) -> DataPrepJob:
    """Return a job that copies a data set from one URI to another."""
    spec = {"source": {"dataset": {"uri": source}}, "output": {"uri": output, "format": "copy"}, "workers": {"parallelism": 2}}
    return parse_job(spec, name="copy")


def plan(job: DataPrepJob, access: Access, *, maker: Maker | None = None) -> plan_step.PlannedRun:
    """Run the plan step, as its pod would. If `maker` is given, run it as `dataprep run` would."""
    return plan_step.run_plan_step(job, access, maker=maker)


def work(job: DataPrepJob, access: Access, planned: plan_step.PlannedRun) -> None:
    """Run all workers, one after another, as their pods would."""
    divide(job, access, planned)
    folder = OutputFolder(job.spec.output.uri, access).of_run(planned.result.run_id)
    for index in range(planned.result.tasks):
        loaded = load_plan(folder, planned.result.plan_sha256)
        kind_of(job.spec).work(
            job.spec, plan=loaded, shards=task(loaded.head, index), access=access, attempt=str(index), watch=lambda _: None
        )


def divide(job: DataPrepJob, access: Access, planned: plan_step.PlannedRun) -> None:
    """Do the first round of a shuffle, if the plan has one."""
    for number in range(shuffle.shuffle_tasks(planned.plan)):
        shuffle.shuffle_task(job.spec, number, plan=planned.plan, access=access)


def commit(job: DataPrepJob, access: Access, planned: plan_step.PlannedRun) -> CommitResult:
    """Run the commit step, as its pod would."""
    folder = OutputFolder(job.spec.output.uri, access).of_run(planned.result.run_id)
    return kind_of(job.spec).commit(job.spec, plan=load_plan(folder, planned.result.plan_sha256), access=access)


def live(job: DataPrepJob, access: Access) -> CommitResult:
    """Run all steps of a job."""
    planned = plan(job, access)
    if planned.result.commit is not None:
        return planned.result.commit
    work(job, access, planned)
    return commit(job, access, planned)


def scan(job: DataPrepJob, access: Access) -> int:
    """Do the work of the plan step's first pod, and of the scan's pods. Return the number of parts, or 0 if there is no scan."""
    request = scan_step.scan_request(job, access)
    if request is None:
        return 0
    for part in range(request.parts):
        scan_step.run_scan_step(job.spec, access, part, scan=request.scan)
    return request.parts


def live_with_scan(job: DataPrepJob, access: Access) -> CommitResult:
    """Run all steps of a job whose input is scanned before it is planned. Fails if there is no scan, which happens without
    `small_parts`."""
    assert scan(job, access) > 1
    return live(job, access)


PODS: Final = "small-0123456789-"
"""The common prefix of the names of the job's pods."""


def live_in_one_pod(job: DataPrepJob, access: Access) -> None:
    """Run a small job as the cluster does. The plan step's pod runs all steps if it can. Other pods run the steps that remain."""
    planned = plan_step.run_plan_step(job, access, pods=PODS)
    result = planned.result
    if one_pod.is_small(planned):
        result = one_pod.finish(job, planned, access, attempt=f"{PODS}plan-1-abcde/1", watch=lambda _: None)
    if result.commit is None:
        work(job, access, planned)
        commit(job, access, planned)


@dataclass(frozen=True)
class Whole:
    """A finished data set, which is read through a separate store."""

    names: frozenset[str]
    """The names of all files below the folder, including hidden ones."""
    visible: dict[str, bytes]
    manifest: bytes
    success: bytes


def whole(place: Place, output: str) -> Whole:
    """Return the contents of a finished folder. Fail if `_SUCCESS` is missing or names another manifest."""
    store = place.store()
    success = store.get(place.at(f"{output}/_SUCCESS"))
    said = Success.model_validate_json(success)
    manifest = store.get(place.at(f"{output}/{said.manifest}"))
    Manifest.model_validate_json(manifest)
    return Whole(frozenset(listed(place, output)), visible(place, output), manifest, success)


def listed(place: Place, output: str) -> list[str]:
    """Return all files below the output, listed without our store."""
    return [name.removeprefix(f"{output}/") for name in place.names(output)]


def visible(place: Place, output: str) -> dict[str, bytes]:
    """Return the visible files and their bytes."""
    store = place.store()
    names = [name for name in listed(place, output) if not any(part[0] in "_." for part in name.split("/"))]
    return {name: store.get(place.at(f"{output}/{name}")) for name in names}


def assert_nothing_broken(place: Place, output: str, expected: Whole) -> None:
    """Check the invariant that holds at every moment: visible files are complete, and `_SUCCESS` exists only if all files exist."""
    seen = visible(place, output)
    assert seen.items() <= expected.visible.items()
    if "_SUCCESS" in listed(place, output):
        found = whole(place, output)
        assert (found.visible, found.manifest, found.success) == (expected.visible, expected.manifest, expected.success)


def assert_whole(place: Place, output: str, expected: Whole) -> None:
    """Check the output after the last attempt: it has the same bytes and the same manifest, no duplicate files, and no leftovers."""
    found = whole(place, output)
    assert sorted(found.names) == sorted(expected.names)
    assert found == expected
    assert place.leftovers(output) == 0
