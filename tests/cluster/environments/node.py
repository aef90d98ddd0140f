"""Programs from npm. `tests/cluster/node/<name>` has the lock file of each, and the first call on a machine installs it into the cache."""

import shutil
from pathlib import Path

from tests.availability import unavailable

from storeservers import cache

_PACKAGES = Path(__file__).parents[1] / "node"


def script(name: str, path: str) -> Path:
    """A script of a program. Skips or fails the test if node or npm is missing, or if the program can't be installed."""
    package = _PACKAGES / name
    if shutil.which("node") is None or shutil.which("npm") is None:
        unavailable(f"{name} needs node and npm")
    try:
        key = cache.key_of(package / "package.json", package / "package-lock.json")
        return cache.entry(f"node-{name}-{key}", lambda into: _install(package, into)) / "node_modules" / path
    except cache.BuildFailed as exc:
        unavailable(f"{name} can't be installed: {exc}")


def _install(package: Path, into: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(package / name, into)
    cache.build(["npm", "ci", "--ignore-scripts", "--omit=dev", "--omit=optional", "--no-audit", "--no-fund"], cwd=into)
