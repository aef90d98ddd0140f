"""Tasks on the executors of a Spark cluster. These tests play Spark: `PlayedContext` does what the promises of Spark's RDDs allow. Tests with
a real Spark are in tests/interop/heavy/test_spark_jobs.py."""

import os
import pickle
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.builders.digits import EIGHT, digits_job, sha256s
from tests.builders.specs import parse_job

from dataprep_api.exits import Exit
from dataprep_converter import __version__
from dataprep_converter.cli.display import Display
from dataprep_converter.core.errors import BadData, BadSpec, ConvertError, Unreachable
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.runtime import plugins
from dataprep_converter.steps import executors
from dataprep_converter.steps.executors import Executors
from dataprep_converter.steps.run import run
from dataprep_converter.tools.verification import verify

SPEC = {"source": {"csv": {"uris": ["in"]}}, "output": {"uri": "out", "format": "tfrecord"}}


class PlayedAccumulator:
    """Receives the outcomes of the tasks whose last attempt has ended."""

    def __init__(self) -> None:
        self.value: list[Any] = []

    def add(self, outcomes: list[Any]) -> None:
        self.value += pickle.loads(pickle.dumps(outcomes))  # noqa: S301 - its own pickle


class PlayedContext:
    """A Spark context that runs each task in this process, and some of them twice."""

    defaultParallelism = 2  # noqa: N815 - PySpark's name

    def __init__(self, *, twice: Sequence[int] = (), failure: Exception | None = None) -> None:
        self.twice = twice
        self.failure = failure
        self.jobs: list[list[int]] = []
        self.cancelled: list[str] = []
        self.accumulators: list[PlayedAccumulator] = []

    def getConf(self) -> dict[str, str]:  # noqa: N802 - PySpark's name
        return {"spark.executor.cores": "3"}

    def accumulator(self, _value: list[Any], _rule: Any) -> PlayedAccumulator:
        self.accumulators.append(PlayedAccumulator())
        return self.accumulators[-1]

    def setJobGroup(self, _group: str, _text: str, **_more: bool) -> None:  # noqa: N802 - PySpark's name
        pass

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802 - PySpark's name
        self.cancelled.append(group)

    def parallelize(self, numbers: Iterable[int], slices: int) -> "PlayedContext":
        self.jobs.append(list(numbers))
        assert len(self.jobs[-1]) == slices
        return self

    def foreachPartition(self, do: Callable[[Iterable[int]], None]) -> None:  # noqa: N802 - PySpark's name
        for number in self.jobs[-1]:
            if number in self.twice:
                counted = len(self.accumulators[-1].value)
                do([number])
                del self.accumulators[-1].value[counted:]  # the attempt was lost after it had done its work
            do([number])
        if self.failure is not None:
            raise self.failure


class PlayedTasks:
    """Tasks that fail as `errors` says: the errors of each task, in order."""

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
    """They have the type and the text that they have on one machine."""
    spark, done, _ = played({0: [Unreachable("s3 timed out")], 2: [BadData("line 7 is bad", uri="in.csv")]}, tmp_path)
    assert {type(error): str(error) for error in done.errors} == {Unreachable: "s3 timed out", BadData: "line 7 is bad"}
    assert spark.jobs == [[0, 1, 2, 3]]


def test_an_unexpected_error_names_the_task_and_the_line(tmp_path: Path) -> None:
    _, done, _ = played({1: [ZeroDivisionError("by zero")]}, tmp_path)
    (error,) = done.errors
    assert str(error).startswith("Task 1 failed on an executor: ZeroDivisionError: by zero (test_executors.py, line ")


def test_a_cancelled_job_ends_with_the_error_that_cancelled_it(tmp_path: Path) -> None:
    _, done, _ = played({1: [BadData("line 7 is bad")]}, tmp_path, failure=RuntimeError("Job 0 cancelled as part of a cancelled job group"))
    assert [str(error) for error in done.errors] == ["line 7 is bad"]


def test_the_driver_cancels_the_other_tasks_after_a_final_error() -> None:
    outcomes, cancelled, shown = PlayedAccumulator(), list[bool](), list[int]()
    with executors._watched(outcomes, 3, lambda index, _: shown.append(index), cancel=lambda: cancelled.append(True)):
        outcomes.add([executors._Outcome(0, TaskProgress(), None)])
        outcomes.add([executors._Outcome(1, None, BadData("line 7 is bad"))])
        while not cancelled:
            pass
    assert shown == [0]


@pytest.mark.parametrize(
    ("words", "sentence", "code"),
    [
        (
            "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.",
            "Spark 4 needs Java 17 or later: set JAVA_HOME",
            Exit.BAD_SPEC,
        ),
        (
            "o.a.s.SparkException: Could not parse Master URL: 'sparky://x'",
            "Expected for example local[4], spark://host:7077 or yarn",
            Exit.BAD_SPEC,
        ),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version", "Set PYSPARK_PYTHON to the same version", Exit.BAD_SPEC),
        ("ModuleNotFoundError: No module named 'dataprep_converter'", "Install the driver's release there", Exit.BAD_SPEC),
        ("Python worker exited unexpectedly (crashed)", "It may have run out of memory", Exit.INTERNAL),
        ("x.SparkException: All masters are unresponsive! Giving up.", "Spark's master can't be reached", Exit.UNREACHABLE),
    ],
)
def test_errors_of_spark_become_a_sentence(words: str, sentence: str, code: Exit, tmp_path: Path) -> None:
    with pytest.raises(ConvertError) as error:
        played({}, tmp_path, failure=RuntimeError(f"An error occurred while calling o1.\n{words}\n\tat java.base/x"))
    assert sentence in str(error.value)
    assert error.value.exit == code
    assert "\n" not in str(error.value)


def test_other_errors_of_spark_are_shown_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match=r"^Spark failed: Job aborted due to stage failure\.$"):
        played(
            {},
            tmp_path,
            failure=RuntimeError("An error occurred.\n: org.apache.spark.SparkException: Job aborted due to stage failure.\n\tat x"),
        )


def test_executors_with_another_release_are_refused() -> None:
    work = executors._Work(parse_job(SPEC), PlayedTasks({}), PlayedAccumulator(), None, 1, 3, version="0.0.1")
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


def test_spark_connect_is_refused() -> None:
    with pytest.raises(BadSpec, match="sc://host is Spark Connect"), executors.executors_of("sc://host", {}, name="numbers"):
        pass


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
