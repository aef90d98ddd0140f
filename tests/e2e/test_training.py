"""A training Job can be created before its data exists. It starts once the ConfigMap exists, and reads the promised number of records."""

import json
import time

import yaml

from workbench.installation import CONVERTER_IMAGE, TAG
from workbench.jobs import Document, Namespace
from workbench.stores import EXAMPLES, Stores, a_job

PATIENCE_SECONDS = 300
JOB = "train-on-mnist"


def training(stores: Stores) -> Document:
    """examples/train-on-mnist.yaml with the tests' image and user."""
    document: Document = yaml.safe_load((EXAMPLES / f"{JOB}.yaml").read_text(encoding="utf-8"))
    (container,) = document["spec"]["template"]["spec"]["containers"]
    container["image"] = f"{CONVERTER_IMAGE}:{TAG}"
    container["env"] = [{"name": "HADOOP_USER_NAME", "value": stores.hdfs.user}]
    return document


def wait_for_end(namespace: Namespace) -> str:
    """Returns the condition with which the Job ended: Complete or Failed."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        conditions = namespace.get("jobs", JOB).get("status", {}).get("conditions", [])
        ended = [each["type"] for each in conditions if each["type"] in ("Complete", "Failed") and each["status"] == "True"]
        if ended:
            return str(ended[0])
        time.sleep(0.5)
    raise AssertionError(f"{JOB} has not ended: {json.dumps(namespace.all('pods', selector=f'job-name={JOB}'))[-4000:]}")


def test_a_training_job_waits_for_its_data_and_counts_the_55000_records(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    namespace.apply(training(stores))
    output = f"{stores.hdfs.uri}/{namespace.name}/mnist"
    namespace.apply(a_job(stores, name="mnist-hdfs", source=digits_on_hdfs, output=output, one_pod=True))
    namespace.wait_phase("mnist-hdfs", "Succeeded")

    ended = wait_for_end(namespace)
    said = namespace.kubectl("logs", f"job/{JOB}")
    assert (ended, said.splitlines()[-1:]) == (
        "Complete",
        [f"55000 records in 550 batches, 55000 promised; by class: {[5_500] * 10}"],
    )
