"""Ctrl-C before and after the work: while modules load, and while the interpreter ends. Each time there is one line, and no traceback."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.converter.cli.commandline import environment
from tests.converter.cli.mistakes.table import CSV, NUMBERS, OUT

pytestmark = pytest.mark.slow

_WHILE_LOADING = """
import os, signal, sys

module = sys.argv[1]
signal.signal(signal.SIGINT, signal.default_int_handler)


class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)


sys.meta_path.insert(0, Interrupting())
from dataprep_converter.__main__ import main

sys.argv[1:] = ["run", "job.yaml", "--workers", "1", "--quiet"]
main()
"""
_AT_THE_END = """
import atexit, os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(os.kill, os.getpid(), signal.SIGINT)
from dataprep_converter.__main__ import main

main()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text(NUMBERS)
    (tmp_path / "job.yaml").write_text(CSV + OUT)
    return tmp_path


def ended(program: str, *arguments: str, folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, timeout=120, cwd=folder, env=environment()
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "module",
    [
        "argparse", "dataprep_converter.cli.commands", "dataprep_api.exits", "dataprep_converter.cli.step_commands", "pydantic", "yaml",
        "dataprep_api.spec", "numpy", "pyarrow", "dataprep_converter.steps.run", "dataprep_converter.readers.text.delimited",
    ],
)  # fmt: skip
def test_an_interrupt_while_a_module_loads_is_one_line(module: str, folder: Path) -> None:
    code, said = ended(_WHILE_LOADING, module, folder=folder)
    assert said.startswith("dataprep: interrupted")
    assert len(said.splitlines()) == 1
    assert code == 130


def test_an_interrupt_while_the_interpreter_ends_says_nothing(folder: Path) -> None:
    assert ended(_AT_THE_END, "validate", "job.yaml", folder=folder) == (-signal.SIGINT, "")
