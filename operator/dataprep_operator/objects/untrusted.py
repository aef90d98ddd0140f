"""Reads labels, annotations and statuses that others wrote. Never raises: one odd value must not stop the operator.

A value of an unexpected type counts as absent.
"""

from collections.abc import Mapping
from typing import Any, Final

Raw = Mapping[str, Any]  # Any: objects as the API server's JSON

# More digits than any count in Kubernetes; int() refuses thousands of them.
_MOST_DIGITS: Final = 18


# Any: arbitrary JSON, here and below.
def mapping(value: Any) -> Mapping[str, Any]:
    """The mapping, or an empty one."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """The mappings in a list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def text(value: Any) -> str:
    """The string, or an empty one."""
    return value if isinstance(value, str) else ""


def number(value: Any, default: int = 0) -> int:
    """The integer, also from ASCII digits (`isdigit` alone accepts `²`), or the default."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS else default
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def conditions(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The conditions of a status by type."""
    return {text(each.get("type")): each for each in mappings(status.get("conditions"))}
