"""Raises the memory of a step whose pods ran out of it, and records that in the status. Pure."""

from typing import Final

from dataprep_api import quantity
from dataprep_api.resources.status import DataPrepJobStatus, Effective
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.children.pod_template import memory_limit
from dataprep_operator.settings import PodDefaults

_FIELDS: Final = {"Plan": "plan_memory", "Convert": "memory", "Commit": "commit_memory"}
"""Each step has its own, since they hold different things in memory."""


def of(status: DataPrepJobStatus) -> str | None:
    """The raised memory of the current step, if it was raised."""
    memory: str | None = getattr(status.effective, _FIELDS[status.step or "Plan"], None)
    return memory


def increase(status: DataPrepJobStatus, spec: DataPrepJobSpec, defaults: PodDefaults) -> Effective | None:
    """The effective values with more memory for the current step. None when `retry` is unset or its maximum is reached."""
    known = of(status)
    had = quantity.to_bytes(known) if known else memory_limit(spec, defaults)
    if spec.retry is None or had is None:
        return None
    # Whole mebibytes, rounded down to stay within the maximum.
    wanted = min(quantity.to_bytes(spec.retry.max_memory), int(had * spec.retry.memory_growth)) >> 20
    if wanted << 20 <= had:
        return None
    return (status.effective or Effective()).model_copy(update={_FIELDS[status.step or "Plan"]: f"{wanted}Mi"})


def carry_over(effective: Effective | None) -> Effective | None:
    """The effective values that a manual retry keeps."""
    kept = Effective(**{field: getattr(effective, field, None) for field in _FIELDS.values()})
    return kept if kept != Effective() else None
