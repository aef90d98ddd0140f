"""`source.fromJob`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.model import Model, SplitName

JobName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")]
"""The name of a DataPrepJob."""


class FromJobSource(Model):
    """Data set of another DataPrepJob. The job is in the same namespace; its format may be any. This job waits until that one is Complete. See `dataset`."""

    name: JobName
    """Name of the other job. It may be created later."""
    split: SplitName | None = None
    """Take only this split."""

    def inputs(self) -> list[str]:
        """None that is known: the operator puts `source.dataset` in the place of this when the other job is Complete."""
        return []
