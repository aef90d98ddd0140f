"""The steps as pods run them. Their output has the same bytes as the output of a single run, and the operator can read their results."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from tests.builders.files import visible
from tests.converter.cli.commandline import code_of, contents, dataprep, mnist_run, new_dataprep
from tests.converter.readers import annotated

from dataprep_api.dataset import messages
from dataprep_api.reasons import Reason
from dataprep_converter.cli import pod_messages

FIELDS = {"output.shards.count": 2, "output.fileName": "{split}-{shard}-of-{shards}.{ext}", "workers.parallelism": 4}

Step = Callable[..., object]
"""Runs a step that must succeed, and returns its result."""


@pytest.fixture
def step(capsys: pytest.CaptureFixture[str]) -> Step:
    """Runs a step in this process. A pod would leave the printed result as its termination message."""

    def run(*arguments: str | Path) -> object:
        capsys.readouterr()
        code = code_of(*arguments)
        written = capsys.readouterr()
        assert code == 0, written.err
        return messages.parse(written.out)

    return run


class Pod:
    """A process under the watchdog, with a pod's environment and a termination message."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "termination-log"
        self.environment = {"DATAPREP_MOUNTS": str(folder / "mounts"), "DATAPREP_TERMINATION_LOG": str(self.log)}

    def run(self, *arguments: str | Path, **more: str) -> tuple[int, object]:
        """Runs a step in a fork, and returns its exit code and result. A successful step also prints its result."""
        return self._result_of(dataprep, arguments, more)

    def run_anew(self, *arguments: str | Path, **more: str) -> tuple[int, object]:
        """Does the same as `run`, but in a new process instead of a fork."""
        return self._result_of(new_dataprep, arguments, more)

    def _result_of(
        self, command: Callable[..., subprocess.CompletedProcess[str]], arguments: Sequence[str | Path], more: Mapping[str, str]
    ) -> tuple[int, object]:
        self.log.write_text("")
        done = command(*arguments, more=self.environment | dict(more))
        assert "Traceback" not in done.stderr
        assert done.stdout.strip() == (self.log.read_text() if done.returncode == 0 else "")
        return done.returncode, messages.parse(self.log.read_text())


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    return Pod(tmp_path)


def plan_of(planned: object) -> list[str]:
    """Returns the arguments that the later steps get from the plan step."""
    assert isinstance(planned, messages.PlanResult)
    return ["--run", planned.run_id, "--plan-sha256", planned.plan_sha256]


@pytest.fixture(scope="module")
def whole(few: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a complete run."""
    output = tmp_path_factory.mktemp("whole") / "out"
    assert code_of("run", *mnist_run(few, output, FIELDS), "--quiet") == 0
    return output


def test_the_plan_step_names_all_of_201_classes(tmp_path: Path, step: Step) -> None:
    names = [f"n{number * 214013 % 10**8:08}, a kind of hound" for number in range(200)]
    annotated.write(tmp_path / "in", "Voc", {"a.jpg": [(name, 1, 1, 5, 5) for name in names], "b.jpg": []}, names=names)
    source = {"images": [f"{tmp_path}/in/images"], "annotations": [f"{tmp_path}/in/annotations"], "format": "Voc", "label": "LargestBox"}
    spec = {"source": {"annotatedImages": source}, "output": {"uri": str(tmp_path / "out")}}
    (tmp_path / "job.json").write_text(
        json.dumps({"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "det"}, "spec": spec})
    )
    planned = step("plan", tmp_path / "job.json")
    assert isinstance(planned, messages.PlanResult)
    [label] = planned.labels
    assert (label.num_classes, label.classes) == (201, [*sorted(names), "background"])


def assert_same(output: Path, whole: Path) -> None:
    assert contents(output) == contents(whole)
    assert (output / "_SUCCESS").read_bytes() == (whole / "_SUCCESS").read_bytes()


@pytest.mark.slow
def test_the_steps_make_the_same_bytes_as_a_run(few: Path, tmp_path: Path, step: Step, whole: Path) -> None:
    job = mnist_run(few, tmp_path / "out", FIELDS)
    planned = step("plan", *job)
    for index in range(4):
        worked = step("work", *job, *plan_of(planned), "--index", str(index))
        assert isinstance(worked, messages.WorkResult)
        assert worked.index == index
    made = step("commit", *job, *plan_of(planned))

    assert_same(tmp_path / "out", whole)
    assert isinstance(made, messages.CommitResult)
    assert (made.files, made.records.out) == (6, 6200)
    assert [file.uri.rpartition("/")[2] for file in made.outputs] == [
        f"{split}-0000{n}-of-00002.tfrecords" for split in ("train", "validation", "test") for n in (0, 1)
    ]
    again = step("plan", *job)
    assert isinstance(again, messages.PlanResult)
    assert again.reused
    assert again.commit is not None
    assert again.commit.manifest_sha256 == made.manifest_sha256


@pytest.mark.slow
def test_a_retry_does_the_listed_tasks_by_the_pods_index(
    few: Path, tmp_path: Path, step: Step, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = mnist_run(few, tmp_path / "out", FIELDS)
    planned = step("plan", *job)
    step("work", *job, *plan_of(planned), "--index", "1")
    for index, task in enumerate([0, 2, 3]):
        monkeypatch.setenv("JOB_COMPLETION_INDEX", str(index))
        worked = step("work", *job, *plan_of(planned), "--tasks", "0,2-3")
        assert isinstance(worked, messages.WorkResult)
        assert (worked.index, worked.shards_skipped) == (task, 0)
    step("commit", *job, *plan_of(planned))

    assert_same(tmp_path / "out", whole)


@pytest.mark.slow
def test_the_steps_of_pods_leave_their_results(few: Path, tmp_path: Path, pod: Pod) -> None:
    job = mnist_run(few, tmp_path / "out", {"workers.parallelism": 3})
    code, planned = pod.run_anew("plan", *job)
    assert (code, type(planned)) == (0, messages.PlanResult)
    for index in range(3):
        run = pod.run_anew if index == 2 else pod.run
        code, worked = run("work", *job, *plan_of(planned), JOB_COMPLETION_INDEX=str(index))
        assert isinstance(worked, messages.WorkResult)
        assert (code, worked.index, worked.shards_done) == (0, index, 1)
    code, made = pod.run_anew("commit", *job, *plan_of(planned))
    assert isinstance(made, messages.CommitResult)
    assert (code, made.records.out) == (0, 6200)


ONE_POD = {"DATAPREP_ONE_POD": "mnist-0123456789-", "POD_NAME": "mnist-0123456789-plan-1-abcde", "DATAPREP_ATTEMPT": "1"}
"""The environment variables of a pod that also does the work and the commit if the job is small."""


@pytest.mark.slow
def test_the_pod_of_the_plan_step_finishes_a_small_job(few: Path, tmp_path: Path, pod: Pod, whole: Path) -> None:
    job = mnist_run(few, tmp_path / "out", FIELDS)
    code, made = pod.run("plan", *job, **ONE_POD)
    assert isinstance(made, messages.PlanResult)
    assert made.commit is not None
    assert (code, made.reused, made.commit.run_id, made.commit.records.out) == (0, False, made.run_id, 6200)
    assert len(made.commit.outputs) == 6, "the message has room for them"
    assert_same(tmp_path / "out", whole)

    code, again = pod.run_anew("plan", *job, **ONE_POD)
    assert isinstance(again, messages.PlanResult)
    assert (code, again.reused, again.commit) == (0, False, None)
    code, other = pod.run("plan", *job, **ONE_POD | {"DATAPREP_ONE_POD": "another-0123456789-"})
    assert isinstance(other, messages.PlanResult)
    assert (code, other.reused) == (0, True)


@pytest.mark.slow
def test_if_the_work_fails_the_pod_has_done_the_plan_step_and_a_worker_reports_the_reason(few: Path, tmp_path: Path, pod: Pod) -> None:
    job = mnist_run(few, tmp_path / "out", FIELDS | {"labels.0.numClasses": 9})
    code, planned = pod.run("plan", *job, **ONE_POD)
    assert isinstance(planned, messages.PlanResult)
    assert (code, planned.commit) == (0, None)
    code, failure = pod.run("work", *job, *plan_of(planned), "--index", "0")
    assert isinstance(failure, messages.FailureResult)
    assert (code, failure.reason) == (3, Reason.BAD_RECORDS)


SIGNALLED = """
import os, sys, time
from dataprep_converter.cli import commands
from dataprep_converter.steps import one_pod

def ends(*_, **__):
    os.kill(os.getpid(), int(sys.argv[1]))
    time.sleep(60)

one_pod.finish = ends
commands.main(sys.argv[2:])
"""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, 0), (signal.SIGABRT, 0), (signal.SIGTERM, 143)])
def test_a_process_that_is_killed_at_the_work_has_done_the_plan_step(few: Path, tmp_path: Path, pod: Pod, number: int, code: int) -> None:
    """A pod that was told to stop is replaced, and the next pod finds the plan."""
    job = mnist_run(few, tmp_path / "out", FIELDS)
    done = dataprep(str(int(number)), "plan", *job, program=SIGNALLED, more=pod.environment | ONE_POD)
    assert done.returncode == code, done.stderr
    planned = messages.parse(pod.log.read_text())
    assert isinstance(planned, messages.PlanResult)
    assert planned.commit is None
    assert ("was killed after it had stored the plan" in done.stderr) is (code == 0)
    code, again = pod.run("plan", *job, **ONE_POD)
    assert (code, again) == (0, planned)


@pytest.mark.parametrize(
    "left", ["", "Killed", messages.dump(messages.FailureResult(reason=Reason.STORE_UNREACHABLE, message="x", exit_code=4))]
)
def test_a_process_that_is_killed_before_it_has_left_a_plan_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str) -> None:
    log = tmp_path / "termination-log"
    monkeypatch.setenv("DATAPREP_TERMINATION_LOG", str(log))
    assert pod_messages.exit_code(137) == 137, "there is no message"
    log.write_text(left)
    assert [pod_messages.exit_code(code) for code in (4, 137, 139, 0)] == [4, 137, 139, 0]


@pytest.mark.slow
def test_a_pod_can_log_in_json_with_its_job_and_run(few: Path, tmp_path: Path, pod: Pod) -> None:
    job = mnist_run(few, tmp_path / "out")
    as_json = pod.environment | {"DATAPREP_LOG_FORMAT": "json", "DATAPREP_JOB_NAME": "mnist"}
    _, planned = pod.run("plan", *job)
    of_run = plan_of(planned)
    done = dataprep("work", *job, *of_run, more=as_json | {"JOB_COMPLETION_INDEX": "0"})

    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert lines
    assert {(line["job"], line["runId"], line["level"]) for line in lines} == {("mnist", of_run[1], "INFO")}
    assert any("train.tfrecords" in line["message"] for line in lines)


def test_a_dry_run_prints_the_plan_and_writes_nothing(few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("plan", *mnist_run(few, tmp_path / "out", FIELDS), "--dry-run", "--json") == 0
    planned = messages.PlanResult.model_validate_json(capsys.readouterr().out)
    assert (planned.records, planned.shards) == (6200, 6)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_failed_step_leaves_reason_and_input(few: Path, tmp_path: Path, pod: Pod) -> None:
    code, failure = pod.run("plan", *mnist_run(few / "absent", tmp_path / "out"))
    assert isinstance(failure, messages.FailureResult)
    assert (code, failure.exit_code, failure.reason) == (5, 5, Reason.INPUT_NOT_FOUND)
    assert failure.input == f"{few}/absent/train-images-idx3-ubyte.gz"


@pytest.mark.slow
def test_a_failed_task_names_itself(few: Path, tmp_path: Path, pod: Pod, step: Step) -> None:
    job = mnist_run(few, tmp_path / "out", FIELDS | {"labels.0.numClasses": 9})
    code, failure = pod.run("work", *job, *plan_of(step("plan", *job)), "--index", "2")
    assert isinstance(failure, messages.FailureResult)
    assert (code, failure.reason, failure.index) == (3, Reason.BAD_RECORDS, 2)
    assert "label 9 is outside" in failure.message


def test_a_task_beyond_the_plan_is_refused(few: Path, tmp_path: Path, step: Step, capsys: pytest.CaptureFixture[str]) -> None:
    job = mnist_run(few, tmp_path / "out", FIELDS)
    assert code_of("work", *job, *plan_of(step("plan", *job)), "--index", "4") == 2
    assert capsys.readouterr().err == "dataprep: error: The plan has tasks 0 to 3, got task 4.\n"


def test_a_commit_before_the_work_names_what_is_missing(few: Path, tmp_path: Path, step: Step, capsys: pytest.CaptureFixture[str]) -> None:
    job = mnist_run(few, tmp_path / "out", FIELDS)
    assert code_of("commit", *job, *plan_of(step("plan", *job))) == 5
    assert "error: 6 of 6 shards have no report: train-00000-of-00002.tfrecords" in capsys.readouterr().err
    assert visible(tmp_path / "out") == []


@pytest.mark.slow
def test_a_bad_spec_is_told_to_the_operator_too(few: Path, tmp_path: Path, pod: Pod) -> None:
    code, failure = pod.run("plan", *mnist_run(few, tmp_path / "out", {"output.shard": 1}))
    assert isinstance(failure, messages.FailureResult)
    assert (code, failure.reason) == (2, Reason.INVALID_SPEC)
    assert failure.message.startswith("spec.output.shard: unknown field")


def test_a_name_that_is_not_utf_8_can_be_told(tmp_path: Path, pod: Pod) -> None:
    code, failure = pod.run_anew("validate", tmp_path / "absent-\udcff.yaml")
    assert isinstance(failure, messages.FailureResult)
    assert code == 2
    assert "absent-\\udcff.yaml: No such file" in failure.message


def test_a_termination_message_that_cannot_be_written_does_not_hide_the_error(tmp_path: Path) -> None:
    nowhere = {"DATAPREP_MOUNTS": str(tmp_path), "DATAPREP_TERMINATION_LOG": str(tmp_path / "absent/log")}
    done = dataprep("validate", tmp_path / "absent.yaml", more=nowhere)
    assert done.returncode == 2
    assert "No such file or directory" in done.stderr
    assert "Traceback" not in done.stderr


LOAD = """
import os, sys
from dataprep_converter.dataset.stored_plan import load_plan
from dataprep_converter.inputs.access import Access
from dataprep_converter.dataset.output_folder import OutputFolder
before = set(os.listdir("/proc/self/task"))
load_plan(OutputFolder(sys.argv[1], Access()).of_run(sys.argv[2]), sys.argv[3])
print(len(set(os.listdir("/proc/self/task")) - before))
"""


@pytest.mark.slow
def test_loading_a_plan_starts_no_threads(few: Path, tmp_path: Path, step: Step) -> None:
    """A worker without work exits immediately. If loading a plan started Arrow's threads, they would still be using Python's memory at that
    time, and would abort the process."""
    planned = step("plan", *mnist_run(few, tmp_path / "out", FIELDS))
    assert isinstance(planned, messages.PlanResult)
    done = subprocess.run(
        [sys.executable, "-c", LOAD, tmp_path / "out", planned.run_id, planned.plan_sha256], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("0\n", 0), done.stderr


def test_remove_takes_away_what_the_steps_made(few: Path, tmp_path: Path, step: Step) -> None:
    job = mnist_run(few, tmp_path / "out", FIELDS)
    planned = step("plan", *job)
    assert isinstance(planned, messages.PlanResult)
    step("work", *job, *plan_of(planned), "--index", "0")
    (tmp_path / "out" / "notes.txt").write_text("mine")

    removed = step("remove", *job, "--run", planned.run_id)

    assert isinstance(removed, messages.RemoveResult)
    assert removed.files > 3
    assert [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()] == ["notes.txt"]
