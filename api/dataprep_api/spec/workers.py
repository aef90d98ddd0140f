"""`spec.stores` and `spec.workers`: access to stores, and the settings of the converter pods."""

from typing import Annotated, Final, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Model, ObjectName, Open, ResourceMap, SharedList, StringMap, Uri, rule, rules

_KEY: Final = "kmsKeyId needs serverSideEncryption: KMS"
_ANONYMOUS: Final = "anonymous can't be combined with secretRef"


class LocalObjectReference(Model):
    """A Secret or ConfigMap in the job's namespace."""

    name: ObjectName
    """Object name."""


class Store(Model):
    """Access to all URIs that begin with a prefix. The entry with the longest matching prefix applies."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.kmsKeyId) || (has(self.serverSideEncryption) && self.serverSideEncryption == 'KMS')",
                _KEY,
                path=".kmsKeyId",
            ),
            rule("!has(self.anonymous) || !self.anonymous || !has(self.secretRef)", _ANONYMOUS, path=".anonymous"),
        )
    )

    uri_prefix: Uri
    """Prefix of the URIs. Examples: `oss://bucket/`, `s3://` and `hdfs://ns1`."""
    secret_ref: LocalObjectReference | None = None
    """Secret with the credentials. For OSS, S3 and MaxCompute its keys are `accessKeyId`, `accessKeySecret` and `securityToken`. For HDFS with Kerberos the keys are `principal` and `keytab`."""
    config_map_ref: LocalObjectReference | None = None
    """ConfigMap with Hadoop's configuration (HDFS). The ConfigMap contains `core-site.xml` and `hdfs-site.xml`, and `krb5.conf` for Kerberos."""
    endpoint: Uri | None = None
    """Address of the service. Example: `https://oss-cn-shenzhen-internal.aliyuncs.com`."""
    tunnel_endpoint: Uri | None = None
    """MaxCompute: address of the tunnel service. The tunnel service transfers rows. Default: the address that the service at `endpoint` returns."""
    region: Annotated[str, Field(max_length=64)] | None = None
    """Region, used for signatures. The region applies to OSS, S3 and MaxCompute."""
    path_style: bool = False
    """Whether the bucket is part of URL paths. If false, the bucket is part of the host name."""
    user: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """HDFS: user name. The name is used for simple authentication."""
    anonymous: bool = False
    """Whether to send requests without credentials. Use this for public buckets. Applies to OSS, S3, Cloud Storage, Azure, the Hugging Face Hub and FTP. A public bucket can be read, but rarely written."""
    server_side_encryption: Literal["AES256", "KMS"] | None = None
    """Encryption by the service (OSS, S3). Default: the bucket's setting."""
    kms_key_id: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    """Id of the KMS key. Default: the service's key."""
    requests_per_second: Annotated[float, Field(ge=0.1, le=1_000_000)] | None = None
    """Maximum requests per second of all pods. Default: no limit until the store refuses requests. Applies to S3, OSS, Cloud Storage, Azure, the web and WebHDFS."""

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        if self.kms_key_id is not None and self.server_side_encryption != "KMS":
            raise ValueError(_KEY)
        if self.anonymous and self.secret_ref is not None:
            raise ValueError(_ANONYMOUS)
        return self


Stores = Annotated[list[Store], Field(max_length=32), SharedList(keys=("uriPrefix",))]


class Toleration(Model):
    """A toleration, as in a pod."""

    key: Annotated[str, Field(max_length=317)] | None = None
    """Taint key."""
    operator: Literal["Exists", "Equal"] | None = None
    """How to match the taint."""
    value: Annotated[str, Field(max_length=63)] | None = None
    """Taint value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Taint effect."""
    toleration_seconds: int | None = None
    """Seconds to tolerate `NoExecute`."""


# This isn't a SharedList. A list of type `map` needs a default for each optional key, and earlier releases refuse a default in `effect`.
# A list of type `set` can't contain objects.
Tolerations = Annotated[list[Toleration], Field(max_length=32)]
ImagePullSecrets = Annotated[list[LocalObjectReference], Field(max_length=16), SharedList(keys=("name",))]


class Resources(Model):
    """Resource requests and limits, as in a container."""

    requests: ResourceMap | None = None
    """Amounts to reserve, by resource. Resources are `cpu`, `memory` and `ephemeral-storage`, for example."""
    limits: ResourceMap | None = None
    """Upper limits, by resource."""


class Planning(Model):
    """Pods of the plan, merge and commit steps."""

    resources: Resources | None = None
    """Container resources. They replace all of `workers.resources` for these pods. Devices (`nvidia.com/gpu`) are left out."""


class EnvVar(Model):
    """An environment variable, as in a container."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Variable name."""
    value: Annotated[str, Field(max_length=32_768)] | None = None
    """Literal value."""
    value_from: Open | None = None
    """Source of the value."""


class Accelerator(Model):
    """Whether the converter pods run on GPU nodes."""

    policy: Literal["None", "Preferred", "Required"] = "None"
    """Whether to use GPU nodes. `None`: pods request no GPU. `Required`: pods run on GPU nodes only. `Preferred`: pods run on GPU nodes, or on CPU nodes if they stay unschedulable."""
    resource_name: Annotated[str, Field(min_length=3, max_length=253)] = "nvidia.com/gpu"
    """Resource name of the GPUs."""
    count: Annotated[int, Field(ge=0, le=64)] = 1
    """Devices per pod."""
    node_selector: StringMap | None = None
    """Labels of GPU nodes. Default: the chart's setting."""
    tolerations: Tolerations | None = None
    """Extra tolerations for GPU nodes. These tolerations are added to `workers.tolerations`. Default: the chart's setting."""
    fallback_after_seconds: Annotated[int, Field(ge=1, le=86_400)] = 60
    """Seconds before the fallback to CPU. With Preferred, the job moves to CPU nodes if pods stay unschedulable for this long."""


class Volume(Open):
    """A volume, as in a pod. The API checks only its name."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Volume name."""


class VolumeMount(Open):
    """A volume mount, as in a container. The API checks only its path."""

    mount_path: Annotated[str, Field(alias="mountPath", min_length=1, max_length=4096)]
    """Path in the container."""


class Container(Open):
    """A container, as in a pod. The API checks only its name."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Container name."""


class TopologySpreadConstraint(Open):
    """A topology spread constraint, as in a pod. The API checks only the fields that identify it."""

    topology_key: Annotated[str, Field(alias="topologyKey", min_length=1, max_length=317)]
    """Label of the nodes to spread over."""
    when_unsatisfiable: Annotated[str, Field(alias="whenUnsatisfiable", min_length=1, max_length=63)]
    """`DoNotSchedule` or `ScheduleAnyway`."""


SpreadConstraints = Annotated[list[TopologySpreadConstraint], Field(max_length=8), SharedList(keys=("topologyKey", "whenUnsatisfiable"))]


class HostAlias(Open):
    """An entry of the hosts file, as in a pod. The API checks only its address."""

    ip: Annotated[str, Field(min_length=1, max_length=63)]
    """IP address."""


class PodTemplate(Model):
    """More fields of the pods, with the same names and types as in a pod."""

    labels: StringMap | None = None
    """Pod labels. These labels can't replace the operator's labels."""
    annotations: StringMap | None = None
    """Pod annotations."""
    init_containers: Annotated[list[Container], Field(max_length=8), SharedList(keys=("name",))] | None = None
    """Containers that run before the converter. A container with `restartPolicy: Always` is a sidecar, which runs beside the converter and ends with it."""
    topology_spread_constraints: SpreadConstraints | None = None
    """Topology spread constraints, as in a pod."""
    host_aliases: Annotated[list[HostAlias], Field(max_length=32), SharedList(keys=("ip",))] | None = None
    """Entries of the hosts file. Use them for hosts that DNS doesn't know, such as HDFS name nodes."""
    runtime_class_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """RuntimeClass of the pods."""
    scheduler_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Scheduler of the pods."""
    dns_config: Open | None = None
    """DNS settings, as in a pod."""
    termination_grace_period_seconds: Annotated[int, Field(ge=0, le=3600)] | None = None
    """Grace period, as in a pod."""


class Workers(Model):
    """The converter pods. Fields have the same names and types as in a pod."""

    parallelism: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Maximum number of pods at the same time. You can change the number while the job runs. The output doesn't depend on the number of pods."""
    # There is no default, because the API server would write the default into each job, and earlier releases would refuse the job.
    one_pod: Literal["Auto", "Never"] | None = None
    """Whether one pod does all steps of a small job. `Auto` (default): a job is small if its input and its output have at most 128 MiB each, and if it has at most 100 shards. docs/guide.md lists exceptions. `Never`: each step has its own pods."""
    resources: Resources | None = None
    """Container resources. The pods of the scan step and the shuffle step have the same resources, except devices. If `planning.resources` isn't set, the pods of the plan, merge and commit steps have these resources too."""
    accelerator: Accelerator = Accelerator()
    """Whether pods run on GPU nodes."""
    node_selector: StringMap | None = None
    """Labels of CPU nodes. Default: the chart's setting."""
    tolerations: Tolerations | None = None
    """Tolerations, as in a pod."""
    affinity: Open | None = None
    """Affinity, as in a pod."""
    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Image with `dataprep`. Default: the image of the operator's release."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """Image pull policy, as in a pod."""
    image_pull_secrets: ImagePullSecrets | None = None
    """Image pull Secrets, as in a pod."""
    env: Annotated[list[EnvVar], Field(max_length=64), SharedList(keys=("name",))] | None = None
    """Environment variables, as in a container."""
    volumes: Annotated[list[Volume], Field(max_length=32), SharedList(keys=("name",))] | None = None
    """Volumes, as in a pod."""
    volume_mounts: Annotated[list[VolumeMount], Field(max_length=32), SharedList(keys=("mountPath",))] | None = None
    """Volume mounts, as in a container."""
    service_account_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """ServiceAccount of the pods."""
    priority_class_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """PriorityClass of the pods."""
    pod_template: PodTemplate = PodTemplate()
    """More fields of the pods. Examples are labels, sidecars, topology spread constraints and host aliases."""
