"""Tests of failed steps and of pods that can't start, and of the messages that users read about them."""

import json
from datetime import timedelta

import pytest
from tests.operator.world import NAMESPACE, World, a_failure

from dataprep_api import names
from dataprep_api.dataset.messages import FailureResult
from dataprep_api.reasons import Reason
from dataprep_api.resources.status import RecordProgress
from dataprep_operator.children.pod_template import JOB_FILE
from dataprep_operator.cluster.cluster import Body
from dataprep_operator.errors import Refused
from dataprep_operator.reconcilers.actuator import ForeignChild

# --- failures -------------------------------------------------------------------------------------------------------------

PLAN_FAILURES = {
    "missing input": a_failure(Reason.INPUT_NOT_FOUND, "s3://in/images doesn't exist."),
    "unreachable": a_failure(Reason.STORE_UNREACHABLE, "name node nn:8020 can't be reached.", 4),
    "no permission": a_failure(Reason.NOT_PERMITTED, "AccessDenied user=nobody path=/x"),
    "output exists": a_failure(Reason.OUTPUT_EXISTS, "s3://out/mnist holds another run.", 5),
    "bad credentials": a_failure(Reason.BAD_CREDENTIALS, "the access key is unknown", 5),
    "no input": a_failure(Reason.NO_INPUT, "the source holds no records", 3),
}


@pytest.mark.parametrize("told", PLAN_FAILURES.values(), ids=PLAN_FAILURES.keys())
def test_a_failed_plan_names_its_reason_and_starts_no_worker(world: World, told: FailureResult) -> None:
    world.apply()
    world.settle()
    world.plan_fails(told)

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", told.reason)
    assert world.message() == told.message
    assert world.jobs() == ["plan"]
    failure = world.status()["failures"][0]
    assert (failure["step"], failure["exitCode"], failure["reason"]) == ("Plan", told.exit_code, told.reason)
    assert told.reason in world.events()


def test_a_failed_task_ends_in_its_reason_and_its_index(world: World) -> None:
    world.running()
    result = a_failure(
        Reason.BAD_RECORDS, "row 7 of s3://in/images is cut", 3, index=2, shard="train-00002-of-00008", input="s3://in/images"
    )
    pod = world.pod("convert-1", world.ended(3, result), index=2)
    world.fail(
        "convert-1", "PodFailurePolicy", f"Container dataprep for pod {NAMESPACE}/{pod['metadata']['name']} failed", failedIndexes="2"
    )

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "BadRecords")
    assert world.status()["failedIndexes"] == "2"
    assert world.status()["failures"][0]["shard"] == "train-00002-of-00008"


def test_too_many_failures_of_a_task_give_its_last_one(world: World) -> None:
    world.running()
    for n in range(4):
        world.pod(
            "convert-1", world.ended(4, a_failure(Reason.STORE_UNREACHABLE, "host b timed out", 4, index=1)), index=1, name=f"try-{n}"
        )
    world.fail("convert-1", "FailedIndexes", "Job has failed indexes", failedIndexes="1", completedIndexes="0,2,3")

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "StoreUnreachable")
    assert "1 of 4 tasks failed" in world.message()
    assert "host b timed out" in world.message()
    assert world.status()["failures"][0]["count"] == 4


def test_an_out_of_memory_kill_is_told_from_another_kill(world: World) -> None:
    world.running()
    world.pod("convert-1", world.ended(137, reason="OOMKilled"), index=0)
    world.fail("convert-1", "FailedIndexes", failedIndexes="0")

    world.settle()

    assert world.condition("Failed") == ("True", "OutOfMemory")


def test_a_kill_without_a_message_is_a_backoff_limit(world: World) -> None:
    world.running()
    world.pod("convert-1", world.ended(137), index=0)
    world.fail("convert-1", "FailedIndexes", failedIndexes="0")

    world.settle()

    assert world.condition("Failed") == ("True", "BackoffLimitExceeded")


def test_a_crash_without_a_message_shows_the_last_words(world: World) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.ended(1, "Traceback\nModuleNotFoundError: no module named dataprep"))
    world.fail("plan", "BackoffLimitExceeded", "Job has reached the specified backoff limit")

    world.settle()

    assert world.condition("Failed") == ("True", "InternalError")
    assert "ModuleNotFoundError" in world.message()


def test_numbers_that_do_not_add_up_fail_the_job(world: World) -> None:
    world.running()
    world.converted()
    world.settle()
    world.committed(records=RecordProgress(in_=1000, out=900, bad=10))

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "VerificationFailed")


def test_a_commit_of_another_run_is_not_believed(world: World) -> None:
    world.running()
    world.converted()
    world.settle()
    world.committed(run_id="other")

    assert world.settle() == "Failed"


@pytest.mark.parametrize("run_id", ["", "a b", "--help x", "../x/"], ids=["empty", "blank", "option", "path"])
def test_a_run_id_of_the_wrong_form_becomes_no_argument(world: World, run_id: str) -> None:
    world.apply()
    world.settle()
    world.planned(run_id=run_id)

    assert world.settle() == "Failed"
    assert world.jobs() == ["plan"]


def test_a_message_that_is_not_ours_fails_the_step(world: World) -> None:
    world.apply(workers={"image": "hello-world"})
    world.settle()
    world.pod("plan", world.ended(0, "Hello from Docker!"))
    world.complete("plan")

    assert world.settle() == "Failed"
    assert "Hello from Docker!" in world.message()


def test_a_field_that_only_a_later_operator_knows_makes_a_new_job_wait(world: World) -> None:
    """Users upgrade the CustomResourceDefinition before the operator.

    If the new definition adds a default to the specs of jobs, the jobs don't fail.
    """
    world.apply(provenence=False)

    assert world.settle() == "Pending"
    assert world.condition("Running") == ("False", "OperatorOutdated")
    assert "This operator doesn't support spec.provenence, which the CustomResourceDefinition contains" in world.message("Running")
    assert world.jobs() == []


def test_a_field_that_only_a_later_operator_knows_does_not_disturb_a_running_job(world: World) -> None:
    world.apply()
    world.settle()
    before = world.status()
    world.edit(provenence=False)

    assert world.settle() == before["phase"]
    assert world.jobs() == ["plan"]


def test_a_job_that_a_later_release_started_continues_up_to_its_next_step(world: World) -> None:
    """After a downgrade, a started job's ConfigMap can have a field that the operator doesn't know."""
    world.running()
    [stored] = [body for (plural, _, _), body in world.cluster.objects.items() if plural == "configmaps"]
    document = json.loads(stored["data"][JOB_FILE])
    stored["data"] = {JOB_FILE: json.dumps({**document, "spec": {**document["spec"], "ofANewerRelease": "yes"}})}
    world.edit(allowEmpty=True)
    world.restart()

    outdated = "This operator doesn't support spec.ofANewerRelease, which a later release added. "
    assert world.settle() == "Running"
    assert world.condition("Running") == ("True", "OperatorOutdated")
    assert world.message("Running") == (
        outdated + "The pods of the current step continue; then the job waits until the operator is upgraded."
    )
    world.converted()
    assert world.settle() == "Running"
    assert world.jobs() == ["convert-1", "plan"]
    assert world.condition("Running") == ("False", "OperatorOutdated")
    assert world.message("Running") == outdated + "The job waits until the operator is upgraded."


def test_an_invalid_spec_names_its_faults(world: World) -> None:
    world.apply(output={"uri": "s3://out/${place}"}, suspnd=True)

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "InvalidSpec")
    assert world.condition("Validated") == ("False", "InvalidSpec")
    assert "${place}" in world.message()
    assert world.jobs() == []


@pytest.mark.parametrize(
    "ends",
    [
        {"ttlSecondsAfterFinished": 60},
        {"cleanup": [{"when": "Failed", "action": "DeleteSelf", "afterSeconds": 60}]},
        {"cleanup": [{"when": "Sometimes"}, {"when": "Failed", "action": "DeleteSelf", "afterSeconds": 60}]},
    ],
    ids=["time to live", "cleanup rule", "one rule of two can be read"],
)
def test_a_job_with_an_invalid_spec_is_cleaned_up_too(world: World, ends: Body) -> None:
    world.apply(output={"uri": "s3://out/${place}"}, **ends)
    assert world.settle() == "Failed"
    world.cluster.now += timedelta(seconds=59)
    world.look()
    assert ("dataprepjobs", NAMESPACE, "mnist") in world.cluster.objects
    world.cluster.now += timedelta(seconds=2)
    world.look()

    assert ("dataprepjobs", NAMESPACE, "mnist") not in world.cluster.objects


def test_a_host_path_is_refused_by_default(world: World) -> None:
    world.apply(workers={"volumes": [{"name": "x", "hostPath": {"path": "/"}}]})

    assert world.settle() == "Failed"
    assert "spec.workers.volumes[0].hostPath" in world.message()


def test_a_step_whose_message_was_lost_runs_again(world: World) -> None:
    world.apply()
    world.settle()
    first = world.job("plan")["metadata"]["uid"]
    world.complete("plan")

    assert world.settle() == "Planning"
    assert world.jobs() == []
    assert world.later(6) == "Planning"
    assert world.job("plan")["metadata"]["uid"] != first
    world.planned()
    assert world.settle() == "Running"


def test_a_message_that_the_watch_has_not_brought_yet_is_looked_up(world: World) -> None:
    world.apply()
    world.settle()
    world.cluster.watch = lambda plural, body, gone: None if plural == "pods" else world._event(plural, body, gone)
    world.planned()

    assert world.settle() == "Running"
    assert world.created("jobs") == 2


# --- pods that can't start ------------------------------------------------------------------------------------------------

STARTS = {
    "image": ("ErrImagePull", "not found: nope:1", "ImagePullFailed"),
    "image backing off": ("ImagePullBackOff", "Back-off pulling image", "ImagePullFailed"),
    "image name": ("InvalidImageName", "", "ImagePullFailed"),
    "missing Secret in env": ("CreateContainerConfigError", 'secret "x" not found', "ConfigMissing"),
    "bad command": ("CreateContainerError", "no such file", "PodRefused"),
}


@pytest.mark.parametrize(("waiting", "message", "reason"), STARTS.values(), ids=STARTS.keys())
def test_a_pod_that_can_not_start_fails_the_job_after_a_grace(world: World, waiting: str, message: str, reason: str) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.waiting(waiting, message))

    assert world.settle() == "Pending"
    assert world.condition("Running") == ("False", reason)
    world.restart()
    assert world.later(20) == "Pending"
    assert world.wait is not None
    assert world.wait <= 11
    assert world.later(11) == "Failed"
    assert world.condition("Failed") == ("True", reason)
    assert message in world.message()
    assert world.job("plan")["spec"]["suspend"] is True


def test_an_image_that_comes_in_time_goes_on(world: World) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.waiting("ErrImagePull", "timeout"))
    world.settle()
    world.later(20)
    world.pod("plan", world.scheduled(phase="Running"))

    assert world.later(60) == "Planning"
    assert world.condition("Running") == ("True", "Planning")


def test_a_missing_secret_volume_is_found_in_the_pods_events(world: World) -> None:
    world.apply()
    world.settle()
    pod = world.pod("plan", world.waiting("ContainerCreating"))
    about = {"uid": pod["metadata"]["uid"]}
    event = {
        "type": "Warning",
        "reason": "FailedMount",
        "message": 'MountVolume.SetUp failed: secret "oss" not found',
        "involvedObject": about,
    }
    world.cluster.add("events", NAMESPACE, {"metadata": {"name": "e"}, **event})

    world.settle()
    assert not [call for call in world.cluster.calls if call[:2] == ("list", "events")]
    assert world.later(12) == "Pending"
    assert world.later(31) == "Failed"
    assert world.condition("Failed") == ("True", "ConfigMissing")
    assert 'secret "oss" not found' in world.message()


def test_a_config_map_that_somebody_deleted_is_made_again_for_pods_that_wait(world: World) -> None:
    world.running()
    world.pod("convert-1", world.scheduled(phase="Running"), index=0)
    [name] = [name for plural, _, name in world.cluster.objects if plural == "configmaps"]
    before = world.cluster.objects[("configmaps", NAMESPACE, name)]
    world.cluster.remove("configmaps", NAMESPACE, name)
    world.pod("convert-1", world.waiting("ContainerCreating"), index=1)

    world.settle()
    assert ("configmaps", NAMESPACE, name) not in world.cluster.objects
    assert world.later(12) == "Running"

    after = world.cluster.objects[("configmaps", NAMESPACE, name)]
    assert (after["data"], after["metadata"]["uid"] != before["metadata"]["uid"]) == (before["data"], True)


def test_a_config_map_that_somebody_else_put_in_its_place_is_named_for_pods_that_wait(world: World) -> None:
    world.running()
    [name] = [name for plural, _, name in world.cluster.objects if plural == "configmaps"]
    world.cluster.remove("configmaps", NAMESPACE, name)
    world.cluster.add("configmaps", NAMESPACE, {"metadata": {"name": name}, "data": {"mine": "yes"}})
    world.pod("convert-1", world.waiting("ContainerCreating"), index=0)
    world.cluster.now += timedelta(seconds=12)

    with pytest.raises(ForeignChild, match=f"ConfigMap {name} already exists and doesn't belong to this DataPrepJob; delete or rename it"):
        world.look()
    assert world.cluster.objects[("configmaps", NAMESPACE, name)]["data"] == {"mine": "yes"}


def test_a_deleted_config_map_of_ours_fails_no_job(world: World) -> None:
    world.apply()
    world.settle()
    [name] = [name for plural, _, name in world.cluster.objects if plural == "configmaps"]
    world.cluster.remove("configmaps", NAMESPACE, name)
    pod = world.pod("plan", world.waiting("ContainerCreating"))
    event = {
        "type": "Warning",
        "reason": "FailedMount",
        "message": f'MountVolume.SetUp failed for volume "job" : configmap "{name}" not found',
    }
    world.cluster.add("events", NAMESPACE, {"metadata": {"name": "e"}, **event, "involvedObject": {"uid": pod["metadata"]["uid"]}})

    assert world.later(12) == "Pending"
    assert world.condition("Running") == ("False", "ConfigMissing")
    assert ("configmaps", NAMESPACE, name) in world.cluster.objects
    assert world.later(60) == "Pending"


def test_pods_that_the_api_server_refuses_are_found_in_the_jobs_events(world: World) -> None:
    world.apply()
    world.settle()
    about = {"uid": world.job("plan")["metadata"]["uid"]}
    event = {
        "type": "Warning",
        "reason": "FailedCreate",
        "message": 'pods "x" is forbidden: serviceaccount "sa" not found',
        "involvedObject": about,
    }
    world.cluster.add("events", NAMESPACE, {"metadata": {"name": "e"}, **event})

    assert world.later(12) == "Pending"
    assert world.later(31) == "Failed"
    assert world.condition("Failed") == ("True", "PodRefused")


def test_events_are_asked_for_once_for_all_jobs_of_a_namespace_that_wait(world: World) -> None:
    for name in ("a", "b", "mnist"):
        world.apply(name, output={"uri": f"s3://out/{name}"})
        world.settle(name)
    world.cluster.now += timedelta(seconds=12)
    for name in ("a", "b", "mnist"):
        world.settle(name)
    asked = [call for call in world.cluster.calls if call[:2] == ("list", "events")]
    assert asked == [("list", "events", "type=Warning")]

    world.later(6)
    assert len([call for call in world.cluster.calls if call[:2] == ("list", "events")]) == 2


def test_a_job_that_the_api_server_refuses_fails_with_its_words(world: World) -> None:
    world.cluster.refusals[("create", "jobs")] = Refused('Job.batch "x" is invalid: spec.template.spec.volumes[3].name: Duplicate value')
    world.apply()

    assert world.settle() == "Pending"
    assert world.later(31) == "Failed"
    assert "Duplicate value" in world.message()


def test_a_strangers_object_under_our_name_is_not_ours(world: World) -> None:
    world.apply()
    uid = world.cluster.objects[("dataprepjobs", NAMESPACE, "mnist")]["metadata"]["uid"]
    stranger = f"{names.child_base('mnist', uid)}-plan"
    world.cluster.add("jobs", NAMESPACE, {"metadata": {"name": stranger}, "spec": {}})

    assert world.settle() == "Pending"
    assert world.condition("Running") == ("False", "ConflictingChild")
    world.cluster.remove("jobs", NAMESPACE, stranger)
    assert world.settle() == "Planning"
