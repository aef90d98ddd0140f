"""The draft of a data set: its plan before the job claims the output folder, and the steps to claim the folder.

`plan_step.py` calls the methods in the order in which they are defined here. `convert_plan.py`, `extend.py`, `copy_job.py` and
`script_job.py` override the methods that differ between the kinds of job.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dataprep_api.dataset.report import Manifest, Success
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import NotWhole
from dataprep_converter.dataset.listing import is_untouched
from dataprep_converter.dataset.output_folder import RunFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.sampling.plan import Plan

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Draft(Closeable):
    """The data set that a job is about to make. Closing it removes temporary files."""

    spec: DataPrepJobSpec
    access: Access
    plan: Plan
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Class names by feature."""
    size: int | None = None
    """Size in bytes of the work step's input or of its output, whichever is larger. None if unknown."""
    predecessor: str | None = None
    """This job's unfinished run that another release began under different rules, or None.

    If the job can follow the other release's rules, it continues this run; otherwise it replaces the run.
    """

    def close(self) -> None:
        """Removes temporary files, if there are any."""

    def shuffle_tasks(self, plan: Plan) -> int | None:  # noqa: ARG002 - conversions use it
        """Returns the number of tasks in a shuffle's first round, or None if there is no such round. Only conversions can have this round.

        `plan` is the plan to use, which may be the plan that is already stored in the folder.
        """
        return None

    def check_output(self, folder: RunFolder) -> None:
        """Raises an error when the output can't accept the new data set."""

    def finished(self, success: Success, folder: RunFolder) -> Manifest | None:
        """Returns the manifest of the finished data set in the folder.

        Returns None if the job doesn't accept this data set as its result, or if files have changed.
        """
        if not self.is_satisfied_by(success):
            return None
        manifest = folder.manifest(success)
        return manifest if is_untouched(manifest, folder) else None

    def is_satisfied_by(self, success: Success) -> bool:
        """Whether the job accepts the existing data set as its result."""
        return success.run_id == self.plan.head.run_id and self.spec.output.overwrite in ("IfChanged", "Extend")

    def check_base(self, success: Success | None) -> None:
        """Raises NotWhole when the data set to be extended has changed since it was written."""

    def take_over(self, folder: RunFolder) -> None:
        """Reuses the parts of an earlier run that can be kept. Readers of the folder see no change."""

    def store(self, folder: RunFolder) -> Plan:
        """Stores the plan in the folder, which now belongs to this run.

        Returns the plan to use: the plan already stored in the folder, if there is one, or else this draft's plan.
        """
        try:
            plan = folder.plan()
        except NotWhole as exc:
            logger.warning("%s", exc)
            plan = None
        if plan is None:
            self.put_plan(folder)
        return plan or self.plan

    def put_plan(self, folder: RunFolder) -> None:
        """Writes the plan's files. The head is written last."""
        raise NotImplementedError

    def remove_scan(self) -> None:
        """Removes the results of a scan, if there are any. They aren't needed once the plan is stored or a finished data set is reused."""
