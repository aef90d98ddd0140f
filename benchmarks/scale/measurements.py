"""The measurements. Each function runs in a process of its own (`measured_process`), so the memory of that process is its own."""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

from benchmarks.scale.played_files import INPUT, KINDS
from benchmarks.scale.played_output import played_output, report_of, write_reports
from benchmarks.scale.played_store import OUTPUT, ComputedFiles, PlayedAccess, PlayedStore

from dataprep_api import names
from dataprep_api.dataset.plan import PlanHead, Shard, shards
from dataprep_api.dataset.report import ShardReport
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.dataset.stored_reports import BundleWriter
from dataprep_converter.planning.planner import make_plan
from dataprep_converter.runtime import allocator
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.sampling.units import SCHEMA, UnitTable
from dataprep_converter.steps.conversion import convert_commit, convert_work
from dataprep_converter.stores import Store, StoreSettings

Figures = dict[str, float]
Fields = Mapping[str, Any]
"""Fields of a job's spec, in the form of YAML."""

WORKERS: Final = 1000
IMAGES_OF_A_SHARD: Final = 10
SHARDED: Final[Fields] = {"output": {"shards": {"records": IMAGES_OF_A_SHARD}}}
BUCKET: Final = "scale"
MIB: Final = 1 << 20
_AT_ONCE: Final = 16


def spec_of(kind: str, output: str, fields: Fields) -> DataPrepJobSpec:
    """Returns the spec of a job that reads played files of this kind."""
    _, source = KINDS[kind]
    spec = {"source": source, "output": {"uri": output, **fields.get("output", {})}, "workers": {"parallelism": WORKERS}}
    spec |= {name: value for name, value in fields.items() if name != "output"}
    return DataPrepJob.parse(
        {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "scale"}, "spec": spec}
    ).spec


def plan(disk: str, kind: str, count: int, fields: Fields) -> Figures:
    """Plans a job with `count` files, and stores the plan in the folder `disk`."""
    allocator.tune_allocator()
    access = _access(Path(disk), kind, count)
    figures: Figures = {}
    with _timed(figures, "played"):
        for _ in access.played.list(INPUT):
            pass
    access.played.requests.clear()
    with _timed(figures, "plan"):
        new = make_plan(spec_of(kind, OUTPUT, fields), access)
    with new:
        head = new.plan.head
        figures |= _requests("plan", access.played)
        with _timed(figures, "write"):
            folder = OutputFolder(OUTPUT, access).of_run(head.run_id)
            folder.claim()
            folder.put_plan(new.plan, new.tables)
        units: UnitTable = new.plan.units
        figures |= {
            "gib": head.bytes_in / 2**30,
            "units": len(units),
            "samples": head.samples,
            "shards": head.shards,
            "tasks": head.tasks,
            # Go through the table in batches: if all pages of the table stayed mapped, they would count as memory of the process.
            "table_mib": sum(batch.nbytes for batch in units.batches(SCHEMA.names)) / MIB,
            "stored_mib": new.tables.units.size / MIB,
            "plan_json_kib": len(head.to_bytes()) / 1024,
        }
    return figures


def work(disk: str, kind: str, count: int, fields: Fields, *, most_shards: int) -> Figures:
    """Makes some shards in the middle of a stored plan."""
    access = _access(Path(disk), kind, count)
    figures: Figures = {}
    with _timed(figures, "load"):
        plan = _stored(access)
    figures |= _requests("load", access.played)
    middle = plan.head.shards // 2
    with _timed(figures, "work"):
        done = convert_work.work(
            spec_of(kind, OUTPUT, fields),
            plan=plan,
            shards=list(islice(shards(plan.head), middle, middle + most_shards)),
            access=access,
            attempt="scale/0",
            watch=lambda _: None,
        )
    return figures | _requests("work", access.played) | {"units": len(plan.units), "shards": done.shards_done, "mib": done.bytes_in / MIB}


def prepare_commit(disk: str, count: int, server: Mapping[str, str]) -> Figures:
    """Stores the plan of a job with `count` shards of ten images each, and the files that workers would leave for the commit step.

    Without a server, the shards, their reports and the bundles of reports are played. With an S3 server, they are real objects, and each shard
    is one byte long.
    """
    access = _access(Path(disk), "images", count * IMAGES_OF_A_SHARD, server=server)
    spec = spec_of("images", _output(server), SHARDED)
    with make_plan(spec, access) as new:
        head = new.plan.head
        folder = OutputFolder(spec.output.uri, access).of_run(head.run_id)
        folder.claim()
        folder.put_plan(new.plan, new.tables)
        report = _first_report(spec, new.plan, access)
        if server:
            _put_shards(folder, access.store(folder.uri), head, report)
        else:
            write_reports(Path(disk), head, report)
    return {"shards": head.shards, "report_bytes": len(report.to_bytes())}


def commit(disk: str, count: int, server: Mapping[str, str]) -> Figures:
    """Commits the data set that `prepare_commit` has prepared."""
    allocator.tune_allocator()
    access = _access(Path(disk), "images", count * IMAGES_OF_A_SHARD, server=server)
    uri = _output(server)
    if not server:
        # The names of the played shards depend on the plan.
        access.played.compute(played_output(Path(disk), _stored(access, uri).head))
        access.played.requests.clear()
    figures: Figures = {}
    with _timed(figures, "commit"):
        done = convert_commit.commit(spec_of("images", uri, SHARDED), plan=_stored(access, uri), access=access)
    sent = {"commit_all_requests": float(access.budgets["0"].counts.sent)} if server else _requests("commit", access.played)
    manifest = access.store(uri).stat(done.manifest_uri)
    return figures | sent | {"shards": done.files, "manifest_mib": manifest.size / MIB if manifest is not None else 0.0}


MEASUREMENTS: Final[Mapping[str, Callable[..., Figures]]] = {
    function.__name__: function for function in (plan, work, prepare_commit, commit)
}


def _output(server: Mapping[str, str]) -> str:
    return f"s3://{BUCKET}/out" if server else OUTPUT


def _access(disk: Path, kind: str, count: int, *, server: Mapping[str, str] | None = None) -> PlayedAccess:
    files, _ = KINDS[kind]
    computed: dict[str, ComputedFiles] = {f"{INPUT}/": files(count)}
    settings = (
        [
            StoreSettings(
                uri_prefix="s3://",
                endpoint=server["endpoint"],
                region=server["region"],
                path_style=True,
                credentials={name: server[name] for name in ("accessKeyId", "accessKeySecret")},
                entry="0",
            )
        ]
        if server
        else []
    )
    return PlayedAccess(PlayedStore(disk / "objects", computed), settings)


def _stored(access: PlayedAccess, uri: str = OUTPUT) -> Plan:
    """Returns the stored plan of the run that owns the output folder, as workers read it."""
    folder = OutputFolder(uri, access)
    owner = folder.owner()
    found = folder.of_run(owner.run_id).plan_for_work() if owner is not None else None
    if found is None:
        raise RuntimeError(f"{uri} has no plan.")
    return found


def _first_report(spec: DataPrepJobSpec, plan: Plan, access: PlayedAccess) -> ShardReport:
    """Makes the first shard, and returns its report. Then removes everything that the worker has written."""
    folder = OutputFolder(spec.output.uri, access).of_run(plan.head.run_id)
    before = {path for path, _ in folder.all_files()}
    first = next(shards(plan.head))
    convert_work.work(spec, plan=plan, shards=[first], access=access, attempt="scale/0", watch=lambda _: None)
    report = folder.report(first.number)
    if report is None:
        raise RuntimeError(f"{folder.uri}: the first shard has no report.")
    for path in {path for path, _ in folder.all_files()} - before:
        folder.delete(path)
    return report


def _put_shards(folder: RunFolder, store: Store, head: PlanHead, like: ShardReport) -> None:
    def put(shard: Shard) -> ShardReport:
        entry = store.put(folder.at(shard.file), b"x")
        index = store.put(folder.at(names.index_file(shard.file)), b"x")
        report = report_of(shard, like=like, entry=entry, index=index)
        folder.put_report(report)
        return report

    bundles = BundleWriter(folder, head)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for report in threads.map(put, shards(head)):
            bundles.add(report)


@contextmanager
def _timed(figures: Figures, name: str) -> Iterator[None]:
    """Adds the seconds and the CPU seconds of the block to the figures."""
    began, cpu = time.perf_counter(), time.process_time()
    yield
    figures |= {f"{name}_seconds": time.perf_counter() - began, f"{name}_cpu_seconds": time.process_time() - cpu}


def _requests(name: str, played: PlayedStore) -> Figures:
    """Returns the numbers of requests since the last call, by kind."""
    counts = {f"{name}_{kind}_requests": count for kind, count in played.requests.counts().items()}
    played.requests.clear()
    return counts
