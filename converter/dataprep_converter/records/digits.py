"""Finds the digits of numbers in text, and finds out whether float32 keeps these digits.

A column is inferred as Float64 if float32 doesn't keep all digits of its numbers.
"""

import math
import re
from typing import Any, Final

import numpy as np

from dataprep_converter.core.tensors import Array, pc

_KEPT: Final = 6
"""The number of decimal digits that every float32 keeps."""
_NO_DIGITS: Final = "[eE].*$|[^0-9]"
_SMALLEST: Final = float(np.finfo(np.float32).tiny)
_LARGEST: Final = float(np.finfo(np.float32).max)


def significant(numbers: Any) -> Any:
    """Returns the digits of numbers in text, without signs, points, exponents, and leading and trailing zeros."""
    return pc.utf8_trim(pc.replace_substring_regex(numbers, _NO_DIGITS, ""), "0")


def keeps_digits(text: str) -> bool:
    """Returns whether float32 keeps all digits of a number that is given as text."""
    size = abs(float(text))
    return len(re.sub(_NO_DIGITS, "", text).strip("0")) <= _KEPT and (size == 0 or not math.isfinite(size) or _SMALLEST <= size <= _LARGEST)


def keeps_all_digits(cells: Array, values: Any) -> bool:
    """Returns whether float32 keeps all digits of some numbers.

    `cells` contains the numbers as text, and `values` contains them as float64.
    """
    long = cells.filter(pc.greater(pc.binary_length(cells), _KEPT))
    if len(long) and pc.max(pc.binary_length(significant(long))).as_py() > _KEPT:
        return False
    sizes = np.abs(values.to_numpy())
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return bool(((sizes >= _SMALLEST) & (sizes <= _LARGEST)).all())
