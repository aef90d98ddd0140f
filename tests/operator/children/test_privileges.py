"""Tests that a job can't request forbidden privileges for its pods in any field that reaches a pod spec."""

from dataclasses import replace
from typing import Any

import pytest
from tests.builders.removals import succeeded
from tests.builders.specs import parse_job
from tests.operator.world import NAMESPACE, World

from dataprep_api.errors import SpecError
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.children.privileges import fault
from dataprep_operator.settings import Allowed, PodDefaults

CONTEXT = "spec.workers.podTemplate.initContainers[0].securityContext"
NOT_ALLOWED = "is not allowed by this installation of the operator (workers.allowPrivileges of the chart)"


DEFAULTS = PodDefaults(image="registry.example/dataprep:1", frameworks={"tf:2": "docker.io/tensorflow/tensorflow:2"})
LISTS = Allowed(
    images=("registry.example/team/", "registry.example/tools/proxy", "busybox:1.36"),
    service_accounts=("reader", "writer"),
    priority_classes=("batch",),
    runtime_classes=("gvisor",),
    schedulers=("volcano", "other"),
)


def a_spec(**workers: Any) -> DataPrepJobSpec:  # Any: fields of the spec
    spec = {"source": {"text": {"uris": ["s3://in/x"]}}, "output": {"uri": "s3://out/x"}, "workers": workers}
    return parse_job(spec, name="m").spec


def a_script(**script: Any) -> DataPrepJobSpec:  # Any: as above
    whole = {"input": "s3://in/", "command": ["python", "make.py"], "outputs": ["*.tfrecords"], **script}
    return parse_job({"script": whole, "output": {"uri": "s3://out/x"}}, name="m").spec


def containers(**rest: Any) -> dict[str, Any]:  # Any: as above
    return {"podTemplate": {"initContainers": [{"name": "side", "image": "i", "restartPolicy": "Always", **rest}]}}


def refusal(workers: dict[str, Any]) -> str | None:  # Any: as above
    return fault(a_spec(**workers), DEFAULTS)


def not_listed(chart_value: str, allowed: str) -> str:
    return f"is not allowed by this installation of the operator (workers.allowed.{chart_value} of the chart: {allowed})"


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
    assert fault(a_spec(**containers(securityContext=context)), replace(DEFAULTS, allow_privileges=True)) is None


def test_a_port_of_the_node_is_refused() -> None:
    ports = [{"containerPort": 1}, {"containerPort": 2, "hostPort": 80}]
    field = "spec.workers.podTemplate.initContainers[0].ports[1].hostPort"
    assert refusal(containers(ports=ports)) == f"{field}: a port of the node {NOT_ALLOWED}"


@pytest.mark.parametrize("kind", ["httpGet", "tcpSocket"])
@pytest.mark.parametrize("name", ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop"])
def test_the_node_sends_no_requests_to_other_hosts(name: str, kind: str) -> None:
    def with_handler(handler: dict[str, Any]) -> dict[str, Any]:  # Any: JSON
        first, _, rest = name.partition(".")
        return containers(**{first: {rest: handler} if rest else handler})

    field = f"spec.workers.podTemplate.initContainers[0].{name}.{kind}.host"
    assert refusal(with_handler({kind: {"port": 80, "host": "169.254.169.254"}})) == (
        f"{field}: a request of the node to another host {NOT_ALLOWED}"
    )
    assert refusal(with_handler({kind: {"port": 80}})) is None


def test_an_annotation_takes_no_protection_away() -> None:
    key = "container.apparmor.security.beta.kubernetes.io/dataprep"
    assert refusal({"podTemplate": {"annotations": {key: "unconfined"}}}) == (
        f"spec.workers.podTemplate.annotations[{key}]: a container without AppArmor {NOT_ALLOWED}"
    )
    assert refusal({"podTemplate": {"annotations": {key: "runtime/default"}}}) is None


def test_a_host_path_is_found_by_its_field() -> None:
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/data"}}]
    assert refusal({"volumes": volumes}) == (
        "spec.workers.volumes[1].hostPath: hostPath volumes are not allowed by this installation of the operator "
        "(workers.allowHostPath of the chart)"
    )
    assert refusal({"volumes": volumes[:1]}) is None
    assert fault(a_spec(volumes=volumes), replace(DEFAULTS, allow_host_path=True)) is None


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
def test_containers_of_any_form_are_read(broken: Any) -> None:  # Any: the test passes values of wrong types
    assert refusal(containers(securityContext=broken, ports=broken, livenessProbe=broken, lifecycle=broken)) is None


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
    # The API server refuses a container that forbids privilege escalation but is privileged or has CAP_SYS_ADMIN.
    made = world.job("plan")["spec"]["template"]["spec"]["initContainers"][0]["securityContext"]
    assert made.items() >= asked.items()
    assert "allowPrivilegeEscalation" not in made


# --- choices ------------------------------------------------------------------------------------------------------------------------

IMAGES = "registry.example/team/, registry.example/tools/proxy, busybox:1.36"


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        ({"serviceAccountName": "admin"}, f"serviceAccountName: 'admin' {not_listed('serviceAccounts', 'reader, writer')}"),
        ({"priorityClassName": "urgent"}, f"priorityClassName: 'urgent' {not_listed('priorityClasses', 'batch')}"),
        ({"podTemplate": {"runtimeClassName": "runc"}}, f"podTemplate.runtimeClassName: 'runc' {not_listed('runtimeClasses', 'gvisor')}"),
        ({"podTemplate": {"schedulerName": "mine"}}, f"podTemplate.schedulerName: 'mine' {not_listed('schedulers', 'volcano, other')}"),
        ({"image": "evil/x"}, f"image: 'evil/x' {not_listed('images', IMAGES)}"),
        (containers(image="evil/x"), f"podTemplate.initContainers[0].image: 'evil/x' {not_listed('images', IMAGES)}"),
        (
            {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "image": {"reference": "evil/x"}}]},
            f"volumes[1].image.reference: 'evil/x' {not_listed('images', IMAGES)}",
        ),
    ],
    ids=lambda value: value.partition(":")[0] if isinstance(value, str) else None,
)
def test_a_value_that_is_not_in_the_list_is_refused(workers: dict[str, Any], said: str) -> None:  # Any: fields of the spec
    assert fault(a_spec(**workers), replace(DEFAULTS, allowed=LISTS)) == f"spec.workers.{said}"
    assert fault(a_spec(**workers), DEFAULTS) is None


@pytest.mark.parametrize(
    "workers",
    [
        {"serviceAccountName": "writer"},
        {"priorityClassName": "batch"},
        {"podTemplate": {"runtimeClassName": "gvisor"}},
        {"podTemplate": {"schedulerName": "other"}},
        containers(image="registry.example/team/proxy:1"),
        {"volumes": [{"name": "a", "image": {"reference": "busybox:1.36"}}]},
        # The defaults that Kubernetes applies to missing fields.
        {},
        {"serviceAccountName": "default", "podTemplate": {"schedulerName": "default-scheduler"}},
    ],
    ids=str,
)
def test_a_value_in_the_list_and_a_missing_value_are_allowed(workers: dict[str, Any]) -> None:  # Any: fields of the spec
    assert fault(a_spec(**workers), replace(DEFAULTS, allowed=LISTS)) is None


@pytest.mark.parametrize(
    ("image", "is_allowed"),
    [
        ("registry.example/team/image", True),
        ("registry.example/team/more/image@sha256:00", True),
        ("registry.example/team", False),
        ("registry.example/team-b/image", False),
        ("registry.example/tools/proxy", True),
        ("registry.example/tools/proxy:2", True),
        ("registry.example/tools/proxy@sha256:00", True),
        ("registry.example/tools/proxy/of/mine:2", False),
        ("registry.example/tools/proxy-of-mine:2", False),
        ("other.example/registry.example/team/image", False),
        ("busybox:1.36", True),
        ("busybox:1.36@sha256:00", False),  # the runtime would ignore the tag
        ("busybox:1.36.1", False),
        ("busybox", False),
        ("docker.io/library/busybox:1.36", False),
    ],
)
def test_an_image_is_allowed_by_its_folder_its_repository_or_its_name(image: str, is_allowed: bool) -> None:
    assert (fault(a_spec(image=image), replace(DEFAULTS, allowed=LISTS)) is None) == is_allowed


@pytest.mark.parametrize("image", ["registry.example.evil.example/x", "registry.example:5000/x", "registry.example@x/y"])
@pytest.mark.parametrize("entry", ["registry.example", "registry.example/"])
def test_a_registry_does_not_allow_another_host_or_port(image: str, entry: str) -> None:
    limited = replace(DEFAULTS, allowed=Allowed(images=(entry,)))
    assert fault(a_spec(image=image), limited) == f"spec.workers.image: {image!r} {not_listed('images', entry)}"


def test_images_of_the_chart_are_always_allowed() -> None:
    limited = replace(DEFAULTS, allowed=LISTS)
    assert fault(a_spec(image="registry.example/dataprep:1"), limited) is None
    assert fault(a_script(framework="tf:2"), limited) is None
    assert fault(a_script(image="docker.io/tensorflow/tensorflow:2"), limited) is None
    assert fault(a_script(image="registry.example/team/tf"), limited) is None
    assert fault(a_script(image="docker.io/tensorflow/tensorflow:3"), limited) == (
        f"spec.script.image: 'docker.io/tensorflow/tensorflow:3' {not_listed('images', IMAGES)}"
    )


def test_init_containers_may_be_forbidden() -> None:
    none = replace(DEFAULTS, allowed=Allowed(init_containers=False))
    assert fault(a_spec(**containers()), none) == (
        "spec.workers.podTemplate.initContainers: init containers are not allowed by this installation of the operator "
        "(workers.allowed.initContainers of the chart)"
    )
    assert fault(a_spec(podTemplate={"labels": {"a": "b"}, "initContainers": []}), none) is None


@pytest.mark.parametrize("image", [None, 3, [], {}], ids=str)
def test_an_image_of_any_form_is_left_to_the_api_server(image: Any) -> None:  # Any: the test passes values of wrong types
    volumes = [{"name": "a", "image": image}, {"name": "b", "image": {"reference": image}}]
    assert fault(a_spec(volumes=volumes, **containers(image=image)), replace(DEFAULTS, allowed=LISTS)) is None


def limited_world(allowed: Allowed) -> World:
    return World(pods=PodDefaults(image="dataprep:1", allowed=allowed))


def test_a_profile_may_choose_no_more_than_its_jobs() -> None:
    world = limited_world(LISTS)
    profile = {"metadata": {"name": "default"}, "spec": {"workers": {"serviceAccountName": "admin"}}}
    world.cluster.add("dataprepprofiles", NAMESPACE, profile)
    world.apply()

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "InvalidSpec")
    assert world.message() == f"spec.workers.serviceAccountName: 'admin' {not_listed('serviceAccounts', 'reader, writer')}"
    assert world.jobs() == []


def test_a_job_s_value_replaces_a_profile_s_that_is_not_allowed() -> None:
    world = limited_world(LISTS)
    profile = {"metadata": {"name": "default"}, "spec": {"workers": {"serviceAccountName": "admin"}}}
    world.cluster.add("dataprepprofiles", NAMESPACE, profile)
    world.apply(workers={"serviceAccountName": "reader"})

    assert world.settle() == "Planning"
    assert world.job("plan")["spec"]["template"]["spec"]["serviceAccountName"] == "reader"


def succeeded_before_the_rule() -> World:
    """Return a world with a finished job, whose priority class the operator's settings have forbidden since then."""
    world = limited_world(Allowed())
    succeeded(world, workers={"priorityClassName": "urgent"})
    assert world.settle() == "Succeeded"
    world.settings = limited_world(LISTS).settings
    world.restart()
    return world


def test_a_job_that_has_ended_keeps_its_phase_under_a_new_rule() -> None:
    assert succeeded_before_the_rule().settle() == "Succeeded"


def test_an_output_is_not_removed_by_a_pod_that_a_new_rule_excludes() -> None:
    world = succeeded_before_the_rule()
    world.cluster.end("dataprepjobs", NAMESPACE, "mnist")
    world.settle()
    assert world.condition("OutputRemoved") == ("False", "InvalidSpec")
    assert not_listed("priorityClasses", "batch") in world.message("OutputRemoved")
    assert not any("cleanup" in name for name in world.jobs())

    world.edit(deletionPolicy="Retain")
    assert world.settle() == "gone"


def test_a_job_that_runs_under_a_new_rule_fails() -> None:
    world = limited_world(Allowed())
    world.apply(workers={"priorityClassName": "urgent"})
    assert world.settle() == "Planning"
    world.settings = limited_world(LISTS).settings
    world.restart()

    assert world.settle() == "Failed"
    assert world.condition("Failed") == ("True", "InvalidSpec")
