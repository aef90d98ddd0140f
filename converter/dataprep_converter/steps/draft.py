"""The draft of a data set: its plan, before the job has the output folder, and how it gets there.

`plan_step.py` calls the methods in the order in which they stand here. What differs from kind to kind of job is overridden in `convert_plan.py`,
`extend.py`, `copy_job.py` and `script_job.py`.
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
    """What a job is about to make. Closing it removes temporary files."""

    spec: DataPrepJobSpec
    access: Access
    plan: Plan
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Class names by feature."""
    predecessor: str | None = None
    """The unfinished run of this very job that another release began by other rules: it goes on, or is replaced where these are gone."""

    def close(self) -> None:
        """Removes temporary files, where there are any."""

    def check_output(self, folder: RunFolder) -> None:
        """Raises when the output can't take what will be made."""

    def finished(self, success: Success, folder: RunFolder) -> Manifest | None:
        """The manifest of the finished data set in the folder, if it is the one that the job would make and its files are as they were written."""
        if not self.is_wanted(success):
            return None
        manifest = folder.manifest(success)
        return manifest if is_untouched(manifest, folder) else None

    def is_wanted(self, success: Success) -> bool:
        """Whether the job takes the data set that is there for its own."""
        return success.run_id == self.plan.head.run_id and self.spec.output.overwrite in ("IfChanged", "Extend")

    def check_base(self, success: Success | None) -> None:
        """Raises NotWhole when the data set that is extended is not as it was written."""

    def take_over(self, folder: RunFolder) -> None:
        """Takes from an earlier run what need not be made again. Nothing that anybody sees changes."""

    def store(self, folder: RunFolder) -> Plan:
        """Stores the plan in the folder, which is this run's now. Returns the plan that counts: an earlier one if it exists, else this one."""
        try:
            plan = folder.plan()
        except NotWhole as exc:
            logger.warning("%s", exc)
            plan = None
        if plan is None:
            self.put_plan(folder)
        return plan or self.plan

    def put_plan(self, folder: RunFolder) -> None:
        """Writes the plan's files, its head last."""
        raise NotImplementedError
