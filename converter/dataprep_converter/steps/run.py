"""The whole flow on one machine, the same steps as on a cluster: prepare → work, task by task → commit."""

from typing import Protocol

from dataprep_api.dataset.messages import CommitResult, PlanResult
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import NotWhole
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.steps import finishing, plan_step, pool, script_job


class Watch(Protocol):
    """Is told how a run goes."""

    def step(self, name: str) -> None:
        """A step begins."""
        ...

    def planned(self, plan: PlanResult) -> None:
        """The plan is made."""
        ...

    def progress(self, index: int, progress: TaskProgress) -> None:
        """New counts of one task."""
        ...

    def reused(self, result: CommitResult) -> None:
        """A finished data set was there already."""
        ...

    def finished(self, result: CommitResult) -> None:
        """The data set is whole."""
        ...


def run(job: DataPrepJob, *, access: Access, workers: int, display: Watch) -> tuple[PlanResult, CommitResult]:
    """Makes the data set and returns what was planned and what was made. Run again, it makes only what is missing."""
    display.step("planning")
    prepared = plan_step.run_plan_step(job, access)
    planned = prepared.result
    display.planned(planned)
    if planned.reused:
        if planned.commit is None:
            raise NotWhole("a reused plan carries the data set's result")
        display.reused(planned.commit)
        return planned, planned.commit

    if job.spec.script is not None:
        display.step("running the script")
        script_job.execute(job.spec, plan=prepared.plan)
    else:
        pool.convert(job, plan=prepared.plan, access=access, workers=workers, watch=display.progress)

    display.step("committing")
    made = finishing.finish(job.spec, plan=prepared.plan, access=access)
    display.finished(made)
    return planned, made
