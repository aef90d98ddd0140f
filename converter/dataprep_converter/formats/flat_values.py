"""Values as `Decoder.parse` gives them: flat lists, in which text is bytes and numbers are those that their type holds."""

from typing import Any

import numpy as np


def flat(values: Any, *, steps: bool) -> list[Any]:
    """All the values below a JSON value; with `steps`, a list of them for each item of the outermost list. Raises ValueError when there is none."""
    if steps:
        if not isinstance(values, list):
            raise ValueError("a list of steps is expected")
        return [flat(step, steps=False) for step in values]
    if not isinstance(values, list):
        return [values.encode() if isinstance(values, str) else values]
    return [value for each in values for value in flat(each, steps=False)]


def narrowed(values: list[Any], dtype: str) -> list[Any]:
    """Numbers that were written in another type, or in decimal, as those of a feature's; steps too."""
    if dtype == "bool":
        return [narrowed(value, dtype) if isinstance(value, list) else bool(value) for value in values]
    if dtype not in ("float16", "float32"):
        return values
    kind = np.dtype(dtype).type
    # Larger than the type holds it can be in a damaged file only.
    with np.errstate(over="ignore"):
        return [narrowed(value, dtype) if isinstance(value, list) else float(kind(value)) for value in values]
