"""Many small jobs, for tests of how jobs survive faults. Usually, each step has its own pod."""

import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.jobs import EACH_STEP, Document, JobNotAsExpected, Namespace
from workbench.stores import Stores, mount

ROWS = 200
STEPS = ("plan", "convert", "commit")


def write_input(stores: Stores, namespace: Namespace) -> Path:
    """Writes a CSV file to the shared folder if it doesn't exist. It is never written again, because a job fails if its input changes."""
    file = stores.volume / f"{namespace.name}.csv"
    if not file.exists():
        file.write_text("x,y,label\n" + "".join(f"{n * 0.5},{n * 0.25},{n % 3}\n" for n in range(ROWS)))
    return file


def small_jobs(
    stores: Stores, namespace: Namespace, names: list[str], *, one_pod: bool = False, **spec: Any
) -> list[Document]:  # Any: YAML
    """One job per name. Each job reads the file that `write_input` wrote. It writes to a folder next to this file, named after the
    namespace and the job.

    Each step has its own pod. With `one_pod`, a job runs in a single pod, as it does for users.
    """
    file = write_input(stores, namespace)
    mounted = mount(namespace, stores)
    return [
        {
            "apiVersion": "dataprep.io/v1alpha1",
            "kind": "DataPrepJob",
            "metadata": {"name": name},
            "spec": {
                "source": {"csv": {"uris": [f"/data/{file.name}"], "skipLines": 1}},
                "features": [{"name": "features", "columns": ["0", "1"], "dtype": "float32"}],
                "labels": [{"name": "label", "columns": ["2"], "dtype": "int64", "numClasses": 3}],
                "output": {"uri": f"/data/{namespace.name}-out/{name}", "shards": {"count": 1}},
                "workers": ({} if one_pod else EACH_STEP)
                | {
                    "volumes": mounted["workers__volumes"],
                    "volumeMounts": mounted["workers__volumeMounts"],
                    "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}},
                },
            }
            | spec,
        }
        for name in names
    ]


def phases(namespace: Namespace) -> dict[str, str]:
    """The phases of all jobs in a namespace, by name."""
    return {job["metadata"]["name"]: job.get("status", {}).get("phase", "") for job in namespace.all("dataprepjobs")}


def wait_all(namespace: Namespace, phase: str, *, seconds: float) -> float:
    """Wait until all jobs in the namespace have reached the phase. Return the seconds that this took."""
    began = time.monotonic()
    while others := {name: now for name, now in phases(namespace).items() if now != phase}:
        if time.monotonic() - began > seconds or (phase == "Succeeded" and "Failed" in others.values()):
            name = next((name for name, now in others.items() if now == "Failed"), next(iter(others)))
            raise JobNotAsExpected(
                f"not all {phase} after {time.monotonic() - began:.0f} of {seconds:.0f} s: {others}\n{namespace.story(name)}"
            )
        time.sleep(0.5)
    return time.monotonic() - began


def assert_done_once(stores: Stores, namespace: Namespace, *, lost_answers: bool = False) -> None:
    """Checks that each job succeeded at its first attempt with one Job and one pod per step, and that all wrote the same bytes.

    A job in one pod has only the plan step's Job and pod.

    With `lost_answers`, a Job is allowed to have had a second pod. If the API server dies after storing a new pod but before responding,
    the Job controller creates a second pod. It later deletes the second pod if either pod is still running.
    """
    jobs = namespace.all("dataprepjobs")
    statuses = {job["metadata"]["name"]: job["status"] for job in jobs}
    assert {name: (status["phase"], status["attempt"], status.get("failures", [])) for name, status in statuses.items()} == {
        name: ("Succeeded", 1, []) for name in statuses
    }
    expected = Counter((job["metadata"]["name"], step) for job in jobs for step in _own_steps(job))
    for kind in ("jobs", "pods"):
        # A job in a Kueue queue also has a queue Job, which has no pods.
        found = namespace.all(kind, selector="dataprep.io/job,dataprep.io/step!=queue")
        counted = Counter(map(_work, found))
        if kind == "pods" and lost_answers:
            counted = Counter(counted.keys())
        if counted != expected:
            odd = [each for each in found if counted[_work(each)] != expected[_work(each)]]
            raise JobNotAsExpected(
                f"missing {kind}: {sorted((expected - counted).elements())}; "
                f"unexpected {kind} (duplicates, or ones that belong to no step): {sorted((counted - expected).elements())}\n"
                + "\n".join(json.dumps(each) for each in odd)
                + "".join(
                    f"\n{namespace.story(name)}" for name in sorted({name for name, _ in (expected - counted) + (counted - expected)})
                )
            )
    digests = {file["sha256"] for status in statuses.values() for file in status["outputs"]}
    assert len(digests) == 1
    for name in statuses:
        folder = stores.volume / f"{namespace.name}-out" / name
        assert (folder / "_SUCCESS").is_file()
        assert [left.name for left in folder.iterdir() if left.name.startswith(".dataprep-tmp")] == []


def _own_steps(job: Document) -> Sequence[str]:
    """The steps that have their own Jobs."""
    return STEPS if job["spec"]["workers"].get("onePod") == "Never" else STEPS[:1]


def _work(child: Document) -> tuple[str, str]:
    labels = child["metadata"]["labels"]
    return labels["dataprep.io/job"], labels["dataprep.io/step"]
