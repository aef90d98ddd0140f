"""The watchdog kills processes that hang, and no other processes."""

# All programs that these tests start are our own.

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from tests.availability import unavailable

from dataprep_converter.runtime import watchdog
from dataprep_converter.runtime.watchdog import KILLED, Heartbeats

PREAMBLE = """
import os, sys, time, signal, threading
from dataprep_converter.runtime.watchdog import Watchdog, blocking, supervise

def hang():
    with blocking():
        threading.Event().wait()
"""


def run(program: str, *, seconds: float = 30) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PREAMBLE + textwrap.dedent(program)], capture_output=True, text=True, timeout=seconds, check=False
    )


def test_a_call_that_never_returns_is_killed_from_outside() -> None:
    began = time.monotonic()
    done = run("""
        with Watchdog(limit_seconds=1):
            hang()
    """)

    assert done.returncode == -signal.SIGKILL
    assert "has not returned for 1 s" in done.stderr
    assert time.monotonic() - began < 15


def test_a_call_in_another_thread_is_watched_too() -> None:
    done = run("""
        with Watchdog(limit_seconds=1):
            threading.Thread(target=hang, daemon=True).start()
            while True:
                time.sleep(0.05)
                with blocking():
                    pass
    """)

    assert done.returncode == -signal.SIGKILL


def test_a_call_that_holds_the_interpreter_is_killed() -> None:
    done = run("""
        import ctypes
        with Watchdog(limit_seconds=1):
            with blocking():
                ctypes.PyDLL(None).pause()
    """)

    assert done.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_many_short_calls_that_take_long_together_are_fine() -> None:
    done = run("""
        with Watchdog(limit_seconds=1):
            for _ in range(25):
                with blocking():
                    time.sleep(0.1)
            time.sleep(1.5)
        print("done")
    """)

    assert (done.returncode, done.stdout) == (0, "done\n")


def test_the_watching_process_ends_with_the_watched_one() -> None:
    done = run("""
        watching = Watchdog(limit_seconds=60).__enter__()
        print(watching._process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    pid = int(done.stdout)

    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.05)
    pytest.fail(f"The watching process {pid} still runs.")


def test_a_second_watchdog_in_one_process_is_refused() -> None:
    done = run("""
        with Watchdog(), Watchdog():
            pass
    """)

    assert "watched already" in done.stderr


def test_without_a_watchdog_nothing_is_watched() -> None:
    with watchdog.blocking():
        pass


def test_calls_inside_calls_count_from_the_outermost() -> None:
    beats = Heartbeats.create()
    with beats.blocking():
        time.sleep(0.05)
        with beats.blocking():
            assert beats.longest_seconds() >= 0.05
        assert beats.longest_seconds() >= 0.05
    assert beats.longest_seconds() == 0
    beats.close()


def test_more_threads_than_slots_do_no_harm() -> None:
    beats = Heartbeats.create()
    beats._free.clear()
    with beats.blocking():
        assert beats.longest_seconds() == 0
    beats.close()


@pytest.mark.parametrize(
    ("work", "code"),
    [
        ("return 0", 0),
        ("return 3", 3),
        ("sys.exit(5)", 5),
        ("sys.exit()", 0),
        ("sys.exit('message')", 1),
        ("raise ValueError('defect')", 70),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 128 + signal.SIGSEGV),
    ],
)
def test_supervised_work_ends_with_its_own_code(work: str, code: int) -> None:
    done = run(f"""
        def work():
            print("out")
            {work}
        print("before")
        sys.exit(supervise(work))
    """)

    assert done.returncode == code
    assert done.stdout.startswith("before\n")
    assert ("ValueError: defect" in done.stderr) == ("ValueError" in work)


def test_supervised_work_that_hangs_is_killed_and_worth_a_retry() -> None:
    done = run("""
        sys.exit(supervise(lambda: hang(), limit_seconds=1))
    """)

    assert done.returncode == KILLED
    assert "has not returned for 1 s" in done.stderr


def test_signals_reach_the_supervised_work() -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            PREAMBLE
            + textwrap.dedent("""
                def work():
                    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
                    print("ready", flush=True)
                    time.sleep(60)
                sys.exit(supervise(work))
            """),
        ],
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        assert process.wait(timeout=10) == 143


def test_supervised_work_dies_with_its_supervisor() -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            PREAMBLE
            + textwrap.dedent("""
                def work():
                    print(os.getpid(), flush=True)
                    time.sleep(60)
                supervise(work)
            """),
        ],
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
        process.wait()
        for _ in range(100):
            try:
                state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                return
            if state == "Z":
                return
            time.sleep(0.05)
        os.kill(child, signal.SIGKILL)
        pytest.fail("The child lives on without its supervisor.")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a pid namespace")
def test_as_process_one_the_supervisor_kills_what_a_watchdog_could_not() -> None:
    unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    program = PREAMBLE + "assert os.getpid() == 1\nsys.exit(supervise(hang, limit_seconds=1))"
    done = subprocess.run([*unshare, sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    if "unshare:" in done.stderr:
        unavailable(f"a pid namespace of one's own: {done.stderr}")

    assert done.returncode == KILLED

    refused = PREAMBLE + "Watchdog().__enter__()"
    done = subprocess.run([*unshare, sys.executable, "-c", refused], capture_output=True, text=True, timeout=30, check=False)
    assert "watchdog.supervise" in done.stderr
