"""`dataprep logs` and `dataprep retry`, with a fake kubectl that records how it was called."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.converter.cli.commandline import code_of

KUBECTL = """#!/bin/sh
printf '%s\\n' "$*" >> "$RECORD"
case "$1" in
get) cat "$PODS" ;;
logs) case "$*" in *gone*) echo "not found" >&2; exit 1 ;; *) echo "a line of $*" ;; esac ;;
esac
"""


def a_pod(name: str, phase: str, created: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "creationTimestamp": f"2026-01-01T00:00:{created}Z"}, "status": {"phase": phase}}


class Kubectl:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.record, self.pods = folder / "record", folder / "pods"
        (folder / "bin").mkdir()
        (folder / "bin/kubectl").write_text(KUBECTL)
        (folder / "bin/kubectl").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")
        monkeypatch.setenv("RECORD", str(self.record))
        monkeypatch.setenv("PODS", str(self.pods))

    def has(self, *pods: dict[str, Any]) -> None:
        self.pods.write_text(json.dumps({"items": pods}))

    @property
    def calls(self) -> list[str]:
        return self.record.read_text().splitlines()


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubectl:
    return Kubectl(tmp_path, monkeypatch)


def test_the_logs_of_all_pods_come_oldest_first(kubectl: Kubectl, capfd: pytest.CaptureFixture[str]) -> None:
    kubectl.has(a_pod("work", "Running", "05"), a_pod("plan", "Succeeded", "01"))
    assert code_of("logs", "mnist", "-n", "team", "--follow") == 0
    assert kubectl.calls == [
        "get pods --selector dataprep.io/job=mnist --output json --namespace team",
        "logs plan --namespace team --follow",
        "logs work --namespace team --follow",
    ]
    assert capfd.readouterr().out.splitlines() == [
        "==> plan", "a line of logs plan --namespace team --follow", "==> work", "a line of logs work --namespace team --follow",
    ]  # fmt: skip


def test_only_failed_pods_when_asked(kubectl: Kubectl) -> None:
    kubectl.has(a_pod("one", "Succeeded", "01"), a_pod("two", "Failed", "02"))
    assert code_of("logs", "mnist", "--failed") == 0
    assert kubectl.calls[1:] == ["logs two"]


def test_a_job_without_pods_is_told(kubectl: Kubectl, capsys: pytest.CaptureFixture[str]) -> None:
    kubectl.has(a_pod("one", "Succeeded", "01"))
    assert code_of("logs", "mnist", "--failed") == 5
    assert capsys.readouterr().err == "dataprep: error: The job mnist has no failed pods; a cleanup rule may have removed them.\n"


def test_a_log_that_is_gone_does_not_hide_the_others(kubectl: Kubectl, capfd: pytest.CaptureFixture[str]) -> None:
    kubectl.has(a_pod("gone", "Failed", "01"), a_pod("there", "Failed", "02"))
    assert code_of("logs", "mnist") == 5
    assert "a line of logs there" in capfd.readouterr().out


def test_what_kubectl_says_is_passed_on(kubectl: Kubectl, capsys: pytest.CaptureFixture[str]) -> None:
    (kubectl.pods.parent / "bin/kubectl").write_text("#!/bin/sh\necho 'pods is forbidden' >&2\nexit 1\n")
    assert code_of("logs", "mnist") == 5
    assert capsys.readouterr().err == "dataprep: error: kubectl get pods: pods is forbidden\n"


def test_without_kubectl_it_is_asked_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert code_of("logs", "mnist") == 2
    assert capsys.readouterr().err == "dataprep: error: This command needs kubectl on the PATH.\n"


# --- retry ----------------------------------------------------------------------------------------------------------------


def a_job(phase: str, message: str = "") -> dict[str, Any]:
    return {"status": {"phase": phase, "conditions": [{"type": "Failed", "status": "True", "message": message}]}}


def test_a_failed_job_is_tried_again(kubectl: Kubectl, capsys: pytest.CaptureFixture[str]) -> None:
    kubectl.pods.write_text(json.dumps(a_job("Failed", "s3://in was not found.")))
    assert code_of("retry", "photos", "-n", "team") == 0
    assert kubectl.calls[0] == "get dataprepjobs photos --output json --namespace team"
    assert kubectl.calls[1].startswith("annotate dataprepjobs photos dataprep.io/retry=20")
    assert kubectl.calls[1].endswith(" --overwrite --namespace team")
    assert capsys.readouterr().out == "photos will be retried; it had failed with: s3://in was not found.\n"


def test_two_wishes_are_two_values(kubectl: Kubectl) -> None:
    kubectl.pods.write_text(json.dumps(a_job("Failed")))
    assert [code_of("retry", "photos"), code_of("retry", "photos")] == [0, 0]
    assert kubectl.calls[1] != kubectl.calls[3]


def test_a_job_that_has_not_failed_is_not_tried_again(kubectl: Kubectl, capsys: pytest.CaptureFixture[str]) -> None:
    kubectl.pods.write_text(json.dumps(a_job("Running")))
    assert code_of("retry", "photos") == 2
    assert capsys.readouterr().err == "dataprep: error: photos is Running: only a failed job can be retried.\n"
    assert len(kubectl.calls) == 1


def test_kubectl_s_own_log_is_left_out_of_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logged = 'E1122 00:46:56.530682   29910 memcache.go:265] "Unhandled Error" err="connection refused"'
    Kubectl(tmp_path, monkeypatch)
    (tmp_path / "bin/kubectl").write_text(
        f"#!/bin/sh\necho '{logged}' >&2; echo '{logged}' >&2; echo 'The connection was refused' >&2; exit 1\n"
    )

    assert code_of("logs", "photos") == 5

    assert capsys.readouterr().err == "dataprep: error: kubectl get pods: The connection was refused\n"
