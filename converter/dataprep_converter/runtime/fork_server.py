"""Starts worker processes within milliseconds, by forking Python's fork server, which has already imported the modules that workers need.

The main process can't be forked, because the stores' clients have threads. On macOS, whose libraries don't survive a fork, each worker is
spawned and imports its modules itself.

By default, Python makes each new process import the main program again, because the work might need the main program's functions. Our work
doesn't need these functions. If a user's script runs a job and has no main guard, importing the script would run the job again in each
worker. So a worker doesn't import the main program.
"""

import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import BaseContext, ForkServerContext, ForkServerProcess, SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any, Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
"""Signals that a terminal sends to all processes of a job, although only the parent should handle them."""
_IS_FORKED: Final = sys.platform == "linux"


_main: Final = threading.Lock()


@contextmanager
def _without_main() -> Iterator[None]:
    """Hides the main program, so that a process that is started in the meantime doesn't import it."""
    with _main:
        hidden = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = hidden


class _ForkServerWorker(ForkServerProcess):
    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Any:  # noqa: N802 - the name is multiprocessing's
        with _without_main():
            return ForkServerProcess._Popen(process_obj)  # noqa: SLF001 - see above


class _SpawnedWorker(SpawnProcess):
    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Any:  # noqa: N802 - the name is multiprocessing's
        with _without_main():
            return SpawnProcess._Popen(process_obj)  # noqa: SLF001 - see above


class _FromForkServer(ForkServerContext):
    Process = _ForkServerWorker


class _Spawned(SpawnContext):
    Process = _SpawnedWorker


def context() -> BaseContext:
    """Returns the multiprocessing context that starts worker processes."""
    return _FromForkServer() if _IS_FORKED else _Spawned()


def get_ready() -> None:
    """Starts the fork server if needed. The fork server imports modules in the background, and ends together with this process."""
    if not _IS_FORKED:
        return
    forkserver.set_forkserver_preload(["dataprep_converter.steps.worker_imports"])
    # Start the resource tracker first, because starting it unblocks the signals that are blocked below.
    with warnings.catch_warnings():
        # In about 100,000 tests, the resource tracker died a few times. Python then starts another one, and warns that resources might
        # leak. Ignore the warning, because we track no resources that could leak.
        warnings.filterwarnings("ignore", message="resource_tracker: process died")
        resource_tracker.ensure_running()
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
