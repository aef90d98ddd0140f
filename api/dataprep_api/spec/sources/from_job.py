"""`source.fromJob`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.model import Model, SplitName

JobName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")]
"""The name of a DataPrepJob."""


class FromJobSource(Model):
    """What another DataPrepJob of the same namespace writes, in any format. The job waits until that one is Complete. See `dataset`."""

    name: JobName
    """The other job's name. It may be made later."""
    split: SplitName | None = None
    """Take only this split of its data set."""

    def inputs(self) -> list[str]:
        """None that is known: the operator puts `source.dataset` in the place of this when the other job is Complete."""
        return []
