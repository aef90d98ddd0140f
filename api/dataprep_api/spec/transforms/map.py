"""The transform `map`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.code import Callable, MadeColumn, Options
from dataprep_api.spec.model import Model


class Map(Model):
    """Applies your Python function to each record. The function takes a record as a dict, and returns a dict, a list of dicts, or None to leave the record out."""

    callable: Callable
    """Function as `module:function`, or an entry point. The module is in the image or in `spec.code`. The entry point belongs to the group `dataprep.plugins`."""
    options: Options = Options()
    """Keyword arguments of the function."""
    columns: Annotated[list[MadeColumn], Field(min_length=1, max_length=1024)] | None = None
    """Columns that the function adds or retypes. The returned dicts must contain these columns and all columns of the input. Use `drop` to remove columns."""
