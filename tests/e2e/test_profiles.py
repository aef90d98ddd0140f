"""A DataPrepProfile on the cluster: a job that waits for its profile starts once the profile is created."""

from workbench.jobs import Namespace, condition
from workbench.stores import Stores, a_job


def test_a_job_waits_for_its_profile_and_takes_its_stores_and_labels(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    output = f"{stores.hdfs.uri}/{namespace.name}"
    job = a_job(stores, name="short", source=digits_on_hdfs, output=output, limit=1000, profile="team", one_pod=True)
    settings = job["spec"].pop("stores")
    namespace.apply(job)
    namespace.wait(
        "short", lambda status: condition(status, "Running").get("reason") == "ProfileNotFound", what="the missing profile in the status"
    )

    spec = {"stores": settings, "workers": {"nodeSelector": {"kubernetes.io/os": "linux"}}}
    namespace.apply({"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepProfile", "metadata": {"name": "team"}, "spec": spec})
    namespace.wait_phase("short", "Succeeded")

    assert condition(namespace.status("short"), "Validated")["message"] == "The spec is valid, with the DataPrepProfile team."
    assert {pod["spec"]["nodeSelector"]["kubernetes.io/os"] for pod in namespace.pods("short")} == {"linux"}
