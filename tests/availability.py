"""What this machine lacks is skipped loudly; in CI it is a failure."""

import os
from typing import NoReturn

import pytest


def skip_without(available: object, what: str) -> pytest.MarkDecorator:
    """A mark that skips a test unless `available` is true. In CI the test runs, and fails, instead."""
    return pytest.mark.skipif(not available and os.environ.get("CI") != "true", reason=what)


def unavailable(what: str) -> NoReturn:
    """Ends a test, or a fixture, that can't go on without something; `what` says what is missing, and how to get it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must have it: {what}", pytrace=False)
    pytest.skip(what)
