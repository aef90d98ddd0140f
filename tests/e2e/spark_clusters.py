"""Jobs whose tables are joined by a Spark cluster, and the pods of this cluster."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.e2e.slow_jobs import held_so_far, kill_processes_of, running_workers

from kubecluster.errors import ClusterError
from workbench.jobs import Document, Namespace
from workbench.stores import BUCKET, Stores, mount

SECONDS: Final = 900
"""How long a test waits for a step on Spark. With three JVMs on two processors, some steps take minutes."""
EXECUTORS: Final = 2
NAME: Final = "joined"
FOLDER: Final = "_dataprep/join-"
"""The beginning of the paths of the files with joined rows, relative to the output's folder."""
RANGES: Final = rf"{FOLDER}.*\.arrow"
"""The files that executors write."""
_ROWS: Final = 200
_SIZES: Final = {"memory": "512m", "memoryOverhead": "256m"}
SPARK: Final = {"executor": {"instances": EXECUTORS, "cores": 1, **_SIZES}, "driver": _SIZES}
"""The driver has so little memory beside its heap that Spark joins even small tables."""


def small_tables(namespace: Namespace, stores: Stores) -> Document:
    """Writes two tables of 200 rows, in opposite orders, to the shared folder. Returns the source that joins them."""
    folder = stores.volume / namespace.name
    folder.mkdir()
    folder.chmod(0o755)
    for name, rows in (("a", range(_ROWS)), ("b", reversed(range(_ROWS)))):
        (folder / f"{name}.csv").write_text(f"id,{name}\n" + "".join(f"{row},{row * 3}\n" for row in rows))
    sources = {name: {"csv": {"uris": [f"/data/{folder.name}/{name}.csv"], "header": True}} for name in "ab"}
    return {"join": {"keys": ["id"], "tables": [{"name": name, "source": source} for name, source in sources.items()]}}


def joined_job(
    namespace: Namespace,
    stores: Stores,
    source: Document,
    *,
    name: str = NAME,
    spark: Mapping[str, Any] | None = SPARK,
    in_shared_folder: bool = False,
) -> Document:
    """A job that joins tables, and writes to the OSS fake or to the shared folder. Without `spark`, one pod joins the tables."""
    mounted = mount(namespace, stores)
    spec: Document = {
        "source": source,
        "output": {
            "uri": f"{'/data' if in_shared_folder else f'oss://{BUCKET}'}/{namespace.name}-{name}",
            "format": "tfrecord",
            "shards": {"count": 2},
        },
        "stores": stores.settings(),
        "workers": {
            "onePod": "Never",
            "parallelism": 1,
            "volumes": mounted["workers__volumes"],
            "volumeMounts": mounted["workers__volumeMounts"],
            "resources": {"requests": {"cpu": "200m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}},
        },
    }
    engine = {"engine": {"spark": spark}} if spark is not None else {}
    return {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": name}, "spec": spec | engine}


def digests(namespace: Namespace, name: str = NAME) -> list[str]:
    """The digests of the files that a finished job has written."""
    found = [file["sha256"] for file in namespace.status(name)["outputs"]]
    assert found
    return found


def pods_by_index(namespace: Namespace) -> dict[int, Document]:
    """The running pods of the Spark cluster."""
    found = [pod for pod in running_workers(namespace, NAME, step="plan") if "deletionTimestamp" not in pod["metadata"]]
    return {int(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]): pod for pod in found}


def kill(namespace: Namespace, *indexes: int) -> None:
    """Kills all processes of these pods with SIGKILL. Fails if one of the pods doesn't run, for example because it has finished."""
    pods = pods_by_index(namespace)
    assert pods.keys() >= set(indexes), f"of the pods {indexes}, only {sorted(pods)} run, so none is killed\n{namespace.story(NAME)}"
    hit = [kill_processes_of(pods[index]) for index in indexes]
    assert all(hit), f"of the pods {indexes}, only some had processes: {hit}"


def until_held(namespace: Namespace, stores: Stores, *, since: int = 0) -> int:
    """Waits until the number of PUTs that `held_writes` has held is greater than `since`. Returns this number."""
    until(lambda: held_so_far(stores) > since, namespace, what="an executor that writes")
    return held_so_far(stores)


def until(true: Callable[[], object], namespace: Namespace, *, what: str, seconds: float = SECONDS) -> None:
    """Polls until the function returns something true. Fails if the job ends first."""
    deadline = time.monotonic() + seconds
    while True:
        # The phase is read first, because what the function looks for can appear just before the job ends.
        phase = namespace.status(NAME).get("phase")
        if true():
            return
        assert phase not in ("Succeeded", "Failed"), f"the job is {phase} before: {what}\n{namespace.story(NAME)}"
        assert time.monotonic() < deadline, f"timed out after {seconds} s waiting for: {what}\n{namespace.story(NAME)}\n{_logs(namespace)}"
        time.sleep(0.5)


def log_of(namespace: Namespace, pod: str) -> str:
    """The log of a pod; empty if its container hasn't started."""
    try:
        return namespace.kubectl("logs", pod)
    except ClusterError:
        return ""


def _logs(namespace: Namespace) -> str:
    names = [pod["metadata"]["name"] for pod in namespace.pods(NAME, step="plan")]
    return "\n".join(f"{name}:\n{log_of(namespace, name)[-5000:]}" for name in names)


def secret_of(namespace: Namespace) -> Document:
    """The Secret of the job's Spark cluster."""
    [found] = json.loads(namespace.kubectl("get", "secrets", f"--selector=dataprep.io/job={NAME}", "--output=json"))["items"]
    return dict(found)
