"""Tests of the Helm chart on the cluster: install, test, upgrade and uninstall, jobs created before the installation, and namespaced
mode."""

import json
import uuid

import pytest

from kubecluster import Cluster
from workbench.installation import Installation
from workbench.jobs import Namespace
from workbench.outside import nobody_inside
from workbench.stores import BUCKET, Stores, a_job


def make_namespace(cluster: Cluster, stores: Stores) -> Namespace:
    name = f"test-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    made = Namespace(cluster, name)
    made.apply(*stores.secrets())
    return made


@pytest.mark.apart
def test_everything_may_change_until_an_operator_has_seen_the_job(away: Installation, cluster: Cluster, stores: Stores) -> None:
    del away
    space = make_namespace(cluster, stores)
    space.apply(a_job(stores, name="waiting", source="/in", output="/out", suspend=True))
    change = json.dumps({"spec": {"output": {"uri": "/elsewhere"}}})
    assert "patched" in space.kubectl("patch", "dpj", "waiting", "--type=merge", "--dry-run=server", f"--patch={change}")
    cluster.kubectl("delete", "namespace", space.name, "--wait=false")


@pytest.mark.exclusive
def test_a_release_can_be_tested_upgraded_and_removed_and_the_jobs_stay(
    operator: Installation, cluster: Cluster, stores: Stores, digits_on_s3: str
) -> None:
    release = Installation(cluster, namespace=f"rel-{uuid.uuid4().hex[:6]}", release="one")
    space = make_namespace(cluster, stores)
    with nobody_inside(operator):
        try:
            release.install()
            release.helm("test", release.release, "--timeout=90s")
            output = f"s3://{BUCKET}/{space.name}-a"
            space.apply(a_job(stores, name="before", source=digits_on_s3, output=output, limit=1000, suspend=True, one_pod=True))
            space.wait_phase("before", "Suspended")
            release.install({"replicas": 1})
            assert len(release.pods()) == 1
            space.kubectl("patch", "dpj", "before", "--type=merge", '--patch={"spec": {"suspend": false}}')
            space.wait_phase("before", "Succeeded")
        finally:
            release.uninstall()
        assert space.status("before")["phase"] == "Succeeded"
        assert release.pods() == []
    cluster.kubectl("delete", "namespace", space.name, release.namespace, "--wait=false")


@pytest.mark.apart
def test_namespaced_mode_needs_no_cluster_role_and_sees_nothing_else(
    away: Installation, cluster: Cluster, stores: Stores, digits_on_s3: str
) -> None:
    del away
    inside, outside = make_namespace(cluster, stores), make_namespace(cluster, stores)
    release = Installation(cluster, namespace=inside.name, release="scoped")
    try:
        release.install({"namespaces": [inside.name], "crds": {"install": False}})
        roles = json.loads(
            cluster.kubectl("get", "clusterroles,clusterrolebindings", "--selector=app.kubernetes.io/instance=scoped", "--output=json")
        )
        assert roles["items"] == []
        for space in (inside, outside):
            output = f"s3://{BUCKET}/{space.name}"
            space.apply(a_job(stores, name="job", source=digits_on_s3, output=output, limit=1000, one_pod=True))
        inside.wait_phase("job", "Succeeded")
        assert outside.status("job") == {"observedGeneration": -1}, "no operator has seen it"
        assert outside.all("jobs") == []
    finally:
        release.uninstall()
        cluster.kubectl("delete", "namespace", inside.name, outside.name, "--wait=false")
