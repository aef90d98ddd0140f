"""Runs a system command to completion.

The module `daemons` starts processes that keep running. The error for a failed command contains the command's output, so that a test report
shows the cause as well as the exit status.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from kubecluster.errors import StartFailed


def run(
    command: Sequence[str | Path],
    *,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_seconds: float = 120,
) -> str:
    """Run a command and return its standard output."""
    done = attempt(command, stdin=stdin, environment=environment, timeout_seconds=timeout_seconds)
    if done.returncode != 0:
        words = " ".join(str(word) for word in command)
        raise StartFailed(
            f"Expected `{words}` to succeed, got exit status {done.returncode}: {(done.stderr or done.stdout).strip()[-4000:]}"
        )
    return done.stdout


def attempt(
    command: Sequence[str | Path],
    *,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_seconds: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run a command that is allowed to fail."""
    words = [str(word) for word in command]
    try:
        return subprocess.run(
            words,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_seconds,
        )
    except subprocess.TimeoutExpired as exc:
        raise StartFailed(f"Expected `{' '.join(words)}` to end within {timeout_seconds:.0f} s; it did not.") from exc
