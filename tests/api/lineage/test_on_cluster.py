"""The operator and the pods send events about the same run.

In these tests, the converter's commands stand in for the pods, with the environment variables that the operator gives to pods.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.builders.lineage_receiver import lineage_receiver
from tests.converter.cli.commandline import code_of
from tests.operator.world import NAMESPACE, World

from dataprep_api.lineage.sending import Receiver
from dataprep_operator.reconcilers.job import Reconciler
from dataprep_operator.reconcilers.lineage import LineageRecorder
from dataprep_operator.settings import PodDefaults

SPEC = """
apiVersion: dataprep.io/v1alpha1
kind: DataPrepJob
metadata: {name: mnist}
spec:
  source: {csv: {uris: [rows.csv], columns: [{name: x, type: Int64}]}}
  output: {uri: out}
"""


def lineage_variables(world: World, suffix: str) -> Mapping[str, str]:
    """The lineage variables in the environment of a step's pods."""
    (container,) = world.job(suffix)["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each["value"] for each in container["env"] if "LINEAGE" in each["name"]}


def test_the_operator_and_the_pods_send_the_events_of_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(SPEC)
    (tmp_path / "rows.csv").write_text("1\n2\n3\n")
    with lineage_receiver() as received:
        world, recorder = operated(received.url)
        world.apply()
        world.settle()
        in_pod(world, "plan", monkeypatch)
        assert code_of("plan", "job.yaml") == 0
        plan = json.loads(capsys.readouterr().out)
        world.committing()
        run = ["--run", plan["runId"], "--plan-sha256", plan["planSha256"]]
        assert code_of("work", "job.yaml", *run, "--index", "0") == 0
        in_pod(world, "commit-1", monkeypatch)
        assert code_of("commit", "job.yaml", *run) == 0
        world.committed()
        assert world.settle() == "Succeeded"
        recorder.close()

    assert sorted(received.kinds) == ["COMPLETE", "RUNNING", "START"]
    assert len({event["run"]["runId"] for event in received.events}) == 1
    assert {(event["job"]["namespace"], event["job"]["name"]) for event in received.events} == {(NAMESPACE, "mnist")}


def operated(url: str) -> tuple[World, LineageRecorder]:
    """Returns a world whose operator sends events to this URL, and the operator's recorder."""
    world, recorder = World(pods=PodDefaults(lineage=Receiver(url))), LineageRecorder(Receiver(url))
    shared: dict[str, Any] = {"cache": world.cache, "cluster": world.cluster, "progress_store": world.progress_store}
    world.reconciler = Reconciler(**shared, settings=world.settings, clock=lambda: world.cluster.now, lineage=recorder)
    return world, recorder


def in_pod(world: World, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the lineage variables of a step's pods in this process."""
    for name, value in lineage_variables(world, suffix).items():
        monkeypatch.setenv(name, value)
