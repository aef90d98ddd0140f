"""Decides what the author of a job may request for its pods. All functions are pure.

There are two kinds of limits, both set by values of the chart:

- Access to the node: no hostPath volumes, no root, and no more access than the Pod Security Standard `baseline` allows. The models of
  `workers` and `workers.podTemplate` already reject unknown fields such as `hostNetwork`, `hostPID` or the pod's `securityContext`. So only
  volumes, init containers (including sidecars) and annotations are checked.
- Choices: the images, the service account, the priority class, the runtime class and the scheduler, and whether there are init containers.
  These limits are needed because the operator creates the pods, so an author needs no permission to create pods. Values from a
  DataPrepProfile are checked like the author's values, because anyone in the namespace may write a profile. The chart's own values are
  always allowed, and so are the defaults that Kubernetes applies to fields that aren't set.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from dataprep_api.spec import DataPrepJobSpec, Open
from dataprep_operator.objects import untrusted
from dataprep_operator.settings import Allowed, PodDefaults

_WORKERS: Final = "spec.workers"
_TEMPLATE: Final = f"{_WORKERS}.podTemplate"
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS: Final = ("postStart", "preStop")
_SELINUX_TYPES: Final = frozenset({"container_t", "container_init_t", "container_kvm_t", "container_engine_t"})


def fault(spec: DataPrepJobSpec, defaults: PodDefaults) -> str | None:
    """Describe the job's first request that isn't allowed, with its field and the chart value that forbids it.

    Returns None if all requests are allowed.
    """
    return next(_faults(spec, defaults), None)


def _faults(spec: DataPrepJobSpec, defaults: PodDefaults) -> Iterator[str]:
    if not defaults.allow_host_path:
        yield from (f"{field}: hostPath volumes are not {_decided_by('allowHostPath')}" for field in _host_paths(spec))
    if not defaults.allow_privileges:
        yield from (f"{field}: {what} is not {_decided_by('allowPrivileges')}" for field, what in _privileges(spec))
    if spec.workers.pod_template.init_containers and not defaults.allowed.init_containers:
        yield f"{_TEMPLATE}.initContainers: init containers are not {_decided_by('allowed.initContainers')}"
    yield from _image_faults(spec, defaults)
    yield from _name_faults(spec, defaults.allowed)


def _decided_by(chart_value: str, allowed: Sequence[str] = ()) -> str:
    listed = f": {', '.join(allowed)}" if allowed else ""
    return f"allowed by this installation of the operator (workers.{chart_value} of the chart{listed})"


# --- choices ----------------------------------------------------------------------------------------------------------------------


def _image_faults(spec: DataPrepJobSpec, defaults: PodDefaults) -> Iterator[str]:
    allowed = defaults.allowed.images
    images_of_chart = (defaults.image, defaults.spark_image, *defaults.frameworks.values())
    for field, image in _images(spec):
        if allowed and image not in images_of_chart and not any(_is_covered(image, entry) for entry in allowed):
            yield f"{field}: {image!r} is not {_decided_by('allowed.images', allowed)}"


def _images(spec: DataPrepJobSpec) -> Iterator[tuple[str, str]]:
    """Yield each field that contains an image: the field's name and the image.

    The API server refuses a container whose image is missing or isn't a string.
    """
    script_image = spec.script.image if spec.script is not None else None
    spark_image = spec.engine.spark.image if spec.engine is not None else None
    images = [(f"{_WORKERS}.image", spec.workers.image), ("spec.script.image", script_image), ("spec.engine.spark.image", spark_image)]
    for i, container in enumerate(_dump_open(spec.workers.pod_template.init_containers)):
        images.append((f"{_TEMPLATE}.initContainers[{i}].image", untrusted.text(container.get("image"))))
    for i, volume in enumerate(_dump_open(spec.workers.volumes)):
        images.append((f"{_WORKERS}.volumes[{i}].image.reference", untrusted.text(untrusted.mapping(volume.get("image")).get("reference"))))
    return ((field, image) for field, image in images if image)


def _is_covered(image: str, entry: str) -> bool:
    """Return whether an entry of the list allows an image. An entry that ends in `/` allows everything below it.

    Any other entry is either a repository, which allows all of its tags and digests, or one complete image. So `registry.example/tool`
    allows neither `registry.example/tool-b` nor `registry.example/tool/b`, and `tool` doesn't allow images from the registry `tool:5000/`.
    """
    if not image.startswith(entry):
        return False
    rest = image.removeprefix(entry)
    is_repository = not any(mark in entry.rpartition("/")[2] for mark in ":@")
    return rest == "" or entry.endswith("/") or (is_repository and rest[0] in ":@" and "/" not in rest)


def _name_faults(spec: DataPrepJobSpec, allowed: Allowed) -> Iterator[str]:
    """Yield a fault for each name that isn't allowed. Kubernetes' default for a field is always allowed."""
    workers, template = spec.workers, spec.workers.pod_template
    for field, name, default, chart_value, allowed_names in (
        (f"{_WORKERS}.serviceAccountName", workers.service_account_name, "default", "serviceAccounts", allowed.service_accounts),
        (f"{_WORKERS}.priorityClassName", workers.priority_class_name, None, "priorityClasses", allowed.priority_classes),
        (f"{_TEMPLATE}.runtimeClassName", template.runtime_class_name, None, "runtimeClasses", allowed.runtime_classes),
        (f"{_TEMPLATE}.schedulerName", template.scheduler_name, "default-scheduler", "schedulers", allowed.schedulers),
    ):
        if allowed_names and name not in (None, default, *allowed_names):
            yield f"{field}: {name!r} is not {_decided_by(f'allowed.{chart_value}', allowed_names)}"


# --- access to the node ---------------------------------------------------------------------------------------------------------------


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
        yield from ((f"{field}.{name}.host", "a request of the node to another host") for name in _requests_of_the_node(container))
    for key, value in (spec.workers.pod_template.annotations or {}).items():
        if key.startswith(_APP_ARMOR) and value == "unconfined":
            yield f"{_TEMPLATE}.annotations[{key}]", "a container without AppArmor"


def _requests_of_the_node(container: Mapping[str, Any]) -> Iterator[str]:
    """Yield the probes and hooks that would make the kubelet connect to a host other than the pod."""
    hooks = untrusted.mapping(container.get("lifecycle"))
    handlers = {name: container.get(name) for name in _PROBES} | {f"lifecycle.{name}": hooks.get(name) for name in _HOOKS}
    for name, handler in handlers.items():
        for kind in ("httpGet", "tcpSocket"):
            if untrusted.mapping(untrusted.mapping(handler).get(kind)).get("host"):
                yield f"{name}.{kind}"


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
