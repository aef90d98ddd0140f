"""Programs from npm, for tests that are skipped on a machine without Node.js."""

import shutil
from pathlib import Path

from tests.availability import unavailable

from storeservers import cache, npm


def script(name: str, path: str) -> Path:
    """See `npm.script`. Skips or fails the test if node or npm is missing, or if the program can't be installed."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        unavailable(f"{name} needs node and npm")
    try:
        return npm.script(name, path)
    except cache.BuildFailed as exc:
        unavailable(f"{name} can't be installed: {exc}")
