"""Schedules and chains on the cluster: a DataPrepCronJob makes a version every minute, and one job reads another job's output."""

import time
from pathlib import Path
from typing import Any

import pytest

from workbench.jobs import EACH_STEP, Document, Namespace, condition
from workbench.stores import Stores, mount

SECONDS = 300


def a_template(stores: Stores, namespace: Namespace, digits: Path, *, output: str) -> Document:
    """The spec of a single-pod job that reads the shared folder and writes its output there."""
    folder = f"/data/{digits.relative_to(stores.volume)}"
    volume: dict[str, Any] = mount(namespace, stores)
    train = {"name": "train", "images": f"{folder}/train-images-idx3-ubyte.gz", "labels": f"{folder}/train-labels-idx1-ubyte.gz"}
    return {
        "source": {"idx": {"subsets": [train]}},
        "limit": 1000,
        "output": {"uri": output, "shards": {"count": 2}},
        "workers": {"volumes": volume["workers__volumes"], "volumeMounts": volume["workers__volumeMounts"]},
    }


def a_cron(name: str, template: Document, **spec: Any) -> Document:  # Any: YAML
    whole = {"schedule": "* * * * *", "jobTemplate": {"metadata": {"labels": {"team": "a"}}, "spec": template}}
    return {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepCronJob", "metadata": {"name": name}, "spec": whole | spec}


def until(found: Any, *, what: str, seconds: float = SECONDS) -> Any:  # Any: whatever `found` returns
    """Polls until the result of `found` is truthy, and returns the result."""
    deadline = time.monotonic() + seconds
    while not (answer := found()):
        assert time.monotonic() < deadline, f"timed out after {seconds} s waiting for: {what}"
        time.sleep(1)
    return answer


def jobs_of(namespace: Namespace, cron: str) -> list[Document]:
    return namespace.all("dataprepjobs", selector=f"dataprep.io/cron-job={cron}")


@pytest.mark.long
def test_a_version_is_made_every_minute_and_old_jobs_are_deleted(namespace: Namespace, stores: Stores, digits: Path) -> None:
    out = f"/data/{namespace.name}-versions"
    template = a_template(stores, namespace, digits, output=f"{out}/${{SCHEDULED_TIME}}")
    namespace.apply(a_cron("minutely", template, concurrencyPolicy="Forbid", successfulJobsHistoryLimit=1))

    first = until(lambda: jobs_of(namespace, "minutely"), what="a job")[0]
    assert first["metadata"]["labels"]["team"] == "a"
    assert first["spec"]["params"]["SCHEDULED_TIME"].endswith("Z")
    namespace.wait_phase(first["metadata"]["name"], "Succeeded", seconds=SECONDS)

    def moved_on() -> bool:
        ended = [job for job in jobs_of(namespace, "minutely") if job.get("status", {}).get("phase") == "Succeeded"]
        return len(ended) == 1 and ended[0]["metadata"]["name"] != first["metadata"]["name"]

    until(moved_on, what="the first job gone and another one there")
    namespace.kubectl("patch", "dpcj", "minutely", "--type=merge", '--patch={"spec":{"suspend":true}}')
    until(lambda: condition(namespace.get("dataprepcronjobs", "minutely")["status"], "Suspended").get("status") == "True", what="suspended")
    status = namespace.get("dataprepcronjobs", "minutely")["status"]
    assert status["lastSuccessfulTime"]
    assert "nextScheduleTime" not in status
    versions = sorted(folder.name for folder in (stores.volume / f"{namespace.name}-versions").iterdir())
    assert len(versions) >= 2
    namespace.kubectl("delete", "dpcj", "minutely")
    until(lambda: not jobs_of(namespace, "minutely"), what="the jobs gone with it")


def test_an_invalid_schedule_says_why(namespace: Namespace) -> None:
    namespace.apply(a_cron("wrong", {"source": {"csv": {"uris": ["/in"]}}, "output": {}}, timeZone="Europe/Berln"))

    validated = until(lambda: condition(namespace.get("dataprepcronjobs", "wrong").get("status", {}), "Validated"), what="looked at")
    assert (validated["status"], validated["reason"]) == ("False", "InvalidSpec")
    assert "spec.jobTemplate.spec.output.uri: is required" in validated["message"]
    assert jobs_of(namespace, "wrong") == []


def test_a_job_reads_what_another_one_writes(namespace: Namespace, stores: Stores, digits: Path) -> None:
    """The first job is a single pod. Each step of the second job has its own pods."""
    out = f"/data/{namespace.name}-chain"
    first = a_template(stores, namespace, digits, output=f"{out}/first")
    second = {
        "source": {"fromJob": {"name": "first", "split": "train"}},
        "output": {"uri": f"{out}/second", "format": "parquet"},
        "workers": EACH_STEP | first["workers"],
    }
    head = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob"}
    namespace.apply({**head, "metadata": {"name": "second"}, "spec": second})
    namespace.wait(
        "second", lambda status: condition(status, "Running").get("reason") == "WaitingForJob", what="waiting for a job that doesn't exist"
    )
    namespace.apply({**head, "metadata": {"name": "first"}, "spec": first})

    status = namespace.wait_phase("second", "Succeeded", seconds=SECONDS)
    before = namespace.status("first")
    assert status["fromJob"] == {"uri": f"{out}/first", "digest": before["output"]["digest"]}
    assert status["output"]["records"] == before["output"]["records"] == 1000
    assert status["startTime"] >= before["completionTime"]
