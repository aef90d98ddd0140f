"""The transform `map`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.code import Callable, MadeColumn, Options
from dataprep_api.spec.model import Model


class Map(Model):
    """Each record through a Python function of yours: a dict goes in; a dict, a list of dicts, or None (leave it out) comes back."""

    callable: Callable
    """`module:function`, from the image or from `spec.code`, or the name of an entry point of the group `dataprep.plugins`."""
    options: Options = Options()
    """Passed to the function by name."""
    columns: Annotated[list[MadeColumn], Field(min_length=1, max_length=1024)] | None = None
    """Columns that the function adds, or gives another type. The dicts that come back have these and all that went in; `drop` leaves columns out."""
