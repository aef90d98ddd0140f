"""Runs a plan's tasks in several processes on one machine, just as Kubernetes runs them in pods.

This process is one of the workers, so that the first shard doesn't wait for other processes to start (`fork_server.py`). If a worker
process is killed, another process retries its task. If a task fails, the other tasks stop at their next batch.

Small jobs run in this process alone. For output on HDFS, only child processes do the work, because the HDFS client can hang, and a
watchdog can then kill the child process.
"""

import logging
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from typing import Protocol

from dataprep_api.dataset.plan import Shard, shards, task
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import ConvertError
from dataprep_converter.core.redaction import guard
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.dataset.stored_plan import load_plan
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.runtime import fork_server
from dataprep_converter.runtime.watchdog import Watchdog
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.steps.conversion import shuffle
from dataprep_converter.stores import StoreSettings, scheme_of

logger = logging.getLogger(__name__)

INLINE_BYTES = 64 * 2**20
"""Smaller inputs are converted in this process, because starting other processes takes longer than the work."""
_MOST_RESTARTS = 3

Watch = Callable[[int, TaskProgress], None]
"""Called with a task's index and its counts so far."""


class StoppedError(ConvertError):
    """Raised to stop this task without publishing anything, because another task failed or the user interrupted the run."""


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
        """Does one task."""
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
    job: DataPrepJob, worker: Worker, *, plan: Plan, access: Access, workers: int, watch: Watch, is_divided: bool = False
) -> None:
    """Runs all convert tasks, `workers` at a time. Raises the first task's error after the other tasks have stopped.

    `is_divided` says that the first round of a shuffle has been done, so that each task reads only its own records.
    """
    if is_divided or not _works_alone(job, plan, plan.head.tasks, workers):
        _run_round(job, _ConvertRound(worker), plan, access, workers=workers, watch=watch)
        return
    worker.work(
        job.spec, plan=plan, shards=list(shards(plan.head)), access=access, attempt="local", watch=lambda progress: watch(0, progress)
    )


def run_rounds(
    job: DataPrepJob, worker: Worker, *, plan: Plan, access: Access, workers: int, watch: Watch, watch_shuffle: Watch = lambda *_: None
) -> None:
    """Runs the first round of a shuffle, if it is needed, and then all convert tasks."""
    works_alone = _works_alone(job, plan, plan.head.tasks, workers)
    is_divided = shuffle.is_needed(job.spec, plan=plan, access=access, works_alone=works_alone)
    if is_divided:
        run_shuffle(job, plan=plan, access=access, workers=workers, watch=watch_shuffle)
    run_tasks(job, worker, plan=plan, access=access, workers=workers, watch=watch, is_divided=is_divided)


def run_shuffle(job: DataPrepJob, *, plan: Plan, access: Access, workers: int, watch: Watch) -> None:
    """Runs all tasks of a shuffle's first round, as `run_tasks` runs the convert tasks."""
    _run_round(job, _ShuffleRound(), plan, access, workers=workers, watch=watch)


def _works_alone(job: DataPrepJob, plan: Plan, tasks: int, workers: int) -> bool:
    """Whether this process does all tasks."""
    return scheme_of(job.spec.output.uri) != "hdfs" and (workers <= 1 or tasks <= 1 or plan.head.bytes_in < INLINE_BYTES)


def _run_round(job: DataPrepJob, round_: Round, plan: Plan, access: Access, *, workers: int, watch: Watch) -> None:
    """Runs all tasks of a round, `workers` at a time. Raises the first task's error after the other tasks have stopped."""
    tasks = round_.count(plan)
    if _works_alone(job, plan, tasks, workers):
        for index in range(tasks):
            round_.do(index, job.spec, plan=plan, access=access, watch=partial(watch, index))
        return
    may_hang = scheme_of(job.spec.output.uri) == "hdfs"
    finished: set[int] = set()
    restarts = 0
    while len(finished) < tasks:
        remaining = [index for index in range(tasks) if index not in finished]
        queue = _run_pool(job, round_, plan, access, remaining, workers=workers, works_here=not (may_hang or restarts), watch=watch)
        finished |= queue.finished
        if not queue.errors:
            continue
        if not isinstance(queue.errors[0], BrokenProcessPool):
            raise queue.errors[0]
        restarts += 1
        if restarts > _MOST_RESTARTS:
            raise ConvertError(f"Worker processes were killed {restarts} times; they may have run out of memory.")
        logger.warning("a worker process was killed; its task is tried again (%d of %d)", restarts, _MOST_RESTARTS)


@dataclass(frozen=True)
class _WorkerSettings:
    """The settings that a worker process needs. All these settings can be pickled."""

    job: DataPrepJob
    round: Round
    run_id: str
    plan_sha256: str
    stores: tuple[StoreSettings, ...]
    environment: Mapping[str, str]
    """The parent's environment variables. The fork server's environment variables may be outdated."""
    processes: int
    """Number of worker processes, including the parent process if it works too. They share the request limits."""


@dataclass
class _WorkerProcess:
    """The state of one worker process.

    The worker process is either this process or a child process. In a child process, the pool's initialiser creates the state.
    """

    job: DataPrepJob
    round: Round
    plan: Plan
    access: Access
    tell: Watch
    stop: Event

    def work(self, index: int) -> None:
        """Runs a task. Raises StoppedError when another task has failed."""

        def watch(progress: TaskProgress) -> None:
            if self.stop.is_set():
                raise StoppedError("stopped")
            self.tell(index, progress.now())

        self.round.do(index, self.job.spec, plan=self.plan, access=self.access, watch=watch)


_process: _WorkerProcess | None = None


def _run_pool(
    job: DataPrepJob,
    round_: Round,
    plan: Plan,
    access: Access,
    indexes: list[int],
    *,
    workers: int,
    works_here: bool,
    watch: Watch,
) -> "_TaskQueue":
    """Runs these tasks until all are done or one has failed. Returns the queue with the results."""
    fork_server.get_ready()
    context = fork_server.context()
    reports: Queue[tuple[int, TaskProgress] | None] = context.Queue()
    one_at_a_time = threading.Lock()

    def tell(index: int, progress: TaskProgress) -> None:
        with one_at_a_time:
            watch(index, progress)

    # The parent process doesn't report through the queue, because an exception raised by a signal handler could leave the queue in an
    # undefined state.
    own_process = _WorkerProcess(job=job, round=round_, plan=plan, access=access, tell=tell, stop=context.Event())
    listener = threading.Thread(target=_listen, args=(reports, tell), name="progress", daemon=True)
    listener.start()
    other_workers = max(1, min(workers, len(indexes)) - works_here)
    settings = _WorkerSettings(
        job=job,
        round=round_,
        run_id=plan.head.run_id,
        plan_sha256=plan.sha256,
        stores=access.settings,
        environment=dict(os.environ),
        processes=other_workers + works_here,
    )
    executor = ProcessPoolExecutor(other_workers, mp_context=context, initializer=_start, initargs=(settings, reports, own_process.stop))
    tasks = _TaskQueue(deque(indexes), own_process.stop)
    # If a signal reached a process that is still starting, the process would print a traceback, so signals are blocked in the meantime. The
    # new process inherits the blocked signals from the fork server or from the thread that starts it. Once the new process has started, any
    # signals that arrived while they were blocked are delivered to this process.
    earlier_mask = signal.pthread_sigmask(signal.SIG_BLOCK, fork_server.SIGNALS)
    access.share_among(settings.processes)
    try:
        with ThreadPoolExecutor(other_workers, thread_name_prefix="tasks") as threads:
            try:
                for _ in range(other_workers):
                    threads.submit(tasks.do, lambda index: executor.submit(_work, index).result())
                signal.pthread_sigmask(signal.SIG_SETMASK, earlier_mask)
                if works_here:
                    tasks.do(own_process.work)
                threads.shutdown()
            except BaseException:
                tasks.stop()
                raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier_mask)
        access.share_among(1)
        executor.shutdown(wait=True, cancel_futures=True)
        reports.put(None)
        listener.join(timeout=5)
    return tasks


@dataclass
class _TaskQueue:
    """The tasks that haven't started, and the outcomes of the tasks that have. Several threads run tasks; each thread runs one task at a
    time."""

    waiting_tasks: deque[int]
    stopped: Event
    finished: set[int] = field(default_factory=set)
    errors: list[Exception] = field(default_factory=list)
    """The errors, in the order in which they occurred. After the first error, no further task starts."""

    def do(self, work: Callable[[int], None]) -> None:
        """Runs one task after another, until none is left or one has failed.

        If a worker process is killed, the tasks of the other processes still finish.
        """
        try:
            for index in iter(self._next, None):
                work(index)
                self.finished.add(index)
        except BrokenProcessPool as exc:
            self.errors.append(exc)
            self.waiting_tasks.clear()
        except Exception as exc:  # `run_tasks` raises it when all tasks have ended
            self.errors.append(exc)
            self.stop()

    def _next(self) -> int | None:
        try:
            return self.waiting_tasks.popleft()
        except IndexError:
            return None

    def stop(self) -> None:
        """Prevents tasks from starting. Running tasks stop at their next batch."""
        self.waiting_tasks.clear()
        self.stopped.set()


def _listen(reports: "Queue[tuple[int, TaskProgress] | None]", watch: Watch) -> None:
    while (report := reports.get()) is not None:
        watch(*report)


def _start(settings: _WorkerSettings, reports: "Queue[tuple[int, TaskProgress] | None]", stop: Event) -> None:
    """Initialises a worker process. Workers ignore signals, which only the parent handles."""
    global _process  # the initialiser of a pool can't return a value
    guard()
    for number in fork_server.SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, fork_server.SIGNALS)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    os.environ.clear()
    os.environ.update(settings.environment)
    if scheme_of(settings.job.spec.output.uri) == "hdfs":
        Watchdog().__enter__()  # the watchdog ends with this process
    access = Access(settings.stores)
    access.write_to(settings.job.spec.output.uri)
    access.share_among(settings.processes)
    folder = OutputFolder(settings.job.spec.output.uri, access).of_run(settings.run_id)
    plan = load_plan(folder, settings.plan_sha256, runs_code=settings.round.runs_code)
    _process = _WorkerProcess(
        job=settings.job, round=settings.round, plan=plan, access=access, tell=lambda *report: reports.put(report), stop=stop
    )


def _end_with_parent() -> None:
    """Ends this process when its parent ends. A parent that is killed can't end its children itself."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(index: int) -> None:
    if _process is None:
        raise RuntimeError("the process was not initialised")
    _process.work(index)
