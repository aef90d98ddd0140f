"""Virtual environments of foreign readers, whose dependencies would not go together with ours or with each other's.

Each is described by `requirements/environments/<name>.txt`, a lock with hashes, and made once: the lock's content names its place in the
cache. A reader is a small script that gets its arguments, and prints what it has read, as JSON if nothing else is said.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.availability import unavailable

from storeservers import cache

_LOCKS = Path(__file__).parents[3] / "requirements" / "environments"
_MINUTES_TO_READ = 10
# Readers that would look for something on the network find nothing there, and fail at once.
_NOWHERE = "http://127.0.0.1:9"
_OFFLINE = {
    "HTTP_PROXY": _NOWHERE,
    "HTTPS_PROXY": _NOWHERE,
    "http_proxy": _NOWHERE,
    "https_proxy": _NOWHERE,
    "NO_PROXY": "127.0.0.1,localhost",
    "no_proxy": "127.0.0.1,localhost",
    "HF_HUB_OFFLINE": "1",
    "CUDA_VISIBLE_DEVICES": "",
}


def lock(name: str) -> Path:
    """The file that describes an environment."""
    return _LOCKS / f"{name}.txt"


def python(name: str) -> Path:
    """The interpreter of an environment; the first call on a machine makes it, and ends the test where that can't be done."""
    try:
        return cache.entry(f"environment-{name}-{cache.key_of(lock(name))}", lambda folder: _make(folder, name)) / "bin" / "python"
    except cache.BuildFailed as exc:
        unavailable(f"The environment {name!r} can't be made: {exc}")


def run(name: str, script: Path | str, arguments: Sequence[Path | str] = (), environment: Mapping[str, str] | None = None) -> str:
    """What a script prints when that environment's interpreter runs it; a path is a file, a text the code itself.

    Raises AssertionError with what the script said when it fails.
    """
    code = [str(script)] if isinstance(script, Path) else ["-c", script]
    command = [str(python(name)), "-I", *code, *map(str, arguments)]
    done = subprocess.run(
        command,
        env={**os.environ, **_OFFLINE, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=60 * _MINUTES_TO_READ,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"The reader in the environment {name!r} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return done.stdout


def _make(folder: Path, name: str) -> None:
    # Relocatable: the cache renames the folder when it is whole.
    uv = str(Path(sys.executable).with_name("uv"))
    cache.build([uv, "venv", "--quiet", "--relocatable", "--python", sys.executable, str(folder)], cwd=folder)
    # By pip, which knows where this machine finds packages. The lock is whole, so nothing else is looked for; it names the build backend of what
    # exists as source only.
    locked = str(lock(name))
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet", "--disable-pip-version-check"]
    cache.build([*pip, "--no-deps", "--require-hashes", "--build-constraint", locked, "--requirement", locked], cwd=folder)
