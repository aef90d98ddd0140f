"""Kubeflow Pipelines' own SDK compiles the example pipeline and runs its steps on this machine."""

import json
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from tests.python.played_cluster import PlayedCluster

import environments
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "tests/interop/readers/kfp_pipeline.py"
PATHS = [str(ROOT / "api"), str(ROOT / "converter"), sysconfig.get_paths()["purelib"]]
JOB = """
apiVersion: dataprep.io/v1alpha1
kind: DataPrepJob
metadata: {{name: rows}}
spec:
  source: {{csv: {{uris: [{folder}/rows.csv], columns: [{{name: x, type: Int64}}]}}}}
  output: {{uri: {folder}/out, format: parquet}}
"""
RUNNING: dict[str, Any] = {"phase": "Running"}
FAILED: dict[str, Any] = {"phase": "Failed"}
SUCCEEDED: dict[str, Any] = {
    "phase": "Succeeded",
    "runId": "abcd",
    "splits": [{"name": "train", "records": 3, "shards": 1}],
    "output": {"uri": "s3://b/set", "manifestUri": "s3://b/set/_dataprep/abcd/manifest.json", "files": 1, "records": 3, "bytes": 90},
}
FOUND: dict[str, Any] = {
    "apiVersion": "dataprep.io/v1alpha1",
    "kind": "DataPrepJob",
    "metadata": {"name": "rows", "namespace": "team", "uid": "1234", "resourceVersion": "1"},
    "spec": {"source": {"csv": {"uris": ["s3://b/rows.csv"]}}, "output": {"uri": "s3://b/set"}},
}


def run_pipeline(folder: Path, namespace: str = "", environment: dict[str, str] | None = None) -> Any:
    (folder / "rows.csv").write_text("1\n2\n3\n")
    wanted = {
        "example": str(ROOT / "examples/pipelines/kfp_pipeline.py"),
        "paths": PATHS,
        "folder": str(folder),
        "job": JOB.format(folder=folder),
        "namespace": namespace,
    }
    path = folder / "wanted.json"
    path.write_text(json.dumps(wanted))
    return json.loads(environments.run("kfp", SCRIPT, [path], environment))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kfp")


@pytest.fixture(scope="module")
def said(folder: Path) -> Any:
    """Runs the pipeline with kfp, and returns the script's output."""
    return run_pipeline(folder)


def test_the_component_has_typed_parameters_and_outputs(said: Any) -> None:
    component = said["components"]["comp-make-data-set"]
    assert set(component["inputDefinitions"]["parameters"]) == {"job", "namespace"}
    assert component["outputDefinitions"]["artifacts"]["data_set"]["artifactType"]["schemaTitle"] == "system.Dataset"
    assert component["outputDefinitions"]["parameters"]["Output"]["parameterType"] == "NUMBER_INTEGER"


def test_the_pipeline_makes_a_data_set_and_reads_it(folder: Path, said: Any) -> None:
    assert said["outputs"] == {"Output": 3}
    assert verify(str(folder / "out"), Access(), every_record=True).records_out == 3


@pytest.mark.parametrize(
    ("jobs", "statuses", "methods"),
    [
        ({}, [RUNNING, SUCCEEDED], ["GET", "POST", "GET"]),
        ({"team/rows": FOUND}, [SUCCEEDED], ["GET", "GET"]),
        ({"team/rows": FOUND}, [FAILED, FAILED, FAILED, SUCCEEDED], ["GET", "GET", "GET", "PATCH"]),
    ],
    ids=["a new job", "a repeated step finds its job", "a repeated step tries a failed job again"],
)
def test_a_step_submits_its_job_and_waits(tmp_path: Path, jobs: dict[str, Any], statuses: list[dict[str, Any]], methods: list[str]) -> None:
    with PlayedCluster() as played:
        played.jobs, played.statuses = dict(jobs), list(statuses)
        environment = {"KUBECONFIG": str(played.kubeconfig(tmp_path))}
        outputs = run_pipeline(tmp_path, "team", environment)["outputs"]

    assert outputs["Output"] == 3
    assert outputs["data_set"]["uri"] == "s3://b/set"
    assert (outputs["data_set"]["runId"], outputs["data_set"]["splits"]) == ("abcd", {"train": 3})
    assert [request.partition(" ")[0] for request in played.requests][: len(methods)] == methods
    assert "team/rows" in played.jobs
