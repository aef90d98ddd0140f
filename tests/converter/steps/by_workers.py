"""A job as a cluster does it: the plan step, then its tasks by workers that run at once and share nothing, then the commit step."""

from concurrent.futures import ThreadPoolExecutor

from dataprep_api.dataset.plan import task
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps import committing, preparing, working


def run_by_workers(job: DataPrepJob) -> int:
    """Does the job with a worker for each task. Returns how many there were."""
    plan = preparing.run_plan_step(job, Access()).plan

    def work(index: int) -> None:
        working.work(job.spec, plan=plan, shards=task(plan.head, index), access=Access(), attempt=f"worker-{index}", watch=lambda _: None)

    with ThreadPoolExecutor(plan.head.tasks) as workers:
        list(workers.map(work, range(plan.head.tasks)))
    committing.commit(job.spec, plan=plan, access=Access())
    return plan.head.tasks
