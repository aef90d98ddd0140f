"""Tests of privileges that jobs may not request, in every field through which they could reach the pod."""

from typing import Any

import pytest
from tests.builders.specs import parse_job
from tests.operator.world import World

from dataprep_api.errors import SpecError
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.children.privileges import fault
from dataprep_operator.settings import PodDefaults

CONTEXT = "spec.workers.podTemplate.initContainers[0].securityContext"
NOT_ALLOWED = "is not allowed by this installation of the operator (workers.allowPrivileges of the chart)"


def a_spec(**workers: Any) -> DataPrepJobSpec:  # Any: fields of the spec
    spec = {"source": {"text": {"uris": ["s3://in/x"]}}, "output": {"uri": "s3://out/x"}, "workers": workers}
    return parse_job(spec, name="m").spec


def containers(**rest: Any) -> dict[str, Any]:  # Any: as above
    return {"podTemplate": {"initContainers": [{"name": "side", "image": "i", "restartPolicy": "Always", **rest}]}}


def refusal(workers: dict[str, Any]) -> str | None:  # Any: as above
    return fault(a_spec(**workers), allow_host_path=False, allow_privileges=False)


@pytest.mark.parametrize(
    ("context", "field", "what"),
    [
        ({"privileged": True}, "privileged", "a privileged container"),
        ({"allowPrivilegeEscalation": True}, "allowPrivilegeEscalation", "privilege escalation"),
        ({"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}, "capabilities.add", "a capability"),
        ({"runAsUser": 0}, "runAsUser", "root"),
        ({"runAsNonRoot": False}, "runAsNonRoot", "root"),
        ({"procMount": "Unmasked"}, "procMount", "an unmasked /proc"),
        ({"seccompProfile": {"type": "Unconfined"}}, "seccompProfile", "a container without seccomp"),
        ({"appArmorProfile": {"type": "Unconfined"}}, "appArmorProfile", "a container without AppArmor"),
        ({"seLinuxOptions": {"type": "spc_t"}}, "seLinuxOptions", "another SELinux user, role or type"),
        ({"seLinuxOptions": {"user": "system_u"}}, "seLinuxOptions", "another SELinux user, role or type"),
        ({"windowsOptions": {"hostProcess": True}}, "windowsOptions.hostProcess", "a process of the node"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_container_of_the_users_has_no_more_rights(context: dict[str, Any], field: str, what: str) -> None:  # Any: JSON
    assert refusal(containers(securityContext=context)) == f"{CONTEXT}.{field}: {what} {NOT_ALLOWED}"
    assert fault(a_spec(**containers(securityContext=context)), allow_host_path=False, allow_privileges=True) is None


def test_a_port_of_the_node_is_refused() -> None:
    ports = [{"containerPort": 1}, {"containerPort": 2, "hostPort": 80}]
    field = "spec.workers.podTemplate.initContainers[0].ports[1].hostPort"
    assert refusal(containers(ports=ports)) == f"{field}: a port of the node {NOT_ALLOWED}"


def test_an_annotation_takes_no_protection_away() -> None:
    key = "container.apparmor.security.beta.kubernetes.io/dataprep"
    assert refusal({"podTemplate": {"annotations": {key: "unconfined"}}}) == (
        f"spec.workers.podTemplate.annotations[{key}]: a container without AppArmor {NOT_ALLOWED}"
    )
    assert refusal({"podTemplate": {"annotations": {key: "runtime/default"}}}) is None


def test_a_host_path_is_found_by_its_field() -> None:
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/data"}}]
    said = "spec.workers.volumes[1].hostPath: hostPath volumes are not allowed by this installation of the operator"
    assert refusal({"volumes": volumes}) == said
    assert refusal({"volumes": volumes[:1]}) is None
    assert fault(a_spec(volumes=volumes), allow_host_path=True, allow_privileges=False) is None


def test_what_every_sidecar_has_is_allowed() -> None:
    context = {
        "runAsUser": 1000,
        "runAsNonRoot": True,
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": []},
        "procMount": "Default",
        "seccompProfile": {"type": "RuntimeDefault"},
        "seLinuxOptions": {"level": "s0:c1,c2", "type": "container_t"},
    }
    assert refusal(containers(securityContext=context, ports=[{"containerPort": 8080}])) is None


@pytest.mark.parametrize(
    "field", ["securityContext", "hostNetwork", "hostPID", "hostIPC", "hostUsers", "volumes", "containers", "ephemeralContainers"]
)
def test_a_pod_template_has_no_other_way_in(field: str) -> None:
    with pytest.raises(SpecError, match=rf"spec.workers.podTemplate.{field}"):
        a_spec(podTemplate={field: {}})


@pytest.mark.parametrize("broken", [3, "x", [3], {"capabilities": 3}, {"seLinuxOptions": []}, {"seccompProfile": "x"}], ids=str)
def test_containers_of_any_form_are_read(broken: Any) -> None:  # Any: values of wrong types are the test
    assert refusal(containers(securityContext=broken, ports=broken)) is None


def test_a_container_of_any_form_comes_to_the_api_server(world: World) -> None:
    world.apply(workers=containers(securityContext="x"))

    assert world.settle() == "Planning"
    assert world.job("plan")["spec"]["template"]["spec"]["initContainers"][0]["securityContext"] == "x"


def test_a_job_that_asks_for_more_is_refused_by_its_field(world: World) -> None:
    world.apply(workers=containers(securityContext={"privileged": True}))

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "InvalidSpec")
    assert world.message() == f"{CONTEXT}.privileged: a privileged container {NOT_ALLOWED}"
    assert world.jobs() == []


@pytest.mark.parametrize("asked", [{"privileged": True}, {"capabilities": {"add": ["SYS_ADMIN"]}}], ids=str)
def test_an_installation_may_allow_it(asked: dict[str, Any]) -> None:
    world = World()
    world.settings = type(world.settings)(pods=PodDefaults(image="dataprep:1", allow_privileges=True))
    world.restart()
    world.apply(workers=containers(securityContext=asked))

    assert world.settle() == "Planning"
    # The API server refuses a container that is privileged or has CAP_SYS_ADMIN if it also forbids privilege escalation.
    made = world.job("plan")["spec"]["template"]["spec"]["initContainers"][0]["securityContext"]
    assert made.items() >= asked.items()
    assert "allowPrivilegeEscalation" not in made
