"""Tests of queue Jobs: with `kueue.enabled`, one Job represents all steps of a DataPrepJob in the queue."""

from dataclasses import replace

import pytest
from tests.operator.decisions.queues import SPOT, active, admit, change, evict, pod_of, queued, run, stopped, workload
from tests.operator.world import NAMESPACE, World, a_failure, retry

from dataprep_api.reasons import Reason
from dataprep_operator.objects import owners
from dataprep_operator.objects.child_jobs import QUEUE_LABEL

PREEMPTED = "Preempted to accommodate a workload (UID: 1) due to prioritization in the ClusterQueue"


@pytest.fixture
def world() -> World:
    return World(kueue=True)


def test_one_job_waits_for_all_steps_with_all_marks_of_the_queue(world: World) -> None:
    world.apply(labels={QUEUE_LABEL: "research", "kueue.x-k8s.io/priority-class": "low", "team": "a"})
    world.edit(annotations={"kueue.x-k8s.io/job-min-parallelism": "1", "note": "mine"})

    assert world.settle() == "Queued"
    assert world.jobs() == ["queue-1"]
    assert world.cluster.strict == {"queue-1": True}  # a typo in the pod template is found before the job waits
    job = world.job("queue-1")
    metadata, spec = job["metadata"], job["spec"]
    assert (metadata["labels"]["kueue.x-k8s.io/priority-class"], "team" in metadata["labels"]) == ("low", False)
    assert metadata["annotations"].get("kueue.x-k8s.io/job-min-parallelism") == "1"
    assert "note" not in metadata["annotations"]
    assert (spec["managedBy"], spec["suspend"], spec["parallelism"]) == ("dataprep.io/operator", True, 2)
    assert world.condition("QuotaReserved") == ("False", "Queued")
    assert world.message("Running") == "The job waits until the queue research admits it."


def test_the_steps_run_where_the_queue_admits_them_and_are_in_no_queue(world: World) -> None:
    queued(world)
    assert admit(world) == "Planning"
    assert world.condition("QuotaReserved") == ("True", "QuotaReserved")
    assert world.message("QuotaReserved") == "The queue research has admitted the job."
    world.planned()
    assert world.settle() == "Running"
    world.converted()
    assert world.settle() == "Committing"

    for step in ("plan", "convert-1", "commit-1"):
        job, pod = world.job(step), pod_of(world, step)
        assert (pod["nodeSelector"], SPOT["tolerations"][0] in pod["tolerations"]) == ({"pool": "spot"}, True)
        assert not any("kueue" in key for key in job["metadata"]["labels"])
        assert not job["spec"].get("suspend")
        assert owners.controller(job)["uid"] == world.job("queue-1")["metadata"]["uid"]
        assert owners.job_owner(job)["name"] == "mnist"
    world.committed()
    assert world.settle() == "Succeeded"
    assert world.created() == 4


@pytest.mark.parametrize("outcome", ["Complete", "Failed"])
def test_at_the_end_the_quota_is_given_back(world: World, outcome: str) -> None:
    queued(world)
    admit(world)
    assert active(world) == 2
    if outcome == "Complete":
        world.committing()
        world.committed()
    else:
        world.plan_fails(a_failure(Reason.INVALID_SPEC, "no such column", exit_code=2))
    assert world.settle() == ("Succeeded" if outcome == "Complete" else "Failed")

    status = world.job("queue-1")["status"]
    cause = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[outcome]
    assert {condition["type"] for condition in status["conditions"]} == {cause, outcome}
    assert (status["active"], status["ready"]) == (0, 0)
    # The API server refuses a start time that is after the end time.
    assert status["startTime"] <= status.get("completionTime", status["startTime"])
    assert ("completionTime" in status) == (outcome == "Complete")


def test_a_failed_job_keeps_its_quota_until_its_pods_have_ended(world: World) -> None:
    queued(world, activeDeadlineSeconds=60)
    admit(world)
    run(world, "plan")
    assert world.later(61) == "Failed"
    assert "conditions" not in world.job("queue-1")["status"]
    stopped(world, "plan")
    assert {condition["type"] for condition in world.job("queue-1")["status"]["conditions"]} == {"FailureTarget", "Failed"}


def test_a_preempted_plan_is_stopped_reports_kueues_words_and_resumes(world: World) -> None:
    queued(world)
    admit(world)
    run(world, "plan")
    assert world.job("queue-1")["status"] == {"active": 2, "ready": 2}
    reserved = {"type": "QuotaReserved", "status": "True", "message": "Quota reserved in ClusterQueue c"}
    workload(world, world.job("queue-1")["metadata"]["uid"], reserved, {"type": "Evicted", "status": "True", "message": PREEMPTED})

    assert evict(world) == "Queued"
    assert world.job("plan")["spec"]["suspend"] is True
    assert active(world) == 2  # Kueue waits until the pod has ended
    assert world.condition("QuotaReserved") == ("False", "Queued")
    assert world.message("Running") == f"The job waits until the queue research admits it. {PREEMPTED}."
    stopped(world, "plan")
    assert active(world) == 0
    world.restart()
    for _ in range(3):
        assert world.later(60) == "Queued"
    assert world.job("plan")["spec"]["suspend"] is True

    assert admit(world) == "Planning"
    assert world.job("plan")["spec"]["suspend"] is False
    world.planned()
    assert world.settle() == "Running"
    assert world.created() == 3


def test_a_step_that_kueue_itself_has_stopped_resumes_after_every_admission(world: World) -> None:
    queued(world)
    admit(world)
    world.planned()
    world.settle()
    for _ in range(3):
        change(world, "convert-1", {"spec": {"suspend": True}})
        assert evict(world) == "Queued"
        assert admit(world) == "Running"
        assert world.job("convert-1")["spec"]["suspend"] is False


def test_kueues_annotations_of_pods_are_kept_and_a_common_toleration_is_written_once(world: World) -> None:
    queued(world, workers={"tolerations": SPOT["tolerations"]})
    topology = {"example.org/topology": "rack"}
    template = {"metadata": {"annotations": {**topology, "kueue.x-k8s.io/workload": "w"}}, "spec": SPOT}
    change(world, "queue-1", {"spec": {"template": template}})
    admit(world)

    annotations = world.job("plan")["spec"]["template"]["metadata"]["annotations"]
    assert topology.items() <= annotations.items()
    assert "kueue.x-k8s.io/workload" not in annotations
    assert pod_of(world, "plan")["tolerations"].count(SPOT["tolerations"][0]) == 1


def test_after_an_admission_to_other_nodes_a_new_job_runs_there(world: World) -> None:
    queued(world)
    admit(world)
    world.planned()
    world.settle()
    first = world.job("convert-1")["metadata"]["uid"]
    evict(world)
    admit(world, template={"nodeSelector": {"pool": "reserved"}, "tolerations": []})
    world.later(6)

    assert world.job("convert-1")["metadata"]["uid"] != first
    assert pod_of(world, "convert-1")["nodeSelector"] == {"pool": "reserved"}


def test_plan_and_commit_of_a_job_with_gpus_keep_off_the_gpu_nodes(world: World) -> None:
    gpus = {"parallelism": 2, "accelerator": {"policy": "Required", "resourceName": "nvidia.com/gpu", "count": 1}}
    queued(world, workers=gpus)
    [container] = pod_of(world, "queue-1")["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    admit(world)
    world.planned()
    world.settle()

    assert "spot" not in str(pod_of(world, "plan").get("nodeSelector"))
    assert pod_of(world, "convert-1")["nodeSelector"]["pool"] == "spot"


def test_a_suspended_job_leaves_the_queue_when_its_pods_have_ended_and_comes_back(world: World) -> None:
    queued(world)
    admit(world)
    run(world, "plan")
    world.edit(suspend=True)
    assert world.settle() == "Suspended"
    assert (world.jobs(), world.job("plan")["spec"]["suspend"]) == (["plan", "queue-1"], True)
    stopped(world, "plan")
    assert world.jobs() == []
    assert world.message("QuotaReserved") == "The job isn't in the queue."

    world.edit(suspend=False)
    assert world.later(6) == "Queued"
    assert admit(world) == "Planning"
    assert world.jobs() == ["plan", "queue-1"]


def test_a_deleted_queue_job_is_created_again_and_the_step_follows_it(world: World) -> None:
    queued(world)
    admit(world)
    run(world, "plan")
    plan = world.job("plan")["metadata"]["uid"]
    world.cluster.remove("jobs", NAMESPACE, world.job("queue-1")["metadata"]["name"])
    assert world.settle() == "Queued"
    assert world.job("plan")["spec"]["suspend"] is True
    assert world.job("queue-1")["spec"]["suspend"] is True
    stopped(world, "plan")

    admit(world)
    assert world.later(6) == "Planning"
    assert world.job("plan")["metadata"]["uid"] != plan
    assert owners.controller(world.job("plan"))["uid"] == world.job("queue-1")["metadata"]["uid"]


@pytest.mark.parametrize("how", ["ended", "deleted with a finalizer"])
def test_a_step_is_stopped_when_its_queue_job_no_longer_holds_quota(world: World, how: str) -> None:
    queued(world)
    admit(world)
    run(world, "plan")
    if how == "ended":
        world.complete("queue-1")
    else:
        change(world, "queue-1", {"metadata": {"finalizers": ["example.org/waits"]}})
        world.cluster.end("jobs", NAMESPACE, world.job("queue-1")["metadata"]["name"])

    assert world.settle() == "Queued"
    assert world.job("plan")["spec"]["suspend"] is True


def test_a_queue_job_that_somebody_has_ended_is_created_again(world: World) -> None:
    queued(world)
    world.complete("queue-1")
    first = world.job("queue-1")["metadata"]["uid"]
    assert world.settle() == "Queued"
    assert world.job("queue-1")["metadata"]["uid"] != first


def test_a_plan_that_an_earlier_release_has_started_goes_on_and_its_conversion_is_queued() -> None:
    world = World()
    world.apply(labels={QUEUE_LABEL: "research"})
    assert world.settle() == "Planning"
    world.settings = replace(world.settings, kueue=True)
    world.restart()

    assert world.settle() == "Planning"
    assert world.jobs() == ["plan"]
    world.planned()
    assert world.settle() == "Queued"
    assert world.job("convert-1")["metadata"]["labels"][QUEUE_LABEL] == "research"
    change(world, "convert-1", {"spec": {"suspend": False}})
    assert world.settle() == "Running"
    world.converted()
    world.settle()
    world.committed()
    assert world.settle() == "Succeeded"
    assert world.jobs() == ["commit-1", "convert-1", "plan"]


def test_the_retry_of_a_job_of_an_earlier_release_waits_as_a_whole() -> None:
    world = World()
    world.apply(labels={QUEUE_LABEL: "research"})
    world.settle()
    world.plan_fails(a_failure(Reason.INPUT_NOT_FOUND, "gone"))
    world.settle()
    world.settings = replace(world.settings, kueue=True)
    world.restart()
    assert retry(world) == "Queued"
    assert world.jobs() == ["plan", "queue-2"]


def test_without_kueue_enabled_a_whole_job_goes_on_without_its_queue_job(world: World) -> None:
    queued(world)
    admit(world)
    world.settings = replace(world.settings, kueue=False)
    world.restart()
    assert world.settle() == "Planning"
    world.planned()
    assert world.settle() == "Queued"
    assert world.job("convert-1")["metadata"]["labels"][QUEUE_LABEL] == "research"


def test_without_kueue_enabled_the_queue_job_of_a_finished_job_is_deleted(world: World) -> None:
    queued(world)
    admit(world)
    world.committing()
    world.settings = replace(world.settings, kueue=False)
    world.restart()
    world.cluster.calls.clear()
    world.committed()

    assert world.settle() == "Succeeded"
    assert "queue-1" not in world.jobs()
    assert ("patch", "jobs/status") not in {(verb, resource) for verb, resource, _ in world.cluster.calls}


def test_the_removal_of_the_output_needs_no_quota(world: World) -> None:
    queued(world, deletionPolicy="Delete")
    admit(world)
    world.planned()
    world.settle()
    world.cluster.end("dataprepjobs", NAMESPACE, "mnist")
    world.settle()
    assert "queue-1" not in world.jobs()
    assert QUEUE_LABEL not in world.job("cleanup")["metadata"]["labels"]


def test_a_queue_that_nobody_serves_is_warned_of(world: World) -> None:
    queued(world)
    world.later(31)
    assert world.condition("QuotaReserved") == ("False", "NotQueued")
    assert world.message("QuotaReserved").startswith("The job waits for a Workload, because Kueue has not created one. Check that Kueue is")


def test_a_job_without_a_queue_has_no_queue_job(world: World) -> None:
    world.apply()
    assert world.settle() == "Planning"
    assert world.jobs() == ["plan"]
