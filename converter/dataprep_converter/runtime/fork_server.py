"""Starts worker processes within milliseconds, by forking Python's fork server, which has already imported the modules that workers need.

The main process can't be forked, because the stores' clients have threads. On macOS, whose libraries don't survive a fork, each worker is
spawned and imports its modules itself.
"""

import multiprocessing
import signal
import sys
import warnings
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import BaseContext
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
"""Signals that a terminal sends to all processes of a job, although only the parent should handle them."""
_IS_FORKED: Final = sys.platform == "linux"


def context() -> BaseContext:
    """Returns the multiprocessing context that starts worker processes."""
    return multiprocessing.get_context("forkserver" if _IS_FORKED else "spawn")


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
