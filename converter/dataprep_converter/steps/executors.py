"""The executors of a Spark cluster, on which `dataprep run --engine spark` runs the tasks of a plan.

Spark may run a task several times, even at the same time: after it has lost an executor, or by speculation. Repeated runs do no harm,
because each task is idempotent: all attempts write the same bytes, and a file becomes visible only when it is complete.

A task returns its error as a value. If it raised the error, Spark would repeat the task, and would show the error below its own stack
trace. So Spark itself repeats only the tasks whose process or executor was lost.
"""

import io
import logging
import os
import pickle
import re
import signal
import tarfile
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
from dataprep_converter.core.errors import BadSpec, ConvertError, StoreFull, Unreachable
from dataprep_converter.core.redaction import guard
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.store_settings import access_of
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.runtime import limits, plugins
from dataprep_converter.runtime.watchdog import Watchdog
from dataprep_converter.steps.processes import Done, Tasks, may_hang
from dataprep_converter.stores import scheme_of

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext

    from dataprep_converter.steps.spark_sql import SparkSql

logger = logging.getLogger(__name__)

MOST_ATTEMPTS: Final = 3
"""How often a task is tried if it can't reach a store. With a `local` master, this also applies if the task's process is killed; other
masters retry such tasks themselves."""
_POLL_SECONDS: Final = 0.2
_MASTERS: Final = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|spark://.+|k8s://.+|yarn")
_HUB: Final = "hf"
_RESERVED_BYTES: Final = 384 << 20
"""The minimum memory that Spark adds to an executor's heap by default. If a tenth of the heap is more, Spark adds a tenth."""


class Executors:
    """The executors of a Spark application. `executors_of` starts the application."""

    def __init__(self, context: "SparkContext") -> None:
        self._context = context
        self._is_local = context.master == "local" or context.master.startswith("local[")
        self._engines: list[SparkSql] = []

    def close(self) -> None:
        """Stops the application."""
        try:
            for engine in self._engines:
                engine.close()
        finally:
            self._context.stop()

    def sql_engine(self, job: DataPrepJob) -> "SparkSql | None":
        """Returns the engine that may join the job's tables and find duplicate records, or None if this process does this work.

        Executors on other machines write their results to the output's store. They can't use the Hub as this store, because the Hub would
        keep the results in its history.
        """
        has_work = job.spec.data.join is not None or job.spec.deduplicate is not None
        if not has_work or (not self._is_local and scheme_of(job.spec.output.uri) == _HUB):
            return None
        self._check_output(job)
        from dataprep_converter.readers.joins.joined_tables import share_of_memory
        from dataprep_converter.steps.spark_sql import SparkSql

        opening = self._opening(job, at_once=int(self._context.defaultParallelism))
        engine = SparkSql(self._context, opening, is_remote=not self._is_local, least_bytes=max(0, share_of_memory()), translate=translate)
        self._engines.append(engine)
        return engine

    def run(
        self, job: DataPrepJob, tasks: Tasks[TaskProgress, None], numbers: Sequence[int], *, watch: Callable[[int, TaskProgress], None]
    ) -> Done[None]:
        """Runs the tasks with these numbers, until all tasks are finished or one task has failed.

        Calls `watch` with the number and counts of each finished task. Raises ConvertError if Spark gives up.
        """
        self._check_output(job)
        done: Done[None] = Done()
        waiting = list(numbers)
        for attempt in range(1, MOST_ATTEMPTS + 1):
            outcomes, failure = self._try(job, tasks, waiting, watch=watch)
            done.results |= {outcome.index: None for outcome in outcomes if outcome.error is None}
            errors = [outcome.error for outcome in outcomes if outcome.error is not None]
            done.errors = sorted(errors, key=lambda error: not _is_final(error))
            waiting = [index for index in waiting if index not in done.results]
            if not waiting or (errors and _is_final(done.errors[0])):
                break
            if len(errors) < len(waiting) and (attempt == MOST_ATTEMPTS or not self._is_local or isinstance(failure, BadSpec)):
                raise failure or ConvertError(
                    f"Spark lost the outcomes of {len(waiting) - len(errors)} tasks. Run the job again: it makes only the missing files."
                )
            if attempt < MOST_ATTEMPTS:
                logger.warning("%d tasks are tried again (%d of %d): %s", len(waiting), attempt + 1, MOST_ATTEMPTS, failure or errors[0])
        return done

    def _check_output(self, job: DataPrepJob) -> None:
        """Raises BadSpec if the executors don't find the output."""
        if not self._is_local and scheme_of(job.spec.output.uri) == "" and not Path(job.spec.output.uri).is_absolute():
            raise BadSpec(
                f"output.uri: {job.spec.output.uri} is a relative path, but Spark's executors have other working directories. Give an "
                "absolute path on a disk that all machines share, or a URI of a store."
            )

    def _try(
        self, job: DataPrepJob, tasks: Tasks[TaskProgress, None], numbers: Sequence[int], *, watch: Callable[[int, TaskProgress], None]
    ) -> "tuple[list[_Outcome], ConvertError | None]":
        """Runs each task once.

        Returns the outcomes, and Spark's error if Spark has given up. After an error that a retry can't fix, the other tasks are cancelled.
        """
        context, group = self._context, f"dataprep-{uuid.uuid4().hex}"
        outcomes = context.accumulator([], _Appended())
        do = _Work(tasks, outcomes, self._opening(job, at_once=min(job.spec.workers.parallelism, len(numbers))))
        failures: list[Exception] = []

        def submit() -> None:
            try:
                context.setJobGroup(group, f"dataprep: {job.metadata.name}", interruptOnCancel=True)
                context.parallelize(numbers, len(numbers)).foreachPartition(do)
            except Exception as exc:  # Py4J and PySpark raise exceptions of many types
                failures.append(exc)

        shown, is_cancelled = 0, False
        # Keep this thread free for signals: if a signal interrupts a Py4J call, all later Py4J calls of the same thread block.
        thread = threading.Thread(target=submit, name="spark", daemon=True)
        thread.start()
        try:
            while thread.is_alive() or shown < len(outcomes.value):
                thread.join(_POLL_SECONDS)
                new = outcomes.value[shown:]
                shown += len(new)
                for outcome in new:
                    if outcome.progress is not None:
                        watch(outcome.index, outcome.progress)
                if not is_cancelled and shown < len(numbers) and any(_is_final(outcome.error) for outcome in new):
                    is_cancelled = True
                    context.cancelJobGroup(group)
        except BaseException:
            context.cancelJobGroup(group)
            raise
        return list(outcomes.value), translate(failures[0]) if failures else None

    def _opening(self, job: DataPrepJob, *, at_once: int) -> "_Opening":
        memory = None if self._is_local else _memory_of_tasks(dict(self._context.getConf().getAll()))
        return _Opening(job, _code(), at_once=at_once, cores=self._cores(), memory=memory)

    def _cores(self) -> int | None:
        """Returns how many tasks an executor runs at the same time, or None for one task per core of its machine."""
        if self._is_local:
            return int(self._context.defaultParallelism)
        cores = self._context.getConf().get("spark.executor.cores") or ("1" if self._context.master == "yarn" else None)
        return int(cores) if cores else None


def _memory_of_tasks(settings: Mapping[str, str]) -> int:
    """Returns how many bytes an executor has, outside its heap, for the Python processes of its tasks."""
    heap = _bytes(settings.get("spark.executor.memory", "1g"))
    overhead = settings.get("spark.executor.memoryOverhead")
    factor = float(settings.get("spark.executor.memoryOverheadFactor", "0.1"))
    beside_heap = _bytes(overhead) if overhead else max(int(factor * heap), _RESERVED_BYTES)
    return beside_heap + _bytes(settings.get("spark.executor.pyspark.memory", "0"))


def _bytes(size: str) -> int:
    """Returns the number of bytes of a size such as `512m` in Spark's settings. A number alone is in MiB."""
    number, unit = re.fullmatch(r"(\d+)([kmgtp]?)b?", size.strip().lower()).groups()  # type: ignore[union-attr] # Spark has checked it
    return int(number) << {"k": 10, "m": 20, "": 20, "g": 30, "t": 40, "p": 50}[unit]


@dataclass(frozen=True)
class _Outcome:
    """The outcome of a task: its last counts, or the error that ended it."""

    index: int
    progress: TaskProgress | None
    error: ConvertError | None


@dataclass(frozen=True)
class _Opening:
    """Prepares a Python process of an executor for tasks of a job.

    Spark pickles this object and sends it to the executors. The object contains the job. It contains no credentials from environment
    variables or files, because each executor has its own credentials.
    """

    job: DataPrepJob
    code: "_Code | None"
    at_once: int
    """Number of tasks that run at the same time on all executors. They share the request limits."""
    cores: int | None
    """See `Executors._cores`. The tasks of an executor share its memory."""
    memory: int | None
    """Number of bytes for the tasks of an executor, or None if its machine's memory is the limit."""
    version: str = __version__

    def __call__(self) -> Access:
        """Prepares this process, and returns the Access of a task. Raises BadSpec if this machine has another release."""
        if self.version != __version__:
            raise BadSpec(
                f"The executors have dataprep-operator {__version__}, and the driver has {self.version}. Install the same release on all "
                "machines."
            )
        _prepare(self.code, may_hang(self.job))
        if self.memory is not None:
            os.environ[limits.MEMORY_VARIABLE] = str(self.memory)
        access = access_of(self.job)
        access.share_among(self.at_once)
        access.processes_here = self.cores or limits.processors()
        return access


@dataclass(frozen=True)
class _Work:
    """Runs tasks in a Python process of an executor. Spark pickles this object and sends it to the executors."""

    tasks: Tasks[TaskProgress, None]
    outcomes: "Accumulator[list[_Outcome]]"
    opening: _Opening

    def __call__(self, numbers: Iterable[int]) -> None:
        """Runs the tasks, and adds their outcomes to the accumulator."""
        for index in numbers:
            outcome = self._outcome(index)
            try:
                pickle.loads(pickle.dumps(outcome))  # noqa: S301 - its own pickle
            except Exception:  # an error whose class can't be pickled would be lost on its way to the driver
                outcome = _Outcome(index, None, ConvertError(str(outcome.error)))
            self.outcomes.add([outcome])

    def _outcome(self, index: int) -> _Outcome:
        latest: TaskProgress | None = None

        def tell(progress: TaskProgress) -> None:
            nonlocal latest
            latest = progress

        try:
            self._begin()(index, tell)
        except ConvertError as exc:
            return _Outcome(index, None, exc)
        except Exception as exc:  # a bug, or an error of the user's code; it ends the run as it would on one machine
            logger.exception("task %d failed", index)
            last = traceback.extract_tb(exc.__traceback__)[-1]
            where = f"{Path(last.filename).name}, line {last.lineno}"
            return _Outcome(index, None, ConvertError(f"Task {index} failed on an executor: {type(exc).__name__}: {exc} ({where})."))
        return _Outcome(index, latest, None)

    def _begin(self) -> Callable[[int, Callable[[TaskProgress], None]], None]:
        access = self.opening()
        access.write_to(self.opening.job.spec.output.uri)
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
    """Returns the user's code that this process's environment variables name, or None."""
    folder, commit_file = os.environ.get(plugins.CODE_VARIABLE), os.environ.get(plugins.COMMIT_VARIABLE)
    if not folder:
        return None
    top = Path(commit_file).parent if commit_file else Path(folder)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(top, arcname=".", filter=lambda file: None if file.name.endswith("/__pycache__") else file)
    return _Code(archive.getvalue(), str(Path(folder).relative_to(top)), str(Path(commit_file).relative_to(top)) if commit_file else None)


@cache
def _prepare(code: _Code | None, may_hang: bool) -> None:
    """Prepares this process. Spark uses a process for several tasks; only the first task prepares the process."""
    guard()
    if code is not None:
        top = plugins.new_folder()
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


def _is_final(error: Exception | None) -> bool:
    """Whether a task's error ends the run. Unreachable doesn't, because the store may be reachable again later."""
    return error is not None and not isinstance(error, Unreachable)


@contextmanager
def executors_of(master: str | None, settings: Mapping[str, str], *, name: str) -> Iterator[Executors]:
    """Starts a Spark application, and stops it after the block. Within `spark-submit`, uses the application of `spark-submit`.

    If `master` is None, `spark-submit` or Spark's configuration names the master; if neither names one, Spark uses this machine. Raises
    BadSpec if PySpark or Java is missing, or if Spark has no such master.
    """
    if master is not None:
        _check_master(master)
    try:
        from pyspark import SparkConf, SparkContext
    except ImportError as exc:
        raise BadSpec("--engine spark needs PySpark: pip install 'dataprep-operator[spark]'") from exc
    # numpy's sums depend on the number of threads.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    conf = SparkConf().setAppName(f"dataprep {name}").set("spark.executorEnv.OPENBLAS_NUM_THREADS", "1")
    conf.set("spark.ui.showConsoleProgress", "false")  # `dataprep` shows its own progress
    if master is not None:
        conf.setMaster(master)
    for key, value in settings.items():
        conf.set(key, value)
    handler = signal.getsignal(signal.SIGINT)
    try:
        context = SparkContext(conf=conf)
    except Exception as exc:  # Py4J and PySpark raise exceptions of many types
        raise translate(exc) from exc
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)  # PySpark has replaced this handler
    executors = Executors(context)
    try:
        yield executors
    finally:
        executors.close()


def _check_master(master: str) -> None:
    """Raises BadSpec for a master that Spark refuses. Spark itself would exit without an explanation."""
    if master.startswith("sc://"):
        raise BadSpec(f"{master} is Spark Connect, which can't run tasks in Python. Give the cluster's master, such as spark://host:7077.")
    if _MASTERS.fullmatch(master) is None:
        raise BadSpec(f"Spark has no master such as {master}. Expected for example local[4], spark://host:7077 or yarn.")
    if master == "yarn" and not (os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")):
        raise BadSpec("For --master yarn, set HADOOP_CONF_DIR to the folder with the cluster's core-site.xml and yarn-site.xml.")


_CAUSES: Final[Sequence[tuple[str, type[ConvertError], str]]] = (
    (
        "JAVA_GATEWAY_EXITED",
        BadSpec,
        "Spark's Java process didn't start. If the lines above don't say why: Spark 4 needs Java 17 or later in JAVA_HOME",
    ),
    ("UnsupportedClassVersionError", BadSpec, "This Java is too old for Spark. Spark 4 needs Java 17 or later in JAVA_HOME"),
    (
        "PYTHON_VERSION_MISMATCH",
        BadSpec,
        "The executors have another Python version than the driver. Set PYSPARK_PYTHON to the same version",
    ),
    ("No module named 'dataprep", BadSpec, "The executors' Python has no dataprep-operator. Install the driver's release there"),
    ("Could not parse Master URL", BadSpec, "Spark doesn't know such a master. Expected for example local[4], spark://host:7077 or yarn"),
    ("All masters are unresponsive", Unreachable, "Spark's master can't be reached"),
    ("SparkContext was shut down", Unreachable, "Spark's application was stopped, or its master was lost, before all tasks were done"),
    (
        "OutOfMemoryError",
        ConvertError,
        "A Java process of Spark had too little memory. Raise spark.executor.memory, or with a local master spark.driver.memory",
    ),
    (
        "ExecutorLostFailure",
        ConvertError,
        "The executor of a task was lost again and again. If its container had too little memory, raise spark.executor.memoryOverhead",
    ),
    ("No space left on device", StoreFull, "There is no space left for Spark's temporary files, which are in SPARK_LOCAL_DIRS"),
    ("exited unexpectedly", ConvertError, "The process of a task was killed again and again. It may have had too little memory"),
)
"""Words in Spark's errors, the error to raise, and what to do."""


def translate(error: Exception) -> ConvertError:
    """Returns an error with one sentence that says what to do. Spark's own text is in the log."""
    text = str(error)
    logger.info("Spark failed: %s", text)
    for words, kind, sentence in _CAUSES:
        if words in text:
            return kind(f"{sentence}. Spark says: {_first_line(text)}")
    return ConvertError(f"Spark failed: {_first_line(text)}")


def _first_line(text: str) -> str:
    """Returns the first line that contains more than the name of a Java class."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = (line.partition("Exception: ")[2] for line in lines if "Exception: " in line)
    return next(named, lines[0] if lines else "nothing")
