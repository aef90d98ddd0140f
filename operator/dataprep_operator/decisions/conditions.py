"""Kubernetes conditions: one statement about an object, and since when it holds."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from dataprep_api.reasons import ConditionType, Reason
from dataprep_api.resources.status import Condition
from dataprep_api.shown import shown
from dataprep_operator.objects import times


def find(conditions: Sequence[Condition], kind: str) -> Condition | None:
    """The condition of that type."""
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
    """Set one condition. Its transition time changes with the status or the reason.

    Kubernetes changes it with the status only. Here the reason counts too: a job fails when a reason has lasted too long, and a restarted
    operator must know since when.
    """
    current = find(conditions, kind)
    is_same = current is not None and current.status == status and current.reason == reason
    condition = Condition(
        type=kind,
        status=status,
        observed_generation=generation,
        last_transition_time=current.last_transition_time if current is not None and is_same else times.text(now),
        reason=reason,
        message=shown(message)[:2048],
    )
    rest = [each for each in conditions if each.type != kind]
    # Types that only a newer operator knows come last.
    order = {kind.value: number for number, kind in enumerate(ConditionType)}
    return sorted([*rest, condition], key=lambda each: order.get(each.type, len(order)))
