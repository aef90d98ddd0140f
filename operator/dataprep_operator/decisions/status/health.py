"""Summarizes a job's status for tools that know no other details: the conditions `Ready` and `Stalled`, and `waitingSince`.

kstatus, which Flux and other tools use, reads `Ready`, `Stalled` and `observedGeneration`: a job with `Ready` True is done, one with
`Stalled` True has failed, and any other job is in progress. The rules are those of
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
    # A job that finished under an earlier release gets these conditions only now, but has been in this state since it finished.
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
