"""`DataPrepJob.status`: the live progress of the job and, at the end, its results.

Every list has a maximum length, and indexes are stored as ranges. Long texts could still add up, so `bounded` shortens the status before it
is written. Therefore, the status of even the largest job stays below 64 KB.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from dataprep_api import canonical
from dataprep_api.spec import Model

SIZE_LIMIT = 60_000
"""The maximum size of a status as JSON, in bytes. Together with the metadata and a typical spec, a status of this size fits in 64 KiB."""
MAX_OUTPUTS = 50
MAX_FAILURES = 20
MAX_RUNS = 5
MAX_SPLITS = 16
MAX_LABELS = 1000
"""The maximum number of class names per feature in the status. The complete list is stored beside the data set."""
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
StepName = Literal["Plan", "Scan", "Merge", "Shuffle", "Convert", "Commit"]


class Condition(Model):
    """A standard Kubernetes condition."""

    type: Annotated[str, Field(max_length=64)]
    """Type of the condition."""
    status: Literal["True", "False", "Unknown"]
    """True, False or Unknown."""
    observed_generation: int | None = None
    """Observed generation."""
    last_transition_time: Time
    """Time of the last status change."""
    reason: Annotated[str, Field(min_length=1, max_length=128)]
    """One-word reason."""
    message: Annotated[str, Field(max_length=2048)]
    """Readable details."""


class ShardProgress(Model):
    """The number of shards by state."""

    total: Count = 0
    """All shards."""
    done: Count = 0
    """Finished shards."""
    active: Count = 0
    """Shards in progress."""
    failed: Count = 0
    """Failed shards."""


class RecordProgress(Model):
    """The number of records by outcome. At the end of the job, `in + added = out + bad + filtered`."""

    total: Count | None = None
    """Records in the input, as planned."""
    in_: Annotated[Count, Field(alias="in")] = 0
    """Records read."""
    out: Count = 0
    """Records written."""
    bad: Count = 0
    """Bad records."""
    filtered: Count = 0
    """Records filtered out."""
    added: Count = 0
    """Extra records made by a `map`. The first record made from each input record isn't counted."""


class Progress(Model):
    """The progress of the job. While the job runs, the numbers come from the workers' reports. At the end, they come from the commit step."""

    percent: Annotated[int, Field(ge=0, le=100)] = 0
    """Percent done."""
    summary: Annotated[str, Field(max_length=64)] = ""
    """Finished and total shards. An example is `3/8`. During the scan step, the numbers count parts of the scan. During the shuffle step, they count slices of the input."""
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
    """Seconds left. The field is empty until 5 % and 5 seconds of work are done."""
    eta: Annotated[str, Field(max_length=32)] | None = None
    """Readable time left. An example is `1m20s`."""
    updated_at: Time | None = None
    """Time at which these numbers were computed."""


class SplitStatus(Model):
    """The contents of one split."""

    name: Short
    """Split name."""
    records: Count
    """Records."""
    shards: Count
    """Shards."""
    bytes: Count = 0
    """Bytes."""
    expected: Count | None = None
    """Records expected by the split's rule."""
    tolerance: Count | None = None
    """Allowed deviation from `expected`."""


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
    """The classes of a label, in order of their numbers."""

    feature: Short
    """Feature name."""
    num_classes: Count
    """Number of all classes. The list may contain fewer."""
    classes: Annotated[list[Short], Field(max_length=MAX_LABELS)] = []
    """Names of the first classes. The list contains as many names as fit. All names are in `_dataprep/labels/<feature>.txt`."""


class Failure(Model):
    """One failure or bad record."""

    reason: Annotated[str, Field(max_length=64)]
    """One-word reason."""
    message: Message
    """Readable details."""
    step: StepName | None = None
    """Step."""
    index: int | None = None
    """Task. In the scan step, a task is a part of the scan. In the shuffle step, a task is a slice of the input."""
    shard: Short | None = None
    """Shard."""
    input: LongUri | None = None
    """Input."""
    pod: Short | None = None
    """Pod."""
    exit_code: int | None = None
    """Exit code."""
    count: Annotated[int, Field(ge=1)] = 1
    """Number of times that this failure occurred."""
    at: Time | None = None
    """Time."""


class Run(Model):
    """One finished attempt."""

    attempt: Count
    """Attempt number."""
    phase: Literal["Succeeded", "Failed"]
    """How the attempt ended."""
    reason: Annotated[str, Field(max_length=128)]
    """One-word reason."""
    message: Annotated[str, Field(max_length=256)]
    """Readable details."""
    run_id: Annotated[str, Field(max_length=64)] | None = None
    """Run id, if planned."""
    started_at: Time
    """Start."""
    ended_at: Time
    """End."""


class Evictions(Model):
    """Pods that the cluster evicted. The causes are preemption, drains, node pressure and lost nodes. Evictions don't count as failures."""

    count: Count = 0
    """Evictions since the start or last retry."""
    in_a_row: Count = 0
    """Evictions since a shard was last finished. A finished part of a scan or slice of a shuffle counts as a shard."""
    shards_done: Count = 0
    """Finished shards at the last eviction. Finished parts of a scan and slices of a shuffle count as shards."""
    last_time: Time | None = None
    """Time of the last eviction."""
    at_last_time: Count = 0
    """Evictions in the same second as `lastTime`."""
    reason: Short = ""
    """Kubernetes' reason for the last eviction. Examples are `PreemptionByScheduler`, `EvictionByEvictionAPI` and `TerminationByKubelet`."""


class Effective(Model):
    """The values in effect, after defaults and fallbacks."""

    parallelism: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """Number of pods at the same time. The scale sub-resource reports this number as an int32."""
    image: Annotated[str, Field(max_length=512)] | None = None
    """Image."""
    accelerator: Annotated[str, Field(max_length=64)] | None = None
    """`CPU` or `GPU`."""
    memory: Annotated[str, Field(max_length=32)] | None = None
    """Memory limit raised by `retry`. It applies to the pods of the scan, shuffle and convert steps."""
    plan_memory: Annotated[str, Field(max_length=32)] | None = None
    """The plan step's raised memory. It also applies to the merge step."""
    commit_memory: Annotated[str, Field(max_length=32)] | None = None
    """The commit step's raised memory."""


class CodeStatus(Model):
    """The resolved version of `spec.code`."""

    commit: Annotated[str, Field(max_length=40, pattern=r"^[0-9a-f]{40}$")]
    """Commit of `code.git.ref`."""


class Timings(Model):
    """The duration of each step in seconds."""

    planning_seconds: Annotated[float, Field(ge=0)] | None = None
    """Plan step. If the input was scanned, the scan and merge steps are included."""
    running_seconds: Annotated[float, Field(ge=0)] | None = None
    """Convert step. The shuffle step is included."""
    committing_seconds: Annotated[float, Field(ge=0)] | None = None
    """Commit step."""
    total_seconds: Annotated[float, Field(ge=0)] | None = None
    """Complete job."""
    read_wait_seconds: Annotated[float, Field(ge=0)] | None = None
    """Time that encoding waited for input. It is summed over all workers. Encoding waits while records are read and transformed."""
    bottleneck: Annotated[str, Field(max_length=256)] | None = None
    """What limited the conversion. Each stage's share of the time follows in parentheses: `source-bound (read 71 %, …)`."""


class Channels(Model):
    """Channels of a SageMaker training job. They are set only if SageMaker can use the data set."""

    content_type: Short
    """Content type."""
    compression_type: Short
    """Compression type."""
    prefixes: Annotated[dict[Short, LongUri], Field(max_length=MAX_SPLITS)] = {}
    """URI prefix of each split."""

    def input_data_config(self) -> list[dict[str, Any]]:  # Any, because the values are JSON values
        """Return the `InputDataConfig` of SageMaker's `CreateTrainingJob`."""
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
    """The data set. Until the data set is finished, only its URI is known."""

    uri: LongUri
    """Folder of the data set."""
    manifest_uri: LongUri | None = None
    """URI of the manifest."""
    manifest_sha256: Sha256 | None = None
    """SHA-256 of the manifest."""
    digest: Sha256 | None = None
    """Digest of all files. The manifest contains the digest, and `dataprep verify` prints it."""
    quarantine_uri: LongUri | None = None
    """Folder of quarantined records, if any."""
    files: Count = 0
    """Files."""
    records: Count = 0
    """Records."""
    bytes: Count = 0
    """Bytes."""
    channels: Channels | None = None
    """Channels for SageMaker. They are set only if SageMaker can use the data set."""


class FromJob(Model):
    """The data set that `source.fromJob` was resolved to when this job started."""

    # This field has no Uri validators, because every stored status must stay readable. The URI is validated when it is put into the spec.
    uri: Annotated[str, Field(min_length=1, max_length=1024)]
    """Folder of the data set."""
    digest: Sha256 | None = None
    """Digest of the data set."""


class ScanStatus(Model):
    """The scan of the input that the plan step asked for."""

    id: Sha256
    """Name of the scan."""
    parts: Count
    """Parts."""


class DataPrepJobStatus(Model):
    """Observed state, written only by the operator."""

    observed_generation: int | None = None
    """Generation last seen by the operator."""
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
    """Number of the current attempt. Each retry, fallback to CPU and increase of memory begins a new attempt."""
    step: StepName | None = None
    """Current or last step. A retry starts with this step, or with `Plan` if this step is `Scan` or `Merge`."""
    scan: ScanStatus | None = None
    """Scan of the input. The plan step asks for a scan if the input is too large for one pod."""
    run_id: Annotated[str, Field(max_length=64)] | None = None
    """Run id."""
    plan_sha256: Sha256 | None = None
    """SHA-256 of the plan."""
    reused: bool | None = None
    """Whether a data set was reused. A finished data set is reused if it was made from the same spec and inputs."""
    tasks: Count | None = None
    """Tasks of the convert Job."""
    shuffle_tasks: Count | None = None
    """Tasks of the shuffle Job. It divides the records of a large shuffle among the convert tasks."""
    failed_indexes: Ranges | None = None
    """Permanently failed tasks. An example is `0-3,7`."""
    progress: Progress | None = None
    """Progress of the job."""
    ignored_files: Count | None = None
    """Input files that were ignored. Ignored files are hidden files, files with other extensions, and data sets below the inputs."""
    splits: Annotated[list[SplitStatus], Field(max_length=MAX_SPLITS)] = []
    """Contents of each split."""
    labels: Annotated[list[LabelStatus], Field(max_length=8)] = []
    """Classes of the labels."""
    from_job: FromJob | None = None
    """Data set of `source.fromJob`."""
    output: OutputStatus | None = None
    """The data set."""
    outputs: Annotated[list[OutputFile], Field(max_length=MAX_OUTPUTS)] = []
    """Files, if there are few. The manifest at `output.manifestUri` lists all files."""
    failures: Annotated[list[Failure], Field(max_length=MAX_FAILURES)] = []
    """Failures."""
    bad_records: Annotated[list[Failure], Field(max_length=MAX_FAILURES)] = []
    """Examples of bad records."""
    warnings: Annotated[list[Message], Field(max_length=10)] = []
    """Warnings."""
    evictions: Evictions | None = None
    """Pods that the cluster evicted."""
    rejected_spec: Sha256 | None = None
    """Digest of a spec that failed before the start. If the spec is edited, the job is validated again."""
    waiting_since: Time | None = None
    """Start of the current wait. The field is set while the job is unfinished and its condition `Running` is False. It changes when the condition's reason changes."""
    effective: Effective | None = None
    """Values in effect."""
    selector: Annotated[str, Field(max_length=256)] | None = None
    """Label selector of the converter pods. The scale sub-resource reports this selector, which `HorizontalPodAutoscaler` needs."""
    child_prefix: Annotated[str, Field(max_length=63)] | None = None
    """Name prefix of the Jobs, pods and ConfigMap."""
    timings: Timings | None = None
    """Seconds of each step."""
    code: CodeStatus | None = None
    """Version of `spec.code`."""
    runs: Annotated[list[Run], Field(max_length=MAX_RUNS)] = []
    """Finished attempts, newest first."""
    handled_retry: Annotated[str, Field(max_length=256)] | None = None
    """Last handled `dataprep.io/retry`. This is the last value of the annotation that the operator has acted on."""


def bounded(status: DataPrepJobStatus) -> DataPrepJobStatus:
    """Shorten `status` to SIZE_LIMIT. Removes first the data that the manifest also contains, then examples, and then the ends of long texts."""
    fewer = [partial(_few_classes, most=most) for most in _FEWER_CLASSES]
    steps: list[Callable[[DataPrepJobStatus], DataPrepJobStatus]] = [_unchanged, _without_outputs, *fewer, _few_examples, _short_texts]
    for shorten in steps:
        status = shorten(status)
        if len(canonical.dumps(status.model_dump(mode="json", by_alias=True, exclude_none=True))) <= SIZE_LIMIT:
            break
    return status


def _unchanged(status: DataPrepJobStatus) -> DataPrepJobStatus:
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
            "runs": [run.model_copy(update={"message": run.message[:60]}) for run in status.runs],
        }
    )
