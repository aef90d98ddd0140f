"""Ctrl-C during a command. A library may turn the interrupt into an error of its own, or be in a callback that can't raise it.

Both would print what looks like a defect. So the first Ctrl-C is noted, and one that was lost in a callback is sent again.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_AGAIN_SECONDS = 0.01


class Interrupts:
    """Notes whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.received = False

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Notes Ctrl-C during the block. Where it is ignored, as in a command in the background, it stays ignored."""
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
            # By now, a second Ctrl-C may be ignored.
            if signal.getsignal(signal.SIGINT) == self._raise:
                signal.signal(signal.SIGINT, before)

    def _raise(self, _signal: int, _frame: FrameType | None) -> NoReturn:
        self.received = True
        raise KeyboardInterrupt

    def _send_again(self, lost: "sys.UnraisableHookArgs") -> None:
        """Sends the signal once more if Python can't raise the interrupt, for example in a finaliser. The command would go on otherwise."""
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(lost)
            return
        # The signal must not arrive before this function has ended, which can't raise it either.
        again = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()
