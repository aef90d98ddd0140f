"""`DataPrepJob.status`: live progress and, at the end, exactly what was made.

Every list has a maximum and indexes are ranges; texts of all lengths could still add up, so what is written goes through `bounded`,
and whatever the job's size the status stays below 64 KB.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from dataprep_api import canonical
from dataprep_api.spec import Model

SIZE_LIMIT = 60_000
"""Bytes of a status as JSON: metadata and a usual spec fit beside it in 64 KiB."""
MAX_OUTPUTS = 50
MAX_FAILURES = 20
MAX_RUNS = 5
MAX_SPLITS = 16
MAX_LABELS = 1000
"""Class names of one feature that the status shows; all of them are beside the data."""
_FEWER_CLASSES = (500, 250, 100, 10)

Phase = Literal["Pending", "Planning", "Queued", "Running", "Suspended", "Committing", "Succeeded", "Failed"]
TERMINAL_PHASES: frozenset[Phase] = frozenset({"Succeeded", "Failed"})

Short = Annotated[str, Field(max_length=256)]
Message = Annotated[str, Field(max_length=1024)]
LongUri = Annotated[str, Field(max_length=2048)]
Sha256 = Annotated[str, Field(max_length=64)]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Count = Annotated[int, Field(ge=0)]
Ranges = Annotated[str, Field(max_length=2048)]


class Condition(Model):
    """A standard Kubernetes condition."""

    type: Annotated[str, Field(max_length=64)]
    status: Literal["True", "False", "Unknown"]
    observed_generation: int | None = None
    last_transition_time: Time
    reason: Annotated[str, Field(min_length=1, max_length=128)]
    message: Annotated[str, Field(max_length=2048)]


class ShardProgress(Model):
    """Shards by state."""

    total: Count = 0
    done: Count = 0
    active: Count = 0
    failed: Count = 0


class RecordProgress(Model):
    """Records by fate. At the end: in + added = out + bad + filtered."""

    total: Count | None = None
    """Records that the plan counted in the input."""
    in_: Annotated[Count, Field(alias="in")] = 0
    out: Count = 0
    bad: Count = 0
    filtered: Count = 0
    added: Count = 0
    """Records beyond one for each that went in, made by a `map`."""


class Progress(Model):
    """How far the job is. While it runs these are the workers' reports; at the end, the commit step's sums."""

    percent: Annotated[int, Field(ge=0, le=100)] = 0
    summary: Annotated[str, Field(max_length=64)] = ""
    """Done and all shards: `3/8`."""
    shards: ShardProgress = ShardProgress()
    records: RecordProgress = RecordProgress()
    bytes_in: Count = 0
    bytes_out: Count = 0
    records_per_second: Annotated[float, Field(ge=0)] | None = None
    bytes_per_second: Annotated[float, Field(ge=0)] | None = None
    """Bytes written a second."""
    estimated_seconds_remaining: Count | None = None
    """Empty until it means something: 5 % done and 5 seconds of work."""
    eta: Annotated[str, Field(max_length=32)] | None = None
    """The same for people: `1m20s`."""
    updated_at: Time | None = None


class SplitStatus(Model):
    """What one split holds."""

    name: Short
    records: Count
    shards: Count
    bytes: Count = 0
    expected: Count | None = None
    """Records that the split's rule asks for."""
    tolerance: Count | None = None
    """How many more or fewer the rule allows."""


class OutputFile(Model):
    """One finished shard."""

    uri: LongUri
    split: Short
    bytes: Count
    records: Count
    sha256: Sha256
    replication: Count | None = None
    """Replicas of each block, as HDFS keeps them."""


class LabelStatus(Model):
    """The classes of one label feature, in the order of their numbers."""

    feature: Short
    num_classes: Count
    """How many there are, also where fewer are shown."""
    classes: Annotated[list[Short], Field(max_length=MAX_LABELS)] = []
    """The first names, as many as fit; all of them are in `_dataprep/labels/<feature>.txt`."""


class Failure(Model):
    """One thing that went wrong."""

    reason: Annotated[str, Field(max_length=64)]
    message: Message
    step: Literal["Plan", "Convert", "Commit"] | None = None
    index: int | None = None
    """Index of the convert task."""
    shard: Short | None = None
    input: LongUri | None = None
    pod: Short | None = None
    exit_code: int | None = None
    count: Annotated[int, Field(ge=1)] = 1
    at: Time | None = None


class Run(Model):
    """One attempt that has ended."""

    attempt: Count
    phase: Literal["Succeeded", "Failed"]
    reason: Annotated[str, Field(max_length=128)]
    message: Annotated[str, Field(max_length=256)]
    run_id: Annotated[str, Field(max_length=64)] | None = None
    """The run that it worked on, once it was planned."""
    started_at: Time
    ended_at: Time


class Evictions(Model):
    """Pods that the cluster took away: preemption, drains, nodes under pressure or lost. They count as no failure."""

    count: Count = 0
    """Since the job began, or since its last retry."""
    in_a_row: Count = 0
    """Those of them after the last shard was finished."""
    shards_done: Count = 0
    """Shards that were finished at the last one."""
    last_time: Time | None = None
    at_last_time: Count = 0
    """How many were seen of that second."""
    reason: Short = ""
    """Of the last one, in Kubernetes' word: `PreemptionByScheduler`, `EvictionByEvictionAPI`, `TerminationByKubelet`."""


class Effective(Model):
    """Values in force, after defaults and fallbacks."""

    parallelism: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """Pods at a time; what the scale sub-resource reports, as an int32."""
    image: Annotated[str, Field(max_length=512)] | None = None
    accelerator: Annotated[str, Field(max_length=64)] | None = None
    """`CPU` or `GPU`."""
    memory: Annotated[str, Field(max_length=32)] | None = None
    """Memory limit of the converter pods, when `spec.retry` has raised it."""
    plan_memory: Annotated[str, Field(max_length=32)] | None = None
    """The same of the plan step."""
    commit_memory: Annotated[str, Field(max_length=32)] | None = None
    """The same of the commit step."""


class CodeStatus(Model):
    """The code of `spec.code`."""

    commit: Annotated[str, Field(max_length=40, pattern=r"^[0-9a-f]{40}$")]
    """What the reference was resolved to when the job was planned."""


class Timings(Model):
    """Seconds of each step."""

    planning_seconds: Annotated[float, Field(ge=0)] | None = None
    running_seconds: Annotated[float, Field(ge=0)] | None = None
    committing_seconds: Annotated[float, Field(ge=0)] | None = None
    total_seconds: Annotated[float, Field(ge=0)] | None = None
    read_wait_seconds: Annotated[float, Field(ge=0)] | None = None
    """Of all workers together: how long encoding waited for what is read and transformed."""
    bottleneck: Annotated[str, Field(max_length=256)] | None = None
    """What the conversion waited for, and the shares of its stages: `source-bound (read 71 %, …)`."""


class Channels(Model):
    """The data set as the channels of a SageMaker training job."""

    content_type: Short
    compression_type: Short
    prefixes: Annotated[dict[Short, LongUri], Field(max_length=MAX_SPLITS)] = {}
    """How the URIs of each split's files begin."""

    def input_data_config(self) -> list[dict[str, Any]]:  # Any: JSON
        """`InputDataConfig` of `CreateTrainingJob`."""
        return [
            {
                "ChannelName": name,
                "ContentType": self.content_type,
                "CompressionType": self.compression_type,
                "DataSource": {
                    "S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": prefix, "S3DataDistributionType": "FullyReplicated"},
                },
            }
            for name, prefix in self.prefixes.items()
        ]


class OutputStatus(Model):
    """The data set. Until it is finished only its place is known."""

    uri: LongUri
    manifest_uri: LongUri | None = None
    manifest_sha256: Sha256 | None = None
    digest: Sha256 | None = None
    """The manifest's digest over all files, as `dataprep verify` prints it."""
    quarantine_uri: LongUri | None = None
    """Folder of the bad records, when they are kept and there are any."""
    files: Count = 0
    records: Count = 0
    bytes: Count = 0
    channels: Channels | None = None
    """For SageMaker, when it can use the data set."""


class FromJob(Model):
    """The finished data set of the job that `source.fromJob` names, noted when this job starts."""

    # As the other job's status has it. Whether it may be read is said of the spec in which it is put: a status must be readable.
    uri: Annotated[str, Field(min_length=1, max_length=1024)]
    digest: Sha256 | None = None


class DataPrepJobStatus(Model):
    """Observed state, written by the operator alone."""

    observed_generation: int | None = None
    phase: Phase | None = None
    conditions: Annotated[
        list[Condition],
        Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = []
    start_time: Time | None = None
    completion_time: Time | None = None
    attempt: Count = 0
    """Conversions started: 1, and one more for each retry and each fallback to CPU."""
    step: Literal["Plan", "Convert", "Commit"] | None = None
    """The step that runs, or ran last. A retry begins with it."""
    run_id: Annotated[str, Field(max_length=64)] | None = None
    plan_sha256: Sha256 | None = None
    reused: bool | None = None
    """Whether a finished data set of the same spec and inputs was found and used as it is."""
    tasks: Count | None = None
    """Indexes of the convert Job."""
    failed_indexes: Ranges | None = None
    """Tasks that failed for good: `0-3,7`."""
    progress: Progress | None = None
    ignored_files: Count | None = None
    """Files among the inputs that the source doesn't take: hidden ones, other extensions, data sets below them."""
    splits: Annotated[list[SplitStatus], Field(max_length=MAX_SPLITS)] = []
    labels: Annotated[list[LabelStatus], Field(max_length=8)] = []
    from_job: FromJob | None = None
    """What `source.fromJob` was resolved to."""
    output: OutputStatus | None = None
    outputs: Annotated[list[OutputFile], Field(max_length=MAX_OUTPUTS)] = []
    """The files, when they are few; else see `output.manifestUri`."""
    failures: Annotated[list[Failure], Field(max_length=MAX_FAILURES)] = []
    bad_records: Annotated[list[Failure], Field(max_length=MAX_FAILURES)] = []
    """Examples of records that were left out."""
    warnings: Annotated[list[Message], Field(max_length=10)] = []
    evictions: Evictions | None = None
    effective: Effective | None = None
    child_prefix: Annotated[str, Field(max_length=63)] | None = None
    """How the names of the job's Jobs, pods and ConfigMap begin."""
    timings: Timings | None = None
    code: CodeStatus | None = None
    runs: Annotated[list[Run], Field(max_length=MAX_RUNS)] = []
    """The last attempts that ended, the newest first."""
    handled_retry: Annotated[str, Field(max_length=256)] | None = None
    """The last value of the annotation `dataprep.io/retry` that was acted on."""


def bounded(status: DataPrepJobStatus) -> DataPrepJobStatus:
    """`status` cut to SIZE_LIMIT: first goes what the manifest holds too, then examples, then the ends of long texts."""
    fewer = [partial(_few_classes, most=most) for most in _FEWER_CLASSES]
    steps: list[Callable[[DataPrepJobStatus], DataPrepJobStatus]] = [_whole, _without_outputs, *fewer, _few_examples, _short_texts]
    for shorten in steps:
        status = shorten(status)
        if len(canonical.dumps(status.model_dump(mode="json", by_alias=True, exclude_none=True))) <= SIZE_LIMIT:
            break
    return status


def _whole(status: DataPrepJobStatus) -> DataPrepJobStatus:
    return status


def _without_outputs(status: DataPrepJobStatus) -> DataPrepJobStatus:
    return status.model_copy(update={"outputs": []})


def _few_classes(status: DataPrepJobStatus, *, most: int) -> DataPrepJobStatus:
    return status.model_copy(update={"labels": [label.model_copy(update={"classes": label.classes[:most]}) for label in status.labels]})


def _few_examples(status: DataPrepJobStatus) -> DataPrepJobStatus:
    return status.model_copy(
        update={"bad_records": status.bad_records[:3], "failures": status.failures[:3], "warnings": status.warnings[:3]}
    )


def _short_texts(status: DataPrepJobStatus) -> DataPrepJobStatus:
    def cut(failure: Failure) -> Failure:
        return failure.model_copy(update={"message": failure.message[:200], "input": None, "shard": None, "pod": None})

    return status.model_copy(
        update={
            "conditions": [condition.model_copy(update={"message": condition.message[:200]}) for condition in status.conditions],
            "labels": [label.model_copy(update={"classes": []}) for label in status.labels],
            "bad_records": [cut(record) for record in status.bad_records],
            "failures": [cut(failure) for failure in status.failures],
            "warnings": [warning[:200] for warning in status.warnings],
        }
    )
