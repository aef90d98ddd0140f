"""Removes the defaults that the API server added to a spec, so that earlier releases, which lack the newest fields, can read the spec."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dataprep_api.spec import DataPrepJobSpec
from dataprep_api.spec.model import model_in


# The values have the type Any, because they are parsed JSON.
def without_defaults(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec without the fields that have their default values. Fields without a default and unknown fields are kept."""
    return _without(spec, DataPrepJobSpec)


def _without(values: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    kept = {name: _strip(value, fields[name]) if name in fields else value for name, value in values.items()}
    return {name: value for name, value in kept.items() if name not in fields or not _is_default(value, fields[name])}


def _strip(value: Any, field: FieldInfo) -> Any:
    model = model_in(field.annotation)
    if model is not None and isinstance(value, list):
        return [_without(item, model) if isinstance(item, Mapping) else item for item in value]
    return _without(value, model) if model is not None and isinstance(value, Mapping) else value


def _is_default(value: Any, field: FieldInfo) -> bool:
    if field.is_required():
        return False
    default = field.get_default(call_default_factory=True)
    if isinstance(default, BaseModel):
        default = _without(default.model_dump(mode="json", by_alias=True, exclude_none=True), type(default))
    # In Python, unlike in JSON, True equals 1.
    return isinstance(value, bool) == isinstance(default, bool) and bool(value == default)
