"""Ctrl-C and SIGTERM in the middle: finished shards stay, nothing half-made is left, and the same command goes on."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.commandline import DATAPREP, contents, dataprep, environment, mnist_run, visible

from workbench import mnist

SHARDS = {"output.shards.count": 32, "output.fileName": "{split}-{shard}-of-{shards}.{ext}"}
IN_A_POOL = (sys.executable, "-c", "from dataprep_converter import cli, pool; pool.INLINE_BYTES = 0; cli.main()")
"""Inputs of any size are divided among processes."""


def until_the_middle(process: subprocess.Popen[str], output: Path) -> None:
    """Until a few shards are finished and another one is being written."""
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
    """As a terminal and `timeout` do."""
    import os

    os.killpg(process.pid, number)


def interrupted(
    command: list[str], output: Path, number: signal.Signals, *, send: Callable[[subprocess.Popen[str], signal.Signals], None], **more: str
) -> tuple[int, str]:
    """Starts a command, signals it in the middle, and returns its exit code and what it said."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**more), start_new_session=True
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
        pytest.param(DATAPREP, signal.SIGINT, send_to_process, 130, "interrupted; finished shards are kept", id="SIGINT"),
        pytest.param(DATAPREP, signal.SIGTERM, send_to_group, 143, "terminated; finished shards are kept", id="SIGTERM"),
        pytest.param(IN_A_POOL, signal.SIGINT, send_to_group, 130, "interrupted; finished shards are kept", id="SIGINT to a pool"),
        pytest.param(IN_A_POOL, signal.SIGTERM, send_to_process, 143, "terminated; finished shards are kept", id="SIGTERM to a pool"),
    ],
)
def test_an_interrupted_run_keeps_what_is_finished_and_goes_on(
    digits: Path,
    tmp_path: Path,
    program: tuple[str, ...],
    number: signal.Signals,
    send: Callable[[subprocess.Popen[str], signal.Signals], None],
    code: int,
    said: str,
) -> None:
    output = tmp_path / "out"
    arguments = ["run", *map(str, mnist_run(digits, output, SHARDS)), "--workers", "2"]

    ended, lines = interrupted([*program, *arguments], output, number, send=send)

    assert ended == code, lines
    assert [line for line in lines.splitlines() if not line.startswith(("planning", "planned", "converting"))] == [
        f"dataprep: {line}" for line in [said + (", the same command goes on where it stopped" if code == 130 else "")]
    ]
    assert leftovers(output) == []
    assert not (output / "_SUCCESS").exists()
    kept = {name: ((output / name).stat().st_mtime_ns, content) for name, content in contents(output).items()}
    assert 3 <= len(kept) < 96

    done = dataprep(*arguments)
    assert done.returncode == 0, done.stderr
    assert len(visible(output)) == 96
    assert {name: ((output / name).stat().st_mtime_ns, (output / name).read_bytes()) for name in kept} == kept
    assert (
        b"".join(contents(output, [f"train-{n:05d}-of-00032.tfrecords" for n in range(32)]).values())[:891]
        == kept["train-00000-of-00032.tfrecords"][1][:891]
    )
    assert dataprep("verify", output).returncode == 0
    assert sum((output / name).stat().st_size for name in visible(output)) == sum(file.size for file in mnist.FILES.values())


@pytest.mark.parametrize("send", [send_to_process, send_to_group])
def test_a_terminated_worker_pod_leaves_nothing_half_made(
    digits: Path, tmp_path: Path, send: Callable[[subprocess.Popen[str], signal.Signals], None]
) -> None:
    from dataprep_api import messages

    output, log = tmp_path / "out", tmp_path / "termination"
    pod = {"DATAPREP_MOUNTS": str(tmp_path), "DATAPREP_TERMINATION_LOG": str(log)}
    job = mnist_run(digits, output, SHARDS | {"workers.parallelism": 1})
    planned = messages.parse(dataprep("plan", *job, **pod).stdout)
    assert isinstance(planned, messages.PlanResult)
    log.unlink()
    work = [*DATAPREP, "work", *map(str, job), "--run", planned.run_id, "--plan-sha256", planned.plan_sha256, "--index", "0"]

    ended, said = interrupted(work, output, signal.SIGTERM, send=send, **pod)

    assert ended == 143, said
    assert "Traceback" not in said
    assert leftovers(output) == []
    assert not log.exists()
    finished = len(visible(output))
    again = subprocess.run(work, capture_output=True, text=True, env=environment(**pod), check=False)
    result = messages.parse(log.read_text())
    assert isinstance(result, messages.WorkResult), again.stderr
    assert result.shards_skipped >= finished - 1  # one shard may have had its name and not yet its report
    assert (again.returncode, result.shards_done) == (0, 24)
