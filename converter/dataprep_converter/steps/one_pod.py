"""A small job in one pod: the process that made the plan also does the work and the commit, so no more pods have to start.

This is only a shortcut. If the process can't finish the job, the plan is its only result. The other steps' pods then do the rest, with
their own retries, memory and failure reasons. They also do the rest if the process is killed, because the plan step's next pod finds the
stored plan.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from dataprep_api import tracing
from dataprep_api.dataset.messages import PlanResult
from dataprep_api.dataset.plan import shards
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import ConvertError
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.planning.planner import POD_BYTES
from dataprep_converter.steps.kinds import kind_of
from dataprep_converter.steps.plan_step import PlannedRun

logger = logging.getLogger(__name__)

SMALL_BYTES: Final = 2 * POD_BYTES
"""Maximum size of a small job. A small job needs two fewer pods, and converting POD_BYTES takes less time than starting a pod."""
MOST_SHARDS: Final = 100
"""Maximum number of shards of a small job. Each shard takes several requests, which several workers would send in parallel."""
LONGEST_SECONDS: Final = 60.0
"""Time limit for the work of a job with several workers. If the source is slow, several workers are faster than one process even for little
data."""


class TooSlowError(ConvertError):
    """The work takes too long in this process, so the workers do the rest."""


def is_small(planned: PlannedRun) -> bool:
    """Whether this process does the complete job.

    A process that finds another process's plan only reports this plan, because the other process may have run out of memory. It does the
    job only if the plan's data set had been finished before.
    """
    result = planned.result
    return planned.is_new and planned.size is not None and planned.size <= SMALL_BYTES and 1 <= result.shards <= MOST_SHARDS


def finish(
    job: DataPrepJob,
    planned: PlannedRun,
    access: Access,
    *,
    attempt: str,
    watch: Callable[[TaskProgress], None],
    clock: Callable[[], float] = time.monotonic,
) -> PlanResult:
    """Runs the work and the commit. Returns the plan's result, which includes the commit's result unless the workers must do the rest."""
    kind, plan, name, began = kind_of(job.spec), planned.plan, job.metadata.name, clock()
    # A single worker would not be faster, and would have to make this process's unfinished shards again.
    has_faster = min(job.spec.workers.parallelism, planned.result.tasks) > 1

    def watch_time(progress: TaskProgress) -> None:
        watch(progress)
        if has_faster and clock() - began > LONGEST_SECONDS and progress.shards_done < planned.result.shards:
            raise TooSlowError(f"the work takes longer than {LONGEST_SECONDS:.0f} s")

    try:
        with tracing.span("work", job=name, run_id=plan.head.run_id) as tell:
            done = kind.work(job.spec, plan=plan, shards=list(shards(plan.head)), access=access, attempt=attempt, watch=watch_time)
            tell(shards=done.shards_done, records=done.records_out)
        worked = clock()
        with tracing.span("commit", job=name, run_id=plan.head.run_id) as tell:
            commit = kind.commit(job.spec, plan=plan, access=access)
            tell(files=commit.files, records=commit.records.out)
    except Exception as exc:  # the other steps handle any error better: with retries, more memory, a failure reason
        logger.warning("the plan step's pod can't finish this small job, so the convert and commit steps will finish it: %s", exc)
        return planned.result
    seconds = {"work_seconds": round(worked - began, 3), "commit_seconds": round(clock() - worked, 3)}
    return planned.result.model_copy(update={"commit": commit, **seconds})
