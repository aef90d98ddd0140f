"""Ctrl-C at any moment: while modules load, during the work, in a library, and while the interpreter ends. Each time there is one line at
most, and no traceback."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.converter.cli.commandline import contents, environment, mnist_run
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
_TURNED = """
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt as exc:
                raise ValueError("KeyboardInterrupt") from exc
"""
_LOST = """
            class Final:
                def __del__(self):
                    os.kill(os.getpid(), signal.SIGINT)

            Final()
"""
_AT_THE_END = """
import atexit, os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(os.kill, os.getpid(), signal.SIGINT)
from dataprep_converter.__main__ import main

main()
"""


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Makes Ctrl-C work. A shell that starts the tests in the background makes all their processes ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text(NUMBERS)
    (tmp_path / "job.yaml").write_text(CSV + OUT)
    return tmp_path


_BEGUN = "import sys; from dataprep_converter.__main__ import main; {more}sys.stderr.write('begun\\n'); sys.stderr.flush(); main()"
_POOL = "from dataprep_converter.steps import pool; pool.INLINE_BYTES = 0; "
_IN_A_LIBRARY = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)
from dataprep_converter.cli import step_commands
from dataprep_converter.__main__ import main


def interrupted_by_a_library(*_, **__):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt as exc:
        raise ValueError("while building a validator: KeyboardInterrupt") from exc


def interrupted_in_a_finaliser(*_, **__):
    import time

    class Final:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGINT)

    Final()
    time.sleep(60)


step_commands.job_of = {"library": interrupted_by_a_library, "finaliser": interrupted_in_a_finaliser}[sys.argv.pop(1)]
main()
"""
INTERRUPTED = "dataprep: interrupted; finished shards are kept, and the same command continues from there\n"


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


@pytest.mark.parametrize("how", [_TURNED, _LOST], ids=["turned into an error", "lost"])
def test_an_interrupt_that_a_loading_module_gets_is_one_line(how: str, folder: Path) -> None:
    program = _WHILE_LOADING.replace("            os.kill(os.getpid(), signal.SIGINT)\n", how)
    assert ended(program, "dataprep_api.exits", folder=folder) == (130, "dataprep: interrupted\n")


def test_an_interrupt_while_the_interpreter_ends_says_nothing(folder: Path) -> None:
    assert ended(_AT_THE_END, "validate", "job.yaml", folder=folder) == (-signal.SIGINT, "")


@pytest.mark.parametrize("where", ["library", "finaliser"])
def test_an_interrupt_that_a_library_gets_is_one_line(where: str, folder: Path) -> None:
    assert ended(_IN_A_LIBRARY, where, "run", "job.yaml", folder=folder) == (130, INTERRUPTED)


@pytest.mark.parametrize(("more", "workers"), [("", "1"), pytest.param(_POOL, "2", marks=pytest.mark.nightly)], ids=["alone", "pool"])
def test_an_interrupt_at_twenty_moments_of_a_run_is_one_line(more: str, workers: str, few: Path, tmp_path: Path) -> None:
    shards = {"output.shards.count": 4, "output.fileName": "{split}-{shard}.{ext}"}
    command = [
        sys.executable,
        "-c",
        _BEGUN.format(more=more),
        "run",
        *map(str, mnist_run(few, tmp_path / "out", shards)),
        "--workers",
        workers,
    ]

    def interrupted_after(seconds: float | None) -> tuple[int, str, float]:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), start_new_session=True
        )
        with process:
            assert process.stderr is not None
            assert process.stderr.readline() == "begun\n"
            begun = time.monotonic()
            if seconds is not None:
                time.sleep(seconds)
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGINT)
            _, said = process.communicate(timeout=120)
        return process.returncode, said, time.monotonic() - begun

    code, _, total = interrupted_after(None)
    assert code == 0
    whole = contents(tmp_path / "out")
    codes = Counter[int]()
    for moment in range(20):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        code, said, _ = interrupted_after(total * (moment + 0.5) / 20)
        codes[code] += 1
        assert code in (0, 130, -signal.SIGINT), said
        assert "Traceback" not in said
        lines = [line for line in said.splitlines() if line.startswith("dataprep: ")]
        assert lines in ([], ["dataprep: interrupted"], [INTERRUPTED.rstrip()]), said
        assert [str(file) for file in tmp_path.rglob(".dataprep-tmp-*")] == []
    assert codes[130] >= 10
    assert interrupted_after(None)[0] == 0
    assert contents(tmp_path / "out") == whole
