"""Fixtures and hooks that all tests share. Quick tests run first. `tests/run` defines the order of test runs."""

import contextlib
import gc
import os
import sys
from collections.abc import Generator, Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from tests.availability import unavailable
from tests.builders.examples import examples
from tests.builders.in_memory import memory_folder, report_with_place

from workbench import mnist
from workbench.sharing import PLACES, is_shared

__all__ = ["memory_folder"]

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from kubecluster import Cluster

# No deadline: the machines that run tests are shared, so other processes could make a test miss its deadline.
settings.register_profile("shared", deadline=None, max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")

ROOT = Path(__file__).resolve().parent.parent
# Programs from the virtual environment, such as Go, are used if the machine itself doesn't have them. The Makefile does the same.
os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
# Hundreds of processes import the same modules, so keep the modules' byte code, even if the environment forbids it.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

_LAST = ("store", "interop", "cluster")
_THRESHOLDS = (20_000, 20, 20)
"""The thresholds of the garbage collector. With Python's own thresholds, the collector would take a twentieth of the tests' time."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:  # Any: pytest-xdist ships no types
    """With `--dist loadfile`, let as few processes as possible start the store servers and import the third-party readers."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.sharing_out import ByWhatFilesStart  # imported here, because most runs have only one process

    return ByWhatFilesStart(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # Any: pytest-xdist ships no types
    """Let the first process collect the tests alone if there is no byte code of the tests yet."""
    from tests.sharing_out import collect_one_after_the_other  # imported here, because most runs have only one process

    collect_one_after_the_other(node)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep Python's garbage collector from examining the thousands of tests that pytest has found.

    Finding them then takes a sixth less time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(*_THRESHOLDS)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tell the parent process that this process has finished collecting the tests."""
    told = getattr(session.config, "workerinput", {}).get("collected")
    if told is not None:
        Path(told).touch()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests: tests without servers run first, and tests on the cluster run last."""

    def weight(item: pytest.Item) -> int:
        return max((number + 1 for number, name in enumerate(_LAST) if item.get_closest_marker(name)), default=0)

    items.sort(key=weight)
    places = [ROOT / place for place in PLACES]
    for item in items:
        if item.get_closest_marker("cluster") and not any(item.path.is_relative_to(place) for place in places):
            raise pytest.UsageError(
                f"{item.nodeid} runs on the cluster, but python -m workbench test would not find it: add its file to PLACES."
            )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """If a test can't run in several processes, fail it early with a clear message."""
    if "PYTEST_XDIST_WORKER" not in os.environ or not item.get_closest_marker("cluster"):
        return
    if "cluster" in getattr(item, "fixturenames", ()) and not is_shared():
        pytest.fail("Several processes need one cluster: run `python -m workbench test -k …`, or pytest without -n.", pytrace=False)
    if item.get_closest_marker("exclusive"):
        pytest.fail("This test needs the cluster for itself: run it without -n.", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell where the temporary files of a failed test are, if the test had them in memory."""
    return (yield from report_with_place(item))


_TRACKER_ENDED = "multiprocessing's resource tracker ended"
_reported: set[int] = set()


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Record the test in which multiprocessing's resource tracker ended.

    It should live as long as this process, but sometimes ends earlier, for an unknown reason.
    """
    process: int | None = getattr(resource_tracker, "_resource_tracker")._pid  # noqa: B009 - only this private attribute has the process id
    if process is None or process in _reported:
        return
    with contextlib.suppress(ChildProcessError):
        ended = os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            _reported.add(process)
            item.user_properties.append((_TRACKER_ENDED, f"code {ended.si_code}, status {ended.si_status}"))


def pytest_terminal_summary(terminalreporter: "TerminalReporter") -> None:
    """Print the tests in which the resource tracker ended."""
    reports = [report for each in terminalreporter.stats.values() for report in each if isinstance(report, pytest.TestReport)]
    for line in sorted(
        {f"{name} in {report.nodeid}: {how}" for report in reports for name, how in report.user_properties if name == _TRACKER_ENDED}
    ):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Synthetic MNIST files with 70,000 images."""
    return mnist.copy_to(tmp_path_factory.mktemp("digits"))


@pytest.fixture(scope="session")
def cluster() -> Iterator["Cluster"]:
    """The test cluster. If a cluster is already running (`make cluster-up`), it is used and not stopped."""
    from kubecluster import ClusterUnavailable, attach, ended_daemons, up  # imported here, because quick tests don't need it

    running = attach()
    if running is not None:
        yield running
        return
    if is_shared():
        pytest.fail(f"The cluster that all test processes share doesn't answer.\n{ended_daemons()}", pytrace=False)
    try:
        started = up()
    except ClusterUnavailable as exc:
        unavailable(str(exc))
    yield started
    started.down()
