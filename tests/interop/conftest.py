"""What tests with foreign readers share."""

import importlib
import os
import warnings
from typing import Any

import pytest
from tests.availability import unavailable
from tests.interop import comparisons


def pytest_sessionfinish(exitstatus: int) -> None:
    """`make interop` gets its report when all was equal."""
    if exitstatus == pytest.ExitCode.OK:
        comparisons.write_when_asked()


@pytest.fixture(scope="session")
def tf() -> Any:
    """TensorFlow; it has no types that a strict checker accepts."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        # Its own imports use what is deprecated elsewhere.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("tensorflow")
    except ModuleNotFoundError as exc:
        unavailable(f"TensorFlow is not installed ({exc}): pip install -r requirements/interop.txt")
