"""Many jobs run at the same time, and each job is started exactly once.

The test is in a separate file, because it uses the whole machine and has a time limit.
"""

import time

import pytest

from kubecluster import Cluster
from workbench.jobs import Namespace
from workbench.stores import BUCKET, Stores, a_job


@pytest.mark.exclusive
def test_many_jobs_at_once_have_one_plan_job_each(namespace: Namespace, stores: Stores, cluster: Cluster, digits_on_s3: str) -> None:
    """The jobs' pods stay Pending because no node has the label."""
    count = 80
    jobs = [
        a_job(
            stores,
            name=f"many-{n:03d}",
            source=digits_on_s3,
            output=f"s3://{BUCKET}/{namespace.name}/{n}",
            workers__nodeSelector={"no": "where"},
        )
        for n in range(count)
    ]
    namespace.apply(*jobs)
    deadline = time.monotonic() + 120
    while (made := len(namespace.all("jobs"))) < count:
        assert time.monotonic() < deadline, f"{made} of {count} plan Jobs after 120 s"
        time.sleep(1)
    time.sleep(5)
    children = namespace.all("jobs")
    owners = [child["metadata"]["ownerReferences"][0]["name"] for child in children]
    assert sorted(owners) == sorted(f"many-{n:03d}" for n in range(count))
    assert {child["metadata"]["labels"]["dataprep.io/step"] for child in children} == {"plan"}
    assert len([c for c in namespace.all("configmaps") if c["metadata"]["name"] != "kube-root-ca.crt"]) == count
    cluster.kubectl("--namespace", namespace.name, "delete", "dataprepjobs", "--all", "--wait=false")
