"""Runs a job as a cluster does: the plan step, then the tasks in parallel workers that share nothing, then the commit step."""

from concurrent.futures import ThreadPoolExecutor

from dataprep_api.dataset.plan import task
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps import plan_step
from dataprep_converter.steps.conversion import convert_commit, convert_work


def run_by_workers(job: DataPrepJob) -> int:
    """Runs the job with one worker for each task. Returns the number of workers."""
    plan = plan_step.run_plan_step(job, Access()).plan

    def work(index: int) -> None:
        convert_work.work(
            job.spec, plan=plan, shards=task(plan.head, index), access=Access(), attempt=f"worker-{index}", watch=lambda _: None
        )

    with ThreadPoolExecutor(plan.head.tasks) as workers:
        list(workers.map(work, range(plan.head.tasks)))
    convert_commit.commit(job.spec, plan=plan, access=Access())
    return plan.head.tasks
