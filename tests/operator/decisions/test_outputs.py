"""Tests of jobs with the same output: the outputs that count as the same location, and how the second job waits."""

from datetime import timedelta
from typing import Any

import pytest
from tests.builders.watched import running_message
from tests.operator.world import NAMESPACE, World, a_failure, retry

from dataprep_api.reasons import Reason
from dataprep_operator.cluster.cluster import Body
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.objects.observed import Key
from dataprep_operator.objects.outputs import place_of


def a_spec(uri: str, **rest: Any) -> Body:  # Any: fields of the spec
    return {"output": {"uri": uri}, **rest}


def place(spec: Body, namespace: str = "a", profile: Body | None = None) -> str | None:
    return place_of({"metadata": {"namespace": namespace}, "spec": spec}, {"spec": profile} if profile is not None else None)


def at(endpoint: str, prefix: str = "s3://") -> Body:
    return {"stores": [{"uriPrefix": prefix, "endpoint": endpoint}]}


def mounted(volume: Body, path: str = "/data", **mount: str) -> Body:
    return {"workers": {"volumes": [{"name": "v", **volume}], "volumeMounts": [{"name": "v", "mountPath": path, **mount}]}}


def claim(name: str) -> Body:
    return {"persistentVolumeClaim": {"claimName": name}}


def second(world: World, name: str = "other", **spec: Any) -> str:  # Any: fields of the spec
    world.cluster.now += timedelta(seconds=5)
    world.apply(name, **spec)
    return world.settle(name)


# --- equal locations --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (a_spec("s3://b/x"), a_spec("S3://b//x/")),
        (a_spec("s3://b/x", **at("http://minio.store.svc:9000")), a_spec("s3://b/x", **at("minio.store.svc.cluster.local:9000"))),
        (a_spec("s3://b/x", **at("https://gate.example:443")), a_spec("s3://b/x", **at("https://GATE.example/"))),
        (
            a_spec("s3://b/x", **at("https://gate.example")),
            a_spec("s3://b/x", workers={"env": [{"name": "AWS_ENDPOINT_URL", "value": "https://gate.example"}]}),
        ),
        (a_spec("s3://b/x"), a_spec("s3://b/x", **at("https://s3.eu-central-1.amazonaws.com"))),
        (
            a_spec("oss://b/x", **at("https://oss-cn-hangzhou.aliyuncs.com", "oss://")),
            a_spec("oss://b/x", **at("oss-cn-hangzhou-internal.aliyuncs.com", "oss://")),
        ),
        (a_spec("oss://b/x"), a_spec("s3://b/x", **at("https://s3.oss-cn-hangzhou-internal.aliyuncs.com"))),
        (a_spec("/data/x", **mounted(claim("c"))), a_spec("file:///mnt/x", **mounted(claim("c"), "/mnt/"))),
        (a_spec("/data/sub/x", **mounted(claim("c"))), a_spec("/mnt/x", **mounted(claim("c"), "/mnt", subPath="sub"))),
        (a_spec("s3://b/${d}", params={"d": "x"}), a_spec("s3://b/x")),
        (a_spec("s3://b/x", params={"e": "gate"}, **at("https://${e}.example")), a_spec("s3://b/x", **at("https://gate.example"))),
    ],
    ids=[
        "spelling",
        "service",
        "port",
        "variable",
        "amazon",
        "oss, internal",
        "oss as s3",
        "claim",
        "sub path",
        "param",
        "param of the endpoint",
    ],
)
def test_one_place_under_two_names_is_one(one: Body, other: Body) -> None:
    assert place(one) == place(other) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (a_spec("s3://b/x", **at("http://minio-1.store:9000")), a_spec("s3://b/x", **at("http://minio-2.store:9000"))),
        (a_spec("s3://b/x", **at("http://minio.store:9000")), a_spec("s3://b/x", **at("http://minio.store:9001"))),
        (a_spec("s3://b/x"), a_spec("s3://b/x", **at("http://minio.store:9000"))),
        (a_spec("/data/x", **mounted(claim("c"))), a_spec("/data/x", **mounted(claim("d")))),
        (a_spec("/data/x", **mounted(claim("c"))), a_spec("/data/x", **mounted(claim("c"), subPath="sub"))),
        (a_spec("/data/x", **mounted(claim("c"))), a_spec("/data/x")),
        (
            a_spec("/data/x", **mounted({"nfs": {"server": "one", "path": "/"}})),
            a_spec("/data/x", **mounted({"nfs": {"server": "two", "path": "/"}})),
        ),
        (a_spec("/database/x", **mounted(claim("c"))), a_spec("/base/x", **mounted(claim("c"), "/"))),
    ],
    ids=["endpoint", "port", "amazon and another", "claim", "sub path", "claim and none", "server", "no mount"],
)
def test_two_places_under_one_name_are_two(one: Body, other: Body) -> None:
    assert place(one) != place(other)


@pytest.mark.parametrize(
    ("spec", "same"),
    [
        (a_spec("s3://b/x"), True),
        (a_spec("s3://b/x", **at("https://gate.example")), True),
        (a_spec("s3://b/x", **at("http://minio.store:9000")), True),
        (a_spec("/data/x", **mounted({"nfs": {"server": "nas", "path": "/"}})), True),
        (a_spec("s3://b/x", **at("http://minio:9000")), False),
        (a_spec("/data/x"), False),
        (a_spec("/data/x", **mounted(claim("c"))), False),
        (a_spec("/data/x", **mounted({"csi": {"driver": "d"}})), False),
    ],
    ids=["bucket", "host", "service with its namespace", "nfs", "service", "path", "claim", "csi"],
)
def test_what_lies_in_a_namespace_is_its_own(spec: Body, same: bool) -> None:
    assert (place(spec, "a") == place(spec, "b")) is same


def test_a_profile_says_where_a_bucket_is() -> None:
    assert place(a_spec("s3://b/x"), profile=at("https://gate.example")) == place(a_spec("s3://b/x", **at("https://gate.example")))


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"output": "s3://b"},
        {"output": {"uri": 3}},
        a_spec("s3://b/${d}"),
        a_spec("s3://b/x", **at("http://[::1")),
        a_spec("s3://b/x", **at("http://h:99999")),
    ],
    ids=["nothing", "no mapping", "no text", "no param", "no host", "no port"],
)
def test_an_output_that_says_no_place_has_none(spec: Body) -> None:
    assert place(spec) is None


@pytest.mark.parametrize(
    "broken", [None, 3, "x", [], [3], {"volumes": 3}, {"volumes": [{"name": "v", "persistentVolumeClaim": "c"}]}], ids=str
)
def test_volumes_of_any_form_are_read(broken: Any) -> None:  # Any: the test passes values of wrong types
    workers = {"volumeMounts": [{"name": "v", "mountPath": "/data"}], **broken} if isinstance(broken, dict) else broken
    assert place(a_spec("/data/x", workers=workers, stores=broken)) is not None


@pytest.mark.parametrize("path", ["//[", "http://[x", "a://b]:x/"])
def test_a_path_of_any_form_is_read(path: str) -> None:
    for mount in ({"mountPath": path}, {"mountPath": "/data", "subPath": path}):
        workers = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}], "volumeMounts": [{"name": "v", **mount}]}
        assert place(a_spec("/data/x", workers=workers)) is not None


def test_a_job_whose_volume_is_mounted_at_a_path_of_any_form_is_run(world: World) -> None:
    workers = {"volumes": [{"name": "v", "emptyDir": {}}], "volumeMounts": [{"name": "v", "mountPath": "//[x"}]}
    world.apply(workers=workers, output={"uri": "/data/x"})

    assert world.settle() == "Planning"


def test_a_profile_that_comes_later_parts_two_jobs() -> None:
    cache = Cache()
    for number, name in enumerate(("first", "second")):
        metadata = {
            "name": name,
            "namespace": "a",
            "uid": name,
            "resourceVersion": "1",
            "creationTimestamp": f"2026-01-31T12:00:0{number}Z",
        }
        spec = a_spec("s3://b/x", **({"profile": "gate"} if name == "first" else {}))
        cache.put(Kind.DATAPREPJOBS, {"metadata": metadata, "spec": spec})
    assert cache.rival_of(Key("a", "second")) == Key("a", "first")

    profile = {"metadata": {"name": "gate", "namespace": "a", "uid": "p", "resourceVersion": "2"}, "spec": at("https://gate.example")}
    cache.put(Kind.DATAPREPPROFILES, profile)
    assert cache.rival_of(Key("a", "second")) is None

    cache.drop(Kind.DATAPREPPROFILES, profile)
    assert cache.rival_of(Key("a", "second")) == Key("a", "first")


# --- the second job waits ---------------------------------------------------------------------------------------------------


def test_a_job_waits_while_another_writes_to_its_output(world: World) -> None:
    world.apply()
    world.settle()

    assert second(world) == "Pending"
    assert world.condition("Running", "other") == ("False", "OutputInUse")
    assert (
        running_message(world, "other")
        == f"Waiting for the unfinished DataPrepJob {NAMESPACE}/mnist, which writes to the same output, s3://out/mnist."
    )
    assert world.jobs() == ["plan"]

    world.plan_fails(a_failure(Reason.NO_INPUT, "nothing", 3))
    world.settle()
    assert world.settle("other") == "Planning"


def test_who_waits_is_looked_at_when_the_other_ends_or_goes(world: World) -> None:
    world.apply()
    world.settle()
    second(world)
    job = world.cluster.objects[("dataprepjobs", NAMESPACE, "mnist")]
    assert Key(NAMESPACE, "other") not in world.cache.dependents(job)

    world.plan_fails(a_failure(Reason.NO_INPUT, "nothing", 3))
    world.settle()
    job = world.cluster.objects[("dataprepjobs", NAMESPACE, "mnist")]
    assert Key(NAMESPACE, "other") in world.cache.dependents(job)

    world.cache.drop(Kind.DATAPREPJOBS, job)
    assert Key(NAMESPACE, "other") in world.cache.dependents(job)


def test_the_wait_for_an_output_ends_with_the_start_deadline(world: World) -> None:
    world.apply()
    world.settle()
    assert second(world, startDeadlineSeconds=60) == "Pending"
    assert world.wait is not None
    assert world.wait <= 61

    assert world.later(61, "other") == "Failed"
    assert world.condition("Failed", "other") == ("True", "StartDeadlineExceeded")
    assert "The job could not start within 60 s: Waiting for the unfinished DataPrepJob" in running_message(world, "other")


def test_a_retry_waits_for_the_job_that_has_the_output_now(world: World) -> None:
    world.running()
    world.fail("convert-1", "BackoffLimitExceeded")
    assert world.settle() == "Failed"
    assert second(world) == "Planning"

    world.cluster.now += timedelta(seconds=5)
    assert retry(world) == "Pending"
    assert world.condition("Running") == ("False", "OutputInUse")
    assert world.created("jobs") == 3

    world.cluster.end("dataprepjobs", NAMESPACE, "other")
    assert world.settle() == "Running"


@pytest.mark.parametrize("clock_is_behind", [0, 3])
def test_a_retry_never_stops_a_job_that_has_started(world: World, clock_is_behind: int) -> None:
    """According to the clocks, the other job was created at the time of the retry or later. The retried job also has the smaller uid."""
    world.apply(output={"uri": "s3://out/mnist"})
    world.settle()
    world.plan_fails(a_failure(Reason.NO_INPUT, "nothing", 3))
    assert world.settle() == "Failed"
    assert second(world, "other") == "Planning"
    one, other = (world.cluster.objects["dataprepjobs", NAMESPACE, name]["metadata"]["uid"] for name in ("mnist", "other"))
    assert one < other
    world.cluster.now -= timedelta(seconds=clock_is_behind)

    assert retry(world) == "Pending"
    for name in ("other", "mnist", "other"):
        assert world.settle(name) == ("Planning" if name == "other" else "Pending")
    world.edit(suspend=True)
    assert world.settle() == "Suspended"
    assert world.settle("other") == "Planning"

    world.cluster.end("dataprepjobs", NAMESPACE, "other")
    world.edit(suspend=False)
    assert world.settle() == "Planning"


def test_of_two_jobs_that_wait_for_an_output_the_older_one_goes_first(world: World) -> None:
    world.apply()
    world.settle()
    assert second(world, "younger-1") == "Pending"
    assert second(world, "younger-2") == "Pending"
    world.cluster.end("dataprepjobs", NAMESPACE, "mnist")

    assert world.settle("younger-2") == "Pending"
    assert world.settle("younger-1") == "Planning"


def test_a_job_that_runs_is_stopped_while_an_older_one_has_the_same_place(world: World) -> None:
    """After an upgrade, both jobs might be running, because they started before the new operator recognized that they write to the same
    location."""
    world.running()
    world.cluster.now += timedelta(seconds=-60)
    world.apply("older", output={"uri": "s3://out/elsewhere"})
    world.settle("older")
    world.edit("older", output={"uri": "s3://out/mnist"})

    assert world.settle() == "Pending"
    assert world.job("convert-1")["spec"]["suspend"] is True

    world.cluster.end("dataprepjobs", NAMESPACE, "older")
    assert world.settle() == "Running"
    assert world.job("convert-1")["spec"]["suspend"] is False


def test_no_job_of_another_namespace_is_named(world: World) -> None:
    stranger = {
        "metadata": {"name": "secret-project", "uid": "s"},
        "spec": {"source": {"text": {"files": ["s3://in/x"]}}, "output": {"uri": "s3://out/mnist"}},
    }
    world.cluster.add("dataprepjobs", "team-b", stranger)
    world.cluster.now += timedelta(seconds=5)
    world.apply()

    assert world.settle() == "Pending"
    assert (
        running_message(world, "mnist")
        == "Waiting for another namespace's unfinished DataPrepJob, which writes to the same output, s3://out/mnist."
    )

    world.cluster.change_in("team-b", "dataprepjobs", "secret-project", {"metadata": {"finalizers": ["dataprep.io/output"]}})
    world.cluster.end("dataprepjobs", "team-b", "secret-project")
    assert world.settle() == "Pending"
    assert running_message(world, "mnist") == "Waiting for another namespace's deleted DataPrepJob, which removes s3://out/mnist."


# --- cycles -----------------------------------------------------------------------------------------------------------------


def test_a_job_that_waits_for_another_leaves_it_their_output(world: World) -> None:
    world.apply("follows", runAfter=["mnist"])
    world.settle("follows")
    assert second(world, "mnist") == "Planning"
    assert world.settle("follows") == "Pending"
    assert world.condition("Running", "follows") == ("False", "WaitingForJob")


def test_waits_for_an_output_count_in_circles(world: World) -> None:
    world.apply("a", output={"uri": "s3://out/1"}, runAfter=["b"])
    world.apply("c", output={"uri": "s3://out/2"}, runAfter=["d"])
    world.cluster.now += timedelta(seconds=5)
    world.apply("b", output={"uri": "s3://out/2"})
    world.apply("d", output={"uri": "s3://out/1"})

    assert world.settle("a") == "Failed"
    assert world.condition("Failed", "a") == ("True", "CircularWait")
    assert running_message(world, "a") == "These jobs wait for each other: a → b → c → d → a."


# --- jobs of earlier releases -----------------------------------------------------------------------------------------------


def a_stored_failure(world: World) -> None:
    """Store a job that has failed because another job has the same output. Earlier releases made such jobs fail."""
    world.apply("mnist")
    world.settle()
    said = "s3://out/mnist is written by the unfinished DataPrepJob team-a/mnist."
    now = "2026-01-31T12:00:00Z"
    stored = [
        {"type": kind, "status": value, "reason": "OutputInUse", "message": said, "lastTransitionTime": now}
        for kind, value in (("Running", "False"), ("Failed", "True"))
    ]
    failures = [{"reason": "OutputInUse", "message": said, "step": "Plan", "at": now, "count": 1}]
    status = {"phase": "Failed", "attempt": 1, "step": "Plan", "completionTime": now, "conditions": stored, "failures": failures}
    world.cluster.now += timedelta(seconds=5)
    world.apply("other")
    world.cluster.change("dataprepjobs", "other", {"status": status})


def test_a_job_that_an_earlier_release_failed_stays_failed(world: World) -> None:
    a_stored_failure(world)
    before = world.status("other")

    assert world.settle("other") == "Failed"
    assert world.status("other").items() >= {key: before[key] for key in ("phase", "completionTime", "failures")}.items()
    assert world.condition("Stalled", "other") == ("True", "OutputInUse")


def test_a_retry_of_a_job_that_an_earlier_release_failed_waits(world: World) -> None:
    a_stored_failure(world)
    world.edit("other", annotations={"dataprep.io/retry": "1"})

    assert world.settle("other") == "Pending"
    assert world.condition("Running", "other") == ("False", "OutputInUse")
