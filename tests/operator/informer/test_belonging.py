"""An object belongs to a job only if one of the job's Jobs, in the same namespace, is its controller.

Labels and owner references to another namespace don't count, because anybody could write them.
"""

from typing import Any

from tests.builders.crons import Cron
from tests.operator.world import NAMESPACE, World, a_plan

from dataprep_api import CRON_KIND, KIND
from dataprep_operator.informer.cache import Kind
from dataprep_operator.objects.observed import Key

STRANGERS = "team-b"
Body = dict[str, Any]  # the API's JSON


def a_stranger(like: Body, **metadata: Any) -> Body:
    """Return an object with all fields of `like` except those that identify it. The tests add this object to another namespace."""
    kept = {key: like["metadata"][key] for key in ("labels", "annotations", "ownerReferences") if key in like["metadata"]}
    return {**{key: like[key] for key in ("spec", "status") if key in like}, "metadata": {"name": "stranger", **kept, **metadata}}


def test_a_pod_of_another_namespace_tells_no_plan(world: World) -> None:
    world.apply()
    world.settle()
    own = world.pod("plan", world.scheduled(phase="Running"))
    world.cluster.add("pods", STRANGERS, a_stranger(own) | {"status": world.ended(0, a_plan(run_id="forged"))})

    assert world.settle() == "Planning"
    assert "runId" not in world.status()


def test_a_job_of_another_namespace_is_no_step(world: World) -> None:
    world.running()
    own = world.job("convert-1")
    done = {"conditions": [{"type": "Complete", "status": "True"}], "completedIndexes": "0-3"}
    labels = own["metadata"]["labels"]
    world.cluster.remove("jobs", NAMESPACE, own["metadata"]["name"])
    world.cluster.add("jobs", STRANGERS, a_stranger(own, labels=labels) | {"status": done})

    world.settle()
    assert world.later(6) == "Running"
    assert "convert-1" in world.jobs()


def test_a_pod_is_its_jobs_whatever_its_labels_say(world: World) -> None:
    world.running()
    labels = {"app.kubernetes.io/managed-by": "dataprep-operator", "dataprep.io/job-uid": "another", "dataprep.io/attempt": "7"}
    world.pod("convert-1", world.unschedulable("0/3 nodes are available"), index=0, metadata={"labels": labels})

    assert world.settle() == "Pending"
    assert world.condition("Running")[1] == "Unschedulable"


def test_what_no_job_controls_is_no_pod_of_a_step(world: World) -> None:
    world.apply()
    world.settle()
    job = world.job("plan")["metadata"]
    like_it = {"kind": "ReplicaSet", "name": job["name"], "uid": job["uid"], "controller": True}
    metadata = {"name": "p", "labels": job["labels"], "ownerReferences": [like_it]}
    world.cluster.add("pods", NAMESPACE, {"metadata": metadata, "status": world.ended(0, a_plan(run_id="forged"))})

    assert world.settle() == "Planning"


def test_a_stranger_wakes_nobody_and_a_pod_wakes_its_own(world: World) -> None:
    world.running()
    own = world.pod("convert-1", world.scheduled(phase="Running"), index=0)
    unlabelled = {**own, "metadata": {**own["metadata"], "labels": {}}}
    stranger = {**own, "metadata": {**own["metadata"], "namespace": STRANGERS}}

    assert world.cache.key_of(Kind.PODS, unlabelled) == Key(NAMESPACE, "mnist")
    assert world.cache.key_of(Kind.PODS, stranger) is None


def test_a_pod_whose_job_is_gone_still_wakes_who_may_wait_for_it(world: World) -> None:
    world.running()
    own = world.pod("convert-1", world.scheduled(phase="Running"), index=0)
    world.cache.drop(Kind.JOBS, world.job("convert-1"))

    assert world.cache.key_of(Kind.PODS, own) == Key(NAMESPACE, "mnist")


def test_a_label_holds_up_no_removal(world: World) -> None:
    world.apply(deletionPolicy="Delete")
    world.settle()
    world.planned()
    world.settle()
    labels = world.job("convert-1")["metadata"]["labels"]
    world.cluster.add("pods", NAMESPACE, {"metadata": {"name": "p", "labels": labels}, "status": world.scheduled(phase="Running")})
    world.cluster.end("dataprepjobs", NAMESPACE, "mnist")
    world.settle()

    assert "cleanup" in world.jobs()


def test_a_label_lets_no_removal_begin_too_early(world: World) -> None:
    world.apply(deletionPolicy="Delete")
    world.settle()
    world.planned()
    world.settle()
    labels = world.job("convert-1")["metadata"]["labels"]
    world.pod("convert-1", world.scheduled(phase="Running"), index=0, metadata={"labels": {**labels, "dataprep.io/step": "cleanup"}})
    world.cluster.end("dataprepjobs", NAMESPACE, "mnist")
    world.settle()

    assert "cleanup" not in world.jobs()
    assert world.condition("OutputRemoved") == ("False", "RemovingOutput")


def test_a_job_of_another_namespace_holds_up_no_schedule() -> None:
    cron = Cron(concurrencyPolicy="Forbid")
    owner = {
        "kind": CRON_KIND,
        "name": "nightly",
        "uid": cron.world.cluster.objects[("dataprepcronjobs", NAMESPACE, "nightly")]["metadata"]["uid"],
    }
    metadata = {"name": "stranger", "ownerReferences": [owner | {"controller": True}]}
    cron.world.cluster.add("dataprepjobs", STRANGERS, {"kind": KIND, "metadata": metadata, "spec": {}, "status": {"phase": "Running"}})
    cron.world.cluster.now = cron.world.cluster.now.replace(minute=10)
    cron.settle()

    assert [place for plural, place, _ in cron.world.cluster.objects if plural == "dataprepjobs"] == [STRANGERS, NAMESPACE]
