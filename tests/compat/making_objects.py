"""Builds `objects-<commit>.json.xz`: custom resources and their children as a release leaves them on a cluster, captured at several moments
in the life of a job.

    PYTHONPATH=CHECKOUT:CHECKOUT/api:CHECKOUT/operator:CHECKOUT/converter python tests/compat/making_objects.py FILE MOMENT ...

CHECKOUT contains a release's sources. That release's fake API server records the objects that its operator writes. The committed files were
made by the last release whose child names had six digits of the uid. One file contains a single job at several points in its life. The
other file contains the exceptions listed in CONTRIBUTING, and other kinds of objects. These files are never rebuilt; new files are added
beside them.
"""

import asyncio
import json
import lzma
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from tests.operator import world as harness
from tests.operator.world import NAMESPACE, World

from dataprep_api.reasons import Reason
from dataprep_operator.objects import times
from dataprep_operator.objects.observed import Key

UID: Final = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
WORKERS: Final = {"parallelism": 2, "resources": {"limits": {"memory": "1Gi"}}}


def begun(**spec: Any) -> World:  # Any: the spec as in YAML
    """A job whose plan Job has just been created."""
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
    """A deleted job whose output is being removed."""
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


# --- chained jobs, and other kinds ------------------------------------------------------------


def pending() -> World:
    """A job that is converting, and a second job that waits because it reads the first job's output."""
    world = converting()
    world.apply("second", source={"fromJob": {"name": "mnist"}}, output={"uri": "s3://out/second"})
    world.settle("second")
    return world


def follows() -> World:
    """The two chained jobs after the second one has started."""
    world = succeeded()
    world.apply("second", source={"fromJob": {"name": "mnist"}}, output={"uri": "s3://out/second"})
    world.settle("second")
    return world


def queued() -> World:
    world = World(kueue=True)
    world.apply(labels={"kueue.x-k8s.io/queue-name": "research"}, workers=WORKERS)
    world.settle()
    world.planned()
    world.settle()
    return world


def output_in_use() -> World:
    world = converting()
    world.apply("second", output={"uri": "s3://out/mnist"}, workers=WORKERS)
    world.settle("second")
    return world


def invalid() -> World:
    return begun(features=[{"name": "x"}, {"name": "x"}])


def profiled() -> World:
    """A job that is converting and gets its image from a profile."""
    world = World()
    profile = {"workers": {"image": "team:1", "nodeSelector": {"pool": "data"}}, "stores": [{"uriPrefix": "s3://", "region": "eu"}]}
    world.cluster.add(
        "dataprepprofiles",
        NAMESPACE,
        {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepProfile", "metadata": {"name": "team"}, "spec": profile},
    )
    world.apply(profile="team", workers=WORKERS)
    world.settle()
    world.planned()
    world.settle()
    return world


def scheduled() -> World:
    """A DataPrepCronJob whose first job is planning."""
    world = World()
    template = {"spec": {"source": {"csv": {"uris": ["s3://in/rows.csv"]}}, "output": {"uri": "s3://out/${SCHEDULED_TIME}"}}}
    spec = {"schedule": "*/10 * * * *", "jobTemplate": template}
    world.cluster.add(
        "dataprepcronjobs",
        NAMESPACE,
        {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepCronJob", "metadata": {"name": "nightly"}, "spec": spec},
    )

    def look() -> None:
        for _ in range(4):
            asyncio.run(world.crons.reconcile(Key(NAMESPACE, "nightly", "DataPrepCronJob")))

    look()
    world.cluster.now += timedelta(minutes=11)
    look()
    for plural, _, name in list(world.cluster.objects):
        if plural == "dataprepjobs":
            world.settle(name)
    look()
    return world


# --- objects whose meaning has changed ----------------------------------------------------------------------------------------


def privileged() -> World:
    """A sidecar that runs as root."""
    sidecar = {"name": "side", "image": "i", "restartPolicy": "Always", "securityContext": {"runAsUser": 0}}
    world = begun(workers=WORKERS | {"podTemplate": {"initContainers": [sidecar]}})
    world.planned()
    world.settle()
    return world


def evicted() -> World:
    """Two pods were evicted, but the status doesn't record the evictions."""
    world = converting()
    for number in range(2):
        now = times.text(world.cluster.now)
        ended = world.ended(143, "terminated")
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "lastTransitionTime": now}
        world.pod("convert-1", ended | {"conditions": [*ended["conditions"], condition]}, name=f"evicted-{number}", index=0)
    world.settle()
    return world


def ended_by_itself() -> World:
    """A pod that exited with 143 although it wasn't stopped. According to the convert Job's pod failure policy, this isn't a failure."""
    world = converting()
    world.pod("convert-1", world.ended(143, "terminated"), name="ended", index=0)
    world.settle()
    return world


def without_secret() -> World:
    """After two hours of conversion, the commit pod waits, because its Secret is missing."""
    world = converting()
    name = world.job("convert-1")["metadata"]["name"]
    began = times.text(world.cluster.now)
    world.cluster.now += timedelta(hours=2)
    ended = times.text(world.cluster.now)
    complete = [{"type": "Complete", "status": "True", "lastTransitionTime": ended}]
    status = {"startTime": began, "conditions": complete, "completionTime": ended, "completedIndexes": "0-3"}
    world.cluster.change("jobs", name, {"status": status})
    world.settle()
    world.pod("commit-1", world.waiting("CreateContainerConfigError", 'secret "oss-key" not found'))
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
    "pending": pending,
    "follows": follows,
    "queued": queued,
    "output-in-use": output_in_use,
    "invalid": invalid,
    "profiled": profiled,
    "scheduled": scheduled,
    "privileged": privileged,
    "evicted": evicted,
    "ended-by-itself": ended_by_itself,
    "without-secret": without_secret,
}


def objects(world: World) -> list[tuple[str, dict[str, Any]]]:
    """All objects except Events, each with the plural of its kind."""
    return [(plural, body) for (plural, _, _), body in world.cluster.objects.items() if plural != "events"]


if __name__ == "__main__":
    found = {moment: objects(MOMENTS[moment]()) for moment in sys.argv[2:]}
    Path(sys.argv[1]).write_bytes(lzma.compress(json.dumps(found, sort_keys=True).encode(), preset=9))
