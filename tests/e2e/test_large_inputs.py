"""Tests of large inputs: before the plan, pods scan the text in parts, and before the conversion, pods divide the records of a shuffle.

In both steps, pods are killed, evicted and suspended. The tests check that the output's bytes are those of `dataprep run`.
"""

import copy
import time
from pathlib import Path

from tests.e2e.slow_jobs import evict, held_writes, kill_processes, running_workers

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.cli.display import Display
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps.run import run
from workbench.jobs import PATIENCE_SECONDS, Document, Namespace
from workbench.stores import BUCKET, Stores
from workbench.wide_rows import ROWS, large_job

FILES = 6
"""The number of input files. A scan divides them into four parts, two for each pod. The first part ends in the middle of the second
file."""
SOME = {"splits": {"into": [{"name": "train", "first": 1000}]}}


def test_a_large_input_is_scanned_in_parts_and_lost_parts_are_scanned_again(namespace: Namespace, stores: Stores, tmp_path: Path) -> None:
    """The pods of the second and the third part are killed before they have stored their results.

    Then the job is suspended, before the last part has begun.
    """
    job = large_job(namespace, stores, files=FILES, **SOME)
    with held_writes(stores, namespace, r"_dataprep/scan-[^/]*/0000[123]"):
        namespace.apply(job)
        status = wait_summary(namespace, "1/4")
        assert (status["phase"], status["step"], status["scan"]["parts"]) == ("Planning", "Scan", 4)
        assert "1/4" in namespace.kubectl("get", "dpj", "large").splitlines()[1].split()
        namespace.wait("large", lambda _: kill_processes(namespace, "large", step="scan") > 0, what="scanning")
        status = namespace.wait("large", lambda s: bool(s.get("failures")), what="without one of its pods")
        assert (status["failures"][0]["step"], status["failures"][0]["index"] in (1, 2)) == ("Scan", True)
        namespace.kubectl("patch", "dpj", "large", "--type=merge", '--patch={"spec": {"suspend": true}}')
        namespace.wait_phase("large", "Suspended")
        until_idle(namespace)
        stored = [key.rpartition("/")[2] for key in stores.oss.keys(BUCKET, f"{namespace.name}/_dataprep/scan-")]
        assert [name for name in stored if name.endswith(".json")] == ["00000-0.json"]
        assert [name.partition(".")[2] for name in stored if name.startswith("listing-")] == ["index", "zst"]
        namespace.kubectl("patch", "dpj", "large", "--type=merge", '--patch={"spec": {"suspend": false}}')
        namespace.wait("large", lambda _: bool(running_workers(namespace, "large", step="scan")), what="scanning again")
    namespace.wait_phase("large", "Succeeded")
    assert_made_as_on_one_machine(job, namespace, stores, tmp_path)
    assert steps(namespace) == ["plan", "scan", "merge", "convert", "commit"]
    # The first part was scanned once. The second part had several pods, because its pods were killed and suspended.
    indexes = [pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for pod in namespace.pods("large", step="scan")]
    assert (indexes.count("0"), indexes.count("1") > 1, set(indexes)) == (1, True, {"0", "1", "2", "3"})
    assert any(message.startswith("The input is scanned in 4 parts") for _, message in namespace.events("large"))


def test_a_large_shuffle_has_two_rounds_whose_lost_pods_are_replaced(namespace: Namespace, stores: Stores, tmp_path: Path) -> None:
    """In the first round of the shuffle, the pod of one slice of the input is evicted. In the second round, the pods are killed."""
    job = large_job(namespace, stores, files=1, shuffle={"seed": 7})
    with held_writes(stores, namespace, r"_dataprep/[^/]*/shuffle/00001"):
        namespace.apply(job)
        status = wait_summary(namespace, "1/2")
        assert (status["phase"], status["step"], status["shuffleTasks"]) == ("Running", "Shuffle", 2)
        namespace.wait("large", lambda _: evict(namespace, "large", step="shuffle") > 0, what="dividing its records")
        namespace.wait("large", lambda s: (s.get("evictions") or {}).get("count", 0) > 0, what="without one of its pods")
        namespace.wait("large", lambda _: bool(running_workers(namespace, "large", step="shuffle")), what="dividing its records again")
    with held_writes(stores, namespace, r"train"):
        namespace.wait("large", lambda _: kill_processes(namespace, "large") > 0, what="converting")
        status = namespace.wait("large", lambda s: bool(s.get("failures")), what="without one of its pods")
        assert status["failures"][0]["step"] == "Convert"
    namespace.wait_phase("large", "Succeeded")
    assert status["progress"]["records"]["total"] == ROWS
    assert_made_as_on_one_machine(job, namespace, stores, tmp_path)
    assert steps(namespace) == ["plan", "shuffle", "convert", "commit"]
    assert [key for key in stores.oss.keys(BUCKET, f"{namespace.name}/") if "/shuffle/" in key] == []


def wait_summary(namespace: Namespace, summary: str) -> Document:
    return namespace.wait("large", lambda s: (s.get("progress") or {}).get("summary") == summary, what=f"{summary} far", seconds=120)


def until_idle(namespace: Namespace) -> None:
    """Waits until all pods of the job have ended."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(pod.get("status", {}).get("phase") not in ("Succeeded", "Failed") for pod in namespace.pods("large")):
        assert time.monotonic() < deadline, namespace.story("large")
        time.sleep(0.3)


def steps(namespace: Namespace) -> list[str]:
    """The steps of the job's Jobs, in the order in which they started."""
    jobs = sorted(namespace.all("jobs", selector="dataprep.io/job=large"), key=lambda job: str(job["metadata"]["creationTimestamp"]))
    return [job["metadata"]["labels"]["dataprep.io/step"] for job in jobs]


def assert_made_as_on_one_machine(job: Document, namespace: Namespace, stores: Stores, folder: Path) -> None:
    """Checks that the output has the bytes that `dataprep run` writes, and no leftovers."""
    alone = copy.deepcopy(job)
    del alone["spec"]["stores"], alone["spec"]["workers"]
    alone["spec"]["source"]["csv"]["uris"] = [str(stores.volume / namespace.name)]
    alone["spec"]["output"]["uri"] = str(folder / "out")
    run(DataPrepJob.parse(alone), access=Access(), workers=1, display=Display(quiet=True))
    expected = {file.name: file.read_bytes() for file in (folder / "out").glob("train*")}
    keys = stores.oss.keys(BUCKET, f"{namespace.name}/train")
    assert {key.rpartition("/")[2]: stores.oss.read(BUCKET, key) for key in keys} == expected
    assert len(expected) == 2
    assert [key for key in stores.oss.keys(BUCKET, f"{namespace.name}/") if "/scan-" in key or "/." in key] == []
    assert [upload.key for upload in stores.oss.uploads(BUCKET) if upload.key.startswith(f"{namespace.name}/")] == []
