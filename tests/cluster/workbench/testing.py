"""All tests on the cluster: one cluster with the operator for several test processes, up before them and down after them.

These tests mostly wait, so several processes run them side by side. Those marked `apart`, which bring their own operators, follow in
the same way, and at last those marked `exclusive`, one at a time.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from types import FrameType
from typing import Final

import kubecluster
from kubecluster import ClusterUnavailable
from workbench import sharing
from workbench.installation import Installation, install_operator
from workbench.outside import bring_back

PROCESSES: Final = 4
PROCESSES_APART: Final = 3
"""Fewer: these tests ask how soon an operator does something."""
_NO_TESTS: Final = 5
"""pytest's exit status when its arguments select nothing."""
_INTERRUPTED: Final = 130
_GOODBYE_SECONDS: Final = 60.0


def run_on_cluster(arguments: Sequence[str]) -> int:
    """Run the tests on the cluster with these arguments of pytest; return the first exit status that is not 0."""
    signal.signal(signal.SIGTERM, _exit)
    os.environ[sharing.BEGAN_VARIABLE] = datetime.now(UTC).isoformat()
    if not arguments:
        os.environ[sharing.WHOLE_VARIABLE] = "yes"
        arguments = sharing.PLACES
    try:
        with _cluster_and_operator() as operator:
            together = _pytest(*_processes(PROCESSES, arguments), "-m", "cluster and not exclusive and not apart", *arguments, shared=True)
            apart = _pytest(*_processes(PROCESSES_APART, arguments), "-m", "cluster and apart", *arguments, shared=True)
            # They have sent it away.
            bring_back(operator)
            alone = _pytest("-m", "cluster and exclusive", *arguments, shared=True)
    except ClusterUnavailable:
        # Each test says so itself, as it does without us: by a skip, or in CI by a failure.
        return _pytest("-m", "cluster", *arguments, shared=False)
    except KeyboardInterrupt:
        return _INTERRUPTED
    # Arguments such as a file's name may well select no test of one kind, or none but those.
    statuses = [status for status in (together, apart, alone) if status != _NO_TESTS] or [_NO_TESTS]
    return next((status for status in statuses if status), 0)


@contextmanager
def _cluster_and_operator() -> Iterator[Installation]:
    """A cluster that was running before is used, and goes on without the operator."""
    running = kubecluster.attach()
    cluster = running or kubecluster.up()
    try:
        yield install_operator(cluster)
    finally:
        _ignore_signals()
        if running is None:
            cluster.down()
        else:
            Installation(running).uninstall()


def _processes(count: int, arguments: Sequence[str]) -> Sequence[str]:
    """Whoever wants to see what tests print has one process."""
    return () if "-s" in arguments else ("-n", str(count), "--maxschedchunk=1")


def _pytest(*words: str, shared: bool) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "--durations=15", *words]
    with subprocess.Popen(command, env=os.environ | ({sharing.VARIABLE: "yes"} if shared else {})) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            # The terminal has told pytest as well, which now ends what its tests have started.
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_GOODBYE_SECONDS)
            raise
        finally:
            if process.poll() is None:
                process.terminate()


def _exit(number: int, frame: FrameType | None) -> None:
    del frame
    sys.exit(128 + number)


def _ignore_signals() -> None:
    # Whoever is impatient and presses Ctrl-C again would leave half a cluster behind.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
