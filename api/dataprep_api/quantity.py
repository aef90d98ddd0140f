"""Kubernetes quantities (`64Mi`, `500m`, `2e3`) as numbers."""

import re
from decimal import Decimal

_FORM = re.compile(r"^([0-9]+(?:\.[0-9]+)?)(Ki|Mi|Gi|Ti|k|M|G|T)?$")
_FACTORS = {None: 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
PATTERN = _FORM.pattern
RESOURCE_PATTERN = r"^[0-9]+(\.[0-9]*)?([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
LARGEST = Decimal(2**63 - 1)
"""The largest amount in Kubernetes. Larger amounts are reduced to it."""
_MOST_DIGITS = 100
"""Larger exponents are cut to this size.

A quantity has at most 64 characters. So with an exponent of this size, its value is above LARGEST or practically 0.
"""
_SUFFIXES = (
    {"": Decimal(1)}
    | {f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)}
    | {letter: Decimal(1000) ** power for power, letter in zip((-3, -2, -1, 1, 2, 3, 4, 5, 6), "numkMGTPE", strict=True)}
)


def to_bytes(quantity: int | str) -> int:
    """Convert `quantity` to a number of bytes. Raises ValueError, which says what was expected."""
    match = _FORM.match(str(quantity).strip())
    if match is None:
        raise ValueError(f"expected bytes or a quantity such as 128Mi or 2Gi, got {quantity!r}")
    return int(Decimal(match[1]) * _FACTORS[match[2]])


def to_number(quantity: int | str) -> Decimal:
    """Convert an amount of any resource, such as `500m` of `cpu`, to a number of at most LARGEST. Raises ValueError."""
    text = str(quantity).strip()
    match = re.match(RESOURCE_PATTERN, text)
    if match is None:
        raise ValueError(f"expected a Kubernetes quantity such as 500m, 2 or 4Gi, got {quantity!r}")
    suffix = match[2] or ""
    number = Decimal(text.removesuffix(suffix))
    factor = _SUFFIXES.get(suffix)
    if factor is None:
        exponent = int(suffix[1:])
        factor = Decimal(10) ** min(max(exponent, -_MOST_DIGITS), _MOST_DIGITS)
    return min(number * factor, LARGEST)
