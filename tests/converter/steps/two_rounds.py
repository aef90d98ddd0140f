"""Runs a shuffled job in two rounds as a cluster does, one task after the other."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataprep_api.dataset.messages import CommitResult
from dataprep_api.dataset.plan import task
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.dataset.stored_plan import load_plan
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.planning import planner
from dataprep_converter.readers.base import blocks
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.steps import plan_step
from dataprep_converter.steps.conversion import convert_commit, convert_work, shuffle
from dataprep_converter.stores import files


def make_rounds(monkeypatch: pytest.MonkeyPatch, *, slice_bytes: int = 500, task_bytes: int = 500) -> None:
    """Plan two rounds for any shuffled job, with many small tasks in both rounds. Readers keep no decoded blocks."""
    monkeypatch.setattr(planner, "KEPT_BYTES", 0)
    monkeypatch.setattr(blocks, "KEPT_BYTES", 0)
    monkeypatch.setattr(planner, "TASK_BYTES", slice_bytes)
    monkeypatch.setattr(planner, "POD_BYTES", task_bytes)
    monkeypatch.setattr(planner, "RANGE_BYTES", 1)


def planned(job: DataPrepJob, access: Access) -> Plan:
    """Plan the job, and load the plan as a worker does."""
    result = plan_step.run_plan_step(job, access).result
    return load_plan(OutputFolder(job.spec.output.uri, access).of_run(result.run_id), result.plan_sha256)


def divide(job: DataPrepJob, plan: Plan, access: Access) -> list[TaskProgress]:
    """Do the tasks of the first round."""
    return [shuffle.shuffle_task(job.spec, number, plan=plan, access=access) for number in range(shuffle.shuffle_tasks(plan))]


def convert(job: DataPrepJob, plan: Plan, access: Access) -> None:
    """Do the convert tasks."""
    for index in range(plan.head.tasks):
        convert_work.work(job.spec, plan=plan, shards=task(plan.head, index), access=access, attempt=str(index), watch=lambda _: None)


def run_in_two_rounds(job: DataPrepJob, access: Access, *, between: Callable[[], object] = lambda: None) -> CommitResult:
    """Do all steps of the job. Call `between` after the first round and before the second. Fail if the plan has no first round."""
    plan = planned(job, access)
    assert shuffle.shuffle_tasks(plan)
    divide(job, plan, access)
    between()
    convert(job, plan, access)
    return convert_commit.commit(job.spec, plan=plan, access=access)


def run_in_one_round(job: DataPrepJob, access: Access) -> CommitResult:
    """Do all steps of the job except the first round, so that each convert task reads the source."""
    plan = planned(job, access)
    convert(job, plan, access)
    return convert_commit.commit(job.spec, plan=plan, access=access)


_CHANGING = {"bytesIn", "seconds", "tookSeconds", "finishedAt", "attempt", "pin", "index", "planSha256", "checksum"}
"""Fields of a report that can differ between two runs of the same job. `index` contains a pin."""


def contents(folder: Path) -> dict[str, Any]:
    """Return the content of each file of a data set. Fields of reports that can differ between two runs are left out."""
    found: dict[str, Any] = {}
    for file in sorted(folder.rglob("*")):
        name = str(file.relative_to(folder))
        if not file.is_file() or name.endswith(("/plan.json", "OWNER")):
            continue
        if "/reports/" in name:
            report = json.loads(file.read_bytes())
            found[name] = {field: value for field, value in report.items() if field not in _CHANGING}
        else:
            found[name] = file.read_bytes().replace(str(folder).encode(), b"")
    return found


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
