"""Runs all cluster tests: several test processes share one cluster with the operator.

The cluster starts before these processes and stops after them. The tests mostly wait, so several of them can run at the same time. Tests
marked `apart`, which start their own operators, run afterwards in the same way. Tests marked `exclusive` run last, one at a time. Tests
marked `nightly` run only if they are named on the command line, or at night.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Final

import kubecluster
from kubecluster import ClusterUnavailable
from workbench import kueue, releases, shared_hdfs, sharing
from workbench.installation import Installation, build, install_operator
from workbench.outside import bring_back

PROCESSES: Final = 5
PROCESSES_APART: Final = 3
"""The number of processes that run these tests. It is small, because the tests measure how soon an operator reacts."""
NIGHTLY_VARIABLE: Final = "DATAPREP_TEST_NIGHTLY"
"""With this variable, a run of all tests includes those marked `nightly`."""
_NO_TESTS: Final = 5
"""pytest's exit status if no test is selected."""
_INTERRUPTED: Final = 130
_GOODBYE_SECONDS: Final = 60.0


def run_on_cluster(arguments: Sequence[str]) -> int:
    """Run the cluster tests with these pytest arguments; return the first exit status other than 0."""
    signal.signal(signal.SIGTERM, _exit)
    os.environ[sharing.BEGAN_VARIABLE] = datetime.now(UTC).isoformat()
    wanted = "cluster"
    if not arguments:
        os.environ[sharing.WHOLE_VARIABLE] = "yes"
        arguments = sharing.PLACES
        if not os.environ.get(NIGHTLY_VARIABLE):
            wanted = "cluster and not nightly"
    try:
        with _cluster_and_operator() as operator:
            # Only this group's tests use HDFS. A run of selected tests starts HDFS only if the tests need it.
            host = operator.cluster.bridge_ip if sharing.is_whole() else None
            with shared_hdfs.running(host) if host is not None else nullcontext():
                together = _group(f"{wanted} and not (apart or exclusive)", PROCESSES, arguments)
            kueue.uninstall(operator.cluster)
            apart = _group(f"{wanted} and apart", PROCESSES_APART, arguments)
            # The tests marked `apart` have scaled the operator down.
            bring_back(operator)
            alone = _pytest("-m", f"{wanted} and exclusive", *arguments, shared=True)
    except ClusterUnavailable:
        # Each test reports the missing cluster itself, as in a plain pytest run: the test is skipped, or fails in CI.
        return _pytest("-m", "cluster", *arguments, shared=False)
    except KeyboardInterrupt:
        return _INTERRUPTED
    # If the arguments name a file, for example, a group might have no selected tests.
    statuses = [status for status in (together, apart, alone) if status != _NO_TESTS] or [_NO_TESTS]
    return next((status for status in statuses if status), 0)


@contextmanager
def _cluster_and_operator() -> Iterator[Installation]:
    """If a cluster is running, uses it and leaves it running without the operator. Otherwise, starts a cluster and stops it afterwards."""
    running = kubecluster.attach()
    cluster = running or kubecluster.up(_images())
    try:
        yield install_operator(cluster)
    finally:
        _ignore_signals()
        sys.stdout.write(kubecluster.ended_daemons())
        if running is None:
            cluster.down()
        else:
            kueue.uninstall(running)
            Installation(running).uninstall()


def _images() -> dict[str, Path]:
    """Return the images that all nodes have from the start, as archives by name. Loading an image later takes ten seconds of processor time
    per node."""
    if not sharing.is_whole():
        return build()
    with tempfile.TemporaryDirectory() as folder:
        release, archive = releases.build_earlier(Path(folder))
    return {**build(), release.image: archive, kueue.IMAGE: kueue.image()}


def _group(mark: str, processes: int, arguments: Sequence[str]) -> int:
    return _pytest(*_processes(processes, arguments), "-m", mark, *arguments, shared=True)


def _processes(count: int, arguments: Sequence[str]) -> Sequence[str]:
    """With `-s`, only one process runs, because the output of several processes would be unreadable."""
    return () if "-s" in arguments else ("-n", str(count), "--maxschedchunk=1")


def _pytest(*words: str, shared: bool) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "--durations=15", *words]
    with subprocess.Popen(command, env=os.environ | ({sharing.VARIABLE: "yes"} if shared else {})) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            # Ctrl-C also reaches pytest, which now stops everything that its tests have started.
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
    # A second Ctrl-C would leave a partly stopped cluster behind.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
