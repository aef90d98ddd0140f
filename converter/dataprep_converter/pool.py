"""A pool of processes over the tasks of a plan: what Kubernetes does on a cluster, on one machine.

Processes are spawned, never forked: the stores' clients have threads of their own. A task whose process was killed is tried
again; a task that failed stops the others at their next batch. Small jobs are done in this process, but not on HDFS, whose
client was seen to hang: there a watchdog kills the process that hangs.
"""

import logging
import multiprocessing
import signal
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event

from dataprep_api.job import DataPrepJob
from dataprep_api.messages import WorkResult
from dataprep_converter import copying, working
from dataprep_converter.access import Access
from dataprep_converter.errors import ConvertError
from dataprep_converter.output_folder import OutputFolder
from dataprep_converter.planning import Plan
from dataprep_converter.stores import StoreSettings, scheme_of
from dataprep_converter.task_progress import TaskProgress
from dataprep_converter.watchdog import Watchdog

logger = logging.getLogger(__name__)

INLINE_BYTES = 64 * 2**20
"""Smaller inputs are converted in this process: starting others takes longer than the work."""
_MOST_RESTARTS = 3

Watch = Callable[[int, TaskProgress], None]
"""Called with a task's index and its counts so far."""


class StoppedError(ConvertError):
    """Another task failed, or the user interrupted: this one ends without publishing anything."""


def convert(job: DataPrepJob, *, plan: Plan, access: Access, workers: int, watch: Watch) -> list[WorkResult]:
    """Runs every task, `workers` at a time. Raises the first task's error after the others have stopped."""
    tasks = plan.head.tasks
    may_hang = scheme_of(job.spec.output.uri) == "hdfs"
    if not may_hang and (workers <= 1 or tasks <= 1 or plan.head.bytes_in < INLINE_BYTES):
        return [
            working.work(job.spec, plan=plan, index=index, access=access, attempt="local", watch=lambda p, i=index: watch(i, p))  # type: ignore[misc]  # mypy can't type a lambda's default
            for index in range(tasks)
        ]
    results: dict[int, WorkResult] = {}
    restarts = 0
    while len(results) < tasks:
        left = [index for index in range(tasks) if index not in results]
        try:
            _run_pool(job, plan, access, left, workers=max(1, min(workers, len(left))), watch=watch, results=results)
        except BrokenProcessPool:
            restarts += 1
            if restarts > _MOST_RESTARTS:
                raise ConvertError(f"Worker processes were killed {restarts} times; was there enough memory?") from None
            logger.warning("a worker process was killed; its task is tried again (%d of %d)", restarts, _MOST_RESTARTS)
    return [results[index] for index in range(tasks)]


@dataclass(frozen=True)
class _Setting:
    """What each process needs; all of it picklable."""

    job: DataPrepJob
    run_id: str
    plan_sha256: str
    settings: tuple[StoreSettings, ...]


@dataclass
class _Process:
    """The state of one worker process, made by its initialiser."""

    job: DataPrepJob
    plan: Plan
    access: Access
    reports: "Queue[tuple[int, TaskProgress] | None]"
    stop: Event


_process: _Process | None = None


def _run_pool(
    job: DataPrepJob,
    plan: Plan,
    access: Access,
    indexes: list[int],
    *,
    workers: int,
    watch: Watch,
    results: dict[int, WorkResult],
) -> None:
    context = multiprocessing.get_context("spawn")
    reports: Queue[tuple[int, TaskProgress] | None] = context.Queue()
    stop = context.Event()
    listener = threading.Thread(target=_listen, args=(reports, watch), name="progress", daemon=True)
    listener.start()
    setting = _Setting(job=job, run_id=plan.head.run_id, plan_sha256=plan.sha256, settings=access.settings)
    executor = ProcessPoolExecutor(workers, mp_context=context, initializer=_start, initargs=(setting, reports, stop))
    # A Ctrl-C in the terminal goes to the processes too, and one that is only starting would answer with a traceback. They inherit
    # that the signal waits; here it comes right after.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        futures = {executor.submit(_work, index): index for index in indexes}
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _collect(futures, results)
    except BaseException:
        stop.set()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        executor.shutdown(wait=True, cancel_futures=True)
        reports.put(None)
        listener.join(timeout=5)


def _collect(futures: dict[Future[WorkResult], int], results: dict[int, WorkResult]) -> None:
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
        for future in done:
            results[futures[future]] = future.result()


def _listen(reports: "Queue[tuple[int, TaskProgress] | None]", watch: Watch) -> None:
    while (report := reports.get()) is not None:
        watch(*report)


def _start(setting: _Setting, reports: "Queue[tuple[int, TaskProgress] | None]", stop: Event) -> None:
    """Once in each process. The parent alone answers Ctrl-C."""
    global _process  # a pool's initialiser has no other place
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if scheme_of(setting.job.spec.output.uri) == "hdfs":
        Watchdog().__enter__()  # ends with this process
    access = Access(setting.settings)
    folder = OutputFolder(setting.job.spec.output.uri, access, setting.run_id)
    plan = working.load_plan(folder, setting.plan_sha256, runs_code=setting.job.spec.output.format != copying.FORMAT)
    _process = _Process(job=setting.job, plan=plan, access=access, reports=reports, stop=stop)


def _work(index: int) -> WorkResult:
    here = _process
    if here is None:
        raise RuntimeError("the process was not initialised")

    def watch(progress: TaskProgress) -> None:
        if here.stop.is_set():
            raise StoppedError("stopped")
        here.reports.put((index, replace(progress)))

    return working.work(here.job.spec, plan=here.plan, index=index, access=here.access, attempt=f"local-{index}", watch=watch)
