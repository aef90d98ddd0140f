"""Argo Workflows' own packages check the example templates, and wait for a DataPrepJob with the conditions in the example.

No workflow runs here, because Argo's controller and executor would need their own images and cluster.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.builders.argo import argo
from tests.python.played_cluster import PlayedCluster

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

TEMPLATES = Path(__file__).resolve().parents[3] / "examples/pipelines/argo.yaml"
JOB = "/apis/dataprep.io/v1alpha1/namespaces/team/dataprepjobs/iris"
OUTPUT = {"uri": "s3://b/set", "manifestUri": "s3://b/set/_dataprep/abcd/manifest.json", "files": 1, "records": 3, "bytes": 90}
SUCCEEDED: dict[str, Any] = {"phase": "Succeeded", "runId": "abcd", "output": OUTPUT}


@pytest.fixture
def played() -> Iterator[PlayedCluster]:
    with PlayedCluster() as played:
        played.jobs["team/iris"] = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "iris"}}
        yield played


def address_of(played: PlayedCluster, folder: Path) -> str:
    """The address of the fake API server."""
    address: str = yaml.safe_load(played.kubeconfig(folder).read_text())["clusters"][0]["cluster"]["server"]
    return address


def test_argo_finds_no_fault_in_the_templates() -> None:
    said = argo(TEMPLATES)
    assert said["faults"] == []
    assert said["templates"] == ["dataprep", "dataprep-python"]


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("successCondition", "succesCondition", 'unknown field "succesCondition"'),
        ("inputs.parameters.output}}", "inputs.parameters.place}}", "failed to resolve {{inputs.parameters.place}}"),
    ],
    ids=["an unknown field", "an unknown parameter"],
)
def test_argo_finds_faults(tmp_path: Path, before: str, after: str, fault: str) -> None:
    file = tmp_path / "argo.yaml"
    file.write_text(TEMPLATES.read_text().replace(before, after, 1))
    assert fault in "".join(argo(file)["faults"])


def test_argo_waits_until_the_job_has_succeeded_and_takes_its_results(played: PlayedCluster, tmp_path: Path) -> None:
    played.statuses = [{}, {"phase": "Pending"}, {"phase": "Running"}, SUCCEEDED]
    said = argo(TEMPLATES, address_of(played, tmp_path), "dataprep", JOB)
    assert said["error"] == ""
    assert said["outputs"] == {"uri": "s3://b/set", "records": "3", "run-id": "abcd"}
    assert len(played.requests) == 5


def test_argo_sees_the_failure_of_the_job(played: PlayedCluster, tmp_path: Path) -> None:
    played.statuses = [{"phase": "Running"}, {"phase": "Failed"}]
    assert (
        "failure condition '{status.phase == [Failed]}' evaluated true"
        in argo(TEMPLATES, address_of(played, tmp_path), "dataprep", JOB)["error"]
    )
