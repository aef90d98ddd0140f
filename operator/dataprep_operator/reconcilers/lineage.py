"""Sends OpenLineage events about jobs, if the operator's environment names a receiver. Nothing here can fail or delay a reconciliation."""

import logging
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from dataprep_api.lineage import events, jobs, sending
from dataprep_api.redaction import for_display
from dataprep_api.resources.status import DataPrepJobStatus
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.decisions import lineage as decisions
from dataprep_operator.objects.lineage import namespace_of, run_uuid
from dataprep_operator.objects.observed import Key, Observed

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _UnderWay:
    """An attempt that has started and has not ended."""

    uid: str
    attempt: int
    spec: DataPrepJobSpec


class LineageRecorder:
    """Sends the start, the failure and the removal of jobs. Without a receiver, nothing is sent."""

    def __init__(self, receiver: sending.Receiver | None) -> None:
        self._receiver = receiver
        self._sender = sending.Sender(receiver) if receiver is not None else None
        self._under_way: dict[Key, _UnderWay] = {}

    def written(self, observed: Observed, before: DataPrepJobStatus, after: DataPrepJobStatus) -> None:
        """Send what has happened to the job, whose new status is stored."""
        if self._sender is None or observed.spec is None:
            return
        for change in decisions.between(before, after):
            self._send(change.kind, observed.key, _UnderWay(observed.uid, change.attempt, observed.spec), error=change.error)
        self.seen(observed, after)

    def seen(self, observed: Observed, status: DataPrepJobStatus) -> None:
        """Note a job that is under way, so that its removal is sent."""
        if self._sender is None or observed.spec is None:
            return
        earlier = self._under_way.get(observed.key)
        if earlier is not None and earlier.uid != observed.uid:
            # Another job has the name of one that was removed.
            self.gone(observed.key)
        if decisions.is_under_way(status):
            self._under_way[observed.key] = _UnderWay(observed.uid, status.attempt, observed.spec)
        else:
            self._under_way.pop(observed.key, None)

    def gone(self, key: Key) -> None:
        """Send the end of a job that was removed while it was under way."""
        attempt = self._under_way.pop(key, None)
        if attempt is not None:
            self._send("ABORT", key, attempt)

    def close(self) -> None:
        """Deliver the events that wait. This takes seconds at most."""
        if self._sender is not None:
            self._sender.close()

    def _send(self, kind: events.Kind, key: Key, attempt: _UnderWay, *, error: str | None = None) -> None:
        if self._sender is None or self._receiver is None:
            return
        try:
            run = events.Run(
                id=run_uuid(attempt.uid, attempt.attempt),
                namespace=namespace_of(self._receiver, key),
                job=key.name,
                kind=jobs.kind_of_job(attempt.spec),
                version=_version(),
            )
            inputs = [events.DataSet(name) for name in dict.fromkeys(jobs.input_names(attempt.spec).values())]
            outputs = [events.DataSet(name) for name in jobs.output_names(attempt.spec)]
            self._sender.send(events.run_event(kind, run, inputs=inputs, outputs=outputs, error=error))
        except Exception as exc:  # an event is never worth a reconciliation
            logger.warning("a lineage event (%s) could not be made: %s: %s", kind, type(exc).__name__, for_display(str(exc)))


def _version() -> str:
    """Return the version of the operator, or 0 if only its sources are there."""
    try:
        return version("dataprep-operator")
    except PackageNotFoundError:
        return "0"
