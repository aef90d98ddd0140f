"""The transform `map`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.code import Callable, MadeColumn, Options
from dataprep_api.spec.model import Model


class Map(Model):
    """Applies your Python function. It takes a record as a dict and returns a dict, a list of dicts, or None to leave the record out."""

    callable: Callable
    """`module:function`, or an entry point. The module is in the image or in `spec.code`; the entry point belongs to the group `dataprep.plugins`."""
    options: Options = Options()
    """Keyword arguments."""
    columns: Annotated[list[MadeColumn], Field(min_length=1, max_length=1024)] | None = None
    """Columns that it adds or retypes. The returned dicts have these and all that went in; use `drop` to leave columns out."""
