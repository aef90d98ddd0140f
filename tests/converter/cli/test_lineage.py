"""OpenLineage events of the commands that pods run."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders.lineage_receiver import Received, lineage_receiver
from tests.converter.cli.commandline import code_of

from dataprep_api.names import LINEAGE_RUN, ONE_POD

RUN_ID = "3f5e83fa-3480-44ff-99c5-ff943904e5e8"
JOB = """
apiVersion: dataprep.io/v1alpha1
kind: DataPrepJob
metadata: {name: rows}
spec:
  source: {csv: {uris: [rows.csv], columns: [{name: x, type: Int64}]}}
  output: {uri: out}
"""


@pytest.fixture
def received(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Received]:
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "rows.csv").write_text("1\n2\n3\n")
    monkeypatch.chdir(tmp_path)
    with lineage_receiver() as received:
        for name, value in (received.settings() | {LINEAGE_RUN: RUN_ID}).items():
            monkeypatch.setenv(name, value)
        yield received


def test_the_pods_of_a_run_send_the_pins_and_then_the_data_set(received: Received, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("plan", "job.yaml") == 0
    plan = json.loads(capsys.readouterr().out)
    run = ["--run", plan["runId"], "--plan-sha256", plan["planSha256"]]
    assert code_of("work", "job.yaml", *run, "--index", "0") == 0
    assert code_of("commit", "job.yaml", *run) == 0

    assert received.kinds == ["RUNNING", "COMPLETE"]
    assert {event["run"]["runId"] for event in received.events} == {RUN_ID}
    running, complete = received.events
    assert running["inputs"][0]["facets"]["version"] == complete["inputs"][0]["facets"]["version"]
    assert running["outputs"][0]["facets"] == {}
    assert complete["outputs"][0]["facets"]["version"]["datasetVersion"] == plan["runId"]


def test_one_pod_sends_all_at_once(received: Received, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ONE_POD, "rows-")
    assert code_of("plan", "job.yaml") == 0

    (complete,) = received.events
    assert complete["eventType"] == "COMPLETE"
    assert complete["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 3
    assert complete["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 3


def test_a_failed_step_leaves_the_verdict_to_the_operator(received: Received, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").unlink()
    assert code_of("plan", "job.yaml") != 0
    assert received.events == []
