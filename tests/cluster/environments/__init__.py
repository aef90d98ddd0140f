"""Virtual environments for third-party readers whose dependencies conflict with the project's dependencies or with each other.

A lock file with hashes, `requirements/environments/<name>.txt`, describes each environment. Each environment is built once and cached under
a hash of its lock file. A reader is a small script that takes arguments and prints what it has read, as JSON unless its docstring says
otherwise.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.availability import unavailable

from storeservers import cache

_LOCKS = Path(__file__).parents[3] / "requirements" / "environments"
SECONDS = 30 * 60
"""The limit for a program that hangs. A minute of Spark's processor time can take over ten minutes on a busy machine."""
# A proxy that refuses connections, so readers that try to reach the network fail immediately.
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
    """An environment's lock file."""
    return _LOCKS / f"{name}.txt"


def python(name: str) -> Path:
    """An environment's interpreter.

    The first call on a machine builds the environment. If it can't be built, the test is skipped or fails.
    """
    try:
        return cache.entry(f"environment-{name}-{cache.key_of(lock(name))}", lambda folder: _make(folder, name)) / "bin" / "python"
    except cache.BuildFailed as exc:
        unavailable(f"The environment {name!r} can't be made: {exc}")


def run(name: str, script: Path | str, arguments: Sequence[Path | str] = (), environment: Mapping[str, str] | None = None) -> str:
    """Runs a script with the environment's interpreter and returns its output. A script given as a string is source code.

    Raises AssertionError with the script's output if it fails.
    """
    code = [str(script)] if isinstance(script, Path) else ["-c", script]
    command = [str(python(name)), "-I", *code, *map(str, arguments)]
    done = subprocess.run(
        command,
        env={**os.environ, **_OFFLINE, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"The reader in the environment {name!r} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return done.stdout


def _make(folder: Path, name: str) -> None:
    # The environment is relocatable, because the cache renames its complete folder.
    uv = str(Path(sys.executable).with_name("uv"))
    cache.build([uv, "venv", "--quiet", "--relocatable", "--python", sys.executable, str(folder)], cwd=folder)
    # pip is used because it knows this machine's package index. The lock file is complete, including the build backends of source-only
    # packages, so pip resolves nothing else.
    locked = str(lock(name))
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet", "--disable-pip-version-check"]
    cache.build([*pip, "--no-deps", "--require-hashes", "--build-constraint", locked, "--requirement", locked], cwd=folder)
