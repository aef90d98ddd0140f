"""Jobs that the Python API submits to the cluster. The user is a service account with the role that docs/python.md describes."""

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.exceptions import NotFoundException
from tests.e2e.program_pods import program_pod
from tests.e2e.slow_jobs import held_writes

import dataprep_io as dp
from workbench.jobs import EACH_STEP, PATIENCE_SECONDS, Namespace
from workbench.stores import BUCKET, Stores
from workbench.users import EDIT, ONLY_JOBS, make_account, make_user

ROWS = 200
TEXT = b"x,y,kind\n" + b"".join(f"{n * 0.5},{n * 0.25},{'abc'[n % 3]}\n".encode() for n in range(ROWS))
SMALL = {"resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}}


@pytest.fixture
def user(namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Creates a user. The environment variable KUBECONFIG names the user's kubeconfig."""
    monkeypatch.setenv("KUBECONFIG", str(make_user(namespace, "scientist", role=EDIT, folder=tmp_path)))


@pytest.fixture
def key(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the environment variables with the address and the key of the S3 server."""
    named = {"ENDPOINT_URL": stores.s3.endpoint, "REGION": stores.s3.region}
    keys = {"ACCESS_KEY_ID": stores.s3.access_key, "SECRET_ACCESS_KEY": stores.s3.secret_key}
    for name, value in (named | keys).items():
        monkeypatch.setenv(f"AWS_{name}", value)


def a_spec(stores: Stores, folder: str, **changes: Any) -> Mapping[str, Any]:
    """The keyword arguments of a job that reads a CSV file and writes two splits."""
    return {
        "source": {"csv": {"uris": [f"s3://{BUCKET}/{folder}.csv"], "header": True}},
        "transforms": [{"vocabulary": {"columns": ["kind"]}}],
        "labels": [{"name": "kind"}],
        "splits": {"exact": True, "into": [{"name": "train", "fraction": 0.75}, {"name": "test", "fraction": 0.25}]},
        "output": {"uri": f"s3://{BUCKET}/{folder}"},
        "stores": stores.settings(),
        "workers": SMALL,
    } | changes


@pytest.mark.usefixtures("user", "key")
def test_a_failed_job_names_the_cause_and_succeeds_after_a_retry(namespace: Namespace, stores: Stores) -> None:
    job = dp.Job("rows", **a_spec(stores, namespace.name)).submit()
    assert job.namespace == namespace.name
    with pytest.raises(dp.ClusterError, match=f"The namespace {namespace.name} already has a DataPrepJob rows") as refused:
        dp.Job("rows", **a_spec(stores, "other")).submit()
    assert refused.value.status == 409

    sentence = f"s3://{BUCKET}/{namespace.name}.csv"
    with pytest.raises(dp.JobFailed, match=f"The job rows has failed: .*{sentence}") as failed:
        job.wait(timeout=120, poll=0.5)
    assert failed.value.reason == "InputNotFound"
    assert job.phase == "Failed"
    with pytest.raises(dp.JobFailed, match=sentence):
        _ = job.result
    assert any(sentence in line for line in job.logs(failed=True))

    stores.s3.write(BUCKET, f"{namespace.name}.csv", TEXT)
    job.retry()
    assert job.phase != "Failed"
    result = job.wait(timeout=120, poll=0.5)

    assert (result.records, result.splits, result.classes) == (ROWS, {"train": 150, "test": 50}, {"kind": ("a", "b", "c")})
    assert (result.uri, result.is_reproducible, result.warnings) == (f"s3://{BUCKET}/{namespace.name}", True, ())
    assert str(job.progress) == "Succeeded 100 %, 2 of 2 shards, 200 records"
    # Wait for the events, because an event is recorded only after the status that it describes.
    namespace.wait("rows", lambda _: {"InputNotFound", "Planned", "Completed"} <= {event.reason for event in job.events}, what="reported")
    read = [number for batch in result.open(split="train") for number in batch["x"].tolist()]
    assert len(read) == 150
    assert set(read) <= {n * 0.5 for n in range(ROWS)}

    found = dp.Job.attach("rows")
    assert found.result == result
    assert found.spec == job.spec
    assert [line for line in found.logs() if "Traceback" in line] == []
    with pytest.raises(dp.ClusterError, match="The job rows is Succeeded: only a failed job can be retried"):
        found.retry()
    found.delete()
    with pytest.raises(dp.JobNotFound, match='dataprepjobs.dataprep.io "rows" not found'):
        dp.Job.attach("rows")
    found.delete()


@pytest.mark.usefixtures("user")
def test_an_asynchronous_job_is_suspended_and_goes_on(namespace: Namespace, stores: Stores) -> None:
    """The job is suspended while its only shard is being written. In the meantime, its events and logs are read."""
    stores.s3.write(BUCKET, f"{namespace.name}.csv", TEXT)
    output = {"uri": f"oss://{BUCKET}/{namespace.name}"}

    async def scenario() -> dp.Result:
        job = await dp.AsyncJob("rows", **a_spec(stores, namespace.name, output=output, workers=SMALL | EACH_STEP)).submit()
        with pytest.raises(dp.NotFinished, match="The job rows has no result yet"):
            await job.result()
        with held_writes(stores, namespace, r".*tfrecords"):
            await reached(job, "Running")
            with pytest.raises(TimeoutError, match="The job rows hasn't ended within 0.1 seconds. The job continues."):
                await job.wait(timeout=0.1)
            await job.suspend()
            await reached(job, "Suspended")
        await job.resume()
        _, result, lines = await asyncio.gather(reached(job, "Succeeded"), job.wait(timeout=120, poll=0.5), follow(job))
        assert any("committed 200 records" in line for line in lines)
        # Wait for the events, because an event is recorded only after the status that it describes.
        async with asyncio.timeout(60):
            while not {"Suspended", "Resumed", "Completed"} <= {event.reason for event in await job.events()}:
                await asyncio.sleep(0.3)
        found = await dp.AsyncJob.attach("rows")
        assert await found.result() == result
        await found.delete()
        with pytest.raises(dp.JobNotFound):
            await found.phase()
        return result

    assert asyncio.run(scenario()).splits == {"train": 150, "test": 50}


async def reached(job: dp.AsyncJob, phase: str) -> None:
    async with asyncio.timeout(120):
        while (now := await job.phase()) != phase:
            assert now != "Failed", await job.progress()
            await asyncio.sleep(0.3)


async def follow(job: dp.AsyncJob) -> list[str]:
    return [line async for line in job.logs(follow=True)]


def test_a_user_without_rights_reads_which_one_is_missing(namespace: Namespace, stores: Stores, tmp_path: Path) -> None:
    kubeconfig = str(make_user(namespace, "stranger", role=None, folder=tmp_path))
    job = dp.Job("rows", **a_spec(stores, namespace.name))
    account = f'User "system:serviceaccount:{namespace.name}:stranger"'
    what = f'resource "dataprepjobs" in API group "dataprep.io" in the namespace "{namespace.name}"'
    with pytest.raises(dp.ClusterError, match=f"{account} cannot create {what}") as refused:
        job.submit(kubeconfig=kubeconfig)
    assert refused.value.status == 403
    with pytest.raises(dp.ClusterError, match=f"{account} cannot get {what}"):
        dp.Job.attach("rows", kubeconfig=kubeconfig)


SAYS = "The program says: "
"""The beginning of the program's line in the log, in which libraries may have written warnings."""
PROGRAM = """
import json
import sys
import dataprep_io as dp
spec, seconds, says = sys.argv[1:]
job = dp.Job("rows", **json.loads(spec)).submit()
refused = ""
try:
    job.events
except dp.ClusterError as exc:
    refused = str(exc)
result = job.wait(timeout=float(seconds), poll=0.5)
print(says + json.dumps([job.namespace, refused, [result.records, result.splits, result.uri]]))
job.delete()
"""


def test_a_program_in_a_pod_submits_a_job(namespace: Namespace, stores: Stores) -> None:
    """The pod's service account has only the chart's own role. The namespace enforces Pod Security `restricted`."""
    stores.s3.write(BUCKET, f"{namespace.name}.csv", TEXT)
    make_account(namespace, "notebook", role=ONLY_JOBS)
    spec = json.dumps(a_spec(stores, namespace.name))
    words = ("-c", PROGRAM, spec, str(PATIENCE_SECONDS), SAYS)
    namespace.apply(program_pod(namespace, stores, "program", *words, account="notebook"))
    # The pod has to start too, and a program that has lost its patience says why.
    deadline = time.monotonic() + 2 * PATIENCE_SECONDS
    while (pod := namespace.get("pods", "program"))["status"]["phase"] not in ("Succeeded", "Failed"):
        assert time.monotonic() < deadline, pod["status"]
        time.sleep(0.3)
    log = namespace.kubectl("logs", "program")
    assert pod["status"]["phase"] == "Succeeded", log
    said = [line.removeprefix(SAYS) for line in log.splitlines() if line.startswith(SAYS)]
    assert len(said) == 1, log
    submitted, refused, result = json.loads(said[0])
    assert submitted == namespace.name
    assert f'User "system:serviceaccount:{namespace.name}:notebook" cannot list resource "events"' in refused
    assert result == [ROWS, {"train": 150, "test": 50}, f"s3://{BUCKET}/{namespace.name}"]
    # The program has deleted its job.
    with pytest.raises(NotFoundException):
        namespace.job("rows")
