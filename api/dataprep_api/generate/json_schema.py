"""Generates `api/dataprep_api/dataprep.schema.json` from the models. Editors use this JSON Schema, which covers all kinds of objects.

`python -m dataprep_api.generate.json_schema` writes the file. With `--check`, the command only compares the file with the models. The
schema differs from the CRD in two ways. It contains the complete descriptions. It also allows fields to be empty or a param (`${NAME}`), as
they may be in YAML. `dataprep explain` and `dataprep schema` read the file, so that they need neither the models nor a cluster.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from dataprep_api.generate import generated
from dataprep_api.resources.cron import DataPrepCronJob
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.resources.profile import DataPrepProfile

# Any: a JSON Schema can contain any JSON values.
Schema = dict[str, Any]

FILE: Final = Path("api/dataprep_api/dataprep.schema.json")
_KINDS: Final = (DataPrepJob, DataPrepCronJob, DataPrepProfile)
_FOR_KUBERNETES: Final = "x-kubernetes-"
_PARAM: Final = r"^\$\{.+\}$"
"""Matches a value that consists of a single param. `DataPrepJob.parse` fills it in before the value's type is checked."""
_SCALARS: Final = ("integer", "number", "boolean")


def schema() -> Schema:
    """Return the JSON Schema that covers all kinds of documents."""
    _, combined = models_json_schema([(model, "validation") for model in _KINDS], by_alias=True)
    definitions: Schema = {name: _for_yaml(each) for name, each in combined["$defs"].items()}
    for model in _KINDS:
        definitions[model.__name__]["properties"].pop("status", None)
    kinds = [model.__name__ for model in _KINDS]
    root: Schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dataprep",
        "type": "object",
        "required": ["apiVersion", "kind"],
        "properties": {"kind": {"enum": kinds}},
        "allOf": [{"if": {"properties": {"kind": {"const": kind}}}, "then": {"$ref": f"#/$defs/{kind}"}} for kind in kinds],
    }
    return root | {"$defs": _used(root, definitions)}


def text() -> str:
    """Return the content of the file."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _for_yaml(value: Any) -> Any:
    """Return the schema without titles or Kubernetes keywords. Scalars may also be params."""
    if isinstance(value, list):
        return [_for_yaml(item) for item in value]
    if not isinstance(value, dict):
        return value
    converted = {
        # The keys of `properties` are fields, not keywords: a field may be called `default` or `type`.
        key: {name: _for_yaml(field) for name, field in item.items()} if key == "properties" else _for_yaml(item)
        for key, item in value.items()
        if not key.startswith(_FOR_KUBERNETES)
    }
    if isinstance(converted.get("title"), str):
        del converted["title"]
    if "default" in converted and converted["default"] is None:
        del converted["default"]
    if "enum" in converted or ("const" in converted and converted.get("const") is not None):
        allowed = {key: converted.pop(key) for key in ("enum", "const") if key in converted}
        converted.pop("type", None)
        return converted | {"anyOf": [allowed, {"type": "string", "pattern": _PARAM}]}
    if converted.get("type") in _SCALARS:
        return converted | {"type": [converted["type"], "string"], "pattern": _PARAM}
    if "pattern" in converted:
        return converted | {"pattern": f"(?:{converted['pattern']})|{_PARAM}"}
    return converted


def _used(root: Schema, definitions: Schema) -> Schema:
    """Return the definitions that the root uses, directly or indirectly, sorted by name."""
    pending: list[Any] = [root]
    used: set[str] = set()
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            name = str(value.get("$ref", "")).removeprefix("#/$defs/")
            if name and name not in used:
                used.add(name)
                pending.append(definitions[name])
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return {name: definitions[name] for name in sorted(used)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m dataprep_api.generate.json_schema [--check]` in the repository's root."""
    return generated.main("Write the JSON Schema for editors.", {FILE: text()}, arguments)


if __name__ == "__main__":
    sys.exit(main())
