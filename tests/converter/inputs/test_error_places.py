"""A planning error begins with the line of the job file that caused it."""

from pathlib import Path

import pytest

from dataprep_converter.inputs.error_places import place_of

JOB = """\
apiVersion: dataprep.io/v1alpha1
kind: DataPrepJob
metadata: {name: job}
spec:
  source: {csv: {uris: [a.csv]}}
  features: [{name: x}, {name: y}]
  labels:
    - name: z
  transforms:
    - cast: {columns: [x], to: float32}
    - standardize: {column: y}
  output: {uri: out}
"""
CRON = """\
apiVersion: dataprep.io/v1alpha1
kind: DataPrepCronJob
metadata: {name: cron}
spec:
  schedule: 0 3 * * *
  jobTemplate:
    spec:
      labels: [{name: z}]
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(JOB)
    return "job.yaml"


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ("The feature 'y': there is no column 'y'.", "job.yaml:6:32"),
        ("The feature 'z': there is no column 'z'.", "job.yaml:8:13"),
        ("The transform standardize takes tensors of numbers.", "job.yaml:11:7"),
        ("output.uri out lies in the input.", "job.yaml:12:17"),
        ("source.csv.uris: no.", "job.yaml:5:18"),
        ("output.fileName 'x': no.", ""),
        ("The feature 'absent': no.", ""),
        ("The disk is full.", ""),
    ],
)
def test_the_place_is_that_of_what_the_message_names(message: str, place: str, job: str) -> None:
    assert place_of(message, job) == place


def test_what_an_override_set_is_named_by_it(job: str) -> None:
    assert place_of("output.fileName 'x': no.", job, ["output.uri=o", "output.fileName=x"]) == "--set output.fileName"


def test_a_job_of_a_cron_job_is_found_in_its_template(tmp_path: Path) -> None:
    (tmp_path / "cron.yaml").write_text(CRON)
    assert place_of("The feature 'z': no.", str(tmp_path / "cron.yaml")) == f"{tmp_path}/cron.yaml:8:23"


def test_a_file_that_is_gone_has_no_place(tmp_path: Path) -> None:
    assert place_of("output.uri: no.", str(tmp_path / "absent.yaml")) == ""
