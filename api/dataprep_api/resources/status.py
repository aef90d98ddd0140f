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
    """Type of condition."""
    status: Literal["True", "False", "Unknown"]
    """True, False or Unknown."""
    observed_generation: int | None = None
    """Generation it is about."""
    last_transition_time: Time
    """Last change of status."""
    reason: Annotated[str, Field(min_length=1, max_length=128)]
    """Reason, one word."""
    message: Annotated[str, Field(max_length=2048)]
    """Details, for people."""


class ShardProgress(Model):
    """Shards by state."""

    total: Count = 0
    """All shards."""
    done: Count = 0
    """Finished."""
    active: Count = 0
    """In progress."""
    failed: Count = 0
    """Failed."""


class RecordProgress(Model):
    """Records by outcome. At the end: in + added = out + bad + filtered."""

    total: Count | None = None
    """Records in the input, by the plan."""
    in_: Annotated[Count, Field(alias="in")] = 0
    """Records read."""
    out: Count = 0
    """Records written."""
    bad: Count = 0
    """Bad records."""
    filtered: Count = 0
    """Records filtered out."""
    added: Count = 0
    """Extra records made by a `map`. Those beyond one for each record that went in."""


class Progress(Model):
    """How far the job is. While it runs, the numbers come from reports of the workers; at the end, from the commit step."""

    percent: Annotated[int, Field(ge=0, le=100)] = 0
    """Percent done."""
    summary: Annotated[str, Field(max_length=64)] = ""
    """Shards done and in all: `3/8`."""
    shards: ShardProgress = ShardProgress()
    """Shards by state."""
    records: RecordProgress = RecordProgress()
    """Records by outcome."""
    bytes_in: Count = 0
    """Bytes read."""
    bytes_out: Count = 0
    """Bytes written."""
    records_per_second: Annotated[float, Field(ge=0)] | None = None
    """Records per second."""
    bytes_per_second: Annotated[float, Field(ge=0)] | None = None
    """Bytes written per second."""
    estimated_seconds_remaining: Count | None = None
    """Seconds left. Empty until 5 % and 5 seconds of work are done."""
    eta: Annotated[str, Field(max_length=32)] | None = None
    """Time left, for people: `1m20s`."""
    updated_at: Time | None = None
    """Time of these numbers."""


class SplitStatus(Model):
    """What one split holds."""

    name: Short
    """Split name."""
    records: Count
    """Records."""
    shards: Count
    """Shards."""
    bytes: Count = 0
    """Bytes."""
    expected: Count | None = None
    """Records that its rule asks for."""
    tolerance: Count | None = None
    """Deviation that its rule allows."""


class OutputFile(Model):
    """One finished shard."""

    uri: LongUri
    """URI."""
    split: Short
    """Split."""
    bytes: Count
    """Size."""
    records: Count
    """Records."""
    sha256: Sha256
    """SHA-256."""
    replication: Count | None = None
    """Replicas per block (HDFS)."""


class LabelStatus(Model):
    """The classes of a label, in order of number."""

    feature: Short
    """Feature name."""
    num_classes: Count
    """Number of classes, shown or not."""
    classes: Annotated[list[Short], Field(max_length=MAX_LABELS)] = []
    """Names of the first classes. As many as fit; all are in `_dataprep/labels/<feature>.txt`."""


class Failure(Model):
    """One thing that went wrong."""

    reason: Annotated[str, Field(max_length=64)]
    """Reason, one word."""
    message: Message
    """Details, for people."""
    step: Literal["Plan", "Convert", "Commit"] | None = None
    """Step."""
    index: int | None = None
    """Convert task."""
    shard: Short | None = None
    """Shard."""
    input: LongUri | None = None
    """Input."""
    pod: Short | None = None
    """Pod."""
    exit_code: int | None = None
    """Exit code."""
    count: Annotated[int, Field(ge=1)] = 1
    """Times seen."""
    at: Time | None = None
    """Time."""


class Run(Model):
    """One attempt that has ended."""

    attempt: Count
    """Attempt number."""
    phase: Literal["Succeeded", "Failed"]
    """How it ended."""
    reason: Annotated[str, Field(max_length=128)]
    """Reason, one word."""
    message: Annotated[str, Field(max_length=256)]
    """Details, for people."""
    run_id: Annotated[str, Field(max_length=64)] | None = None
    """Run id, once planned."""
    started_at: Time
    """Start."""
    ended_at: Time
    """End."""


class Evictions(Model):
    """Pods that the cluster took away. By preemption, drains, or nodes under pressure or lost. They don't count as failures."""

    count: Count = 0
    """Since the job or last retry began."""
    in_a_row: Count = 0
    """Since a shard was last finished."""
    shards_done: Count = 0
    """Finished shards at the last one."""
    last_time: Time | None = None
    """Time of the last one."""
    at_last_time: Count = 0
    """How many in that second."""
    reason: Short = ""
    """Kubernetes' reason of the last one. `PreemptionByScheduler`, `EvictionByEvictionAPI`, `TerminationByKubelet`."""


class Effective(Model):
    """Values in force, after defaults and fallbacks."""

    parallelism: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """Pods at the same time. The scale sub-resource reports it, as an int32."""
    image: Annotated[str, Field(max_length=512)] | None = None
    """Image."""
    accelerator: Annotated[str, Field(max_length=64)] | None = None
    """`CPU` or `GPU`."""
    memory: Annotated[str, Field(max_length=32)] | None = None
    """Memory limit raised by `retry`. Of the converter pods."""
    plan_memory: Annotated[str, Field(max_length=32)] | None = None
    """The same for the plan step."""
    commit_memory: Annotated[str, Field(max_length=32)] | None = None
    """The same for the commit step."""


class CodeStatus(Model):
    """The code of `spec.code`."""

    commit: Annotated[str, Field(max_length=40, pattern=r"^[0-9a-f]{40}$")]
    """Commit that planning resolved."""


class Timings(Model):
    """Seconds of each step."""

    planning_seconds: Annotated[float, Field(ge=0)] | None = None
    """Plan step."""
    running_seconds: Annotated[float, Field(ge=0)] | None = None
    """Convert step."""
    committing_seconds: Annotated[float, Field(ge=0)] | None = None
    """Commit step."""
    total_seconds: Annotated[float, Field(ge=0)] | None = None
    """Whole job."""
    read_wait_seconds: Annotated[float, Field(ge=0)] | None = None
    """Time that encoding waited for input. Over all workers: for reading and transforms."""
    bottleneck: Annotated[str, Field(max_length=256)] | None = None
    """What limited the conversion. With the shares of its stages: `source-bound (read 71 %, …)`."""


class Channels(Model):
    """Channels of a SageMaker training job. Set when SageMaker can use the data set."""

    content_type: Short
    """Content type."""
    compression_type: Short
    """Compression type."""
    prefixes: Annotated[dict[Short, LongUri], Field(max_length=MAX_SPLITS)] = {}
    """URI prefix of each split."""

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
    """Folder of the data set."""
    manifest_uri: LongUri | None = None
    """URI of the manifest."""
    manifest_sha256: Sha256 | None = None
    """SHA-256 of the manifest."""
    digest: Sha256 | None = None
    """Digest over all files. The manifest has it, and `dataprep verify` prints it."""
    quarantine_uri: LongUri | None = None
    """Folder of kept bad records, if any."""
    files: Count = 0
    """Files."""
    records: Count = 0
    """Records."""
    bytes: Count = 0
    """Bytes."""
    channels: Channels | None = None
    """Channels for SageMaker. Only when it can use the data set."""


class FromJob(Model):
    """The data set that `source.fromJob` resolved to, noted when this job starts."""

    # As the other job's status has it. Whether it may be read is said of the spec in which it is put: a status must be readable.
    uri: Annotated[str, Field(min_length=1, max_length=1024)]
    """Folder of the data set."""
    digest: Sha256 | None = None
    """Its digest."""


class DataPrepJobStatus(Model):
    """Observed state, written by the operator alone."""

    observed_generation: int | None = None
    """Generation seen last."""
    phase: Phase | None = None
    """Phase."""
    conditions: Annotated[
        list[Condition],
        Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = []
    """Conditions."""
    start_time: Time | None = None
    """Start."""
    completion_time: Time | None = None
    """End."""
    attempt: Count = 0
    """Conversions started. 1, and one more for each retry and each fallback to CPU."""
    step: Literal["Plan", "Convert", "Commit"] | None = None
    """Current or last step. A retry begins with it."""
    run_id: Annotated[str, Field(max_length=64)] | None = None
    """Run id."""
    plan_sha256: Sha256 | None = None
    """SHA-256 of the plan."""
    reused: bool | None = None
    """Whether a data set was reused. It is a finished one of the same spec and inputs."""
    tasks: Count | None = None
    """Tasks of the convert Job."""
    failed_indexes: Ranges | None = None
    """Tasks that failed for good: `0-3,7`."""
    progress: Progress | None = None
    """How far the job is."""
    ignored_files: Count | None = None
    """Input files that were ignored. Hidden files, other extensions, and data sets below the inputs."""
    splits: Annotated[list[SplitStatus], Field(max_length=MAX_SPLITS)] = []
    """What each split holds."""
    labels: Annotated[list[LabelStatus], Field(max_length=8)] = []
    """Classes of the labels."""
    from_job: FromJob | None = None
    """What `source.fromJob` resolved to."""
    output: OutputStatus | None = None
    """The data set."""
    outputs: Annotated[list[OutputFile], Field(max_length=MAX_OUTPUTS)] = []
    """The files, if few. For all files see `output.manifestUri`."""
    failures: Annotated[list[Failure], Field(max_length=MAX_FAILURES)] = []
    """What went wrong."""
    bad_records: Annotated[list[Failure], Field(max_length=MAX_FAILURES)] = []
    """Examples of bad records."""
    warnings: Annotated[list[Message], Field(max_length=10)] = []
    """Warnings."""
    evictions: Evictions | None = None
    """Pods that the cluster took away."""
    effective: Effective | None = None
    """Values in force."""
    child_prefix: Annotated[str, Field(max_length=63)] | None = None
    """Name prefix of Jobs, pods, ConfigMap."""
    timings: Timings | None = None
    """Seconds of each step."""
    code: CodeStatus | None = None
    """The code of `spec.code`."""
    runs: Annotated[list[Run], Field(max_length=MAX_RUNS)] = []
    """Last attempts, newest first."""
    handled_retry: Annotated[str, Field(max_length=256)] | None = None
    """Last `dataprep.io/retry` handled. The last value of that annotation that was acted on."""


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
