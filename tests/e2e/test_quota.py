"""The quota and the LimitRange from docs/security.md, in a namespace with jobs."""

import json
import re
import time

import pytest
import yaml

from kubecluster.errors import ClusterError
from workbench.installation import ROOT
from workbench.jobs import PATIENCE_SECONDS, Document, Documents, Namespace, condition
from workbench.smalljobs import small_jobs
from workbench.stores import Stores


def documented(namespace: Namespace) -> Documents:
    """The page's two objects, for this namespace."""
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    [block] = [block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "kind: ResourceQuota" in block]
    return [each | {"metadata": each["metadata"] | {"namespace": namespace.name}} for each in yaml.safe_load_all(block)]


@pytest.fixture
def limited(namespace: Namespace) -> Namespace:
    quota, limits = documented(namespace)
    namespace.apply(quota, limits)
    # The API server limits only the resources that the quota's status names.
    until_quota(namespace, "used", dict.fromkeys(quota["spec"]["hard"], "0"))
    return namespace


def until_quota(namespace: Namespace, part: str, amounts: dict[str, str], *, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until this part of the quota's status contains these amounts."""
    deadline = time.monotonic() + seconds
    while not amounts.items() <= (found := namespace.get("resourcequotas", "dataprep").get("status", {}).get(part, {})).items():
        assert time.monotonic() < deadline, f"after {seconds:.0f} s, {part} of the quota is {found}, without {amounts}"
        time.sleep(0.3)


def a_job_without_requests(stores: Stores, namespace: Namespace, name: str, *, memory: str = "1Gi") -> Document:
    [job] = small_jobs(stores, namespace, [name])
    job["spec"]["workers"]["resources"] = {"limits": {"memory": memory}}
    return job


def test_a_job_without_requests_runs_under_the_documented_quota(limited: Namespace, stores: Stores) -> None:
    limited.apply(a_job_without_requests(stores, limited, "photos"))
    limited.wait_phase("photos", "Succeeded")

    requests = [container["resources"]["requests"] for pod in limited.pods("photos") for container in pod["spec"]["containers"]]
    assert requests == [{"cpu": "250m", "memory": "1Gi"}] * 3
    # Finished pods don't count toward the quota, but finished DataPrepJobs and Jobs do.
    until_quota(limited, "used", {"count/dataprepjobs.dataprep.io": "1", "count/jobs.batch": "3", "pods": "0", "requests.cpu": "0"})


def test_what_exceeds_the_quota_or_the_limit_is_named_as_documented(limited: Namespace, stores: Stores) -> None:
    too_large = a_job_without_requests(stores, limited, "too-large", memory="32Gi")
    limited.apply(too_large)
    refused = limited.wait(
        "too-large", lambda status: condition(status, "Running").get("reason") == "PodRefused", what="PodRefused", seconds=60
    )
    assert "maximum memory usage per Container is 16Gi, but limit is 32Gi" in condition(refused, "Running")["message"]

    one = json.dumps({"spec": {"hard": {"count/dataprepjobs.dataprep.io": "1"}}})
    limited.kubectl("patch", "resourcequota", "dataprep", "--type=merge", f"--patch={one}")
    until_quota(limited, "hard", {"count/dataprepjobs.dataprep.io": "1"})
    with pytest.raises(ClusterError) as excluded:
        limited.apply(a_job_without_requests(stores, limited, "photos"))
    words = '"photos" is forbidden: exceeded quota: dataprep, requested: count/dataprepjobs.dataprep.io=1, used: '
    assert f"dataprepjobs.dataprep.io {words}" in str(excluded.value)
