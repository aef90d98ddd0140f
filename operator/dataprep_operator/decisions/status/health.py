"""Summarizes a job's status for tools that read no other details. The summary consists of the conditions `Ready` and `Stalled`, and of
`waitingSince`.

kstatus, which Flux and other tools use, reads `Ready`, `Stalled` and `observedGeneration`. A job is done if `Ready` is True, and has failed
if `Stalled` is True. Otherwise it is in progress. For the rules, see
https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md. All functions are pure.
"""

from datetime import datetime
from functools import partial

from dataprep_api.reasons import ConditionType
from dataprep_api.resources.status import TERMINAL_PHASES, Condition, DataPrepJobStatus
from dataprep_operator.decisions import conditions
from dataprep_operator.objects import times
from dataprep_operator.objects.observed import Observed


def with_health(observed: Observed, status: DataPrepJobStatus, *, now: datetime) -> DataPrepJobStatus:
    """Return the status with `Ready`, `Stalled` and `waitingSince`, which are derived from its other fields."""
    running = conditions.find(status.conditions, ConditionType.RUNNING)
    if running is None:
        return status
    # An earlier release didn't set these conditions when a job finished. Their transition time is therefore the job's completion time.
    since = times.parse(status.completion_time) or now
    replace = partial(conditions.replace, reason=running.reason, message=running.message, now=since, generation=observed.generation)
    health = replace(status.conditions, ConditionType.READY, "True" if status.phase == "Succeeded" else "False")
    if status.phase == "Failed":
        health = replace(health, ConditionType.STALLED, "True")
    else:
        health = conditions.without(health, ConditionType.STALLED)
    return status.model_copy(update={"conditions": health, "waiting_since": _waiting_since(observed.status, status, running, now=now)})


def _waiting_since(before: DataPrepJobStatus, after: DataPrepJobStatus, running: Condition, *, now: datetime) -> str | None:
    if running.status != "False" or after.phase in TERMINAL_PHASES:
        return None
    previous = conditions.find(before.conditions, ConditionType.RUNNING)
    if previous is None or previous.status != "False" or previous.reason != running.reason or before.phase in TERMINAL_PHASES:
        return times.text(now)
    return before.waiting_since or previous.last_transition_time
