"""Makes `objects-<commit>.json.xz`: custom resources and their children as a release leaves them on a cluster, at several moments of a job.

    PYTHONPATH=CHECKOUT:CHECKOUT/api:CHECKOUT/operator:CHECKOUT/converter python tests/compat/making_objects.py FILE

CHECKOUT is a folder with the release's sources; its own fake API server keeps what its own operator writes. The file that is committed was made by the last
release whose children had six digits of the uid in their names. It is made again by nothing: another one is added beside it.
"""

import json
import lzma
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.reconcile import world as harness
from tests.reconcile.world import NAMESPACE, World

from dataprep_api.reasons import Reason

UID: Final = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
WORKERS: Final = {"parallelism": 2, "resources": {"limits": {"memory": "1Gi"}}}


def begun(**spec: Any) -> World:  # Any: the spec as YAML has it
    """A job whose plan Job was just made."""
    world = World()
    subsets = [{"name": "train", "images": "s3://in/images", "labels": "s3://in/labels"}]
    whole = {"source": {"idx": {"subsets": subsets}}, "output": {"uri": "s3://out/mnist"}, "workers": WORKERS} | spec
    body = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "mnist", "uid": UID}, "spec": whole}
    world.cluster.add("dataprepjobs", NAMESPACE, body)
    world.settle()
    return world


def planning() -> World:
    world = begun()
    world.pod("plan", world.scheduled(phase="Running"))
    world.settle()
    return world


def converting() -> World:
    world = begun()
    world.planned()
    world.settle()
    for index in range(2):
        world.pod("convert-1", world.scheduled(phase="Running"), index=index)
    world.settle()
    return world


def committing() -> World:
    world = converting()
    world.converted()
    world.settle()
    return world


def planning_again() -> World:
    world = begun()
    world.plan_fails(harness.a_failure(Reason.INPUT_NOT_FOUND, "s3://in/images was not found."))
    world.settle()
    harness.retry(world)
    return world


def failed() -> World:
    world = converting()
    world.fail("convert-1", "FailedIndexes", "Job has failed indexes", failedIndexes="2", completedIndexes="0-1,3")
    world.settle()
    return world


def suspended() -> World:
    world = converting()
    world.edit(suspend=True)
    world.settle()
    return world


def succeeded() -> World:
    world = committing()
    world.committed()
    world.settle()
    return world


def leaving() -> World:
    """Deleted, and its output is being removed."""
    world = begun(deletionPolicy="Delete")
    world.planned()
    world.settle()
    world.converted()
    world.settle()
    world.committed()
    world.settle()
    world.cluster.end("dataprepjobs", NAMESPACE, "mnist")
    world.settle()
    return world


MOMENTS: Final[Mapping[str, Callable[[], World]]] = {
    "planning": planning,
    "converting": converting,
    "committing": committing,
    "planning-again": planning_again,
    "failed": failed,
    "suspended": suspended,
    "succeeded": succeeded,
    "leaving": leaving,
}


def objects(world: World) -> list[tuple[str, dict[str, Any]]]:
    """All but the Events, with their plurals."""
    return [(plural, body) for (plural, _, _), body in world.cluster.objects.items() if plural != "events"]


if __name__ == "__main__":
    found = {moment: objects(make()) for moment, make in MOMENTS.items()}
    Path(sys.argv[1]).write_bytes(lzma.compress(json.dumps(found, sort_keys=True).encode(), preset=9))
