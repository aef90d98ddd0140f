"""Inputs shared by the tests of the command line."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench import mnist


@pytest.fixture(scope="session")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 6,000 training images and 200 test images of the synthetic MNIST."""
    return mnist.write(tmp_path_factory.mktemp("few"), train=6000, test=200)


@pytest.fixture(autouse=True)
def handlers_stay_as_they_are() -> Iterator[None]:
    """Restores the signal handler, because a command that runs in this process sets its own."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)
