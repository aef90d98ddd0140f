"""`source.fromJob`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.model import Model, SplitName

JobName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")]
"""The name of a DataPrepJob."""


class FromJobSource(Model):
    """Data set of another DataPrepJob.

    The other job is in the same namespace, and its data set may have any format. This job waits until the other job is Complete. The
    columns and subsets are the same as for the source `dataset`.
    """

    name: JobName
    """Name of the other job. The other job may be created later."""
    split: SplitName | None = None
    """Take only this split."""

    def inputs(self) -> list[str]:
        """Return an empty list. When the other job is Complete, the operator replaces this source with `source.dataset`."""
        return []
