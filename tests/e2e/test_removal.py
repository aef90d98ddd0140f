"""With `deletionPolicy: Delete`, a job's output is removed with the job, on a real store and with the operator's real rights."""

import time

from workbench.jobs import Namespace, condition
from workbench.stores import BUCKET, Stores, a_job

SECONDS = 120


def gone(namespace: Namespace, name: str) -> bool:
    return name not in {job["metadata"]["name"] for job in namespace.all("dataprepjobs")}


def wait_until_gone(namespace: Namespace, name: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not gone(namespace, name):
        assert time.monotonic() < deadline, namespace.status(name)["conditions"]
        time.sleep(1)


def test_the_output_is_removed_with_its_job_and_foreign_files_stay(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    output = f"s3://{BUCKET}/{namespace.name}"
    namespace.apply(a_job(stores, name="scratch", source=digits_on_hdfs, output=output, deletionPolicy="Delete", limit=1000, one_pod=True))
    namespace.wait_phase("scratch", "Succeeded")
    stores.s3.write(BUCKET, f"{namespace.name}/_dataprep/notes.txt", b"mine")
    assert len(stores.s3.keys(BUCKET, f"{namespace.name}/")) > 5

    namespace.kubectl("delete", "dpj", "scratch", "--wait=false")
    wait_until_gone(namespace, "scratch")

    assert stores.s3.keys(BUCKET, f"{namespace.name}/") == [f"{namespace.name}/_dataprep/notes.txt"]


def test_a_denied_removal_says_so_and_ends_once_the_policy_is_retain(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    stores.hdfs.mkdirs(f"/{namespace.name}", owner="nobody")
    output = f"{stores.hdfs.uri}/{namespace.name}"
    job = a_job(stores, name="denied", source=digits_on_hdfs, output=output, deletionPolicy="Delete", limit=1000, one_pod=True)
    job["spec"]["stores"] = [{"uriPrefix": "hdfs://", "user": "nobody"}]
    namespace.apply(job)
    namespace.wait_phase("denied", "Succeeded")
    stores.hdfs.set_owner(f"/{namespace.name}", "somebody")
    namespace.kubectl("delete", "dpj", "denied", "--wait=false")

    deadline = time.monotonic() + SECONDS
    while condition(namespace.status("denied"), "OutputRemoved").get("reason") != "NotPermitted":
        assert time.monotonic() < deadline
        time.sleep(1)
    assert "set spec.deletionPolicy to Retain" in condition(namespace.status("denied"), "OutputRemoved")["message"]
    namespace.kubectl("patch", "dpj", "denied", "--type=merge", '--patch={"spec":{"deletionPolicy":"Retain"}}')
    wait_until_gone(namespace, "denied")
