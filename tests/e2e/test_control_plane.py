"""Tests in which the API server and etcd fail and recover, the CRD is upgraded while jobs run, or objects come from an older release."""

import json
import time
from typing import Any

import pytest
import yaml
from tests.availability import unavailable

from kubecluster import Cluster
from kubecluster.errors import ClusterError, NotSupported
from workbench.installation import ROOT, Installation
from workbench.jobs import Document, Namespace, condition
from workbench.outside import nobody_inside
from workbench.smalljobs import assert_done_once, phases, small_jobs, wait_all
from workbench.stores import Stores

HEALED_SECONDS = 180
"""All small jobs finish within this time once the API server is back."""


def at_work(namespace: Namespace, *, seconds: float = 60) -> None:
    """Waits until one of the jobs has been planned."""
    deadline = time.monotonic() + seconds
    while not {"Running", "Committing"} & set(phases(namespace).values()):
        assert time.monotonic() < deadline, phases(namespace)
        time.sleep(0.3)


@pytest.mark.exclusive
def test_jobs_survive_outages_of_the_api_server_and_etcd(
    namespace: Namespace, stores: Stores, cluster: Cluster, operator: Installation
) -> None:
    """The first outage is long enough for the leader to lose its Lease. The second outage is short."""
    namespace.apply(*small_jobs(stores, namespace, [f"restarted-{n}" for n in range(3)]))
    at_work(namespace)
    try:
        cluster.stop_api_server()
    except NotSupported as exc:
        unavailable(str(exc))
    try:
        time.sleep(14)
    finally:
        cluster.start_api_server()
    namespace.apply(*small_jobs(stores, namespace, ["afterwards"]))
    namespace.wait("afterwards", lambda status: bool(status.get("phase")), what="seen", seconds=45)
    cluster.stop_etcd()
    try:
        time.sleep(3)
    finally:
        cluster.start_etcd()
    wait_all(namespace, "Succeeded", seconds=HEALED_SECONDS)
    assert_done_once(stores, namespace, lost_answers=True)
    operator.wait_ready()


@pytest.mark.exclusive
def test_the_crd_may_be_upgraded_under_running_jobs(namespace: Namespace, stores: Stores, cluster: Cluster) -> None:
    """The new CRD has an additional field and different descriptions. The upgrade closes every watch of the resource."""
    file = ROOT / "crds" / "dataprepjobs.dataprep.io.yaml"
    newer = yaml.safe_load(file.read_text())
    spec = newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    spec["ofANewerRelease"] = {"type": "string", "maxLength": 10}
    namespace.apply(*small_jobs(stores, namespace, [f"upgraded-{n}" for n in range(2)]))
    at_work(namespace)
    apply_crd(cluster, newer)
    try:
        # An unknown field affects only the job that uses it, which waits for an upgrade of the operator. If the operator's watches began
        # before the CRD upgrade, they might deliver the job without the field.
        [late] = small_jobs(stores, namespace, ["late"])
        late["spec"]["ofANewerRelease"] = "yes"
        apply_once_known(namespace, late)
        status = namespace.wait("late", lambda status: bool(status.get("phase")), what="seen", seconds=60)
        assert (status["phase"], condition(status, "Running")["reason"]) == ("Pending", "OperatorOutdated")
        assert "doesn't support spec.ofANewerRelease" in condition(status, "Running")["message"]
        namespace.kubectl("delete", "dpj", "late")
        wait_all(namespace, "Succeeded", seconds=HEALED_SECONDS)
        assert_done_once(stores, namespace)
    finally:
        apply_crd(cluster, yaml.safe_load(file.read_text()))


@pytest.mark.apart
def test_objects_of_an_older_release_are_read_and_their_jobs_continue(
    namespace: Namespace, stores: Stores, own_operator: Installation
) -> None:
    """The statuses of the running jobs lack all fields that later releases added."""
    namespace.apply(*small_jobs(stores, namespace, [f"older-{n}" for n in range(2)]))
    at_work(namespace)
    with nobody_inside(own_operator):
        for name in phases(namespace):
            forget = json.dumps({"status": dict.fromkeys(LATER)})
            namespace.kubectl("patch", "dpj", name, "--subresource=status", "--type=merge", f"--patch={forget}")
    wait_all(namespace, "Succeeded", seconds=HEALED_SECONDS)
    assert_done_once(stores, namespace)


LATER = ("code", "effective", "fromJob", "runs", "timings", "warnings")
"""Status fields that an object from an older release might lack."""


def apply_once_known(namespace: Namespace, job: Document) -> None:
    """Applies the job as soon as the API server uses the new CRD."""
    deadline = time.monotonic() + 30
    while True:
        try:
            namespace.apply(job)
        except ClusterError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)
        else:
            return


def apply_crd(cluster: Cluster, document: Any) -> None:  # Any: YAML
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", stdin=json.dumps(document))
