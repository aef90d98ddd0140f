"""`source.jsonl`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model, Uri


class JsonlColumn(Model):
    """One column, which is a key of the objects."""

    name: Column
    """The key. `a/b` is the key `b` of the object `a`, unless the records have a key of that very name."""
    type: Literal["Int64", "Float32", "Float64", "String", "Bool"]
    """Type of the value, or of a list's values. A whole number is taken for a float, nothing else is converted."""
    list: bool = False
    """Whether the value is a list, of any length."""
    default: Annotated[str, Field(max_length=1024)] | None = None
    """Value when the key is missing or null: the text of a String, else JSON (`0`, `true`, `[]`). Without it such a record is bad."""


class JsonlSource(Model):
    """JSON Lines, gzip or not: one object a line. Columns: the keys; those of an object within are named `a/b`, and lists are ragged."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders (every file below whose name doesn't begin with `_` or `.`) or globs, in order; within one, by name."""
    columns: Annotated[list[JsonlColumn], Field(min_length=1, max_length=1024)] | None = None
    """The keys to read; others are passed over. When absent they are inferred once, while planning, and any other key makes a record bad."""
    hive_partitions: Literal["Infer", "String"] | None = None
    """Folders named `KEY=VALUE` are columns. `Infer`: those of whole numbers are Int64, others String."""

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return list(self.uris)
