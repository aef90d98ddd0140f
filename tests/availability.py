"""Skips tests that need something that this machine lacks. In CI, such tests fail instead."""

import os
from typing import NoReturn

import pytest


def skip_without(available: object, what: str) -> pytest.MarkDecorator:
    """A mark that skips a test unless `available` is true. In CI the test runs, and fails, instead."""
    return pytest.mark.skipif(not available and os.environ.get("CI") != "true", reason=what)


def unavailable(what: str) -> NoReturn:
    """Skip or fail a test or fixture that needs something missing. `what` says what is missing and how to get it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must provide this: {what}", pytrace=False)
    pytest.skip(what)
