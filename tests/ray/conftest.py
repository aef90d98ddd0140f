"""Fixtures for the tests in this folder."""

import importlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.builders import played_ray
from tests.builders.in_memory import tmp_path

__all__ = ["played", "tmp_path"]

OURS = ("dataprep_ray.datasink", "dataprep_ray.datasource", "dataprep_ray.interface")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The package `dataprep_ray`, which imports the fake Ray. The heavy tests use Ray itself."""
    for name, module in played_ray.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    for name in OURS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("dataprep_ray")
    for name in OURS:
        sys.modules.pop(name, None)
