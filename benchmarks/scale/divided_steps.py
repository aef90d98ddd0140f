"""Measures the steps in which several pods share the reading of a source: the scan of text, and the first round of a shuffle.

Each function runs in a separate process (`measured_process`), so its memory can be measured.
"""

from pathlib import Path
from typing import Final

from benchmarks.scale.played_files import INPUT
from benchmarks.scale.played_job import MIB, Fields, Figures, access_to, job_of, requests, spec_of, stored_plan, timed
from benchmarks.scale.played_store import OUTPUT, PlayedAccess

from dataprep_api import names
from dataprep_api.dataset.messages import ScanRequest
from dataprep_converter.runtime import allocator
from dataprep_converter.steps.conversion.scan_step import run_scan_step, scan_request
from dataprep_converter.steps.conversion.shuffle import shuffle_task, shuffle_tasks
from dataprep_converter.steps.kinds import kind_of

_ONE_POD: Final[Fields] = {"workers": {"parallelism": 1}}
"""Fields of the spec: only one pod scans at a time, so the parts are as large as possible."""


def divide_source(disk: str, kind: str, count: int) -> Figures:
    """Lists `count` files, divides them into the parts of a scan, and stores the listing for the pods of the scan."""
    allocator.tune_allocator()
    access, figures = access_to(Path(disk), kind, count), Figures()
    with timed(figures, "played"):
        for _ in access.played.list(INPUT):
            pass
    access.played.requests.clear()
    with timed(figures, "plan"):
        request = _request(access, kind)
    figures |= requests("plan", access.played)
    stored = sum(entry.size for entry in access.played.list(f"{OUTPUT}/{names.SIDE}"))
    return figures | {"parts": request.parts, "stored_mib": stored / MIB}


def scan(disk: str, kind: str, count: int) -> Figures:
    """Scans the middle part of a source of `count` files."""
    allocator.tune_allocator()
    access, figures = access_to(Path(disk), kind, count), Figures()
    request = _request(access, kind)
    access.played.requests.clear()
    with timed(figures, "scan"):
        run_scan_step(spec_of(kind, OUTPUT, _ONE_POD), access, request.parts // 2, scan=request.scan)
    return figures | requests("scan", access.played) | {"parts": request.parts}


def scan_all(disk: str, kind: str, count: int) -> Figures:
    """Scans all parts, one after another. `merge` needs the results."""
    access = access_to(Path(disk), kind, count)
    request = _request(access, kind)
    for part in range(request.parts):
        run_scan_step(spec_of(kind, OUTPUT, _ONE_POD), access, part, scan=request.scan)
    return {"parts": request.parts}


def merge(disk: str, kind: str, count: int) -> Figures:
    """Plans a job from the results of its scan."""
    allocator.tune_allocator()
    access, figures = access_to(Path(disk), kind, count), Figures()
    spec = spec_of(kind, OUTPUT, _ONE_POD)
    with timed(figures, "merge"), kind_of(spec).plan(spec, access) as draft:
        head = draft.plan.head
        figures |= {"gib": head.bytes_in / 2**30, "files": count, "units": len(draft.plan.units), "samples": head.samples}
    return figures | requests("merge", access.played)


def divide(disk: str, kind: str, count: int, fields: Fields, *, most_slices: int | None) -> Figures:
    """Divides slices of a shuffle's input among its tasks: all slices, or some in the middle."""
    access, figures = access_to(Path(disk), kind, count), Figures()
    plan = stored_plan(access)
    slices = shuffle_tasks(plan)
    first = 0 if most_slices is None else slices // 2
    access.played.requests.clear()
    with timed(figures, "divide"):
        done = [
            shuffle_task(spec_of(kind, OUTPUT, fields), number, plan=plan, access=access)
            for number in range(slices)[first : None if most_slices is None else first + most_slices]
        ]
    read = {"slices": slices, "mib": sum(each.bytes_in for each in done) / MIB, "mib_out": sum(each.bytes_out for each in done) / MIB}
    return figures | requests("divide", access.played) | read


def _request(access: PlayedAccess, kind: str) -> ScanRequest:
    request = scan_request(job_of(kind, OUTPUT, _ONE_POD), access)
    if request is None:
        raise RuntimeError("The source is too small for a scan by several pods.")
    return request
