"""Output to terminals: it has no credentials and no control sequences."""

import json
from pathlib import Path

import pytest
import yaml
from tests.converter.cli.commandline import code_of
from tests.secret_forms import forms_of

from dataprep_api.dataset.messages import PlanResult
from dataprep_api.redaction import printable
from dataprep_converter.cli import pod_messages

HOSTILE = "\x1b]0;owned\x07\x9b31m\u202e"
MARK = "Mk7-hunter2-Zq9"


def test_inspect_and_verify_show_escapes_of_data_and_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps({f"na{HOSTILE}me": f"va{HOSTILE}lue\nnext"}) + "\n")
    document = {
        "apiVersion": "dataprep.io/v1alpha1",
        "kind": "DataPrepJob",
        "metadata": {"name": "j"},
        "spec": {"source": {"jsonl": {"uris": [str(source)]}}, "output": {"uri": str(tmp_path / "out"), "format": "jsonl"}},
    }
    (tmp_path / "job.yaml").write_text(json.dumps(document))
    assert code_of("run", tmp_path / "job.yaml", "--workers", "1") == 0
    assert code_of("inspect", tmp_path / "out") == 0
    said = capsys.readouterr()
    assert r"na\u001b]0;owned\u0007\u009b31m\u202eme" in said.out
    for character in HOSTILE.replace("]0;owned", "").replace("31m", ""):
        assert character not in said.out + said.err


def test_a_hostile_name_in_an_error_is_escaped_and_stays_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("inspect", f"{tmp_path}/{HOSTILE}\ndataprep: all is well") == 5
    [line] = capsys.readouterr().err.splitlines()
    assert r"\u001b]0;owned\u0007" in line


@pytest.mark.parametrize("command", ["inspect", "ls", "verify", "infer"])
def test_a_key_in_the_uri_of_a_command_is_refused_and_not_said(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of(command, f"s3://AKIA:{MARK}@bucket/x") == 2
    said = capsys.readouterr()
    assert "contains a user or a key" in said.err
    assert MARK not in said.out + said.err


def test_a_printed_job_means_the_same_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a\u202eb.csv"
    file.write_text("x\n1\n2\n")
    assert code_of("infer", file) == 0
    written = capsys.readouterr().out
    assert "\u202e" not in written
    assert yaml.safe_load(written)["spec"]["source"]["csv"]["uris"] == [str(file)]


def test_no_form_of_a_password_is_said_of_a_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for url in (
        f"postgresql://me:{MARK}@db/x",
        f"postgresql://me:{MARK}/x@db/x",
        f"postgresql://db/x?password={MARK}",
        f"postgresql://db/x?sslpassword={MARK}",
        f"postgresql://db/x?pass%77ord={MARK}",
        f"postgresql://db/x?passfile=/{MARK}",
        f"mysql://me:{MARK}@db/x",
    ):
        spec = {"source": {"sql": {"url": url, "query": "SELECT 1 AS a", "orderBy": ["a"]}}, "output": {"uri": str(tmp_path / "o")}}
        document = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "j"}, "spec": spec}
        (tmp_path / "job.yaml").write_text(json.dumps(document))
        assert code_of("--debug", "validate", tmp_path / "job.yaml") == 2
        said = capsys.readouterr()
        assert "the password comes from a Secret" in said.err
        assert not [form for form in forms_of(MARK) if form in said.out + said.err]


def test_the_result_that_a_step_leaves_shows_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATAPREP_MOUNTS", str(tmp_path))
    monkeypatch.setenv("DATAPREP_TERMINATION_LOG", str(tmp_path / "said"))
    warning = f"{HOSTILE} s3://AKIA:{MARK}@bucket/x"
    pod_messages.leave(
        PlanResult(run_id="r", plan_sha256="0" * 64, plan_uri="p", tasks=1, shards=1, records=1, bytes_in=1, warnings=[warning])
    )
    for said in (capsys.readouterr().out, (tmp_path / "said").read_text()):
        assert MARK not in said
        assert printable(said) == said
    assert json.loads((tmp_path / "said").read_text())["warnings"] == [r"\u001b]0;owned\u0007\u009b31m\u202e s3://…@bucket/x"]
