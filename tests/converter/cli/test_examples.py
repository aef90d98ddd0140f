"""Every example is valid, the examples that don't need a cluster run, and the demo does what the README promises."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.builders.files import everything, visible
from tests.converter.cli.commandline import EXAMPLES, ROOT, code_of, environment, settings

from dataprep_converter.formats.tfrecord import records
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime import plugins
from dataprep_converter.tools.verification import verify
from workbench import mnist, photos
from workbench.example_inputs import INPUTS

GOLDEN = json.loads((ROOT / "tests/compat/examples.json").read_text(encoding="utf-8"))
"""Digests of the files that each example made in an early version of the converter."""

HOLDS_PATHS = "file-batch-local.yaml"
"""This example's archives contain the paths of the source files, which differ in each run."""

JOBS = [file for file in sorted(EXAMPLES.glob("*.yaml")) if "kind: DataPrepJob" in file.read_text(encoding="utf-8")]
ON_STORES = ("mnist-hdfs.yaml", "mnist-oss.yaml")
RUN_ELSEWHERE = {
    "cron-nightly.yaml": "tests/converter/cli/test_cron_file.py",
    "cron-versions.yaml": "tests/converter/cli/test_cron_file.py",
    "from-job.yaml": "tests/converter/cli/test_from_job.py",
    "profile-s3.yaml": "tests/converter/cli/test_profile.py",
    "rows-maxcompute.yaml": "tests/converter/cli/test_maxcompute_examples.py",
    "script-hdfs.yaml": "tests/converter/cli/test_git_code.py",
    "table-maxcompute.yaml": "tests/converter/cli/test_maxcompute_examples.py",
    "train-on-mnist.yaml": "tests/reader/test_training_example.py",
}
"""Examples that need more than an input and an output, with the test file that runs each of them."""


@pytest.fixture(autouse=True)
def code_of_one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps an example from using an earlier example's code. Outside the tests, this can't happen, because a process runs only one job."""
    monkeypatch.setenv(plugins.CODE_VARIABLE, "")


@pytest.mark.parametrize("example", JOBS, ids=lambda file: file.name)
def test_an_example_is_valid(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("validate", example) == 0
    assert capsys.readouterr().out.startswith(f"{example.stem} is valid: ")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(file.name for file in EXAMPLES.glob("*-local.yaml")))
def test_an_example_for_this_machine_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    make, expected = INPUTS[name]
    output = tmp_path / "out"
    assert code_of("run", EXAMPLES / name, *settings({"params.input": make(tmp_path), "output.uri": output})) == 0
    assert code_of("verify", output) == 0
    assert f"{output} is whole: {expected:,} records in " in capsys.readouterr().out
    assert name == HOLDS_PATHS or digests(output) == GOLDEN[name]


def digests(output: Path) -> dict[str, str]:
    """Returns the SHA-256 of each file that readers of the data set see, including files in sub-folders."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in everything(output).items() if name[0] not in "_."}


@pytest.mark.parametrize("name", ON_STORES)
def test_an_example_for_a_store_runs_on_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    make, expected = INPUTS["mnist-local.yaml"]
    output = tmp_path / "out"
    assert code_of("run", EXAMPLES / name, *settings({"params.input": make(tmp_path), "params.output": output})) == 0
    assert code_of("verify", output) == 0
    assert f"{output} is whole: {expected:,} records in 3 files" in capsys.readouterr().out


def test_every_example_is_run_by_a_test() -> None:
    here = {*INPUTS, *ON_STORES}
    assert {file.name for file in EXAMPLES.glob("*.yaml")} == here | RUN_ELSEWHERE.keys()
    for name, test in RUN_ELSEWHERE.items():
        assert f'"{name}"' in (ROOT / test).read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_mnist_example_makes_the_golden_files(digits: Path, tmp_path: Path) -> None:
    assert code_of("run", EXAMPLES / "mnist-local.yaml", *settings({"params.input": digits, "output.uri": tmp_path / "out"})) == 0
    assert visible(tmp_path / "out") == ["test.tfrecords", "train.tfrecords", "validation.tfrecords"]
    for name, file in mnist.FILES.items():
        assert hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() == file.sha256


@pytest.mark.slow
def test_the_images_example_keeps_the_bytes_of_the_photographs(tmp_path: Path) -> None:
    source = photos.write(tmp_path / "photos")
    (source / "flower" / "notes.txt").write_text("no image")
    output = tmp_path / "out"
    assert code_of("run", EXAMPLES / "images-local.yaml", *settings({"params.input": source, "output.uri": output})) == 0

    # tests/interop/test_tensorflow.py reads such shards with TensorFlow, whose import takes seconds.
    found = set()
    for file in verify(str(output), Access()).files:
        for _, payload in records.read([(output / file.file).read_bytes()]):
            record = records.parse_example(payload)
            (text,), (label,), (encoded,) = record["image/class/text"], record["image/class/label"], record["image/encoded"]
            found.add((text.decode(), label, encoded))
    files = list(source.glob("*/*.jpg"))
    shards = sum(shard.stat().st_size for shard in output.glob("*.tfrecords"))
    assert 0 < shards - sum(file.stat().st_size for file in files) <= 200 * len(files)
    classes = ["admiral", "flower", "temple"]
    assert found == {(file.parent.name, classes.index(file.parent.name), file.read_bytes()) for file in files}


@pytest.mark.slow
def test_the_demo_converts_verifies_and_shows_real_images(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(EXAMPLES)  # the demo runs only in the repository's root, and writes its output there
    done = subprocess.run(
        [sys.executable, ROOT / "examples/demo.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment(),
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    for words in (
        "$ dataprep run ",
        "$ dataprep verify ",
        "is whole: ",
        "$ dataprep inspect ",
        "train.tfrecords",
        "label",
        "image_raw: uint8[28, 28]",
    ):
        assert words in done.stdout
    assert visible(tmp_path / "demo-output" / "shards") == ["test.tfrecords", "train.tfrecords", "validation.tfrecords"]
