"""Computes how long a job waits for something that only the user can fix, such as a missing Secret, before the job fails.

A job that has done little work fails soon, so that a typo is noticed. A job that has worked for hours waits longer, so that a short outage
of the image registry doesn't waste its work. All functions are pure.
"""

from datetime import datetime
from typing import Final

from dataprep_api.resources.status import DataPrepJobStatus, Timings
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.objects import times
from dataprep_operator.objects.pods import Blockage

LEAST_SECONDS: Final = 30.0
TEMPORARY_SECONDS: Final = 600.0
"""Minimum wait for problems that may be temporary."""
MOST_SECONDS: Final = 21_600.0
_TEMPORARY: Final = (
    "status code 429", "toomanyrequests", "too many requests", "qps exceeded", "rate limit", "500 internal", "502 bad", "503 service", "504 gateway",
    "timeout", "timed out", "deadline exceeded", "connection refused", "connection reset", "no such host", "server misbehaving", "unexpected eof",
    "registryunavailable", "failed calling webhook",
)  # fmt: skip
"""Phrases, in lower case, from messages of registries, networks and webhooks about temporary problems."""
_NO_CAUSE: Final = "ImagePullBackOff"
_CAUSE: Final = "ErrImagePull"


def seconds(message: str, spec: DataPrepJobSpec, status: DataPrepJobStatus, *, since: datetime) -> float:
    """Return the deadline for fixing the problem in `message`, in seconds after `since`."""
    if spec.blocked_deadline_seconds is not None:
        return spec.blocked_deadline_seconds
    text = message.lower()
    minimum = TEMPORARY_SECONDS if any(phrase in text for phrase in _TEMPORARY) else LEAST_SECONDS
    return max(minimum, min(MOST_SECONDS, _work_done(status, until=since)))


def message(blockage: Blockage, status_message: str) -> str:
    """Return the blockage's message.

    Between two image pulls, the kubelet's message omits the cause. In that case `status_message`, the previous message, is returned if it
    contains the cause.
    """
    lacks_cause = blockage.message.startswith(_NO_CAUSE) and _CAUSE not in blockage.message
    return status_message if lacks_cause and _CAUSE in status_message else blockage.message


def _work_done(status: DataPrepJobStatus, *, until: datetime) -> float:
    """Return how many seconds of work a failure would waste."""
    timings = status.timings or Timings()
    work_seconds = (timings.planning_seconds or 0.0) + (timings.running_seconds or 0.0)
    if _has_finished_parts(status):
        work_seconds = max(work_seconds, times.seconds_between(times.parse(status.start_time), until) or 0.0)
    return work_seconds


def _has_finished_parts(status: DataPrepJobStatus) -> bool:
    """Return whether the current step's pods have finished a shard, a part of a scan, or a slice of a shuffle."""
    if status.progress is None:
        return False
    if status.step in ("Scan", "Shuffle"):
        return not status.progress.summary.startswith("0/")
    return status.step == "Convert" and status.progress.shards.done > 0
