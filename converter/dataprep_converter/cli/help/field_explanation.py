"""Explains the fields of jobs from the JSON Schema: their types, limits, defaults and meanings. Needs neither a cluster nor pydantic."""

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import dataprep_api
from dataprep_api import CRON_KIND, KIND, PROFILE_KIND

# Any: a JSON Schema can contain any JSON values.
Schema = Mapping[str, Any]

SCHEMA_FILE: Final = Path(dataprep_api.__file__).with_name("dataprep.schema.json")
"""The JSON Schema of all kinds, generated from this release's models."""
_KINDS: Final = (KIND, CRON_KIND, PROFILE_KIND)
_OBJECT_FIELDS: Final = ("apiVersion", "kind", "metadata")
_JSON_TYPES: Final[Mapping[str, str]] = {
    "string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "object": "mapping", "array": "list",
}  # fmt: skip
_LIMITS: Final[Mapping[str, str]] = {
    "minimum": "at least {}", "maximum": "at most {}", "exclusiveMinimum": "more than {}", "exclusiveMaximum": "less than {}",
}  # fmt: skip


def schema_text() -> str:
    """Returns the content of SCHEMA_FILE."""
    return SCHEMA_FILE.read_text(encoding="utf-8")


class Explanation:
    """The fields of one kind of document."""

    def __init__(self, schema: Schema, kind: str = KIND) -> None:
        self._definitions: Schema = schema["$defs"]
        self._root: Schema = self._definitions[kind]

    def paths(self) -> list[str]:
        """Returns the paths of all fields of the spec, such as `spec.output.shards.count`. The items of lists are not numbered."""
        return [path for path, _ in self._below(self._root, "", ())]

    def text(self, path: str, *, width: int) -> str:
        """Returns the explanation of a field, as lines of at most `width` characters. Raises KeyError if there is no such field."""
        schema, is_required = self._root, False
        for part in path.split(".") if path else ():
            holder = self._object(schema)
            schema, is_required = holder["properties"][part], part in holder.get("required", ())
        title = f"{path}: {self._type(schema)}" if path else "A document has these fields."
        lines = [*_wrapped(title + ", required" * is_required, width, indent=0), *_wrapped(self._description(schema), width, indent=2)]
        fields = self._fields(self._object(schema))
        if fields:
            lines += ["", "Fields:"]
        for name, field, required in fields:
            lines += _wrapped(f"{name}: {self._type(field)}{', required' * required}", width, indent=2)
            lines += _wrapped(self._description(field), width, indent=6)
        return "\n".join(lines) + "\n"

    def _below(self, schema: Schema, path: str, within: tuple[int, ...]) -> Iterator[tuple[str, Schema]]:
        holder = self._object(schema)
        if id(holder) in within:
            return  # the object contains objects of the same type
        for name, field, _ in self._fields(holder):
            below = f"{path}.{name}" if path else name
            if path or name not in _OBJECT_FIELDS:
                yield below, field
                yield from self._below(field, below, (*within, id(holder)))

    @staticmethod
    def _fields(holder: Schema) -> list[tuple[str, Schema, bool]]:
        required = holder.get("required", ())
        return [(name, field, name in required) for name, field in holder.get("properties", {}).items()]

    def _object(self, schema: Schema) -> Schema:
        """Unwraps optional values, lists and maps, and returns the schema of the object inside, or an empty schema if there is none."""
        schema = self._only(schema)
        for inner in ("items", "additionalProperties"):
            if isinstance(schema.get(inner), Mapping):
                return self._object(schema[inner])
        return schema if "properties" in schema else {}

    def _only(self, schema: Schema) -> Schema:
        """Resolves a reference, or an optional value with a single type, and returns the resulting schema."""
        if "$ref" in schema:
            return self._only(self._definitions[str(schema["$ref"]).removeprefix("#/$defs/")])
        alternatives = self._alternatives(schema)
        return self._only(alternatives[0]) if len(alternatives) == 1 else schema

    @staticmethod
    def _alternatives(schema: Schema) -> list[Schema]:
        # Leave out a string type whose only keyword is a pattern. It describes a param (`${…}`), which every field accepts.
        return [
            each
            for each in schema.get("anyOf", ())
            if each.get("type") != "null" and not (set(each) == {"type", "pattern"} and each["type"] == "string")
        ]

    def _description(self, schema: Schema) -> str:
        return str(schema.get("description") or self._only(schema).get("description", ""))

    def _type(self, schema: Schema) -> str:
        default = schema.get("default")
        shown = "" if default is None or isinstance(default, dict | list) else f", default {json.dumps(default, ensure_ascii=False)}"
        return self._type_alone(schema) + shown

    def _type_alone(self, schema: Schema) -> str:
        schema = self._only(schema)
        if "enum" in schema or "const" in schema:
            return ", ".join(str(value) for value in schema.get("enum", [schema.get("const")]))
        if alternatives := self._alternatives(schema):
            return " or ".join(dict.fromkeys(self._type_alone(each) for each in alternatives))
        if isinstance(schema.get("items"), Mapping):
            return f"list of {self._type_alone(schema['items'])}"
        if isinstance(schema.get("additionalProperties"), Mapping):
            return f"map of {self._type_alone(schema['additionalProperties'])}"
        kinds = schema.get("type", "any value")
        words = _JSON_TYPES.get(kinds[0] if isinstance(kinds, list) else kinds, str(kinds))
        limits = [words_of.format(schema[limit]) for limit, words_of in _LIMITS.items() if limit in schema]
        return ", ".join([words, *limits])


def explanation_of(field: str) -> tuple[Explanation, str]:
    """Returns the explanation that contains a field, and the field's path.

    The field can be written as `output.shards`, `spec.output.shards`, `splits.into[0].name` or, for another kind,
    `DataPrepCronJob.spec.schedule`. The last name is enough if only one field has it. Raises KeyError with the matching paths if no field
    or several fields have the name.
    """
    schema = json.loads(schema_text())
    first, _, rest = field.partition(".")
    kind = next((each for each in _KINDS if each.lower() == first.lower()), None)
    explanation = Explanation(schema, kind or KIND)
    wanted = "".join(part for part in _without_indexes(rest if kind else field))
    known = explanation.paths()
    for path in (wanted, f"spec.{wanted}"):
        if path in known or not wanted:
            return explanation, path if wanted else ""
    ends = [path for path in known if path.endswith(f".{wanted}")]
    if len(ends) == 1:
        return explanation, ends[0]
    raise KeyError(wanted, ends)


def _without_indexes(field: str) -> Iterator[str]:
    for part in field.split("["):
        yield part.partition("]")[2] if "]" in part else part


def _wrapped(text: str, width: int, *, indent: int) -> Sequence[str]:
    space = " " * indent
    return textwrap.wrap(text, width, initial_indent=space, subsequent_indent=space, break_long_words=False, break_on_hyphens=False)
