"""What a worker of the queue is looking at, for the log lines that are written meanwhile. Each worker is a task, and has a context of its own."""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final

from dataprep_api import CRON_KIND
from dataprep_operator.objects.observed import Key

_NOTHING: Final[Mapping[str, str | None]] = {}
_about: ContextVar[Mapping[str, str | None]] = ContextVar("about", default=_NOTHING)


def bind(key: Key) -> None:
    """From now on this task is about that object."""
    _about.set({"namespace": key.namespace, "cronJob" if key.kind == CRON_KIND else "job": key.name})


def bind_run(run_id: str | None) -> None:
    """The run of the job that this task is about."""
    _about.set({**_about.get(), "runId": run_id})


def fields() -> Mapping[str, str | None]:
    """Fields for a log line."""
    return _about.get()
