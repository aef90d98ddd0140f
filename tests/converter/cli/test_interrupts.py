"""Ctrl-C and SIGTERM during a job: finished shards are kept, no partial files are left, and the same command continues."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from tests.builders.files import visible
from tests.converter.cli.commandline import DATAPREP, code_of, contents, environment, mnist_run

from dataprep_api.dataset import messages
from workbench import mnist

pytestmark = pytest.mark.slow

SHARDS = {"output.shards.count": 32, "output.fileName": "{split}-{shard}-of-{shards}.{ext}", "workers.parallelism": 4}
IN_A_POOL = (
    sys.executable,
    "-c",
    "from dataprep_converter.cli import commands; from dataprep_converter.steps import pool; pool.INLINE_BYTES = 0; commands.main()",
)
"""A command that divides even small inputs among processes."""
INTERRUPTED = "interrupted; finished shards are kept, and the same command continues from there"
TERMINATED = "terminated; finished shards are kept"

Send = Callable[[subprocess.Popen[str], signal.Signals], None]


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Makes Ctrl-C work. A shell that starts the tests in the background makes all of their processes ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def until_the_middle(process: subprocess.Popen[str], output: Path) -> None:
    """Waits until a few shards are finished and another one is being written."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        if len(list(output.glob("train-*"))) >= 3 and list(output.glob(".dataprep-tmp-train-*")):
            return
        time.sleep(0.001)
    raise AssertionError(f"never in the middle: {list(output.iterdir())}")


def send_to_process(process: subprocess.Popen[str], number: signal.Signals) -> None:
    process.send_signal(number)


def send_to_group(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Signals the process group, as a terminal and `timeout` do."""
    os.killpg(process.pid, number)


def interrupted(
    command: Sequence[str], output: Path, number: signal.Signals, *, send: Send, more: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Starts a command, signals it during its work, and returns its exit code and output."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(more), start_new_session=True
    )
    with process:
        until_the_middle(process, output)
        send(process, number)
        _, said = process.communicate(timeout=60)
    return process.returncode, said


def leftovers(output: Path) -> list[str]:
    return [str(file) for file in output.rglob(".dataprep-tmp-*")]


@pytest.mark.parametrize(
    ("program", "number", "send", "code", "said"),
    [
        pytest.param(DATAPREP, signal.SIGINT, send_to_process, 130, INTERRUPTED, id="SIGINT"),
        pytest.param(DATAPREP, signal.SIGTERM, send_to_group, 143, TERMINATED, id="SIGTERM", marks=pytest.mark.nightly),
        pytest.param(IN_A_POOL, signal.SIGINT, send_to_group, 130, INTERRUPTED, id="SIGINT to a pool"),
        pytest.param(IN_A_POOL, signal.SIGTERM, send_to_process, 143, TERMINATED, id="SIGTERM to a pool"),
        pytest.param(IN_A_POOL, signal.SIGTERM, send_to_group, 143, TERMINATED, id="SIGTERM to all of a pool", marks=pytest.mark.nightly),
    ],
)
def test_an_interrupted_run_keeps_what_is_finished_and_goes_on(
    digits: Path, tmp_path: Path, program: Sequence[str], number: signal.Signals, send: Send, code: int, said: str
) -> None:
    output = tmp_path / "out"
    arguments = ["run", *map(str, mnist_run(digits, output, SHARDS)), "--workers", "2"]

    ended, lines = interrupted([*program, *arguments], output, number, send=send)

    assert ended == code, lines
    assert [line for line in lines.splitlines() if not line.startswith(("planning", "planned", "converting"))] == [f"dataprep: {said}"]
    assert leftovers(output) == []
    assert not (output / "_SUCCESS").exists()
    kept = state(output)
    assert 3 <= len(kept) < 96

    assert code_of(*arguments) == 0
    assert len(visible(output)) == 96
    assert {name: found for name, found in state(output).items() if name in kept} == kept
    assert digests(output) == {name: file.sha256 for name, file in mnist.FILES.items()}


def state(output: Path) -> dict[str, tuple[int, bytes]]:
    return {name: ((output / name).stat().st_mtime_ns, content) for name, content in contents(output).items()}


def digests(output: Path) -> dict[str, str]:
    """Returns the digests of each split's shards, in order."""
    return {
        f"{split}.tfrecords": hashlib.sha256(b"".join(file.read_bytes() for file in sorted(output.glob(f"{split}-*")))).hexdigest()
        for split in ("train", "validation", "test")
    }


def test_an_interrupt_while_the_pool_starts_is_one_line(few: Path, tmp_path: Path) -> None:
    command = [*IN_A_POOL, "run", *map(str, mnist_run(few, tmp_path / "out", SHARDS)), "--workers", "2"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), start_new_session=True
    )
    with process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith("planned"):
            pass
        time.sleep(0.3)  # while the pool's processes import modules
        send_to_group(process, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert [line for line in said.splitlines() if not line.startswith("converting")] == [f"dataprep: {INTERRUPTED}"]


def test_a_pool_whose_first_process_is_killed_ends(digits: Path, tmp_path: Path) -> None:
    command = [*IN_A_POOL, "run", *map(str, mnist_run(digits, tmp_path / "out", SHARDS)), "--workers", "2"]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True, env=environment(), start_new_session=True
    )
    with process:
        until_the_middle(process, tmp_path / "out")
        assert len(of_session(process.pid)) >= 3
        process.kill()
    deadline = time.monotonic() + 60
    while of_session(process.pid):
        assert time.monotonic() < deadline, of_session(process.pid)
        time.sleep(0.05)


def of_session(number: int) -> dict[int, str]:
    """Returns the processes that a command has started, with their names."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            name, _, rest = (process / "stat").read_text().partition(" (")[2].rpartition(") ")
            if int(rest.split()[3]) == number:
                found[int(process.name)] = name
    return found


def test_a_terminated_worker_pod_leaves_nothing_half_made(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output, log = tmp_path / "out", tmp_path / "termination"
    job = mnist_run(digits, output, SHARDS)
    assert code_of("plan", *job) == 0
    planned = messages.parse(capsys.readouterr().out)
    assert isinstance(planned, messages.PlanResult)
    work = ["work", *map(str, job), "--run", planned.run_id, "--plan-sha256", planned.plan_sha256, "--index", "0"]

    # The signal goes to the process group, so the child gets it twice. The second signal must not interrupt the clean-up.
    pod = {"DATAPREP_MOUNTS": str(tmp_path), "DATAPREP_TERMINATION_LOG": str(log)}
    ended, said = interrupted([*DATAPREP, *work], output, signal.SIGTERM, send=send_to_group, more=pod)

    assert ended == 143, said
    assert "Traceback" not in said
    assert leftovers(output) == []
    assert not log.exists()
    finished = len(visible(output))
    assert code_of(*work) == 0
    result = messages.parse(capsys.readouterr().out)
    assert isinstance(result, messages.WorkResult)
    assert result.shards_done == 24
    assert finished - 1 <= result.shards_skipped <= finished  # one shard can have its final name, but no report yet
