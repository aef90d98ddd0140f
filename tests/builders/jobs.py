"""Runs of jobs on this machine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.builders.specs import parse_job

from dataprep_api.dataset.messages import CommitResult, PlanResult
from dataprep_api.dataset.report import Manifest
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.cli.display import Display
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning import planner
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.steps.run import run
from dataprep_converter.tools.verification import verify


def run_job(job: DataPrepJob, *, workers: int = 1) -> tuple[PlanResult, CommitResult]:
    """Run a job and say nothing; return what its plan and its commit tell."""
    return run(job, access=Access(), workers=workers, display=Display(quiet=True))


def run_spec(spec: Mapping[str, Any]) -> None:
    """Run the job of a spec."""
    run_job(parse_job(spec))


def output_of(job: DataPrepJob) -> Path:
    """Run a job; return the folder of its data set."""
    run_job(job)
    return Path(job.spec.output.uri)


def verified_run(job: DataPrepJob) -> Manifest:
    """Run a job, and verify every record; return the manifest."""
    run_job(job)
    return verify(job.spec.output.uri, Access(), every_record=True)


def plan_of(job: DataPrepJob) -> Plan:
    """The plan of a job, which is not run."""
    with planner.make_plan(job.spec, Access()) as new:
        return new.plan
