"""Ctrl-C during a command.

A library can turn the interrupt into another error, or the interrupt can arrive during a callback, which can't raise it. The output would
then look like a bug. So this module records that Ctrl-C was pressed, and sends an interrupt again if it was lost in a callback.
"""

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_AGAIN_SECONDS = 0.01


class Interrupts:
    """Records whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.received = False
        self._in_hook = False

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Records Ctrl-C during the block. If Ctrl-C is ignored, as in a background command, it stays ignored."""
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not callable(before):
            yield
            return
        hook = sys.unraisablehook
        signal.signal(signal.SIGINT, self._raise)
        sys.unraisablehook = self._send_again
        try:
            yield
        finally:
            sys.unraisablehook = hook
            # By now, another handler may have been set to ignore a second Ctrl-C. If so, keep that handler.
            if signal.getsignal(signal.SIGINT) == self._raise:
                signal.signal(signal.SIGINT, before)

    def _raise(self, _signal: int, _frame: FrameType | None) -> None:
        self.received = True
        if self._in_hook:
            # `_send_again` is running, and it can't raise the interrupt either.
            self._send_soon()
        else:
            raise KeyboardInterrupt

    def _send_again(self, lost: "sys.UnraisableHookArgs") -> None:
        """Sends the signal again if Python can't raise the interrupt, for example in a finaliser. Otherwise the command would continue."""
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(lost)
            return
        self._in_hook = True
        self._send_soon()
        self._in_hook = False

    def _send_soon(self) -> None:
        # Unlike `threading.Timer`, this function doesn't wait for the thread to start, which can take a while.
        _thread.start_new_thread(_send, ())


def _send() -> None:
    time.sleep(_AGAIN_SECONDS)
    os.kill(os.getpid(), signal.SIGINT)
