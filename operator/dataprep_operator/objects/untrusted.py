"""Reads labels, annotations and statuses that other programs wrote.

No function raises, because a single odd value must not stop the operator. A value of an unexpected type counts as absent.
"""

from collections.abc import Mapping
from typing import Any, Final

Raw = Mapping[str, Any]  # Any, because the API server's objects are JSON objects

# No count in Kubernetes has more digits than this. Longer texts are rejected, because int() raises for texts of several thousand digits.
_MOST_DIGITS: Final = 18


# Any, because this function and the following functions accept arbitrary JSON values.
def mapping(value: Any) -> Mapping[str, Any]:
    """Return `value` if it is a mapping, or else an empty mapping."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings in the list `value`, or an empty list if `value` isn't a list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def text(value: Any) -> str:
    """Return `value` if it is a string, or else an empty string."""
    return value if isinstance(value, str) else ""


def number(value: Any, default: int = 0) -> int:
    """Return `value` as an integer if `value` is an integer or a string of ASCII digits, or else `default`.

    `isdigit` alone would also accept characters like `²`.
    """
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS else default
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def conditions(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the conditions of a status, keyed by type."""
    return {text(condition.get("type")): condition for condition in mappings(status.get("conditions"))}
