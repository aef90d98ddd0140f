"""Tests of jobs that wait for other jobs: `source.fromJob` and `runAfter`."""

import json
from typing import Any

import pytest
from tests.operator.world import NAMESPACE, World, a_commit, a_failure, a_plan, retry

from dataprep_api.dataset.messages import CommitResult, PlanResult
from dataprep_api.reasons import Reason
from dataprep_api.resources.job import DataPrepJob
from dataprep_operator.cluster.cluster import Body
from dataprep_operator.errors import Unavailable
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.objects.observed import Key

DIGEST = "cd" * 32
FROM_FIRST = {"fromJob": {"name": "first"}}


def follow(world: World, name: str = "second", **spec: Any) -> str:  # Any: fields of the spec
    whole: Body = {"source": FROM_FIRST, "output": {"uri": f"s3://out/{name}"}}
    world.apply(name, **(whole | spec))
    return world.settle(name)


def finish(world: World, name: str = "first") -> None:
    """Run an applied job through all of its steps."""
    world.settle(name)
    for step in ("plan", "convert-1", "commit-1"):
        job = world.job(step, name)
        if step == "plan":
            _says(world, job, a_plan())
        elif step == "commit-1":
            _says(world, job, a_commit(digest=DIGEST))
        done = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z"}
        world.cluster.change("jobs", job["metadata"]["name"], {"status": {"conditions": [done], "completedIndexes": "0-3"}})
        world.settle(name)
    assert world.status(name)["phase"] == "Succeeded"


def _says(world: World, job: Body, message: PlanResult | CommitResult) -> None:
    name = job["metadata"]["name"]
    body = {
        "metadata": {
            "name": f"{name}-pod",
            "labels": job["spec"]["template"]["metadata"]["labels"],
            "ownerReferences": [{"kind": "Job", "name": name, "uid": job["metadata"]["uid"], "controller": True}],
        },
        "status": world.ended(0, message),
    }
    world.cluster.add("pods", NAMESPACE, body)


def running_message(world: World, name: str = "second") -> str:
    return str(next(c["message"] for c in world.status(name)["conditions"] if c["type"] == "Running"))


def frozen(world: World, name: str = "second") -> DataPrepJob:
    """Return the job that the pods read from the ConfigMap."""
    maps = [
        body
        for (plural, _, _), body in world.cluster.objects.items()
        if plural == "configmaps" and body["metadata"]["ownerReferences"][0]["name"] == name and "job.yaml" in body["data"]
    ]
    assert len(maps) == 1
    return DataPrepJob.parse(json.loads(maps[0]["data"]["job.yaml"]))


# --- waiting ----------------------------------------------------------------------------------------------------------------


def test_a_job_waits_for_the_one_it_reads_and_says_where_that_stands(world: World) -> None:
    world.apply("first", output={"uri": "s3://out/first"})
    world.settle("first")

    assert follow(world) == "Pending"
    assert world.condition("Running", "second") == ("False", "WaitingForJob")
    assert running_message(world) == "Waiting for first, which is Planning."
    assert "startTime" not in world.status("second")
    assert world.created() == 1


def test_it_starts_when_the_other_is_complete_and_reads_its_data_set(world: World) -> None:
    world.apply("first", output={"uri": "s3://out/${VERSION}"}, params={"VERSION": "v1"})
    follow(world)
    finish(world)

    assert world.settle("second") == "Planning"
    assert world.status("second")["fromJob"] == {"uri": "s3://out/v1", "digest": DIGEST}
    source = frozen(world).spec.data
    assert source.dataset is not None
    assert (source.dataset.uri, source.dataset.digest) == ("s3://out/v1", DIGEST)


def test_a_dollar_sign_in_the_other_s_uri_is_kept(world: World) -> None:
    world.apply("first", output={"uri": "s3://out/$$5"})
    finish(world)
    follow(world)

    assert frozen(world).spec.data.inputs() == ["s3://out/$5"]


@pytest.mark.parametrize(
    ("splits", "expected"),
    [
        (None, [("train", "train", None)]),
        ({"into": [{"name": "a", "fraction": 0.9}, {"name": "b", "fraction": 0.1}]}, [("a", "train", 0.9), ("b", "train", 0.1)]),
    ],
    ids=["as it is", "divided again"],
)
def test_one_split_of_the_other_can_be_taken(world: World, splits: Body | None, expected: list[tuple[str, str, float | None]]) -> None:
    world.apply("first", output={"uri": "s3://out/first"})
    finish(world)
    given: Body = {"splits": splits} if splits else {}
    follow(world, source={"fromJob": {"name": "first", "split": "train"}}, **given)
    found = frozen(world).spec.splits

    assert found is not None
    assert [(each.name, each.subset, each.fraction) for each in found.into] == expected


def test_run_after_waits_for_all_and_changes_nothing_else(world: World) -> None:
    world.apply("first", output={"uri": "s3://out/first"})
    finish(world)
    world.apply("second", output={"uri": "s3://out/second"}, runAfter=["first", "other"])

    assert world.settle("second") == "Pending"
    assert running_message(world) == "Waiting for other, which does not exist."
    world.apply("other", output={"uri": "s3://out/other"})
    finish(world, "other")
    assert world.settle("second") == "Planning"
    assert frozen(world).spec.data.idx is not None
    assert "fromJob" not in world.status("second")


def test_who_waits_may_write_where_the_other_writes_until_then(world: World) -> None:
    world.apply("first", output={"uri": "s3://out/same"})
    world.settle("first")
    world.apply("second", output={"uri": "s3://out/same"}, runAfter=["first"])

    assert world.settle("second") == "Pending"
    finish(world)
    assert world.settle("second") == "Planning"


def test_a_failed_job_is_waited_for_because_it_may_be_retried(world: World) -> None:
    world.apply(output={"uri": "s3://out/first"})
    world.settle()
    world.plan_fails(a_failure(Reason.INPUT_NOT_FOUND, "nothing there"))
    world.settle()
    follow(world, source={"fromJob": {"name": "mnist"}})

    assert running_message(world) == "Waiting for mnist, which has failed and may be retried."
    retry(world)
    world.settle("second")
    assert running_message(world) == "Waiting for mnist, which is Planning."


def test_a_job_that_goes_away_is_missed_and_the_start_deadline_bounds_the_wait(world: World) -> None:
    world.apply("first", output={"uri": "s3://out/first"})
    follow(world, startDeadlineSeconds=600)
    world.cluster.remove("dataprepjobs", NAMESPACE, "first")
    world.later(100, "second")

    assert running_message(world) == "Waiting for first, which does not exist."
    assert world.wait == 500.5
    assert world.later(499, "second") == "Pending"
    world.restart()
    assert world.later(2, "second") == "Failed"
    assert world.condition("Failed", "second") == ("True", "StartDeadlineExceeded")
    assert running_message(world) == "The job could not start within 600 s: Waiting for first, which does not exist."


def test_a_retry_waits_again(world: World) -> None:
    follow(world, startDeadlineSeconds=10)
    world.later(11, "second")
    world.edit("second", annotations={"dataprep.io/retry": "1"})

    assert world.settle("second") == "Pending"
    assert world.later(9, "second") == "Pending"
    assert world.later(2, "second") == "Failed"


def test_a_suspended_job_waits_after_it_is_resumed(world: World) -> None:
    assert follow(world, suspend=True) == "Suspended"
    world.edit("second", suspend=False)

    assert world.settle("second") == "Pending"
    assert world.condition("Suspended", "second") == ("False", "Resumed")


def test_what_was_found_outlives_the_operator_and_the_other_job(world: World) -> None:
    world.apply("first", output={"uri": "s3://out/first"})
    finish(world)
    world.apply("second", source=FROM_FIRST, output={"uri": "s3://out/second"})
    world.cluster.refusals[("create", "configmaps")] = Unavailable("not now")
    world.settle("second")
    assert world.status("second")["startTime"]
    world.cluster.remove("dataprepjobs", NAMESPACE, "first")
    del world.cluster.refusals[("create", "configmaps")]
    world.restart()

    assert world.settle("second") == "Planning"
    assert frozen(world).spec.data.inputs() == ["s3://out/first"]


# --- cycles -----------------------------------------------------------------------------------------------------------------


def test_jobs_that_wait_for_each_other_fail_and_name_the_circle(world: World) -> None:
    world.apply("a", output={"uri": "s3://out/a"}, runAfter=["b"])
    world.settle("a")
    world.apply("b", output={"uri": "s3://out/b"}, source={"fromJob": {"name": "c"}})
    world.apply("c", output={"uri": "s3://out/c"}, runAfter=["a"])

    for name, circle in (("a", "a → b → c → a"), ("b", "b → c → a → b"), ("c", "c → a → b → c")):
        assert world.settle(name) == "Failed"
        assert world.condition("Failed", name) == ("True", "CircularWait")
        assert running_message(world, name) == f"These jobs wait for each other: {circle}."


def test_a_job_that_waits_for_itself_fails(world: World) -> None:
    assert follow(world, "self", source={"fromJob": {"name": "self"}}) == "Failed"
    assert running_message(world, "self") == "These jobs wait for each other: self → self."


def test_who_only_waits_for_a_circle_is_in_none(world: World) -> None:
    world.apply("a", output={"uri": "s3://out/a"}, runAfter=["b"])
    world.apply("b", output={"uri": "s3://out/b"}, runAfter=["a"])
    world.apply("c", output={"uri": "s3://out/c"}, runAfter=["a"])

    assert world.settle("c") == "Pending"


# --- which jobs are reconciled ----------------------------------------------------------------------------------------------


def a_raw(name: str, *, after: list[str], status: Body | None = None, version: str = "1") -> Body:
    metadata = {
        "name": name,
        "namespace": "n",
        "uid": f"uid-{name}",
        "resourceVersion": version,
        "creationTimestamp": "2026-01-31T12:00:00Z",
    }
    return {"metadata": metadata, "spec": {"runAfter": after}, "status": status or {}}


def test_the_cache_knows_who_waits_for_whom() -> None:
    cache = Cache()
    for name in ("b", "c"):
        cache.put(Kind.DATAPREPJOBS, a_raw(name, after=["a"]))
    assert cache.waiters(Key("n", "a")) == [Key("n", "b"), Key("n", "c")]
    assert cache.waiters(Key("other", "a")) == []

    cache.put(Kind.DATAPREPJOBS, a_raw("b", after=["a"], status={"startTime": "2026-01-31T12:00:00Z"}, version="2"))
    assert cache.waiters(Key("n", "a")) == [Key("n", "c")]
    cache.drop(Kind.DATAPREPJOBS, a_raw("c", after=["a"]))
    assert cache.waiters(Key("n", "a")) == []


def test_who_waits_for_a_job_that_went_unseen_is_looked_at() -> None:
    cache = Cache()
    cache.put(Kind.DATAPREPJOBS, a_raw("a", after=[]))
    cache.put(Kind.DATAPREPJOBS, a_raw("b", after=["a"]))

    assert cache.prune(Kind.DATAPREPJOBS, namespace=None, listed_uids=["uid-b"], known_uids=["uid-a", "uid-b"]) == [
        Key("n", "a"),
        Key("n", "b"),
    ]


# --- refused jobs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"limit": 5}, "limit can't be combined with fromJob.split, because limit counts the records of all splits"),
        ({"splits": {"into": [{"name": "x", "subset": "test"}]}}, "the split 'x' sets subset, which can't be combined with fromJob.split"),
    ],
    ids=["limit", "subset"],
)
def test_what_a_split_of_the_other_job_excludes_is_said(world: World, spec: Body, said: str) -> None:
    assert follow(world, source={"fromJob": {"name": "first", "split": "train"}}, **spec) == "Failed"
    assert said in running_message(world)
