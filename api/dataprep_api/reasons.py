"""The types of conditions, and the reasons. `docs/reasons.md` is generated from the description of each reason.

Reasons are part of the API, because scripts compare them. New reasons may be added, but existing ones are never renamed.
"""

from enum import StrEnum
from typing import Final


class ConditionType(StrEnum):
    """The types of the conditions in a status. An object has at most sixteen conditions, and all are metav1 conditions."""

    READY = "Ready"
    """True only when the data set is complete. Its reason and message summarize the job's state."""
    STALLED = "Stalled"
    """This condition is present only while its status is True: the job has failed and makes no further progress."""
    VALIDATED = "Validated"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    QUOTA_RESERVED = "QuotaReserved"
    OUTPUT_COMMITTED = "OutputCommitted"
    COMPLETE = "Complete"
    FAILED = "Failed"
    OUTPUT_REMOVED = "OutputRemoved"
    HANDED_OVER = "HandedOver"
    """This condition is present only in finished jobs, and only while its status is False."""
    SCHEDULED = "Scheduled"


class Reason(StrEnum):
    """The reason of a condition or of an Event."""

    # No action is needed
    ACCEPTED = "Accepted"
    PLANNING = "Planning"
    PLANNED = "Planned"
    QUEUED = "Queued"
    QUOTA_RESERVED = "QuotaReserved"
    NOT_QUEUED = "NotQueued"
    CONVERTING = "Converting"
    COMMITTING = "Committing"
    COMPLETED = "Completed"
    REUSED = "Reused"
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"
    RETRYING = "Retrying"
    EDITED = "Edited"
    RESCALED = "Rescaled"
    MEMORY_RAISED = "MemoryRaised"
    WAITING_FOR_JOB = "WaitingForJob"
    PROFILE_NOT_FOUND = "ProfileNotFound"
    OPERATOR_OUTDATED = "OperatorOutdated"
    FELL_BACK_TO_CPU = "FellBackToCPU"
    CLEANED_UP = "CleanedUp"
    NOT_HANDED_OVER = "NotHandedOver"
    HANDED_OVER = "HandedOver"
    REMOVING_OUTPUT = "RemovingOutput"
    OUTPUT_REMOVED = "OutputRemoved"
    OUTPUT_KEPT = "OutputKept"
    JOB_CREATED = "JobCreated"
    JOB_ACTIVE = "JobActive"
    JOB_REPLACED = "JobReplaced"
    MISSED_SCHEDULE = "MissedSchedule"
    TOO_MANY_MISSED = "TooManyMissedTimes"
    # The user must act
    INVALID_SPEC = "InvalidSpec"
    CIRCULAR_WAIT = "CircularWait"
    OUTPUT_EXISTS = "OutputExists"
    OUTPUT_IN_USE = "OutputInUse"
    OUTPUT_LOST = "OutputLost"
    OUTPUT_MISSING = "OutputMissing"
    INPUT_NOT_FOUND = "InputNotFound"
    INPUT_CHANGED = "InputChanged"
    NO_INPUT = "NoInput"
    NOT_PERMITTED = "NotPermitted"
    BAD_CREDENTIALS = "BadCredentials"
    STORE_UNREACHABLE = "StoreUnreachable"
    STORE_FULL = "StoreFull"
    STORE_REFUSED = "StoreRefused"
    BAD_RECORDS = "BadRecords"
    SCRIPT_FAILED = "ScriptFailed"
    NO_GPU_NODES = "NoGPUNodes"
    UNSCHEDULABLE = "Unschedulable"
    START_DEADLINE_EXCEEDED = "StartDeadlineExceeded"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CONFIG_MISSING = "ConfigMissing"
    POD_REFUSED = "PodRefused"
    OUT_OF_MEMORY = "OutOfMemory"
    EVICTED = "Evicted"
    TOO_MANY_EVICTIONS = "TooManyEvictions"
    BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
    CONFLICTING_CHILD = "ConflictingChild"
    VERIFICATION_FAILED = "VerificationFailed"
    NEWER_FORMAT = "NewerFormat"
    JOB_REFUSED = "JobRefused"
    INTERNAL_ERROR = "InternalError"


MEANING: Final[dict[Reason, str]] = {
    Reason.ACCEPTED: "The spec is valid, and the operator creates the job's objects.",
    Reason.PLANNING: "The plan step lists the input and divides it into shards. If several pods scan a large input for the plan, the message says so.",
    Reason.PLANNED: "The plan is stored beside the output.",
    Reason.QUEUED: "The DataPrepJob, or one of its Jobs, is suspended by a queue (Kueue) or by someone else.",
    Reason.QUOTA_RESERVED: "The queue (Kueue) has admitted the job, or its convert Job.",
    Reason.NOT_QUEUED: "The DataPrepJob has a queue's label, but Kueue has created no Workload for it, so no queue manages it.",
    Reason.CONVERTING: "Converter pods write shards. The shards of a small job are written by the pod of the plan step, as the message says.",
    Reason.COMMITTING: "The commit step checks every shard and writes the manifest. For a small job, the pod of the plan step does this.",
    Reason.COMPLETED: "The data set is complete: manifest and _SUCCESS are written.",
    Reason.REUSED: "A finished data set of the same spec and inputs was found, so no conversion was needed.",
    Reason.SUSPENDED: "spec.suspend is true. Finished shards are kept.",
    Reason.RESUMED: "spec.suspend is false again.",
    Reason.RETRYING: "The annotation dataprep.io/retry requested another attempt, or a rollback made the status incomplete. Only the missing shards are written.",
    Reason.EDITED: "The spec of a job that had failed before its start was edited, so the job is validated again.",
    Reason.RESCALED: "workers.parallelism was changed.",
    Reason.MEMORY_RAISED: "Tasks ran out of memory. The tasks run again with more memory, as spec.retry specifies.",
    Reason.WAITING_FOR_JOB: "A job named in source.fromJob or runAfter is not Complete. The message names that job and its phase.",
    Reason.PROFILE_NOT_FOUND: "The DataPrepProfile named in spec.profile doesn't exist in the namespace. The job starts once this profile exists.",
    Reason.OPERATOR_OUTDATED: "The spec has fields that this operator doesn't support, because the CustomResourceDefinition or the release that started the job is newer. The job waits until the operator is upgraded. Its running pods continue.",
    Reason.FELL_BACK_TO_CPU: "accelerator.policy is Preferred and no GPU was free, so the job runs on CPU nodes.",
    Reason.CLEANED_UP: "A cleanup rule removed pods or Jobs.",
    Reason.NOT_HANDED_OVER: "The data set is complete, but the ConfigMap with the job's name could not be created. The condition `HandedOver` says why. The operator tries again.",
    Reason.HANDED_OVER: "The ConfigMap with the job's name was created after earlier attempts had failed.",
    Reason.REMOVING_OUTPUT: "The DataPrepJob was deleted and deletionPolicy is Delete. The files that the job wrote are removed before the object itself.",
    Reason.OUTPUT_REMOVED: "The files that a deleted DataPrepJob had written are removed.",
    Reason.OUTPUT_KEPT: "A DataPrepJob with the finalizer dataprep.io/output is removed, but its output stays. The Event says why.",
    Reason.JOB_CREATED: "A DataPrepCronJob created a DataPrepJob.",
    Reason.JOB_ACTIVE: "concurrencyPolicy is Forbid and the DataPrepCronJob's last job is unfinished, so the next job waits.",
    Reason.JOB_REPLACED: "concurrencyPolicy is Replace and a job is due, so the unfinished job is deleted first.",
    Reason.MISSED_SCHEDULE: "A job could not be created within startingDeadlineSeconds and is skipped.",
    Reason.TOO_MANY_MISSED: "A DataPrepCronJob missed more than 100 scheduled times. A job is created only for the latest missed time.",
    Reason.INVALID_SPEC: "The spec is invalid. The message names the field.",
    Reason.CIRCULAR_WAIT: "Jobs wait for each other in a cycle. The message shows the cycle.",
    Reason.OUTPUT_EXISTS: "The output contains another run's data, and overwrite is Never.",
    Reason.OUTPUT_IN_USE: "Another unfinished DataPrepJob writes to the same output. This job waits until that job has ended.",
    Reason.OUTPUT_LOST: "Another run took over the output while this run was writing.",
    Reason.OUTPUT_MISSING: "A planned file, or a file in script.outputs, is missing or incomplete.",
    Reason.INPUT_NOT_FOUND: "There is no file or folder at a source URI.",
    Reason.INPUT_CHANGED: "An input has changed since planning (its size, time or etag differs).",
    Reason.NO_INPUT: "The source holds no records and allowEmpty is false.",
    Reason.NOT_PERMITTED: "A store denied access. The message names the missing permission, the user and the path.",
    Reason.BAD_CREDENTIALS: "A store rejected the credentials.",
    Reason.STORE_UNREACHABLE: "A store can't be reached. The message names the host.",
    Reason.STORE_FULL: "The destination has no space or quota left.",
    Reason.STORE_REFUSED: "A store refused a request for another reason, or sent an unexpected response. The message contains the response.",
    Reason.BAD_RECORDS: "There are more bad records than onBadRecord allows. The message names the first bad record.",
    Reason.SCRIPT_FAILED: "The program of spec.script ended with an error. The message contains its exit code and the end of its output.",
    Reason.NO_GPU_NODES: "accelerator.policy is Required and no node has the requested GPUs, so the pods wait.",
    Reason.UNSCHEDULABLE: "The pods can't be scheduled on any node. The message comes from the scheduler.",
    Reason.START_DEADLINE_EXCEEDED: "A pod stayed unschedulable, or a job waited for another, for longer than startDeadlineSeconds.",
    Reason.DEADLINE_EXCEEDED: "The job ran for longer than activeDeadlineSeconds, or a step for longer than stepDeadlines allows.",
    Reason.IMAGE_PULL_FAILED: "The image can't be pulled.",
    Reason.CONFIG_MISSING: "A Secret, ConfigMap or volume that the pods need is missing.",
    Reason.POD_REFUSED: "The API server refused the pods or Jobs. The message comes from the API server.",
    Reason.OUT_OF_MEMORY: "A converter pod needed more memory than its limit.",
    Reason.EVICTED: "The cluster evicted pods (see status.evictions). If no shard was finished between evictions, new pods are created after a pause.",
    Reason.TOO_MANY_EVICTIONS: "The cluster evicted more pods than maxEvictions allows.",
    Reason.BACKOFF_LIMIT_EXCEEDED: "A step or task failed more often than its limit allows. The message contains the last failure.",
    Reason.CONFLICTING_CHILD: "An object that the job wants to create already exists and belongs to someone else.",
    Reason.VERIFICATION_FAILED: "The written files differ from the shards' reports.",
    Reason.NEWER_FORMAT: "A file beside the data set has a newer format version than this release of dataprep supports. The message names the file.",
    Reason.JOB_REFUSED: "The API server refused the DataPrepJob of a DataPrepCronJob. The message comes from the API server.",
    Reason.INTERNAL_ERROR: "There is a bug in dataprep. The message contains the exception. Please report it.",
}
