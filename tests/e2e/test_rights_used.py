"""Least privilege: compares the requests that operators made during all previous tests with the rights that the chart grants.

This module runs last. The test for unused rights needs a run of all tests, because a selection of the tests doesn't use all rights.
"""

import pytest
from tests.availability import unavailable

from dataprep_operator.leadership.scope import marker
from kubecluster import Cluster
from kubecluster.errors import NotSupported
from workbench import sharing
from workbench.installation import Installation
from workbench.rights import Right, Use, granted, uses

pytestmark = pytest.mark.exclusive

UNUSED = {
    Right("batch", "jobs", "get"): "used only if a Job already exists because the response to its creation was lost",
    Right("", "services", "get"): "used only if a Service already exists because the operator died before it created the Job",
    Right("dataprep.io", "dataprepcronjobs", "get"): "used only if somebody else updates a schedule's status at the same moment",
}
"""Rights that the tests don't use, with the reasons."""


@pytest.fixture(scope="module")
def asked(cluster: Cluster, operator: Installation) -> list[Use]:
    """Every request since the run began."""
    del operator  # requested for its effect
    try:
        found = list(uses(cluster.audited(), since=sharing.began()))
    except NotSupported as exc:
        unavailable(str(exc))
    assert found, "no operator has made any request: is this the operator's account?"
    return found


def test_no_request_exceeds_the_granted_rights(asked: list[Use], operator: Installation) -> None:
    everywhere, own = granted(operator)
    assert sorted({str(use.right) for use in asked} - {str(right) for right in everywhere | own}) == []
    # The API server refuses a request that the role allows only while a release is being uninstalled together with its role.


def test_a_namespaced_operator_requests_nothing_outside_its_namespaces(asked: list[Use], operator: Installation) -> None:
    scoped = [use for use in asked if use.account.endswith(":scoped-dataprep-operator")]
    assert {(use.account, use.namespace) for use in scoped} <= {(use.account, use.account.partition(":")[0]) for use in scoped}
    everywhere, own = granted(operator, namespaces=["team-a"])
    assert {use.right for use in scoped} <= everywhere | own
    assert granted(operator) == (everywhere, own)


def test_leases_are_requested_only_in_the_operators_own_namespace(asked: list[Use]) -> None:
    # Release markers are an exception: a release creates them in the namespaces where it works, but looks them up by name in every
    # namespace.
    leases = [use for use in asked if use.right.resource == "leases" and not use.name.startswith(marker(None)) and use.right.verb != "list"]
    assert {(use.account, use.namespace) for use in leases} == {(use.account, use.account.partition(":")[0]) for use in leases}


@pytest.mark.skipif(not sharing.is_whole(), reason="only a run of all tests on the cluster uses every right")
def test_every_granted_right_is_used(asked: list[Use], operator: Installation) -> None:
    everywhere, own = granted(operator)
    used = {use.right for use in asked if use.allowed}
    assert sorted(str(right) for right in (everywhere | own) - used - set(UNUSED)) == []
