"""Converts field names from Python's keywords (`file_name`) to the API's names (`fileName`)."""

import os
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from dataprep_api.errors import Fault, SpecError
from dataprep_api.spec.output import Output
from dataprep_converter.records.columns import similar

_INSTEAD: Final = {
    "overwrite": "Use mode.",
    "shards": "Use shard_records or shard_size.",
    "granularity": "Use shard_records.",
    "minibatch_size": "Use shard_records.",
    "provenance": "Rows of data from memory don't come from files.",
    "table": "Write the rows to the table with a library for this table.",
}
"""Maps fields of `spec.output` that have no meaning for data from memory to advice on what to do instead."""

_PARAMETERS: Final = (
    "classes",
    "columns",
    "format",
    "job",
    "mode",
    "nested",
    "schema",
    "shard_records",
    "shard_size",
    "split",
    "split_column",
    "workers",
)
"""The named parameters of `write`. A keyword that isn't a field may be a misspelled parameter."""


def output_fields(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Converts keywords of `write` to fields of `spec.output`. Raises SpecError for an unknown keyword."""
    own = {"uri", "format", "version", *_INSTEAD}
    names = {name: field.alias or name for name, field in Output.model_fields.items() if name not in own}
    for name in keywords:
        if name not in names:
            hint = f" {_INSTEAD[name]}" if name in _INSTEAD else similar(name, [*names, *_PARAMETERS])
            raise SpecError([Fault(name, f"write has no such parameter.{hint}", unknown=True)])
    return {names[name]: plain(value) for name, value in keywords.items()}


# Any, because a field can have any value that YAML can express.
def plain(value: Any) -> Any:
    """Returns a value as YAML would contain it: a model becomes a mapping of the fields that were set, and a path becomes a string."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value
