"""Divides tasks among several processes on one machine.

This process can be one of them, so that the first task doesn't wait for other processes to start (`fork_server.py`). For output on HDFS,
only child processes run the tasks, so that a watchdog can kill a child process whose HDFS client hangs.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import ConvertError
from dataprep_converter.core.redaction import guard
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime import fork_server
from dataprep_converter.runtime.watchdog import Watchdog
from dataprep_converter.stores import StoreSettings, scheme_of

MOST_RESTARTS: Final = 3
"""The maximum number of times that killed processes are replaced."""
_STOP_SECONDS: Final = 0.1

ProgressT = TypeVar("ProgressT")
ResultT = TypeVar("ResultT")
ProgressT_co = TypeVar("ProgressT_co", covariant=True)
ResultT_co = TypeVar("ResultT_co", covariant=True)
DoTask: TypeAlias = Callable[[int, Callable[[ProgressT], None]], ResultT]
"""Runs the task with the given number and returns its result. Frequently calls the given function with the task's current progress. The
given function raises StoppedError if the task is no longer needed."""


class StoppedError(ConvertError):
    """Stops a task before it publishes anything, because another task failed or the user interrupted the run."""


class Tasks(Protocol[ProgressT_co, ResultT_co]):
    """Tasks that several processes divide among themselves. The tasks, their progress and their results can be pickled."""

    def begin(self, access: Access, *, is_stopped: Callable[[], bool]) -> DoTask[ProgressT_co, ResultT_co]:
        """Returns the function that runs one task. Each process calls this method once. `is_stopped` returns true when the tasks are no
        longer needed."""
        ...


@dataclass
class Done(Generic[ResultT]):
    """The results and the errors of tasks."""

    results: dict[int, ResultT] = field(default_factory=dict)
    errors: list[Exception] = field(default_factory=list)
    """The errors, in the order in which they occurred. After the first error, no further task starts."""


def may_hang(job: DataPrepJob) -> bool:
    """Whether writing to the job's output may hang, so that only child processes may write."""
    return scheme_of(job.spec.output.uri) == "hdfs"


def run_in_processes(
    job: DataPrepJob,
    tasks: Tasks[ProgressT, ResultT],
    numbers: Sequence[int],
    access: Access,
    *,
    own: DoTask[ProgressT, ResultT] | None,
    workers: int,
    watch: Callable[[int, ProgressT], None],
    stops_at_error: bool = True,
    publishes: bool = True,
) -> Done[ResultT]:
    """Runs the tasks with these numbers in up to `workers` processes, until all tasks are done or one task has failed.

    `own` runs tasks in this process, or is None if only other processes run tasks. `watch` is called with a task's number and its progress.
    If a task fails and `stops_at_error` is set, the other tasks stop. If `stops_at_error` isn't set, the tasks that have begun are
    finished. If a process is killed, the tasks of the other processes are finished too. If the tasks publish nothing (`publishes` is
    false), an interrupt ends the other processes immediately.
    """
    fork_server.get_ready()
    context = fork_server.context()
    reports: Queue[tuple[int, ProgressT] | None] = context.Queue()
    one_at_a_time = threading.Lock()

    def tell(index: int, progress: ProgressT) -> None:
        with one_at_a_time:
            watch(index, progress)

    # The parent process doesn't report through the queue, because an exception raised by a signal handler could leave the queue in an
    # undefined state.
    stop = context.Event()
    listener = threading.Thread(target=_listen, args=(reports, tell), name="progress", daemon=True)
    listener.start()
    other_workers = max(1, min(workers, len(numbers)) - (own is not None))
    settings = _Settings(
        tasks=tasks,
        output=job.spec.output.uri,
        may_hang=may_hang(job),
        stores=access.settings,
        environment=dict(os.environ),
        processes=other_workers + (own is not None),
        publishes=publishes,
    )
    executor = ProcessPoolExecutor(other_workers, mp_context=context, initializer=_start, initargs=(settings, reports, stop))
    queue: _TaskQueue[ResultT] = _TaskQueue(deque(numbers), stop, stops_at_error=stops_at_error)
    # Block signals while other processes start, because a signal would make a starting process print a traceback. A new process inherits
    # the blocked signals from the fork server or from the thread that starts the process. When the signals are no longer blocked, this
    # process receives the signals that have arrived in the meantime.
    earlier_mask = signal.pthread_sigmask(signal.SIG_BLOCK, fork_server.SIGNALS)
    access.share_among(settings.processes)
    access.processes_here = settings.processes
    try:
        with ThreadPoolExecutor(other_workers, thread_name_prefix="tasks") as threads:
            try:
                for _ in range(other_workers):
                    threads.submit(queue.do, lambda index: executor.submit(_work, index).result())
                signal.pthread_sigmask(signal.SIG_SETMASK, earlier_mask)
                if own is not None:
                    queue.do(_Process(do=own, tell=tell, stop=stop).work)
                threads.shutdown()
            except BaseException:
                queue.stop()
                raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier_mask)
        access.share_among(1)
        access.processes_here = 1
        executor.shutdown(wait=True, cancel_futures=True)
        reports.put(None)
        listener.join(timeout=5)
    return queue.done


@dataclass(frozen=True)
class _Settings:
    """The settings that a child process needs. All of them can be pickled."""

    tasks: Tasks[Any, Any]
    output: str
    may_hang: bool
    stores: tuple[StoreSettings, ...]
    environment: Mapping[str, str]
    """The parent's environment variables. The fork server's environment variables may be outdated."""
    processes: int
    """Number of processes, including the parent process if it also runs tasks.

    All these processes share the request limits and the memory.
    """
    publishes: bool
    """If False, these processes end as soon as they are told to stop, even in the middle of a task."""


@dataclass
class _Process(Generic[ProgressT, ResultT]):
    """The state of one process that runs tasks: this process or a child process. In a child process, the pool's initialiser creates it."""

    do: DoTask[ProgressT, ResultT]
    tell: Callable[[int, ProgressT], None]
    stop: Event

    def work(self, index: int) -> ResultT:
        """Runs a task. Raises StoppedError when another task has failed."""

        def watch(progress: ProgressT) -> None:
            if self.stop.is_set():
                raise StoppedError("stopped")
            self.tell(index, progress)

        return self.do(index, watch)


_process: _Process[Any, Any] | None = None


@dataclass
class _TaskQueue(Generic[ResultT]):
    """The tasks that haven't started, and the outcomes of all other tasks. Several threads run tasks; each thread runs one task at a
    time."""

    waiting_tasks: deque[int]
    stopped: Event
    stops_at_error: bool
    done: Done[ResultT] = field(default_factory=Done)

    def do(self, work: Callable[[int], ResultT]) -> None:
        """Runs one task after another, until no task is left or a task has failed.

        If a process is killed, the tasks of the other processes still finish.
        """
        try:
            for index in iter(self._next, None):
                self.done.results[index] = work(index)
        except BrokenProcessPool as exc:
            self.done.errors.append(exc)
            self.waiting_tasks.clear()
        except Exception as exc:  # the caller raises the error when all tasks have ended
            self.done.errors.append(exc)
            if self.stops_at_error:
                self.stop()
            self.waiting_tasks.clear()

    def _next(self) -> int | None:
        try:
            return self.waiting_tasks.popleft()
        except IndexError:
            return None

    def stop(self) -> None:
        """Prevents tasks from starting. Running tasks stop as soon as they report progress."""
        self.waiting_tasks.clear()
        self.stopped.set()


def _listen(reports: "Queue[tuple[int, ProgressT] | None]", watch: Callable[[int, ProgressT], None]) -> None:
    while (report := reports.get()) is not None:
        watch(*report)


def _start(settings: _Settings, reports: "Queue[tuple[int, Any] | None]", stop: Event) -> None:
    """Initialises a child process. Child processes ignore signals, which only the parent handles."""
    global _process  # the initialiser of a pool can't return a value
    guard()
    for number in fork_server.SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, fork_server.SIGNALS)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    os.environ.clear()
    os.environ.update(settings.environment)
    if not settings.publishes:
        threading.Thread(target=_end_when, args=(stop.is_set,), name="stop", daemon=True).start()
    if settings.may_hang:
        Watchdog().__enter__()  # the watchdog ends with this process
    access = Access(settings.stores)
    access.write_to(settings.output)
    access.share_among(settings.processes)
    access.processes_here = settings.processes
    do = settings.tasks.begin(access, is_stopped=stop.is_set)
    _process = _Process(do=do, tell=lambda *report: reports.put(report), stop=stop)


def _end_with_parent() -> None:
    """Ends this process when its parent ends. A parent that is killed can't end its children itself."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _end_when(is_stopped: Callable[[], bool]) -> None:
    """Ends this process when its tasks must stop. Polls instead of waiting for the event `stop`, because `Event.set` blocks until each
    waiting process has woken up, even if that process was killed."""
    while not is_stopped():
        time.sleep(_STOP_SECONDS)
    os._exit(1)


def _work(index: int) -> Any:
    if _process is None:
        raise RuntimeError("the process was not initialised")
    return _process.work(index)
