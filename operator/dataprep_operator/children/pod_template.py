"""Builds the pod template of a child Job: the converter's container, its volumes, and its scheduling. All functions are pure."""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from dataprep_api import quantity
from dataprep_api.dataset.messages import TOKEN_AUDIENCE
from dataprep_api.spec import DataPrepJobSpec, Resources
from dataprep_api.spec.engine import Spark
from dataprep_operator.children.metadata import Body, owned_labels, spec_config_map_name
from dataprep_operator.objects import job_steps, lineage, untrusted
from dataprep_operator.objects.observed import Observed
from dataprep_operator.objects.pods import CODE_CONTAINER, CONTAINER
from dataprep_operator.settings import PodDefaults

MOUNTS: Final = "/etc/dataprep"
CODE_FOLDER: Final = f"{MOUNTS}/code"
JOB_FILE: Final = "job.yaml"
TOKEN_FOLDER: Final = "/var/run/secrets/dataprep"  # noqa: S105 - a folder
TOKEN_SECONDS: Final = 3600
PLAN: Final = "plan"
CONVERT: Final = "convert"
"""The step whose pods may have devices. The pods of the other steps would leave their GPUs idle."""
CODE_SIZE: Final = "4Gi"
"""Size limit of code from Git."""


def pod_template(
    observed: Observed,
    spec: DataPrepJobSpec,
    *,
    step: str,
    attempt: int,
    arguments: Sequence[str],
    gpu: bool,
    memory: str | None = None,
    code_commit: str | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
    defaults: PodDefaults,
) -> Body:
    """Return the pod template of one step. `variables` are additional environment variables."""
    workers, template = spec.workers, spec.workers.pod_template
    volumes, mounts = _volumes(observed, spec, step=step, defaults=defaults)
    container = {
        "name": CONTAINER,
        "image": workers.image or defaults.image,
        "command": ["dataprep"],
        "args": list(arguments),
        "env": [*_to_json(workers.env), *_environment(observed, spec, variables, step=step, attempt=attempt, defaults=defaults)],
        "resources": _resources(spec, step=step, devices=step == CONVERT, gpu=gpu, memory=memory, defaults=defaults),
        "volumeMounts": [*mounts, *_to_json(workers.volume_mounts)],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    # The user's init containers run first, because one of them may be the proxy through which the code is fetched.
    init_containers = [
        *_harden(_to_json(template.init_containers)),
        *_code_containers(spec, container, step=step, commit=code_commit, memory=memory, defaults=defaults),
    ]
    pull_policy = workers.image_pull_policy or defaults.image_pull_policy
    return {
        "metadata": {
            "labels": dict(template.labels or {}) | owned_labels(observed, step=step, attempt=attempt),
            "annotations": {"kubectl.kubernetes.io/default-container": CONTAINER} | dict(template.annotations or {}),
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": _security_context(defaults),
            "containers": [container | ({"imagePullPolicy": pull_policy} if pull_policy else {})],
            "volumes": [*volumes, *_git_secret(spec), *_to_json(workers.volumes)],
            **_optional_fields(spec, init_containers, gpu=gpu, defaults=defaults),
        },
    }


def _optional_fields(spec: DataPrepJobSpec, init_containers: Sequence[Body], *, gpu: bool, defaults: PodDefaults) -> Body:
    """Return the fields of the pod spec that are omitted when they are empty."""
    workers, template = spec.workers, spec.workers.pod_template
    fields = {
        "affinity": _affinity(spec, gpu=gpu, defaults=defaults),
        "nodeSelector": _node_selector(spec, gpu=gpu, defaults=defaults),
        "tolerations": _tolerations(spec, gpu=gpu, defaults=defaults),
        "imagePullSecrets": _to_json(workers.image_pull_secrets) or [dict(secret) for secret in defaults.image_pull_secrets],
        "serviceAccountName": workers.service_account_name,
        "priorityClassName": workers.priority_class_name,
        "initContainers": list(init_containers),
        "topologySpreadConstraints": _to_json(template.topology_spread_constraints),
        "hostAliases": _to_json(template.host_aliases),
        "runtimeClassName": template.runtime_class_name,
        "schedulerName": template.scheduler_name,
        "dnsConfig": template.dns_config and _to_json([template.dns_config])[0],
        "terminationGracePeriodSeconds": template.termination_grace_period_seconds,
    }
    return {key: value for key, value in fields.items() if value not in (None, [], {})}


def _harden(containers: Sequence[Body]) -> list[Body]:
    """Add security defaults to the user's containers, for the fields that the containers don't set.

    The module `privileges` limits the values that the containers may set.
    """
    contexts = [(container, container.get("securityContext") or {}) for container in containers]
    # A security context that isn't a mapping is left unchanged, because the API server rejects it.
    return [
        container | {"securityContext": _default_context(context) | context} if isinstance(context, dict) else container
        for container, context in contexts
    ]


def _default_context(context: Body) -> Body:
    """Return the security defaults for a user's container.

    `allowPrivilegeEscalation: false` is left out for a container with extra privileges, because the API server rejects that combination.
    """
    has_more_privileges = context.get("privileged") or untrusted.mapping(context.get("capabilities")).get("add")
    return {"capabilities": {"drop": ["ALL"]}} | ({} if has_more_privileges else {"allowPrivilegeEscalation": False})


def _security_context(defaults: PodDefaults) -> Body:
    user = defaults.run_as_user
    # fsGroup makes volumes writable if they support it. OnRootMismatch skips volumes that already have this group.
    user_fields = {} if user is None else {"runAsUser": user, "runAsGroup": user, "fsGroup": user}
    fixed_fields = {"runAsNonRoot": True, "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"}}
    return fixed_fields | user_fields | dict(defaults.pod_security_context)


def _affinity(spec: DataPrepJobSpec, *, gpu: bool, defaults: PodDefaults) -> Body:
    """Return the job's affinity. Pods without GPUs also avoid the nodes that match `cpu_avoid_nodes`."""
    affinity: Body = _to_json([spec.workers.affinity])[0] if spec.workers.affinity is not None else {}
    avoid_expressions = [{"key": key, "operator": "NotIn", "values": [value]} for key, value in sorted(defaults.cpu_avoid_nodes.items())]
    if gpu or not avoid_expressions:
        return affinity
    nodes = affinity.get("nodeAffinity") or {}
    required = nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    # Terms are alternatives, so the labels to avoid are added to each term. An empty term matches no node and must stay empty.
    terms = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or []), *avoid_expressions]} if any(term.values()) else term
        for term in required.get("nodeSelectorTerms") or []
    ] or [{"matchExpressions": avoid_expressions}]
    return affinity | {"nodeAffinity": nodes | {"requiredDuringSchedulingIgnoredDuringExecution": required | {"nodeSelectorTerms": terms}}}


def _code_containers(
    spec: DataPrepJobSpec, converter: Body, *, step: str, commit: str | None, memory: str | None, defaults: PodDefaults
) -> list[Body]:
    """Return the init container that fetches code from Git, if the job uses code from Git.

    The plan step fetches the ref in the spec. Later steps fetch the commit to which the plan step resolved this ref.
    """
    git = spec.code.git if spec.code is not None else None
    if git is None:
        return []
    needed_paths = {f"{MOUNTS}/{JOB_FILE}", CODE_FOLDER, "/tmp"}  # noqa: S108 - a path in the pod
    secret = [{"name": "dataprep-git", "mountPath": f"{MOUNTS}/git", "readOnly": True}] if git.secret_ref is not None else []
    inherited_fields = {key: value for key, value in converter.items() if key in ("image", "command", "securityContext")}
    return [
        inherited_fields
        | {
            "name": CODE_CONTAINER,
            "args": ["fetch-code", "--job", f"{MOUNTS}/{JOB_FILE}", "--into", CODE_FOLDER, *(["--commit", commit] if commit else [])],
            # The user's variables are included, because they may set a proxy or certificates.
            "env": [*_to_json(spec.workers.env), {"name": "DATAPREP_MOUNTS", "value": MOUNTS}],
            "resources": _resources(spec, step=step, devices=False, gpu=False, memory=memory, defaults=defaults),
            "volumeMounts": [*(mount for mount in converter["volumeMounts"] if mount["mountPath"] in needed_paths), *secret],
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "FallbackToLogsOnError",
            **({"imagePullPolicy": pull_policy} if (pull_policy := spec.workers.image_pull_policy or defaults.image_pull_policy) else {}),
        }
    ]


def _git_secret(spec: DataPrepJobSpec) -> list[Body]:
    git = spec.code.git if spec.code is not None else None
    if git is None or git.secret_ref is None:
        return []
    return [{"name": "dataprep-git", "secret": {"secretName": git.secret_ref.name, "optional": False}}]


def _environment(
    observed: Observed, spec: DataPrepJobSpec, more: Mapping[str, str], *, step: str, attempt: int, defaults: PodDefaults
) -> list[Body]:
    variables = {
        "DATAPREP_MOUNTS": MOUNTS,
        "DATAPREP_CODE": code_folder(spec) or "",
        "DATAPREP_CODE_COMMIT_FILE": f"{CODE_FOLDER}/.dataprep-commit" if spec.code is not None and spec.code.git is not None else "",
        "DATAPREP_JOB_NAME": observed.key.name,
        "DATAPREP_ATTEMPT": str(attempt),
        "DATAPREP_STATUS_URL": defaults.status_url or "",
        "DATAPREP_STATUS_TOKEN_FILE": f"{TOKEN_FOLDER}/token" if defaults.status_url else "",
        **(lineage.variables(defaults.lineage, observed.key, uid=observed.uid, attempt=attempt) if job_steps.has_single_pod(step) else {}),
        **more,
    }
    own_name = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    return [*({"name": key, "value": value} for key, value in variables.items() if value), own_name]


def code_folder(spec: DataPrepJobSpec) -> str | None:
    """Return the folder with the files of `spec.code`, if the job has this field."""
    if spec.code is None:
        return None
    sub_path = spec.code.git.sub_path if spec.code.git is not None else None
    return f"{CODE_FOLDER}/{sub_path}" if sub_path else CODE_FOLDER


def tmp_size(spec: DataPrepJobSpec, defaults: PodDefaults, *, step: str) -> str | None:
    """Return the size limit of `/tmp` in a step's pods: their ephemeral-storage limit, or else the limit from the chart."""
    limit = (_requested_resources(spec, defaults, step=step).get("limits") or {}).get("ephemeral-storage")
    return str(limit) if limit is not None else defaults.tmp_size


def _size_limit(size: str | None) -> Body:
    return {"sizeLimit": size} if size else {}


def _volumes(observed: Observed, spec: DataPrepJobSpec, *, step: str, defaults: PodDefaults) -> tuple[list[Body], list[Body]]:
    token = {"serviceAccountToken": {"path": "token", "audience": TOKEN_AUDIENCE, "expirationSeconds": TOKEN_SECONDS}}
    volumes: list[Body] = [
        {"name": "dataprep-spec", "configMap": {"name": spec_config_map_name(observed)}},
        {"name": "dataprep-token", "projected": {"sources": [token]}},
        {"name": "dataprep-tmp", "emptyDir": _size_limit(tmp_size(spec, defaults, step=step))},
    ]
    mounts: list[Body] = [
        # Only the file is mounted, because its folder also contains the stores' mounted folders.
        {"name": "dataprep-spec", "mountPath": f"{MOUNTS}/{JOB_FILE}", "subPath": JOB_FILE, "readOnly": True},
        {"name": "dataprep-token", "mountPath": TOKEN_FOLDER, "readOnly": True},
        {"name": "dataprep-tmp", "mountPath": "/tmp"},  # noqa: S108 - a path in the pod
    ]
    if spec.code is not None and spec.code.config_map_ref is not None:
        volumes.append({"name": "dataprep-code", "configMap": {"name": spec.code.config_map_ref.name, "optional": False}})
        mounts.append({"name": "dataprep-code", "mountPath": CODE_FOLDER, "readOnly": True})
    if spec.code is not None and spec.code.git is not None:
        volumes.append({"name": "dataprep-code", "emptyDir": _size_limit(CODE_SIZE)})
        mounts.append({"name": "dataprep-code", "mountPath": CODE_FOLDER})
    for i, store in enumerate(spec.stores or []):
        if store.secret_ref is not None:
            volumes.append({"name": f"dataprep-secret-{i}", "secret": {"secretName": store.secret_ref.name, "optional": False}})
            mounts.append({"name": f"dataprep-secret-{i}", "mountPath": f"{MOUNTS}/secrets/{i}", "readOnly": True})
        if store.config_map_ref is not None:
            volumes.append({"name": f"dataprep-hadoop-{i}", "configMap": {"name": store.config_map_ref.name, "optional": False}})
            mounts.append({"name": f"dataprep-hadoop-{i}", "mountPath": f"{MOUNTS}/hadoop/{i}", "readOnly": True})
    return volumes, mounts


def memory_limit(spec: DataPrepJobSpec, defaults: PodDefaults, *, step: str) -> int | None:
    """Return the memory limit of a step's pods in bytes, from the job or the chart, or None if there is no limit."""
    limit = (_requested_resources(spec, defaults, step=step).get("limits") or {}).get("memory")
    return int(quantity.to_number(limit)) if limit is not None else None


def has_devices(spec: DataPrepJobSpec, defaults: PodDefaults) -> bool:
    """Return whether the converter pods get devices. The pods of the other steps never get devices."""
    requested = _requested_resources(spec, defaults, step=CONVERT).values()
    return spec.workers.accelerator.policy != "None" or any(_is_device(name) for amounts in requested for name in amounts)


def _is_device(resource: str) -> bool:
    """Return whether a resource is a device. The names of devices contain a domain, as in `nvidia.com/gpu`."""
    return "/" in resource


def planning_resources(spec: DataPrepJobSpec) -> Resources | None:
    """Return the job's `planning.resources`, which apply to the pods of steps with a single pod, or None if they aren't set."""
    return spec.planning.resources if spec.planning is not None else None


def _requested_resources(spec: DataPrepJobSpec, defaults: PodDefaults, *, step: str) -> Body:
    engine = spec.engine if step == PLAN else None
    requested = (planning_resources(spec) if job_steps.has_single_pod(step) and engine is None else None) or spec.workers.resources
    resources: Body = (
        requested.model_dump(mode="json", by_alias=True, exclude_none=True)
        if requested
        else json.loads(json.dumps(dict(defaults.resources)))
    )
    return _resources_for_spark(engine.spark, resources) if engine is not None else resources


def _resources_for_spark(spark: Spark, resources: Body) -> Body:
    """Return the resources of a Spark pod.

    The engine determines CPU and memory. Other resources, such as disk, are the same as in converter pods.
    """
    memory = str(spark.pod_bytes)
    requests = dict(resources.get("requests", {})) | {"cpu": str(spark.executor.cores), "memory": memory}
    limits = {name: amount for name, amount in resources.get("limits", {}).items() if name != "cpu"} | {"memory": memory}
    return {"requests": requests, "limits": limits}


def _resources(spec: DataPrepJobSpec, *, step: str, devices: bool, gpu: bool, memory: str | None, defaults: PodDefaults) -> Body:
    accelerator = spec.workers.accelerator
    unused_device = accelerator.resource_name if accelerator.policy != "None" and not gpu else None
    resources: Body = {
        kind: kept_amounts
        for kind, amounts in _requested_resources(spec, defaults, step=step).items()
        if (
            kept_amounts := {
                name: amount for name, amount in amounts.items() if name != unused_device and (devices or not _is_device(name))
            }
        )
    }
    if memory is not None:
        # Raise the request too, so that the scheduler finds a node with enough memory.
        for kind in ("requests", "limits"):
            resources[kind] = resources.get(kind, {}) | {"memory": memory}
    if gpu and accelerator.count:
        resources["limits"] = resources.get("limits", {}) | {accelerator.resource_name: str(accelerator.count)}
    return resources


def _node_selector(spec: DataPrepJobSpec, *, gpu: bool, defaults: PodDefaults) -> dict[str, str]:
    if gpu:
        gpu_selector = spec.workers.accelerator.node_selector
        return dict(gpu_selector if gpu_selector is not None else defaults.gpu_node_selector)
    return dict(spec.workers.node_selector if spec.workers.node_selector is not None else defaults.cpu_node_selector)


def _tolerations(spec: DataPrepJobSpec, *, gpu: bool, defaults: PodDefaults) -> list[Body]:
    general = spec.workers.tolerations
    tolerations = _to_json(general) if general is not None else [dict(toleration) for toleration in defaults.cpu_tolerations]
    if gpu:
        gpu_tolerations = spec.workers.accelerator.tolerations
        tolerations += (
            _to_json(gpu_tolerations) if gpu_tolerations is not None else [dict(toleration) for toleration in defaults.gpu_tolerations]
        )
    tolerated_keys = {toleration.get("key") for toleration in tolerations}
    return [*tolerations, *(toleration for toleration in _LOST_NODE_TOLERATIONS if toleration["key"] not in tolerated_keys)]


# By default Kubernetes waits five minutes for a lost node. For this operator's pods, one minute is enough, because two pods can safely
# write the same bytes.
LOST_NODE_SECONDS: Final = 60
_LOST_NODE_TOLERATIONS: Final[tuple[Body, ...]] = tuple(
    {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": LOST_NODE_SECONDS}
    for state in ("not-ready", "unreachable")
)


def _to_json(models: Sequence[Any] | None) -> list[Body]:
    """Convert models to the API's JSON. The items are typed as Any, because they may be `Model` or `Open` objects."""
    return [model.model_dump(mode="json", by_alias=True, exclude_none=True) for model in models or []]
