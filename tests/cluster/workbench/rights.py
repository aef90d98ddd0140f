"""Compares the operator's API requests, from the audit log, with the rights that the chart grants."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kubecluster.commands import run
from workbench.installation import CHART, Installation

ACCOUNT_SUFFIX = "dataprep-operator"


@dataclass(frozen=True, order=True)
class Right:
    """A verb on a resource, in all namespaces or only in the operator's namespace."""

    group: str
    resource: str
    """Includes the subresource: `pods/status`."""
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{'.' if self.group else ''}{self.group}"


@dataclass(frozen=True)
class Use:
    """A request made by an operator."""

    right: Right
    account: str
    """`namespace:name` of the service account."""
    namespace: str
    """Empty for a request across all namespaces."""
    name: str
    allowed: bool
    at: str


def uses(events: Iterable[Mapping[str, Any]], *, since: str = "") -> Iterator[Use]:  # Any: audit events as JSON
    """The requests for objects since an RFC 3339 time, oldest first, from the operators of all releases."""
    for event in events:
        user = event["user"]["username"].removeprefix("system:serviceaccount:")
        asked = event.get("objectRef")
        if asked is None or not user.endswith(ACCOUNT_SUFFIX) or event["requestReceivedTimestamp"] < since:
            continue
        resource = asked["resource"] + (f"/{asked['subresource']}" if "subresource" in asked else "")
        yield Use(
            right=Right(asked.get("apiGroup", ""), resource, event["verb"]),
            account=user,
            namespace=asked.get("namespace", ""),
            name=asked.get("name", ""),
            allowed=event.get("annotations", {}).get("authorization.k8s.io/decision") == "allow",
            at=event["requestReceivedTimestamp"],
        )


def granted(installation: Installation, *, namespaces: Iterable[str] = ()) -> tuple[set[Right], set[Right]]:
    """The rights that the chart grants: in the watched namespaces, and in the operator's own."""
    words: list[str | Path] = [
        installation.cluster.helm,
        "template",
        "dataprep",
        CHART,
        "--namespace=dataprep-system",
        "--show-only=templates/rbac.yaml",
        "--set=kueue.enabled=true,spark.enabled=true",
    ]
    given = ",".join(namespaces)
    rendered = run([*words, *([f"--set=namespaces={{{given}}}"] if given else [])])
    roles = [each for each in yaml.safe_load_all(rendered) if each and each["kind"] in ("Role", "ClusterRole")]
    own = [role for role in roles if role["metadata"]["name"].endswith("-leader")]
    working = [role for role in roles if role not in own]
    assert {role["kind"] for role in working} == ({"Role"} if given else {"ClusterRole"})
    return _rights(working), _rights(own)


def _rights(roles: Iterable[Mapping[str, Any]]) -> set[Right]:
    return {
        Right(group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
