"""`spec.stores` and `spec.workers`: how stores are reached, and the converter pods."""

from typing import Annotated, Final, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Model, ObjectName, Open, ResourceMap, StringMap, Uri, rule, rules

_KEY: Final = "kmsKeyId needs serverSideEncryption: KMS"


class LocalObjectReference(Model):
    """A Secret or ConfigMap in the job's namespace."""

    name: ObjectName
    """Object name."""


class Store(Model):
    """How to reach the URIs with a prefix. The longest matching prefix wins."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.kmsKeyId) || (has(self.serverSideEncryption) && self.serverSideEncryption == 'KMS')",
                _KEY,
                path=".kmsKeyId",
            )
        )
    )

    uri_prefix: Uri
    """`oss://bucket/`, `s3://`, `hdfs://ns1`."""
    secret_ref: LocalObjectReference | None = None
    """Secret with the credentials. Keys: `accessKeyId`, `accessKeySecret`, `securityToken` (OSS, S3, MaxCompute); `principal`, `keytab` (HDFS with Kerberos)."""
    config_map_ref: LocalObjectReference | None = None
    """ConfigMap with Hadoop's configuration. It holds `core-site.xml` and `hdfs-site.xml`, and `krb5.conf` for Kerberos (HDFS)."""
    endpoint: Uri | None = None
    """Address of the service. For example `https://oss-cn-shenzhen-internal.aliyuncs.com`."""
    tunnel_endpoint: Uri | None = None
    """MaxCompute: address of the tunnel. It moves rows. Default: the endpoint is asked for it."""
    region: Annotated[str, Field(max_length=64)] | None = None
    """Region, for signatures. For OSS, S3 and MaxCompute."""
    path_style: bool = False
    """Whether paths hold the bucket. Otherwise the host name does."""
    user: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """HDFS: user name. For simple authentication."""
    server_side_encryption: Literal["AES256", "KMS"] | None = None
    """Encryption by the service (OSS, S3). Default: as the bucket says."""
    kms_key_id: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    """Key of `KMS`. Default: the key of the service."""

    @model_validator(mode="after")
    def _key_of_kms(self) -> Self:
        if self.kms_key_id is not None and self.server_side_encryption != "KMS":
            raise ValueError(_KEY)
        return self


class Toleration(Model):
    """As in a pod."""

    key: Annotated[str, Field(max_length=317)] | None = None
    """Taint key."""
    operator: Literal["Exists", "Equal"] | None = None
    """How to match."""
    value: Annotated[str, Field(max_length=63)] | None = None
    """Taint value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Taint effect."""
    toleration_seconds: int | None = None
    """Limit for `NoExecute`."""


class Resources(Model):
    """As in a container."""

    requests: ResourceMap | None = None
    """Amounts to reserve. By resource: `cpu`, `memory`, `ephemeral-storage`."""
    limits: ResourceMap | None = None
    """Upper limits, by resource."""


class EnvVar(Model):
    """As in a container."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Variable name."""
    value: Annotated[str, Field(max_length=32_768)] | None = None
    """Literal value."""
    value_from: Open | None = None
    """Source of the value."""


class Accelerator(Model):
    """Whether the converter pods run on GPU nodes."""

    policy: Literal["None", "Preferred", "Required"] = "None"
    """`None`, `Preferred` or `Required`. `None`: request no GPU. `Required`: GPU nodes only. `Preferred`: GPU nodes, but CPU nodes when the pods stay unschedulable."""
    resource_name: Annotated[str, Field(min_length=3, max_length=253)] = "nvidia.com/gpu"
    """Resource of the device plugin."""
    count: Annotated[int, Field(ge=0, le=64)] = 1
    """Devices per pod."""
    node_selector: StringMap | None = None
    """Labels of GPU nodes. Default: as the chart says."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] | None = None
    """More tolerations on GPU nodes. They are added to `workers.tolerations`. Default: as the chart says."""
    fallback_after_seconds: Annotated[int, Field(ge=1, le=86_400)] = 60
    """Delay before the fallback to CPU. With Preferred: how long pods may stay unschedulable before the job moves to CPU nodes."""


class PodTemplate(Model):
    """More fields of the pods, with the names and shapes of a pod."""

    labels: StringMap | None = None
    """Pod labels. Labels of the operator stay."""
    annotations: StringMap | None = None
    """Pod annotations."""
    init_containers: Annotated[list[Open], Field(max_length=8)] | None = None
    """Run before the converter. One with `restartPolicy: Always` is a sidecar: it runs beside the converter and ends with it."""
    topology_spread_constraints: Annotated[list[Open], Field(max_length=8)] | None = None
    """As in a pod."""
    host_aliases: Annotated[list[Open], Field(max_length=32)] | None = None
    """Entries of the hosts file. For name nodes that no DNS knows, for example."""
    runtime_class_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """RuntimeClass."""
    scheduler_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Scheduler."""
    dns_config: Open | None = None
    """DNS settings, as in a pod."""
    termination_grace_period_seconds: Annotated[int, Field(ge=0, le=3600)] | None = None
    """As in a pod."""


class Workers(Model):
    """The converter pods. Fields have the names and shapes of a pod."""

    parallelism: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Pods at the same time. May change while the job runs; the output doesn't depend on it."""
    resources: Resources | None = None
    """Container resources. The plan and commit steps have them too, without devices (`nvidia.com/gpu`)."""
    accelerator: Accelerator = Accelerator()
    """Whether pods run on GPU nodes."""
    node_selector: StringMap | None = None
    """Labels of CPU nodes. Default: as the chart says."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] | None = None
    """As in a pod."""
    affinity: Open | None = None
    """As in a pod."""
    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Image with `dataprep`. Default: the release of the operator."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """As in a pod."""
    image_pull_secrets: Annotated[list[LocalObjectReference], Field(max_length=16)] | None = None
    """As in a pod."""
    env: Annotated[list[EnvVar], Field(max_length=64)] | None = None
    """Environment, as in a container."""
    volumes: Annotated[list[Open], Field(max_length=32)] | None = None
    """As in a pod."""
    volume_mounts: Annotated[list[Open], Field(max_length=32)] | None = None
    """As in a container."""
    service_account_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """ServiceAccount of the pods."""
    priority_class_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """PriorityClass of the pods."""
    pod_template: PodTemplate = PodTemplate()
    """More fields of the pods. Labels, sidecars, topology spread, host aliases."""
