"""The steps of a job, and how their Jobs differ. The label `dataprep.io/step` of a Job or pod names its step.

Plan → Scan → Merge → Shuffle → Convert → Commit. The plan pod decides whether the scan and merge steps are needed. The finished plan says
whether the shuffle step is needed. The Job that removes a deleted job's output and the queue Job are not steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from dataprep_api.dataset.messages import CommitResult, PlanResult, ScanRequest
from dataprep_api.resources.status import StepName


@dataclass(frozen=True)
class JobStep:
    """One step of a job."""

    name: StepName
    """The step's name in the status."""
    memory_field: Literal["memory", "plan_memory", "commit_memory"]
    """The field of `status.effective` with the raised memory of the step's pods. Steps whose pods need similar memory share a field."""
    deadline_field: Literal["plan_seconds", "convert_seconds", "commit_seconds"]
    """The field of `spec.stepDeadlines` with the time limit of the step's Job."""
    results: tuple[type[PlanResult] | type[ScanRequest] | type[CommitResult], ...] = ()
    """The kinds of results that the pod of a step with a single pod reports."""
    share: str = ""
    """The word, in messages, for the work of one pod of an Indexed Job. Empty for a step with a single pod."""

    @property
    def label(self) -> str:
        """The value of the label of the step's Job and pods, and the step's name in messages."""
        return self.name.lower()

    @property
    def is_indexed(self) -> bool:
        """Whether the step's Job is an Indexed Job, whose pods share the work.

        These pods have the resources of `spec.workers`, and leave their results in the store. The step is done when its Job is complete.
        """
        return not self.results

    @property
    def plans(self) -> bool:
        """Whether the step's pod reports a plan. The next step begins as soon as the plan is known, although the Job isn't complete yet."""
        return PlanResult in self.results


_STEPS: Final = (
    JobStep("Plan", memory_field="plan_memory", deadline_field="plan_seconds", results=(PlanResult, ScanRequest)),
    JobStep("Scan", memory_field="memory", deadline_field="plan_seconds", share="part"),
    JobStep("Merge", memory_field="plan_memory", deadline_field="plan_seconds", results=(PlanResult,)),
    JobStep("Shuffle", memory_field="memory", deadline_field="convert_seconds", share="slice"),
    JobStep("Convert", memory_field="memory", deadline_field="convert_seconds", share="task"),
    JobStep("Commit", memory_field="commit_memory", deadline_field="commit_seconds", results=(CommitResult,)),
)
BY_LABEL: Final[Mapping[str, JobStep]] = {step.label: step for step in _STEPS}
"""The steps in the order in which they run."""


def of_status(name: StepName | None) -> JobStep:
    """Return the current step of a status. A job without a status is in its plan step."""
    return BY_LABEL[(name or "Plan").lower()]


def is_indexed(label: str) -> bool:
    """Return whether the label names a step whose Job is an Indexed Job. Unknown labels are allowed, because a pod may have any label."""
    return label in BY_LABEL and BY_LABEL[label].is_indexed


def has_single_pod(label: str) -> bool:
    """Return whether the label names a step with a single pod. This pod has the resources of `spec.planning.resources`."""
    return label in BY_LABEL and not BY_LABEL[label].is_indexed


def plans(label: str) -> bool:
    """Return whether the label names a step whose pod reports a plan."""
    return label in BY_LABEL and BY_LABEL[label].plans
