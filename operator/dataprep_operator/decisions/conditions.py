"""Finds and replaces Kubernetes conditions.

A condition is one statement about an object, with the time at which it became true.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from dataprep_api.reasons import ConditionType
from dataprep_api.redaction import for_display
from dataprep_api.resources.status import Condition
from dataprep_operator.objects import times


def find(conditions: Sequence[Condition], kind: str) -> Condition | None:
    """Return the condition of this type, or None."""
    return next((condition for condition in conditions if condition.type == kind), None)


def without(conditions: Sequence[Condition], kind: ConditionType) -> list[Condition]:
    """Return the conditions of all other types."""
    return [condition for condition in conditions if condition.type != kind]


def replace(
    conditions: Sequence[Condition],
    kind: ConditionType,
    status: Literal["True", "False", "Unknown"],
    *,
    reason: str,
    message: str,
    now: datetime,
    generation: int,
) -> list[Condition]:
    """Return the conditions with one condition set.

    The condition's transition time changes only if its status changes, as in Kubernetes.
    """
    current = find(conditions, kind)
    is_same = current is not None and current.status == status
    condition = Condition(
        type=kind,
        status=status,
        observed_generation=generation,
        last_transition_time=current.last_transition_time if current is not None and is_same else times.text(now),
        reason=reason,
        message=for_display(message)[:2048],
    )
    others = without(conditions, kind)
    # Unknown condition types, which newer operators wrote, come last.
    order = {kind.value: number for number, kind in enumerate(ConditionType)}
    return sorted([*others, condition], key=lambda item: order.get(item.type, len(order)))
