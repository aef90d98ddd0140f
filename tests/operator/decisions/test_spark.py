"""A job on Spark from its creation to its end: its plan step has a cluster, and the other steps have none."""

from typing import Any

import pytest
from tests.operator.world import NAMESPACE, World, a_failure, a_plan, retry

from dataprep_api.reasons import Reason
from dataprep_operator.cluster.cluster import Body
from dataprep_operator.errors import Refused
from dataprep_operator.objects.child_jobs import QUEUE_LABEL
from dataprep_operator.settings import PodDefaults

TABLE = {"parquet": {"uris": ["s3://in/a/"]}}
SPEC: Body = {
    "source": {"join": {"keys": ["id"], "tables": [{"name": "a", "source": TABLE}, {"name": "b", "source": TABLE}]}},
    "engine": {"spark": {"executor": {"instances": 2, "cores": 2, "memory": "4g", "memoryOverhead": "1g"}}},
}
POD_MEBIBYTES = 448 + 5120
ON_SPARK = PodDefaults(image="dataprep:1", spark_image="dataprep-spark:1", status_url="http://status:8080")


@pytest.fixture
def world() -> World:
    return World(pods=ON_SPARK)


def names_of(world: World, plural: str) -> list[str]:
    return [name for each, _, name in world.cluster.objects if each == plural]


def mounted(world: World, suffix: str = "plan") -> str:
    """Return the name of the Secret that the pods mount."""
    volumes = world.job(suffix)["spec"]["template"]["spec"]["volumes"]
    return next(str(each["secret"]["secretName"]) for each in volumes if each["name"] == "dataprep-spark")


def test_only_the_plan_step_is_a_cluster(world: World) -> None:
    world.apply(**SPEC)
    assert world.settle() == "Planning"
    assert world.job("plan")["spec"]["completions"] == 3
    world.committing()
    world.committed()
    assert world.settle() == "Succeeded"

    assert world.jobs() == ["commit-1", "convert-1", "plan"]
    assert world.created("services") == world.created("secrets") == 1
    for step in ("convert-1", "commit-1"):
        assert world.job(step)["spec"]["template"]["spec"]["containers"][0]["image"] == "dataprep:1"


def test_the_service_and_the_secret_are_there_before_the_job(world: World) -> None:
    world.apply(**SPEC)
    world.settle()

    order = [plural for verb, plural, _ in world.cluster.calls if verb == "create" and plural in ("services", "secrets", "jobs")]
    assert order == ["services", "secrets", "jobs"]
    assert names_of(world, "secrets") == [mounted(world)]
    secret = world.cluster.objects["secrets", NAMESPACE, mounted(world)]
    assert len(secret["stringData"]["secret"]) >= 43  # 256 bits


def test_no_two_clusters_have_the_same_secret() -> None:
    secrets = []
    for _ in range(2):
        world = World(pods=ON_SPARK)
        world.apply(**SPEC)
        world.settle()
        secrets.append(world.cluster.objects["secrets", NAMESPACE, mounted(world)]["stringData"]["secret"])

    assert secrets[0] != secrets[1]


def test_the_operator_never_reads_a_secret(world: World) -> None:
    world.apply(**SPEC)
    world.settle()
    world.restart()
    world.settle()
    world.committing()

    assert {verb for verb, plural, _ in world.cluster.calls if plural == "secrets"} == {"create"}


def test_a_new_operator_finishes_what_another_one_began(world: World) -> None:
    """The first operator dies after it has created the Secret. This Secret remains, but no Job uses it."""
    world.cluster.refusals[("create", "jobs")] = Refused("not now")
    world.apply(**SPEC)
    world.settle()
    del world.cluster.refusals[("create", "jobs")]
    earlier = names_of(world, "secrets")
    world.restart()
    assert world.settle() == "Planning"

    assert len(names_of(world, "services")) == 1
    assert mounted(world) not in earlier
    assert mounted(world) in names_of(world, "secrets")


def test_everything_goes_with_the_job(world: World) -> None:
    world.apply(**SPEC)
    world.settle()
    world.cluster.end("dataprepjobs", NAMESPACE, "mnist")

    assert names_of(world, "services") == names_of(world, "secrets") == names_of(world, "jobs") == []


def test_the_next_step_begins_as_soon_as_the_driver_has_reported_its_plan(world: World) -> None:
    world.apply(**SPEC)
    world.settle()
    for index in (1, 2):
        world.pod("plan", world.scheduled(phase="Running"), index=index)
    world.pod("plan", world.ended(0, a_plan()), index=0)

    assert world.settle() == "Running"
    assert world.jobs() == ["convert-1", "plan"]


def test_workers_that_are_stopped_at_the_end_are_no_failures(world: World) -> None:
    world.apply(**SPEC)
    world.settle()
    world.pod("plan", world.ended(0, a_plan()), index=0)
    due = "2026-01-31T12:00:30Z"
    world.pod("plan", world.ended(143), index=1, metadata={"deletionTimestamp": due, "finalizers": ["batch.kubernetes.io/job-tracking"]})
    world.complete("plan", completedIndexes="0")

    assert world.settle() == "Running"
    assert world.status().get("failures", []) == []


def test_the_sentence_of_the_driver_is_the_job_s(world: World) -> None:
    world.apply(**SPEC)
    world.settle()
    failure = a_failure(Reason.INVALID_SPEC, "This Java is too old for Spark.", exit_code=2)
    pod = world.pod("plan", world.ended(2, failure), index=0)
    world.fail("plan", "PodFailurePolicy", f"Container dataprep for pod {NAMESPACE}/{pod['metadata']['name']} failed with exit code 2")

    assert world.settle() == "Failed"
    assert world.message() == "This Java is too old for Spark."


@pytest.mark.parametrize(("index", "field"), [(0, "driver"), (1, "executor")])
def test_a_pod_with_too_little_memory_names_its_field(world: World, index: int, field: str) -> None:
    world.apply(**SPEC)
    world.settle()
    world.pod("plan", world.ended(137, reason="OOMKilled"), index=index)
    world.fail("plan", "MaxFailedIndexesExceeded")

    assert world.settle() == "Failed"
    assert world.message().endswith(f"raise engine.spark.{field}.memoryOverhead.")


def test_a_cluster_without_a_worker_says_why(world: World) -> None:
    """The driver has started, and waits for a worker."""
    world.apply(**SPEC)
    world.settle()
    world.pod("plan", world.scheduled(phase="Running"), index=0)
    for index in (1, 2):
        world.pod("plan", world.unschedulable("0/3 nodes are available: 3 Insufficient memory."), index=index)
    world.settle()
    assert world.condition("Ready")[1] == "Unschedulable"
    assert "3 Insufficient memory" in world.message("Ready")

    world.pod("plan", world.scheduled(phase="Running"), index=1)
    assert world.settle() == "Planning"
    assert world.condition("Ready")[1] != "Unschedulable"


def test_a_retry_has_its_own_service_and_secret(world: World) -> None:
    world.apply(**SPEC)
    world.settle()
    first = mounted(world)
    world.fail("plan", "BackoffLimitExceeded")
    assert world.settle() == "Failed"
    assert retry(world) == "Planning"

    assert mounted(world, "plan-2") != first
    assert world.job("plan-2")["spec"]["template"]["spec"]["subdomain"] in names_of(world, "services")
    assert len(names_of(world, "services")) == 2


def test_an_installation_without_spark_says_so() -> None:
    world = World()
    world.apply(**SPEC)

    assert world.settle() == "Failed"
    assert world.message() == (
        "spec.engine.spark: this installation of the operator doesn't create Spark clusters (spark.enabled of the chart)"
    )
    assert world.created("secrets") == 0


# --- in a queue ---------------------------------------------------------------------------------------------------------


def test_without_a_queue_job_the_cluster_itself_waits_in_the_queue(world: World) -> None:
    world.apply(labels={QUEUE_LABEL: "research"}, **SPEC)

    assert world.settle() == "Queued"
    job = world.job("plan")
    assert (job["metadata"]["labels"][QUEUE_LABEL], job["spec"]["suspend"]) == ("research", True)


def requests_of(world: World, suffix: str) -> tuple[int, int, int]:
    """Return the number of pods that a queue Job asks for, and their total of processors (in thousandths) and memory (in MiB)."""
    spec: Any = world.job(suffix)["spec"]
    requests = spec["template"]["spec"]["containers"][0]["resources"]["requests"]
    pods = spec["parallelism"]
    return pods, pods * int(requests["cpu"].removesuffix("m")), pods * int(requests["memory"]) >> 20


@pytest.mark.parametrize("parallelism", [1, 2, 6])
def test_one_workload_has_the_quota_of_all_pods_of_the_cluster(parallelism: int) -> None:
    world = World(pods=ON_SPARK, kueue=True)
    world.apply(labels={QUEUE_LABEL: "research"}, workers={"parallelism": parallelism}, **SPEC)
    assert world.settle() == "Queued"

    assert world.jobs() == ["queue-1"]
    pods, cores, mebibytes = requests_of(world, "queue-1")
    assert pods == parallelism
    assert cores >= 3 * 2000
    assert 3 * POD_MEBIBYTES <= mebibytes <= 3 * POD_MEBIBYTES + parallelism
    world.cluster.change("jobs", world.job("queue-1")["metadata"]["name"], {"spec": {"suspend": False}})
    assert world.settle() == "Planning"
    plan = world.job("plan")
    assert (plan["spec"]["parallelism"], plan["spec"]["suspend"], QUEUE_LABEL in plan["metadata"]["labels"]) == (3, False, False)


def test_a_cluster_is_stopped_and_begins_again_with_its_queue_job() -> None:
    world = World(pods=ON_SPARK, kueue=True)
    world.apply(labels={QUEUE_LABEL: "research"}, **SPEC)
    world.settle()
    queue = world.job("queue-1")["metadata"]["name"]
    world.cluster.change("jobs", queue, {"spec": {"suspend": False}})
    world.settle()
    secret = mounted(world)
    world.cluster.change("jobs", queue, {"spec": {"suspend": True}})
    assert world.settle() == "Queued"
    assert world.job("plan")["spec"]["suspend"] is True
    world.cluster.change("jobs", queue, {"spec": {"suspend": False}})

    assert world.settle() == "Planning"
    assert world.job("plan")["spec"]["suspend"] is False
    assert mounted(world) == secret
