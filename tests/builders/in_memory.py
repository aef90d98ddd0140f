"""A fixture for tests that write many small files."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A temporary folder, in memory if possible, because every small file is synced."""
    memory = Path("/dev/shm")  # noqa: S108 - a separate folder is made there
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path, prefix="dataprep-frames-") as folder:
        yield Path(folder)
