"""Reads the status of a submitted DataPrepJob."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dataprep_api import names
from dataprep_api.resources.status import TERMINAL_PHASES, DataPrepJobStatus
from dataprep_io import results
from dataprep_io.errors import JobFailed, NotFinished
from dataprep_io.results import Result
from dataprep_reader.notebook import html_bar


@dataclass(frozen=True)
class Progress:
    """The progress of a submitted job."""

    phase: str
    percent: int = 0
    shards_done: int = 0
    shards: int = 0
    records: int = 0
    """The number of records that have been read so far."""
    total_records: int | None = None
    records_per_second: float | None = None
    seconds_left: int | None = None
    """An estimate."""

    def __str__(self) -> str:
        """Returns one line."""
        parts = [f"{self.phase} {self.percent} %", f"{self.shards_done} of {self.shards} shards"]
        parts += [f"{self.records:,} records"] if self.records else []
        parts += [f"{self.seconds_left} s left"] if self.seconds_left is not None else []
        return ", ".join(parts)

    def _repr_html_(self) -> str:
        """Returns a bar for a notebook."""
        return html_bar(self.percent, str(self))


@dataclass(frozen=True)
class Event:
    """An event that a component of the cluster has reported about a job."""

    type: str
    """`Normal` or `Warning`."""
    reason: str
    message: str
    time: datetime | None = None
    count: int = 1

    def __str__(self) -> str:
        """Returns one line."""
        return (
            f"{self.time:%H:%M:%S} {self.type} {self.reason}: {self.message}" if self.time else f"{self.type} {self.reason}: {self.message}"
        )


# Any, because these are the API's objects.
def status_of(job: Mapping[str, Any]) -> DataPrepJobStatus:
    """Returns the status of a DataPrepJob. Fields that only a later operator knows are ignored."""
    return DataPrepJobStatus.model_validate(job.get("status") or {}, extra="ignore", by_alias=True, by_name=False)


def phase_of(job: Mapping[str, Any]) -> str:
    """Returns the phase. If a failed job is to be retried and the operator hasn't seen this yet, the phase is `Pending`."""
    phase = status_of(job).phase or "Pending"
    return "Pending" if phase == "Failed" and not _is_retry_handled(job) else phase


def _is_retry_handled(job: Mapping[str, Any]) -> bool:
    wish = (job["metadata"].get("annotations") or {}).get(names.ANNOTATION_RETRY)
    return wish is None or wish == status_of(job).handled_retry


def is_finished(job: Mapping[str, Any]) -> bool:
    """Returns whether the job has succeeded or failed."""
    return phase_of(job) in TERMINAL_PHASES


def progress_of(job: Mapping[str, Any]) -> Progress:
    """Returns the job's progress."""
    progress = status_of(job).progress
    if progress is None:
        return Progress(phase_of(job))
    return Progress(
        phase=phase_of(job),
        percent=progress.percent,
        shards_done=progress.shards.done,
        shards=progress.shards.total,
        records=progress.records.in_,
        total_records=progress.records.total,
        records_per_second=progress.records_per_second,
        seconds_left=progress.estimated_seconds_remaining,
    )


def failure_of(job: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the reason and the message of a failed job."""
    failed = next((each for each in status_of(job).conditions if each.type == "Failed" and each.status == "True"), None)
    return (failed.reason, failed.message) if failed is not None else ("Unknown", "the operator has given no reason")


def result_of(job: Mapping[str, Any]) -> Result:
    """Returns the result of a job that has succeeded. Raises JobFailed if it has failed, and NotFinished if it hasn't ended."""
    name, phase = job["metadata"]["name"], phase_of(job)
    if phase == "Failed":
        reason, message = failure_of(job)
        raise JobFailed(f"The job {name} has failed: {message}", reason=reason)
    if phase != "Succeeded":
        raise NotFinished(f"The job {name} has no result yet: its phase is {phase}.")
    result = results.of_status(status_of(job))
    if result is None:
        raise NotFinished(f"The job {name} has succeeded, but its status has no output.")
    return result


def event_of(event: Mapping[str, Any]) -> Event:
    """Returns an event."""
    time = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    return Event(
        type=event.get("type") or "Normal",
        reason=event.get("reason") or "",
        message=event.get("message") or "",
        time=datetime.fromisoformat(time) if time else None,
        count=event.get("count") or 1,
    )
