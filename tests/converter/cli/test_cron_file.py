"""A DataPrepCronJob's file on one machine: runs the job that the cron job would create now."""

import re
from pathlib import Path

import pytest
from tests.converter.cli.commandline import EXAMPLES, code_of, settings

from workbench import photos
from workbench.example_inputs import iris_parquet


def test_validate_fills_in_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("validate", EXAMPLES / "cron-nightly.yaml") == 0
    assert re.search(r" at s3://data/photos-tfrecord/20\d{6}T\d{4}Z$", capsys.readouterr().out.strip())


def test_validate_names_a_fault_of_the_template_with_its_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cron.yaml"
    file.write_text((EXAMPLES / "cron-nightly.yaml").read_text().replace("parallelism: 8", "paralelism: 8"))

    assert code_of("validate", file) == 2
    assert "spec.jobTemplate.spec.workers.paralelism: unknown field; did you mean parallelism?" in capsys.readouterr().err


def test_run_makes_this_moment_s_version(tmp_path: Path) -> None:
    source = f"{{parquet: {{uris: [{iris_parquet(tmp_path)}]}}}}"
    fields = {"source": source, "params.output": tmp_path / "out", "workers": "{}"}
    assert code_of("run", EXAMPLES / "cron-nightly.yaml", *settings(fields)) == 0

    (version,) = (tmp_path / "out").iterdir()
    assert (version / "_SUCCESS").exists()


def test_each_version_has_its_folder_below_the_uri(tmp_path: Path) -> None:
    source = f"{{images: {{uris: [{photos.write(tmp_path / 'photos')}]}}}}"
    assert code_of("run", EXAMPLES / "cron-versions.yaml", *settings({"source": source, "output.uri": tmp_path / "out"})) == 0

    (version,) = (tmp_path / "out").iterdir()
    assert re.fullmatch(r"20\d{6}T\d{4}Z", version.name)
    assert (version / "_SUCCESS").exists()
