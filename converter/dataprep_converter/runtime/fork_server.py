"""Worker processes are forked, in milliseconds, from a process that has imported what they need and does nothing else (Python's fork server).

This process isn't forked itself, because the stores' clients have threads. On macOS, whose libraries don't survive a fork, each worker is
spawned and imports for itself.
"""

import multiprocessing
import signal
import sys
import warnings
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import BaseContext
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
"""Signals that a terminal sends to all processes at once, but only the parent should handle."""
_IS_FORKED: Final = sys.platform == "linux"


def context() -> BaseContext:
    """How worker processes are started."""
    return multiprocessing.get_context("forkserver" if _IS_FORKED else "spawn")


def get_ready() -> None:
    """Starts the fork server if needed: it imports while this process goes on, and ends with it."""
    if not _IS_FORKED:
        return
    forkserver.set_forkserver_preload(["dataprep_converter.steps.worker_imports"])
    # Starting the resource tracker unblocks these signals again, so it comes first.
    with warnings.catch_warnings():
        # It was found dead a few times in some 100,000 tests. Python starts another one, and nothing here is tracked that could leak.
        warnings.filterwarnings("ignore", message="resource_tracker: process died")
        resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
