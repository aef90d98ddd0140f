"""Calls the user's own kubectl, with its configuration and rights."""

import json
import re
import shutil
import subprocess
from typing import Any

from dataprep_converter.core.errors import BadSpec, NotFound

_LOGGED = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.")


def program() -> str:
    """Its path. Raises BadSpec when there is none."""
    found = shutil.which("kubectl")
    if found is None:
        raise BadSpec("This command needs kubectl on the PATH.")
    return found


def scope(namespace: str | None) -> list[str]:
    """The arguments that name the namespace; without one, kubectl's own choice."""
    return ["--namespace", namespace] if namespace else []


def run(*words: str, namespace: str | None) -> str:
    """Runs kubectl and returns its output. Raises NotFound with its message when it fails."""
    done = subprocess.run([program(), *words, *scope(namespace)], capture_output=True, text=True, check=False)  # noqa: S603 - a list, no shell
    if done.returncode:
        raise NotFound(f"kubectl {' '.join(words[:2])}: {_error_text(done.stderr)}")
    return done.stdout


def _error_text(stderr: str) -> str:
    """Without the lines of its log, of which there are many when the cluster can't be reached: `E1122 00:46:56.530682   29910 memcache.go:265] …`."""
    lines = [line for line in stderr.splitlines() if not _LOGGED.match(line)]
    return " ".join(" ".join(lines or stderr.splitlines()).split())


def get(*words: str, namespace: str | None) -> dict[str, Any]:  # Any: the API's JSON
    """An object, or a list of them."""
    found: dict[str, Any] = json.loads(run("get", *words, "--output", "json", namespace=namespace))
    return found
