"""Programs from npm.

`tests/cluster/node/<name>` has the lock file of the program `<name>`. The first call on a machine installs the program into the cache.
"""

import shutil
from pathlib import Path

from storeservers import cache

_PACKAGES = Path(__file__).parents[1] / "node"


def script(name: str, path: str) -> Path:
    """Returns the path of a program's script. Raises BuildFailed if the program can't be installed."""
    package = _PACKAGES / name
    key = cache.key_of(package / "package.json", package / "package-lock.json")
    return cache.entry(f"node-{name}-{key}", lambda into: _install(package, into)) / "node_modules" / path


def _install(package: Path, into: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(package / name, into)
    # Optional dependencies aren't installed: Azurite's are for a database that no test uses, and pyright's is for macOS.
    cache.build(["npm", "ci", "--ignore-scripts", "--omit=dev", "--omit=optional", "--no-audit", "--no-fund"], cwd=into)
