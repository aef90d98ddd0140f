"""The executors of a Spark cluster, on which `dataprep run --engine spark` runs the tasks of a plan.

Spark may run a task several times, even at the same time: after it has lost an executor, or by speculation. This does no harm, because
each task is idempotent: all attempts write the same bytes, and a file becomes visible only when it is complete.

A task returns its error as a value. If it raised the error, Spark would repeat the task, and would show the error below its own stack
trace. So Spark itself repeats only the tasks whose process or executor was lost.
"""

import io
import logging
import os
import tarfile
import tempfile
import threading
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter import __version__
from dataprep_converter.core.errors import BadSpec, ConvertError, Unreachable
from dataprep_converter.core.redaction import guard
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.store_settings import settings_for
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.runtime import limits, plugins
from dataprep_converter.runtime.watchdog import Watchdog
from dataprep_converter.steps.processes import Done, Tasks, may_hang

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext

logger = logging.getLogger(__name__)

MOST_ATTEMPTS: Final = 3
"""How often a task is tried if it can't reach a store."""
_POLL_SECONDS: Final = 0.2


class Executors:
    """The executors of a Spark application. `executors_of` starts the application."""

    def __init__(self, context: "SparkContext") -> None:
        self._context = context

    def run(
        self, job: DataPrepJob, tasks: Tasks[TaskProgress, None], numbers: Sequence[int], *, watch: Callable[[int, TaskProgress], None]
    ) -> Done[None]:
        """Does the tasks with these numbers, until all are done or one has failed. Calls `watch` with the number and counts of each task
        that is done. Raises ConvertError if Spark gives up."""
        done: Done[None] = Done()
        waiting = list(numbers)
        for attempt in range(1, MOST_ATTEMPTS + 1):
            failed = {}
            for outcome in self._outcomes(job, tasks, waiting, watch=watch):
                if outcome.error is None:
                    done.results[outcome.index] = None
                else:
                    failed[outcome.index] = outcome.error
            done.errors = list(failed.values())
            if not failed or attempt == MOST_ATTEMPTS or not all(isinstance(error, Unreachable) for error in done.errors):
                break
            logger.warning("%d tasks are tried again (%d of %d): %s", len(failed), attempt + 1, MOST_ATTEMPTS, done.errors[0])
            waiting = sorted(failed)
        return done

    def _outcomes(
        self, job: DataPrepJob, tasks: Tasks[TaskProgress, None], numbers: Sequence[int], *, watch: Callable[[int, TaskProgress], None]
    ) -> "list[_Outcome]":
        """Runs each task once and returns the outcomes. After an error that no retry can mend, the other tasks are cancelled."""
        context, group = self._context, f"dataprep-{uuid.uuid4().hex}"
        cores = context.getConf().get("spark.executor.cores")
        outcomes = context.accumulator([], _Appended())
        do = _Work(
            job, tasks, outcomes, _code(), at_once=min(context.defaultParallelism, len(numbers)), cores=int(cores) if cores else None
        )
        context.setJobGroup(group, f"dataprep: {job.metadata.name}", interruptOnCancel=True)
        try:
            with _watched(outcomes, len(numbers), watch, cancel=lambda: context.cancelJobGroup(group)):
                context.parallelize(numbers, len(numbers)).foreachPartition(do)
        except Exception as exc:  # Py4J and PySpark raise exceptions of many types
            if not any(_is_final(each.error) for each in outcomes.value):
                raise _translate(exc) from exc
        return list(outcomes.value)


@dataclass(frozen=True)
class _Outcome:
    """The outcome of a task: its last counts, or the error that ended it."""

    index: int
    progress: TaskProgress | None
    error: ConvertError | None


@dataclass(frozen=True)
class _Work:
    """Does tasks in a Python process of an executor. Spark pickles it, so it contains no credentials: the executor's own environment has
    them."""

    job: DataPrepJob
    tasks: Tasks[TaskProgress, None]
    outcomes: "Accumulator[list[_Outcome]]"
    code: "_Code | None"
    at_once: int
    """Number of tasks that run at the same time on all executors. They share the request limits."""
    cores: int | None
    """Number of tasks that run at the same time on an executor, or None if Spark gives it all cores of its machine. The tasks share the
    machine's memory."""
    version: str = __version__

    def __call__(self, numbers: Iterable[int]) -> None:
        """Does the tasks, and adds their outcomes to the accumulator."""
        for index in numbers:
            self.outcomes.add([self._outcome(index)])

    def _outcome(self, index: int) -> _Outcome:
        latest: list[TaskProgress | None] = [None]

        def tell(progress: TaskProgress) -> None:
            latest[0] = progress

        try:
            self._begin()(index, tell)
        except ConvertError as exc:
            return _Outcome(index, None, exc)
        except Exception as exc:  # a bug, or an error of the user's code; it ends the run as it would on one machine
            logger.exception("task %d failed", index)
            last = traceback.extract_tb(exc.__traceback__)[-1]
            where = f"{Path(last.filename).name}, line {last.lineno}"
            return _Outcome(index, None, ConvertError(f"Task {index} failed on an executor: {type(exc).__name__}: {exc} ({where})."))
        return _Outcome(index, latest[0], None)

    def _begin(self) -> Callable[[int, Callable[[TaskProgress], None]], None]:
        if self.version != __version__:
            raise BadSpec(
                f"The executors have dataprep-operator {__version__}, and the driver has {self.version}. Install the same release on all "
                "machines."
            )
        _prepare(self.code, may_hang(self.job))
        access = Access(settings_for(self.job.spec.stores, os.environ.get("DATAPREP_MOUNTS")))
        access.write_to(self.job.spec.output.uri)
        access.share_among(self.at_once)
        access.processes_here = self.cores or limits.processors()
        return self.tasks.begin(access, is_stopped=lambda: False)


@dataclass(frozen=True)
class _Code:
    """The files of `spec.code`, which the plan step has fetched on the driver's machine."""

    archive: bytes
    """A tar archive of the folder."""
    folder: str
    """The modules' folder in the archive."""
    commit_file: str | None
    """The file in the archive with the commit of `spec.code.git`."""


def _code() -> _Code | None:
    """Returns the user's code in this process's environment, if there is any."""
    folder, commit_file = os.environ.get(plugins.CODE_VARIABLE), os.environ.get(plugins.COMMIT_VARIABLE)
    if not folder:
        return None
    top = Path(commit_file).parent if commit_file else Path(folder)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(top, arcname=".")
    return _Code(archive.getvalue(), str(Path(folder).relative_to(top)), str(Path(commit_file).relative_to(top)) if commit_file else None)


@cache
def _prepare(code: _Code | None, may_hang: bool) -> None:
    """Prepares this process. Spark uses a process for several tasks; only the first one prepares it."""
    guard()
    if code is not None:
        top = Path(tempfile.mkdtemp(prefix="dataprep-code-"))
        with tarfile.open(fileobj=io.BytesIO(code.archive)) as tar:
            tar.extractall(top, filter="data")
        os.environ[plugins.CODE_VARIABLE] = str(top / code.folder)
        if code.commit_file is not None:
            os.environ[plugins.COMMIT_VARIABLE] = str(top / code.commit_file)
    if may_hang:
        Watchdog().__enter__()  # the watchdog ends with this process


class _Appended:
    """The rule by which Spark merges the outcomes of tasks: it appends them. PySpark calls such a rule an `AccumulatorParam`."""

    def zero(self, value: list[_Outcome]) -> list[_Outcome]:
        """Returns the outcomes of a task that has just begun."""
        del value
        return []

    def addInPlace(self, value1: list[_Outcome], value2: list[_Outcome]) -> list[_Outcome]:  # noqa: N802 - PySpark's name
        """Appends outcomes."""
        value1.extend(value2)
        return value1


def _is_final(error: ConvertError | None) -> bool:
    """Whether a task's error ends the run. Unreachable stores may be reachable again later."""
    return error is not None and not isinstance(error, Unreachable)


@contextmanager
def _watched(
    outcomes: "Accumulator[list[_Outcome]]", tasks: int, watch: Callable[[int, TaskProgress], None], *, cancel: Callable[[], None]
) -> Iterator[None]:
    """While the block runs, passes the counts of finished tasks to `watch`, and cancels the others after an error that is final."""
    ended = threading.Event()
    shown = 0

    def show() -> bool:
        nonlocal shown
        new = outcomes.value[shown:]
        shown += len(new)
        for outcome in new:
            if outcome.progress is not None:
                watch(outcome.index, outcome.progress)
        return shown < tasks and any(_is_final(outcome.error) for outcome in new)

    def follow() -> None:
        while not ended.wait(_POLL_SECONDS):
            if show():
                cancel()

    thread = threading.Thread(target=follow, name="spark", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        show()


@contextmanager
def executors_of(master: str | None, settings: Mapping[str, str], *, name: str) -> Iterator[Executors]:
    """Starts a Spark application, and stops it after the block. Within `spark-submit`, uses its application.

    `master` is None if `spark-submit` or Spark's configuration names the master; otherwise, Spark uses this machine. Raises BadSpec if
    there is no PySpark, no Java or no such master.
    """
    if master is not None and master.startswith("sc://"):
        raise BadSpec(f"{master} is Spark Connect, which can't run tasks in Python. Give the cluster's master, such as spark://host:7077.")
    try:
        from pyspark import SparkConf, SparkContext
    except ImportError as exc:
        raise BadSpec("--engine spark needs PySpark: pip install 'dataprep-operator[spark]'") from exc
    # numpy's sums depend on the number of threads.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    conf = SparkConf().setAppName(f"dataprep {name}").set("spark.executorEnv.OPENBLAS_NUM_THREADS", "1")
    conf.set("spark.ui.showConsoleProgress", "false")  # `dataprep` shows its own
    if master is not None:
        conf.setMaster(master)
    for key, value in settings.items():
        conf.set(key, value)
    try:
        context = SparkContext(conf=conf)
    except Exception as exc:  # Py4J and PySpark raise exceptions of many types
        raise _translate(exc) from exc
    try:
        yield Executors(context)
    finally:
        context.stop()


_CAUSES: Final[Sequence[tuple[str, type[ConvertError], str]]] = (
    ("JAVA_GATEWAY_EXITED", BadSpec, "Spark's Java process didn't start. Spark 4 needs Java 17 or later: set JAVA_HOME to its folder"),
    (
        "UnsupportedClassVersionError",
        BadSpec,
        "This Java is too old for Spark. Spark 4 needs Java 17 or later: set JAVA_HOME to its folder",
    ),
    (
        "PYTHON_VERSION_MISMATCH",
        BadSpec,
        "The executors have another Python version than the driver. Set PYSPARK_PYTHON to the same version",
    ),
    ("No module named 'dataprep", BadSpec, "The executors' Python has no dataprep-operator. Install the driver's release there"),
    ("Could not parse Master URL", BadSpec, "Spark doesn't know such a master. Expected for example local[4], spark://host:7077 or yarn"),
    ("HADOOP_CONF_DIR", BadSpec, "For --master yarn, set HADOOP_CONF_DIR to the folder with the cluster's core-site.xml and yarn-site.xml"),
    ("All masters are unresponsive", Unreachable, "Spark's master can't be reached"),
    ("SparkContext was shut down", Unreachable, "Spark's application was stopped, or its master was lost, before all tasks were done"),
    ("exited unexpectedly", ConvertError, "The process of a task was killed again and again. It may have run out of memory"),
)
"""Words in Spark's errors, the error to raise, and what to do."""


def _translate(error: Exception) -> ConvertError:
    """Returns an error with one sentence that says what to do. Spark's own text is in the log."""
    text = str(error)
    logger.info("Spark failed: %s", text)
    for words, kind, sentence in _CAUSES:
        if words in text:
            return kind(f"{sentence}. Spark says: {_first_line(text)}")
    return ConvertError(f"Spark failed: {_first_line(text)}")


def _first_line(text: str) -> str:
    """Returns the first line with more than a Java class."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = (line.partition("Exception: ")[2] for line in lines if "Exception: " in line)
    return next(named, lines[0] if lines else "nothing")
