"""Tests of jobs without a queue Job: the convert Job itself is in a Kueue queue. This happens if `kueue.enabled` isn't set, or if an older
release has started the job.

Kueue's messages appear in a condition, Kueue's changes to Jobs aren't reverted, and there is a warning if no Kueue manages the queue.
"""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.operator.world import NAMESPACE, START, World

from dataprep_operator import settings
from dataprep_operator.cluster.cluster import Body
from dataprep_operator.cluster.kueue import Kueue
from dataprep_operator.errors import Refused, Unavailable
from dataprep_operator.objects.child_jobs import QUEUE_LABEL, read
from dataprep_operator.objects.observed import Admission

# The message that Kueue 0.14 writes.
NO_QUOTA = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 3 more needed"
PENDING = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/team-a/localqueues/research/pendingworkloads"


@pytest.fixture
def world() -> World:
    return World(kueue=True)


def queued(world: World, **labels: str) -> Body:
    """Bring a job to a convert Job that waits in a queue, with an operator that doesn't know queue Jobs. Then upgrade the operator."""
    kueue, world.settings = world.settings.kueue, replace(world.settings, kueue=False)
    world.restart()
    world.apply(labels={QUEUE_LABEL: "research", **labels})
    world.settle()
    world.planned()
    assert world.settle() == "Queued"
    world.settings = replace(world.settings, kueue=kueue)
    world.restart()
    world.settle()
    return world.job("convert-1")


def workload(world: World, **condition: Any) -> None:  # Any: the API's JSON
    job = world.job("convert-1")["metadata"]
    name, labels = f"job-{job['name']}-abcde", {"kueue.x-k8s.io/job-uid": job["uid"]}
    status = {"conditions": [{"type": "QuotaReserved", **condition}]} if condition else {}
    if ("workloads", NAMESPACE, name) in world.cluster.objects:
        world.cluster.change("workloads", name, {"status": status})
    else:
        world.cluster.add("workloads", NAMESPACE, {"metadata": {"name": name, "labels": labels}, "status": status})


def let_go(world: World) -> None:
    world.cluster.change("jobs", world.job("convert-1")["metadata"]["name"], {"spec": {"suspend": False}})


def test_the_workload_s_words_and_the_place_in_the_queue_are_shown(world: World) -> None:
    job = queued(world)
    workload(world, status="False", reason="Pending", message=NO_QUOTA)
    item = {"metadata": {"name": f"job-{job['metadata']['name']}-abcde"}, "positionInLocalQueue": 2}
    world.cluster.documents[PENDING] = {"items": [{"metadata": {"name": "another"}, "positionInLocalQueue": 0}, item]}
    world.later(10)

    assert world.condition("QuotaReserved") == ("False", "Queued")
    told = f"The convert Job waits until the queue research admits it. {NO_QUOTA}. 2 jobs of the queue are before it."
    assert (world.message("QuotaReserved"), world.message("Running")) == (told, told)
    assert world.wait is not None
    assert world.wait <= 11

    workload(world, status="True", reason="QuotaReserved", message="Quota reserved in ClusterQueue c")
    let_go(world)
    assert world.settle() == "Running"
    assert world.condition("QuotaReserved") == ("True", "QuotaReserved")
    assert "NotQueued" not in world.events()


def test_an_eviction_makes_it_false_again(world: World) -> None:
    queued(world)
    workload(world, status="True", reason="QuotaReserved", message="")
    let_go(world)
    world.settle()
    workload(world, status="False", reason="Pending", message="Preempted to accommodate a workload of higher priority")
    world.cluster.change("jobs", world.job("convert-1")["metadata"]["name"], {"spec": {"suspend": True}})

    assert world.settle() == "Queued"
    assert world.message("QuotaReserved").endswith("Preempted to accommodate a workload of higher priority.")


def test_an_admitted_job_is_not_asked_about_any_more(world: World) -> None:
    queued(world)
    workload(world, status="True", reason="QuotaReserved", message="")
    let_go(world)
    world.settle()
    before = world.cluster.calls.count(("list", "workloads", f"kueue.x-k8s.io/job-uid={world.job('convert-1')['metadata']['uid']}"))
    for _ in range(5):
        world.later(30)
    after = world.cluster.calls.count(("list", "workloads", f"kueue.x-k8s.io/job-uid={world.job('convert-1')['metadata']['uid']}"))
    assert after == before


def test_a_job_that_waits_for_nobody_is_warned_of_and_heals(world: World) -> None:
    queued(world)
    assert world.condition("QuotaReserved") == ("False", "Queued")
    world.later(31)

    assert world.condition("QuotaReserved") == ("False", "NotQueued")
    assert world.message("QuotaReserved").startswith(
        "The convert Job waits for a Workload, because Kueue has not created one. Check that Kueue is running"
    )
    assert world.events().count("NotQueued") == 1
    (event,) = [e for (plural, _, _), e in world.cluster.objects.items() if plural == "events" and e["reason"] == "NotQueued"]
    assert event["type"] == "Warning"

    workload(world, status="False", reason="Pending", message=NO_QUOTA)
    world.later(10)
    assert world.condition("QuotaReserved") == ("False", "Queued")


def test_a_job_that_nothing_suspends_is_warned_of(world: World) -> None:
    queued(world)
    let_go(world)
    world.settle()
    assert world.wait is not None
    assert world.wait <= 31
    world.later(31)

    assert world.status()["phase"] == "Running"
    assert world.condition("QuotaReserved") == ("False", "NotQueued")
    assert world.message("QuotaReserved").startswith("The convert Job runs without a Workload, because Kueue has not created one")
    assert "NotQueued" in world.events()


def test_what_kueue_writes_into_the_job_is_left_alone(world: World) -> None:
    job = queued(world)
    workload(world, status="True", reason="QuotaReserved", message="")
    injected = {"spec": {"nodeSelector": {"pool": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}}
    change = {"spec": {"suspend": False, "parallelism": 1, "template": injected}}
    world.cluster.change("jobs", job["metadata"]["name"], change)
    world.edit(workers={"parallelism": 4})
    world.restart()
    for _ in range(3):
        world.later(60)

    assert [call for call in world.cluster.calls if call[:2] == ("patch", "jobs")] == []
    spec = world.job("convert-1")["spec"]
    assert (spec["parallelism"], spec["template"]["spec"]["nodeSelector"]) == (1, {"pool": "spot"})
    assert world.status()["effective"]["parallelism"] == 1


def test_labels_and_annotations_of_kueue_go_on_the_convert_job_only() -> None:
    world = World()
    world.apply(labels={QUEUE_LABEL: "research", "kueue.x-k8s.io/priority-class": "low", "team": "a"})
    world.edit(annotations={"kueue.x-k8s.io/job-min-parallelism": "1", "note": "mine"})
    world.settle()
    world.planned()
    world.settle()

    metadata = world.job("convert-1")["metadata"]
    assert (metadata["labels"]["kueue.x-k8s.io/priority-class"], "team" in metadata["labels"]) == ("low", False)
    assert (metadata["annotations"]["kueue.x-k8s.io/job-min-parallelism"], "note" in metadata["annotations"]) == ("1", False)
    assert not any("kueue" in key for key in world.job("plan")["metadata"]["labels"])


def test_a_suspended_job_is_in_no_queue(world: World) -> None:
    queued(world)
    world.edit(suspend=True)
    world.settle()
    assert world.message("QuotaReserved") == "No convert Job is in the queue."


def test_without_the_chart_s_word_nothing_is_asked() -> None:
    world = World()
    queued(world)
    world.later(100)
    assert world.condition("QuotaReserved") == ("False", "Queued")
    assert not [call for call in world.cluster.calls if call[1] == "workloads" or call[0] == "document"]


def test_a_job_without_a_queue_has_no_such_condition(world: World) -> None:
    world.running()
    assert world.condition("QuotaReserved") == ("", "")
    assert not [call for call in world.cluster.calls if call[1] == "workloads"]


# --- requests to Kueue ----------------------------------------------------------------------------------------------------------


def asked(world: World) -> Admission | None:
    return asyncio.run(Kueue(world.cluster).admission(read(world.job("convert-1")), queue="research", now=START))


def test_the_positions_in_a_queue_are_read_once_for_all_of_its_jobs(world: World) -> None:
    job = queued(world)
    workload(world, status="False", message=NO_QUOTA)
    name = f"job-{job['metadata']['name']}-abcde"
    world.cluster.documents[PENDING] = {"items": [{"metadata": {"name": name}, "positionInLocalQueue": 2}]}
    kueue, child = Kueue(world.cluster), read(job)
    world.cluster.calls.clear()

    positions = []
    for seconds in (0, 1, 4, 6):
        admission = asyncio.run(kueue.admission(child, queue="research", now=START + timedelta(seconds=seconds)))
        positions.append(admission.position if admission is not None else None)
        world.cluster.documents[PENDING]["items"][0]["positionInLocalQueue"] = 1
    assert positions == [2, 2, 2, 1]
    assert [call for call in world.cluster.calls if call[0] == "document"] == [("document", PENDING, "")] * 2


def test_an_older_kueue_is_asked_in_its_version(world: World) -> None:
    queued(world)
    workload(world, status="False", message="no quota")
    world.cluster.unserved.add("apis/kueue.x-k8s.io/v1beta2")
    assert asked(world) == Admission(exists=True, message="no quota")


def test_kueue_that_is_not_there_is_no_error(world: World) -> None:
    queued(world)
    world.cluster.unserved |= {f"apis/kueue.x-k8s.io/{version}" for version in ("v1beta1", "v1beta2")}
    assert asked(world) == Admission()


@pytest.mark.parametrize("error", [Refused("forbidden"), Unavailable("503")], ids=["denied", "down"])
def test_what_can_t_be_read_is_unknown_and_holds_nothing_up(world: World, error: Refused | Unavailable) -> None:
    queued(world)
    world.cluster.refusals[("list", "workloads")] = error
    assert asked(world) is None
    world.later(60)
    assert world.condition("QuotaReserved") == ("False", "Queued")


def test_the_setting_is_the_chart_s() -> None:
    assert settings.from_environment({"DATAPREP_KUEUE": "true"}).kueue is True
    assert settings.from_environment({}).kueue is False


# --- Kueue that manages Jobs without a queue as well ----------------------------------------------------------------------------


def kueue_manages_all(world: World, suffix: str) -> None:
    """Suspend a running Job, as Kueue suspends a Job that it hasn't admitted.

    Kueue does this either when the Job is created (by its webhook), or later (by its controller).
    """
    world.cluster.change("jobs", world.job(suffix)["metadata"]["name"], {"spec": {"suspend": True}})


def writes(world: World) -> int:
    return sum(1 for verb, what, _ in world.cluster.calls if (verb, what) == ("patch", "jobs"))


def test_a_job_that_is_stopped_is_started_again_once_and_then_left_to_kueue(world: World) -> None:
    world.apply()
    world.settle()
    kueue_manages_all(world, "plan")
    assert world.settle() == "Planning"
    assert world.job("plan")["spec"]["suspend"] is False
    kueue_manages_all(world, "plan")
    before = writes(world)

    assert world.settle() == "Queued"
    world.restart()
    for _ in range(5):
        assert world.later(60) == "Queued"
    assert writes(world) == before
    assert world.condition("Running") == ("False", "Queued")
    assert (
        "Kueue may have suspended the Job, because Kueue can also manage Jobs without a queue. "
        "In that case, put the label kueue.x-k8s.io/queue-name on a new DataPrepJob"
    ) in world.message("Running")
    name = world.job("plan")["metadata"]["name"]
    assert world.message("Running").endswith(f"""Otherwise resume the Job: kubectl patch job {name} -p '{{"spec":{{"suspend":false}}}}'""")

    world.cluster.change("jobs", name, {"spec": {"suspend": False}})
    assert world.settle() == "Planning"


@pytest.mark.parametrize("step", ["plan", "commit-1"])
def test_a_step_that_kueue_stops_goes_into_the_job_s_queue(step: str) -> None:
    world = World()
    queued_job = {QUEUE_LABEL: "research", "kueue.x-k8s.io/priority-class": "high"}
    world.apply(labels=queued_job)
    world.settle()
    if step != "plan":
        world.planned()
        world.settle()
        let_go(world)
        world.converted()
        world.settle()
    kueue_manages_all(world, step)

    assert world.settle() == "Queued"
    job = world.job(step)
    assert {key: job["metadata"]["labels"][key] for key in queued_job} == queued_job
    assert job["spec"]["suspend"] is True
    assert world.message("Running") == f"The {step.partition('-')[0]} Job waits until the queue research admits it."

    world.cluster.change("jobs", job["metadata"]["name"], {"spec": {"suspend": False}})
    assert world.settle() == ("Planning" if step == "plan" else "Committing")


def test_a_removal_that_kueue_stops_goes_into_the_job_s_queue(world: World) -> None:
    queued(world)
    world.edit(deletionPolicy="Delete")
    world.settle()
    world.cluster.end("dataprepjobs", NAMESPACE, "mnist")
    world.settle()
    kueue_manages_all(world, "cleanup")
    world.settle()

    assert world.job("cleanup")["metadata"]["labels"][QUEUE_LABEL] == "research"
    assert world.condition("OutputRemoved") == ("False", "Queued")


def test_what_the_operator_has_suspended_it_resumes(world: World) -> None:
    world.apply()
    world.settle()
    world.edit(suspend=True)
    world.settle()
    assert world.job("plan")["spec"]["suspend"] is True

    world.edit(suspend=False)
    assert world.settle() == "Planning"
    assert world.job("plan")["spec"]["suspend"] is False


def test_a_job_that_an_earlier_release_has_suspended_is_resumed(world: World) -> None:
    world.apply()
    world.settle()
    stored = world.job("plan")
    del stored["metadata"]["annotations"]["dataprep.io/suspend"]
    kueue_manages_all(world, "plan")

    assert world.settle() == "Planning"
    assert world.job("plan")["spec"]["suspend"] is False
