"""Decides whether a deleted job's output is removed. All functions are pure.

A job with `deletionPolicy: Delete` gets the operator's finalizer before the job's first pod starts. The finalizer stays until the output is
removed, or until it is certain that the output is kept. Only this module decides to remove the finalizer from a deleted job.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dataprep_api.dataset.messages import RemoveResult
from dataprep_api.reasons import Reason
from dataprep_operator.decisions import queueing, steps
from dataprep_operator.decisions.events import Note
from dataprep_operator.decisions.steps import Blocked, Failed, Queued
from dataprep_operator.objects.child_jobs import CLEANUP, Child
from dataprep_operator.objects.observed import Observed

TRY_AGAIN_SECONDS: Final = 300.0
LOOK_AGAIN_SECONDS: Final = 30.0
_REMOVING: Final = "A pod is removing what the job wrote to {uri}."
_HOW_TO_KEEP: Final = "To delete the job and keep the files, set spec.deletionPolicy to Retain."


@dataclass(frozen=True)
class Release:
    """Remove the finalizer."""

    note: Note | None
    """An Event with the reason, or None for no Event."""


@dataclass(frozen=True)
class Wait:
    """Wait for the given reason."""

    reason: Reason
    message: str
    again_at: datetime | None = None
    """When to retry a failed removal."""


@dataclass(frozen=True)
class Remove:
    """Create the Job that removes the files of these runs. At this point, no pod of the job can write any more."""

    runs: tuple[str, ...]
    reason: Reason
    message: str
    """The message includes the API server's last refusal, if any."""


def judge(observed: Observed) -> Release | Wait | Remove:
    """Decide what to do with the output of a deleted job that has the operator's finalizer."""
    uri = (
        observed.status.output.uri
        if observed.status.output is not None
        else (observed.raw_spec.get("output") or {}).get("uri", "the output")
    )
    release = _release_if_kept(observed, uri)
    if release is not None:
        return release
    if observed.writing_pods:
        count = "1 pod" if len(observed.writing_pods) == 1 else f"{len(observed.writing_pods)} pods"
        pod_names = ", ".join(pod.name for pod in observed.writing_pods[:3])
        return Wait(Reason.REMOVING_OUTPUT, f"Waiting for {count} to end ({pod_names}); then {uri} is removed.")
    child = observed.child(CLEANUP, 1)
    if child is None:
        if observed.spec is None:
            return Wait(
                Reason.INVALID_SPEC, f"{uri} can't be removed: {observed.faults or _unknown_fields_message(observed)}. {_HOW_TO_KEEP}"
            )
        runs, refusal = tuple(observed.written_run_ids), observed.refusal
        if refusal is not None:
            return Remove(runs, refusal.reason, f"{uri} can't be removed: {refusal.message} {_HOW_TO_KEEP}")
        return Remove(runs, Reason.REMOVING_OUTPUT, _REMOVING.format(uri=uri))
    if child.complete:
        return Release(_removal_note(observed, child, uri))
    return _await_cleanup(observed, child, uri)


def _unknown_fields_message(observed: Observed) -> str:
    return f"this operator doesn't support {', '.join(observed.too_new)}"


def _release_if_kept(observed: Observed, uri: str) -> Release | None:
    if not observed.deletes_output:
        return Release(Note("Normal", Reason.OUTPUT_KEPT, f"deletionPolicy is Retain, so {uri} is kept."))
    if observed.namespace_terminating:
        return Release(Note("Warning", Reason.OUTPUT_KEPT, f"The namespace is being deleted and accepts no new pods, so {uri} is kept."))
    if not observed.written_run_ids and not observed.writing_pods:
        note = Note("Normal", Reason.OUTPUT_KEPT, f"This job reused {uri} and didn't write it, so {uri} is kept.")
        return Release(note if observed.status.reused else None)
    if observed.output_user is not None:
        return Release(
            Note("Normal", Reason.OUTPUT_KEPT, f"{uri} is also the output of {observed.describe(observed.output_user)}, so it is kept.")
        )
    return None


def _removal_note(observed: Observed, child: Child, uri: str) -> Note:
    result = next((pod.result for pod in observed.pods_of(child) if isinstance(pod.result, RemoveResult)), None)
    if result is None:
        return Note("Normal", Reason.OUTPUT_REMOVED, f"{uri} was removed.")
    if result.owner is not None:
        return Note("Normal", Reason.OUTPUT_KEPT, f"{uri} now belongs to the run {result.owner}, so it is kept.")
    removed_text = f"1 file of {uri} was removed" if result.files == 1 else f"{result.files} files of {uri} were removed"
    if result.kept:
        kept_text = "1 file is kept, because another writer has changed it since"
        if result.kept > 1:
            kept_text = f"{result.kept} files are kept, because another writer has changed them since"
        return Note("Warning", Reason.OUTPUT_REMOVED, f"{removed_text}; {kept_text}: {', '.join(result.kept_files)}.")
    return Note("Normal", Reason.OUTPUT_REMOVED, f"{removed_text}, {result.bytes} bytes.")


def _await_cleanup(observed: Observed, child: Child, uri: str) -> Wait:
    judgement = steps.judge(observed, observed.spec, step=CLEANUP, attempt=1) if observed.spec is not None else None
    match judgement:
        case Failed(reason=reason, message=message):
            # A condition may have no timestamp if someone else has edited the Job.
            ended_at = child.ended_at or child.created
            again_at = ended_at + timedelta(seconds=TRY_AGAIN_SECONDS) if ended_at is not None else None
            return Wait(reason, f"{uri} could not be removed; retrying every {TRY_AGAIN_SECONDS:.0f} s. {message} {_HOW_TO_KEEP}", again_at)
        case Blocked(blockage=blockage):
            return Wait(blockage.reason, f"The pod that removes {uri} can't start. {blockage.message} {_HOW_TO_KEEP}")
        case Queued():
            return Wait(
                Reason.QUEUED, f"The pod that removes {uri} can't start. {queueing.waiting_message(observed, child)} {_HOW_TO_KEEP}"
            )
        case _:
            return Wait(Reason.REMOVING_OUTPUT, _REMOVING.format(uri=uri))
