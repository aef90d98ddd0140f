"""`spec.stores` and `spec.workers`: how stores are reached, and the converter pods."""

from typing import Annotated, Final, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Model, ObjectName, Open, ResourceMap, StringMap, Uri, rule, rules

_KEY: Final = "kmsKeyId needs serverSideEncryption: KMS"


class LocalObjectReference(Model):
    """A Secret or ConfigMap of the job's namespace."""

    name: ObjectName


class Store(Model):
    """How the URIs with one prefix are reached. The longest matching prefix wins."""

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
    """ConfigMap with `core-site.xml` and `hdfs-site.xml`, and `krb5.conf` for Kerberos (HDFS)."""
    endpoint: Uri | None = None
    """Address of the store's service: `https://oss-cn-shenzhen-internal.aliyuncs.com`."""
    tunnel_endpoint: Uri | None = None
    """Address of the service that moves rows (MaxCompute). When absent, the endpoint is asked for it."""
    region: Annotated[str, Field(max_length=64)] | None = None
    """Region, for the signature (OSS, S3 and MaxCompute)."""
    path_style: bool = False
    """Whether the bucket is in the path instead of in the host name."""
    user: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """User name under simple authentication (HDFS)."""
    server_side_encryption: Literal["AES256", "KMS"] | None = None
    """How the service encrypts what is written (OSS, S3). Default: as the bucket says."""
    kms_key_id: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    """Key of `KMS`. Default: the service's own."""

    @model_validator(mode="after")
    def _key_of_kms(self) -> Self:
        if self.kms_key_id is not None and self.server_side_encryption != "KMS":
            raise ValueError(_KEY)
        return self


class Toleration(Model):
    """As in a pod."""

    key: Annotated[str, Field(max_length=317)] | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: Annotated[str, Field(max_length=63)] | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None


class Resources(Model):
    """As in a container."""

    requests: ResourceMap | None = None
    """What the scheduler sets aside, by resource: `cpu`, `memory`, `ephemeral-storage`."""
    limits: ResourceMap | None = None
    """What the container may use at most, by resource."""


class EnvVar(Model):
    """As in a container."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    value: Annotated[str, Field(max_length=32_768)] | None = None
    value_from: Open | None = None


class Accelerator(Model):
    """Whether the converter pods run on GPU nodes."""

    policy: Literal["None", "Preferred", "Required"] = "None"
    """`None`: no GPU is asked for. `Required`: GPU nodes only. `Preferred`: GPU nodes, and CPU nodes when the pods stay unschedulable."""
    resource_name: Annotated[str, Field(min_length=3, max_length=253)] = "nvidia.com/gpu"
    """The device plugin's resource."""
    count: Annotated[int, Field(ge=0, le=64)] = 1
    """Devices of each pod."""
    node_selector: StringMap | None = None
    """Labels of the GPU nodes. Default: the chart's."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] | None = None
    """Added to `workers.tolerations` on GPU nodes. Default: the chart's."""
    fallback_after_seconds: Annotated[int, Field(ge=1, le=86_400)] = 60
    """With Preferred: how long pods may stay unschedulable before the job moves to CPU nodes."""


class PodTemplate(Model):
    """What a pod of the job has beyond what its other fields say. Field names and shapes are those of a pod."""

    labels: StringMap | None = None
    """Labels of the pods. Those of the operator stay."""
    annotations: StringMap | None = None
    """Annotations of the pods."""
    init_containers: Annotated[list[Open], Field(max_length=8)] | None = None
    """Run before the converter. One with `restartPolicy: Always` is a sidecar: it runs beside the converter and ends with it."""
    topology_spread_constraints: Annotated[list[Open], Field(max_length=8)] | None = None
    host_aliases: Annotated[list[Open], Field(max_length=32)] | None = None
    """Names for the pods' hosts file: name nodes that no DNS knows."""
    runtime_class_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    scheduler_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    dns_config: Open | None = None
    termination_grace_period_seconds: Annotated[int, Field(ge=0, le=3600)] | None = None


class Workers(Model):
    """The converter pods. Field names and shapes are those of a pod."""

    parallelism: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Pods that convert at the same time. May be changed while the job runs; the output doesn't depend on it."""
    resources: Resources | None = None
    """Requests and limits of the converter container. The plan and commit steps have them too, without devices (`nvidia.com/gpu`)."""
    accelerator: Accelerator = Accelerator()
    """Whether the pods run on GPU nodes."""
    node_selector: StringMap | None = None
    """Labels of the CPU nodes. Default: the chart's."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] | None = None
    affinity: Open | None = None
    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Image with `dataprep`. Default: the operator's own release."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    image_pull_secrets: Annotated[list[LocalObjectReference], Field(max_length=16)] | None = None
    env: Annotated[list[EnvVar], Field(max_length=64)] | None = None
    volumes: Annotated[list[Open], Field(max_length=32)] | None = None
    volume_mounts: Annotated[list[Open], Field(max_length=32)] | None = None
    service_account_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    priority_class_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    pod_template: PodTemplate = PodTemplate()
    """What else the pods have: labels, sidecars, topology spread, host aliases."""
