"""Tests of the roles that the chart renders, without a cluster."""

from collections.abc import Mapping

import pytest
from tests.chart.rendering import CHART, NAMESPACED, Render, environment, of_kind, the

from dataprep_operator.leadership import scope

pytestmark = pytest.mark.slow
"""Helm is built from its Go module, once per machine."""


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
