"""A few digits, and the MaxCompute fake for tables that are read and tables that are written."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dataprep_converter.readers import table
from storeservers.odps import FakeMaxCompute
from workbench import mnist


@pytest.fixture(scope="session")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 1,000 and 200 images of the synthetic MNIST."""
    return mnist.write(tmp_path_factory.mktemp("few"), train=1000, test=200)


@pytest.fixture(scope="module")
def maxcompute_server() -> Iterator[FakeMaxCompute]:
    with FakeMaxCompute() as server:
        yield server


@pytest.fixture
def maxcompute(maxcompute_server: FakeMaxCompute, monkeypatch: pytest.MonkeyPatch) -> FakeMaxCompute:
    """The fake with nothing wrong, known by the environment's variables."""
    maxcompute_server.controls.denied.clear()
    maxcompute_server.controls.log.clear()
    monkeypatch.setenv("ODPS_ENDPOINT", maxcompute_server.endpoint)
    monkeypatch.setenv("ODPS_ACCESS_ID", maxcompute_server.access_id)
    monkeypatch.setenv("ODPS_ACCESS_KEY", maxcompute_server.secret)
    return maxcompute_server


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of 50 rows."""
    monkeypatch.setattr(table, "MOST_BLOCK_ROWS", 25)
    monkeypatch.setattr(table, "SLICE_BLOCKS", 2)
