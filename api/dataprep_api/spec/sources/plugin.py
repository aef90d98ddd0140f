"""`source.plugin`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.code import Callable, MadeColumn, Options
from dataprep_api.spec.model import Model, Uri


class PluginSource(Model):
    """Files read by your Python function. The function gets an open binary stream, the file's name, and the options as keyword arguments.

    The function yields dicts (one record each), Arrow record batches or tables, or numpy arrays (one record for each entry of the first dimension).
    """

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders or globs. The entries are read in the order of this list. A folder means every file below it whose name doesn't begin with `_` or `.`. The files of one entry are sorted by name."""
    callable: Callable
    """Function as `module:function`, or an entry point. The module is in the image or in `spec.code`. The entry point belongs to the group `dataprep.plugins`."""
    options: Options = Options()
    """Keyword arguments of the function."""
    columns: Annotated[list[MadeColumn], Field(min_length=1, max_length=1024)] | None = None
    """Columns that the function yields. Default: planning takes them from the first record, and every record must have these columns."""

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return list(self.uris)
