"""Runs all steps on one machine, the same steps as on a cluster: scan, part by part → plan → work, task by task → commit."""

from dataprep_api.dataset.messages import CommitResult, PlanResult
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import NotWhole
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime import makers
from dataprep_converter.steps.kinds import Watch, kind_of
from dataprep_converter.steps.plan_step import run_plan_step


def run(job: DataPrepJob, *, access: Access, workers: int, display: Watch) -> tuple[PlanResult, CommitResult]:
    """Makes the data set and returns the results of the plan step and the commit step. A second run makes only the missing files."""
    kind = kind_of(job.spec)
    display.planning(access.progress)
    # A script's program can keep running after this process has been killed, so this process isn't given as the maker of a script job.
    maker = makers.this_process(job.metadata.name) if job.spec.script is None else None
    prepared = run_plan_step(job, access, maker=maker, scan=lambda: kind.scan_here(job, access=access, workers=workers, watch=display))
    plan_result = prepared.result
    display.planned(plan_result)
    if plan_result.reused:
        if plan_result.commit is None:
            raise NotWhole("a reused plan must contain the data set's result")
        display.reused(plan_result.commit)
        return plan_result, plan_result.commit

    kind.work_here(job, plan=prepared.plan, access=access, workers=workers, watch=display)

    display.step("committing")
    result = kind.commit(job.spec, plan=prepared.plan, access=access)
    display.finished(result)
    return plan_result, result
