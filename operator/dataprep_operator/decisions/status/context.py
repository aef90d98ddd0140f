"""The inputs from which a status is derived, and functions that set its phase and conditions. All functions are pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from dataprep_api.reasons import ConditionType, Reason
from dataprep_api.resources.status import DataPrepJobStatus, Phase
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.decisions import conditions
from dataprep_operator.decisions.status.activity import Activity
from dataprep_operator.objects.observed import Observed
from dataprep_operator.settings import PodDefaults


@dataclass(frozen=True)
class Context:
    """The inputs from which a status is derived, besides the previous status."""

    observed: Observed
    now: datetime
    defaults: PodDefaults
    """Defaults for values that the job's spec leaves out."""

    @property
    def spec(self) -> DataPrepJobSpec:
        """The valid spec. Before using this property, check that `observed.spec` is not None."""
        assert self.observed.spec is not None  # noqa: S101 - checked by `next_status`
        return self.observed.spec


def with_activity(context: Context, status: DataPrepJobStatus, doing: Activity) -> DataPrepJobStatus:
    """Return the status of a job with the activity `doing`."""
    return with_phase(context, status, doing.phase, "True", doing.reason, doing.message)


def with_phase(
    context: Context, status: DataPrepJobStatus, phase: Phase, running: Literal["True", "False"], reason: Reason, message: str
) -> DataPrepJobStatus:
    """Return the status with this phase and the condition `Running`."""
    return with_condition(context, status.model_copy(update={"phase": phase}), ConditionType.RUNNING, running, reason, message)


def with_condition(
    context: Context, status: DataPrepJobStatus, kind: ConditionType, value: Literal["True", "False"], reason: Reason, message: str
) -> DataPrepJobStatus:
    """Return the status with this condition."""
    new_conditions = conditions.replace(
        status.conditions, kind, value, reason=reason, message=message, now=context.now, generation=context.observed.generation
    )
    return status.model_copy(update={"conditions": new_conditions})
