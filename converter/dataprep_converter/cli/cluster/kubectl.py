"""Calls the user's kubectl, with the user's configuration and permissions."""

import json
import re
import shutil
import subprocess
from typing import Any

from dataprep_converter.core.errors import BadSpec, NotFound

_LOGGED = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.")


def program() -> str:
    """Returns kubectl's path. Raises BadSpec if there is no kubectl."""
    path = shutil.which("kubectl")
    if path is None:
        raise BadSpec("This command needs kubectl on the PATH.")
    return path


def scope(namespace: str | None) -> list[str]:
    """Returns the arguments that name the namespace. If no namespace is given, kubectl chooses one."""
    return ["--namespace", namespace] if namespace else []


def run(*words: str, namespace: str | None) -> str:
    """Runs kubectl and returns its output. If kubectl fails, raises NotFound with kubectl's message."""
    completed = subprocess.run([program(), *words, *scope(namespace)], capture_output=True, text=True, check=False)  # noqa: S603 - a list, no shell
    if completed.returncode:
        raise NotFound(f"kubectl {' '.join(words[:2])}: {_error_text(completed.stderr)}")
    return completed.stdout


def _error_text(stderr: str) -> str:
    """Returns kubectl's error without its log lines.

    When the cluster can't be reached, the log has many lines, such as `E1122 00:46:56.530682 29910 memcache.go:265] …`.
    """
    lines = [line for line in stderr.splitlines() if not _LOGGED.match(line)]
    return " ".join(" ".join(lines or stderr.splitlines()).split())


def get(*words: str, namespace: str | None) -> dict[str, Any]:  # Any: parsed JSON
    """Returns an API object, or a list of objects."""
    answer: dict[str, Any] = json.loads(run("get", *words, "--output", "json", namespace=namespace))
    return answer
