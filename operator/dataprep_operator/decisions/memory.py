"""More memory for a step whose pods ran out of it: how much, and where the status keeps that. Pure."""

from typing import Final

from dataprep_api import quantity
from dataprep_api.resources.status import DataPrepJobStatus, Effective
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.children.pod_template import memory_limit
from dataprep_operator.settings import PodDefaults

_FIELDS: Final = {"Plan": "plan_memory", "Convert": "memory", "Commit": "commit_memory"}
"""Each step has its own: they hold different things in memory."""


def of(status: DataPrepJobStatus) -> str | None:
    """What the pods of the current step get, once it was raised."""
    memory: str | None = getattr(status.effective, _FIELDS[status.step or "Plan"], None)
    return memory


def increase(status: DataPrepJobStatus, spec: DataPrepJobSpec, defaults: PodDefaults) -> Effective | None:
    """With more for the current step. None when the spec doesn't ask for it, or allows no more."""
    known = of(status)
    had = quantity.to_bytes(known) if known else memory_limit(spec, defaults)
    if spec.retry is None or had is None:
        return None
    # Whole mebibytes, rounded down so that the bound holds.
    wanted = min(quantity.to_bytes(spec.retry.max_memory), int(had * spec.retry.memory_growth)) >> 20
    if wanted << 20 <= had:
        return None
    return (status.effective or Effective()).model_copy(update={_FIELDS[status.step or "Plan"]: f"{wanted}Mi"})


def carry_over(effective: Effective | None) -> Effective | None:
    """What a retry by hand keeps."""
    kept = Effective(**{field: getattr(effective, field, None) for field in _FIELDS.values()})
    return kept if kept != Effective() else None
