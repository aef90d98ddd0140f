"""Names of fields: as keywords in Python (`file_name`), and as the API has them (`fileName`)."""

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
    "provenance": "A row has no file that it comes from.",
    "table": "Write the rows to the table with a library for this table.",
}
"""For fields of `spec.output` that have no meaning for data from memory, what to do instead."""

_PARAMETERS: Final = (
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
"""The named parameters of `write`, which a typo may mean."""


def output_fields(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of `spec.output` that keywords of `write` set. Raises SpecError for an unknown one."""
    own = {"uri", "format", "version", *_INSTEAD}
    names = {name: field.alias or name for name, field in Output.model_fields.items() if name not in own}
    for name in keywords:
        if name not in names:
            hint = f" {_INSTEAD[name]}" if name in _INSTEAD else similar(name, [*names, *_PARAMETERS])
            raise SpecError([Fault(name, f"write has no such parameter.{hint}", unknown=True)])
    return {names[name]: plain(value) for name, value in keywords.items()}


# Any, because fields have values of every kind that YAML has.
def plain(value: Any) -> Any:
    """Returns a value as in YAML: models become the fields that were set, and paths become texts."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value
