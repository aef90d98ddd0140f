"""Flux's own library applies jobs and waits for them, as kustomize-controller does after each change of its source."""

import json
import subprocess

from kubecluster import binaries
from workbench.jobs import PATIENCE_SECONDS, Document, Namespace, condition
from workbench.smalljobs import small_jobs
from workbench.stores import Stores

FAILED_EARLY = "failed early due to stalled resources: [{}]"
TIMED_OUT = "timeout waiting for: [{}]"


def reconcile(namespace: Namespace, *jobs: Document, seconds: int = PATIENCE_SECONDS) -> tuple[dict[str, str], str]:
    """Let Flux apply the jobs and wait for them. Return what Flux did with each job, and Flux's error."""
    placed = [job | {"metadata": job["metadata"] | {"namespace": namespace.name}} for job in jobs]
    command = [str(binaries.built("flux")), str(namespace.cluster.kubeconfig), f"{seconds}s"]
    done = subprocess.run(command, input=json.dumps(placed), capture_output=True, text=True, check=False, timeout=seconds + 60)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    return {subject.rpartition("/")[2]: action for subject, action in answer["changes"].items()}, answer["error"]


def test_flux_reports_a_failed_job_while_another_one_still_waits(namespace: Namespace, stores: Stores) -> None:
    failing, waiting = small_jobs(stores, namespace, ["failing", "waiting"])
    failing["spec"]["source"]["csv"]["uris"] = ["/data/missing.csv"]
    waiting["spec"]["runAfter"] = ["missing"]

    changes, error = reconcile(namespace, failing, waiting)

    assert changes == {"failing": "created", "waiting": "created"}
    assert error == FAILED_EARLY.format(f"DataPrepJob/{namespace.name}/failing status: 'Failed'")
    assert condition(namespace.status("failing"), "Failed")["reason"] == "InputNotFound"


def test_flux_waits_for_a_mended_and_resumed_job_and_finds_no_drift_in_it(namespace: Namespace, stores: Stores) -> None:
    [job] = small_jobs(stores, namespace, ["mended"], one_pod=True)
    invalid = job | {"spec": job["spec"] | {"output": {"uri": "/data/${place}"}}}
    suspended = job | {"spec": job["spec"] | {"suspend": True}}
    name = f"DataPrepJob/{namespace.name}/mended"

    assert reconcile(namespace, invalid) == ({"mended": "created"}, FAILED_EARLY.format(f"{name} status: 'Failed'"))
    # When this wait begins, the status still describes the invalid job. Flux must not take it for the status of the edited job.
    assert reconcile(namespace, suspended, seconds=5) == ({"mended": "configured"}, TIMED_OUT.format(f"{name} status: 'InProgress'"))
    assert namespace.status("mended")["phase"] == "Suspended"
    assert reconcile(namespace, job) == ({"mended": "configured"}, "")
    assert namespace.status("mended")["phase"] == "Succeeded"
    assert reconcile(namespace, job) == ({"mended": "unchanged"}, "")
