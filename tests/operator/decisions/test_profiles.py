"""A DataPrepProfile is read once, when the job starts. A job waits for a profile that doesn't exist."""

import json
from typing import Any

from tests.operator.world import NAMESPACE, World, a_failure, retry

from dataprep_api.reasons import Reason
from dataprep_operator.cluster.cluster import Body
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.objects.observed import Key


def profile(world: World, name: str, **spec: Any) -> None:  # Any: YAML
    world.cluster.add("dataprepprofiles", NAMESPACE, {"metadata": {"name": name}, "spec": spec})


def container(world: World, suffix: str) -> Body:
    return dict(world.job(suffix)["spec"]["template"]["spec"]["containers"][0])


def pod(world: World, suffix: str) -> Body:
    return dict(world.job(suffix)["spec"]["template"]["spec"])


def test_a_job_gets_what_it_leaves_out_from_its_profile(world: World) -> None:
    workers = {
        "image": "team:1",
        "nodeSelector": {"pool": "data"},
        "serviceAccountName": "reader",
        "resources": {"limits": {"memory": "8Gi"}},
    }
    profile(world, "team", stores=[{"uriPrefix": "s3://", "secretRef": {"name": "keys"}}], workers=workers)
    world.apply(profile="team")
    assert world.settle() == "Planning"

    assert container(world, "plan")["image"] == "team:1"
    assert container(world, "plan")["resources"] == {"limits": {"memory": "8Gi"}}
    assert (pod(world, "plan")["nodeSelector"], pod(world, "plan")["serviceAccountName"]) == ({"pool": "data"}, "reader")
    assert {"name": "dataprep-secret-0", "secret": {"secretName": "keys", "optional": False}} in pod(world, "plan")["volumes"]
    assert world.message("Validated") == "The spec is valid, with the DataPrepProfile team."

    world.committing()
    for suffix in ("convert-1", "commit-1"):
        assert container(world, suffix)["image"] == "team:1"
        assert (pod(world, suffix)["nodeSelector"], pod(world, suffix)["serviceAccountName"]) == ({"pool": "data"}, "reader")
        assert {"name": "dataprep-secret-0", "secret": {"secretName": "keys", "optional": False}} in pod(world, suffix)["volumes"]
    assert container(world, "convert-1")["resources"]["limits"] == {"memory": "8Gi"}


def test_job_before_profile_before_chart(world: World) -> None:
    profile(world, "default", workers={"image": "team:1", "imagePullPolicy": "Always"})
    world.apply(workers={"parallelism": 2, "image": "mine:1"})
    world.settle()
    assert (container(world, "plan")["image"], container(world, "plan")["imagePullPolicy"]) == ("mine:1", "Always")

    world.apply("other", output={"uri": "s3://out/other"})
    world.settle("other")
    assert world.job("plan", "other")["spec"]["template"]["spec"]["containers"][0]["image"] == "team:1"


def test_without_a_profile_the_chart_s_values_hold(world: World) -> None:
    world.apply()
    world.settle()
    assert container(world, "plan")["image"] == "dataprep:1"
    assert world.message("Validated") == "The spec is valid."


def test_a_profile_of_another_namespace_is_not_ours(world: World) -> None:
    world.cluster.add("dataprepprofiles", "team-b", {"metadata": {"name": "default"}, "spec": {"workers": {"image": "theirs:1"}}})
    world.apply()
    world.settle()
    assert container(world, "plan")["image"] == "dataprep:1"


def test_a_running_job_keeps_the_values_it_began_with(world: World) -> None:
    profile(world, "default", workers={"image": "team:1"})
    world.running()
    world.cluster.change("dataprepprofiles", "default", {"spec": {"workers": {"image": "team:2"}}})
    world.restart()
    world.converted()
    world.settle()
    assert container(world, "commit-1")["image"] == "team:1"

    world.cluster.remove("dataprepprofiles", NAMESPACE, "default")
    world.fail("commit-1", "PodFailurePolicy")
    world.pod("commit-1", world.ended(5, a_failure(Reason.NOT_PERMITTED, "no")))
    assert world.settle() == "Failed"
    retry(world)
    assert container(world, "commit-2")["image"] == "team:1"


def test_the_frozen_spec_has_the_values_and_the_profile_s_name(world: World) -> None:
    profile(world, "default", workers={"image": "team:1"})
    world.apply()
    world.settle()
    (frozen,) = [body for (plural, _, _), body in world.cluster.objects.items() if plural == "configmaps"]
    spec = json.loads(frozen["data"]["job.yaml"])["spec"]
    assert (spec["profile"], spec["workers"]) == ("default", {"image": "team:1", "parallelism": 2})


def test_a_profile_that_is_missing_is_waited_for(world: World) -> None:
    world.apply(profile="gone")
    assert world.settle() == "Pending"
    assert world.condition("Running") == ("False", "ProfileNotFound")
    assert world.message("Running") == "There is no DataPrepProfile gone in the namespace team-a."
    assert (world.created(), world.events()) == (0, ["ProfileNotFound"])

    profile(world, "gone", workers={"image": "team:1"})
    assert world.settle() == "Planning"
    assert container(world, "plan")["image"] == "team:1"


def test_waiting_for_a_profile_ends_with_the_start_deadline(world: World) -> None:
    world.apply(profile="gone", startDeadlineSeconds=60)
    world.settle()
    assert world.wait is not None
    assert world.wait <= 61
    assert world.later(61) == "Failed"
    assert world.condition("Failed") == ("True", "StartDeadlineExceeded")
    assert world.message() == "The job could not start within 60 s: There is no DataPrepProfile gone in the namespace team-a."


def test_a_wrong_store_in_a_profile_is_named(world: World) -> None:
    profile(world, "default", stores=[{"uriPrefix": "s3://", "endpoint": "${place}"}])
    world.apply()
    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "InvalidSpec")
    assert "${place}" in world.message()


def test_the_removal_of_an_output_has_the_profile_s_stores(world: World) -> None:
    profile(world, "default", stores=[{"uriPrefix": "s3://", "secretRef": {"name": "keys"}}])
    world.apply(deletionPolicy="Delete")
    assert world.succeed() == "Succeeded"
    world.cluster.remove("dataprepprofiles", NAMESPACE, "default")
    world.restart()
    world.cluster.end("dataprepjobs", NAMESPACE, "mnist")
    world.settle()
    assert {"name": "dataprep-secret-0", "secret": {"secretName": "keys", "optional": False}} in pod(world, "cleanup")["volumes"]


def test_a_profile_concerns_the_jobs_of_its_namespace_that_have_not_begun() -> None:
    cache = Cache()
    for number, (name, status) in enumerate([("new", {}), ("begun", {"startTime": "2026-01-31T12:00:00Z"})]):
        metadata = {
            "name": name,
            "namespace": "n",
            "uid": name,
            "creationTimestamp": "2026-01-31T12:00:00Z",
            "resourceVersion": str(number),
        }
        cache.put(Kind.DATAPREPJOBS, {"metadata": metadata, "spec": {}, "status": status})
    raw = {"metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "5"}, "spec": {}}

    cache.put(Kind.DATAPREPPROFILES, raw)
    assert cache.key_of(Kind.DATAPREPPROFILES, raw) is None
    assert cache.not_started("n") == [Key("n", "new")]
    assert cache.not_started("m") == []
    assert (cache.profile("n", "p"), cache.profile("m", "p")) == (raw, None)
    assert cache.uids(Kind.DATAPREPPROFILES, namespace="n") == ["u"]
    assert cache.prune(Kind.DATAPREPPROFILES, namespace="n", listed_uids=[], known_uids=["u"]) == []
    assert cache.profile("n", "p") is None
