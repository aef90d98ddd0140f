"""`dataprep run --profile FILE` uses the team's settings for stores and workers on a user's machine."""

from pathlib import Path

import pytest
import yaml
from tests.converter.cli.commandline import EXAMPLES, code_of, settings

from dataprep_converter.inputs import job_file

PROFILE = EXAMPLES / "profile-s3.yaml"


def test_the_example_holds_a_profile_and_a_job_that_needs_it() -> None:
    alone, together = job_file.load(str(PROFILE)), job_file.load(str(PROFILE), profile=str(PROFILE))
    assert alone.spec.stores is None
    assert [store.uri_prefix for store in together.spec.stores or []] == ["s3://"]
    assert together.spec.workers.service_account_name == "data-reader"
    assert together.spec.workers.parallelism == 4


def test_run_takes_it(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("1,2\n3,4\n")
    fields = {
        "source": f"{{csv: {{uris: [{tmp_path / 'rows.csv'}], columns: [{{name: x, type: Int64}}, {{name: y, type: Int64}}]}}}}",
        "output.uri": tmp_path / "out",
    }
    assert code_of("run", PROFILE, "--profile", PROFILE, "--quiet", *settings(fields)) == 0
    assert (tmp_path / "out" / "_SUCCESS").exists()


def test_a_profile_that_is_not_in_the_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("validate", PROFILE, "--profile", PROFILE, "--set", "profile=gpu") == 2
    assert f"spec.profile: {PROFILE} has no DataPrepProfile gpu" in capsys.readouterr().err

    wrong = tmp_path / "profile.yaml"
    wrong.write_text(yaml.safe_dump({"kind": "DataPrepProfile", "metadata": {"name": "a"}, "spec": {"worker": {}}}))
    assert code_of("validate", PROFILE, "--profile", wrong) == 2
    assert "spec.worker: unknown field; did you mean workers?" in capsys.readouterr().err
