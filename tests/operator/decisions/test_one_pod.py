"""Small jobs in one pod: which jobs may run in one pod, and that they end in the same way as if each step had its own pods."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.builders.children import DEFAULTS, a_job, a_spec, container_of
from tests.operator.world import NAMESPACE, SHA, World, a_commit, a_plan

from dataprep_api import names
from dataprep_api.dataset.messages import ProgressReport
from dataprep_api.reasons import Reason
from dataprep_api.resources.status import OutputFile, RecordProgress, SplitStatus
from dataprep_operator import metrics
from dataprep_operator.children import jobs


def variables_of(body: Any) -> dict[str, str]:  # Any: JSON
    return {variable["name"]: variable.get("value", "") for variable in container_of(body)["env"]}


def test_the_pod_of_the_plan_step_learns_the_names_of_its_jobs_pods() -> None:
    body = jobs.plan_job(a_job(), a_spec(), attempt=2, defaults=DEFAULTS)

    prefix = variables_of(body)[names.ONE_POD]
    assert body["metadata"]["name"].startswith(prefix)
    assert prefix == "mnist-0f1e2d3c00-"


def test_no_other_pod_finishes_a_job() -> None:
    bodies = [
        jobs.commit_job(a_job(), a_spec(), run_id="r", plan_sha256=SHA, attempt=1, defaults=DEFAULTS),
        jobs.cleanup_job(a_job(), a_spec(), runs=["r"], defaults=DEFAULTS),
    ]
    assert [names.ONE_POD in variables_of(body) for body in bodies] == [False, False]


GPU = {"limits": {"nvidia.com/gpu": 1}}


@pytest.mark.parametrize(
    ("fields", "may"),
    [
        pytest.param({}, True, id="by default"),
        pytest.param({"workers": {"onePod": "Auto", "parallelism": 8}}, True, id="with several workers"),
        pytest.param({"workers": {"resources": {"limits": {"memory": "1Gi", "ephemeral-storage": "1Gi"}}}}, True, id="with limits"),
        pytest.param({"workers": {"onePod": "Never"}}, False, id="turned off"),
        pytest.param({"workers": {"accelerator": {"policy": "Preferred"}}}, False, id="with GPUs if there are any"),
        pytest.param({"workers": {"accelerator": {"policy": "Required"}}}, False, id="with GPUs"),
        pytest.param({"workers": {"resources": GPU}}, False, id="with a device"),
        pytest.param({"planning": {"resources": {"limits": {"memory": "1Gi"}}}}, False, id="with resources for the plan step"),
        pytest.param({"planning": {}}, True, id="with nothing for the plan step"),
        pytest.param({"code": {"configMapRef": {"name": "code"}}}, False, id="with code"),
        pytest.param({"source": None, "script": {"command": ["true"], "outputs": ["a"]}, "features": None}, False, id="with a script"),
        pytest.param({"stepDeadlines": {"planSeconds": 60}}, False, id="with a deadline for the plan step"),
        pytest.param({"activeDeadlineSeconds": 60}, True, id="with a deadline for the job"),
        pytest.param({"backoffLimit": 0}, False, id="whose plan step isn't repeated"),
        pytest.param({"deletionPolicy": "Delete"}, False, id="whose output is removed with it"),
    ],
)
def test_which_jobs_may_be_one_pod(fields: dict[str, Any], *, may: bool) -> None:
    assert jobs.may_be_one_pod(a_job(), a_spec(**fields), DEFAULTS) is may


def test_a_device_of_the_chart_counts_as_well() -> None:
    assert not jobs.may_be_one_pod(a_job(), a_spec(), replace(DEFAULTS, resources=GPU))


def test_a_job_whose_convert_step_alone_is_in_a_queue_has_its_steps() -> None:
    assert not jobs.may_be_one_pod(replace(a_job(), queue="team"), a_spec(), DEFAULTS)


def test_within_the_quota_of_a_queue_the_pod_of_the_plan_step_may_finish_the_job() -> None:
    world = World(kueue=True)
    world.apply(labels={"kueue.x-k8s.io/queue-name": "team"})
    world.settle()
    world.cluster.change("jobs", world.job("queue-1")["metadata"]["name"], {"spec": {"suspend": False}})
    world.settle()

    assert variables_of(world.job("plan"))[names.ONE_POD] == f"{world.child_prefix()}-"


# --- the end of the job -------------------------------------------------------------------------------------------------


COMMIT: dict[str, Any] = {  # Any: fields of CommitResult
    "splits": [SplitStatus(name="train", records=990, shards=8, bytes=4000)],
    "outputs": [OutputFile(uri="s3://out/mnist/train", split="train", bytes=4000, records=990, sha256=SHA)],
    "digest": SHA,
    "seconds": {"read": 1.0, "encode": 3.0, "readWait": 0.5},
    "warnings": ["a warning of the commit"],
}


def finished(world: World, **changes: Any) -> str:  # Any: fields of PlanResult
    world.apply()
    world.settle()
    world.pod("plan", world.ended(0, a_plan(**{"commit": a_commit(**COMMIT), "work_seconds": 4.0, "commit_seconds": 1.0} | changes)))
    return world.settle()


def in_three_steps() -> World:
    world = World()
    world.apply()
    assert world.succeed(**COMMIT) == "Succeeded"
    return world


def test_the_job_succeeds_at_once_with_the_status_of_three_steps(world: World) -> None:
    assert finished(world) == "Succeeded"

    assert world.jobs() == ["plan"]
    assert [call for call in world.cluster.calls if call[0] in ("patch", "delete") and call[1] == "jobs"] == []
    now, steps = world.status(), in_three_steps().status()
    rates = {"recordsPerSecond": 250.0, "bytesPerSecond": 1000.0, "updatedAt": now["progress"]["updatedAt"]}
    assert now["progress"] == steps["progress"] | rates
    assert without_times(now) == without_times(steps)


def without_times(status: dict[str, Any]) -> dict[str, Any]:  # Any: JSON
    """Return the status without the parts that depend on the time, on the job's uid or on the number of pods."""
    differing = ("progress", "timings", "startTime", "completionTime", "childPrefix", "selector", "effective")
    conditions = [{**condition, "lastTransitionTime": ""} for condition in status["conditions"]]
    runs = [{**run, "startedAt": "", "endedAt": ""} for run in status["runs"]]
    return {key: value for key, value in status.items() if key not in differing} | {"conditions": conditions, "runs": runs}


def test_the_times_of_the_steps_come_from_the_pod(world: World) -> None:
    world.apply()
    world.settle()
    world.later(12)
    world.pod("plan", world.ended(0, a_plan(commit=a_commit(**COMMIT), work_seconds=4.04, commit_seconds=1.0)))
    world.cluster.change("jobs", world.job("plan")["metadata"]["name"], {"status": {"startTime": "2026-01-31T12:00:02Z"}})
    assert world.settle() == "Succeeded"

    timings = world.status()["timings"]
    assert {key: timings[key] for key in ("planningSeconds", "runningSeconds", "committingSeconds")} == {
        "planningSeconds": 5.0,
        "runningSeconds": 4.0,
        "committingSeconds": 1.0,
    }
    assert timings["bottleneck"] == in_three_steps().status()["timings"]["bottleneck"]
    assert timings["readWaitSeconds"] == 0.5


@pytest.mark.parametrize("seconds", [{}, {"work_seconds": 2.0**53, "commit_seconds": 2.0**53}], ids=["none", "more than the pod took"])
def test_other_times_do_no_harm(world: World, seconds: dict[str, float]) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.ended(0, a_plan(commit=a_commit(), **seconds)))
    world.complete("plan")

    assert world.settle() == "Succeeded"
    assert world.status()["timings"].get("planningSeconds", 0.0) >= 0.0


def test_the_data_set_is_the_jobs_own(world: World) -> None:
    finished(world)

    assert "reused" not in world.status()
    assert world.condition("Complete") == ("True", "Completed")
    assert {"Planned", "Completed"} <= set(world.events())
    assert world.status()["effective"] == {"parallelism": 1, "image": "dataprep:1", "accelerator": "CPU"}


def test_the_metrics_count_the_commit(world: World) -> None:
    def counts() -> tuple[float, float]:
        stage = metrics.STAGES.labels(stage="encode")._value.get()
        return metrics.RECORDS.labels(fate="out")._value.get(), stage

    before = counts()
    finished(world)
    after = counts()

    assert [now - then for now, then in zip(after, before, strict=True)] == [990, 3.0]


def test_a_found_data_set_adds_nothing_to_the_metrics(world: World) -> None:
    before = metrics.STAGES.labels(stage="encode")._value.get()
    finished(world, reused=True)

    assert world.status()["reused"] is True
    assert metrics.STAGES.labels(stage="encode")._value.get() == before


@pytest.mark.parametrize(
    ("commit", "message"),
    [
        pytest.param({"run_id": "another"}, "reports the run another, expected 0123abcd", id="another run"),
        pytest.param({"manifest_sha256": "x" * 64}, "malformed digest", id="no digest"),
        pytest.param({"records": RecordProgress(in_=1000, out=1)}, "The counts don't match", id="lost records"),
    ],
)
def test_a_commit_that_cannot_be_right_fails_the_job(world: World, commit: dict[str, Any], message: str) -> None:
    assert finished(world, commit=a_commit(**commit)) == "Failed"

    assert world.condition("Failed") == ("True", "VerificationFailed")
    assert message in world.message()
    world.edit(annotations={names.ANNOTATION_RETRY: "1"})
    assert world.settle() == "Running"
    assert world.jobs() == ["convert-2", "plan"], "the workers do it again"


def test_a_plan_alone_is_followed_by_the_other_steps(world: World) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.ended(0, a_plan()))

    assert world.settle() == "Running"
    assert world.jobs() == ["convert-1", "plan"]


def test_the_plan_that_a_killed_pod_left_is_not_taken_for_its_last_words(world: World) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.ended(137, a_plan()))

    assert world.settle() == "Planning"
    [failure] = world.status()["failures"]
    assert failure["message"] == "The container was killed (exit code 137)"


def test_a_pod_that_ran_out_of_memory_at_the_work_is_replaced(world: World) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.ended(137, a_plan(), reason="OOMKilled"))
    assert world.settle() == "Planning"
    assert world.status()["failures"][0]["reason"] == Reason.OUT_OF_MEMORY
    world.pod("plan", world.ended(0, a_plan()), name="the-next-pod")

    assert world.settle() == "Running"


# --- progress -----------------------------------------------------------------------------------------------------------


def reported(world: World, sequence: int, *, shards: int, records: int, attempt: int = 1, pod: str = "p", step: str = "plan") -> None:
    """Deliver a report from the pod with this uid."""
    report = ProgressReport(
        job="mnist",
        attempt=attempt,
        index=0,
        sequence=sequence,
        shards_done=shards,
        shards_active=1,
        shards_total=8 if step == "plan" else None,
        records=RecordProgress(total=1000 if step == "plan" else None, in_=records, out=records),
        bytes_out=4 * records,
    )
    uid = world.cluster.objects[("dataprepjobs", "team-a", "mnist")]["metadata"]["uid"]
    world.progress_store.record(report, job_uid=uid, pod_uid=pod, now=world.cluster.now, step=step)


def test_the_work_of_the_pod_is_seen_while_it_runs(world: World) -> None:
    world.apply()
    world.settle()
    assert "progress" not in world.status()
    reported(world, 1, shards=2, records=300, pod=working_pod(world))

    assert world.settle() == "Running"
    progress = world.status()["progress"]
    assert (progress["percent"], progress["summary"]) == (30, "2/8")
    assert progress["shards"] == {"total": 8, "done": 2, "active": 1, "failed": 0}
    assert (progress["records"]["total"], progress["records"]["in"], progress["bytesOut"]) == (1000, 300, 1200)


def working_pod(world: World, name: str = "") -> str:
    """Let a pod of the plan step run, and return its uid."""
    return str(world.pod("plan", world.scheduled(phase="Running"), name=name)["metadata"]["uid"])


def doing(world: World) -> tuple[str, str]:
    """Return the reason of the conditions Running and Ready, and their message."""
    (_, reason), message = world.condition("Running"), world.message("Running")
    assert (world.condition("Ready"), world.message("Ready")) == (("False", reason), message)
    return reason, message


def test_the_phase_says_what_the_pod_does(world: World) -> None:
    world.apply()
    world.settle()
    pod = working_pod(world)
    assert (world.settle(), doing(world)) == ("Planning", ("Planning", "The plan step lists the input and divides it into shards."))

    reported(world, 1, shards=0, records=0, pod=pod)
    converting = ("Converting", "The pod of the plan step writes the shards of this small job.")
    assert (world.settle(), doing(world)) == ("Running", converting)
    reported(world, 2, shards=7, records=990, pod=pod)
    assert (world.later(6), doing(world)) == ("Running", converting)
    reported(world, 3, shards=8, records=1000, pod=pod)
    committing = ("Committing", "The pod of the plan step checks every shard of this small job and writes the manifest.")
    assert (world.settle(), doing(world)) == ("Committing", committing)
    assert world.status()["step"] == "Plan", "a retry plans again"

    world.pod("plan", world.ended(0, a_plan(commit=a_commit(**COMMIT))))
    assert world.settle() == "Succeeded"
    assert world.events() == ["Planning", "Converting", "Committing", "Planned", "Completed"]


def test_the_next_pod_only_plans(world: World) -> None:
    world.apply()
    world.settle()
    reported(world, 1, shards=2, records=300, pod=working_pod(world))
    assert world.settle() == "Running"
    world.pod("plan", world.ended(137))

    assert (world.settle(), world.condition("Running")) == ("Planning", ("True", "Planning"))
    working_pod(world, "the-next-pod")
    assert (world.settle(), world.condition("Running")) == ("Planning", ("True", "Planning"))
    assert world.status()["progress"]["summary"] == "2/8"


def test_the_next_leader_shows_the_same_until_the_pod_ends(world: World) -> None:
    world.apply()
    world.settle()
    pod = working_pod(world)
    reported(world, 1, shards=2, records=300, pod=pod)
    world.settle()
    before = world.status()
    world.restart()
    world.settle()
    assert world.status() == before

    reported(world, 2, shards=8, records=1000, pod=pod)
    assert world.settle() == "Committing"
    world.restart()
    world.pod("plan", world.ended(137))
    assert world.settle() == "Planning"


def test_without_a_pod_the_next_leader_shows_the_plan(world: World) -> None:
    world.apply()
    world.settle()
    reported(world, 1, shards=2, records=300, pod=working_pod(world))
    assert world.settle() == "Running"
    world.cluster.remove("pods", NAMESPACE, f"{world.job('plan')['metadata']['name']}-0-pod")
    world.restart()
    assert world.settle() == "Planning"


def test_the_next_leader_does_not_take_a_new_pod_for_the_one_that_reported(world: World) -> None:
    world.apply()
    world.settle()
    reported(world, 1, shards=2, records=300, pod=working_pod(world))
    assert world.settle() == "Running"
    # The pod and the operator were on the same node, which was drained.
    world.cluster.remove("pods", NAMESPACE, f"{world.job('plan')['metadata']['name']}-0-pod")
    world.cluster.now += timedelta(seconds=5)
    working_pod(world, "the-next-pod")
    world.restart()
    assert (world.settle(), doing(world)) == ("Planning", ("Planning", "The plan step lists the input and divides it into shards."))


def test_after_a_suspension_the_pod_only_plans(world: World) -> None:
    world.apply()
    world.settle()
    reported(world, 1, shards=2, records=300, pod=working_pod(world))
    world.settle()
    world.edit(suspend=True)
    assert world.settle() == "Suspended"
    world.cluster.remove("pods", NAMESPACE, f"{world.job('plan')['metadata']['name']}-0-pod")
    world.restart()
    world.edit(suspend=False)
    assert (world.settle(), world.condition("Running")) == ("Planning", ("True", "Planning"))


def test_a_pod_that_is_replaced_by_workers_leaves_the_phase(world: World) -> None:
    world.apply()
    world.settle()
    reported(world, 1, shards=8, records=1000, pod=working_pod(world))
    assert world.settle() == "Committing"
    world.pod("plan", world.ended(0, a_plan()))

    assert (world.settle(), doing(world)) == ("Running", ("Converting", "Converter pods write shards."))


def test_the_reports_of_an_earlier_attempt_are_not_shown(world: World) -> None:
    world.apply()
    world.settle()
    reported(world, 1, shards=2, records=300, attempt=2)
    world.settle()

    assert "progress" not in world.status()


def test_what_the_workers_take_over_is_counted_by_their_reports_and_the_percentage_stays(world: World) -> None:
    world.apply()
    world.settle()
    reported(world, 1, shards=4, records=500)
    world.settle()
    world.pod("plan", world.ended(0, a_plan()))
    assert world.settle() == "Running"
    assert (world.status()["progress"]["percent"], world.status()["progress"]["summary"]) == (50, "0/8")
    reported(world, 1, shards=1, records=125, pod="worker", step="convert")
    world.later(6)

    progress = world.status()["progress"]
    assert (progress["percent"], progress["records"]["in"], progress["shards"]["done"]) == (50, 125, 1)
