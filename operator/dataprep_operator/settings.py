"""Settings from environment variables, which the chart sets. The variables are read once, at startup."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dataprep_api.lineage import sending
from dataprep_api.lineage.sending import Receiver

_PREFIX = "DATAPREP_"


@dataclass(frozen=True)
class Allowed:
    """Values that the author of a job may choose for its pods (`workers.allowed` of the chart). An empty tuple allows every value."""

    images: tuple[str, ...] = ()
    """Each entry is a registry or path that ends in `/`, a repository, or a complete image."""
    service_accounts: tuple[str, ...] = ()
    priority_classes: tuple[str, ...] = ()
    runtime_classes: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    init_containers: bool = True
    """Whether a job may add init containers, which include sidecars."""


@dataclass(frozen=True)
class PodDefaults:
    """Defaults for jobs and their pods."""

    image: str = "dataprep:dev"
    image_pull_policy: str | None = None
    image_pull_secrets: tuple[Mapping[str, str], ...] = ()
    """Names of Secrets in the job's namespace."""
    # Any, because the following values are passed through as JSON of the Kubernetes pod API.
    cpu_node_selector: Mapping[str, str] = field(default_factory=dict)
    cpu_tolerations: tuple[Mapping[str, Any], ...] = ()
    cpu_avoid_nodes: Mapping[str, str] = field(default_factory=dict)
    """Labels of nodes to avoid. Pods without GPUs never run on a node with one of these labels, even if the job selects it."""
    gpu_node_selector: Mapping[str, str] = field(default_factory=dict)
    gpu_tolerations: tuple[Mapping[str, Any], ...] = ()
    resources: Mapping[str, Any] = field(default_factory=dict)
    spark_image: str | None = None
    """The image of the pods of `spec.engine.spark`, or None if the operator doesn't create Spark clusters."""
    frameworks: Mapping[str, str] = field(default_factory=dict)
    """Maps the short names allowed in `script.framework` to images."""
    run_as_user: int | None = 65532
    """User id and group id of the pods. If None, the cluster chooses."""
    pod_security_context: Mapping[str, Any] = field(default_factory=dict)
    """Fields that are merged over the security context that the operator gives its pods."""
    tmp_size: str | None = None
    """Size limit of `/tmp` for jobs that set no limit on ephemeral-storage."""
    allow_host_path: bool = False
    allow_privileges: bool = False
    """Whether containers that a job's spec adds may run as root, be privileged, or access the node."""
    allowed: Allowed = Allowed()
    """The values that jobs may choose. The values of this class's other fields, such as `image`, are always allowed."""
    status_url: str | None = None
    ttl_seconds: int | None = None
    """TTL of finished jobs whose spec sets no TTL. This default doesn't apply to jobs with `deletionPolicy: Delete`."""
    lineage: Receiver | None = None
    """Where the operator and the pods send OpenLineage events. If None, no events are sent. The pods don't get the key."""


@dataclass(frozen=True)
class Settings:
    """All settings of an installation."""

    pods: PodDefaults = PodDefaults()
    namespaces: tuple[str, ...] = ()
    """Namespaces to watch. If empty, the whole cluster is watched."""
    listen_host: str = "0.0.0.0"  # noqa: S104 - listens on the pod's address
    listen_port: int = 8080
    workers: int = 16
    qps: float = 200.0
    burst: int = 400
    progress_seconds: float = 5.0
    """Minimum time between two progress updates of a job's status."""
    resync_seconds: float = 300.0
    watch_age_limit_seconds: float = 180.0
    lease_name: str = "dataprep-operator"
    lease_namespace: str | None = None
    """Namespace of the leader Lease. If None, leader election is disabled. Then the installation may have only one replica."""
    identity: str = ""
    operator_class: str | None = None
    """The value of the label `dataprep.io/operator-class` of the objects to reconcile.

    If None, objects without the label are reconciled.
    """
    metrics_authentication: bool = False
    """Whether `/metrics` requires an authorized token."""
    kueue: bool = False
    """Whether Kueue is installed and its Workloads are readable."""
    token_issuer: str | None = None
    """Issuer of service-account tokens. If None, the operator gets the issuer from the API server."""
    log_format: str = "plain"
    log_level: str = "INFO"


def from_environment(environ: Mapping[str, str] = os.environ) -> Settings:
    """Parse `environ`. Raises ValueError naming the variable that is invalid."""
    reader = _Reader(environ)
    pods = PodDefaults(
        image=reader.text("IMAGE", PodDefaults.image),
        image_pull_policy=reader.optional("IMAGE_PULL_POLICY"),
        image_pull_secrets=tuple(reader.json("IMAGE_PULL_SECRETS", [])),
        cpu_node_selector=reader.json("CPU_NODE_SELECTOR", {}),
        cpu_tolerations=tuple(reader.json("CPU_TOLERATIONS", [])),
        cpu_avoid_nodes=reader.json("CPU_AVOID_NODES", {}),
        gpu_node_selector=reader.json("GPU_NODE_SELECTOR", {}),
        gpu_tolerations=tuple(reader.json("GPU_TOLERATIONS", [])),
        resources=reader.json("RESOURCES", {}),
        spark_image=reader.optional("SPARK_IMAGE"),
        frameworks=reader.json("FRAMEWORKS", {}),
        run_as_user=None if reader.text("RUN_AS_USER", "") == "none" else int(reader.number("RUN_AS_USER", 65532)),
        pod_security_context=reader.json("POD_SECURITY_CONTEXT", {}),
        tmp_size=reader.optional("TMP_SIZE"),
        allow_host_path=reader.flag("ALLOW_HOST_PATH"),
        allow_privileges=reader.flag("ALLOW_PRIVILEGES"),
        allowed=_allowed(reader),
        status_url=reader.optional("STATUS_URL"),
        ttl_seconds=int(reader.number("TTL_SECONDS", 0)) if reader.optional("TTL_SECONDS") else None,
        lineage=sending.receiver(environ),
    )
    return Settings(
        pods=pods,
        namespaces=tuple(name for name in (part.strip() for part in reader.text("NAMESPACES", "").split(",")) if name),
        listen_host=reader.text("LISTEN_HOST", Settings.listen_host),
        listen_port=int(reader.number("LISTEN_PORT", Settings.listen_port)),
        workers=int(reader.number("WORKERS", Settings.workers)),
        qps=reader.number("QPS", Settings.qps),
        burst=int(reader.number("BURST", Settings.burst)),
        progress_seconds=reader.number("PROGRESS_SECONDS", Settings.progress_seconds),
        resync_seconds=reader.number("RESYNC_SECONDS", Settings.resync_seconds),
        watch_age_limit_seconds=reader.number("WATCH_AGE_LIMIT_SECONDS", Settings.watch_age_limit_seconds),
        lease_name=reader.text("LEASE_NAME", Settings.lease_name),
        lease_namespace=reader.optional("LEASE_NAMESPACE"),
        identity=environ.get("POD_NAME") or environ.get("HOSTNAME") or f"process-{os.getpid()}",
        operator_class=reader.optional("OPERATOR_CLASS"),
        metrics_authentication=reader.flag("METRICS_AUTHENTICATION"),
        kueue=reader.flag("KUEUE"),
        token_issuer=reader.optional("TOKEN_ISSUER"),
        log_format=reader.text("LOG_FORMAT", Settings.log_format),
        log_level=reader.text("LOG_LEVEL", Settings.log_level),
    )


def _allowed(reader: "_Reader") -> Allowed:
    return Allowed(
        images=reader.texts("ALLOWED_IMAGES"),
        service_accounts=reader.texts("ALLOWED_SERVICE_ACCOUNTS"),
        priority_classes=reader.texts("ALLOWED_PRIORITY_CLASSES"),
        runtime_classes=reader.texts("ALLOWED_RUNTIME_CLASSES"),
        schedulers=reader.texts("ALLOWED_SCHEDULERS"),
        init_containers=reader.flag("ALLOWED_INIT_CONTAINERS", default=True),
    )


@dataclass(frozen=True)
class _Reader:
    environ: Mapping[str, str]

    def text(self, name: str, default: str) -> str:
        return self.environ.get(_PREFIX + name) or default

    def optional(self, name: str) -> str | None:
        return self.environ.get(_PREFIX + name) or None

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self.text(name, str(default)).lower()
        if value not in ("true", "false"):
            raise ValueError(f"{_PREFIX}{name} must be true or false, got {value!r}")
        return value == "true"

    def number(self, name: str, default: float) -> float:
        value = self.environ.get(_PREFIX + name)
        try:
            return float(value) if value else default
        except ValueError as exc:
            raise ValueError(f"{_PREFIX}{name} must be a number, got {value!r}") from exc

    def texts(self, name: str) -> tuple[str, ...]:
        values = self.json(name, [])
        if not all(isinstance(value, str) and value for value in values):
            raise ValueError(f"{_PREFIX}{name} must be a JSON list of non-empty strings, got {values!r}")
        return tuple(values)

    # Any, because the values are JSON of the Kubernetes pod API.
    def json(self, name: str, default: Any) -> Any:
        value = self.environ.get(_PREFIX + name)
        if not value:
            return default
        try:
            parsed = json.loads(value)
        except ValueError as exc:
            raise ValueError(f"{_PREFIX}{name} must be JSON, got {value!r}") from exc
        if not isinstance(parsed, type(default)):
            raise ValueError(f"{_PREFIX}{name} must be a JSON {'object' if default == {} else 'list'}, got {value!r}")
        return parsed
