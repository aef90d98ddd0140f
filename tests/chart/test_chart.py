"""Tests of the objects that the chart renders and of the values that it refuses, without a cluster.

test_rights.py tests the roles, and test_pods.py tests the pods.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chart.rendering import CHART, NAMESPACED, Render, environment, of_kind, run, the

from dataprep_api.generate import crd

pytestmark = pytest.mark.slow
"""Helm is built from its Go module, once per machine."""


def test_lint_finds_nothing(helm: Path) -> None:
    for values in ({}, NAMESPACED, {"serviceMonitor": {"enabled": True}, "replicas": 1}):
        done = run(helm, "lint", "--strict", CHART, values=values)

        assert done.returncode == 0, done.stdout
        assert "[WARNING]" not in done.stdout


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
