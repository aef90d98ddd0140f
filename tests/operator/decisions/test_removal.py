"""Tests of `deletionPolicy: Delete`.

A deleted job disappears once its output has been removed, or once it is certain that the output will be kept.
"""

from datetime import timedelta

import pytest
from tests.builders.removals import body, finalizers, step, succeeded
from tests.operator.world import NAMESPACE, World, a_commit, a_failure, a_plan, retry

from dataprep_api import names
from dataprep_api.dataset.messages import RemoveResult
from dataprep_api.reasons import Reason
from dataprep_operator.errors import Refused, Unavailable
from dataprep_operator.objects import times


def delete(world: World, name: str = "mnist") -> None:
    world.cluster.end("dataprepjobs", NAMESPACE, name)
    look(world, name)


def look(world: World, name: str = "mnist") -> None:
    for _ in range(6):
        if body(world, name) is not None:
            world.settle(name)


def removed(world: World, result: RemoveResult | None = None) -> None:
    world.pod("cleanup", world.ended(0, result or RemoveResult(files=12, bytes=4000)))
    world.complete("cleanup")
    look(world)


def note(world: World, reason: str) -> tuple[str, str]:
    found = next(event for (plural, _, _), event in world.cluster.objects.items() if plural == "events" and event["reason"] == reason)
    return found["type"], found["message"]


# --- the finalizer ------------------------------------------------------------------------------------------------------------


def test_there_is_a_finalizer_only_with_delete(world: World) -> None:
    world.apply()
    world.settle()
    assert finalizers(world) == []

    world.edit(deletionPolicy="Delete")
    world.settle()
    assert finalizers(world) == [names.FINALIZER]

    world.edit(deletionPolicy="Retain")
    world.settle()
    assert finalizers(world) == []


def test_the_finalizer_is_there_before_the_first_pod(world: World) -> None:
    world.cluster.refusals[("patch", "dataprepjobs")] = Unavailable("429")
    world.apply(deletionPolicy="Delete")
    world.settle()
    assert world.jobs() == []

    world.cluster.refusals.clear()
    world.settle()
    assert (finalizers(world), world.jobs()) == ([names.FINALIZER], ["plan"])


def test_finalizers_of_others_stay(world: World) -> None:
    world.apply(deletionPolicy="Delete")
    world.cluster.change("dataprepjobs", "mnist", {"metadata": {"finalizers": ["example.com/mine"]}})
    world.settle()
    assert finalizers(world) == ["example.com/mine", names.FINALIZER]

    world.edit(deletionPolicy="Retain")
    world.settle()
    assert finalizers(world) == ["example.com/mine"]


# --- all goes well --------------------------------------------------------------------------------------------------------------


def test_a_deleted_job_removes_what_it_wrote_and_goes(world: World) -> None:
    succeeded(world)
    delete(world)

    assert body(world) is not None
    job = world.job("cleanup")
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["args"] == ["remove", "--job", "/etc/dataprep/job.yaml", "--run", "0123abcd"]
    assert world.condition("OutputRemoved") == ("False", "RemovingOutput")
    assert world.message("OutputRemoved") == "A pod is removing what the job wrote to s3://out/mnist."
    assert job["metadata"]["ownerReferences"][0]["uid"] == body(world)["metadata"]["uid"]  # type: ignore[index]  # it is there

    removed(world)
    assert body(world) is None
    assert world.jobs() == []
    assert note(world, "OutputRemoved") == ("Normal", "12 files of s3://out/mnist were removed, 4000 bytes.")


def test_looking_again_and_again_makes_one_job_only(world: World) -> None:
    succeeded(world)
    before = world.created()
    delete(world)
    world.restart()
    for _ in range(3):
        world.later(40)
    assert world.created() - before == 1
    assert world.wait is not None
    assert world.wait <= 31


def test_nothing_is_removed_while_a_pod_may_write(world: World) -> None:
    world.apply(deletionPolicy="Delete")
    world.settle()
    world.planned()
    world.settle()
    pod = world.pod("convert-1", world.scheduled(phase="Running"), index=0)
    delete(world)

    assert world.job("convert-1")["spec"]["suspend"] is True
    assert "cleanup" not in world.jobs()
    assert world.message("OutputRemoved") == f"Waiting for 1 pod to end ({pod['metadata']['name']}); then s3://out/mnist is removed."

    world.cluster.remove("pods", NAMESPACE, pod["metadata"]["name"])
    look(world)
    assert "cleanup" in world.jobs()
    removed(world)
    assert body(world) is None


def test_a_pod_of_a_queue_is_waited_for_although_its_job_is_deleted(world: World) -> None:
    world.apply(deletionPolicy="Delete", labels={"kueue.x-k8s.io/queue-name": "team"})
    world.settle()
    world.planned()
    world.settle()
    world.cluster.change("jobs", world.job("convert-1")["metadata"]["name"], {"spec": {"suspend": False}})
    pod = world.pod("convert-1", world.scheduled(phase="Running"), index=0)
    # The Job is deleted, but the garbage collector has not deleted its pod yet.
    world.cluster.change("pods", pod["metadata"]["name"], {"metadata": {"ownerReferences": []}})
    delete(world)
    assert "convert-1" not in world.jobs()
    assert "cleanup" not in world.jobs()

    world.cluster.remove("pods", NAMESPACE, pod["metadata"]["name"])
    look(world)
    assert "cleanup" in world.jobs()


def test_a_pod_on_a_dead_node_holds_nothing_up_for_ever(world: World) -> None:
    world.apply(deletionPolicy="Delete")
    world.settle()
    world.planned()
    world.settle()
    due = times.text(world.cluster.now + timedelta(seconds=30))
    world.pod("convert-1", world.scheduled(phase="Running"), index=0, metadata={"deletionTimestamp": due, "finalizers": ["x"]})
    delete(world)
    assert "cleanup" not in world.jobs()

    world.later(95)
    look(world)
    assert "cleanup" in world.jobs()


def test_every_run_of_the_job_is_named(world: World) -> None:
    world.apply(deletionPolicy="Delete")
    world.settle()
    world.planned()
    world.settle()
    world.fail("convert-1", "PodFailurePolicy")
    pod = world.pod("convert-1", world.ended(5, a_failure(Reason.INPUT_CHANGED, "changed")), index=0)
    assert pod is not None
    world.settle()
    retry(world)
    step(world, "plan-2", a_plan(run_id="fedc4567"))
    delete(world)
    container = world.job("cleanup")["spec"]["template"]["spec"]["containers"][0]
    assert container["args"][3:] == ["--run", "fedc4567", "--run", "0123abcd"]


def test_a_plan_whose_message_nobody_has_read_counts(world: World) -> None:
    world.apply(deletionPolicy="Delete")
    world.settle()
    world.planned()
    delete(world)
    assert world.job("cleanup")["spec"]["template"]["spec"]["containers"][0]["args"][3:] == ["--run", "0123abcd"]


def test_a_merged_plan_whose_message_nobody_has_read_counts(world: World) -> None:
    world.apply(deletionPolicy="Delete")
    world.settle()
    world.scan_requested()
    world.settle()
    world.scanned()
    world.settle()
    world.planned("merge-1")
    delete(world)
    assert world.job("cleanup")["spec"]["template"]["spec"]["containers"][0]["args"][3:] == ["--run", "0123abcd"]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            RemoveResult(files=3, bytes=9, kept=1, kept_files=["a"]),
            "3 files of s3://out/mnist were removed; 1 file is kept, because another writer has changed it since: a.",
        ),
        (
            RemoveResult(files=1, bytes=9, kept=2, kept_files=["a", "b"]),
            "1 file of s3://out/mnist was removed; 2 files are kept, because another writer has changed them since: a, b.",
        ),
    ],
)
def test_files_that_others_wrote_are_named_in_the_event(world: World, result: RemoveResult, message: str) -> None:
    succeeded(world)
    delete(world)
    removed(world, result)
    assert note(world, "OutputRemoved") == ("Warning", message)


def test_a_time_to_live_removes_the_output_too(world: World) -> None:
    succeeded(world, ttlSecondsAfterFinished=60)
    world.later(61)
    look(world)
    assert "cleanup" in world.jobs()
    removed(world)
    assert body(world) is None


# --- the output is kept -----------------------------------------------------------------------------------------------------------


def test_a_job_that_wrote_nothing_goes_at_once(world: World) -> None:
    world.apply(deletionPolicy="Delete", suspend=True)
    world.settle()
    delete(world)
    assert body(world) is None
    assert world.created() == 0


def test_an_output_that_was_found_finished_stays(world: World) -> None:
    world.apply(deletionPolicy="Delete")
    world.settle()
    world.planned(reused=True, tasks=0, commit=a_commit())
    assert world.settle() == "Succeeded"
    delete(world)
    assert body(world) is None
    assert note(world, "OutputKept") == ("Normal", "This job reused s3://out/mnist and didn't write it, so s3://out/mnist is kept.")


def test_another_job_with_the_same_data_set_keeps_it(world: World) -> None:
    succeeded(world)
    world.apply("again")
    world.settle("again")
    step(world, "plan", a_plan(reused=True, tasks=0, commit=a_commit()), "again")
    delete(world)
    assert body(world) is None
    assert note(world, "OutputKept") == ("Normal", "s3://out/mnist is also the output of the DataPrepJob team-a/again, so it is kept.")


def test_another_job_that_writes_there_keeps_it(world: World) -> None:
    succeeded(world)
    world.apply("next")
    world.settle("next")
    delete(world)
    assert body(world) is None
    assert note(world, "OutputKept")[1] == "s3://out/mnist is also the output of the DataPrepJob team-a/next, so it is kept."


def test_a_folder_that_another_run_has_taken_stays(world: World) -> None:
    succeeded(world)
    delete(world)
    removed(world, RemoveResult(owner="f" * 16))
    assert body(world) is None
    assert note(world, "OutputKept") == ("Normal", "s3://out/mnist now belongs to the run ffffffffffffffff, so it is kept.")


def test_a_job_that_comes_meanwhile_waits_for_the_removal(world: World) -> None:
    succeeded(world)
    delete(world)
    world.apply("next")
    assert world.settle("next") == "Pending"
    assert world.condition("Running", "next") == ("False", "WaitingForJob")
    running = next(c for c in world.status("next")["conditions"] if c["type"] == "Running")
    assert running["message"] == "Waiting for the deleted DataPrepJob team-a/mnist, which removes s3://out/mnist."

    removed(world)
    assert world.settle("next") == "Planning"


def test_the_end_of_a_job_wakes_those_that_share_its_output(world: World) -> None:
    succeeded(world)
    world.apply("next", suspend=True)
    alive, sharing = body(world), body(world, "next")
    assert alive is not None
    assert sharing is not None
    assert [key.name for key in world.cache.dependents(alive)] == ["next"]

    delete(world)
    leaving = body(world)
    assert leaving is not None
    assert [key.name for key in world.cache.dependents(leaving)] == ["next"]
    assert [key.name for key in world.cache.dependents(sharing)] == ["mnist"]


def test_the_finalizer_is_dropped_with_a_warning_when_the_namespace_is_deleted(world: World) -> None:
    succeeded(world)
    world.cluster.add("", NAMESPACE, {"metadata": {"name": ""}, "status": {"phase": "Terminating"}})
    delete(world)
    assert body(world) is None
    assert note(world, "OutputKept") == (
        "Warning",
        "The namespace is being deleted and accepts no new pods, so s3://out/mnist is kept.",
    )


def test_an_event_that_a_dying_namespace_refuses_holds_nothing_up(world: World) -> None:
    succeeded(world)
    world.cluster.add("", NAMESPACE, {"metadata": {"name": ""}, "status": {"phase": "Terminating"}})
    world.cluster.refusals |= {("create", plural): Refused("is being terminated") for plural in ("configmaps", "jobs", "events")}
    delete(world)
    assert body(world) is None


# --- the removal fails --------------------------------------------------------------------------------------------------------------


def test_a_removal_that_fails_says_so_and_how_to_let_go(world: World) -> None:
    succeeded(world)
    delete(world)
    denied = a_failure(Reason.NOT_PERMITTED, "s3://out/mnist: delete is denied for the user dataprep.")
    pod = world.pod("cleanup", world.ended(5, denied))
    world.fail("cleanup", "PodFailurePolicy", f"Container dataprep for pod {NAMESPACE}/{pod['metadata']['name']} failed")
    look(world)

    assert world.condition("OutputRemoved") == ("False", "NotPermitted")
    told = (
        "s3://out/mnist could not be removed; retrying every 300 s. s3://out/mnist: delete is denied for the user dataprep. "
        "To delete the job and keep the files, set spec.deletionPolicy to Retain."
    )
    assert world.message("OutputRemoved") == told
    assert note(world, "NotPermitted") == ("Warning", told)

    world.edit(deletionPolicy="Retain")
    look(world)
    assert body(world) is None
    assert note(world, "OutputKept") == ("Normal", "deletionPolicy is Retain, so s3://out/mnist is kept.")


def test_a_removal_that_failed_is_tried_again(world: World) -> None:
    succeeded(world)
    delete(world)
    world.pod("cleanup", world.ended(4, a_failure(Reason.STORE_UNREACHABLE, "s3 is down", 4)))
    world.fail("cleanup", "BackoffLimitExceeded")
    look(world)
    first = world.job("cleanup")["metadata"]["uid"]
    world.later(200)
    assert world.job("cleanup")["metadata"]["uid"] == first

    world.later(101)
    look(world)
    assert world.job("cleanup")["metadata"]["uid"] != first
    removed(world)
    assert body(world) is None


def test_a_removal_that_failed_at_an_unknown_time_is_tried_again(world: World) -> None:
    succeeded(world)
    delete(world)
    world.pod("cleanup", world.ended(4, a_failure(Reason.STORE_UNREACHABLE, "s3 is down", 4)))
    world._job_status("cleanup", {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]})
    look(world)
    first = world.job("cleanup")["metadata"]["uid"]
    world.later(301)

    assert world.job("cleanup")["metadata"]["uid"] != first


def test_a_pod_that_cannot_start_is_told(world: World) -> None:
    succeeded(world)
    delete(world)
    world.pod("cleanup", world.waiting("ErrImagePull", "no such image"))
    look(world)
    assert world.condition("OutputRemoved") == ("False", "ImagePullFailed")
    assert "The pod that removes s3://out/mnist can't start. ErrImagePull: no such image" in world.message("OutputRemoved")


def test_a_removal_that_somebody_suspends_starts_again_once(world: World) -> None:
    succeeded(world)
    delete(world)
    world.cluster.change("jobs", world.job("cleanup")["metadata"]["name"], {"spec": {"suspend": True}})
    look(world)
    assert not world.job("cleanup")["spec"]["suspend"]

    world.cluster.change("jobs", world.job("cleanup")["metadata"]["name"], {"spec": {"suspend": True}})
    look(world)
    assert world.job("cleanup")["spec"]["suspend"]
    assert world.condition("OutputRemoved") == ("False", "Queued")


def test_a_job_that_is_refused_is_told_and_tried_again(world: World) -> None:
    succeeded(world)
    world.cluster.refusals[("create", "jobs")] = Refused("exceeded quota: count/jobs.batch")
    delete(world)
    assert world.condition("OutputRemoved") == ("False", "PodRefused")
    assert "s3://out/mnist can't be removed: exceeded quota: count/jobs.batch" in world.message("OutputRemoved")

    world.cluster.refusals.clear()
    look(world)
    assert world.condition("OutputRemoved") == ("False", "RemovingOutput")
    removed(world)
    assert body(world) is None


def test_a_restart_between_any_two_steps_loses_nothing(world: World) -> None:
    succeeded(world)
    world.cluster.end("dataprepjobs", NAMESPACE, "mnist")
    for _ in range(6):
        world.restart()
        try:
            world.look()
        except Unavailable:
            continue
    world.restart()
    removed(world)
    assert body(world) is None
