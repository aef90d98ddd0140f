"""Canonical JSON: one text for one value, so that digests of specs and plans mean something."""

import hashlib
import json
from typing import Any


def dumps(value: Any) -> bytes:
    """JSON with sorted keys, no blanks, UTF-8. Any: whatever `json` takes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def sha256(value: Any) -> str:
    """Hex SHA-256 of the canonical JSON of `value`."""
    return hashlib.sha256(dumps(value)).hexdigest()
