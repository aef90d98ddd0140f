"""If the API server refuses unknown pod fields, the message names the DataPrepJob's field."""

from typing import Any

import pytest
from tests.operator.world import World

from dataprep_operator.errors import Refused


def refusal(*fields: str) -> Refused:
    """Return the API server's response to a Job with unknown fields, as written by Kubernetes 1.35."""
    unknown = ", ".join(f'unknown field "spec.template.spec.{field}"' for field in fields)
    return Refused(f'Job in version "v1" cannot be handled as a Job: strict decoding error: {unknown}')


FIELDS: dict[str, tuple[str, dict[str, Any], str]] = {
    "volume": (
        "volumes[4].persistentVolumClaim",
        {"volumes": [{"name": "a"}, {"name": "b"}]},
        "spec.workers.volumes[1].persistentVolumClaim",
    ),
    "mount": ("containers[0].volumeMounts[3].readonly", {"volumeMounts": [{"mountPath": "/a"}]}, "spec.workers.volumeMounts[0].readonly"),
    "env": ("containers[0].env[0].valueForm", {"env": [{"name": "A"}]}, "spec.workers.env[0].valueForm"),
    "affinity": ("affinity.nodeAfinity", {"affinity": {"nodeAfinity": {}}}, "spec.workers.affinity.nodeAfinity"),
    "init container": (
        "initContainers[0].comand",
        {"podTemplate": {"initContainers": [{"name": "a"}]}},
        "spec.workers.podTemplate.initContainers[0].comand",
    ),
}


@pytest.mark.parametrize(("field", "workers", "named"), FIELDS.values(), ids=FIELDS.keys())
def test_a_field_that_the_api_server_does_not_know_is_named_as_the_user_wrote_it(field: str, workers: dict[str, Any], named: str) -> None:
    world = World()
    world.cluster.refusals["create", "jobs"] = refusal(field)
    world.apply(workers=workers, blockedDeadlineSeconds=1)
    world.settle()

    assert world.later(2) == "Failed"
    assert world.condition("Failed") == ("True", "PodRefused")
    assert world.message().startswith(f"unknown field: {named}. The API server says: Job in version")


def test_several_fields_are_all_named_and_those_of_the_operator_are_not() -> None:
    world = World()
    world.cluster.refusals["create", "jobs"] = refusal("volumes[0].of_the_operator", "affinity.a", "affinity.b")
    world.apply(workers={"affinity": {"a": 1, "b": 2}}, blockedDeadlineSeconds=1)
    world.settle()
    world.later(2)

    assert world.message().startswith("unknown field: spec.workers.affinity.a, spec.workers.affinity.b. ")


def test_only_the_job_of_the_plan_step_is_created_strictly() -> None:
    world = World()
    world.apply()
    world.settle()
    world.committing()

    assert world.cluster.strict == {"plan": True, "convert-1": False, "commit-1": False}
