"""Runs `dataprep` like a user, in a separate process without our environment variables.

Most of these processes are forks of a process that has imported the modules. Tests of messages can run the command in this process.
"""

import atexit
import functools
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.builders.files import visible
from tests.converter.cli.forks import Forks

from dataprep_converter.cli import commands

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
DATAPREP = (sys.executable, "-m", "dataprep_converter")

_OURS = ("DATAPREP_", "JOB_COMPLETION_INDEX", "FORCE_COLOR", "COLUMNS")
_SECONDS_LEFT = 20.0
"""How long one of the command's processes, such as multiprocessing's resource tracker, is allowed to run after the command has ended."""


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns this process's environment variables without those that affect the command, and with `more` added."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)} | dict(more or {})


def forks() -> Forks:
    """Returns the process that forks commands. It is started when a test first needs it, and restarted if it was killed."""
    if _started().is_killed:
        _started.cache_clear()
    return _started()


@functools.cache
def _started() -> Forks:
    started = Forks(environment())
    atexit.register(started.close)
    return started


def dataprep(
    *arguments: str | Path, where: Path | None = None, more: Mapping[str, str] | None = None, program: str = ""
) -> subprocess.CompletedProcess[str]:
    """Runs the command, or a program that runs the command, in a fork. Waits until the command ends.

    `more` is added to the command's environment. Raises TimeoutError if the command doesn't end, or if it leaves behind a process that
    keeps the output open.
    """
    words = [str(argument) for argument in arguments]
    (out, out_end), (err, err_end) = os.pipe(), os.pipe()
    with Path(os.devnull).open("rb") as nothing:
        streams = (nothing, out_end, err_end)
        started = forks()
        started.start(words, environment=environment(more), folder=where or Path.cwd(), streams=streams, program=program)
    os.close(out_end)
    os.close(err_end)
    with ThreadPoolExecutor(2) as threads:
        said = [threads.submit(_read_to_end, pipe) for pipe in (out, err)]
        try:
            code = started.wait()
            return subprocess.CompletedProcess(words, code, *(each.result(timeout=_SECONDS_LEFT) for each in said))
        except TimeoutError:
            started.kill()
            raise


def _read_to_end(pipe: int) -> str:
    with open(pipe, "rb") as file:
        return file.read().decode()


def new_dataprep(
    *arguments: str | Path, stdin: str = "", where: Path | None = None, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the command in a new process, which imports all modules itself, and waits until it ends. `more` is added to the environment."""
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
