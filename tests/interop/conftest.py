"""Fixtures shared by the tests with third-party readers."""

import importlib
import os
import sys
import warnings
from typing import Any
from unittest.mock import MagicMock

import pytest
from tests.availability import unavailable
from tests.interop import comparisons


def pytest_sessionfinish(exitstatus: int) -> None:
    """Writes the report of `make interop` if all tests passed."""
    if exitstatus == pytest.ExitCode.OK:
        comparisons.write_when_asked()


@pytest.fixture(scope="session")
def tf() -> Any:
    """The module `tensorflow`. It is typed as Any, because its type annotations don't satisfy a strict checker."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        # Importing TensorFlow causes warnings, because it uses deprecated APIs of other packages.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("tensorflow")
    except ModuleNotFoundError as exc:
        unavailable(f"TensorFlow is not installed ({exc}): pip install -r requirements/interop.txt")


@pytest.fixture(scope="session")
def tfds(tf: Any) -> Any:
    """The module `tensorflow_datasets`. It imports `promise`, which is available only as source and needed only for downloads."""
    del tf
    try:
        importlib.import_module("promise")
    except ModuleNotFoundError:
        sys.modules["promise"] = MagicMock()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("tensorflow_datasets")
    except ModuleNotFoundError as exc:
        unavailable(f"tensorflow_datasets is not installed ({exc}): pip install -r requirements/interop.txt")
