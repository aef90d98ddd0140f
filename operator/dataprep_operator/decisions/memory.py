"""Raises the memory of a step whose pods ran out of memory, and records it in the status. All functions are pure."""

from typing import Final

from dataprep_api import quantity
from dataprep_api.resources.status import DataPrepJobStatus, Effective
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.children.pod_template import memory_limit
from dataprep_operator.settings import PodDefaults

_FIELDS: Final = {"Plan": "plan_memory", "Convert": "memory", "Commit": "commit_memory"}
"""Maps each step to its field in `status.effective`. The steps have separate fields because their memory use differs."""


def of(status: DataPrepJobStatus) -> str | None:
    """Return the current step's memory if it was raised, or else None."""
    memory: str | None = getattr(status.effective, _FIELDS[status.step or "Plan"], None)
    return memory


def increase(status: DataPrepJobStatus, spec: DataPrepJobSpec, defaults: PodDefaults) -> Effective | None:
    """Return the effective values with more memory for the current step, or None when `retry` is unset or its maximum is reached."""
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
    """Return the effective values that a manual retry keeps."""
    kept = Effective(**{field: getattr(effective, field, None) for field in _FIELDS.values()})
    return kept if kept != Effective() else None
