"""`source.jsonl`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model, NullDefaults, Uri
from dataprep_api.spec.sources.partition_conditions import PartitionConditions


class JsonlColumn(Model):
    """One column, which is a key of the JSON objects."""

    name: Column
    """Name of the key. If the records have no key named `a/b`, this name means the key `b` of the object `a`."""
    type: Literal["Int64", "Float32", "Float64", "String", "Bool"]
    """Type of the values. Whole numbers are accepted as floats. There are no other conversions."""
    list: bool = False
    """Whether it is a list. A list may have any length."""
    default: Annotated[str, Field(max_length=1024)] | None = None
    """Value of a missing or null key. Write text for a String, otherwise JSON (`0`, `true`, `[]`), or `NaN` for a float. Without a default, a missing or null key is a null."""


class JsonlSource(Model):
    """JSON Lines or arrays of objects. A file has one object per line, or a single array of objects. Files may be compressed. Columns: the keys. A key of a nested object is named `a/b`, and lists are ragged."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders or globs. The entries are read in the order of this list. A folder means every file below it whose name doesn't begin with `_` or `.`. The files of one entry are sorted by name."""
    encoding: Literal["Utf8", "Utf16Le", "Utf16Be", "Latin1", "Windows1252"] | None = None
    """Text encoding. A byte order mark at the beginning of a file takes precedence. UTF-16 files aren't divided among workers. Default: Utf8."""
    columns: Annotated[list[JsonlColumn], Field(min_length=1, max_length=1024)] | None = None
    """Keys to read. Other keys are ignored. Default: planning infers the keys once, and every record with any other key is bad."""
    nested: Annotated[list[Column], Field(min_length=1, max_length=1024)] | None = None
    """Keys to keep nested. Their values are objects or lists. Lists that contain nulls must be kept. Parquet, Arrow and JSON Lines store nested values directly, and other formats store them as JSON. These keys are read even if `columns` doesn't list them. Without `columns`, lists of objects and lists of lists are always kept."""
    defaults: NullDefaults | None = None
    """Values for null keys. The field maps columns to values, which also apply to missing keys. With this field, you needn't list `columns` only to set their `default`. Write text for a String, otherwise JSON (`0`, `true`, `[]`), or `NaN` for a float."""
    hive_partitions: Literal["Infer", "String"] | None = None
    """Type of folder columns. Each folder named `KEY=VALUE` adds a column. `Infer`: Int64 if all values are whole numbers, otherwise String."""
    partitions: PartitionConditions | None = None
    """Folders to read. The keys are folder keys, and the values are conditions, such as `>= 2026-01-01`. Files in other folders are not opened. Needs `hivePartitions`. Default: all folders."""

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return list(self.uris)
