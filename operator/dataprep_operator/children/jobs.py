"""The children of a DataPrepJob as Kubernetes objects: the ConfigMap with its spec, and the plan, convert and commit Jobs.

Pure: the same job gives the same objects under the same names, whoever asks and however often. The bodies are the API's own
JSON, which is why they are typed with Any.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dataprep_api import API_VERSION, KIND, canonical, names, quantity
from dataprep_api.dataset.messages import TOKEN_AUDIENCE
from dataprep_api.exits import Exit
from dataprep_api.resources import chaining
from dataprep_api.resources.status import FromJob
from dataprep_api.spec import DataPrepJobSpec, Model
from dataprep_operator.children import scripts
from dataprep_operator.errors import SpecUnreadable
from dataprep_operator.objects import ranges, untrusted
from dataprep_operator.objects.child_jobs import (
    ANNOTATION_PLAN,
    ANNOTATION_SPEC,
    ANNOTATION_SUSPEND,
    ANNOTATION_TASKS,
    CLEANUP,
    QUEUE_LABEL,
    RESUMED,
)
from dataprep_operator.objects.observed import Observed
from dataprep_operator.objects.pods import CODE_CONTAINER, CONTAINER
from dataprep_operator.settings import PodDefaults

Body = dict[str, Any]

MOUNTS: Final = "/etc/dataprep"
CODE_FOLDER: Final = f"{MOUNTS}/code"
JOB_FILE: Final = "job.yaml"
TOKEN_FOLDER: Final = "/var/run/secrets/dataprep"  # noqa: S105 - a folder
TOKEN_SECONDS: Final = 3600
CODE_SIZE: Final = "4Gi"
"""The most that code from Git may take."""
# Linux refuses a longer single argument; without the list all tasks run, and finished shards are skipped.
MOST_TASKS_TEXT: Final = 100_000
# Above it the API server wants maxFailedIndexes, at most this many.
MANY_INDEXES: Final = 100_000
MOST_FAILED_INDEXES: Final = 10_000


def name(observed: Observed, step: str, attempt: int) -> str:
    """`<base>-plan`, `<base>-plan-2`, `<base>-convert-1`, `<base>-commit-1`, `<base>-cleanup`."""
    base = observed.child_prefix
    return f"{base}-{step}" if step in ("plan", CLEANUP) and attempt <= 1 else f"{base}-{step}-{attempt}"


def spec_config_map(observed: Observed, from_job: FromJob | None) -> Body:
    """The immutable ConfigMap with the job as the run sees it: what `fromJob` stands for is in its place."""
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": observed.key.name, "namespace": observed.key.namespace, "uid": observed.uid},
        "spec": chaining.resolved(observed.raw_spec, from_job),
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": owned_metadata(observed, spec_config_map_name(observed), labels=owned_labels(observed)),
        "immutable": True,
        "data": {JOB_FILE: json.dumps(document, separators=(",", ":"), sort_keys=True)},
    }


def read_spec(config_map: Mapping[str, Any]) -> Body:
    """The spec in that ConfigMap. Raises SpecUnreadable."""
    text = untrusted.text(untrusted.mapping(config_map.get("data")).get(JOB_FILE))
    try:
        spec = untrusted.mapping(json.loads(text)).get("spec")
    except (ValueError, RecursionError):
        spec = None
    if not isinstance(spec, dict):
        raise SpecUnreadable(
            f"the ConfigMap {config_map['metadata']['name']} holds no spec in {JOB_FILE}; delete it, and it is made again."
        )
    return spec


def with_spec_digest(job: Body, spec: Mapping[str, Any]) -> Body:
    """The Job with the digest of the spec that its pods get, so that a later operator need not read the ConfigMap."""
    metadata = job["metadata"]
    annotations = {**metadata.get("annotations", {}), ANNOTATION_SPEC: canonical.sha256(spec)}
    return {**job, "metadata": {**metadata, "annotations": annotations}}


def spec_config_map_name(observed: Observed) -> str:
    """Name of the ConfigMap."""
    return f"{observed.child_prefix}-spec"


def plan_job(observed: Observed, spec: DataPrepJobSpec, *, attempt: int, memory: str | None = None, defaults: PodDefaults) -> Body:
    """The plan step: one pod that lists the input, divides it, and checks every right before a worker starts."""
    # The plan step retries an unreachable store by itself; when it gives up, the user should know at once.
    final = (Exit.BAD_SPEC, Exit.BAD_DATA, Exit.UNREACHABLE, Exit.NOT_FOUND)
    arguments = ["plan", "--job", f"{MOUNTS}/{JOB_FILE}"]
    pod = _pod(observed, spec, step="plan", attempt=attempt, arguments=arguments, gpu=False, memory=memory, defaults=defaults)
    return _single_pod_job(observed, spec, step="plan", attempt=attempt, pod=pod, final=final)


def commit_job(
    observed: Observed,
    spec: DataPrepJobSpec,
    *,
    run_id: str,
    plan_sha256: str,
    attempt: int,
    memory: str | None = None,
    defaults: PodDefaults,
    code_commit: str | None = None,
) -> Body:
    """The commit step: one pod that checks every shard and writes the manifest and `_SUCCESS`."""
    final = (Exit.BAD_SPEC, Exit.BAD_DATA, Exit.NOT_FOUND)
    arguments = ["commit", "--job", f"{MOUNTS}/{JOB_FILE}", "--run", run_id, "--plan-sha256", plan_sha256]
    pod = _pod(
        observed,
        spec,
        step="commit",
        attempt=attempt,
        arguments=arguments,
        gpu=False,
        memory=memory,
        code_commit=code_commit,
        defaults=defaults,
    )
    return _single_pod_job(observed, spec, step="commit", attempt=attempt, pod=pod, final=final)


def cleanup_job(observed: Observed, spec: DataPrepJobSpec, *, runs: Sequence[str], defaults: PodDefaults) -> Body:
    """The removal of a deleted job's output: one pod."""
    arguments = ["remove", "--job", f"{MOUNTS}/{JOB_FILE}", *(word for run in runs for word in ("--run", run))]
    bare = spec.model_copy(update={"code": None})  # it may be gone, and isn't needed
    pod = _pod(observed, bare, step=CLEANUP, attempt=1, arguments=arguments, gpu=False, defaults=defaults)
    return _single_pod_job(observed, bare, step=CLEANUP, attempt=1, pod=pod, final=(Exit.BAD_SPEC, Exit.NOT_FOUND))


def convert_job(
    observed: Observed,
    spec: DataPrepJobSpec,
    *,
    run_id: str,
    plan_sha256: str,
    tasks: int,
    only: Sequence[int],
    attempt: int,
    gpu: bool,
    memory: str | None,
    defaults: PodDefaults,
    code_commit: str | None = None,
) -> Body:
    """The conversion: an Indexed Job with one index for each task, or for each of `only` these tasks when it isn't empty."""
    listed = ranges.write(only)
    listed = listed if len(listed) <= MOST_TASKS_TEXT else ""
    completions = len(set(only)) if listed else tasks
    arguments = ["work", "--job", f"{MOUNTS}/{JOB_FILE}", "--run", run_id, "--plan-sha256", plan_sha256, "--attempt", str(attempt)]
    pod = _pod(
        observed,
        spec,
        step="convert",
        attempt=attempt,
        arguments=arguments + (["--tasks", listed] if listed else []),
        gpu=gpu,
        memory=memory,
        code_commit=code_commit,
        defaults=defaults,
    )
    if spec.script is not None:
        pod = scripts.pod(pod, spec, spec.script, run_id=run_id, code=_code_folder(spec), defaults=defaults)
    annotations = dict(observed.queue_annotations) | {ANNOTATION_PLAN: plan_sha256} | ({ANNOTATION_TASKS: listed} if listed else {})
    body = {
        "completionMode": "Indexed",
        "completions": completions,
        "parallelism": parallelism(spec, completions),
        "backoffLimitPerIndex": spec.backoff_limit_per_index,
        "podFailurePolicy": {"rules": [*_IGNORED_FAILURES, *_code_failure_rules(spec), *_final_failure_rules(spec)]},
        "podReplacementPolicy": "Failed",
        # A queue starts the Job when it is admitted; until then no pod may exist.
        "suspend": bool(observed.queue),
        "template": pod,
    }
    most_failed = spec.max_failed_indexes
    if most_failed is None and completions > MANY_INDEXES:
        most_failed = MOST_FAILED_INDEXES
    if most_failed is not None:
        body["maxFailedIndexes"] = min(most_failed, completions)
    labelled = owned_labels(observed, step="convert", attempt=attempt) | dict(observed.queue_labels)
    return _job(owned_metadata(observed, name(observed, "convert", attempt), labels=labelled, annotations=annotations), body)


def _final_failure_rules(spec: DataPrepJobSpec) -> list[Body]:
    """What an exit code of the converter ends without another try. Those of a user's program mean nothing to us."""
    if spec.script is not None:
        return []
    if spec.on_bad_record.policy == "Fail":
        return [_on_exit("FailJob", Exit.BAD_SPEC, Exit.NOT_FOUND, Exit.BAD_DATA)]
    return [_on_exit("FailJob", Exit.BAD_SPEC, Exit.NOT_FOUND), _on_exit("FailIndex", Exit.BAD_DATA)]


def parallelism(spec: DataPrepJobSpec, completions: int) -> int:
    """Pods at the same time: as many as asked for, and no more than there are tasks."""
    return min(spec.workers.parallelism, max(1, completions))


# --- Jobs -----------------------------------------------------------------------------------------------------------------

# An eviction, a lost node and a pod that was told to stop (a deletion, a drain, a suspension) say nothing about the data. `evictions` counts the
# first; where nobody told a pod to stop, `steps` counts its 143 as a failure.
# No rule on 137: a kill and a lack of memory share it.
_IGNORED_FAILURES: Final[tuple[Body, ...]] = (
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {"action": "Ignore", "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [int(Exit.TERMINATED)]}},
)


def _on_exit(action: str, *codes: Exit, container: str = CONTAINER) -> Body:
    return {"action": action, "onExitCodes": {"containerName": container, "operator": "In", "values": sorted(int(code) for code in codes)}}


def _code_failure_rules(spec: DataPrepJobSpec) -> list[Body]:
    """What ends a step before it begins: code that isn't there, or may not be read."""
    if spec.code is None or spec.code.git is None:
        return []
    return [_on_exit("FailJob", Exit.BAD_SPEC, Exit.NOT_FOUND, container=CODE_CONTAINER)]


def _single_pod_job(observed: Observed, spec: DataPrepJobSpec, *, step: str, attempt: int, pod: Body, final: Sequence[Exit]) -> Body:
    body = {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": spec.backoff_limit,
        "podFailurePolicy": {"rules": [*_IGNORED_FAILURES, *_code_failure_rules(spec), _on_exit("FailJob", *final)]},
        "podReplacementPolicy": "Failed",
        "template": pod,
    }
    return _job(owned_metadata(observed, name(observed, step, attempt), labels=owned_labels(observed, step=step, attempt=attempt)), body)


def _job(metadata: Body, spec: Body) -> Body:
    if QUEUE_LABEL not in metadata["labels"]:
        metadata = metadata | {"annotations": metadata.get("annotations", {}) | suspend_annotation(suspend=False)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def suspend_annotation(*, suspend: bool, resumed: bool = False) -> dict[str, str]:
    """What the operator asks of a Job, on the Job. `again`: somebody else had suspended it, and the operator starts it."""
    return {ANNOTATION_SUSPEND: RESUMED if resumed and not suspend else str(suspend).lower()}


def owned_metadata(observed: Observed, own_name: str, *, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None) -> Body:
    """Metadata of an object that belongs to the job and goes with it."""
    return {
        "name": own_name,
        "namespace": observed.key.namespace,
        "labels": dict(labels),
        **({"annotations": dict(annotations)} if annotations else {}),
        # Deletion in the background follows this line: pods and Jobs go at once, the output stays.
        "ownerReferences": [{"apiVersion": API_VERSION, "kind": KIND, "name": observed.key.name, "uid": observed.uid, "controller": True}],
    }


def owned_labels(observed: Observed, *, step: str | None = None, attempt: int = 0) -> dict[str, str]:
    """Labels of everything that belongs to the job."""
    common = {
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_JOB: names.label_value(observed.key.name),
        names.LABEL_JOB_UID: observed.uid,
    }
    return common | ({names.LABEL_STEP: step, names.LABEL_ATTEMPT: str(attempt)} if step else {})


# --- pods -----------------------------------------------------------------------------------------------------------------


def _pod(
    observed: Observed,
    spec: DataPrepJobSpec,
    *,
    step: str,
    attempt: int,
    arguments: Sequence[str],
    gpu: bool,
    memory: str | None = None,
    code_commit: str | None = None,
    defaults: PodDefaults,
) -> Body:
    workers, template = spec.workers, spec.workers.pod_template
    volumes, mounts = _volumes(observed, spec, defaults=defaults)
    container = {
        "name": CONTAINER,
        "image": workers.image or defaults.image,
        "command": ["dataprep"],
        "args": list(arguments),
        "env": [*_to_json(workers.env), *_environment(observed, spec, attempt=attempt, defaults=defaults)],
        "resources": _resources(spec, step=step, gpu=gpu, memory=memory, defaults=defaults),
        "volumeMounts": [*mounts, *_to_json(workers.volume_mounts)],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    pull_policy = workers.image_pull_policy or defaults.image_pull_policy
    optional = {
        "affinity": _affinity(spec, gpu=gpu, defaults=defaults),
        "nodeSelector": _node_selector(spec, gpu=gpu, defaults=defaults),
        "tolerations": _tolerations(spec, gpu=gpu, defaults=defaults),
        "imagePullSecrets": _to_json(workers.image_pull_secrets) or [dict(each) for each in defaults.image_pull_secrets],
        "serviceAccountName": workers.service_account_name,
        "priorityClassName": workers.priority_class_name,
        # The users' first: a proxy may be what the code is fetched through.
        "initContainers": [
            *_harden(_to_json(template.init_containers)),
            *_code_containers(spec, container, commit=code_commit, memory=memory, defaults=defaults),
        ],
        "topologySpreadConstraints": _to_json(template.topology_spread_constraints),
        "hostAliases": _to_json(template.host_aliases),
        "runtimeClassName": template.runtime_class_name,
        "schedulerName": template.scheduler_name,
        "dnsConfig": template.dns_config and _to_json([template.dns_config])[0],
        "terminationGracePeriodSeconds": template.termination_grace_period_seconds,
    }
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
            **{key: value for key, value in optional.items() if value not in (None, [], {})},
        },
    }


def _harden(containers: Sequence[Body]) -> list[Body]:
    """The users' containers with what ours have as well, where they say nothing. What they may say, `privileges` tells."""
    given = [(each, each.get("securityContext") or {}) for each in containers]
    # What is no mapping the API server refuses, in its own words.
    return [
        each | {"securityContext": _default_context(context) | context} if isinstance(context, dict) else each for each, context in given
    ]


def _default_context(context: Body) -> Body:
    """What a container's securityContext gets, where it says nothing of it. The API server refuses more privileges without their escalation."""
    may_more = context.get("privileged") or untrusted.mapping(context.get("capabilities")).get("add")
    return {"capabilities": {"drop": ["ALL"]}} | ({} if may_more else {"allowPrivilegeEscalation": False})


def _security_context(defaults: PodDefaults) -> Body:
    user = defaults.run_as_user
    # The group lets the pod write to volumes that support it; a volume that has it already is left alone.
    own = {} if user is None else {"runAsUser": user, "runAsGroup": user, "fsGroup": user}
    rest = {"runAsNonRoot": True, "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"}}
    return rest | own | dict(defaults.pod_security_context)


def _affinity(spec: DataPrepJobSpec, *, gpu: bool, defaults: PodDefaults) -> Body:
    """The job's own, and for pods without GPUs that they keep off the nodes that the installation names."""
    own: Body = _to_json([spec.workers.affinity])[0] if spec.workers.affinity is not None else {}
    avoided = [{"key": key, "operator": "NotIn", "values": [value]} for key, value in sorted(defaults.cpu_avoid_nodes.items())]
    if gpu or not avoided:
        return own
    nodes = own.get("nodeAffinity") or {}
    required = nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    # Terms are alternatives, so each is narrowed. An empty one matches no node, and has to stay empty.
    terms = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or []), *avoided]} if any(term.values()) else term
        for term in required.get("nodeSelectorTerms") or []
    ] or [{"matchExpressions": avoided}]
    return own | {"nodeAffinity": nodes | {"requiredDuringSchedulingIgnoredDuringExecution": required | {"nodeSelectorTerms": terms}}}


def _code_containers(
    spec: DataPrepJobSpec, converter: Body, *, commit: str | None, memory: str | None, defaults: PodDefaults
) -> list[Body]:
    """The init container that fetches the code of Git: by its reference while planning, later the commit that this was."""
    git = spec.code.git if spec.code is not None else None
    if git is None:
        return []
    needed = {f"{MOUNTS}/{JOB_FILE}", CODE_FOLDER, "/tmp"}  # noqa: S108 - the pod's own
    secret = [{"name": "dataprep-git", "mountPath": f"{MOUNTS}/git", "readOnly": True}] if git.secret_ref is not None else []
    kept = {key: value for key, value in converter.items() if key in ("image", "command", "securityContext")}
    return [
        kept
        | {
            "name": CODE_CONTAINER,
            "args": ["fetch-code", "--job", f"{MOUNTS}/{JOB_FILE}", "--into", CODE_FOLDER, *(["--commit", commit] if commit else [])],
            # The users' own variables too: a proxy, or certificates.
            "env": [*_to_json(spec.workers.env), {"name": "DATAPREP_MOUNTS", "value": MOUNTS}],
            "resources": _resources(spec, step="fetch-code", gpu=False, memory=memory, defaults=defaults),
            "volumeMounts": [*(each for each in converter["volumeMounts"] if each["mountPath"] in needed), *secret],
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "FallbackToLogsOnError",
            **({"imagePullPolicy": pull} if (pull := spec.workers.image_pull_policy or defaults.image_pull_policy) else {}),
        }
    ]


def _git_secret(spec: DataPrepJobSpec) -> list[Body]:
    git = spec.code.git if spec.code is not None else None
    if git is None or git.secret_ref is None:
        return []
    return [{"name": "dataprep-git", "secret": {"secretName": git.secret_ref.name, "optional": False}}]


def _environment(observed: Observed, spec: DataPrepJobSpec, *, attempt: int, defaults: PodDefaults) -> list[Body]:
    known = {
        "DATAPREP_MOUNTS": MOUNTS,
        "DATAPREP_CODE": _code_folder(spec) or "",
        "DATAPREP_CODE_COMMIT_FILE": f"{CODE_FOLDER}/.dataprep-commit" if spec.code is not None and spec.code.git is not None else "",
        "DATAPREP_JOB_NAME": observed.key.name,
        "DATAPREP_ATTEMPT": str(attempt),
        "DATAPREP_STATUS_URL": defaults.status_url or "",
        "DATAPREP_STATUS_TOKEN_FILE": f"{TOKEN_FOLDER}/token" if defaults.status_url else "",
    }
    own_name = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    return [*({"name": key, "value": value} for key, value in known.items() if value), own_name]


def _code_folder(spec: DataPrepJobSpec) -> str | None:
    """Where a pod has the files of `spec.code`."""
    if spec.code is None:
        return None
    sub_path = spec.code.git.sub_path if spec.code.git is not None else None
    return f"{CODE_FOLDER}/{sub_path}" if sub_path else CODE_FOLDER


def tmp_size(spec: DataPrepJobSpec, defaults: PodDefaults) -> str | None:
    """The most that a pod may lay by in `/tmp`: what the job says that it may use of the node's disk, else what the chart says."""
    limit = (_requested_resources(spec, defaults).get("limits") or {}).get("ephemeral-storage")
    return str(limit) if limit is not None else defaults.tmp_size


def _size_limit(size: str | None) -> Body:
    return {"sizeLimit": size} if size else {}


def _volumes(observed: Observed, spec: DataPrepJobSpec, *, defaults: PodDefaults) -> tuple[list[Body], list[Body]]:
    token = {"serviceAccountToken": {"path": "token", "audience": TOKEN_AUDIENCE, "expirationSeconds": TOKEN_SECONDS}}
    volumes: list[Body] = [
        {"name": "dataprep-spec", "configMap": {"name": spec_config_map_name(observed)}},
        {"name": "dataprep-token", "projected": {"sources": [token]}},
        {"name": "dataprep-tmp", "emptyDir": _size_limit(tmp_size(spec, defaults))},
    ]
    mounts: list[Body] = [
        # One file, not the folder: the folders of the stores are mounted beside it.
        {"name": "dataprep-spec", "mountPath": f"{MOUNTS}/{JOB_FILE}", "subPath": JOB_FILE, "readOnly": True},
        {"name": "dataprep-token", "mountPath": TOKEN_FOLDER, "readOnly": True},
        {"name": "dataprep-tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
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


def memory_limit(spec: DataPrepJobSpec, defaults: PodDefaults) -> int | None:
    """Bytes that a converter pod may use by its spec or the chart's defaults; None without a limit."""
    limit = (_requested_resources(spec, defaults).get("limits") or {}).get("memory")
    return quantity.to_bytes(limit) if limit is not None else None


def _requested_resources(spec: DataPrepJobSpec, defaults: PodDefaults) -> Body:
    wanted = spec.workers.resources
    found: Body = (
        wanted.model_dump(mode="json", by_alias=True, exclude_none=True) if wanted else json.loads(json.dumps(dict(defaults.resources)))
    )
    return found


def _resources(spec: DataPrepJobSpec, *, step: str, gpu: bool, memory: str | None, defaults: PodDefaults) -> Body:
    accelerator = spec.workers.accelerator
    fell_back = accelerator.resource_name if accelerator.policy != "None" and not gpu else None
    # Devices, whose names have a domain, are for the conversion alone: a plan would wait for a GPU, and then let it idle.
    resources: Body = {
        kind: kept
        for kind, amounts in _requested_resources(spec, defaults).items()
        if (kept := {name: amount for name, amount in amounts.items() if name != fell_back and (step == "convert" or "/" not in name)})
    }
    if memory is not None:
        # The request too: a pod that needs more shall be put where more is free.
        for kind in ("requests", "limits"):
            resources[kind] = resources.get(kind, {}) | {"memory": memory}
    if gpu and accelerator.count:
        resources["limits"] = resources.get("limits", {}) | {accelerator.resource_name: str(accelerator.count)}
    return resources


def _node_selector(spec: DataPrepJobSpec, *, gpu: bool, defaults: PodDefaults) -> dict[str, str]:
    if gpu:
        own = spec.workers.accelerator.node_selector
        return dict(own if own is not None else defaults.gpu_node_selector)
    return dict(spec.workers.node_selector if spec.workers.node_selector is not None else defaults.cpu_node_selector)


def _tolerations(spec: DataPrepJobSpec, *, gpu: bool, defaults: PodDefaults) -> list[Body]:
    general = spec.workers.tolerations
    found = _to_json(general) if general is not None else [dict(each) for each in defaults.cpu_tolerations]
    if gpu:
        own = spec.workers.accelerator.tolerations
        found += _to_json(own) if own is not None else [dict(each) for each in defaults.gpu_tolerations]
    chosen = {each.get("key") for each in found}
    return [*found, *(each for each in _LOST_NODE if each["key"] not in chosen)]


# Kubernetes waits five minutes for a node to come back. Another pod makes the same bytes, so one is enough.
LOST_NODE_SECONDS: Final = 60
_LOST_NODE: Final[tuple[Body, ...]] = tuple(
    {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": LOST_NODE_SECONDS}
    for state in ("not-ready", "unreachable")
)


def _to_json(written: Sequence[Any] | None) -> list[Body]:
    """Models as the API's JSON. Any: each is a `Model` or an `Open`."""
    return [
        each.model_dump(mode="json", by_alias=isinstance(each, Model), exclude_none=True) if hasattr(each, "model_dump") else dict(each)
        for each in written or []
    ]
