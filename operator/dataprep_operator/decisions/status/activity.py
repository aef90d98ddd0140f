"""Describes what a job's pods are doing: the phase, and the reason and message of the condition `Running`. All functions are pure.

Normally each step is one activity. A small job's plan pod, however, also converts and commits, so its reports determine the activity.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from dataprep_api.reasons import ConditionType, Reason
from dataprep_api.resources.status import DataPrepJobStatus, Phase
from dataprep_operator.decisions import conditions
from dataprep_operator.objects import times
from dataprep_operator.objects.child_jobs import Child
from dataprep_operator.objects.observed import Observed
from dataprep_operator.objects.pods import Pod


class Activity(NamedTuple):
    """What pods are doing, as shown in the status."""

    phase: Phase
    reason: Reason
    message: str


OF_STEP: Final[Mapping[str, Activity]] = {
    "Plan": Activity("Planning", Reason.PLANNING, "The plan step lists the input and divides it into shards."),
    "Scan": Activity("Planning", Reason.PLANNING, "Pods scan the input in parts."),
    "Merge": Activity("Planning", Reason.PLANNING, "The merge step makes the plan from the results of the scan."),
    "Shuffle": Activity("Running", Reason.CONVERTING, "Pods divide the records of the shuffle among the convert tasks."),
    "Convert": Activity("Running", Reason.CONVERTING, "Converter pods write shards."),
    "Commit": Activity("Committing", Reason.COMMITTING, "The commit step checks every shard and writes the manifest."),
}
"""What the pods of each step do."""
_CONVERTS_ALONE: Final = Activity("Running", Reason.CONVERTING, "The pod of the plan step writes the shards of this small job.")
_COMMITS_ALONE: Final = Activity(
    "Committing", Reason.COMMITTING, "The pod of the plan step checks every shard of this small job and writes the manifest."
)


def of_plan_pod(status: DataPrepJobStatus, observed: Observed, child: Child | None) -> Activity:
    """Return what the plan pod is doing. A report counts only as long as the pod that sent it exists and hasn't ended."""
    live, pods = observed.live_progress, observed.pods_of(child) if child is not None else ()
    if live.shards_total is None:
        # Another operator process may have received the earlier reports. Those reports may have come from a pod that has ended since then.
        return _shown(status) if _may_have_reported(status, pods) and not any(pod.finished for pod in pods) else OF_STEP["Plan"]
    if not any(pod.uid == live.pod_uid and not pod.finished for pod in pods):
        return OF_STEP["Plan"]
    return _CONVERTS_ALONE if live.shards_done < live.shards_total else _COMMITS_ALONE


def _may_have_reported(status: DataPrepJobStatus, pods: Sequence[Pod]) -> bool:
    """Return whether one of the pods is old enough to have sent the reports in the status."""
    reported_at = times.parse(status.progress.updated_at) if status.progress is not None else None
    return reported_at is not None and any(pod.scheduled_at is not None and pod.scheduled_at <= reported_at for pod in pods)


def _shown(status: DataPrepJobStatus) -> Activity:
    """Return what the plan pod is doing according to the status."""
    running = conditions.find(status.conditions, ConditionType.RUNNING)
    shown = [each for each in (_CONVERTS_ALONE, _COMMITS_ALONE) if running is not None and running.message == each.message]
    return shown[0] if shown else OF_STEP["Plan"]
