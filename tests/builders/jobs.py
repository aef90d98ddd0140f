"""Functions that run jobs on this machine."""

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
    """Run a job without output on the terminal. Return the results of its plan and commit steps."""
    return run(job, access=Access(), workers=workers, display=Display(quiet=True))


def run_spec(spec: Mapping[str, Any]) -> None:
    """Run the job with this spec."""
    run_job(parse_job(spec))


def output_of(job: DataPrepJob) -> Path:
    """Run a job and return the folder of its data set."""
    run_job(job)
    return Path(job.spec.output.uri)


def verified_run(job: DataPrepJob) -> Manifest:
    """Run a job and verify every record. Return the manifest."""
    run_job(job)
    return verify(job.spec.output.uri, Access(), every_record=True)


def plan_of(job: DataPrepJob) -> Plan:
    """Plan a job without running it. Return the plan."""
    with planner.make_plan(job.spec, Access()) as new:
        return new.plan
