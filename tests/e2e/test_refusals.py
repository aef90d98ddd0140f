"""Tests of invalid jobs.

Either the API server rejects the job with the field's path, or the job fails within the documented time, before any worker starts.
"""

import json
import time
from datetime import datetime

import pytest
from tests.e2e.spark_clusters import NAME, SPARK, joined_job, small_tables

from kubecluster.errors import ClusterError
from storeservers.processes import free_ports
from workbench.installation import CONVERTER_IMAGE, TAG
from workbench.jobs import Document, Namespace, condition
from workbench.stores import BUCKET, Stores, a_job

SECONDS = 30
"""The documented time for the plan step's checks. This excludes starting the pod and noticing its end, which can take longer on a busy
machine."""


def fails(namespace: Namespace, job: Document, *, reason: str, words: list[str]) -> Document:
    """Checks that the job fails with this reason and message, that it never had a converter pod, and that its plan pod was as fast as
    documented."""
    namespace.apply(job)
    name = job["metadata"]["name"]
    status = namespace.wait_phase(name, "Failed")
    assert [took for pod in namespace.pods(name, step="plan") if (took := seconds_taken(pod)) >= SECONDS] == []
    failed = condition(status, "Failed")
    assert (failed["status"], failed["reason"]) == ("True", reason), failed
    for word in words:
        assert word in failed["message"], failed["message"]
    assert namespace.pods(name, step="convert") == []
    # The Event is recorded after the status is written.
    namespace.wait(name, lambda _: reason in {event for event, _ in namespace.events(name)}, what=f"an event {reason}", seconds=30)
    return status


def seconds_taken(pod: Document) -> float:
    """How long a plan container ran; 0 if it never started."""
    ended = [found["terminated"] for each in pod["status"].get("containerStatuses", []) if "terminated" in (found := each["state"])]
    return sum((moment(each["finishedAt"]) - moment(each["startedAt"])).total_seconds() for each in ended)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def test_a_missing_input_is_named(namespace: Namespace, stores: Stores) -> None:
    job = a_job(stores, name="missing", source=f"{stores.hdfs.uri}/nowhere", output=f"{stores.hdfs.uri}/{namespace.name}")
    fails(namespace, job, reason="InputNotFound", words=[f"{stores.hdfs.uri}/nowhere/train-images-idx3-ubyte.gz"])


def test_an_unreachable_name_node_is_named(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    [port] = free_ports(stores.hdfs.host, count=1)
    job = a_job(stores, name="unreachable", source=digits_on_hdfs, output=f"hdfs://{stores.hdfs.host}:{port}/out")
    fails(namespace, job, reason="StoreUnreachable", words=[f"{stores.hdfs.host}:{port}"])


def test_a_missing_right_names_user_and_path(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    stores.hdfs.mkdirs(f"/{namespace.name}-closed", owner="somebody", permission="700")
    job = a_job(stores, name="denied", source=digits_on_hdfs, output=f"{stores.hdfs.uri}/{namespace.name}-closed/out")
    job["spec"]["stores"] = [{"uriPrefix": "hdfs://", "user": "nobody"}]
    fails(namespace, job, reason="NotPermitted", words=["user=nobody", f"/{namespace.name}-closed"])


def test_a_missing_right_on_oss_is_named(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    stores.oss.deny("oss:DeleteObject")
    try:
        job = a_job(stores, name="denied", source=digits_on_hdfs, output=f"oss://{BUCKET}/{namespace.name}")
        fails(namespace, job, reason="NotPermitted", words=["oss:DeleteObject", BUCKET])
    finally:
        stores.oss.deny()


def test_a_missing_secret_is_named(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    namespace.kubectl("delete", "secret", "s3-key")
    output = f"s3://{BUCKET}/{namespace.name}"
    # The default waiting time is tested with a missing ConfigMap.
    job = a_job(stores, name="no-secret", source=digits_on_hdfs, output=output, blockedDeadlineSeconds=5)
    fails(namespace, job, reason="ConfigMissing", words=["s3-key"])


def test_a_misspelt_field_of_a_volume_is_named(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    job = a_job(
        stores,
        name="misspelt",
        source=digits_on_hdfs,
        output=f"{stores.hdfs.uri}/{namespace.name}",
        workers__volumes=[{"name": "data", "persistentVolumClaim": {"claimName": "data"}}],
        blockedDeadlineSeconds=1,
    )
    fails(namespace, job, reason="PodRefused", words=["unknown field: spec.workers.volumes[0].persistentVolumClaim"])


def test_an_image_that_can_not_be_pulled_is_named(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    job = a_job(
        stores,
        name="no-image",
        source=digits_on_hdfs,
        output=f"{stores.hdfs.uri}/{namespace.name}",
        workers__image="nowhere.invalid/none:1",
        # By default the job waits longer, because an unknown host name might become resolvable later.
        blockedDeadlineSeconds=5,
    )
    fails(namespace, job, reason="ImagePullFailed", words=["nowhere.invalid/none:1"])


def test_a_source_can_only_change_before_the_job_starts(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    def patch(spec: Document) -> str:
        return namespace.kubectl("patch", "dataprepjob", "frozen", "--type=merge", f"--patch={json.dumps({'spec': spec})}")

    job = a_job(stores, name="frozen", source=digits_on_hdfs, output=f"{stores.hdfs.uri}/{namespace.name}", limit=1000, suspend=True)
    namespace.apply(job | {"spec": job["spec"] | {"shuffle": {"seed": 1}}})
    namespace.wait_phase("frozen", "Suspended")
    patch({"shuffle": None, "suspend": False})
    namespace.wait("frozen", lambda status: bool(status.get("startTime")), what="started")

    with pytest.raises(ClusterError, match="spec: Forbidden: shuffle can't change after the start"):
        patch({"shuffle": {"seed": 2}})
    patch({"workers": {"parallelism": 3}})
    namespace.wait_phase("frozen", "Succeeded")


def test_a_job_with_an_invalid_spec_starts_after_an_edit(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    job = a_job(stores, name="mended", source=digits_on_hdfs, output=f"{stores.hdfs.uri}/{namespace.name}", limit=1000, one_pod=True)
    namespace.apply(job | {"spec": job["spec"] | {"features": [{"name": "${NAME}"}]}})
    status = namespace.wait_phase("mended", "Failed")
    assert (condition(status, "Failed")["reason"], condition(status, "Stalled")["status"]) == ("InvalidSpec", "True")
    namespace.apply(job)

    namespace.wait("mended", lambda status: status["phase"] != "Failed", what="accepted")
    status = namespace.wait_phase("mended", "Succeeded")
    assert condition(status, "Ready")["status"] == "True"


def test_never_refuses_an_output_that_holds_a_finished_data_set(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    output = f"{stores.hdfs.uri}/{namespace.name}"
    namespace.apply(a_job(stores, name="first", source=digits_on_hdfs, output=output, limit=1000, one_pod=True))
    namespace.wait_phase("first", "Succeeded")
    job = a_job(stores, name="second", source=digits_on_hdfs, output=output, limit=1000, output__overwrite="Never")
    fails(namespace, job, reason="OutputExists", words=[output])


def test_the_same_finished_spec_is_reused(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    path = f"/{namespace.name}"
    output = f"{stores.hdfs.uri}{path}"
    namespace.apply(a_job(stores, name="first", source=digits_on_hdfs, output=output, limit=1000, one_pod=True))
    first = namespace.wait_phase("first", "Succeeded")
    before = {entry.path: entry for entry in stores.hdfs.files(path)}
    times = {p: stores.hdfs.stat(p) for p in before}

    namespace.apply(a_job(stores, name="second", source=digits_on_hdfs, output=output, limit=1000))
    second = namespace.wait_phase("second", "Succeeded")
    assert second["reused"] is True
    assert condition(second, "Complete")["reason"] == "Reused"
    assert second["output"] == first["output"]
    assert second["outputs"] == first["outputs"]
    assert namespace.pods("second", step="convert") == []
    assert {p: stores.hdfs.stat(p) for p in before} == times


def test_a_younger_job_waits_for_the_output_of_an_unfinished_one(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    output = f"{stores.hdfs.uri}/{namespace.name}"
    namespace.apply(a_job(stores, name="older", source=digits_on_hdfs, output=output, limit=1000, suspend=True))
    namespace.wait_phase("older", "Suspended")
    time.sleep(1.1)  # creation timestamps have a resolution of a second
    namespace.apply(a_job(stores, name="younger", source=digits_on_hdfs, output=f"{output}/", limit=1000, one_pod=True))
    waiting = condition(namespace.wait_phase("younger", "Pending"), "Running")
    assert waiting["reason"] == "OutputInUse"
    assert f"{namespace.name}/older" in waiting["message"]

    namespace.kubectl("delete", "dpj", "older")
    namespace.wait_phase("younger", "Succeeded")


def test_an_image_without_spark_is_refused(namespace: Namespace, stores: Stores) -> None:
    """The driver or a worker reports that the image has no PySpark, whichever of the pods starts first."""
    spark = SPARK | {"image": f"{CONVERTER_IMAGE}:{TAG}"}
    namespace.apply(joined_job(namespace, stores, small_tables(namespace, stores), spark=spark))
    failed = condition(namespace.wait_phase(NAME, "Failed"), "Failed")
    assert failed["reason"] == "InvalidSpec"
    assert (
        "The image has no PySpark. Set engine.spark.image to an image with PySpark, Java and this release of dataprep." in failed["message"]
    )
