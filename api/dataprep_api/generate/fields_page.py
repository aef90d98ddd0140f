"""Generates `docs/fields.md` from the models.

`python -m dataprep_api.generate.fields_page` writes the page. With `--check`, the command only compares the page with the models. The CRDs,
and therefore `kubectl explain`, contain the first sentence of each description. This page contains the complete text.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from dataprep_api.generate import generated
from dataprep_api.generate.crd import Schema
from dataprep_api.resources.cron import DataPrepCronJob
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.resources.profile import DataPrepProfile
from dataprep_api.spec import Model

FILE: Final = Path("docs/fields.md")
_PARTS: Final = (
    (DataPrepJob, "spec"),
    (DataPrepJob, "status"),
    (DataPrepCronJob, "spec"),
    (DataPrepCronJob, "status"),
    (DataPrepProfile, "spec"),
)


def page() -> str:
    """Return the text of the page."""
    seen: dict[str, str] = {}
    parts = "\n".join(section for model, part in _PARTS for section in _part(model, part, seen))
    return f"""\
<!-- Made by `make generate` from api/dataprep_api. Don't edit. -->
# Fields

This page lists every field of a DataPrepJob, a DataPrepCronJob and a DataPrepProfile. On a cluster, the command
`kubectl explain dataprepjob.spec.output` shows the first sentence of each description. Each object has one table. In the headings, `[]` means
the entries of a list, and `*` means the values of a map. **Bold** fields are required.

{parts}"""


def _part(model: type[Model], part: str, seen: dict[str, str]) -> Iterator[str]:
    schema = model.model_json_schema(by_alias=True, mode="validation")
    yield f"## {model.__name__}: {part}\n"
    yield from _sections(schema["properties"][part], schema["$defs"], f"{model.__name__}.{part}", seen)


def _sections(schema: Schema, definitions: Schema, path: str, seen: dict[str, str]) -> Iterator[str]:
    """Yield the tables of the object in `schema` and of the objects within it.

    For an object that is in `seen`, only a reference is written.
    """
    name, schema, path = _resolve(schema, definitions, path)
    fields = schema.get("properties")
    if not fields:
        return
    title = f"### `{path}`\n\n"
    if name in seen:
        yield f"{title}{_cell(schema.get('description', ''))}\n\nIts fields are those of `{seen[name]}`.\n"
        return
    seen[name] = path
    rows = "\n".join(_row(key, field, definitions, required=key in schema.get("required", ())) for key, field in fields.items())
    yield f"{title}{_cell(schema.get('description', ''))}\n\n| Field | Type | Default | Meaning |\n|---|---|---|---|\n{rows}\n"
    for key, field in fields.items():
        yield from _sections(field, definitions, f"{path}.{key}", seen)


def _resolve(schema: Schema, definitions: Schema, path: str) -> tuple[str, Schema, str]:
    """Find the object that is wrapped in optional values, lists and maps.

    Returns the name of the object's definition, the object's schema, and its path.
    """
    schema = _only_alternative(schema)
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        return name, definitions[name], path
    if isinstance(schema.get("items"), dict):
        return _resolve(schema["items"], definitions, f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        return _resolve(schema["additionalProperties"], definitions, f"{path}.*")
    return "", schema, path


def _only_alternative(schema: Schema) -> Schema:
    """If `schema` allows null and exactly one alternative, return this alternative. Otherwise return `schema` itself."""
    alternatives = [alternative for alternative in schema.get("anyOf", ()) if alternative.get("type") != "null"]
    return alternatives[0] if len(alternatives) == 1 else schema


def _row(key: str, field: Schema, definitions: Schema, *, required: bool) -> str:
    default = field.get("default")
    _, target, _ = _resolve(field, definitions, "")
    text = field.get("description") or (target.get("description", "") if "$ref" in _only_alternative(field) else "")
    default_text = "" if default is None or isinstance(default, dict) or default == [] else f"`{json.dumps(default, ensure_ascii=False)}`"
    return f"| {f'**`{key}`**' if required else f'`{key}`'} | {_type(field, definitions)} | {default_text} | {_cell(text)} |"


def _type(field: Schema, definitions: Schema) -> str:
    alternative = _only_alternative(field)
    if "$ref" in alternative:
        return _type(definitions[alternative["$ref"].removeprefix("#/$defs/")], definitions)
    if "enum" in alternative or "const" in alternative:
        return " · ".join(f"`{value}`" for value in alternative.get("enum", [alternative.get("const")]))
    if "anyOf" in alternative:
        return " or ".join(_type(member, definitions) for member in alternative["anyOf"] if member.get("type") != "null")
    if isinstance(alternative.get("items"), dict):
        return f"list of {_type(alternative['items'], definitions)}"
    values = alternative.get("additionalProperties") or next(iter(alternative.get("patternProperties", {}).values()), None)
    if isinstance(values, dict):
        return f"map of {_type(values, definitions)}"
    return str(alternative.get("format") or alternative.get("type", "any"))


def _cell(text: Any) -> str:  # Any, because values of a JSON Schema have many types
    """Put `text` on one line and escape the characters that would end a table cell."""
    return " ".join(str(text).split()).replace("|", "\\|")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m dataprep_api.generate.fields_page [--check]` in the repository's root."""
    return generated.main("Write the page of fields.", {FILE: page()}, arguments)


if __name__ == "__main__":
    sys.exit(main())
