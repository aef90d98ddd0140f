"""Turns pydantic's errors into faults. A fault says what was expected. It uses the names of YAML's types, and the field names that the user
wrote."""

import ast
import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from dataprep_api.errors import Fault
from dataprep_api.redaction import one_line
from dataprep_api.spec.model import OneOf
from dataprep_api.suggest import did_you_mean, model_at, nearest

_LONGEST_ECHO: Final = 64
_GOT: Final = re.compile(r"""\bgot ('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")""")
"""Matches the rejected value in a validator's message, after the word `got`."""

_EXPECTED: Final[Mapping[str, str]] = {
    # pydantic's type of error: what was expected
    "string_type": "expected text", "list_type": "expected a list", "dict_type": "expected a mapping",
    "model_type": "expected a mapping", "model_attributes_type": "expected a mapping",
    "int_type": "expected a whole number", "int_parsing": "expected a whole number", "int_from_float": "expected a whole number",
    "float_type": "expected a number", "float_parsing": "expected a number", "finite_number": "expected a finite number",
    "bool_type": "expected true or false", "bool_parsing": "expected true or false",
    "greater_than_equal": "must be at least {ge:g}", "greater_than": "must be more than {gt:g}",
    "less_than_equal": "must be at most {le:g}", "less_than": "must be less than {lt:g}",
    "string_too_short": "must have at least {min_length} {unit}", "string_too_long": "must have at most {max_length} {unit}",
    "too_short": "must have at least {min_length} {unit}, got {actual_length}",
    "too_long": "must have at most {max_length} {unit}, got {actual_length}",
    "string_pattern_mismatch": "must match the pattern {pattern}",
}  # fmt: skip
_PERCENT: Final = re.compile(r"(\d{1,3}(?:\.\d+)?) ?%")
_NO_SPACE: Final = re.compile(r"[A-Za-z]\w*:[^\s/]")


def fault(root: type[BaseModel], error: Any, document: object) -> Fault:
    """Convert a pydantic error to a fault with the names that the user wrote.

    `root` is the model that was validated with `document`. `error` is Any, because pydantic's ErrorDetails is a plain dict.
    """
    location, kind = error["loc"], error["type"]
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    if kind == "extra_forbidden":
        return Fault(path, f"unknown field{did_you_mean(root, location, document)}", unknown=True)
    if kind == "missing":
        return Fault(path, "is required")
    value = error.get("input")
    message = error["msg"].removeprefix("Value error, ").replace("Input should be ", "expected ", 1)
    if kind in _EXPECTED:
        limits = error.get("ctx", {})
        unit = "character" if isinstance(value, str) else "item"
        is_one = 1 in (limits.get("min_length"), limits.get("max_length"))
        message = _EXPECTED[kind].format_map(limits | {"unit": unit if is_one else f"{unit}s"})
    if kind in ("model_type", "model_attributes_type"):
        message += _fields(model_at(root, location))
    if value is None and message.startswith("expected "):
        return Fault(path, f"has no value (in YAML, ~ and null also mean no value); {message}")
    got = _echo(value) if isinstance(value, str | int | float) else "a list" if isinstance(value, list) else "a mapping"
    suffix = f", got {got}" if "got " not in message and (isinstance(value, str | int | float) or message.startswith("expected ")) else ""
    if kind == "literal_error" and isinstance(value, str):
        suffix += nearest(value, re.findall("'([^']*)'", error["ctx"]["expected"]))
    return Fault(
        path, one_line(_GOT.sub(lambda match: f"got {_echo(ast.literal_eval(match[1]))}", message) + suffix + _advice(kind, path, value))
    )


def _fields(model: type[BaseModel] | None) -> str:
    """Return the part of a message that names the fields of the expected mapping, such as ` with the field uri`."""
    if model is None:
        return ""
    if issubclass(model, OneOf):
        return f" with one of the fields {', '.join(model.members())}"
    required = [field.alias or name for name, field in model.model_fields.items() if field.is_required()]
    if not required:
        return " ({} for the defaults)"
    return f" with the field{'s' * (len(required) != 1)} {', '.join(required)}"


def _advice(kind: str, path: str, value: object) -> str:
    """Return the part of a message that says how to write a value that has the wrong type."""
    if kind == "string_type" and isinstance(value, int | float):
        return "; put it in quotes"
    if kind == "list_type" and isinstance(value, str):
        return "; put it in brackets: [ ]"
    if isinstance(value, str) and kind == "float_parsing" and (percent := _PERCENT.fullmatch(value)):
        return f"; write {float(percent[1]) / 100:g}"
    if path.endswith("fraction") and kind == "less_than_equal" and isinstance(value, int | float) and value <= 100:
        return f"; write {value / 100:g} for {value:g} %"
    if isinstance(value, str) and kind.startswith("model_") and _NO_SPACE.match(value):
        return "; YAML needs a space after the colon"
    return ""


def _echo(value: str | float) -> str:
    """Return the value as it appears in a message. Values that may contain a credential are not shown.

    For a text that is long or contains `://`, `@`, `=` or `?`, only the number of characters is returned.
    """
    if isinstance(value, str) and (len(value) > _LONGEST_ECHO or any(mark in value for mark in ("://", "@", "=", "?"))):
        return f"{len(value)} characters"
    return repr(value)
