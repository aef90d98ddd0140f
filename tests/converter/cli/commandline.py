"""Runs `dataprep` as a user would, as a separate process without our environment variables.

Most of such processes are forks of one that has imported the modules. Tests of messages can run the command in this process.
"""

import atexit
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.builders.files import visible
from tests.converter.cli.forks import Forks

from dataprep_converter.cli import commands

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
DATAPREP = (sys.executable, "-m", "dataprep_converter")

_OURS = ("DATAPREP_", "JOB_COMPLETION_INDEX", "FORCE_COLOR", "COLUMNS")


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns this process's variables, without those that affect the command, and with `more`."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)} | dict(more or {})


@functools.cache
def forks() -> Forks:
    """Returns the process that forks commands. It is started when a test first needs it."""
    started = Forks(environment())
    atexit.register(started.close)
    return started


def dataprep(
    *arguments: str | Path, where: Path | None = None, more: Mapping[str, str] | None = None, program: str = ""
) -> subprocess.CompletedProcess[str]:
    """Runs the command, or a program that runs it, in a fork until it ends. `more` is added to its environment."""
    words = [str(argument) for argument in arguments]
    with Path(os.devnull).open("rb") as nothing, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        forks().start(words, environment=environment(more), folder=where or Path.cwd(), streams=(nothing, out, err), program=program)
        code = forks().wait()
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode())
    return subprocess.CompletedProcess(words, code, *said)


def new_dataprep(
    *arguments: str | Path, stdin: str = "", where: Path | None = None, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the command in a new process, which imports its modules, until it ends. `more` is added to its environment."""
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
