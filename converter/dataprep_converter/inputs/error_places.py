"""Finds the line in the job that a planning error is about.

Planning errors name a feature, a transform or a field, but not the job's file.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from dataprep_api.errors import SpecError
from dataprep_converter.inputs import job_file

_FEATURE: Final = re.compile(r"The (?:feature|label) '([^']+)'")
_TRANSFORM: Final = re.compile(r"The transform (\w+)")
_FIELD: Final = re.compile(r"(?:The source )?((?:source|output|splits|transforms|stores|code|script)\.[A-Za-z][\w.\[\]]*\w)")


def place_of(message: str, file: str, overrides: Sequence[str] = ()) -> str:
    """Returns the place that the message is about: `FILE:LINE:COLUMN` or `--set FIELD`. Empty if no place is found."""
    try:
        document, below = job_file.job_in(file)
    except SpecError:
        return ""
    spec: Any = document.value  # Any, because the spec is parsed YAML
    for part in f"{below}spec".split("."):
        spec = spec.get(part) if isinstance(spec, dict) else None
    for path in _paths(message, spec if isinstance(spec, dict) else {}):
        place = job_file.place_of(path, document, overrides, below=below)
        if place:
            return place
    return ""


def _paths(message: str, spec: dict[str, Any]) -> Iterator[str]:
    """Yields the paths of the fields that the beginning of the message might name."""
    if feature := _FEATURE.match(message):
        for part in ("features", "labels"):
            for number, item in enumerate(_list(spec.get(part))):
                if isinstance(item, dict) and item.get("name") == feature[1]:
                    yield f"spec.{part}[{number}].name"
    if transform := _TRANSFORM.match(message):
        steps = [(number, item[transform[1]]) for number, item in enumerate(_list(spec.get("transforms"))) if _has(item, transform[1])]
        # A message about a filter quotes the filter's expression. So begin with the filters whose expression is in the message.
        for number, _ in sorted(steps, key=lambda step: not (_has(step[1], "where") and repr(step[1]["where"]) in message)):
            yield f"spec.transforms[{number}].{transform[1]}"
    if field := _FIELD.match(message):
        yield f"spec.{field[1]}"


def _has(value: Any, key: str) -> bool:
    return isinstance(value, dict) and key in value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
