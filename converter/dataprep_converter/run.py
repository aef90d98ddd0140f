"""The whole flow on one machine, the same steps as on a cluster: prepare → work, task by task → commit."""

from dataprep_api.job import DataPrepJob
from dataprep_api.messages import CommitResult, PlanResult
from dataprep_converter import finishing, pool, preparing, scripting
from dataprep_converter.access import Access
from dataprep_converter.display import Display
from dataprep_converter.errors import NotWhole


def run(job: DataPrepJob, *, access: Access, workers: int, display: Display) -> tuple[PlanResult, CommitResult]:
    """Makes the data set and returns what was planned and what was made. Run again, it makes only what is missing."""
    display.step("planning")
    prepared = preparing.prepare(job, access)
    planned = prepared.result
    display.planned(planned)
    if planned.reused:
        if planned.commit is None:
            raise NotWhole("a reused plan carries the data set's result")
        display.reused(planned.commit)
        return planned, planned.commit

    if job.spec.script is not None:
        display.step("running the script")
        scripting.execute(job.spec, plan=prepared.plan)
    else:
        pool.convert(job, plan=prepared.plan, access=access, workers=workers, watch=display.progress)

    display.step("committing")
    made = finishing.finish(job.spec, plan=prepared.plan, access=access)
    display.finished(made)
    return planned, made
