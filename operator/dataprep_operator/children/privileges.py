"""Rejects jobs whose pods request root, or more access to the node than the Pod Security Standard `baseline` allows.

The models of `workers` and `workers.podTemplate` already reject unknown fields such as `hostNetwork`, `hostPID` or the pod's
`securityContext`. Therefore this module only checks volumes, init containers (including sidecars) and annotations. All functions are pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from dataprep_api.spec import DataPrepJobSpec, Open
from dataprep_operator.objects import untrusted

_TEMPLATE: Final = "spec.workers.podTemplate"
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_SELINUX_TYPES: Final = frozenset({"container_t", "container_init_t", "container_kvm_t", "container_engine_t"})
_HOST_PATH: Final = "hostPath volumes are not allowed by this installation of the operator"
_PRIVILEGES: Final = "is not allowed by this installation of the operator (workers.allowPrivileges of the chart)"


def fault(spec: DataPrepJobSpec, *, allow_host_path: bool, allow_privileges: bool) -> str | None:
    """Return the first violation, with its field, or None."""
    violations = [] if allow_host_path else [f"{field}: {_HOST_PATH}" for field in _host_paths(spec)]
    if not allow_privileges:
        violations += [f"{field}: {what} {_PRIVILEGES}" for field, what in _privileges(spec)]
    return next(iter(violations), None)


def _host_paths(spec: DataPrepJobSpec) -> Iterator[str]:
    for i, volume in enumerate(_dump_open(spec.workers.volumes)):
        if "hostPath" in volume:
            yield f"spec.workers.volumes[{i}].hostPath"


def _privileges(spec: DataPrepJobSpec) -> Iterator[tuple[str, str]]:
    """Yield each field that requests more privileges than the converter has, and the privilege that it requests."""
    for i, container in enumerate(_dump_open(spec.workers.pod_template.init_containers)):
        field = f"{_TEMPLATE}.initContainers[{i}]"
        yield from (
            (f"{field}.securityContext.{name}", what)
            for name, what in _context_privileges(untrusted.mapping(container.get("securityContext")))
        )
        ports = container.get("ports")
        for j, port in enumerate(ports if isinstance(ports, list) else []):
            if untrusted.mapping(port).get("hostPort"):
                yield f"{field}.ports[{j}].hostPort", "a port of the node"
    for key, value in (spec.workers.pod_template.annotations or {}).items():
        if key.startswith(_APP_ARMOR) and value == "unconfined":
            yield f"{_TEMPLATE}.annotations[{key}]", "a container without AppArmor"


def _context_privileges(context: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    selinux = untrusted.mapping(context.get("seLinuxOptions"))
    requests = {
        "privileged": (context.get("privileged"), "a privileged container"),
        "allowPrivilegeEscalation": (context.get("allowPrivilegeEscalation"), "privilege escalation"),
        "capabilities.add": (untrusted.mapping(context.get("capabilities")).get("add"), "a capability"),
        "runAsUser": (context.get("runAsUser") == 0, "root"),
        "runAsNonRoot": (context.get("runAsNonRoot") is False, "root"),
        "procMount": (context.get("procMount") not in (None, "Default"), "an unmasked /proc"),
        "seccompProfile": (untrusted.mapping(context.get("seccompProfile")).get("type") == "Unconfined", "a container without seccomp"),
        "appArmorProfile": (untrusted.mapping(context.get("appArmorProfile")).get("type") == "Unconfined", "a container without AppArmor"),
        "seLinuxOptions": (
            selinux.get("user") or selinux.get("role") or (selinux.get("type") or "container_t") not in _SELINUX_TYPES,
            "another SELinux user, role or type",
        ),
        "windowsOptions.hostProcess": (untrusted.mapping(context.get("windowsOptions")).get("hostProcess"), "a process of the node"),
    }
    return ((name, what) for name, (is_requested, what) in requests.items() if is_requested)


# Any, because the operator doesn't validate the dumped objects; the API server validates them when it creates the pod.
def _dump_open(models: Sequence[Open] | None) -> list[Mapping[str, Any]]:
    return [model.model_dump(mode="json", by_alias=True) for model in models or []]
