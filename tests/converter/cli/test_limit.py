"""`--limit N`: converts a sample of all records, from the command line."""

import json
from pathlib import Path

import pytest
from tests.converter.cli.commandline import code_of

from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify

JOB = """
apiVersion: dataprep.io/v1alpha1
kind: DataPrepJob
metadata: {{name: job}}
spec:
  source: {{csv: {{uris: [{folder}/a.csv]}}}}
  splits: {{exact: true, into: [{{name: train, fraction: 0.9}}, {{name: test, fraction: 0.1}}]}}
  output: {{uri: {folder}/out}}
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text("".join(f"{n}\n" for n in range(300)))
    (tmp_path / "job.yaml").write_text(JOB.format(folder=tmp_path))
    return tmp_path / "job.yaml"


def test_a_limit_is_taken_before_the_splits(job: Path) -> None:
    assert code_of("run", job, "--limit", "100", "--quiet") == 0
    made = verify(str(job.parent / "out"), Access())
    assert [(split.name, split.records) for split in made.splits] == [("train", 90), ("test", 10)]
    assert made.content["limit"] == 100


def test_a_dry_run_says_what_each_split_was_to_have(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("plan", job, "--limit", "50", "--dry-run", "--json") == 0
    splits = json.loads(capsys.readouterr().out)["splits"]
    assert splits == [
        {"name": "train", "records": 45, "shards": 1, "bytes": 0, "expected": 45, "tolerance": 1},
        {"name": "test", "records": 5, "shards": 1, "bytes": 0, "expected": 5, "tolerance": 1},
    ]


def test_a_limit_beyond_the_source_is_all_of_it(job: Path) -> None:
    assert code_of("run", job, "--limit", "1000", "--quiet") == 0
    assert verify(str(job.parent / "out"), Access()).records_out == 300


@pytest.mark.parametrize("limit", ["0", "-1"])
def test_a_limit_of_nothing_is_refused(job: Path, limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("run", job, f"--limit={limit}") == 2
    assert f"argument --limit: expected a whole number of at least 1, got '{limit}'" in capsys.readouterr().err
