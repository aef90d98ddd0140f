"""Worker processes are forked, in milliseconds, from a process that has imported what they need and does nothing else (Python's fork server).

This process is not forked itself: the stores' clients have threads of their own. On macOS, whose own libraries don't outlive a fork, each worker
is spawned and imports for itself.
"""

import multiprocessing
import signal
import sys
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import BaseContext
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
"""They may be sent to all processes at once, as a terminal does, and are for the one that started the others alone."""
_IS_FORKED: Final = sys.platform == "linux"


def context() -> BaseContext:
    """How worker processes are started."""
    return multiprocessing.get_context("forkserver" if _IS_FORKED else "spawn")


def get_ready() -> None:
    """Starts the process that is forked, if it isn't there: it imports while this one goes on, and ends with it."""
    if not _IS_FORKED:
        return
    forkserver.set_forkserver_preload(["dataprep_converter.steps.worker_imports"])
    # Who starts the tracker of resources lets these signals through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
