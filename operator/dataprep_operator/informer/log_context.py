"""The fields that are added to the log lines of the current reconciliation. Each worker is an asyncio task, so it has its own context."""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final

from dataprep_api import CRON_KIND
from dataprep_operator.objects.observed import Key

_NOTHING: Final[Mapping[str, str | None]] = {}
_log_fields: ContextVar[Mapping[str, str | None]] = ContextVar("log_fields", default=_NOTHING)


def bind(key: Key) -> None:
    """Add this object's name to all further log lines of the current task."""
    _log_fields.set({"namespace": key.namespace, "cronJob" if key.kind == CRON_KIND else "job": key.name})


def bind_run(run_id: str | None) -> None:
    """Add the job's run id to all further log lines of the current task."""
    _log_fields.set({**_log_fields.get(), "runId": run_id})


def fields() -> Mapping[str, str | None]:
    """Return the fields to add to a log line of the current task."""
    return _log_fields.get()
