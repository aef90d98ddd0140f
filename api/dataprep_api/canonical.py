"""Canonical JSON: equal values have the same text, so digests of specs and plans can be compared."""

import hashlib
import json
from typing import Any


def dumps(value: Any) -> bytes:
    """Serialise `value` as UTF-8 JSON with sorted keys and no white space. `value` is Any, because `json` accepts many types."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def sha256(value: Any) -> str:
    """Return the hexadecimal SHA-256 digest of the canonical JSON of `value`."""
    return hashlib.sha256(dumps(value)).hexdigest()
