"""Errors as users see them: one clear line, an exit code that scripts can use, and no traceback."""

import errno
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import pytest
from PIL import Image
from tests.builders.files import visible
from tests.converter.cli.commandline import DATAPREP, code_of, dataprep, environment, mnist_run, new_dataprep

from dataprep_api.exits import Exit
from dataprep_api.reasons import Reason
from dataprep_converter.core.errors import ConvertError, StoreError

MINIMAL = """
apiVersion: dataprep.io/v1alpha1
kind: DataPrepJob
metadata: {name: minimal}
spec:
  source: {idx: {subsets: [{name: train, images: "images.gz"}]}}
  output: {uri: out}
"""


def a_file(folder: Path, text: str) -> Path:
    file = folder / "job.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def lines(text: str) -> list[str]:
    assert "Traceback" not in text
    return text.splitlines()


@pytest.mark.slow
def test_a_good_run_ends_with_0_and_prints_the_manifest(few: Path, tmp_path: Path) -> None:
    done = dataprep("run", *mnist_run(few, tmp_path / "out"))
    assert done.returncode == 0
    assert Path(done.stdout.strip()).name == "manifest.json"
    assert Path(done.stdout.strip()).is_file()


@pytest.mark.slow
def test_every_fault_of_a_spec_has_its_own_line_with_field_and_advice(tmp_path: Path) -> None:
    job = a_file(
        tmp_path,
        MINIMAL.replace("{uri: out}", "{uri: out, shard: {count: 4}, overwrite: Never, fileNam: x}")
        + "  split: {}\n  workers: {parallelism: 0}\n",
    )
    done = dataprep("validate", job)
    assert (done.returncode, done.stdout) == (2, "")
    expected = [
        f"dataprep: error: {job}:7:22: spec.output.shard: unknown field; did you mean shards?",
        f"dataprep: error: {job}:7:59: spec.output.fileNam: unknown field; did you mean fileName?",
        f"dataprep: error: {job}:9:26: spec.workers.parallelism: must be at least 1, got 0",
        f"dataprep: error: {job}:8:3: spec.split: unknown field; did you mean splits?",
    ]
    assert [line.partition(" (known: ")[0] for line in lines(done.stderr)] == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(MINIMAL.replace("uri: out", "uri: '${there}/x'"), ["spec.output.uri", "${there}"], id="a parameter without a value"),
        pytest.param(MINIMAL.replace("uri: out", "uri: 3"), ["spec.output.uri", "got 3"], id="a number for a text"),
        pytest.param(MINIMAL.replace("idx:", "idy:"), ["spec.source.idy: unknown field; did you mean idx?"], id="an unknown source"),
        pytest.param(MINIMAL.replace("{uri: out}", "{}"), ["spec.output.uri: is required"], id="a missing field"),
        pytest.param(
            "a: [1, 2\nb: 3",
            ["job.yaml:2:2: not YAML: expected ',' or ']', but got ':' while parsing a flow sequence that begins in line 1"],
            id="no YAML",
        ),
        pytest.param("a: 2026-13-45", ["job.yaml is not YAML", "month must be in 1..12"], id="an impossible date"),
        pytest.param("a: \u0007", ["job.yaml is not YAML"], id="a control character"),
        pytest.param("", ["must contain exactly one DataPrepJob", "0 in 0 documents"], id="an empty file"),
        pytest.param(f"{MINIMAL}---{MINIMAL}", ["must contain exactly one DataPrepJob", "2 in 2 documents"], id="two jobs"),
        pytest.param("- 1", ["job.yaml: expected a mapping with apiVersion, kind, metadata and spec, got list"], id="a list"),
        pytest.param(
            MINIMAL.replace("uri: out", "uri: out, format: tfrecrod"), ["got 'tfrecrod'; did you mean tfrecord?"], id="a misspelt format"
        ),
        pytest.param("kind: Pod\napiVersion: v1\nmetadata: {name: x}\nspec: {}", ["kind"], id="another kind"),
    ],
)
def test_a_file_that_is_no_job_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: list[str]) -> None:
    assert code_of("run", a_file(tmp_path, text)) == 2
    written = capsys.readouterr().err
    assert all(line.startswith("dataprep: error: ") for line in lines(written))
    for words in said:
        assert words in written


DEEP: dict[str, tuple[str, str]] = {
    "a list of many levels": ("a: " + "[" * 5000 + "]" * 5000, "job.yaml is nested more deeply than a job can be"),
    "a mapping that holds itself": (MINIMAL.replace("spec:", "spec: &all\n  params: *all"), "nested more than 64 levels deep; does an alias (*) refer to itself"),
    "a list that holds itself": (MINIMAL.replace('"images.gz"', "&all [*all, *all]"), "spec.source.idx.subsets: is nested more than 64 levels deep"),
    "very many values": ("a: &a [0,0,0,0,0,0,0,0]\n" + "".join(
        f"{new}: &{new} [*{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    ), "contains more than 1,000,000 values"),
    "no UTF-8": (MINIMAL.replace("uri: out", 'uri: "a\\udcff"'), "spec.output.uri: expected text, got bytes that aren't UTF-8"),
    "a host that is none": (MINIMAL.replace("uri: out", "uri: 's3://['"), "spec.output.uri: the text after :// is not a host"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("text", "said"), DEEP.values(), ids=DEEP.keys())
def test_what_only_yaml_can_say_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    assert code_of("validate", a_file(tmp_path, text)) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ls", "s3://["], "s3://…: the text after :// is not a host"),
        (["verify", "http://[::1"], "http://…: the text after :// is not a host"),
        (["copy", "{out}", "odps://project/table"], "odps://project/table names no table: write odps://PROJECT/tables/TABLE"),
        (["copy", "{out}", "odps://project/tables/t/2024"], "KEY=VALUE for each level of a partition"),
        (["copy", "{out}", "{out}/a\udcff"], "spec.output.uri: expected text, got bytes that aren't UTF-8"),
    ],
)
def test_an_address_that_is_none_is_refused(
    few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    if "{out}" in arguments:
        assert code_of("run", *mnist_run(few, tmp_path / "out")) == 0
    assert code_of(*(each.format(out=tmp_path / "out") for each in arguments)) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_any_number_of_records_may_be_asked_for(tmp_path: Path) -> None:
    photos(tmp_path, "train/cat/1.png")
    assert code_of("run", a_file(tmp_path, IMAGES.replace("[in]", f"[{tmp_path}/in]").replace("uri: out", f"uri: {tmp_path}/out"))) == 0
    assert code_of("inspect", tmp_path / "out", "--records", str(10**30)) == 0


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("validate", tmp_path / "absent.yaml") == 2
    assert capsys.readouterr().err == f"dataprep: error: can't read {tmp_path}/absent.yaml: No such file or directory\n"
    assert code_of("validate") == 2
    assert "which job?" in capsys.readouterr().err


def test_the_job_beside_other_objects_of_a_file_is_found(tmp_path: Path) -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\n---"
    assert code_of("validate", a_file(tmp_path, f"{secret}{MINIMAL}---\n")) == 0


@pytest.mark.slow
def test_standard_input_is_a_file_too() -> None:
    done = new_dataprep("validate", "-", stdin=MINIMAL)
    assert (done.returncode, done.stdout) == (0, "minimal is valid: idx to tfrecord at out\n")


def broken_label(few: Path, output: Path) -> list[str | Path]:
    return ["run", *mnist_run(few, output, {"labels.0.numClasses": 9})]


def missing_input(few: Path, output: Path) -> list[str | Path]:
    return ["run", *mnist_run(few / "absent", output)]


def not_empty(few: Path, output: Path) -> list[str | Path]:
    output.mkdir()
    (output / "thesis.txt").write_text("precious")
    return ["run", *mnist_run(few, output)]


def no_name_node(few: Path, output: Path) -> list[str | Path]:
    return ["run", *mnist_run(few, output, {"output.uri": "hdfs://127.0.0.1:1/out"})]


def not_finished(_: Path, output: Path) -> list[str | Path]:
    output.mkdir()
    (output / "train.tfrecords").touch()
    return ["verify", output]


ERRORS = [
    pytest.param(broken_label, 3, ["train-images-idx3-ubyte.gz, record", "label 9 is outside 0"], id="bad data"),
    pytest.param(no_name_node, 4, ["127.0.0.1:1", "refused"], id="a store that does not answer"),
    pytest.param(missing_input, 5, ["absent/train-images-idx3-ubyte.gz doesn't exist"], id="a missing input"),
    pytest.param(not_empty, 5, ["contains thesis.txt, which no dataprep run planned there"], id="somebody's files"),
    pytest.param(not_finished, 5, ["out has no _SUCCESS"], id="no finished data set"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "code", "said"), ERRORS)
def test_an_error_is_one_line_and_a_code(
    few: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    make: Callable[[Path, Path], list[str | Path]],
    code: int,
    said: list[str],
) -> None:
    assert code_of(*make(few, tmp_path / "out")) == code
    written = capfd.readouterr()
    assert written.out == ""
    [error] = [line for line in lines(written.err) if line.startswith("dataprep: ")]
    assert error.startswith("dataprep: error: ")
    for words in said:
        assert words in error


def every(kind: type[ConvertError]) -> Iterator[type[ConvertError]]:
    for each in kind.__subclasses__():
        yield each
        yield from every(each)


def test_only_defects_are_called_so() -> None:
    # StoppedError is internal, because the task that caused it reports the real error. TooSlowError doesn't fail the job: it only ends
    # the attempt to run all steps of a small job in one pod.
    called_so = {each.__name__ for each in every(ConvertError) if each.exit == Exit.INTERNAL or each.reason == Reason.INTERNAL_ERROR}
    assert called_so <= {"StoppedError", "TooSlowError"}


def test_what_a_store_refuses_for_a_reason_of_its_own_is_no_defect(
    few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise StoreError("S3 at s3.test refused s3://bucket/key: 418 Teapot.")

    monkeypatch.setattr("dataprep_converter.stores.files.FileStore.stat", refuse)
    termination = tmp_path / "termination"
    monkeypatch.setattr("dataprep_converter.cli.pod_messages.in_pod", lambda: True)
    monkeypatch.setattr("dataprep_converter.runtime.watchdog.supervise", lambda work: work())
    monkeypatch.setenv("DATAPREP_TERMINATION_LOG", str(termination))
    assert code_of("plan", *mnist_run(few, tmp_path / "out")) == 5
    assert "dataprep: error: S3 at s3.test refused s3://bucket/key: 418 Teapot.\n" in capsys.readouterr().err
    assert json.loads(termination.read_text())["reason"] == "StoreRefused"


@pytest.mark.parametrize("before", [True, False], ids=["before the command", "after it"])
def test_debug_shows_the_traceback_above_the_line(few: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], before: bool) -> None:
    command, *rest = missing_input(few, tmp_path / "out")
    assert (code_of("--debug", command, *rest) if before else code_of(command, *rest, "--debug")) == 5
    said = capfd.readouterr().err
    assert "Traceback (most recent call last):" in said
    assert "dataprep_converter.core.errors.NotFound: " in said
    assert said.splitlines()[-1].startswith("dataprep: error: ")


IMAGES = """
apiVersion: dataprep.io/v1alpha1
kind: DataPrepJob
metadata: {name: photos}
spec:
  source: {images: {uris: [in], subsetFrom: FirstFolder}}
  output: {uri: out}
"""


def photos(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / "in" / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 3)).save(folder / "in" / path)


def test_a_folder_with_any_name_may_name_a_subset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    photos(tmp_path, "train set/cat/1.png", "tr\u00e4ning/cat/1.png", f"{'long' * 60}/cat/1.png")
    assert code_of("run", a_file(tmp_path, IMAGES)) == 0
    assert visible(tmp_path / "out") == [f"{('long' * 60)[:63]}.tfrecords", "train-set.tfrecords", "traning.tfrecords"]
    assert "warning: the subset 'train set' is the split train-set; splits.into can give it another name\n" in capsys.readouterr().err


@pytest.mark.slow
def test_a_folder_that_can_not_name_a_split_is_refused_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    photos(tmp_path, "\u8bad\u7ec3/cat/1.png", "test/cat/1.png")
    done = dataprep("run", a_file(tmp_path, IMAGES), where=tmp_path)
    assert done.returncode == 2
    assert "The name of the subset '\u8bad\u7ec3' can't become the name of a split" in lines(done.stderr)[-1]
    named = IMAGES + "  splits: {into: [{name: train, subset: \u8bad\u7ec3}, {name: test, subset: test}]}\n"
    assert code_of("run", a_file(tmp_path, named)) == 0
    assert visible(tmp_path / "out") == ["test.tfrecords", "train.tfrecords"]


@pytest.mark.slow
def test_a_process_ends_with_the_code_and_the_line(few: Path, tmp_path: Path) -> None:
    done = new_dataprep(*missing_input(few, tmp_path / "out"))
    assert (done.returncode, done.stdout) == (5, "")
    assert lines(done.stderr)[-1].startswith("dataprep: error: ")


def test_a_defect_of_ours_is_one_line_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise LookupError("first line\nsecond line")

    monkeypatch.setattr("dataprep_converter.inputs.job_file.load", fail)
    assert code_of("validate", "job.yaml") == 70
    expected = "dataprep: error: a bug in dataprep: LookupError: first line second line (--debug shows where)\n"
    assert capsys.readouterr().err == expected


@pytest.mark.slow
def test_a_missing_package_is_an_installation_at_fault(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("kind: DataPrepJob\n")
    program = "import sys; sys.modules['yaml'] = None; from dataprep_converter.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "validate", str(file)], capture_output=True, text=True, check=False, env=environment()
    )
    assert done.returncode == 70
    assert done.stderr == f"dataprep: error: {sys.executable} lacks the package yaml: pip install dataprep-operator in its environment\n"


def test_a_full_disk_of_temporary_files_is_no_defect(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("dataprep_converter.inputs.job_file.load", fail)
    assert code_of("validate", "job.yaml") == 5
    expected = f"dataprep: error: No space left for temporary files in {tempfile.gettempdir()}: No space left on device.\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], id="no command"),
        pytest.param(["convert"], id="an unknown command"),
        pytest.param(["inspect", "out", "--records", "-1"], id="a negative number of records"),
        pytest.param(["work", "job.yaml"], id="work without a run"),
    ],
)
def test_wrong_arguments_end_with_2_and_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of(*arguments) == 2
    assert "usage: dataprep" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "more", "said"),
    [
        pytest.param([], {}, "Which task?", id="no index"),
        pytest.param(["--index", "-1"], {}, "Indexes begin at 0, got -1", id="a negative index"),
        pytest.param([], {"JOB_COMPLETION_INDEX": "x"}, "Expected a number for the index", id="an index that is no number"),
        pytest.param(["--index", "0", "--tasks", "1-"], {}, None, id="an open range is its beginning"),
        pytest.param(["--index", "0", "--tasks", "a-b"], {}, "got 0 and a-b", id="tasks that are no numbers"),
        pytest.param(["--index", "3", "--tasks", "1,4-5"], {}, "beyond the 3 tasks of --tasks 1,4-5", id="an index beyond the tasks"),
    ],
)
def test_a_task_that_cannot_be_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    more: Mapping[str, str],
    said: str | None,
) -> None:
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    job = a_file(tmp_path, MINIMAL.replace("uri: out", f"uri: {tmp_path}/out"))
    code = code_of("work", job, "--run", "r", "--plan-sha256", "0" * 64, *arguments)
    assert code == (5 if said is None else 2)
    assert (said or "has no plan of run r") in capsys.readouterr().err or said is None


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("--help") == 0
    shown = capsys.readouterr().out
    for command in ("run", "plan", "validate", "work", "commit", "verify", "inspect", "ls", "logs"):
        assert f"    {command} " in shown


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    for number in range(1500):
        (tmp_path / f"{number:04d}-with-a-long-name-to-fill-the-pipe{'-' * 100}").touch()
    process = subprocess.Popen(
        [*DATAPREP, "ls", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "Found 1500 items\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) == 141


def test_a_broken_connection_is_not_taken_for_a_reader_that_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, os.strerror(32))

    monkeypatch.setattr("dataprep_converter.inputs.job_file.load", fail)
    assert code_of("validate", "job.yaml") == 70
    assert "BrokenPipeError" in capsys.readouterr().err
