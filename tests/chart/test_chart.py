"""Tests of the objects that the chart renders (rights, probes, security, scope) and of the values that it refuses, without a cluster."""

import functools
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from dataprep_api.generate import crd
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.resources.status import DataPrepJobStatus
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator import settings
from dataprep_operator.children import jobs, spark_jobs
from dataprep_operator.leadership import scope
from dataprep_operator.objects.observed import Key, Observed
from kubecluster import binaries

pytestmark = pytest.mark.slow
"""Helm is built from its Go module, once per machine."""

CHART = Path(__file__).parents[2] / "charts" / "dataprep-operator"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML's C loader, if it is available. It takes a sixth of the time that the Python loader takes."""
WITHOUT_CRDS: dict[str, object] = {"crds": {"install": False}}
Objects = Sequence[dict[str, Any]]  # Any: Kubernetes objects as Helm renders them.
Render = Callable[..., Objects]


@pytest.fixture(scope="session")
def helm() -> Path:
    """Return the path of Helm, which is built if it doesn't exist yet."""
    return binaries.built("helm")


def run(helm: Path, *words: str | Path, values: Mapping[str, object] | None = None) -> subprocess.CompletedProcess[str]:
    command = [helm, *words, "--values=-"]
    return subprocess.run(command, input=json.dumps(values or {}), capture_output=True, text=True, check=False, timeout=60)


@functools.cache
def template_output(helm: Path, values: str) -> str:
    """Return the objects that the chart renders, as YAML. `values` is JSON."""
    done = run(helm, "template", "dp", str(CHART), "--namespace=dataprep", values=json.loads(values))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def render(helm: Path) -> Render:
    """Return a function that renders the chart with some values into objects. By default it omits hooks, and also CRDs,
    which make up nine tenths of the text.
    """

    def template(values: Mapping[str, object] | None = None, *, hooks: bool = False) -> Objects:
        objects = [each for each in yaml.load_all(template_output(helm, json.dumps(WITHOUT_CRDS | dict(values or {}))), LOADER) if each]
        return [each for each in objects if hooks or "helm.sh/hook" not in each["metadata"].get("annotations", {})]

    return template


def of_kind(objects: Objects, *kinds: str) -> list[dict[str, Any]]:
    return [each for each in objects if each["kind"] in kinds]


def the(objects: Objects, kind: str) -> dict[str, Any]:
    (found,) = of_kind(objects, kind)
    return found


def environment(objects: Objects) -> dict[str, str]:
    container, *_ = the(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry.get("value", "") for entry in container["env"]}


def pods_of(objects: Objects) -> list[dict[str, Any]]:
    """Return the pods of the release: the operator's pods and the pod of `helm test`."""
    return [the(objects, "Deployment")["spec"]["template"]["spec"], the(objects, "Pod")["spec"]]


TABLE = {"parquet": {"uris": ["s3://in/a/"]}}
ON_SPARK: dict[str, object] = {
    "source": {"join": {"keys": ["id"], "tables": [{"name": "a", "source": TABLE}, {"name": "b", "source": TABLE}]}},
    "engine": {"spark": {"executor": {"instances": 1, "cores": 1, "memory": "1g"}}},
}


def worker_pods(defaults: settings.PodDefaults) -> list[dict[str, Any]]:
    """Return the pods of every step, for all kinds of jobs that don't set an image."""
    uid = "0f1e2d3c-0000-0000-0000-000000000000"
    status = DataPrepJobStatus()
    seen = Observed(key=Key("team-a", "m"), uid=uid, version="1", generation=1, status=status, spec=None, raw_spec={})
    idx: dict[str, object] = {"source": {"idx": {"subsets": [{"name": "train", "images": "s3://in/a"}]}}}
    code: dict[str, object] = {"code": {"git": {"url": "https://git.example/code.git"}}}
    scripts: list[dict[str, object]] = [
        {"script": {"input": "s3://in/", "framework": name, "command": ["python", "make.py"], "outputs": ["*.tfrecords"]}}
        for name in defaults.frameworks
    ]
    bodies: list[Any] = []  # Any: JSON
    for rest in [idx, idx | code, *scripts, *([ON_SPARK] if defaults.spark_image is not None else [])]:
        spec = a_spec(rest)
        bodies += [
            jobs.plan_job(seen, spec, attempt=1, defaults=defaults),
            jobs.convert_job(
                seen, spec, run_id="r", plan_sha256="0", tasks=1, only=[], attempt=1, gpu=False, memory=None, defaults=defaults
            ),
            jobs.commit_job(seen, spec, run_id="r", plan_sha256="0", attempt=1, defaults=defaults),
            jobs.cleanup_job(seen, spec, runs=["r"], defaults=defaults),
        ]
    return [job["spec"]["template"]["spec"] for job in bodies]


def worker_labels() -> dict[str, str]:
    """Return the labels of the pods of a Spark cluster."""
    defaults = settings.PodDefaults(spark_image="spark:1")
    seen = Observed(key=Key("team-a", "m"), uid="u" * 36, version="1", generation=1, status=DataPrepJobStatus(), spec=None, raw_spec={})
    labels: dict[str, str] = jobs.plan_job(seen, a_spec(ON_SPARK), attempt=1, defaults=defaults)["spec"]["template"]["metadata"]["labels"]
    return labels


def a_spec(rest: Mapping[str, object]) -> DataPrepJobSpec:
    spec = {"output": {"uri": "s3://out/x"}, **rest}
    return DataPrepJob.parse({"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "m"}, "spec": spec}).spec


def images_of(pods: Sequence[dict[str, Any]]) -> set[str]:
    return {container["image"] for pod in pods for container in [*pod.get("initContainers", []), *pod["containers"]]}


def listed_images(objects: Objects) -> list[str]:
    (found,) = [each for each in of_kind(objects, "ConfigMap") if each["metadata"]["name"].endswith("-images")]
    return str(found["data"]["images.txt"]).split()


NAMESPACED = WITHOUT_CRDS | {"namespaces": ["team-a", "team-b"]}


def test_lint_finds_nothing(helm: Path) -> None:
    for values in ({}, NAMESPACED, {"serviceMonitor": {"enabled": True}, "replicas": 1}):
        done = run(helm, "lint", "--strict", CHART, values=values)

        assert done.returncode == 0, done.stdout
        assert "[WARNING]" not in done.stdout


# --- rights ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [{}, NAMESPACED], ids=["cluster", "namespaced"])
def test_no_role_reaches_secrets_or_asks_for_everything(render: Render, values: Mapping[str, object]) -> None:
    for role in of_kind(render(values), "Role", "ClusterRole"):
        for rule in role["rules"]:
            asked = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
            assert not asked & {"*", "secrets", "nodes", "tokenreviews", "escalate", "bind", "impersonate"}, role["metadata"]["name"]


def test_with_namespaces_there_is_not_one_object_of_the_cluster_s_scope(render: Render) -> None:
    objects = render(NAMESPACED)
    roles = of_kind(objects, "Role", "RoleBinding")

    assert {each["metadata"]["namespace"] for each in objects} == {"dataprep", "team-a", "team-b"}
    assert of_kind(objects, "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition") == []
    assert sorted(role["metadata"]["namespace"] for role in roles if role["metadata"]["name"] == "dp-dataprep-operator") == [
        "team-a", "team-a", "team-b", "team-b",
    ]  # fmt: skip
    assert environment(objects)["DATAPREP_NAMESPACES"] == "team-a,team-b"


def test_the_rights_are_the_same_in_both_scopes(render: Render) -> None:
    whole = next(role for role in of_kind(render(), "ClusterRole") if role["metadata"]["name"] == "dp-dataprep-operator")
    parts = [role for role in of_kind(render(NAMESPACED), "Role") if role["metadata"]["namespace"] != "dataprep"]

    assert [part["rules"] for part in parts] == [whole["rules"]] * 2


def test_the_lease_is_reached_in_the_operator_s_own_namespace_and_by_name(render: Render) -> None:
    objects = render(NAMESPACED)
    role = next(role for role in of_kind(objects, "Role") if role["metadata"]["name"].endswith("-leader"))
    named = role["rules"][1]

    assert role["metadata"]["namespace"] == "dataprep"
    assert named["resourceNames"] == [environment(objects)["DATAPREP_LEASE_NAME"]]


@pytest.mark.parametrize("operator_class", ["", "blue"])
def test_the_marker_of_a_release_is_reached_by_name(render: Render, operator_class: str) -> None:
    role = next(
        role
        for role in of_kind(render({"operatorClass": operator_class}), "ClusterRole")
        if role["metadata"]["name"] == "dp-dataprep-operator"
    )
    named = [rule for rule in role["rules"] if rule["resources"] == ["leases"] and rule["verbs"] != ["create"]]

    assert [rule["resourceNames"] for rule in named] == [[scope.marker(operator_class)]]


def test_every_right_is_in_the_documentation(render: Render) -> None:
    page = (CHART.parents[1] / "docs" / "rights.md").read_text()

    values = {"kueue": {"enabled": True}, "spark": {"enabled": True}, "metrics": {"authentication": True}}
    for role in of_kind(render(values), "Role", "ClusterRole"):
        for rule in role["rules"]:
            for resource in rule.get("resources", []):
                line = next((line for line in page.splitlines() if f"| `{resource}` |" in line), "")
                assert line, f"{resource} has no row"
                if not role["metadata"]["name"].endswith(("-edit", "-view")):
                    assert all(verb in line.split("|")[3] for verb in rule["verbs"]), line


def test_workloads_are_read_only_where_kueue_is(render: Render) -> None:
    def groups(values: Mapping[str, object]) -> set[str]:
        roles = of_kind(render(NAMESPACED | dict(values)), "Role")
        return {group for role in roles for rule in role["rules"] for group in rule["apiGroups"] if "kueue" in group}

    assert groups({}) == set()
    assert groups({"kueue": {"enabled": True}}) == {"kueue.x-k8s.io", "visibility.kueue.x-k8s.io"}


def test_secrets_are_created_only_where_spark_is_and_never_read(render: Render) -> None:
    def verbs(values: Mapping[str, object]) -> list[list[str]]:
        roles = of_kind(render(NAMESPACED | dict(values)), "Role")
        return [rule["verbs"] for role in roles for rule in role["rules"] if "secrets" in rule["resources"]]

    assert verbs({}) == []
    assert verbs({"spark": {"enabled": True}}) == [["create"], ["create"]]


def test_only_the_pods_of_spark_clusters_may_reach_each_other(render: Render) -> None:
    network = {"networkPolicy": {"workers": {"enabled": True}}}

    def policies(values: Mapping[str, object]) -> dict[str, Any]:
        found = of_kind(render(NAMESPACED | network | dict(values)), "NetworkPolicy")
        return {each["metadata"]["namespace"]: each["spec"] for each in found if each["metadata"]["name"].endswith("-spark")}

    found = policies({"spark": {"enabled": True}})
    assert policies({}) == {}
    assert found.keys() == {"team-a", "team-b"}
    peers = {"podSelector": found["team-a"]["podSelector"]}
    ports = [{"port": port} for port in spark_jobs.PORTS.values()]
    assert found["team-a"]["ingress"] == [{"from": [peers], "ports": ports}]
    assert found["team-a"]["egress"] == [{"to": [peers], "ports": ports}]
    labels = worker_labels()
    assert found["team-a"]["podSelector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("values", [{}, NAMESPACED], ids=["cluster", "namespaced"])
def test_reviews_may_be_asked_for_only_where_metrics_need_a_token(render: Render, values: Mapping[str, object]) -> None:
    objects = render(dict(values) | {"metrics": {"authentication": True}, "serviceMonitor": {"enabled": True}})
    role = next(each for each in of_kind(objects, "ClusterRole") if each["metadata"]["name"] == "dp-dataprep-operator-reviews")
    binding = next(each for each in of_kind(objects, "ClusterRoleBinding") if each["metadata"]["name"] == role["metadata"]["name"])

    assert [(rule["resources"], rule["verbs"]) for rule in role["rules"]] == [
        (["tokenreviews"], ["create"]),
        (["subjectaccessreviews"], ["create"]),
    ]
    assert [subject["name"] for subject in binding["subjects"]] == ["dp-dataprep-operator"]
    assert environment(objects)["DATAPREP_METRICS_AUTHENTICATION"] == "true"
    assert (
        the(objects, "ServiceMonitor")["spec"]["endpoints"][0]["bearerTokenFile"] == "/var/run/secrets/kubernetes.io/serviceaccount/token"
    )
    reader = next(each for each in of_kind(objects, "ClusterRole") if each["metadata"]["name"].endswith("-metrics-reader"))
    assert reader["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    assert environment(render(values))["DATAPREP_METRICS_AUTHENTICATION"] == "false"


def test_without_rbac_no_role_is_made(render: Render) -> None:
    values = {"rbac": {"create": False}, "metrics": {"authentication": True}}
    assert of_kind(render(values), "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding") == []


def test_the_cluster_s_own_roles_may_reach_jobs_unless_told_otherwise(render: Render) -> None:
    def names(values: Mapping[str, object]) -> list[str]:
        return sorted(role["metadata"]["name"] for role in of_kind(render(values), "ClusterRole"))

    assert names({}) == ["dp-dataprep-operator", "dp-dataprep-operator-edit", "dp-dataprep-operator-view"]
    assert names({"rbac": {"aggregate": False}}) == ["dp-dataprep-operator"]


# --- pods -----------------------------------------------------------------------------------------------------------------


def test_every_pod_of_the_release_is_restricted(render: Render) -> None:
    objects = render(hooks=True)
    specs = [the(objects, "Deployment")["spec"]["template"]["spec"], the(objects, "Pod")["spec"]]

    for spec in specs:
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["enableServiceLinks"] is False
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]


def test_the_operator_is_probed_and_has_a_place_to_write(render: Render) -> None:
    spec = the(render(), "Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]

    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    assert container["ports"] == [{"name": "http", "containerPort": 8080}]
    assert {"name": "tmp", "emptyDir": {}} in spec["volumes"]
    assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]  # noqa: S108 - a path in the pod


def test_the_operator_reads_every_setting_that_the_chart_writes(render: Render) -> None:
    values = {
        "namespaces": ["team-a"],
        "operatorClass": "blue",
        "image": {"converter": {"repository": "registry.example/converter", "digest": f"sha256:{'a' * 64}", "pullPolicy": "Always"}},
        "workers": {
            "resources": {"limits": {"memory": "1Gi"}},
            "imagePullSecrets": [{"name": "registry"}],
            "podSecurityContext": {"supplementalGroups": [2000]},
            "cpu": {"nodeSelector": {"pool": "cpu"}, "avoidNodes": {"nvidia.com/gpu.present": "true"}},
            "gpu": {"nodeSelector": {"pool": "gpu"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]},
            "frameworks": {"tensorflow:1.0.0": "docker.io/tensorflow/tensorflow:1.0.0"},
            "runAsUser": 1000,
            "allowHostPath": True,
            "tmpSize": "20Gi",
            "allowPrivileges": True,
            "allowed": {
                "images": ["registry.example:5000/team/", "busybox:1.36", f"docker.io/library/python@sha256:{'b' * 64}"],
                "serviceAccounts": ["reader", "writer"],
                "priorityClasses": ["batch"],
                "runtimeClasses": ["gvisor"],
                "schedulers": ["volcano"],
                "initContainers": False,
            },
        },
        "jobs": {"ttlSecondsAfterFinished": 604_800},
        "metrics": {"authentication": True},
        "status": {"url": "https://operator.example", "progressSeconds": 2.5},
        "operator": {"workers": 3, "qps": 7.5, "burst": 9, "log": {"level": "DEBUG", "format": "plain"}, "tokenIssuer": "https://issuer"},
    }
    written = environment(render(values))

    read = settings.from_environment(written)

    assert read.namespaces == ("team-a",)
    assert read.operator_class == "blue"
    assert read.pods.image == f"registry.example/converter@sha256:{'a' * 64}"
    assert read.pods.image_pull_policy == "Always"
    assert read.pods.resources["limits"] == {"memory": "1Gi"}
    assert read.pods.cpu_node_selector == {"pool": "cpu"}
    assert read.pods.gpu_node_selector == {"pool": "gpu"}
    assert read.pods.gpu_tolerations == ({"key": "gpu", "operator": "Exists"},)
    assert read.pods.frameworks == {"tensorflow:1.0.0": "docker.io/tensorflow/tensorflow:1.0.0"}
    assert read.pods.run_as_user == 1000
    assert read.pods.image_pull_secrets == ({"name": "registry"},)
    assert read.pods.pod_security_context == {"supplementalGroups": [2000]}
    assert read.pods.cpu_avoid_nodes == {"nvidia.com/gpu.present": "true"}
    assert read.pods.ttl_seconds == 604_800
    assert read.metrics_authentication is True
    assert read.pods.allow_host_path is True
    assert read.pods.tmp_size == "20Gi"
    assert read.pods.allow_privileges is True
    assert read.pods.allowed == settings.Allowed(
        images=("registry.example:5000/team/", "busybox:1.36", f"docker.io/library/python@sha256:{'b' * 64}"),
        service_accounts=("reader", "writer"),
        priority_classes=("batch",),
        runtime_classes=("gvisor",),
        schedulers=("volcano",),
        init_containers=False,
    )
    assert read.pods.status_url == "https://operator.example"
    assert (read.progress_seconds, read.workers, read.qps, read.burst) == (2.5, 3, 7.5, 9)
    assert (read.log_level, read.log_format, read.token_issuer) == ("DEBUG", "plain", "https://issuer")


def test_by_default_a_job_may_choose_everything_but_access_to_the_node(render: Render) -> None:
    read = settings.from_environment(environment(render()))

    assert read.pods.allowed == settings.Allowed()
    assert (read.pods.allow_host_path, read.pods.allow_privileges) == (False, False)


def test_every_variable_is_one_that_the_operator_knows(render: Render) -> None:
    source = Path(settings.__file__).read_text()

    for name in environment(render()):
        assert f'"{name.removeprefix("DATAPREP_")}"' in source, f"settings.py reads no {name}"


def test_large_numbers_are_written_in_full(render: Render) -> None:
    written = environment(render({"workers": {"runAsUser": 1_000_650_000}, "operator": {"burst": 100_000}}))

    assert written["DATAPREP_RUN_AS_USER"] == "1000650000"
    assert settings.from_environment(written).burst == 100_000


def test_an_image_is_named_by_digest_tag_or_the_chart_s_version(render: Render) -> None:
    def image(**operator: str) -> str:
        (container,) = the(render({"image": {"operator": operator}}), "Deployment")["spec"]["template"]["spec"]["containers"]
        return str(container["image"])

    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert image(repository="r/o") == f"r/o:{version}"
    assert image(repository="r/o", tag="2") == "r/o:2"
    assert image(repository="r/o", tag="2", digest=f"sha256:{'0' * 64}") == f"r/o@sha256:{'0' * 64}"


def test_a_registry_is_put_before_both_images_and_wins_over_neither_tag_nor_digest(render: Render) -> None:
    digest = f"sha256:{'0' * 64}"
    images = {"registry": "mirror.example:5000/dataprep", "operator": {"tag": "2"}, "converter": {"digest": digest}}
    objects = render({"image": images}, hooks=True)

    for spec in pods_of(objects):
        assert spec["containers"][0]["image"] == "mirror.example:5000/dataprep/dataprep-operator:2"
    assert environment(objects)["DATAPREP_IMAGE"] == f"mirror.example:5000/dataprep/dataprep-converter@{digest}"


def test_the_list_of_images_is_all_that_the_release_and_its_jobs_pull(render: Render) -> None:
    values = {
        "image": {"registry": "mirror.example"},
        "spark": {"enabled": True},
        "workers": {"frameworks": {"tensorflow:1.0.0": "mirror.example/tensorflow:1.0.0", "same": "mirror.example/tensorflow:1.0.0"}},
        "extraContainers": [{"name": "proxy", "image": "mirror.example/proxy:1"}],
        "extraInitContainers": [{"name": "certificates", "image": "mirror.example/certificates:1"}],
    }
    for given in ({}, values):
        objects = render(given, hooks=True)
        defaults = settings.from_environment(environment(objects)).pods
        pulled = images_of(pods_of(objects)) | images_of(worker_pods(defaults))

        assert listed_images(objects) == sorted(pulled)
    assert len(listed_images(objects)) == 6


def test_the_notes_name_the_images_and_the_value_that_keeps_cpu_jobs_off_gpu_nodes(helm: Path, tmp_path: Path) -> None:
    def notes(values: Mapping[str, object]) -> str:
        """Helm renders the notes only with a cluster, so this function renders them as a template of the chart."""
        chart = tmp_path / "chart"
        shutil.rmtree(chart, ignore_errors=True)
        shutil.copytree(CHART, chart)
        (chart / "templates" / "NOTES.txt").rename(chart / "notes")
        (chart / "templates" / "notes.yaml").write_text('notes: {{ tpl (.Files.Get "notes") . | toJson }}')
        done = run(helm, "template", "dp", chart, "--namespace=dataprep", "--show-only=templates/notes.yaml", values=values)
        assert done.returncode == 0, done.stderr
        return str(yaml.safe_load(done.stdout)["notes"])

    chosen = notes({"workers": {"cpu": {"avoidNodes": {"nvidia.com/gpu.present": "true"}}}})

    assert "\n  dataprep-converter:0.1.0\n  dataprep-operator:0.1.0\n" in notes({})
    assert "set workers.cpu.avoidNodes to the label of those nodes" in notes({})
    assert "(workers.cpu.avoidNodes):\n\n  nvidia.com/gpu.present=true\n" in chosen


# --- settings of the operator's pod ---------------------------------------------------------------------------------------


def test_without_a_fixed_user_no_pod_names_one(render: Render) -> None:
    """OpenShift's restricted-v2 requires that no pod sets a user. The operator's tests check what restricted-v2 requires of the workers'
    pods."""
    objects = render({"security": {"fixedUser": False}}, hooks=True)
    workers = worker_pods(settings.from_environment(environment(objects)).pods)

    for spec in [*pods_of(objects), *workers]:
        assert not set(spec["securityContext"]) & {"runAsUser", "runAsGroup", "fsGroup", "seLinuxOptions"}
        assert spec["securityContext"]["runAsNonRoot"] is True
        for container in spec["containers"]:
            assert "runAsUser" not in container["securityContext"]
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_users_are_those_of_the_values(render: Render) -> None:
    objects = render({"runAsUser": 1_000_650_000, "workers": {"runAsUser": 2000}}, hooks=True)
    workers = worker_pods(settings.from_environment(environment(objects)).pods)

    assert [spec["securityContext"]["runAsUser"] for spec in pods_of(objects)] == [1_000_650_000] * 2
    assert {spec["securityContext"]["runAsUser"] for spec in workers} == {2000}


def test_security_contexts_are_added_to(render: Render) -> None:
    values = {"podSecurityContext": {"fsGroup": 2000}, "securityContext": {"seLinuxOptions": {"level": "s0"}}}

    for spec in pods_of(render(values, hooks=True)):
        assert spec["securityContext"]["fsGroup"] == 2000
        assert spec["securityContext"]["runAsUser"] == 65532
        assert spec["containers"][0]["securityContext"] == {
            "seLinuxOptions": {"level": "s0"},
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_more_containers_volumes_and_mounts_stand_beside_the_operator_s(render: Render) -> None:
    proxy = {"name": "proxy", "image": "proxy:1"}
    values = {
        "extraContainers": [proxy],
        "extraInitContainers": [proxy | {"name": "first"}],
        "extraVolumes": [{"name": "certificates", "secret": {"secretName": "ca"}}],
        "extraVolumeMounts": [{"name": "certificates", "mountPath": "/certificates", "readOnly": True}],
    }
    spec = the(render(values), "Deployment")["spec"]["template"]["spec"]

    assert [each["name"] for each in spec["containers"]] == ["operator", "proxy"]
    assert [each["name"] for each in spec["initContainers"]] == ["first"]
    assert [each["name"] for each in spec["volumes"]] == ["tmp", "certificates"]
    assert [each["mountPath"] for each in spec["containers"][0]["volumeMounts"]] == ["/tmp", "/certificates"]  # noqa: S108 - a path in the pod


def test_replicas_are_spread_over_nodes_unless_told_otherwise(render: Render) -> None:
    def spread(*constraints: Mapping[str, object]) -> Any:  # Any: JSON
        deployment = the(render({"topologySpreadConstraints": list(constraints)}), "Deployment")
        assert deployment["spec"]["selector"]["matchLabels"] == replicas["matchLabels"]
        return deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]

    replicas = {
        "matchLabels": {
            "app.kubernetes.io/name": "dataprep-operator",
            "app.kubernetes.io/instance": "dp",
            "app.kubernetes.io/component": "operator",
        }
    }
    usual = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    zones = usual | {"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    others = {"labelSelector": {"matchLabels": {"app": "other"}}}
    assert spread() == [usual | {"labelSelector": replicas}]
    assert spread(zones, usual | others) == [zones | {"labelSelector": replicas}, usual | others]


def test_jobs_stay_unless_a_ttl_is_set(render: Render) -> None:
    def seconds(value: int | None) -> int | None:
        return settings.from_environment(environment(render({"jobs": {"ttlSecondsAfterFinished": value}}))).pods.ttl_seconds

    assert [seconds(None), seconds(0), seconds(31_536_000)] == [None, 0, 31_536_000]


# --- other objects --------------------------------------------------------------------------------------------------------


def test_the_service_has_an_address_for_each_replica_and_pods_are_told_its_name(render: Render) -> None:
    objects = render()
    service = the(objects, "Service")
    labels = the(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]

    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"].items() <= labels.items()
    assert environment(objects)["DATAPREP_STATUS_URL"] == f"http://{service['metadata']['name']}.dataprep.svc:8080"


def test_the_crds_are_the_generated_ones_and_kept(render: Render) -> None:
    rendered = of_kind(render({"crds": {}}), "CustomResourceDefinition")
    let_go = of_kind(render({"crds": {"keep": False}}), "CustomResourceDefinition")

    made = {each["metadata"]["name"]: each["spec"] for each in (crd.crd(), crd.cron_crd(), crd.profile_crd())}
    assert {each["metadata"]["name"]: each["spec"] for each in rendered} == made
    assert [each["metadata"]["annotations"] for each in rendered] == [{"helm.sh/resource-policy": "keep"}] * 3
    assert [each for each in let_go if "annotations" in each["metadata"]] == []
    assert of_kind(render({"crds": {"install": False}}), "CustomResourceDefinition") == []


def test_a_disruption_budget_needs_two_replicas(render: Render) -> None:
    assert the(render(), "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert of_kind(render({"replicas": 1}), "PodDisruptionBudget") == []
    assert of_kind(render({"podDisruptionBudget": {"enabled": False}}), "PodDisruptionBudget") == []


def test_the_network_policy_lets_pods_in_and_the_api_server_be_reached(render: Render) -> None:
    policy = the(render({"networkPolicy": {"apiServerPorts": [16443]}}), "NetworkPolicy")["spec"]

    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == [{"from": [{"namespaceSelector": {}}], "ports": [{"port": 8080}]}]
    assert {"port": 16443} in policy["egress"][0]["ports"]
    assert of_kind(render({"networkPolicy": {"enabled": False}}), "NetworkPolicy") == []


def test_the_operator_reaches_what_the_network_policy_adds(render: Render) -> None:
    collector = {"to": [{"namespaceSelector": {}}], "ports": [{"port": 4318}]}
    policy = the(render({"networkPolicy": {"egress": [collector]}}), "NetworkPolicy")["spec"]

    assert policy["egress"][1:] == [collector]


def test_converter_pods_have_a_policy_in_each_listed_namespace_on_request(render: Render) -> None:
    values = NAMESPACED | {"networkPolicy": {"workers": {"enabled": True, "egressPorts": [8020]}}}
    policies = [each for each in of_kind(render(values), "NetworkPolicy") if each["metadata"]["name"].endswith("-workers")]

    assert [policy["metadata"]["namespace"] for policy in policies] == ["team-a", "team-b"]
    assert {"port": 8020} in policies[0]["spec"]["egress"][0]["ports"]
    assert policies[0]["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in policies[0]["spec"]


def test_alerts_and_dashboard_are_the_charts_files(render: Render) -> None:
    rendered = render({"prometheusRule": {"enabled": True}, "grafanaDashboard": {"enabled": True}})
    assert the(rendered, "PrometheusRule")["spec"] == yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
    maps = [each for each in of_kind(rendered, "ConfigMap") if each["metadata"]["labels"].get("grafana_dashboard") == "1"]
    assert json.loads(maps[0]["data"]["dataprep-operator.json"]) == json.loads((CHART / "files" / "dashboard.json").read_text())


def test_the_service_monitor_is_off_by_default(render: Render) -> None:
    assert of_kind(render(), "ServiceMonitor") == []
    (endpoint,) = the(render({"serviceMonitor": {"enabled": True}}), "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint == {"port": "http", "path": "/metrics", "interval": "30s"}


def test_every_object_has_the_usual_labels(render: Render) -> None:
    monitored = {name: {"enabled": True} for name in ("serviceMonitor", "prometheusRule", "grafanaDashboard")}
    for each in render({"commonLabels": {"team": "data"}, "crds": {}, **monitored}, hooks=True):
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == "dp", each["kind"]
        assert labels["team"] == "data", each["kind"]


def test_the_test_pod_is_a_hook_and_no_target_of_the_service(render: Render) -> None:
    objects = render(hooks=True)
    pod = the(objects, "Pod")

    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert not the(objects, "Service")["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


# --- refused values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "named"),
    [
        pytest.param({"replica": 2}, "replica", id="a misspelt value"),
        pytest.param({"replicas": -1}, "/replicas", id="negative replicas"),
        pytest.param({"replicas": "two"}, "/replicas", id="a word for a number"),
        pytest.param({"namespaces": ["Team A"]}, "/namespaces/0", id="no name of a namespace"),
        pytest.param({"namespaces": "team-a"}, "/namespaces", id="a string for a list"),
        pytest.param({"namespaces": ["a", "a"]}, "/namespaces", id="a namespace twice"),
        pytest.param({"image": {"operator": {"digest": "abc"}}}, "/image/operator/digest", id="no digest"),
        pytest.param({"image": {"converter": {"pullPolicy": "Sometimes"}}}, "/image/converter/pullPolicy", id="an unknown policy"),
        pytest.param({"workers": {"runAsUser": 0}}, "/workers/runAsUser", id="root"),
        pytest.param({"workers": {"resources": {"limits": {"memory": "2 GB"}}}}, "/workers/resources/limits/memory", id="no quantity"),
        pytest.param({"workers": {"gpu": {"tolerations": [{"effect": "No"}]}}}, "/workers/gpu/tolerations/0/effect", id="no effect"),
        pytest.param({"status": {"url": "operator:8080"}}, "/status/url", id="no URL"),
        pytest.param({"operator": {"log": {"level": "info"}}}, "/operator/log/level", id="an unknown level"),
        pytest.param({"operator": {"qps": 0}}, "/operator/qps", id="no requests"),
        pytest.param({"networkPolicy": {"apiServerPorts": [70000]}}, "/networkPolicy/apiServerPorts/0", id="no port"),
        pytest.param({"image": {"registry": "https://mirror.example"}}, "/image/registry", id="a URL for a registry"),
        pytest.param({"runAsUser": 0}, "/runAsUser", id="the operator as root"),
        pytest.param({"jobs": {"ttlSecondsAfterFinished": -1}}, "/jobs/ttlSecondsAfterFinished", id="a negative time"),
        pytest.param({"workers": {"cpu": {"avoidNodes": ["gpu"]}}}, "/workers/cpu/avoidNodes", id="a list for labels"),
        pytest.param({"workers": {"imagePullSecrets": ["registry"]}}, "/workers/imagePullSecrets/0", id="a name for a Secret"),
        pytest.param({"workers": {"allowed": {"serviceAccount": ["a"]}}}, "serviceAccount", id="a misspelt limit"),
        pytest.param({"workers": {"allowed": {"images": "a"}}}, "/workers/allowed/images", id="an image for a list"),
        pytest.param({"workers": {"allowed": {"images": ["https://a.example/"]}}}, "/workers/allowed/images/0", id="a URL for an image"),
        pytest.param({"workers": {"allowed": {"images": ["a.example/*"]}}}, "/workers/allowed/images/0", id="a pattern for an image"),
        pytest.param({"workers": {"allowed": {"schedulers": [""]}}}, "/workers/allowed/schedulers/0", id="an empty name"),
        pytest.param({"topologySpreadConstraints": [{"maxSkew": 1}]}, "/topologySpreadConstraints/0", id="half a constraint"),
        pytest.param({"extraVolumeMounts": [{"name": "a"}]}, "/extraVolumeMounts/0", id="a mount without a path"),
        pytest.param({"serviceMonitor": {"interval": "often"}}, "/serviceMonitor/interval", id="no duration"),
    ],
)
def test_a_bad_value_is_refused_by_name(helm: Path, values: Mapping[str, object], named: str) -> None:
    done = run(helm, "template", "dp", CHART, values=values)

    assert done.returncode != 0
    assert named in done.stderr


def test_no_account_at_all_is_refused(helm: Path) -> None:
    done = run(helm, "template", "dp", CHART, values={"serviceAccount": {"create": False}})

    assert "serviceAccount.name must be set when serviceAccount.create is false" in done.stderr


def test_every_value_is_in_the_schema_and_has_a_comment_near() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())

    def check(value: object, part: dict[str, Any], path: str) -> None:
        if isinstance(value, dict) and "properties" in part:
            for name, member in value.items():
                assert name in part["properties"], f"{path}.{name}"
                check(member, part["properties"][name], f"{path}.{name}")

    check(values, schema, "")
    assert set(values) == set(schema["properties"]) - {"global"}
