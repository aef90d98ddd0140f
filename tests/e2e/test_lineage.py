"""The operator and the pods of jobs send OpenLineage events to a real HTTP server.

The operator has a key in its environment, and the pods have another key, from a Secret.
"""

import hashlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.builders.lineage_receiver import Received, lineage_receiver

from workbench.installation import Installation
from workbench.jobs import EACH_STEP, Document, Namespace
from workbench.stores import BUCKET, Stores

pytestmark = pytest.mark.apart

EVENT_SECONDS = 60
ROWS = b"1,a\n2,b\n"
KEY = "OPENLINEAGE_API_KEY"
SMALL = {"resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}}


@pytest.fixture
def received(namespace: Namespace, stores: Stores, away: Installation) -> Iterator[Received]:
    """A server that receives events, and an operator for the namespace that knows its address."""
    with lineage_receiver(host=stores.s3.host) as received:
        release = Installation(away.cluster, namespace=namespace.name, release="scoped")
        variables = [{"name": "OPENLINEAGE_URL", "value": received.url}, {"name": KEY, "value": "of-the-operator"}]
        release.install({"namespaces": [namespace.name], "crds": {"install": False}, "replicas": 1, "operator": {"env": variables}})
        yield received
        release.uninstall()


def a_job(stores: Stores, folder: str, name: str, workers: Mapping[str, Any]) -> Document:
    """A job that reads the CSV files of a folder on S3. Its pods have a key for the server."""
    key = {"name": KEY, "valueFrom": {"secretKeyRef": {"name": "lineage", "key": "key"}}}
    columns = [{"name": "n", "type": "Int64"}, {"name": "kind", "type": "String"}]
    spec = {
        "source": {"csv": {"uris": [f"s3://{BUCKET}/{folder}/{name}/*.csv"], "columns": columns}},
        "output": {"uri": f"s3://{BUCKET}/{folder}/{name}-set"},
        "stores": stores.settings(),
        "workers": {**SMALL, **workers, "env": [key]},
    }
    return {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": name}, "spec": spec}


def test_the_events_of_a_run_name_its_inputs_and_outputs(namespace: Namespace, stores: Stores, received: Received) -> None:
    """One job has a pod for each step. The other one fails, because its input doesn't exist."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "lineage"}, "stringData": {"key": "of-the-pods"}}
    stores.s3.write(BUCKET, f"{namespace.name}/good/1.csv", ROWS)
    good, bad = a_job(stores, namespace.name, "good", EACH_STEP), a_job(stores, namespace.name, "bad", {})
    namespace.apply(secret, good, bad)
    status = namespace.wait_phase("good", "Succeeded")
    message = failure(namespace.wait_phase("bad", "Failed"))

    sent = events_of(received, namespace, "good", 3)
    assert [(event["eventType"], key) for event, key in sent] == [
        ("START", "Bearer of-the-operator"),
        ("RUNNING", "Bearer of-the-pods"),
        ("COMPLETE", "Bearer of-the-pods"),
    ]
    start, running, complete = (event for event, _ in sent)
    assert len({event["run"]["runId"] for event in (start, running, complete)}) == 1
    (given,), (made,) = complete["inputs"], complete["outputs"]
    assert {(event["inputs"][0]["namespace"], event["inputs"][0]["name"]) for event in (start, running, complete)} == {
        (f"s3://{BUCKET}", f"{namespace.name}/good")
    }
    # The pin of the only file is its ETag.
    assert given["facets"]["version"]["datasetVersion"] == hashlib.md5(ROWS, usedforsecurity=False).hexdigest()
    assert given["inputFacets"]["inputStatistics"]["rowCount"] == 2
    assert running["inputs"][0]["facets"] == given["facets"]
    assert (made["namespace"], made["name"]) == (f"s3://{BUCKET}", f"{namespace.name}/good-set")
    facets = made["facets"]
    assert set(facets) == {"version", "schema", "storage", "dataQualityMetrics"}
    assert facets["version"]["datasetVersion"] == status["runId"]
    assert [(field["name"], field["type"]) for field in facets["schema"]["fields"]] == [("n", "int64"), ("kind", "bytes")]
    assert (facets["storage"]["storageLayer"], facets["storage"]["fileFormat"]) == ("s3", "tfrecord")
    assert facets["dataQualityMetrics"]["columnMetrics"]["n"]["max"] == 2
    assert made["outputFacets"]["outputStatistics"]["rowCount"] == 2

    sent = events_of(received, namespace, "bad", 2)
    assert [(event["eventType"], key) for event, key in sent] == [
        ("START", "Bearer of-the-operator"),
        ("FAIL", "Bearer of-the-operator"),
    ]
    assert len({event["run"]["runId"] for event, _ in sent}) == 1
    assert sent[1][0]["run"]["facets"]["errorMessage"]["message"] == message
    assert f"s3://{BUCKET}/{namespace.name}/bad doesn't exist" in message
    assert set(received.paths) == {"/api/v1/lineage"}


def events_of(received: Received, namespace: Namespace, job: str, count: int) -> list[tuple[Any, str | None]]:
    """Waits for the events of a job, and returns each event with the API key that was sent with it."""
    deadline = time.monotonic() + EVENT_SECONDS
    while True:
        both = zip(list(received.events), list(received.keys), strict=False)
        found = [(event, key) for event, key in both if (event["job"]["namespace"], event["job"]["name"]) == (namespace.name, job)]
        if len(found) >= count:
            return found
        assert time.monotonic() < deadline, f"only {[event['eventType'] for event, _ in found]} after {EVENT_SECONDS} s"
        time.sleep(0.2)


def failure(status: Document) -> str:
    """The message of a failed job."""
    [told] = [each["message"] for each in status["conditions"] if each["type"] == "Failed"]
    return str(told)
