"""Names of fields: as keywords in Python (`file_name`), and as the API has them (`fileName`)."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from dataprep_api.errors import Fault, SpecError
from dataprep_api.spec.output import Output
from dataprep_converter.records.columns import similar


def output_fields(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of `spec.output` that keywords of `write` set. Raises SpecError for an unknown one."""
    own = {"uri", "format", "overwrite", "shards", "table", "granularity", "minibatch_size", "provenance", "version"}
    names = {name: field.alias or name for name, field in Output.model_fields.items() if name not in own}
    for name in keywords:
        if name not in names:
            raise SpecError([Fault(name, f"write has no such parameter.{similar(name, list(names))}", unknown=True)])
    return {names[name]: plain(value) for name, value in keywords.items()}


# Any, because fields have values of every kind that YAML has.
def plain(value: Any) -> Any:
    """Returns a value as in YAML: models become the fields that were set."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value
