"""`DataPrepJob.spec`: this raw data, these transforms, shards of this format, there.

These models are the single source of the CRD's schema, of `kubectl explain` and of `dataprep validate`.
Rules that the API server can check are written as CEL beside the field (`rules`); Python repeats only what a
laptop must check without an API server, in the validators below each model.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from dataprep_api import quantity

SUM_TOLERANCE = 1e-6


def rule(expression: str, message: str, *, path: str = "", reason: str = "FieldValueInvalid") -> dict[str, str]:
    """One CEL rule of `x-kubernetes-validations`."""
    written = {"rule": expression, "message": message, "reason": reason}
    return written | {"fieldPath": path} if path else written


def rules(*written: dict[str, str]) -> dict[str, Any]:
    """CEL rules as a model's `json_schema_extra`."""
    return {"x-kubernetes-validations": list(written)}


class Model(BaseModel):
    """camelCase outside, snake_case inside; unknown fields are refused; values can't be changed."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        validate_default=True,
    )


class Open(BaseModel):
    """A Kubernetes object whose fields the API server checks when the pod is made, and we only pass on."""

    model_config = ConfigDict(extra="allow", frozen=True, json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})


def _a_quantity(value: int | str) -> int | str:
    quantity.to_bytes(value)
    return value


def _a_resource(value: int | str) -> int | str:
    if re.fullmatch(_RESOURCE, str(value)) is None:
        raise ValueError(f"expected a Kubernetes quantity such as 500m, 2 or 4Gi, got {value!r}")
    return value


def one_of(names: Sequence[str], what: str) -> dict[str, Any]:
    """The CEL rule that exactly one member of a union is set."""
    count = " + ".join(f"(has(self.{name}) ? 1 : 0)" for name in names)
    return rules(rule(f"{count} == 1", f"exactly one {what} must be set: {', '.join(names)}"))


def _check_one(model: Model, what: str) -> None:
    known = {field.alias or name: getattr(model, name) for name, field in type(model).model_fields.items()}
    given = [name for name, value in known.items() if value is not None]
    if len(given) != 1:
        raise ValueError(f"exactly one {what} must be set ({', '.join(known)}), got {', '.join(given) or 'none'}")


Uri = Annotated[str, Field(min_length=1, max_length=1024)]
Label63 = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
ObjectName = Annotated[str, Field(min_length=1, max_length=253)]
SplitName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$")]
Column = Annotated[str, Field(min_length=1, max_length=256)]
Text = Annotated[str, Field(max_length=1024)]
Quantity = Annotated[
    int | str,
    AfterValidator(_a_quantity),
    Field(json_schema_extra={"x-kubernetes-int-or-string": True, "minimum": 0, "maxLength": 32, "pattern": quantity.PATTERN}),
]
_RESOURCE = r"^[0-9]+(\.[0-9]*)?([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
ResourceQuantity = Annotated[
    int | str,
    AfterValidator(_a_resource),
    Field(json_schema_extra={"x-kubernetes-int-or-string": True, "minimum": 0, "maxLength": 64, "pattern": _RESOURCE}),
]
"""An amount of a resource of a container: cores, bytes or devices."""
Seconds = Annotated[int, Field(ge=0, le=31_536_000)]
Seed = Annotated[int, Field(ge=0, le=2**53)]
ResourceMap = Annotated[dict[Annotated[str, Field(max_length=317)], ResourceQuantity], Field(max_length=16)]
StringMap = Annotated[dict[Annotated[str, Field(max_length=317)], Annotated[str, Field(max_length=253)]], Field(max_length=64)]


# --- source -------------------------------------------------------------------------------------------------------


class IdxSubset(Model):
    """One pair of IDX files."""

    name: SplitName
    """Name of the subset, for `splits`: `train`, `test`."""
    images: Uri
    """The IDX file of the samples, gzip or not. Its first dimension counts the records."""
    labels: Uri | None = None
    """The IDX file of the labels: one integer a record."""


class IdxSource(Model):
    """IDX files, the format of MNIST (u8, i8, i16, i32, f32 or f64, gzip or not).

    Columns: `image` (a tensor of the file's other dimensions), `label` (int64), and `height`, `width`, `depth` (int64).
    """

    subsets: Annotated[list[IdxSubset], Field(min_length=1, max_length=16)]
    """The files, in the order in which their records are numbered."""


class ImagesSource(Model):
    """Image files in folders; the parent folder is the class.

    Columns: `image/encoded` (the file's bytes), `image/format`, `image/height`, `image/width`, `image/class/label` (int64),
    `image/class/text`, and on request `image/filename`.
    """

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Folders, in order. A sample's path is taken relative to its folder."""
    extensions: Annotated[list[Annotated[str, Field(pattern=r"^[a-z0-9]{1,8}$", max_length=8)]], Field(min_length=1, max_length=16)] = [
        "jpg", "jpeg", "png", "bmp", "gif", "tif", "tiff", "webp",
    ]  # fmt: skip
    """File extensions to take, in lower case; case is ignored. Other files are counted as ignored."""
    recursive: bool = True
    """Whether to look into sub-folders."""
    label_from: Literal["ParentFolder", "None"] = "ParentFolder"
    """Where the class comes from."""
    classes: Annotated[list[Annotated[str, Field(min_length=1, max_length=256)]], Field(min_length=1, max_length=4096)] | None = None
    """The classes in the order of their numbers. When absent: every folder name found, sorted by its UTF-8 bytes. A file of another class is an error."""
    subset_from: Literal["FirstFolder", "None"] = "None"
    """`FirstFolder`: the first folder below the root names the subset (train/cat/1.jpg), for `splits`."""


class CsvColumn(Model):
    """One column of a CSV file."""

    name: Column
    """The column's name."""
    type: Literal["Int64", "Float32", "Float64", "String", "Bool"]
    """Type of the values."""
    default: Annotated[str, Field(max_length=1024)] | None = None
    """Value of an empty cell, written as in the file. Without it an empty cell makes the record bad, but a String is then empty."""


class CsvSource(Model):
    """CSV files. Columns: those of the header, or `0`, `1`, … without one."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders (every file below whose name doesn't begin with `_` or `.`) or globs, in order; within one, by name."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """Separator of the cells: one ASCII character."""
    quote: Annotated[str, Field(min_length=1, max_length=1)] = '"'
    """Quote character; doubled inside a quoted cell."""
    skip_lines: Annotated[int, Field(ge=0, le=1000)] = 0
    """Lines to skip at the start of every file, before the header if there is one."""
    header: bool = False
    """Whether the first line (after `skipLines`) of every file names the columns."""
    columns: Annotated[list[CsvColumn], Field(min_length=1, max_length=1024)] | None = None
    """Names and types in file order. When absent they are inferred once, while planning, and then enforced."""


class Source(Model):
    """The raw data: exactly one member."""

    model_config = ConfigDict(json_schema_extra=one_of(["idx", "images", "csv"], "source"))

    idx: IdxSource | None = None
    images: ImagesSource | None = None
    csv: CsvSource | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        _check_one(self, "source")
        return self

    @property
    def kind(self) -> str:
        """The name of the member that is set, which is also its reader's name."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)


# --- samples ------------------------------------------------------------------------------------------------------

Dtype = Literal["int64", "int32", "int16", "int8", "uint8", "float64", "float32", "float16", "bool", "bytes"]


class Feature(Model):
    """One feature of the records: its name, the source columns it holds, and how it is stored."""

    name: Column
    """Key of the feature in the records."""
    columns: Annotated[list[Column], Field(min_length=1, max_length=64)] | None = None
    """Columns that make up the feature: a name, or an inclusive range of positions (`0..4`, `-1` is the last). Default: the column of the feature's own name. Several columns become one vector."""
    dtype: Dtype | None = None
    """Type to convert to. Default: the column's own."""
    encoding: Literal["Auto", "Values", "Raw"] = "Auto"
    """`Values`: a list of numbers. `Raw`: a tensor's bytes, row-major and little-endian. `Auto`: Raw for integer tensors below 64 bits, Values for all else."""


class LabelFeature(Feature):
    """A feature that training predicts."""

    num_classes: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Number of classes: a label outside 0 … numClasses-1 makes the record bad."""


class Scale(Model):
    """Linear map of a range of values onto another, as float32: 0 … 255 onto 0 … 1 by default."""

    model_config = ConfigDict(
        json_schema_extra=rules(rule("self.fromMin != self.fromMax", "fromMin and fromMax must differ", path=".fromMax")),
    )

    columns: Annotated[list[Column], Field(min_length=1, max_length=64)]
    """Columns to map, each on its own."""
    from_min: float = 0.0
    """Value that becomes `toMin`."""
    from_max: float = 255.0
    """Value that becomes `toMax`."""
    to_min: float = 0.0
    to_max: float = 1.0

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.from_min == self.from_max:
            raise ValueError(f"fromMin and fromMax must differ, both are {self.from_min}")
        return self


class OneHot(Model):
    """An integer class as a float32 vector with a single 1."""

    columns: Annotated[list[Column], Field(min_length=1, max_length=64)]
    """Columns to replace by their vectors."""
    num_classes: Annotated[int, Field(ge=1, le=100_000)]
    """Length of the vector. A class outside 0 … numClasses-1 makes the record bad."""


class Transform(Model):
    """One step of the way from source to record: exactly one member."""

    model_config = ConfigDict(json_schema_extra=one_of(["scale", "oneHot"], "transform"))

    scale: Scale | None = None
    one_hot: OneHot | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        _check_one(self, "transform")
        return self

    @property
    def kind(self) -> str:
        """The name of the member that is set, which is also its step's name."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)


class Split(Model):
    """One split and the samples that go into it. A sample goes into the first entry that takes it."""

    model_config = ConfigDict(
        json_schema_extra=rules(rule("!(has(self.first) && has(self.fraction))", "set first or fraction, not both")),
    )

    name: SplitName
    """Name of the split: `train`."""
    subset: SplitName | None = None
    """Take samples of this subset of the source only."""
    first: Annotated[int, Field(ge=0)] | None = None
    """Take this many samples, the first in the source's order."""
    fraction: Annotated[float, Field(ge=0, le=1)] | None = None
    """Take this fraction, by a seeded hash of each sample's path and row: the same on every store and for any number of workers."""

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        if self.first is not None and self.fraction is not None:
            raise ValueError("set first or fraction, not both")
        return self


_PEERS = (
    "self.into.filter(b, has(b.fraction) && has(a.subset) == has(b.subset)"
    " && (!has(a.subset) || a.subset == b.subset)).map(b, b.fraction).sum()"
)


class Splits(Model):
    """How samples are divided. Without it every subset of the source is a split, and a source without subsets becomes `train`."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"self.into.all(a, !has(a.fraction) || ({_PEERS} > 0.999999 && {_PEERS} < 1.000001))",
                "the fractions of one subset must sum to 1",
                path=".into",
            ),
            # Not a list of type map: their order counts, and for such lists the API server's == and apply don't see it.
            rule("self.into.all(a, self.into.exists_one(b, b.name == a.name))", "the names of the splits must differ", path=".into"),
        ),
    )

    seed: Seed = 0
    """Seed of the hash behind `fraction`."""
    into: Annotated[list[Split], Field(min_length=1, max_length=16)]
    """The splits, in order."""

    @model_validator(mode="after")
    def _sums(self) -> Self:
        names = [split.name for split in self.into]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the split {name!r} is named twice")
        sums: dict[str | None, float] = {}
        for split in self.into:
            if split.fraction is not None:
                sums[split.subset] = sums.get(split.subset, 0.0) + split.fraction
        for subset, total in sums.items():
            if abs(total - 1) >= SUM_TOLERANCE:
                of = f" of subset {subset}" if subset else ""
                raise ValueError(f"the fractions{of} must sum to 1, got {total:g}")
        return self


class Shuffle(Model):
    """Global shuffle of each split: a seeded permutation, the same for any number of workers."""

    seed: Seed = 0


# --- output -------------------------------------------------------------------------------------------------------


class Shards(Model):
    """How many files each split has: at most one member; 128Mi each by default. No shard is ever empty."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "(has(self.count) ? 1 : 0) + (has(self.targetSize) ? 1 : 0) + (has(self.records) ? 1 : 0) <= 1",
                "set only one of count, targetSize, records",
            ),
            rule(
                "!has(self.targetSize) || (type(self.targetSize) == int ? self.targetSize >= 65536"
                " : isQuantity(self.targetSize) && quantity(self.targetSize).compareTo(quantity('64Ki')) >= 0)",
                "targetSize must be at least 64Ki",
                path=".targetSize",
            ),
        ),
    )

    count: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Number of shards of each split (fewer when the split has fewer records)."""
    target_size: Quantity | None = None
    """Wanted size of a shard, at least 64Ki: `128Mi`. The plan chooses the number of shards."""
    records: Annotated[int, Field(ge=1)] | None = None
    """Most records of a shard."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [n for n, v in (("count", self.count), ("targetSize", self.target_size), ("records", self.records)) if v is not None]
        if len(given) > 1:
            raise ValueError(f"set only one of count, targetSize, records, got {', '.join(given)}")
        if self.target_size is not None and quantity.to_bytes(self.target_size) < 65_536:
            raise ValueError(f"targetSize must be at least 64Ki, got {self.target_size}")
        return self


class TfrecordOptions(Model):
    """Options of the format `tfrecord`."""

    compression: Literal["None", "Gzip"] = "None"
    """`Gzip` compresses each shard as TensorFlow's `compression_type="GZIP"` reads it."""
    compression_level: Annotated[int, Field(ge=1, le=9)] = 6
    """Level of gzip."""


class HdfsOptions(Model):
    """How files are created on HDFS."""

    replication: Annotated[int, Field(ge=1, le=512)] | None = None
    """Replicas of each block. Default: the cluster's own."""
    permission: Annotated[str, Field(pattern=r"^0?[0-7]{3}$", max_length=4)] | None = None
    """Octal permission of the files: `"644"`."""
    block_size: Quantity | None = None
    """Block size of the files. Default: the cluster's own."""


class Output(Model):
    """Where the data set goes, and in what form."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.overwrite) || self.overwrite != 'Extend'",
                "Extend is not built yet: use Never, IfChanged or Always",
                path=".overwrite",
            )
        ),
    )

    uri: Uri
    """Folder of the data set: `hdfs://nn:9000/mnist-tfrecord`, `oss://bucket/mnist`, `s3://bucket/mnist`, `/mnt/nas/mnist`."""
    format: Literal["tfrecord"] = "tfrecord"
    """Format of the shards."""
    tfrecord: TfrecordOptions = TfrecordOptions()
    """Options of the format `tfrecord`."""
    shards: Shards = Shards()
    """How many files each split has."""
    file_name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Template of the files' names with {split}, {shard}, {shards} and {ext}. Default: `{split}.{ext}` for a single shard, else `{split}-{shard}-of-{shards}.{ext}`. It may not begin with `_` or `.`."""
    overwrite: Literal["Never", "IfChanged", "Always", "Extend"] = "Never"
    """What to do with an output that is finished or holds another run's files: `Never` refuses, `IfChanged` reuses it when spec and inputs are the same and else replaces it, `Always` replaces it."""
    hdfs: HdfsOptions = HdfsOptions()
    """How files are created on HDFS."""

    @model_validator(mode="after")
    def _built(self) -> Self:
        if self.overwrite == "Extend":
            raise ValueError("overwrite: Extend is not built yet: use Never, IfChanged or Always")
        return self


class BadRecords(Model):
    """What happens to a record that can't be read or doesn't fit."""

    policy: Literal["Fail", "Skip"] = "Fail"
    """`Fail`: the first one fails the job. `Skip`: it is left out, counted and named."""
    max_count: Annotated[int, Field(ge=0)] | None = None
    """With Skip: the job fails when more records than this are bad."""
    max_fraction: Annotated[float, Field(ge=0, le=1)] | None = None
    """With Skip: the job fails when a larger fraction of all records is bad."""


# --- stores and workers ---------------------------------------------------------------------------------------------


class LocalObjectReference(Model):
    """A Secret or ConfigMap of the job's namespace."""

    name: ObjectName


class Store(Model):
    """How the URIs with one prefix are reached. The longest matching prefix wins."""

    uri_prefix: Uri
    """`oss://bucket/`, `s3://`, `hdfs://ns1`."""
    secret_ref: LocalObjectReference | None = None
    """Secret with the credentials. Keys: `accessKeyId`, `accessKeySecret`, `securityToken` (OSS and S3)."""
    config_map_ref: LocalObjectReference | None = None
    """ConfigMap with `core-site.xml` and `hdfs-site.xml` (HDFS)."""
    endpoint: Uri | None = None
    """Address of the store's service: `https://oss-cn-shenzhen-internal.aliyuncs.com`."""
    region: Annotated[str, Field(max_length=64)] | None = None
    """Region, for the signature (OSS and S3)."""
    path_style: bool = False
    """Whether the bucket is in the path instead of in the host name."""
    user: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """User name under simple authentication (HDFS)."""


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


class Workers(Model):
    """The converter pods. Field names and shapes are those of a pod."""

    parallelism: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Pods that convert at the same time. May be changed while the job runs; the output doesn't depend on it."""
    resources: Resources | None = None
    """Requests and limits of the converter container."""
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


class CleanupRule(Model):
    """What is removed some time after the job ended. Outputs never are."""

    when: Literal["Succeeded", "Failed"]
    action: Literal["DeletePods", "DeleteJobs", "DeleteSelf"]
    """`DeletePods` and `DeleteJobs` remove finished pods (and their Jobs), `DeleteSelf` the DataPrepJob with all of them."""
    after_seconds: Seconds = 0


ParamName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=63)]


class DataPrepJobSpec(Model):
    """This raw data, through these transforms, into shards of this format, there."""

    params: Annotated[dict[ParamName, Annotated[str, Field(max_length=1024)]], Field(max_length=64)] | None = None
    """Values for `${NAME}` in the strings of source, features, labels, transforms, output and stores. `$$` stands for a dollar sign. The API server reads the spec as it is written, so on a cluster they may stand only where any text is valid: URIs, columns, file names, but not where a word of a list, a number or a quantity is expected."""
    source: Source
    """The raw data: exactly one member."""
    features: Annotated[list[Feature], Field(min_length=1, max_length=256)] | None = None
    """Features of the records. Default: every column of the source (and of the transforms) that is not a label."""
    labels: Annotated[list[LabelFeature], Field(min_length=1, max_length=64)] | None = None
    """Features that training predicts. Default: the column `label` (`image/class/label` of images) when there is one."""
    transforms: Annotated[list[Transform], Field(max_length=32)] | None = None
    """Steps applied in order."""
    splits: Splits | None = None
    """How samples are divided."""
    shuffle: Shuffle | None = None
    """Global shuffle of each split. Default: the source's order."""
    output: Output
    """Where the data set goes, and in what form."""
    on_bad_record: BadRecords = BadRecords()
    """What happens to a record that can't be read or doesn't fit."""
    allow_empty: bool = False
    """Whether an input without records makes an empty data set instead of a failure."""
    stores: Annotated[list[Store], Field(max_length=32)] | None = None
    """How stores are reached: credentials by Secret, endpoints, Hadoop configuration by ConfigMap, each for a URI prefix."""
    workers: Workers = Workers()
    """The converter pods."""
    suspend: bool = False
    """Stops the pods without losing finished shards; false resumes."""
    active_deadline_seconds: Annotated[int, Field(ge=1, le=31_536_000)] | None = None
    """The job fails when it has run for longer."""
    start_deadline_seconds: Annotated[int, Field(ge=1, le=31_536_000)] | None = None
    """The job fails when a pod stays unschedulable for longer. Default: it waits."""
    backoff_limit: Annotated[int, Field(ge=0, le=100)] = 3
    """Retries of the plan and of the commit step."""
    backoff_limit_per_index: Annotated[int, Field(ge=0, le=100)] = 3
    """Retries of each task of the conversion."""
    max_failed_indexes: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """Tasks that may fail for good before the conversion is stopped. A job with a failed task never succeeds; this bounds the work until then. Default: all tasks are tried."""
    ttl_seconds_after_finished: Seconds | None = None
    """The DataPrepJob deletes itself this long after it ended. Outputs stay."""
    cleanup: Annotated[list[CleanupRule], Field(max_length=8)] | None = None
    """What is removed some time after the end. Default: nothing, so the pods' logs stay."""

    @model_validator(mode="after")
    def _unique_features(self) -> Self:
        names = [feature.name for feature in [*(self.features or []), *(self.labels or [])]]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the feature {name!r} is named twice in features and labels")
        return self
