"""The base class of the sources whose files have typed columns: `parquet`, `arrow`, `avro` and `orc`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model, NullDefaults, Uri
from dataprep_api.spec.sources.partition_conditions import PartitionConditions


class TableFiles(Model):
    """Table files with typed columns."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders or globs. The entries are read in the order of this list. A folder means every file below it whose name doesn't begin with `_` or `.`. The files of one entry are sorted by name."""
    columns: Annotated[list[Column], Field(min_length=1, max_length=1024)] | None = None
    """Columns to read. The columns are returned in the order of this list. `a` means the struct `a`, or all its fields if the job doesn't keep structs. Default: all columns."""
    nested: Annotated[list[Column], Field(min_length=1, max_length=1024)] | None = None
    """Columns to keep nested. Their values are structs or lists. Lists that contain nulls must be kept. Parquet, Arrow and JSON Lines store nested values directly, and other formats store them as JSON. Lists of structs, maps and lists of lists are always kept."""
    defaults: NullDefaults | None = None
    """Values for nulls. The keys are columns. Write text for a string column, otherwise JSON (`0`, `true`, `[]`), or `NaN` for a float. Without a default, a null stays a null."""
    hive_partitions: Literal["Infer", "String"] | None = None
    """Type of folder columns. Each folder named `KEY=VALUE` adds a column. `Infer`: Int64 if all values are whole numbers, otherwise String."""
    partitions: PartitionConditions | None = None
    """Folders to read. The keys are folder keys, and the values are conditions, such as `>= 2026-01-01`. Files in other folders are not opened. Needs `hivePartitions`. Default: all folders."""

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return list(self.uris)
