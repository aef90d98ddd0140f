"""A job that reads another job's output runs only in a cluster. On one machine, the user names the data set instead."""

from pathlib import Path

import pytest
from tests.converter.cli.commandline import EXAMPLES, code_of, settings

from workbench.example_inputs import finished_flowers


def test_run_says_how_to_name_the_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("run", EXAMPLES / "from-job.yaml", *settings({"output.uri": tmp_path / "out"})) == 2
    assert "--set 'source={dataset: {uri: DIR}}'" in capsys.readouterr().err


def test_what_run_says_works(tmp_path: Path) -> None:
    dataset = finished_flowers(tmp_path)
    fields = {"source": f"{{dataset: {{uri: {dataset}}}}}", "splits": "null", "output.uri": tmp_path / "out"}

    assert code_of("run", EXAMPLES / "from-job.yaml", *settings(fields)) == 0
