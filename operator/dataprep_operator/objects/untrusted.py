"""Reads what others have written: labels, annotations, statuses. Never fails, for one odd value must not stop the whole operator.

Apart from the readers of pods and Jobs, which say what a value means. Whatever isn't of the expected form counts as absent.
"""

from collections.abc import Mapping
from typing import Any, Final

Raw = Mapping[str, Any]  # Any: objects as the API server's JSON

# More digits than any count in Kubernetes has; Python refuses thousands of them.
_MOST_DIGITS: Final = 18


# Any: JSON of any form, here and below.
def mapping(value: Any) -> Mapping[str, Any]:
    """The object, or an empty one."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """The objects in a list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def text(value: Any) -> str:
    """The text, or an empty one."""
    return value if isinstance(value, str) else ""


def number(value: Any, default: int = 0) -> int:
    """The number, also one in ASCII digits (`isdigit` takes `²` as well), or the default."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS else default
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def conditions(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """A status's conditions by their type."""
    return {text(each.get("type")): each for each in mappings(status.get("conditions"))}
