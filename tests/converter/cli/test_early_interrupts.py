"""Ctrl-C at any moment: while modules load, during the work, in a library, and while the interpreter exits.

Each time, at most one line and no traceback is printed.
"""

import json
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.converter.cli.commandline import contents, dataprep, environment, mnist_run
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
    """Makes Ctrl-C work. If a shell starts the tests in the background, all of their processes ignore Ctrl-C by default."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text(NUMBERS)
    (tmp_path / "job.yaml").write_text(CSV + OUT)
    return tmp_path


_AFTER_SECONDS = """
import atexit, os, signal, sys, time

sys.path.insert(0, "")
seconds = float(sys.argv.pop(1))
signal.signal(signal.SIGPROF, lambda *_: os.killpg(0, signal.SIGINT))


def ending(begun):
    signal.setitimer(signal.ITIMER_PROF, 0)
    sys.stderr.write(f"{time.process_time() - begun}\\n")


class Beginning:
    def find_spec(self, name, path=None, target=None):
        if name == "dataprep_converter.cli.commands":
            sys.meta_path.remove(self)
            atexit.register(ending, time.process_time())
            signal.setitimer(signal.ITIMER_PROF, seconds)


sys.meta_path.insert(0, Beginning())
from dataprep_converter.__main__ import main

"""
"""Sends Ctrl-C to all of the command's processes after a given time, counted from when the command begins to catch interrupts.

The time is this process's CPU time in seconds, so the load on the machine makes no difference. The last line of standard error is the CPU
time that the command took.
"""
_AT_EVERY_LINE = """
import json, os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)
import dataprep_converter.__main__ as module
import dataprep_converter.cli.commands


def interrupting(number, place):
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        if frame.f_code is not module.main.__code__:
            return None
        if event == "line" and signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            lines += 1
            if lines == number:
                sys.settrace(None)
                os.write(place, b"%d" % frame.f_lineno)
                os.kill(os.getpid(), signal.SIGINT)
        return trace

    return trace


ended = []
while not ended or ended[-1][0]:
    said, saying = os.pipe()
    placed, place = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(saying, 2)
        sys.settrace(interrupting(len(ended) + 1, place))
        module.main()
    os.close(saying)
    os.close(place)
    with open(said) as lines, open(placed) as at:
        ended.append((at.read(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), lines.read()))
print(json.dumps(ended))
os._exit(0)
"""
"""Interrupts `main` at each of its lines, from the line that begins to catch interrupts.

Each line is tested in a separate fork of this process.
"""
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


where = sys.argv.pop(1)
if where == "finaliser, sent again at once":
    from dataprep_converter.cli import interrupts
    interrupts._AGAIN_SECONDS = 0
    sys.setswitchinterval(1e-6)
step_commands.job_of = interrupted_by_a_library if where == "library" else interrupted_in_a_finaliser
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
        "argparse",
        "dataprep_converter.cli.commands",
        "pydantic",
        "pyarrow",
        *(
            pytest.param(module, marks=pytest.mark.nightly)
            for module in (
                "dataprep_api.exits", "dataprep_converter.cli.step_commands", "yaml", "dataprep_api.spec", "numpy",
                "dataprep_converter.steps.run", "dataprep_converter.readers.text.delimited",
            )
        ),
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


@pytest.mark.parametrize("where", ["library", "finaliser", "finaliser, sent again at once"])
def test_an_interrupt_that_a_library_gets_is_one_line(where: str, folder: Path) -> None:
    done = dataprep(where, "run", "job.yaml", where=folder, program=_IN_A_LIBRARY)
    assert (done.returncode, done.stderr) == (130, INTERRUPTED)


def test_an_interrupt_at_any_line_of_main_says_one_line_at_most() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _AT_EVERY_LINE, "--version"], capture_output=True, text=True, check=True, timeout=120, env=environment()
    )
    *interrupted, whole = json.loads(done.stdout.splitlines()[-1])
    assert whole == ["", 0, ""]
    assert len(interrupted) >= 8
    outcomes = {(code, said) for _, code, said in interrupted}
    assert outcomes == {(130, "dataprep: interrupted\n"), (-signal.SIGINT, "")}, interrupted


@pytest.mark.parametrize(
    ("more", "workers", "moments"),
    [
        pytest.param("", "1", 3, id="alone"),
        pytest.param("", "1", 20, id="alone at twenty", marks=pytest.mark.nightly),
        pytest.param(_POOL, "2", 20, id="pool at twenty", marks=pytest.mark.nightly),
    ],
)
def test_an_interrupt_at_any_moment_of_a_run_is_one_line(more: str, workers: str, moments: int, few: Path, tmp_path: Path) -> None:
    shards = {"output.shards.count": 4, "output.fileName": "{split}-{shard}.{ext}"}
    command = ["run", *map(str, mnist_run(few, tmp_path / "out", shards)), "--workers", workers]

    def interrupted_after(seconds: float) -> tuple[int, list[str]]:
        """Returns the exit code and the lines of standard error."""
        done = subprocess.run(
            [sys.executable, "-c", f"{_AFTER_SECONDS}{more}main()", str(seconds), *command],
            capture_output=True, text=True, check=False, timeout=120, env=environment(), start_new_session=True,
        )  # fmt: skip
        return done.returncode, done.stderr.splitlines()

    code, said = interrupted_after(0)  # never
    assert code == 0
    total = float(said[-1])
    whole = contents(tmp_path / "out")
    codes = Counter[int]()
    for moment in range(moments):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        code, said = interrupted_after(total * (moment + 0.5) / moments)
        codes[code] += 1
        assert code in (0, 130, -signal.SIGINT), said
        assert not any("Traceback" in line for line in said), said
        lines = [line for line in said if line.startswith("dataprep: ")]
        assert lines in ([], ["dataprep: interrupted"], [INTERRUPTED.rstrip()]), said
        assert [str(file) for file in tmp_path.rglob(".dataprep-tmp-*")] == []
    assert codes[130] >= moments // 2
    assert interrupted_after(0)[0] == 0
    assert contents(tmp_path / "out") == whole
