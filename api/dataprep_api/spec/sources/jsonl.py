"""`source.jsonl`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model, Uri


class JsonlColumn(Model):
    """One column: a key of the objects."""

    name: Column
    """Key. `a/b` is the key `b` of the object `a`, unless the records have a key with that very name."""
    type: Literal["Int64", "Float32", "Float64", "String", "Bool"]
    """Type of the value, or list values. Whole numbers are accepted as floats; nothing else is converted."""
    list: bool = False
    """Whether it is a list, of any length."""
    default: Annotated[str, Field(max_length=1024)] | None = None
    """Value of a missing or null key. Text for a String, otherwise JSON (`0`, `true`, `[]`). Without one, the record is bad."""


class JsonlSource(Model):
    """JSON Lines: one object per line. Files may be gzipped. Columns: the keys; a key of a nested object is named `a/b`, and lists are ragged."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders or globs, in order. A folder stands for every file below it whose name doesn't begin with `_` or `.`. Within one entry, files come by name."""
    columns: Annotated[list[JsonlColumn], Field(min_length=1, max_length=1024)] | None = None
    """Keys to read. Others are ignored. Default: planning infers them once, and any other key then makes a record bad."""
    hive_partitions: Literal["Infer", "String"] | None = None
    """Type of `KEY=VALUE` folders' columns. Each such folder adds a column. `Infer`: Int64 where all values are whole numbers, otherwise String."""

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return list(self.uris)
