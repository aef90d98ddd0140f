"""Skips tests that need something that this machine lacks. In CI, such tests fail instead."""

import os
from typing import NoReturn

import pytest


def skip_without(available: object, what: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test unless `available` is true.

    CI has everything that tests need. So in CI, the test always runs, and fails if something is missing. If the test were skipped in CI,
    nobody would notice.
    """
    return pytest.mark.skipif(not available and not _in_ci(), reason=what)


def unavailable(what: str) -> NoReturn:
    """Skip or fail a test or fixture because something that it needs is missing. `what` says what is missing and how to get it."""
    if _in_ci():
        pytest.fail(f"CI must provide this: {what}", pytrace=False)
    pytest.skip(what)


def _in_ci() -> bool:
    return os.environ.get("CI") == "true"
