"""The measurements of planning, of a worker and of the commit step.

Each function runs in a separate process (`measured_process`), so its memory can be measured.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Final

from benchmarks.scale.played_files import INPUT
from benchmarks.scale.played_job import IMAGES_OF_A_SHARD, MIB, Fields, Figures, access_to, requests, spec_of, stored_plan, timed
from benchmarks.scale.played_output import played_output, report_of, write_reports
from benchmarks.scale.played_store import OUTPUT, PlayedAccess

from dataprep_api import names
from dataprep_api.dataset.plan import PlanHead, Shard, shards, task
from dataprep_api.dataset.report import ShardReport
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.dataset.stored_reports import BundleWriter
from dataprep_converter.planning.planner import make_plan
from dataprep_converter.runtime import allocator
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.sampling.units import SCHEMA, UnitTable
from dataprep_converter.steps.conversion import convert_commit, convert_work
from dataprep_converter.stores import Store

SHARDED: Final[Fields] = {"output": {"shards": {"records": IMAGES_OF_A_SHARD}}}
BUCKET: Final = "scale"
_AT_ONCE: Final = 16


def plan(disk: str, kind: str, count: int, fields: Fields) -> Figures:
    """Plans a job with `count` files, and stores the plan in the folder `disk`."""
    allocator.tune_allocator()
    access = access_to(Path(disk), kind, count)
    figures: Figures = {}
    with timed(figures, "played"):
        for _ in access.played.list(INPUT):
            pass
    access.played.requests.clear()
    with timed(figures, "plan"):
        new = make_plan(spec_of(kind, OUTPUT, fields), access)
    with new:
        head = new.plan.head
        figures |= requests("plan", access.played)
        with timed(figures, "write"):
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


def work(disk: str, kind: str, count: int, fields: Fields, *, most_shards: int | None) -> Figures:
    """Makes `most_shards` shards in the middle of a stored plan.

    If `most_shards` is None, makes all shards of a task in the middle of the plan.
    """
    access = access_to(Path(disk), kind, count)
    figures: Figures = {}
    with timed(figures, "load"):
        plan = stored_plan(access)
    figures |= requests("load", access.played)
    middle = plan.head.shards // 2
    made = (
        list(islice(shards(plan.head), middle, middle + most_shards)) if most_shards is not None else task(plan.head, plan.head.tasks // 2)
    )
    with timed(figures, "work"):
        done = convert_work.work(
            spec_of(kind, OUTPUT, fields), plan=plan, shards=made, access=access, attempt="scale/0", watch=lambda _: None
        )
    return figures | requests("work", access.played) | {"units": len(plan.units), "shards": done.shards_done, "mib": done.bytes_in / MIB}


def prepare_commit(disk: str, count: int, server: Mapping[str, str]) -> Figures:
    """Stores the plan of a job with `count` shards of ten images each, and the files that workers would leave for the commit step.

    Without a server, the shards, their reports and the bundles of reports are simulated. With an S3 server, they are real objects, and each
    shard is one byte long.
    """
    access = access_to(Path(disk), "images", count * IMAGES_OF_A_SHARD, server=server)
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
    access = access_to(Path(disk), "images", count * IMAGES_OF_A_SHARD, server=server)
    uri = _output(server)
    if not server:
        # The names of the simulated shards depend on the plan.
        access.played.compute(played_output(Path(disk), stored_plan(access, uri).head))
        access.played.requests.clear()
    figures: Figures = {}
    with timed(figures, "commit"):
        done = convert_commit.commit(spec_of("images", uri, SHARDED), plan=stored_plan(access, uri), access=access)
    sent = {"commit_all_requests": float(access.budgets["0"].counts.sent)} if server else requests("commit", access.played)
    manifest = access.store(uri).stat(done.manifest_uri)
    return figures | sent | {"shards": done.files, "manifest_mib": manifest.size / MIB if manifest is not None else 0.0}


def _output(server: Mapping[str, str]) -> str:
    return f"s3://{BUCKET}/out" if server else OUTPUT


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
