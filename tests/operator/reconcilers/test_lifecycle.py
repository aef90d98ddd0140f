"""Tests of jobs from the plan step to their end and cleanup."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.operator.world import NAMESPACE, SHA, START, World, a_commit, a_failure, retry

from dataprep_api.reasons import Reason
from dataprep_operator import metrics
from dataprep_operator.cluster.cluster import Body
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.objects import times
from dataprep_operator.objects.observed import Key
from dataprep_operator.reconcilers.job import Reconciler
from dataprep_operator.settings import PodDefaults

# --- all goes well ------------------------------------------------------------------------------------------------------


def test_a_job_goes_from_plan_to_conversion_to_commit(world: World) -> None:
    world.apply()

    assert world.settle() == "Planning"
    assert world.jobs() == ["plan"]
    world.planned()
    assert world.settle() == "Running"
    assert world.jobs() == ["convert-1", "plan"]
    world.converted()
    assert world.settle() == "Committing"
    world.committed()
    assert world.settle() == "Succeeded"

    status = world.status()
    assert world.condition("Complete") == ("True", "Completed")
    assert world.condition("OutputCommitted") == ("True", "Completed")
    assert status["progress"]["percent"] == 100
    assert status["progress"]["records"] == {"total": 1000, "in": 1000, "out": 990, "bad": 10, "filtered": 0, "added": 0}
    assert status["output"]["manifestSha256"] == SHA
    assert status["runId"] == "0123abcd"
    assert [world.created("jobs"), world.created("configmaps")] == [3, 2]


def test_bad_records_are_shown_with_examples_and_where_all_of_them_are(world: World) -> None:
    world.running()
    world.converted()
    world.settle()
    bad = [{"uri": "s3://in/a.csv", "row": row, "reason": f"line {row + 1}: no number"} for row in range(20)]
    world.committed(quarantine_uri="s3://out/_dataprep/0123abcd/quarantine", bad=bad)
    assert world.settle() == "Succeeded"
    status = world.status()
    assert status["output"]["quarantineUri"] == "s3://out/_dataprep/0123abcd/quarantine"
    assert [(example["input"], example["index"]) for example in status["badRecords"]] == [("s3://in/a.csv", row) for row in range(20)]
    assert status["badRecords"][0]["message"] == "line 1: no number"


def test_the_work_of_a_finished_job_is_counted_once_and_by_words_of_ours(world: World) -> None:
    def told() -> dict[str, float]:
        """Return the samples of all metrics, by name and label values."""
        families = [family for family in metrics.REGISTRY.collect() if family.name.startswith("dataprep_")]
        return {f"{s.name} {' '.join(s.labels.values())}".strip(): s.value for family in families for s in family.samples}

    before = told()
    world.running()
    world.converted()
    world.settle()
    world.committed(
        seconds={"read": 7.5, "sink": 2.0, "<script>": 1.0},
        bad_reasons={"Unreadable": 8, "Feature": 2, "<script>": 5},
        shard_seconds=44.0,
        shards_within=[1, 0, 6, 0, 0, 0, 0, 1],
    )
    world.settle()
    world.restart()
    world.settle()

    counted = {name: value - before.get(name, 0.0) for name, value in told().items()}
    assert [counted[f"dataprep_stage_seconds_total {stage}"] for stage in ("read", "transform", "sink")] == [7.5, 0.0, 2.0]
    assert [counted[f"dataprep_bad_records_total {reason}"] for reason in ("Unreadable", "Transform", "Feature")] == [8.0, 0.0, 2.0]
    shards = "dataprep_shard_duration_seconds"
    assert [counted[f"{shards}_{end}"] for end in ("bucket 1.0", "bucket 5.0", "bucket 15.0", "bucket +Inf", "count", "sum")] == [
        1.0, 1.0, 7.0, 8.0, 8.0, 44.0,
    ]  # fmt: skip
    assert not any("script" in name for name in counted)


def test_a_finished_job_stays_as_it_is_without_its_children(world: World) -> None:
    world.running()
    world.converted()
    world.settle()
    world.committed()
    world.settle()
    before = world.status()
    for suffix in ("plan", "convert-1", "commit-1"):
        world.cluster.remove("jobs", NAMESPACE, world.job(suffix)["metadata"]["name"])
    world.restart()

    world.later(1000)

    assert world.status() == before
    assert world.jobs() == []


def test_a_child_of_a_finished_job_that_somebody_lets_go_is_stopped_again(world: World) -> None:
    world.apply(activeDeadlineSeconds=100)
    world.settle()
    world.planned()
    world.settle()
    assert world.later(101) == "Failed"
    failed, name = world.status(), world.job("convert-1")["metadata"]["name"]
    world.cluster.change("jobs", name, {"spec": {"suspend": False, "parallelism": 7}})

    world.settle()

    assert world.job("convert-1")["spec"]["suspend"] is True
    assert (world.status(), world.created("jobs")) == (failed, 2)


def test_an_edited_child_of_a_complete_job_changes_nothing(world: World) -> None:
    world.running()
    world.converted()
    world.settle()
    world.committed()
    assert world.settle() == "Succeeded"
    done, made = world.status(), world.created("jobs")
    for suffix in ("plan", "convert-1", "commit-1"):
        edited = {"spec": {"suspend": True, "parallelism": 9}, "metadata": {"labels": {"dataprep.io/attempt": "7"}}}
        world.cluster.change("jobs", world.job(suffix)["metadata"]["name"], edited)
        world.settle()

    assert (world.status(), world.created("jobs")) == (done, made)


@pytest.mark.parametrize("stop_at", range(8))
def test_a_restart_at_any_step_loses_nothing(world: World, stop_at: int) -> None:
    moves: list[Callable[[], object]] = [
        world.apply,
        world.look,
        world.planned,
        world.look,
        world.converted,
        world.look,
        world.committed,
        world.look,
    ]
    for number, move in enumerate(moves):
        move()
        if number == stop_at:
            world.restart()
            world.settle()

    assert world.settle() == "Succeeded"
    assert world.jobs() == ["commit-1", "convert-1", "plan"]


def test_a_reused_data_set_needs_no_worker(world: World) -> None:
    world.apply()
    world.settle()
    world.planned(reused=True, commit=a_commit())

    assert world.settle() == "Succeeded"
    assert world.jobs() == ["plan"]
    assert world.condition("Complete") == ("True", "Reused")
    assert world.status()["reused"] is True


def test_an_empty_plan_is_committed_without_a_conversion(world: World) -> None:
    world.apply(allowEmpty=True)
    world.settle()
    world.planned(tasks=0, shards=0, records=0)

    assert world.settle() == "Committing"
    assert world.jobs() == ["commit-1", "plan"]


def test_many_looks_make_one_child_of_each_kind(world: World) -> None:
    world.apply()
    for _ in range(20):
        world.settle()

    assert world.created("jobs") == 1


def test_a_deaf_operator_finds_its_own_children(world: World) -> None:
    world.apply()
    world.settle()
    blind = Cache()
    blind.put(Kind.DATAPREPJOBS, world.cluster.objects[("dataprepjobs", NAMESPACE, "mnist")])
    reconciler = Reconciler(
        cache=blind, cluster=world.cluster, progress_store=world.progress_store, settings=world.settings, clock=lambda: world.cluster.now
    )

    asyncio.run(reconciler.reconcile(Key(NAMESPACE, "mnist")))

    assert world.jobs() == ["plan"]
    uid = world.cluster.objects[("dataprepjobs", NAMESPACE, "mnist")]["metadata"]["uid"]
    assert [child.step for child in blind.children_of(NAMESPACE, uid)] == ["plan"]


# --- one output, one job ------------------------------------------------------------------------------------------------------


def test_of_two_jobs_with_one_output_the_older_wins(world: World) -> None:
    world.apply("mnist")
    world.cluster.now += timedelta(seconds=5)
    world.apply("other", output={"uri": "S3://OUT//mnist/"})

    assert world.settle("other") == "Pending"
    assert world.condition("Running", "other") == ("False", "OutputInUse")
    assert world.settle("mnist") == "Planning"


def test_versions_of_one_output_are_made_side_by_side(world: World) -> None:
    world.apply("mnist", output={"uri": "s3://out/mnist", "version": "v1"})
    world.cluster.now += timedelta(seconds=5)
    world.apply("other", output={"uri": "s3://out/mnist", "version": "v2"})
    world.apply("third", output={"uri": "s3://out/mnist/v1"})

    assert world.settle("other") == "Planning"
    assert world.settle("third") == "Pending"
    assert world.condition("Running", "third") == ("False", "OutputInUse")


def test_an_output_is_free_again_when_its_job_has_ended(world: World) -> None:
    world.apply("mnist")
    world.settle()
    world.apply("other")
    world.settle("other")
    world.plan_fails(a_failure(Reason.NO_INPUT, "nothing", 3))
    world.settle()

    assert world.settle("other") == "Planning"
    world.cluster.now += timedelta(seconds=5)
    retry(world)
    assert world.condition("Running") == ("False", "OutputInUse")


def test_a_rival_that_is_gone_already_is_none(world: World) -> None:
    world.apply("mnist")
    world.cluster.watch = lambda plural, body, gone: None if gone else world._event(plural, body, gone)
    world.cluster.remove("dataprepjobs", NAMESPACE, "mnist")
    world.apply("other")

    assert world.settle("other") == "Planning"


def test_the_output_counts_after_its_params(world: World) -> None:
    world.apply("mnist")
    world.apply("other", params={"where": "mnist"}, output={"uri": "s3://out/${where}"})

    assert {world.settle("mnist"), world.settle("other")} == {"Planning", "Pending"}


# --- the end ------------------------------------------------------------------------------------------------------------------


def succeeded(world: World, **spec: Any) -> None:  # Any: fields of the spec
    world.apply(**spec)
    world.settle()
    world.planned(reused=True, commit=a_commit())
    world.settle()


def test_nothing_is_cleaned_up_unless_asked(world: World) -> None:
    succeeded(world)
    world.later(10**6)

    assert world.jobs() == ["plan"]
    assert not [call for call in world.cluster.calls if call[0] == "delete"]


def test_a_cleanup_rule_removes_pods_in_time(world: World) -> None:
    succeeded(world, cleanup=[{"when": "Succeeded", "action": "DeletePods", "afterSeconds": 60}])
    assert world.wait is not None
    assert world.wait <= 61

    world.later(59)
    assert [key for key in world.cluster.objects if key[0] == "pods"]
    world.later(2)
    assert not [key for key in world.cluster.objects if key[0] == "pods"]
    assert world.jobs() == ["plan"]
    assert "CleanedUp" in world.events()


def test_a_rule_for_failures_leaves_a_success_alone(world: World) -> None:
    succeeded(world, cleanup=[{"when": "Failed", "action": "DeleteJobs", "afterSeconds": 0}])

    assert world.later(100) == "Succeeded"
    assert world.jobs() == ["plan"]


def test_jobs_are_removed_after_their_status_is_written(world: World) -> None:
    succeeded(world, cleanup=[{"when": "Succeeded", "action": "DeleteJobs", "afterSeconds": 0}])

    assert world.later(1) == "Succeeded"
    assert world.jobs() == []


@pytest.mark.parametrize(
    "spec",
    [{"ttlSecondsAfterFinished": 60}, {"cleanup": [{"when": "Succeeded", "action": "DeleteSelf", "afterSeconds": 60}]}],
    ids=["ttl", "rule"],
)
def test_a_job_removes_itself_with_its_children(world: World, spec: Body) -> None:
    succeeded(world, **spec)
    world.cluster.now += timedelta(seconds=61)
    world.look()

    assert not [key for key in world.cluster.objects if key[0] in ("dataprepjobs", "jobs", "pods", "configmaps")]
    world.look()


def test_the_image_that_is_shown_is_the_one_that_runs(world: World) -> None:
    world.running()
    world.settle()
    assert world.status()["effective"]["image"] == "dataprep:1"
    world.settings = replace(world.settings, pods=replace(world.settings.pods, image="dataprep:2"))
    world.restart()
    world.cluster.now += timedelta(seconds=30)
    world.settle()

    assert world.status()["effective"]["image"] == "dataprep:1"


def the_job_is_there(world: World, *, after: int) -> bool:
    world.cluster.now += timedelta(seconds=after)
    world.look()
    return any(key[0] == "dataprepjobs" for key in world.cluster.objects)


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({}, 60),
        ({"ttlSecondsAfterFinished": 90}, 90),
        ({"cleanup": [{"when": "Succeeded", "action": "DeleteSelf", "afterSeconds": 90}]}, 90),
        ({"cleanup": [{"when": "Failed", "action": "DeleteSelf", "afterSeconds": 90}]}, 60),
        ({"cleanup": [{"when": "Succeeded", "action": "DeleteJobs", "afterSeconds": 90}]}, 60),
    ],
    ids=["nothing", "a ttl", "a rule", "a rule for failures", "a rule for the Jobs"],
)
def test_the_installation_s_ttl_is_for_jobs_that_say_none(spec: Body, seconds: int) -> None:
    world = World(pods=PodDefaults(image="dataprep:1", ttl_seconds=60))
    succeeded(world, **spec)

    assert the_job_is_there(world, after=seconds - 5)
    assert not the_job_is_there(world, after=6)


def test_the_installation_s_ttl_removes_no_output() -> None:
    world = World(pods=PodDefaults(image="dataprep:1", ttl_seconds=60))
    succeeded(world, deletionPolicy="Delete")

    assert the_job_is_there(world, after=100_000)


def test_a_job_that_is_being_deleted_gets_no_children(world: World) -> None:
    world.apply()
    world.cluster.change("dataprepjobs", "mnist", {"metadata": {"deletionTimestamp": times.text(START)}})
    world.settle()

    assert world.jobs() == []
