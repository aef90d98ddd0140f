"""Raises the memory of a step whose pods ran out of memory, and records the new memory in the status. All functions are pure."""

from typing import Final

from dataprep_api import quantity
from dataprep_api.resources.status import DataPrepJobStatus, Effective
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.children.pod_template import memory_limit
from dataprep_operator.objects import job_steps
from dataprep_operator.settings import PodDefaults

_FIELDS: Final = tuple(dict.fromkeys(step.memory_field for step in job_steps.BY_LABEL.values()))
"""The fields of `status.effective` with raised memory. There are several fields, because the steps need different amounts of memory."""


def of(status: DataPrepJobStatus) -> str | None:
    """Return the current step's memory if it was raised, or else None."""
    memory: str | None = getattr(status.effective, job_steps.of_status(status.step).memory_field, None)
    return memory


def of_converting(status: DataPrepJobStatus) -> str | None:
    """Return the convert step's memory if it was raised, or else None."""
    return status.effective.memory if status.effective is not None else None


def of_planning(status: DataPrepJobStatus) -> str | None:
    """Return the largest memory of the plan, merge and commit steps if it was raised, or else None."""
    effective = status.effective or Effective()
    return max(filter(None, (effective.plan_memory, effective.commit_memory)), key=quantity.to_bytes, default=None)


def increase(status: DataPrepJobStatus, spec: DataPrepJobSpec, defaults: PodDefaults) -> Effective | None:
    """Return the effective values with more memory for the current step.

    Returns None if `retry` is unset, if its maximum is reached, or if the pods have no memory limit.
    """
    raised_memory = of(status)
    step = job_steps.of_status(status.step)
    current_bytes = quantity.to_bytes(raised_memory) if raised_memory else memory_limit(spec, defaults, step=step.label)
    if spec.retry is None or current_bytes is None:
        return None
    # Whole mebibytes, rounded down to stay within the maximum.
    mebibytes = min(quantity.to_bytes(spec.retry.max_memory), int(current_bytes * spec.retry.memory_growth)) >> 20
    if mebibytes << 20 <= current_bytes:
        return None
    return (status.effective or Effective()).model_copy(update={step.memory_field: f"{mebibytes}Mi"})


def carry_over(effective: Effective | None) -> Effective | None:
    """Return the effective values that a manual retry keeps."""
    memory_fields = Effective(**{field: getattr(effective, field, None) for field in _FIELDS})
    return memory_fields if memory_fields != Effective() else None
