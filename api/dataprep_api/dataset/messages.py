"""The messages from pods to the operator: termination messages (at most 4,096 bytes of JSON) and progress reports.

The operator parses both kinds of messages as untrusted input, because anyone who is allowed to run a pod can write any text into a message.
"""

import base64
import zlib
from bisect import bisect_left
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from dataprep_api import canonical
from dataprep_api.errors import MessageError
from dataprep_api.reasons import Reason
from dataprep_api.redaction import printable
from dataprep_api.resources.status import (
    MAX_LABELS,
    Channels,
    Count,
    LabelStatus,
    LongUri,
    OutputFile,
    RecordProgress,
    Sha256,
    Short,
    SplitStatus,
)
from dataprep_api.spec import Model

TERMINATION_LIMIT = 4096
UNPACKED_LIMIT = 2**20
"""The maximum size of unpacked class names as JSON, in bytes."""
_FEWEST_CLASSES = 20
PROGRESS_LIMIT = 4096
PROGRESS_PATH = "/v1/progress"
TOKEN_AUDIENCE = "dataprep-operator"  # noqa: S105  # a name, not a secret


LARGEST_NUMBER: Final = 2**53
"""The largest number in a message. The API server refuses a status with numbers that have more than 64 bits or are infinite."""
MOST_TASKS: Final = 10_000
"""The maximum number of tasks in a plan. It is also the maximum number of parts in a scan. The operator keeps lists of tasks in memory."""


class _Reported(Model):
    """A message from a pod. Messages with numbers that a status can't store are refused."""

    @model_validator(mode="after")
    def _check_numbers(self) -> Self:
        if not _is_storable(self.model_dump()):
            raise ValueError(f"a message can't contain a number above {LARGEST_NUMBER}")
        return self


# Any, because this function accepts every JSON value.
def _is_storable(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_storable(member) for member in value.values())
    if isinstance(value, list):
        return all(_is_storable(item) for item in value)
    return not isinstance(value, int | float) or abs(value) <= LARGEST_NUMBER


class BadRecord(Model):
    """One bad record: its input and the reason why it is bad."""

    uri: LongUri
    row: Count | None = None
    """The number of the row, line or sample within the input, counted from 0."""
    reason: Annotated[str, Field(max_length=512)]


class PlanResult(_Reported):
    """The result of the plan step."""

    kind: Literal["plan"] = "plan"
    run_id: Annotated[str, Field(max_length=64)]
    plan_sha256: Sha256
    plan_uri: LongUri
    tasks: Annotated[int, Field(ge=0, le=MOST_TASKS)]
    shuffle_tasks: Annotated[int, Field(ge=1, le=MOST_TASKS)] | None = None
    """The number of tasks of the shuffle step, or None if the job has no shuffle step. The conversion must wait for these tasks."""
    shards: Count
    records: Count
    bytes_in: Count
    ignored: Count | None = None
    """The number of ignored input files."""
    splits: Annotated[list[SplitStatus], Field(max_length=16)] = []
    labels: Annotated[list[LabelStatus], Field(max_length=8)] = []
    packed_classes: Annotated[str, Field(max_length=TERMINATION_LIMIT)] | None = None
    """The class names of all `labels`, compressed by `_with_packed_classes`.

    This field is set only in a serialised message, and only if the plain names don't fit into the message.
    """
    code_commit: Annotated[str, Field(max_length=40, pattern=r"^[0-9a-f]{40}$")] | None = None
    """The commit to which `spec.code.git` was resolved."""
    reused: bool = False
    """Whether a finished data set with the same run id was found.

    If true, no conversion or commit is needed, and `commit` describes the data set that was found.
    """
    commit: "CommitResult | None" = None
    """The data set that was found or, for a small job, the data set that the plan pod wrote itself."""
    work_seconds: Annotated[float, Field(ge=0)] | None = None
    """How long the conversion took, if the plan pod converted the records itself."""
    commit_seconds: Annotated[float, Field(ge=0)] | None = None
    """How long the commit took, if the plan pod did the commit itself."""
    warnings: Annotated[list[Annotated[str, Field(max_length=512)]], Field(max_length=10)] = []


class ScanRequest(_Reported):
    """The plan step's request to let several pods scan its input. After the scan, the merge step makes the plan from the scan's results.

    Only a plan pod with the environment variable `names.MAY_SCAN` may ask for a scan.
    """

    kind: Literal["scan"] = "scan"
    scan: Annotated[str, Field(max_length=64, pattern=r"^[0-9a-f]{8,64}$")]
    """The hex digest that names the scan.

    Scans with the same name and the same number of parts divide the same files in the same way. So a repeated scan finds the parts that it
    has already finished.
    """
    parts: Annotated[int, Field(ge=2, le=MOST_TASKS)]
    """The number of parts. Each part is scanned by one pod."""
    code_commit: Annotated[str, Field(max_length=40, pattern=r"^[0-9a-f]{40}$")] | None = None
    """The commit to which `spec.code.git` was resolved."""


class CommitResult(_Reported):
    """The result of the commit step.

    The numbers are summed over the shards' reports, and have been checked against the store.
    """

    kind: Literal["commit"] = "commit"
    run_id: Annotated[str, Field(max_length=64)]
    manifest_uri: LongUri
    manifest_sha256: Sha256
    digest: Sha256 | None = None
    quarantine_uri: LongUri | None = None
    files: Count
    records: RecordProgress
    bytes_in: Count
    bytes_out: Count
    splits: Annotated[list[SplitStatus], Field(max_length=16)] = []
    outputs: Annotated[list[OutputFile], Field(max_length=50)] = []
    """All output files, or an empty list if the files don't fit into the message."""
    bad: Annotated[list[BadRecord], Field(max_length=20)] = []
    seconds: Annotated[dict[Annotated[str, Field(max_length=32)], Annotated[float, Field(ge=0)]], Field(max_length=16)] = {}
    """Seconds by stage (read, transform, encode, statistics, sink), summed over all workers.

    The key `readWait` contains the time that encoding waited for input.
    """
    bad_reasons: Annotated[dict[Annotated[str, Field(max_length=32)], Count], Field(max_length=8)] = {}
    shard_seconds: Annotated[float, Field(ge=0)] = 0.0
    """The seconds between the first and the last byte of each shard, summed over all shards."""
    channels: Channels | None = None
    shards_within: Annotated[list[Count], Field(max_length=16)] = []
    """The number of shards in each bucket of `stages.SHARD_BOUNDS`."""
    warnings: Annotated[list[Annotated[str, Field(max_length=512)]], Field(max_length=10)] = []


class WorkResult(_Reported):
    """The result of one convert task."""

    kind: Literal["work"] = "work"
    index: Count
    shards_done: Count
    shards_skipped: Count
    """The number of shards that already had a report."""
    records: RecordProgress
    bytes_out: Count


class RemoveResult(_Reported):
    """The result of removing a deleted job's data set."""

    kind: Literal["remove"] = "remove"
    files: Count = 0
    bytes: Count = 0
    kept: Count = 0
    """The number of files that have the name of one of the job's files, but whose contents the job didn't write. These files are kept."""
    kept_files: Annotated[list[Annotated[str, Field(max_length=256)]], Field(max_length=5)] = []
    """The first few of the files that were kept."""
    owner: Annotated[str, Field(max_length=64)] | None = None
    """The other run that has taken over the output folder. If this field is set, no file was removed."""


class FailureResult(_Reported):
    """The result of a failed step, with the reason."""

    kind: Literal["failure"] = "failure"
    reason: Reason
    message: Annotated[str, Field(max_length=2048)]
    exit_code: int
    index: Count | None = None
    shard: Annotated[str, Field(max_length=256)] | None = None
    input: LongUri | None = None


Message = PlanResult | ScanRequest | CommitResult | WorkResult | RemoveResult | FailureResult
Termination = Annotated[Message, Field(discriminator="kind")]
_TERMINATION: TypeAdapter[Message] = TypeAdapter(Termination)
_NAMES: TypeAdapter[list[list[Short]]] = TypeAdapter(list[Annotated[list[Short], Field(max_length=MAX_LABELS)]])


StoreKey = Annotated[str, Field(max_length=16)]
"""Identifies a store: the index of the store's entry in `spec.stores`, such as `0`. A store without an entry is identified by its scheme,
such as `s3`."""
MOST_STORES = 48


class RequestCounts(Model):
    """The requests of one pod to one store since the pod's first request."""

    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """The time since the first request."""
    sent: Count = 0
    refused: Count = 0
    """The number of requests that the store refused because it received too many requests."""
    is_waiting: bool = False
    """Whether requests are waiting for their turn. If so, the pod could use a larger share."""
    limit: Annotated[float, Field(ge=0.1, allow_inf_nan=False)] | None = None
    """The store entry's `requestsPerSecond`, which applies to all pods together."""


class ProgressReport(_Reported):
    """One worker pod's counts since the start of its task.

    If a plan pod also does the work of a small job, the task has the number 0. The task of a pod in the shuffle step is the pod's slice.
    The counts are totals, so a lost or repeated report does no harm.
    """

    job: Annotated[str, Field(max_length=253)]
    """The name of the DataPrepJob. The namespace, and the pod's name and uid, come from the pod's token instead."""
    attempt: Count
    index: Count
    sequence: Count
    """A number that increases with each of the pod's reports.

    If a report's number isn't higher than that of the last report, the report is dropped.
    """
    shards_done: Count = 0
    shards_active: Count = 0
    shards_total: Count | None = None
    """The job's number of shards.

    Only plan pods set this field and `records.total`, because the operator doesn't know the plan while these pods run.
    """
    records: RecordProgress = RecordProgress()
    bytes_in: Count = 0
    bytes_out: Count = 0
    requests: Annotated[dict[StoreKey, RequestCounts], Field(max_length=MOST_STORES)] | None = None
    """The requests by store. None means that the pod will send no more requests, or that the pod's release doesn't count requests."""


class ProgressReply(Model):
    """The operator's reply to a progress report: how long to wait before the next report, and how many requests the pod may send."""

    next_report_seconds: Annotated[float, Field(ge=0.2, le=300)] = 5.0
    requests_per_second: Annotated[dict[StoreKey, Annotated[float, Field(gt=0, allow_inf_nan=False)]], Field(max_length=MOST_STORES)] = {}
    """The pod's share of the job's rate, by store. For a store that is missing here, the pod computes the rate itself."""


def dump(message: Message) -> str:
    """Serialise the message as at most 4,096 bytes of JSON.

    If the message is too long, its texts and lists are shortened step by step until the message fits.
    """
    for shortened in _shortened_versions(message):
        text = _serialise(shortened)
        if len(text.encode()) <= TERMINATION_LIMIT:
            return text
    raise MessageError(f"a {message.kind} message of {len(text)} bytes can't be shortened to {TERMINATION_LIMIT}")


def _serialise(message: Message) -> str:
    # `kubectl describe` prints the message in a terminal, so control characters are escaped. Escaping doesn't change what the JSON means.
    return printable(message.model_dump_json(by_alias=True, exclude_none=True))


def _shortened_versions(message: Message) -> Iterator[Message]:
    if isinstance(message, CommitResult):
        brief = [record.model_copy(update={"reason": record.reason[:100]}) for record in message.bad]
        shorter = [message.model_copy(update={"bad": brief[:count], "warnings": message.warnings[:3]}) for count in (20, 10, 3)]
        no_files = [fewer.model_copy(update={"outputs": []}) for fewer in shorter]
        yield from [message, *shorter, *no_files, _without_details(message), _without_details(message).model_copy(update={"splits": []})]
    elif isinstance(message, PlanResult):
        # If the commit has splits, the operator shows them instead of the plan's splits.
        once = message.model_copy(update={"splits": []}) if message.commit is not None and message.commit.splits else message
        small = once.model_copy(update={"commit": message.commit and _without_details(message.commit), "warnings": message.warnings[:3]})
        bare = small.model_copy(update={"labels": [], "warnings": []})
        no_splits: dict[str, object] = {"splits": [], "commit": bare.commit and bare.commit.model_copy(update={"splits": []})}
        yield from (message, _with_classes_that_fit(message))
        if message.commit is not None:
            has_splits = bool(message.commit.splits)
            for commit in _shortened_versions(message.commit):
                if isinstance(commit, CommitResult) and bool(commit.splits) is has_splits:
                    yield _with_classes_that_fit(once.model_copy(update={"commit": commit}))
        yield from (_with_classes_that_fit(small), _with_classes_that_fit(small.model_copy(update={"warnings": []})), bare)
        yield bare.model_copy(update=no_splits)
        if message.commit is not None and not message.reused:
            # Without `commit` in this message, the operator starts the commit step, which reports the result. On a finished data set, the
            # commit step does no harm.
            yield from _shortened_versions(message.model_copy(update={"commit": None, "work_seconds": None, "commit_seconds": None}))
    elif isinstance(message, FailureResult):
        long = {"message": message.message[:900], "input": (message.input or "")[:500] or None}
        yield from (message, message.model_copy(update=long), message.model_copy(update={"message": message.message[:250], "input": None}))
    else:
        yield message


def _with_classes_that_fit(plan: PlanResult) -> PlanResult:
    """Return the plan with packed class names.

    For each label, as many names as fit into the message are kept. At least 20 names are kept, even if they make the message too long.
    """
    counts = range(_FEWEST_CLASSES, 1 + max((len(label.classes) for label in plan.labels), default=0))
    beyond = bisect_left(counts, True, key=lambda count: len(_serialise(_with_packed_classes(plan, count)).encode()) > TERMINATION_LIMIT)
    return _with_packed_classes(plan, _FEWEST_CLASSES + max(0, beyond - 1))


def _with_packed_classes(plan: PlanResult, count: int) -> PlanResult:
    """Return a copy of the plan's result that contains only the first `count` class names of each label.

    The names are packed: a JSON list of lists is compressed with zlib and then encoded in base 85.
    """
    names = canonical.dumps([label.classes[:count] for label in plan.labels])
    labels = [label.model_copy(update={"classes": []}) for label in plan.labels]
    return plan.model_copy(update={"labels": labels, "packed_classes": base64.b85encode(zlib.compress(names, 9)).decode()})


def _with_unpacked_classes(plan: PlanResult) -> PlanResult:
    """Undo `_with_packed_classes`. Raises MessageError if the names can't be unpacked."""
    if plan.packed_classes is None:
        return plan
    try:
        stream = zlib.decompressobj()
        names = _NAMES.validate_json(stream.decompress(base64.b85decode(plan.packed_classes), UNPACKED_LIMIT))
        labels = [label.model_copy(update={"classes": classes}) for label, classes in zip(plan.labels, names, strict=True)]
    except (ValueError, zlib.error) as exc:
        raise MessageError("not a termination message of dataprep: the packed classes can't be unpacked") from exc
    return plan.model_copy(update={"labels": labels, "packed_classes": None})


def _without_details(commit: CommitResult) -> CommitResult:
    return commit.model_copy(update={"outputs": [], "bad": [], "warnings": [], "channels": None})


def parse(text: str) -> Message:
    """Parse a termination message.

    Raises MessageError if the text isn't a message of `dataprep`. Fields of newer converters are ignored.
    """
    # JSON can contain lone surrogates, which UTF-8 can't encode, so replace the surrogates.
    size = len(text.encode(errors="replace"))
    if size > TERMINATION_LIMIT:
        raise MessageError(f"a termination message has at most {TERMINATION_LIMIT} bytes, got {size}")
    try:
        message = _TERMINATION.validate_json(text, extra="ignore")
    except ValidationError as exc:
        raise MessageError(f"not a termination message of dataprep: {exc.errors()[0]['msg']}") from exc
    return _with_unpacked_classes(message) if isinstance(message, PlanResult) else message
