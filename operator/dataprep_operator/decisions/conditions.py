"""Finds and replaces Kubernetes conditions.

A condition is one statement about an object, with the time since which the statement has been true.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from dataprep_api.reasons import ConditionType, Reason
from dataprep_api.redaction import for_display
from dataprep_api.resources.status import Condition
from dataprep_operator.objects import times


def find(conditions: Sequence[Condition], kind: str) -> Condition | None:
    """Return the condition of this type, if there is one."""
    return next((condition for condition in conditions if condition.type == kind), None)


def replace(
    conditions: Sequence[Condition],
    kind: ConditionType,
    status: Literal["True", "False", "Unknown"],
    *,
    reason: Reason,
    message: str,
    now: datetime,
    generation: int,
) -> list[Condition]:
    """Return the conditions after setting one of them. The condition's transition time changes if the condition's status or reason changes.

    In Kubernetes, a changed reason alone doesn't change the transition time. In this package, a changed reason must change the transition
    time, because a job fails when the same reason has lasted too long. A restarted operator determines from the transition time how long
    the reason has lasted.
    """
    current = find(conditions, kind)
    is_same = current is not None and current.status == status and current.reason == reason
    condition = Condition(
        type=kind,
        status=status,
        observed_generation=generation,
        last_transition_time=current.last_transition_time if current is not None and is_same else times.text(now),
        reason=reason,
        message=for_display(message)[:2048],
    )
    others = [other for other in conditions if other.type != kind]
    # Condition types of newer operators come last.
    order = {kind.value: number for number, kind in enumerate(ConditionType)}
    return sorted([*others, condition], key=lambda item: order.get(item.type, len(order)))
