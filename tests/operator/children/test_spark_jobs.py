"""The objects of a Spark cluster: one Indexed Job, its Service and its Secret."""

from dataclasses import replace
from typing import Any

import pytest
from tests.builders.children import DEFAULTS, a_job, a_spec, container_of, exit_rules

from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.children import jobs, privileges, spark_jobs
from dataprep_operator.children.pod_template import memory_limit
from dataprep_operator.objects.child_jobs import ANNOTATION_LEAST, QUEUE_LABEL
from dataprep_operator.objects.observed import Observed
from dataprep_operator.settings import Allowed, PodDefaults

ON_SPARK = replace(DEFAULTS, spark_image="dataprep-spark:1", resources={"requests": {"cpu": "250m", "ephemeral-storage": "9Gi"}})
EXECUTOR = {"instances": 3, "cores": 2, "memory": "4g", "memoryOverhead": "1g"}
TABLE = {"parquet": {"uris": ["s3://in/a/"]}}
JOIN = {"join": {"keys": ["id"], "tables": [{"name": "a", "source": TABLE}, {"name": "b", "source": TABLE}]}}


def spark_spec(spark: dict[str, Any] | None = None, **rest: Any) -> DataPrepJobSpec:  # Any: a spec parsed from YAML
    return a_spec(source=JOIN, engine={"spark": {"executor": EXECUTOR} | (spark or {})}, **rest)


def spark_job(spec: DataPrepJobSpec | None = None, *, seen: Observed | None = None, **rest: Any) -> Any:  # Any: JSON
    given: dict[str, Any] = {"attempt": 1, "defaults": ON_SPARK} | rest
    return jobs.plan_job(seen or a_job(), spec or spark_spec(), **given)


def test_one_pod_is_the_master_and_the_driver_and_the_others_are_executors() -> None:
    body = spark_job()["spec"]

    assert (body["completionMode"], body["completions"], body["parallelism"]) == ("Indexed", 4, 4)


def test_the_job_succeeds_with_its_driver_and_fails_with_any_index() -> None:
    body = spark_job()["spec"]

    assert body["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}
    assert body["maxFailedIndexes"] == 0
    assert body["backoffLimitPerIndex"] == 3
    assert exit_rules({"spec": body})["FailJob"] == exit_rules(jobs.plan_job(a_job(), a_spec(), attempt=1, defaults=ON_SPARK))["FailJob"]


def test_the_pods_find_the_master_by_its_name() -> None:
    body, service = spark_job(), spark_jobs.network(a_job(), attempt=1).service

    arguments = container_of(body)["args"]
    assert arguments[0] == "spark-plan"
    assert arguments[arguments.index("--master") + 1] == "spark://mnist-0f1e2d3c00-plan-0.spark-mnist-0f1e2d3c00-1.team-a.svc:7077"
    assert body["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True


def test_the_service_selects_the_pods_of_its_attempt_only() -> None:
    selector = spark_jobs.network(a_job(), attempt=2).service["spec"]["selector"]

    def labels_of(body: Any) -> Any:  # Any: JSON
        return body["spec"]["template"]["metadata"]["labels"].items()

    assert selector.items() <= labels_of(spark_job(attempt=2))
    assert not selector.items() <= labels_of(spark_job(attempt=1))
    assert not selector.items() <= labels_of(jobs.plan_job(a_job(), a_spec(), attempt=2, defaults=ON_SPARK))


@pytest.mark.parametrize("name", ["mnist", "1-job", "x" * 253])
def test_the_name_of_the_service_is_a_label_of_dns(name: str) -> None:
    service = spark_jobs.network(a_job(name), attempt=10).service["metadata"]["name"]

    assert service[0].isalpha()
    assert len(service) <= 63


def test_the_service_and_the_secret_are_deleted_with_the_job() -> None:
    network = spark_jobs.network(a_job(), attempt=1)

    for body in (network.service, network.secret):
        assert body["metadata"]["ownerReferences"][0]["uid"] == a_job().uid
        assert body["metadata"]["namespace"] == "team-a"


def test_the_secret_is_in_a_file_of_the_pods_and_nowhere_else() -> None:
    secret = spark_jobs.secret_of(spark_jobs.network(a_job(), attempt=1), suffix="ab12", secret="s3cret")
    body = spark_jobs.with_secret(spark_job(), secret["metadata"]["name"])

    assert secret["stringData"] == {"secret": "s3cret"}
    assert secret["immutable"] is True
    assert secret["metadata"]["name"] == "spark-mnist-0f1e2d3c00-1-ab12"
    (volume,) = [each for each in body["spec"]["template"]["spec"]["volumes"] if each["name"] == "dataprep-spark"]
    assert volume["secret"] == {"secretName": "spark-mnist-0f1e2d3c00-1-ab12", "optional": False, "defaultMode": 0o440}
    container = container_of(body)
    assert {"name": "dataprep-spark", "mountPath": "/etc/dataprep/spark", "readOnly": True} in container["volumeMounts"]
    assert container["args"][-2:] == ["--secret-file", "/etc/dataprep/spark/secret"]
    assert "s3cret" not in str(body)


def test_a_pod_of_spark_meets_the_restricted_standard_and_has_no_token_of_the_api() -> None:
    pod = spark_job()["spec"]["template"]["spec"]

    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert all("hostPort" not in port for port in pod["containers"][0]["ports"])


@pytest.mark.parametrize(
    ("spark", "mebibytes"),
    [
        pytest.param({}, 448 + 5120, id="executors"),
        pytest.param({"driver": {"memory": "6g"}}, 448 + 7168, id="a larger driver"),
    ],
)
def test_all_pods_have_the_size_of_the_larger_one(spark: dict[str, Any], mebibytes: int) -> None:
    resources = container_of(spark_job(spark_spec(spark)))["resources"]

    memory = str(mebibytes << 20)
    assert resources == {"requests": {"cpu": "2", "memory": memory, "ephemeral-storage": "9Gi"}, "limits": {"memory": memory}}


def test_the_resources_of_other_pods_are_not_those_of_spark() -> None:
    own = {"requests": {"cpu": "100m"}, "limits": {"cpu": "150m", "memory": "1Gi", "ephemeral-storage": "20Gi"}}
    spec = spark_spec(workers={"resources": own}, planning={"resources": {"limits": {"memory": "2Gi"}}})

    assert container_of(spark_job(spec))["resources"]["limits"] == {"memory": str((448 + 5120) << 20), "ephemeral-storage": "20Gi"}
    commit = jobs.commit_job(a_job(), spec, run_id="r", plan_sha256="0" * 64, attempt=1, defaults=ON_SPARK)
    assert container_of(commit)["resources"] == {"limits": {"memory": "2Gi"}}


def test_memory_that_was_raised_is_the_pods() -> None:
    resources = container_of(spark_job(memory="9Gi"))["resources"]

    assert (resources["requests"]["memory"], resources["limits"]["memory"]) == ("9Gi", "9Gi")
    assert memory_limit(spark_spec(), ON_SPARK, step="plan") == (448 + 5120) << 20


@pytest.mark.parametrize(
    ("spark", "workers", "image", "policy"),
    [
        pytest.param({}, {}, "dataprep-spark:1", "Always", id="the installation's"),
        pytest.param({"image": "own:1"}, {}, "own:1", None, id="the job's"),
        pytest.param({"image": "own:1"}, {"imagePullPolicy": "Never"}, "own:1", "Never", id="the job's policy"),
        pytest.param({}, {"image": "converter:1"}, "dataprep-spark:1", "Always", id="not the converter's"),
    ],
)
def test_the_image_is_spark_s(spark: dict[str, Any], workers: dict[str, Any], image: str, policy: str | None) -> None:
    body = spark_job(spark_spec(spark, workers=workers), defaults=replace(ON_SPARK, image_pull_policy="Always"))

    assert container_of(body)["image"] == image
    assert container_of(body).get("imagePullPolicy") == policy


def test_without_the_chart_s_value_there_is_no_engine() -> None:
    assert spark_jobs.fault(spark_spec(), ON_SPARK) is None
    assert spark_jobs.fault(a_spec(), PodDefaults()) is None
    assert spark_jobs.fault(spark_spec(), PodDefaults()) == (
        "spec.engine.spark: this installation of the operator doesn't create Spark clusters (spark.enabled of the chart)"
    )


def test_the_image_is_one_that_the_installation_allows() -> None:
    defaults = replace(ON_SPARK, allowed=Allowed(images=("registry.example/",)))

    assert privileges.fault(spark_spec(), defaults) is None
    assert privileges.fault(spark_spec({"image": "registry.example/spark:1"}), defaults) is None
    assert str(privileges.fault(spark_spec({"image": "other:1"}), defaults)).startswith("spec.engine.spark.image: 'other:1' is not allowed")


def test_a_queue_admits_all_pods_or_none() -> None:
    annotations = {ANNOTATION_LEAST: "1", "kueue.x-k8s.io/other": "a"}
    body = spark_job(seen=a_job(queue="research", queue_labels={QUEUE_LABEL: "research"}, queue_annotations=annotations))

    assert body["metadata"]["labels"][QUEUE_LABEL] == "research"
    assert body["spec"]["suspend"] is True
    assert ANNOTATION_LEAST not in body["metadata"]["annotations"]
    assert body["metadata"]["annotations"]["kueue.x-k8s.io/other"] == "a"


def test_a_spark_cluster_never_asks_for_a_scan_or_does_the_other_steps() -> None:
    variables = {each["name"] for each in container_of(spark_job())["env"]}

    assert "DATAPREP_TWO_ROUNDS" in variables
    assert not variables & {"DATAPREP_MAY_SCAN", "DATAPREP_ONE_POD"}
    assert "DATAPREP_TWO_ROUNDS" not in {each["name"] for each in container_of(spark_job(may_divide=False))["env"]}
