"""`source.plugin`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.code import Callable, MadeColumn, Options
from dataprep_api.spec.model import Model, Uri


class PluginSource(Model):
    """Files in a format of your own, read by a Python function of yours.

    The function gets an open binary stream and the file's name, and the options by keyword; it yields dicts (one record each), Arrow record
    batches or tables, or numpy arrays (one record for each entry of the first dimension).
    """

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders (every file below whose name doesn't begin with `_` or `.`) or globs, in order; within one, by name."""
    callable: Callable
    """`module:function`, from the image or from `spec.code`, or the name of an entry point of the group `dataprep.plugins`."""
    options: Options = Options()
    """Passed to the function by name."""
    columns: Annotated[list[MadeColumn], Field(min_length=1, max_length=1024)] | None = None
    """Columns that the function makes. When absent they are taken from the first record, while planning, and then enforced."""

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return list(self.uris)
