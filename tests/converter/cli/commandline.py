"""Runs `dataprep` as a user would, as a separate process without our environment variables.

Tests of messages can run it in this process.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.builders.files import visible

from dataprep_converter.cli import commands

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
DATAPREP = (sys.executable, "-m", "dataprep_converter")

_OURS = ("DATAPREP_", "JOB_COMPLETION_INDEX", "FORCE_COLOR", "COLUMNS")


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns this process's variables, without those that affect the command, and with `more`."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)} | dict(more or {})


def dataprep(
    *arguments: str | Path, stdin: str = "", where: Path | None = None, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the command until it ends. `more` is added to its environment."""
    return subprocess.run(
        [*DATAPREP, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=where,
        env=environment(more),
    )


def code_of(*arguments: str | Path) -> int:
    """Runs the command in this process, which is quicker. Returns its exit code."""
    with pytest.raises(SystemExit) as ended:
        commands.main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def settings(fields: Mapping[str, object]) -> list[str]:
    """Returns a `--set` argument for each field."""
    return [word for field, value in fields.items() for word in ("--set", f"{field}={value}")]


def mnist_run(source: Path, output: Path, fields: Mapping[str, object] | None = None) -> list[str | Path]:
    """Returns arguments that convert a folder of MNIST files with the example job."""
    return [EXAMPLES / "mnist-local.yaml", *settings({"params.input": source, "output.uri": output} | dict(fields or {}))]


def contents(folder: Path, names: Sequence[str] | None = None) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in (visible(folder) if names is None else names)}
