"""Runs a plan's tasks in several processes on one machine (`processes.py`) or on the executors of a Spark cluster (`executors.py`).

On a Kubernetes cluster, the same tasks run in pods. If a worker process is killed, another process retries its task. If a task fails, the
other tasks stop at their next batch. Small jobs run in this process alone.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from dataprep_api.dataset.plan import Shard, shards, task
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import ConvertError
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.dataset.stored_plan import load_plan
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.steps.conversion import shuffle
from dataprep_converter.steps.processes import MOST_RESTARTS, DoTask, may_hang, run_in_processes

if TYPE_CHECKING:
    from dataprep_converter.steps.executors import Executors

logger = logging.getLogger(__name__)

INLINE_BYTES = 64 * 2**20
"""Smaller inputs are converted in this process, because starting other processes takes longer than the work."""

Watch = Callable[[int, TaskProgress], None]
"""Called with a task's index and its counts so far."""


class Worker(Protocol):
    """The part of a job that runs in worker processes. Each kind of job has its own implementation."""

    runs_code: bool
    """Whether the work runs the user's code, which must then be the same as in the plan step."""

    def work(
        self,
        spec: DataPrepJobSpec,
        *,
        plan: Plan,
        shards: Sequence[Shard],
        access: Access,
        attempt: str,
        watch: Callable[[TaskProgress], None],
    ) -> TaskProgress:
        """Makes the given shards, except those that are already finished."""
        ...


class Round(Protocol):
    """Tasks that several processes divide among themselves. Can be pickled."""

    @property
    def runs_code(self) -> bool:
        """See `Worker`."""
        ...

    def count(self, plan: Plan) -> int:
        """Returns the number of tasks."""
        ...

    def do(self, index: int, spec: DataPrepJobSpec, *, plan: Plan, access: Access, watch: Callable[[TaskProgress], None]) -> None:
        """Runs one task."""
        ...


@dataclass(frozen=True)
class _ConvertRound:
    """The convert tasks."""

    worker: Worker

    @property
    def runs_code(self) -> bool:
        """See `Worker`."""
        return self.worker.runs_code

    def count(self, plan: Plan) -> int:
        """See `Round`."""
        return plan.head.tasks

    def do(self, index: int, spec: DataPrepJobSpec, *, plan: Plan, access: Access, watch: Callable[[TaskProgress], None]) -> None:
        """See `Round`."""
        self.worker.work(spec, plan=plan, shards=task(plan.head, index), access=access, attempt=f"local-{index}", watch=watch)


class _ShuffleRound:
    """The tasks of a shuffle's first round."""

    runs_code = True

    def count(self, plan: Plan) -> int:
        """See `Round`."""
        return shuffle.shuffle_tasks(plan)

    def do(self, index: int, spec: DataPrepJobSpec, *, plan: Plan, access: Access, watch: Callable[[TaskProgress], None]) -> None:
        """See `Round`."""
        shuffle.shuffle_task(spec, index, plan=plan, access=access, watch=watch)


def run_tasks(
    job: DataPrepJob,
    worker: Worker,
    *,
    plan: Plan,
    access: Access,
    workers: int,
    watch: Watch,
    is_divided: bool = False,
    executors: "Executors | None" = None,
) -> None:
    """Runs all convert tasks, `workers` at a time. If a task fails, the other tasks stop before the error is raised.

    `is_divided` says that the first round of a shuffle is finished, so that each task reads only its own records. If there are `executors`,
    they run all tasks.
    """
    if is_divided or executors is not None or not _works_alone(job, plan, plan.head.tasks, workers):
        _run_round(job, _ConvertRound(worker), plan, access, workers=workers, watch=watch, executors=executors)
        return
    worker.work(
        job.spec, plan=plan, shards=list(shards(plan.head)), access=access, attempt="local", watch=lambda progress: watch(0, progress)
    )


def run_rounds(
    job: DataPrepJob,
    worker: Worker,
    *,
    plan: Plan,
    access: Access,
    workers: int,
    watch: Watch,
    watch_shuffle: Watch = lambda *_: None,
    executors: "Executors | None" = None,
) -> None:
    """Runs the first round of a shuffle, if it is needed, and then all convert tasks."""
    works_alone = executors is None and _works_alone(job, plan, plan.head.tasks, workers)
    is_divided = shuffle.is_needed(job.spec, plan=plan, access=access, works_alone=works_alone)
    if is_divided:
        run_shuffle(job, plan=plan, access=access, workers=workers, watch=watch_shuffle, executors=executors)
    run_tasks(job, worker, plan=plan, access=access, workers=workers, watch=watch, is_divided=is_divided, executors=executors)


def run_shuffle(job: DataPrepJob, *, plan: Plan, access: Access, workers: int, watch: Watch, executors: "Executors | None" = None) -> None:
    """Runs all tasks of a shuffle's first round, as `run_tasks` runs the convert tasks."""
    _run_round(job, _ShuffleRound(), plan, access, workers=workers, watch=watch, executors=executors)


def _works_alone(job: DataPrepJob, plan: Plan, tasks: int, workers: int) -> bool:
    """Whether this process runs all tasks itself."""
    return not may_hang(job) and (workers <= 1 or tasks <= 1 or plan.head.bytes_in < INLINE_BYTES)


def _run_round(
    job: DataPrepJob, round_: Round, plan: Plan, access: Access, *, workers: int, watch: Watch, executors: "Executors | None"
) -> None:
    """Runs all tasks of a round, `workers` at a time. If a task fails, the other tasks stop before the error is raised."""
    tasks = round_.count(plan)
    planned = _PlannedTasks(job, round_, plan.head.run_id, plan.sha256)
    if executors is not None:
        errors = executors.run(job, planned, range(tasks), watch=watch).errors
        if errors:
            raise errors[0]
        return
    if _works_alone(job, plan, tasks, workers):
        for index in range(tasks):
            round_.do(index, job.spec, plan=plan, access=access, watch=partial(watch, index))
        return
    finished: set[int] = set()
    restarts = 0
    while len(finished) < tasks:
        done = run_in_processes(
            job,
            planned,
            [index for index in range(tasks) if index not in finished],
            access,
            own=None if may_hang(job) or restarts else _doing(job, round_, plan, access),
            workers=workers,
            watch=watch,
        )
        finished |= done.results.keys()
        if not done.errors:
            continue
        if not isinstance(done.errors[0], BrokenProcessPool):
            raise done.errors[0]
        restarts += 1
        if restarts > MOST_RESTARTS:
            raise ConvertError(f"Worker processes were killed {restarts} times; they may have run out of memory.")
        logger.warning("a worker process was killed; its task is tried again (%d of %d)", restarts, MOST_RESTARTS)


@dataclass(frozen=True)
class _PlannedTasks:
    """The tasks of a round that other processes run. These processes load the stored plan."""

    job: DataPrepJob
    round: Round
    run_id: str
    plan_sha256: str

    def begin(self, access: Access, *, is_stopped: Callable[[], bool]) -> DoTask[TaskProgress, None]:
        """See `Tasks`."""
        del is_stopped  # a task stops when it reports progress
        folder = OutputFolder(self.job.spec.output.uri, access).of_run(self.run_id)
        plan = load_plan(folder, self.plan_sha256, runs_code=self.round.runs_code)
        return _doing(self.job, self.round, plan, access)


def _doing(job: DataPrepJob, round_: Round, plan: Plan, access: Access) -> DoTask[TaskProgress, None]:
    """Returns the function that runs one task."""

    def do(index: int, tell: Callable[[TaskProgress], None]) -> None:
        round_.do(index, job.spec, plan=plan, access=access, watch=lambda progress: tell(progress.now()))

    return do
