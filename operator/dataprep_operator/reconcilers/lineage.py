"""Sends OpenLineage events about jobs, if the operator's environment names a receiver. Sending events can't fail or delay a
reconciliation."""

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
    """An attempt that has started but not ended."""

    uid: str
    attempt: int
    spec: DataPrepJobSpec


class LineageRecorder:
    """Sends events about the start, failure and removal of jobs. If there is no receiver, nothing is sent."""

    def __init__(self, receiver: sending.Receiver | None) -> None:
        self._receiver = receiver
        self._sender = sending.Sender(receiver) if receiver is not None else None
        self._under_way: dict[Key, _UnderWay] = {}

    def written(self, observed: Observed, before: DataPrepJobStatus, after: DataPrepJobStatus) -> None:
        """Send the events for a job's change of status. Call this method after the new status has been stored."""
        if self._sender is None or observed.spec is None:
            return
        for change in decisions.between(before, after):
            self._send(change.kind, observed.key, _UnderWay(observed.uid, change.attempt, observed.spec), error=change.error)
        self.seen(observed, after)

    def seen(self, observed: Observed, status: DataPrepJobStatus) -> None:
        """Remember a job that is under way, so that an event is sent if the job is removed."""
        if self._sender is None or observed.spec is None:
            return
        earlier = self._under_way.get(observed.key)
        if earlier is not None and earlier.uid != observed.uid:
            # The earlier job was removed, and a new job has the same name.
            self.gone(observed.key)
        if decisions.is_under_way(status):
            self._under_way[observed.key] = _UnderWay(observed.uid, status.attempt, observed.spec)
        else:
            self._under_way.pop(observed.key, None)

    def gone(self, key: Key) -> None:
        """Send ABORT for a job that was removed while it was under way."""
        attempt = self._under_way.pop(key, None)
        if attempt is not None:
            self._send("ABORT", key, attempt)

    def close(self) -> None:
        """Deliver the pending events. This takes a few seconds at most."""
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
        except Exception as exc:  # a failed event must not fail the reconciliation
            logger.warning("a lineage event (%s) could not be made: %s: %s", kind, type(exc).__name__, for_display(str(exc)))


def _version() -> str:
    """Return the operator's version, or 0 if the operator runs from its sources and isn't installed."""
    try:
        return version("dataprep-operator")
    except PackageNotFoundError:
        return "0"
