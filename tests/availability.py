"""What this machine lacks is skipped loudly; in CI it is a failure."""

import os
from typing import NoReturn

import pytest


def unavailable(what: str) -> NoReturn:
    """Ends a test, or a fixture, that can't go on without something; `what` says what is missing, and how to get it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must have it: {what}", pytrace=False)
    pytest.skip(what)
