"""Kubernetes quantities (`64Mi`, `1.5Gi`, `500000`) as bytes."""

import re
from decimal import Decimal

_FORM = re.compile(r"^([0-9]+(?:\.[0-9]+)?)(Ki|Mi|Gi|Ti|k|M|G|T)?$")
_FACTORS = {None: 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
PATTERN = _FORM.pattern


def to_bytes(quantity: int | str) -> int:
    """Convert `quantity` to a number of bytes. Raises ValueError, which says what was expected."""
    match = _FORM.match(str(quantity).strip())
    if match is None:
        raise ValueError(f"expected bytes or a quantity such as 128Mi or 2Gi, got {quantity!r}")
    return int(Decimal(match[1]) * _FACTORS[match[2]])
