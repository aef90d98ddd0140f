"""The example templates for Argo: the job that Argo applies is valid, and the script submits the same job."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.python.played_cluster import PlayedCluster

from dataprep_api.resources.job import DataPrepJob

TEMPLATES = Path(__file__).resolve().parents[2] / "examples/pipelines/argo.yaml"
VALUES = {
    "{{workflow.name}}": "iris-x7kpq",
    "{{workflow.namespace}}": "team",
    "{{inputs.parameters.input}}": "s3://b/iris/*.csv",
    "{{inputs.parameters.output}}": "s3://b/set",
}
SUCCEEDED: dict[str, Any] = {
    "phase": "Succeeded",
    "runId": "abcd",
    "output": {"uri": "s3://b/set", "manifestUri": "s3://b/set/_dataprep/abcd/manifest.json", "files": 1, "records": 3, "bytes": 90},
}


def template(number: int) -> Any:
    """The only template of a WorkflowTemplate."""
    (only,) = list(yaml.safe_load_all(TEMPLATES.read_text()))[number]["spec"]["templates"]
    return only


def filled(text: str) -> str:
    """The text after all parameters are replaced by their values, as Argo does."""
    for name, value in VALUES.items():
        text = text.replace(name, value)
    assert "{{" not in text
    return text


def applied() -> Any:
    return yaml.safe_load(filled(template(0)["resource"]["manifest"]))


def test_the_job_that_argo_applies_is_valid() -> None:
    job = DataPrepJob.parse(applied())
    assert job.metadata.name == "iris-x7kpq"
    assert job.spec.output.uri == "s3://b/set"


def test_the_script_submits_the_same_job_and_prints_the_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.StringIO()
    with PlayedCluster() as played, contextlib.redirect_stdout(printed):
        monkeypatch.setenv("KUBECONFIG", str(played.kubeconfig(tmp_path)))
        played.statuses = [SUCCEEDED]
        for _ in range(2):  # the second time, the step finds the job that it has submitted
            exec(compile(filled(template(1)["script"]["source"]), str(TEMPLATES), "exec"), {})  # noqa: S102 - our own example
    (body,) = played.bodies
    assert body["metadata"]["name"] == "iris-x7kpq"
    assert body["spec"] == applied()["spec"]
    assert [json.loads(line) for line in printed.getvalue().splitlines()] == [{"uri": "s3://b/set", "records": 3, "runId": "abcd"}] * 2
