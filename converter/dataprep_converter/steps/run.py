"""Runs all steps of a job, in the same order as on a cluster: scan, part by part → plan → work, task by task → commit.

All steps run on this machine. If there is a Spark cluster, its executors do the work and join tables.
"""

from typing import TYPE_CHECKING

from dataprep_api.dataset.messages import CommitResult, PlanResult
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadSpec, NotWhole
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime import makers
from dataprep_converter.steps import lineage
from dataprep_converter.steps.kinds import Watch, kind_of
from dataprep_converter.steps.plan_step import run_plan_step

if TYPE_CHECKING:
    from dataprep_converter.steps.executors import Executors


def run(
    job: DataPrepJob, *, access: Access, workers: int, display: Watch, executors: "Executors | None" = None
) -> tuple[PlanResult, CommitResult]:
    """Makes the data set and returns the results of the plan step and the commit step. A second run makes only the missing files.

    Raises BadSpec for a script with `executors`.
    """
    with makers.at_work(job.metadata.name), lineage.of_run(job, access) as events:
        return _run(job, access=access, workers=workers, display=display, executors=executors, events=events)


def _run(
    job: DataPrepJob, *, access: Access, workers: int, display: Watch, executors: "Executors | None", events: lineage.RunEvents
) -> tuple[PlanResult, CommitResult]:
    if executors is not None and job.spec.script is not None:
        raise BadSpec("A script is one program on one machine, so it can't run on Spark's executors. Run the job without --engine spark.")
    if executors is not None:
        access.sql_engine = executors.sql_engine(job)
    kind = kind_of(job.spec)
    display.planning(access.progress)
    # A script's program and Spark's executors can keep running after this process has been killed. So OWNER must not name this process as
    # the maker of the run: the run would seem to have ended with this process.
    maker = makers.this_process(job.metadata.name) if job.spec.script is None and executors is None else None
    prepared = run_plan_step(job, access, maker=maker, scan=lambda: kind.scan_here(job, access=access, workers=workers, watch=display))
    plan_result = prepared.result
    events.planned(prepared.plan)
    display.planned(plan_result)
    if plan_result.reused:
        if plan_result.commit is None:
            raise NotWhole("a reused plan must contain the data set's result")
        events.committed(plan_result.commit)
        display.reused(plan_result.commit)
        return plan_result, plan_result.commit

    kind.work_here(job, plan=prepared.plan, access=access, workers=workers, watch=display, executors=executors)

    display.step("committing")
    result = kind.commit(job.spec, plan=prepared.plan, access=access)
    events.committed(result)
    display.finished(result)
    return plan_result, result
