"""Tests of queue Jobs: with `kueue.enabled`, one Job represents all steps of a DataPrepJob in the queue."""

from dataclasses import replace
from typing import Any

import pytest
from tests.operator.world import NAMESPACE, World, a_failure, retry

from dataprep_api import names
from dataprep_api.reasons import Reason
from dataprep_operator.cluster.cluster import Body
from dataprep_operator.objects import owners
from dataprep_operator.objects.child_jobs import ANNOTATION_LEAST, QUEUE_LABEL

SPOT: Body = {"nodeSelector": {"pool": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}
PREEMPTED = "Preempted to accommodate a workload (UID: 1) due to prioritization in the ClusterQueue"


@pytest.fixture
def world() -> World:
    return World(kueue=True)


def queued(world: World, **spec: Any) -> None:  # Any: fields of the spec
    world.apply(labels={QUEUE_LABEL: "research"}, **spec)
    assert world.settle() == "Queued"


def workload(world: World, uid: str, *conditions: Body) -> None:
    """Store the Workload of the queue Job with this uid."""
    metadata = {"name": f"job-{uid}", "labels": {"kueue.x-k8s.io/job-uid": uid}}
    key = ("workloads", NAMESPACE, str(metadata["name"]))
    if key in world.cluster.objects:
        world.cluster.remove(*key)
    world.cluster.add("workloads", NAMESPACE, {"metadata": metadata, "status": {"conditions": list(conditions)}})


def change(world: World, suffix: str, body: Body) -> None:
    world.cluster.change("jobs", world.job(suffix)["metadata"]["name"], body)


def admit(world: World, suffix: str = "queue-1", *, parallelism: int = 2, template: Body | None = None) -> str:
    """Resume the queue Job as Kueue does, and return the phase."""
    job = world.job(suffix)["metadata"]
    if not any(plural == "workloads" for plural, _, _ in world.cluster.objects):
        workload(world, job["uid"], {"type": "QuotaReserved", "status": "True", "message": "Quota reserved in ClusterQueue c"})
    pod = template if template is not None else SPOT
    change(world, suffix, {"spec": {"suspend": False, "parallelism": parallelism, "template": {"spec": pod}}})
    return world.settle()


def evict(world: World, suffix: str = "queue-1") -> str:
    change(world, suffix, {"spec": {"suspend": True}})
    return world.settle()


def run(world: World, suffix: str) -> None:
    """Let a pod of the step run."""
    world.pod(suffix, world.scheduled(phase="Running"))
    world.settle()


def stopped(world: World, suffix: str) -> None:
    """Remove the pods of a suspended Job, as the Job controller does."""
    uid = world.job(suffix)["metadata"]["uid"]
    for plural, namespace, name in list(world.cluster.objects):
        body = world.cluster.objects[plural, namespace, name]
        if plural == "pods" and body["metadata"]["ownerReferences"][0]["uid"] == uid:
            world.cluster.remove(plural, namespace, name)
    world.settle()


def active(world: World, suffix: str = "queue-1") -> int:
    return int(world.job(suffix).get("status", {}).get("active", 0))


def pod_of(world: World, suffix: str) -> Body:
    spec: Body = world.job(suffix)["spec"]["template"]["spec"]
    return spec


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


def test_fewer_admitted_pods_are_the_parallelism(world: World) -> None:
    queued(world, workers={"parallelism": 4})
    admit(world, parallelism=3)
    world.planned()
    world.settle()
    assert world.job("convert-1")["spec"]["parallelism"] == 3
    assert not [call for call in world.cluster.calls if call[:2] == ("patch", "jobs")]  # the Job's parallelism was never above 3
    assert world.status()["effective"]["parallelism"] == 3

    world.edit(workers={"parallelism": 2})
    world.settle()
    assert world.job("convert-1")["spec"]["parallelism"] == 2
    world.edit(workers={"parallelism": 8})
    world.settle()
    assert world.job("convert-1")["spec"]["parallelism"] == 3
    assert world.job("queue-1")["spec"]["parallelism"] == 3


def test_a_waiting_job_asks_for_as_many_pods_as_it_needs(world: World) -> None:
    queued(world)
    world.edit(workers={"parallelism": 5})
    world.settle()
    assert world.job("queue-1")["spec"]["parallelism"] == 5

    admit(world, parallelism=5)
    world.planned(tasks=3)
    world.settle()
    assert world.job("queue-1")["spec"]["parallelism"] == 5
    evict(world)
    assert world.job("queue-1")["spec"]["parallelism"] == 3


def test_a_stopped_job_asks_for_another_number_only_when_its_pods_have_ended(world: World) -> None:
    """Until the job's pods have ended, Kueue counts the earlier number of pods against the quota."""
    queued(world)
    admit(world)
    run(world, "plan")
    evict(world)
    world.edit(workers={"parallelism": 5})
    world.settle()
    assert (active(world), world.job("queue-1")["spec"]["parallelism"]) == (2, 2)

    stopped(world, "plan")
    world.settle()
    assert (active(world), world.job("queue-1")["spec"]["parallelism"]) == (0, 5)


def test_kueues_least_number_of_pods_stays_possible(world: World) -> None:
    world.apply(labels={QUEUE_LABEL: "research"}, workers={"parallelism": 6})
    world.edit(annotations={"kueue.x-k8s.io/job-min-parallelism": "4"})
    world.settle()
    admit(world, parallelism=5)
    world.planned(tasks=2)
    world.settle()
    evict(world)
    assert world.job("queue-1")["spec"]["parallelism"] == 4


@pytest.mark.parametrize(("least", "kept"), [("2", False), ("7", False), ("1", True), ("many", True)])
def test_a_least_number_that_allows_no_fewer_pods_is_left_out(world: World, least: str, *, kept: bool) -> None:
    """If the minimum isn't below the parallelism, the operator leaves the annotation out, because Kueue's webhook would refuse the Job.

    If the minimum isn't a number, the operator keeps the annotation, so that Kueue refuses and reports it.
    """
    world.apply(labels={QUEUE_LABEL: "research"}, workers={"parallelism": 2})
    world.edit(annotations={"kueue.x-k8s.io/job-min-parallelism": least})
    world.settle()
    assert ("kueue.x-k8s.io/job-min-parallelism" in world.job("queue-1")["metadata"].get("annotations", {})) is kept


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


def scanning(world: World, **spec: Any) -> None:  # Any: fields of the spec
    """Bring a queued job to its scan of four parts."""
    queued(world, **spec)
    admit(world)
    world.scan_requested()
    assert world.settle() == "Planning"


def test_a_scan_runs_within_the_quota_where_the_queue_admits_it(world: World) -> None:
    scanning(world, workers={"parallelism": 3})
    assert {"name": names.MAY_SCAN, "value": "true"} in pod_of(world, "plan")["containers"][0]["env"]
    job = world.job("scan-1")
    assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (2, 4), "the queue has admitted two pods"
    assert not job["spec"]["suspend"]
    assert pod_of(world, "scan-1")["nodeSelector"] == {"pool": "spot"}
    assert not any("kueue" in key for key in job["metadata"]["labels"])
    assert owners.controller(job)["uid"] == world.job("queue-1")["metadata"]["uid"]

    world.scanned()
    assert world.settle() == "Planning"
    assert owners.controller(world.job("merge-1"))["uid"] == world.job("queue-1")["metadata"]["uid"]
    world.planned("merge-1")
    assert world.settle() == "Running"
    assert active(world) == 2


@pytest.mark.parametrize("suffix", ["scan-1", "merge-1"])
def test_a_preempted_scan_stops_and_goes_on_when_it_is_admitted_again(world: World, suffix: str) -> None:
    scanning(world)
    if suffix == "merge-1":
        world.scanned()
        world.settle()
    run(world, suffix)
    assert evict(world) == "Queued"
    assert world.job(suffix)["spec"]["suspend"] is True
    assert active(world) == 2
    stopped(world, suffix)
    assert active(world) == 0

    assert admit(world) == "Planning"
    assert world.job(suffix)["spec"]["suspend"] is False


def test_a_scan_that_is_admitted_to_other_nodes_is_made_again_there(world: World) -> None:
    scanning(world)
    evict(world)
    admit(world, template={"nodeSelector": {"pool": "on-demand"}})

    assert world.later(6) == "Planning"
    assert pod_of(world, "scan-1")["nodeSelector"] == {"pool": "on-demand"}


def test_a_scan_that_leaves_the_queue_while_it_is_suspended_keeps_its_progress(world: World) -> None:
    scanning(world)
    change(world, "scan-1", {"status": {"completedIndexes": "0-2"}})
    world.later(10)
    assert world.status()["progress"]["summary"] == "3/4"
    world.edit(suspend=True)
    world.settle()
    world.edit(suspend=False)
    world.later(6)
    admit(world)

    assert world.later(10) == "Planning"
    assert "completedIndexes" not in world.job("scan-1").get("status", {}), "it is another Job"
    assert world.status()["progress"]["summary"] == "3/4", "the parts are in the store"


def test_a_scan_that_was_allowed_runs_without_kueue_enabled_like_a_conversion(world: World) -> None:
    queued(world)
    admit(world)
    world.settings = replace(world.settings, kueue=False)
    world.restart()
    assert world.settle() == "Planning"
    world.scan_requested()

    assert world.settle() == "Queued"
    assert world.job("scan-1")["metadata"]["labels"][QUEUE_LABEL] == "research"
    change(world, "scan-1", {"spec": {"suspend": False}})
    assert world.settle() == "Planning"
    world.scanned()
    assert world.settle() == "Planning"
    world.planned("merge-1")
    assert world.settle() == "Queued", "the convert Job waits"


def test_the_scan_of_a_job_with_gpus_stays_off_their_nodes(world: World) -> None:
    scanning(world, workers={"parallelism": 2, "accelerator": {"policy": "Required", "count": 1}})

    assert "spot" not in str(pod_of(world, "scan-1").get("nodeSelector"))
    assert "nvidia.com/gpu" not in str(pod_of(world, "scan-1")["containers"][0]["resources"])


def test_a_job_that_enters_a_queue_while_it_is_scanned_waits_there(world: World) -> None:
    world.scanning()
    world.cluster.change("dataprepjobs", "mnist", {"metadata": {"labels": {QUEUE_LABEL: "research"}}})
    world.cluster.remove("jobs", NAMESPACE, world.job("scan-1")["metadata"]["name"])
    world.settle()

    assert world.later(6) == "Queued"
    assert world.job("scan-1")["metadata"]["labels"][QUEUE_LABEL] == "research"
    assert world.job("scan-1")["spec"]["suspend"] is True


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


def test_a_new_attempt_gets_its_own_place_in_the_queue(world: World) -> None:
    queued(world)
    admit(world)
    world.plan_fails(a_failure(Reason.INPUT_NOT_FOUND, "gone"))
    assert world.settle() == "Failed"
    assert retry(world) == "Queued"
    assert admit(world, "queue-2") == "Planning"
    assert world.job("plan-2")["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "spot"}


def test_an_attempt_with_more_memory_asks_for_more_and_its_commit_for_one_pod_only(world: World) -> None:
    limits = {"parallelism": 2, "resources": {"limits": {"memory": "1Gi"}}}
    queued(world, workers=limits, retry={"maxMemory": "4Gi", "memoryGrowth": 2})
    admit(world)
    world.committing()
    world.pod("commit-1", world.ended(137, reason="OOMKilled"))
    world.fail("commit-1", "BackoffLimitExceeded")

    assert world.settle() == "Queued"
    assert "queue-1" not in world.jobs()
    [container] = pod_of(world, "queue-2")["containers"]
    assert (container["resources"]["requests"]["memory"], world.job("queue-2")["spec"]["parallelism"]) == ("2048Mi", 1)


@pytest.mark.parametrize(
    ("parallelism", "annotations", "requests", "limits"),
    [
        pytest.param(1, {}, {"cpu": "2000m", "memory": str(6 << 30)}, {"memory": str(6 << 30)}, id="one pod"),
        pytest.param(3, {}, {"cpu": "1", "memory": str(2 << 30)}, {"memory": "2Gi"}, id="three pods share it"),
        pytest.param(8, {}, {"cpu": "1", "memory": "1Gi"}, {"memory": "2Gi"}, id="the workers need more"),
        pytest.param(8, {ANNOTATION_LEAST: "2"}, {"cpu": "1", "memory": str(3 << 30)}, {"memory": str(3 << 30)}, id="it may be two pods"),
    ],
)
def test_the_quota_of_the_workers_suffices_for_the_plan_and_commit_steps(
    world: World, parallelism: int, annotations: dict[str, str], requests: Body, limits: Body
) -> None:
    workers = {"parallelism": parallelism, "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}}
    planning = {"resources": {"requests": {"cpu": "2"}, "limits": {"memory": "6Gi", "nvidia.com/gpu": 1}}}
    world.apply(labels={QUEUE_LABEL: "research"}, annotations=annotations, workers=workers, planning=planning)
    assert world.settle() == "Queued"
    [container] = pod_of(world, "queue-1")["containers"]
    assert container["resources"] == {"requests": requests, "limits": limits}


def requests_of(world: World, suffix: str) -> tuple[int, str]:
    """Return the number of pods that a queue Job asks for, and the memory of each."""
    [container] = pod_of(world, suffix)["containers"]
    return world.job(suffix)["spec"]["parallelism"], container["resources"]["requests"]["memory"]


LARGE_PLAN: Body = {
    "workers": {"parallelism": 8, "resources": {"requests": {"memory": "2Gi"}}},
    "planning": {"resources": {"limits": {"memory": "32Gi"}}},
}


def test_memory_that_grows_changes_the_quota_of_its_own_step_only(world: World) -> None:
    queued(world, **LARGE_PLAN, retry={"maxMemory": "128Gi", "memoryGrowth": 2})
    assert requests_of(world, "queue-1") == (8, str(4 << 30))
    admit(world, parallelism=8)
    run(world, "plan")
    world.pod("plan", world.ended(137, reason="OOMKilled"))
    world.fail("plan", "BackoffLimitExceeded")
    assert world.settle() == "Queued"
    assert requests_of(world, "queue-2") == (8, str(8 << 30))


def test_the_quota_still_suffices_for_a_small_plan_pod_that_grows(world: World) -> None:
    planning = {"resources": {"limits": {"memory": "1Gi"}}}
    workers = {"parallelism": 4, "resources": {"limits": {"memory": "16Gi"}}}
    queued(world, workers=workers, planning=planning, retry={"maxMemory": "64Gi", "memoryGrowth": 2})
    admit(world, parallelism=4)
    run(world, "plan")
    world.pod("plan", world.ended(137, reason="OOMKilled"))
    world.fail("plan", "BackoffLimitExceeded")
    assert world.settle() == "Queued"
    [container] = pod_of(world, "queue-2")["containers"]
    assert container["resources"] == {"limits": {"memory": "16Gi"}}


@pytest.mark.parametrize(("parallelism", "memory"), [(1, str(32 << 30)), (4, str(8 << 30)), (32, "2Gi")])
def test_a_job_that_asks_for_another_number_of_pods_shares_its_plan_out_again(world: World, parallelism: int, memory: str) -> None:
    queued(world, **LARGE_PLAN)
    world.edit(workers=LARGE_PLAN["workers"] | {"parallelism": parallelism})
    world.settle()
    assert world.later(6) == "Queued"
    assert requests_of(world, "queue-1") == (parallelism, memory)


def test_a_plan_that_fits_into_any_worker_keeps_its_place_in_the_queue(world: World) -> None:
    queued(world, workers={"parallelism": 8}, planning={})
    first = world.job("queue-1")["metadata"]["uid"]
    world.edit(workers={"parallelism": 3})
    assert world.settle() == "Queued"
    assert (world.job("queue-1")["metadata"]["uid"], world.job("queue-1")["spec"]["parallelism"]) == (first, 3)


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
