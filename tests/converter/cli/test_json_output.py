"""`--json`: a command prints, as one JSON value for scripts, what it otherwise prints for people. Errors stay on standard error."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.converter.cli.commandline import code_of
from tests.converter.cli.mistakes.table import CSV, NUMBERS

from dataprep_api.dataset.messages import PlanResult
from dataprep_api.resources.status import LabelStatus, SplitStatus
from dataprep_converter.cli import plan_text

JOB = f"""{CSV}\
  splits: {{into: [{{name: train, first: 8}}, {{name: test}}]}}
  output: {{uri: out, overwrite: IfChanged}}
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text(NUMBERS)
    (tmp_path / "job.yaml").write_text(JOB)
    return "job.yaml"


def printed(*arguments: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> Any:
    assert code_of(*arguments) == code
    return json.loads(capsys.readouterr().out)


def test_a_run_prints_its_result(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = printed("run", job, "--json", "--quiet", "--workers", "1", capsys=capsys)
    assert (result["kind"], result["records"]["out"], result["files"]) == ("commit", 12, 2)
    assert [(split["name"], split["records"]) for split in result["splits"]] == [("train", 8), ("test", 4)]
    assert Path(result["manifestUri"]).is_file()
    again = printed("run", job, "--json", "--quiet", "--workers", "1", capsys=capsys)
    assert (again["runId"], again["digest"]) == (result["runId"], result["digest"])


def test_verify_prints_the_faults_and_ends_with_the_same_code(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = printed("run", job, "--json", "--quiet", "--workers", "1", capsys=capsys)
    whole = printed("verify", "out", "--json", capsys=capsys)
    assert whole == {
        "uri": "out", "whole": True, "records": 12, "files": 2, "bytes": result["bytesOut"], "digest": result["digest"], "faults": [],
    }  # fmt: skip
    for name in ("train", "test"):
        Path(f"out/{name}.tfrecords").unlink()
    first = {"file": "train.tfrecords", "fault": "train.tfrecords is missing"}
    assert printed("verify", "out", "--json", capsys=capsys, code=5)["faults"] == [first]
    both = printed("verify", "out", "--json", "--all", capsys=capsys, code=5)
    assert (both["whole"], [fault["file"] for fault in both["faults"]]) == (False, ["train.tfrecords", "test.tfrecords"])


def test_a_fault_is_also_an_error_line(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("run", job, "--quiet", "--workers", "1") == 0
    Path("out/test.tfrecords").unlink()
    capsys.readouterr()
    assert code_of("verify", "out", "--json") == 5
    assert capsys.readouterr().err == "dataprep: error: out: test.tfrecords is missing.\n"


def test_ls_prints_the_files(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("run", job, "--quiet", "--workers", "1") == 0
    capsys.readouterr()
    Path("out/test.tfrecords").chmod(0o640)
    files = printed("ls", "out", "--json", capsys=capsys)
    assert [file["uri"] for file in files] == ["out/test.tfrecords", "out/train.tfrecords"]
    file = Path("out/test.tfrecords")
    assert (files[0]["bytes"], files[0]["mode"], files[0]["owner"]) == (file.stat().st_size, "0640", file.owner())
    assert files[0]["replication"] is None
    [alone] = printed("ls", "out/test.tfrecords", "--json", capsys=capsys)
    assert alone["bytes"] == files[0]["bytes"]


def test_a_plan_is_text_for_people_and_json_for_scripts(job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = printed("plan", job, "--dry-run", "--json", capsys=capsys)
    assert (figures["kind"], figures["records"], figures["shards"]) == ("plan", 12, 2)
    assert code_of("plan", job, "--dry-run") == 0
    assert capsys.readouterr().out == (
        f"run {figures['runId']}: nothing is written by a dry run\n"
        f"reads   1 file, 12 records, {figures['bytesIn']} bytes\n"
        "writes  2 shards in 1 task: tfrecord at out\n"
        "\n"
        "split  records  expected  shards\n"
        "train        8     8 ± 0       1\n"
        "test         4         -       1\n"
        "\n"
        "label: 3 classes\n"
        "class  train  test  all\n"
        "0          3     1    4\n"
        "1          3     1    4\n"
        "2          2     2    4\n"
    )
    assert not (tmp_path / "out").exists()
    assert printed("plan", job, "--json", capsys=capsys)["kind"] == "plan"


def test_the_text_of_a_plan_tells_what_a_shuffle_in_two_rounds_needs() -> None:
    plan = PlanResult(
        run_id="abc", plan_sha256="0" * 64, plan_uri="p", tasks=30, shuffle_tasks=12, shards=90, records=7, bytes_in=10**12,
        splits=[], reused=False, labels=[],
    )  # fmt: skip
    assert list(plan_text.lines(plan))[2:] == [
        "writes  90 shards in 30 tasks",
        "shuffle 12 tasks divide the records in a first round, and may store about",
        "        1,000,000,000,000 bytes in the output until the data set is finished",
    ]


def test_the_text_of_a_plan_names_classes_ignored_files_and_warnings() -> None:
    plan = PlanResult(
        run_id="abc", plan_sha256="0" * 64, plan_uri="p", tasks=3, shards=1, records=1, bytes_in=5000, ignored=1, warnings=["odd\nsplit"],
        splits=[SplitStatus(name="all", records=1, shards=1)], reused=True,
        labels=[LabelStatus(feature="kind", num_classes=12, classes=[f"c{number}" for number in range(12)])],
    )  # fmt: skip
    assert list(plan_text.lines(plan)) == [
        "run abc: reuses the finished data set",
        "reads   1 record, 5,000 bytes",
        "writes  1 shard in 3 tasks",
        "ignores 1 file (hidden, of another kind, or part of a data set)",
        "",
        "split  records  expected  shards",
        "all          1         -       1",
        "",
        "kind: 12 classes (c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, …)",
        r"warning: odd\nsplit",
    ]
