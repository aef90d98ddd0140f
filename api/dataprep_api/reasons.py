"""Condition types and reasons, each in one place with the sentence that documents it (`docs/reasons.md` is made from this list).

Reasons are part of the API: scripts compare them. A reason may be added, never renamed.
"""

from enum import StrEnum
from typing import Final


class ConditionType(StrEnum):
    """At most sixteen of one object, all of them metav1 conditions."""

    VALIDATED = "Validated"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    QUOTA_RESERVED = "QuotaReserved"
    OUTPUT_COMMITTED = "OutputCommitted"
    COMPLETE = "Complete"
    FAILED = "Failed"
    OUTPUT_REMOVED = "OutputRemoved"
    HANDED_OVER = "HandedOver"
    """Only while it is False, of a finished job."""
    SCHEDULED = "Scheduled"


class Reason(StrEnum):
    """Why a condition has its status, and the reason of every Event."""

    # Going well
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
    RESCALED = "Rescaled"
    MEMORY_RAISED = "MemoryRaised"
    WAITING = "Waiting"
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
    Reason.ACCEPTED: "The spec is valid and the job's objects are being made.",
    Reason.PLANNING: "The plan step lists the input and divides it into shards.",
    Reason.PLANNED: "The plan is stored beside the output.",
    Reason.QUEUED: "A Job of the DataPrepJob is suspended by a queue (Kueue), or by somebody else.",
    Reason.QUOTA_RESERVED: "The queue (Kueue) has let the convert Job start.",
    Reason.NOT_QUEUED: "The DataPrepJob has a queue's label, and no queue looks after its convert Job: Kueue has made no Workload for it.",
    Reason.CONVERTING: "Converter pods write shards.",
    Reason.COMMITTING: "The commit step checks every shard and writes the manifest.",
    Reason.COMPLETED: "The data set is whole: manifest and _SUCCESS are written.",
    Reason.REUSED: "A finished data set of the same spec and inputs was found; nothing was converted.",
    Reason.SUSPENDED: "spec.suspend is true; finished shards are kept.",
    Reason.RESUMED: "spec.suspend is false again.",
    Reason.RETRYING: "The annotation dataprep.io/retry asked for another attempt; only what is missing is made.",
    Reason.RESCALED: "workers.parallelism was changed.",
    Reason.MEMORY_RAISED: "Tasks ran out of memory; they run again with more, as spec.retry says.",
    Reason.WAITING: "The step is not due yet.",
    Reason.WAITING_FOR_JOB: "A job named in source.fromJob or runAfter is not Complete; the message names it and its phase.",
    Reason.PROFILE_NOT_FOUND: "The DataPrepProfile that spec.profile names is not in the namespace; the job starts when it is.",
    Reason.OPERATOR_OUTDATED: "The spec has fields that the CustomResourceDefinition knows and this operator doesn't; the job waits for the operator's upgrade.",
    Reason.FELL_BACK_TO_CPU: "accelerator.policy is Preferred and no GPU was free: the job runs on CPU nodes.",
    Reason.CLEANED_UP: "A cleanup rule removed pods or Jobs.",
    Reason.NOT_HANDED_OVER: "The data set is whole, but the ConfigMap with the job's name could not be made: the condition `HandedOver` says why. It is tried again.",
    Reason.HANDED_OVER: "The ConfigMap with the job's name could be made at last.",
    Reason.REMOVING_OUTPUT: "The DataPrepJob was deleted and deletionPolicy is Delete: what it wrote is removed before it goes.",
    Reason.OUTPUT_REMOVED: "The files that a deleted DataPrepJob had written are removed.",
    Reason.OUTPUT_KEPT: "A DataPrepJob with the finalizer dataprep.io/output goes and its output stays: the Event says why.",
    Reason.JOB_CREATED: "A DataPrepCronJob made a DataPrepJob.",
    Reason.JOB_ACTIVE: "concurrencyPolicy is Forbid and the DataPrepCronJob's last job is unfinished: the next one waits.",
    Reason.JOB_REPLACED: "concurrencyPolicy is Replace and a job is due: the unfinished one is deleted first.",
    Reason.MISSED_SCHEDULE: "A job could not be made within startingDeadlineSeconds and is left out.",
    Reason.TOO_MANY_MISSED: "More than 100 times of a DataPrepCronJob have passed without a job; only the last is made up for.",
    Reason.INVALID_SPEC: "The spec can't be accepted; the message names the field.",
    Reason.CIRCULAR_WAIT: "Jobs wait for each other in a circle; the message shows it.",
    Reason.OUTPUT_EXISTS: "The output holds another run's data and overwrite is Never.",
    Reason.OUTPUT_IN_USE: "Another unfinished DataPrepJob writes to the same place; the job waits until that one has ended.",
    Reason.OUTPUT_LOST: "Another run took over the output while this one was writing.",
    Reason.OUTPUT_MISSING: "A planned file, or one of script.outputs, is not there or not whole.",
    Reason.INPUT_NOT_FOUND: "A source URI names nothing.",
    Reason.INPUT_CHANGED: "An input is not the one that was planned (size, time or etag differ).",
    Reason.NO_INPUT: "The source holds no records and allowEmpty is false.",
    Reason.NOT_PERMITTED: "A store refused the user; the message names right, user and path.",
    Reason.BAD_CREDENTIALS: "A store refused the credentials themselves.",
    Reason.STORE_UNREACHABLE: "A store can't be reached; the message names the host.",
    Reason.STORE_FULL: "No space or quota is left at the destination.",
    Reason.STORE_REFUSED: "A store refused a request for a reason of its own, or did what no store does; the message has its answer.",
    Reason.BAD_RECORDS: "More bad records than onBadRecord allows; the message names the first.",
    Reason.SCRIPT_FAILED: "The program of spec.script ended with an error; the message has its exit code and its last words.",
    Reason.NO_GPU_NODES: "accelerator.policy is Required and no node offers the GPUs: the pods wait.",
    Reason.UNSCHEDULABLE: "No node takes the pods; the message is the scheduler's.",
    Reason.START_DEADLINE_EXCEEDED: "A pod stayed unschedulable, or a job waited for another, for longer than startDeadlineSeconds.",
    Reason.DEADLINE_EXCEEDED: "The job ran for longer than activeDeadlineSeconds, or a step for longer than stepDeadlines allows.",
    Reason.IMAGE_PULL_FAILED: "The image can't be pulled.",
    Reason.CONFIG_MISSING: "A Secret, ConfigMap or volume that the pods need is missing.",
    Reason.POD_REFUSED: "The API server refused the pods or Jobs; the message is its own.",
    Reason.OUT_OF_MEMORY: "A converter pod needed more memory than its limit.",
    Reason.EVICTED: "The cluster took pods away (status.evictions); where no shard gets finished in between, the next ones are made after a pause.",
    Reason.TOO_MANY_EVICTIONS: "The cluster took more pods away than maxEvictions allows.",
    Reason.BACKOFF_LIMIT_EXCEEDED: "A step or task failed more often than its limit; the message has the last failure.",
    Reason.CONFLICTING_CHILD: "An object with the name of a child exists and belongs to someone else.",
    Reason.VERIFICATION_FAILED: "The written data don't agree with their reports.",
    Reason.NEWER_FORMAT: "A file beside the data set is of a newer format than this release of dataprep knows; the message names it.",
    Reason.JOB_REFUSED: "The API server refused the DataPrepJob of a DataPrepCronJob; the message is its own.",
    Reason.INTERNAL_ERROR: "A defect in dataprep; the message has the exception. Please report it.",
}
