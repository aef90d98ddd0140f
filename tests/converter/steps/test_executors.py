"""Tasks on the executors of a Spark cluster.

These tests don't need Spark. `PlayedContext` stands in for a Spark context, and also does the unusual things that Spark's guarantees allow.
Tests with a real Spark are in tests/interop/heavy/test_spark_jobs.py.
"""

import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.builders.digits import EIGHT, digits_job, sha256s
from tests.builders.specs import parse_job

from dataprep_api.exits import Exit
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter import __version__
from dataprep_converter.cli.display import Display
from dataprep_converter.core.errors import BadData, BadSpec, ConvertError, Unreachable
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.runtime import limits, plugins
from dataprep_converter.steps import executors, spark_sql
from dataprep_converter.steps.executors import Executors
from dataprep_converter.steps.run import run
from dataprep_converter.tools.verification import verify

SPEC = {"source": {"csv": {"uris": ["in"]}}, "output": {"uri": "out", "format": "tfrecord"}}
JOIN = {"join": {"keys": ["id"], "tables": [{"name": name, "source": SPEC["source"]} for name in "ab"]}}


@pytest.fixture(autouse=True)
def _own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process stands in for an executor, so the memory setting of the executor must be undone after the test."""
    monkeypatch.setenv(limits.MEMORY_VARIABLE, "")


class PlayedAccumulator:
    """Stands in for a Spark accumulator, which collects the outcomes of tasks."""

    def __init__(self) -> None:
        self.value: list[Any] = []

    def add(self, outcomes: list[Any]) -> None:
        self.value += pickle.loads(pickle.dumps(outcomes))  # noqa: S301 - its own pickle


class PlayedConf(dict[str, str]):
    """The settings of a Spark application."""

    def getAll(self) -> list[tuple[str, str]]:  # noqa: N802 - PySpark's name
        return list(self.items())


class PlayedContext:
    """A Spark context that runs each task in this process. The tasks in `twice` are run two times.

    For each attempt, `loses` has the tasks whose outcomes are lost, and `failures` has the error that is raised after the tasks. With
    `waits_for_cancel`, Spark's job runs until the driver cancels it.
    """

    defaultParallelism = 3  # noqa: N815 - PySpark's name

    def __init__(
        self,
        *,
        master: str = "spark://host:7077",
        twice: Sequence[int] = (),
        loses: Sequence[Sequence[int]] = (),
        failures: Sequence[Exception] = (),
        waits_for_cancel: bool = False,
    ) -> None:
        self.master = master
        self.twice = twice
        self.loses = list(loses)
        self.failures = list(failures)
        self.waits_for_cancel = waits_for_cancel
        self.jobs: list[list[int]] = []
        self.cancelled = threading.Event()
        self.accumulators: list[PlayedAccumulator] = []

    def getConf(self) -> PlayedConf:  # noqa: N802 - PySpark's name
        return PlayedConf({"spark.executor.cores": "3", "spark.executor.memory": "2g", "spark.executor.memoryOverhead": "900"})

    def accumulator(self, _value: list[Any], _rule: Any) -> PlayedAccumulator:
        self.accumulators.append(PlayedAccumulator())
        return self.accumulators[-1]

    def setJobGroup(self, _group: str, _text: str, **_more: bool) -> None:  # noqa: N802 - PySpark's name
        pass

    def cancelJobGroup(self, _group: str) -> None:  # noqa: N802 - PySpark's name
        self.cancelled.set()

    def parallelize(self, numbers: Iterable[int], slices: int) -> "PlayedContext":
        self.jobs.append(list(numbers))
        assert len(self.jobs[-1]) == slices
        return self

    def foreachPartition(self, do: Callable[[Iterable[int]], None]) -> None:  # noqa: N802 - PySpark's name
        outcomes = self.accumulators[-1].value
        lost = self.loses.pop(0) if self.loses else ()
        for number in self.jobs[-1]:
            counted = len(outcomes)
            do([number])
            if number in self.twice:
                del outcomes[counted:]  # the executor was lost after it had done the task
                do([number])
            if number in lost:
                del outcomes[counted:]
        if self.waits_for_cancel:
            assert self.cancelled.wait(60)
            raise RuntimeError("Job 0 cancelled as part of a cancelled job group")
        if self.failures:
            raise self.failures.pop(0)


class PlayedTasks:
    """Tasks that fail. `errors` has the errors that each task raises, in order."""

    def __init__(self, errors: dict[int, list[Exception]]) -> None:
        self.errors = errors

    def begin(self, access: Access, *, is_stopped: Callable[[], bool]) -> Callable[[int, Callable[[TaskProgress], None]], None]:
        assert access.processes_here == 3
        assert not is_stopped()

        def do(index: int, tell: Callable[[TaskProgress], None]) -> None:
            if self.errors.get(index):
                raise self.errors[index].pop(0)
            tell(TaskProgress(records_out=1))
            tell(TaskProgress(records_out=10 + index))

        return do


def played(errors: dict[int, list[Exception]], tmp_path: Path, **context: Any) -> tuple[PlayedContext, Any, dict[int, int]]:
    """Returns the context, the outcome of four tasks, and the counts that were shown."""
    spark, shown = PlayedContext(**context), dict[int, int]()

    def watch(index: int, progress: TaskProgress) -> None:
        shown[index] = progress.records_out

    done = Executors(spark).run(
        parse_job(SPEC | {"output": {"uri": str(tmp_path), "format": "tfrecord"}}), PlayedTasks(errors), range(4), watch=watch
    )
    return spark, done, shown


def test_the_last_counts_of_each_task_are_shown(tmp_path: Path) -> None:
    spark, done, shown = played({}, tmp_path)
    assert not done.errors
    assert done.results == dict.fromkeys(range(4))
    assert shown == {0: 10, 1: 11, 2: 12, 3: 13}
    assert spark.jobs == [[0, 1, 2, 3]]


def test_tasks_whose_store_could_not_be_reached_are_tried_again(tmp_path: Path) -> None:
    spark, done, shown = played({1: [Unreachable("s3 timed out")], 3: [Unreachable("s3 timed out")] * 2}, tmp_path)
    assert not done.errors
    assert shown == {0: 10, 1: 11, 2: 12, 3: 13}
    assert spark.jobs == [[0, 1, 2, 3], [1, 3], [3]]


def test_a_store_that_stays_unreachable_ends_the_run(tmp_path: Path) -> None:
    spark, done, _ = played({2: [Unreachable("s3 timed out")] * 9}, tmp_path)
    assert [str(error) for error in done.errors] == ["s3 timed out"]
    assert spark.jobs == [[0, 1, 2, 3], [2], [2]]


def test_other_errors_end_the_run_at_once(tmp_path: Path) -> None:
    """Errors that a retry can't fix have the same type and text as on a single machine.

    They are reported before errors that a retry might fix.
    """
    spark, done, _ = played({0: [Unreachable("s3 timed out")], 2: [BadData("line 7 is bad", uri="in.csv")]}, tmp_path)
    assert [(type(error), str(error)) for error in done.errors] == [(BadData, "line 7 is bad"), (Unreachable, "s3 timed out")]
    assert spark.jobs == [[0, 1, 2, 3]]


class UnreadableError(BadData):
    """An error that can be pickled, but not unpickled."""

    def __init__(self, fault: str, *, offset: int) -> None:
        super().__init__(f"{fault} at {offset}")


def test_an_error_that_can_not_be_pickled_keeps_its_text(tmp_path: Path) -> None:
    _, done, _ = played({1: [UnreadableError("bad CRC", offset=7)]}, tmp_path)
    assert [(type(error), str(error)) for error in done.errors] == [(ConvertError, "bad CRC at 7")]


def test_a_lost_outcome_is_not_success(tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match=r"^Spark lost the outcomes of 2 tasks\. Run the job again: it makes only the missing files\.$"):
        played({}, tmp_path, loses=[[1, 3]])


def test_only_a_local_master_leaves_killed_tasks_to_us(tmp_path: Path) -> None:
    killed = RuntimeError("Python worker exited unexpectedly (crashed)")
    spark, done, _ = played({}, tmp_path, master="local[2]", loses=[[1, 3], [3]], failures=[killed, killed])
    assert not done.errors
    assert spark.jobs == [[0, 1, 2, 3], [1, 3], [3]]
    with pytest.raises(ConvertError, match=r"^The process of a task was killed again and again\."):
        played({}, tmp_path, master="local[2]", loses=[[3]] * 3, failures=[killed] * 3)
    with pytest.raises(ConvertError, match=r"^The process of a task was killed again and again\."):
        played({}, tmp_path, loses=[[3]], failures=[killed])


def test_a_relative_output_is_refused_on_other_machines() -> None:
    job = parse_job(SPEC)
    with pytest.raises(BadSpec, match=r"^output\.uri: out is a relative path, but Spark's executors have other working directories\. "):
        Executors(PlayedContext()).run(job, PlayedTasks({}), range(1), watch=lambda *_: None)
    assert not Executors(PlayedContext(master="local[2]")).run(job, PlayedTasks({}), range(1), watch=lambda *_: None).errors


def test_a_signal_cancels_the_tasks(tmp_path: Path) -> None:
    """The signal arrives while the driver shows the counts of the first task."""
    spark = PlayedContext(waits_for_cancel=True)

    def interrupted(_index: int, _progress: TaskProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Executors(spark).run(
            parse_job(SPEC | {"output": {"uri": str(tmp_path), "format": "tfrecord"}}), PlayedTasks({}), range(4), watch=interrupted
        )
    assert spark.cancelled.is_set()


@pytest.mark.parametrize(
    ("settings", "mebibytes"),
    [
        ({}, 384),
        ({"spark.executor.memory": "8g"}, 819),
        ({"spark.executor.memoryOverhead": "2g"}, 2048),
        ({"spark.executor.memoryOverhead": "600", "spark.executor.pyspark.memory": "1g"}, 1624),
        ({"spark.executor.memory": "10g", "spark.executor.memoryOverheadFactor": "0.4"}, 4096),
    ],
)
def test_tasks_have_the_memory_beside_the_heap(settings: dict[str, str], mebibytes: int) -> None:
    assert executors._memory_of_tasks(settings) >> 20 == mebibytes


def test_an_unexpected_error_names_the_task_and_the_line(tmp_path: Path) -> None:
    _, done, _ = played({1: [ZeroDivisionError("by zero")]}, tmp_path)
    (error,) = done.errors
    assert str(error).startswith("Task 1 failed on an executor: ZeroDivisionError: by zero (test_executors.py, line ")


def test_the_other_tasks_are_cancelled_after_a_final_error(tmp_path: Path) -> None:
    spark, done, _ = played({1: [BadData("line 7 is bad")]}, tmp_path, loses=[[3]], waits_for_cancel=True)
    assert [str(error) for error in done.errors] == ["line 7 is bad"]
    assert spark.cancelled.is_set()


@pytest.mark.parametrize(
    ("words", "sentence", "code"),
    [
        (
            "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.",
            "Spark 4 needs Java 17 or later in JAVA_HOME",
            Exit.BAD_SPEC,
        ),
        (
            "o.a.s.SparkException: Could not parse Master URL: 'sparky://x'",
            "Expected for example local[4], spark://host:7077 or yarn",
            Exit.BAD_SPEC,
        ),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version", "Set PYSPARK_PYTHON to the same version", Exit.BAD_SPEC),
        ("ModuleNotFoundError: No module named 'dataprep_converter'", "Install the driver's release there", Exit.BAD_SPEC),
        ("Python worker exited unexpectedly (crashed)", "It may have had too little memory", Exit.INTERNAL),
        ("x.SparkException: All masters are unresponsive! Giving up.", "Spark's master can't be reached", Exit.UNREACHABLE),
        (
            "java.lang.IllegalStateException: SparkContext was shut down",
            "its master was lost, before all tasks were done",
            Exit.UNREACHABLE,
        ),
        ("java.lang.OutOfMemoryError: Java heap space", "with a local master spark.driver.memory", Exit.INTERNAL),
        ("java.io.IOException: No space left on device", "no space left for Spark's temporary files", Exit.NOT_FOUND),
    ],
)
def test_errors_of_spark_become_a_sentence(words: str, sentence: str, code: Exit, tmp_path: Path) -> None:
    with pytest.raises(ConvertError) as error:
        played({}, tmp_path, loses=[[3]], failures=[RuntimeError(f"An error occurred while calling o1.\n{words}\n\tat java.base/x")])
    assert sentence in str(error.value)
    assert error.value.exit == code
    assert "\n" not in str(error.value)


def test_other_errors_of_spark_are_shown_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match=r"^Spark failed: Job aborted due to stage failure\.$"):
        played(
            {},
            tmp_path,
            loses=[[3]],
            failures=[RuntimeError("An error occurred.\n: org.apache.spark.SparkException: Job aborted due to stage failure.\n\tat x")],
        )


def test_executors_with_another_release_are_refused() -> None:
    opening = executors._Opening(parse_job(SPEC), None, 1, 3, None, version="0.0.1")
    work = executors._Work(PlayedTasks({}), PlayedAccumulator(), opening)
    work([0])
    (outcome,) = work.outcomes.value
    assert str(outcome.error) == (
        f"The executors have dataprep-operator {__version__}, and the driver has 0.0.1. Install the same release on all machines."
    )


def test_no_pyspark_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with (
        pytest.raises(BadSpec, match=r"^--engine spark needs PySpark: pip install 'dataprep-operator\[spark\]'$"),
        executors.executors_of("local[2]", {}, name="numbers"),
    ):
        pass


@pytest.mark.parametrize(
    ("master", "message"),
    [
        ("sc://host", "sc://host is Spark Connect, which can't run tasks in Python."),
        ("Yarn", "Spark has no master such as Yarn. Expected for example local[4], spark://host:7077 or yarn."),
        ("sparky://x", "Spark has no master such as sparky://x."),
        ("yarn", "For --master yarn, set HADOOP_CONF_DIR to the folder with the cluster's core-site.xml and yarn-site.xml."),
    ],
)
def test_masters_that_spark_refuses_are_named(master: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(BadSpec) as error, executors.executors_of(master, {}, name="numbers"):
        pass
    assert str(error.value).startswith(message)


def test_executors_write_the_same_bytes_even_if_tasks_run_twice(few: Path, tmp_path: Path) -> None:
    """All tasks read the plan that the driver stored."""
    first, second = (digits_job(few, tmp_path / name, output=EIGHT, workers={"parallelism": 4}) for name in ("first", "second"))
    run(first, access=Access(), workers=1, display=Display(quiet=True))
    spark = PlayedContext(twice=[0, 2])
    run(second, access=Access(), workers=1, display=Display(quiet=True), executors=Executors(spark))
    assert len(spark.jobs[0]) > 2
    assert sha256s(tmp_path / "first") == sha256s(tmp_path / "second")
    verify(str(tmp_path / "second"), Access())


def test_the_users_code_reaches_the_executors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "git" / "lib"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text("def f(): pass\n")
    (tmp_path / "git" / ".dataprep-commit").write_text("c0ffee")
    monkeypatch.setenv(plugins.CODE_VARIABLE, str(folder))
    monkeypatch.setenv(plugins.COMMIT_VARIABLE, str(tmp_path / "git" / ".dataprep-commit"))
    code = executors._code()
    before = plugins.digest()
    assert code is not None
    executors._prepare.__wrapped__(code, may_hang=False)
    assert plugins.digest() == before == "c0ffee:lib"
    assert (Path(os.environ[plugins.CODE_VARIABLE]) / "mine.py").read_text() == "def f(): pass\n"


def test_a_script_does_not_run_on_executors(tmp_path: Path) -> None:
    script = {"command": ["true"], "outputs": ["*.x"]}
    job = parse_job({"script": script, "output": {"uri": str(tmp_path / "out")}})
    with pytest.raises(BadSpec, match="A script is one program on one machine"):
        run(job, access=Access(), workers=1, display=Display(quiet=True), executors=Executors(PlayedContext()))
    assert not (tmp_path / "out").exists()


def a_join(output: str) -> DataPrepJob:
    return parse_job({"source": JOIN, "output": {"uri": output, "format": "tfrecord"}})


@pytest.mark.parametrize(
    ("master", "output", "is_remote"),
    [
        ("local[2]", "out", False),
        ("local-cluster[2,1,1024]", "/out", True),
        ("spark://host:7077", "s3://b/out", True),
        ("yarn", "/out", True),
    ],
)
def test_executors_of_any_master_may_join_tables(master: str, output: str, is_remote: bool) -> None:
    engine = Executors(PlayedContext(master=master)).sql_engine(a_join(output))
    assert engine is not None
    assert engine.is_remote == is_remote


def test_spark_also_finds_duplicates() -> None:
    job = parse_job(SPEC | {"deduplicate": {"columns": ["label"]}, "output": {"uri": "/out", "format": "tfrecord"}})
    engine = Executors(PlayedContext(master="yarn")).sql_engine(job)
    assert engine is not None
    assert engine.is_remote


def test_only_joins_and_duplicates_are_planned_by_spark_and_not_on_the_hub() -> None:
    assert Executors(PlayedContext(master="local[2]")).sql_engine(parse_job(SPEC)) is None
    on_the_hub = a_join("hf://datasets/me/joined")
    assert Executors(PlayedContext(master="local[2]")).sql_engine(on_the_hub) is not None
    assert Executors(PlayedContext(master="yarn")).sql_engine(on_the_hub) is None


def test_joined_rows_are_not_laid_down_in_a_relative_path_on_other_machines() -> None:
    with pytest.raises(BadSpec, match=r"^output\.uri: out is a relative path"):
        Executors(PlayedContext(master="yarn")).sql_engine(a_join("out"))


@pytest.mark.parametrize(("memory", "share"), [(300 << 20, 22 << 20), (200 << 20, 0)], ids=["some memory", "no memory"])
def test_spark_joins_tables_that_are_larger_than_the_memory_for_their_rows(
    memory: int, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_sql, "find_spec", lambda _: object())
    monkeypatch.setenv(limits.MEMORY_VARIABLE, str(memory))
    engine = Executors(PlayedContext(master="local[2]")).sql_engine(a_join("out"))
    assert engine is not None
    assert [engine.helps(size) for size in (0, share, share + 1)] == [False, False, True]


def test_without_pandas_the_tables_are_joined_here(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(spark_sql, "find_spec", lambda _: None)
    engine = spark_sql.SparkSql(PlayedContext(), Access, is_remote=False, least_bytes=5, translate=executors.translate)
    assert not engine.helps(5)
    assert not caplog.records
    assert not engine.helps(6)
    assert "because PySpark's mapInArrow needs pandas, which isn't installed." in caplog.text


def test_the_first_rows_of_parts_count_the_rows_of_earlier_parts() -> None:
    assert spark_sql._firsts({}) == [0]
    assert spark_sql._firsts({0: 3, 2: 4, 3: 1}) == [0, 3, 3, 7]
