"""Fields for the log lines of the current reconciliation. Each worker is a task, and so has its own context."""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final

from dataprep_api import CRON_KIND
from dataprep_operator.objects.observed import Key

_NOTHING: Final[Mapping[str, str | None]] = {}
_about: ContextVar[Mapping[str, str | None]] = ContextVar("about", default=_NOTHING)


def bind(key: Key) -> None:
    """Log this object from now on in the current task."""
    _about.set({"namespace": key.namespace, "cronJob" if key.kind == CRON_KIND else "job": key.name})


def bind_run(run_id: str | None) -> None:
    """Log the job's run id as well."""
    _about.set({**_about.get(), "runId": run_id})


def fields() -> Mapping[str, str | None]:
    """The fields of a log line."""
    return _about.get()
