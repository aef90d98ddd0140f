"""Helpers that convert values to the form that `Decoder.parse` returns.

That form is a flat list, in which text is stored as bytes, and numbers are rounded to the feature's type.
"""

from typing import Any

import numpy as np


def flat(values: Any, *, steps: bool) -> list[Any]:
    """Flatten a JSON value to a list of the values in it.

    If `steps` is set, return a list of such lists: one for each item of the outermost list. Raises ValueError if `steps` is set and the
    JSON value isn't a list.
    """
    if steps:
        if not isinstance(values, list):
            raise ValueError("a list of steps is expected")
        return [flat(step, steps=False) for step in values]
    if not isinstance(values, list):
        return [values.encode() if isinstance(values, str) else values]
    return [value for item in values for value in flat(item, steps=False)]


def narrowed(values: list[Any], dtype: str) -> list[Any]:
    """Convert numbers that were stored in another type, or in decimal, to the feature's `dtype`. `values` may also be a list of steps."""
    if dtype == "bool":
        return [narrowed(value, dtype) if isinstance(value, list) else bool(value) for value in values]
    if dtype not in ("float16", "float32"):
        return values
    kind = np.dtype(dtype).type
    # Only a damaged file can hold a value that is too large for the type.
    with np.errstate(over="ignore"):
        return [narrowed(value, dtype) if isinstance(value, list) else float(kind(value)) for value in values]
