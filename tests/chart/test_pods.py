"""Tests of the pods that the chart renders and of the settings that the operator's pod reads, without a cluster."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chart.rendering import CHART, NAMESPACED, Objects, Render, environment, of_kind, run, the

from dataprep_api.resources.job import DataPrepJob
from dataprep_api.resources.status import DataPrepJobStatus
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator import settings
from dataprep_operator.children import jobs, spark_jobs
from dataprep_operator.objects.observed import Key, Observed

pytestmark = pytest.mark.slow
"""Helm is built from its Go module, once per machine."""


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
    assert "set workers.cpu.avoidNodes to the label of the GPU nodes" in notes({})
    assert "(workers.cpu.avoidNodes):\n\n  nvidia.com/gpu.present=true\n" in chosen


# --- settings of the operator's pod ---------------------------------------------------------------------------------------


def test_without_a_fixed_user_no_pod_names_one(render: Render) -> None:
    """OpenShift's restricted-v2 requires that no pod sets a user. The operator's tests check the workers' pods."""
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
