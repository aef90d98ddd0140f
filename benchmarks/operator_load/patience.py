"""Time limits of a row, and its progress messages. Every wait has a limit."""

import sys
import time
from collections.abc import Callable
from typing import Final

TOLD_EVERY_SECONDS: Final = 15.0


class Overdue(TimeoutError):
    """A row exceeded its time limit. The message contains the condition that was awaited, and the progress."""


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class Patience:
    """The time limit of one row."""

    def __init__(
        self,
        row: str,
        *,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        tell: Callable[[str], None] = _tell,
    ) -> None:
        self._row, self._seconds = row, seconds
        self._clock, self._sleep, self._write = clock, sleep, tell
        self._begun = clock()
        self._told_at = self._begun

    @property
    def spent(self) -> float:
        """Seconds since the row began."""
        return self._clock() - self._begun

    def tell(self, text: str) -> None:
        """Prints the progress of the row."""
        self._told_at = self._clock()
        self._write(f"  {self._row} {self.spent:5.0f} s: {text}")

    def check(self, what: str, reached: Callable[[], str] = str) -> None:
        """Raises Overdue if the row's time is up."""
        if self.spent > self._seconds:
            raise Overdue(_late(what, self._seconds, reached()))

    def until(
        self, what: str, found: Callable[[], bool], *, seconds: float | None = None, every: float = 0.5, reached: Callable[[], str] = str
    ) -> float:
        """Waits until `found` returns True, and returns the elapsed seconds. `reached` returns the progress. Raises Overdue."""
        begun = self._clock()
        while not found():
            if seconds is not None and self._clock() - begun > seconds:
                raise Overdue(_late(what, seconds, reached()))
            self.check(what, reached)
            if self._clock() - self._told_at > TOLD_EVERY_SECONDS:
                self.tell(_waits(what, reached()))
            self._sleep(every)
        return self._clock() - begun

    def rest(self, what: str, seconds: float) -> None:
        """Waits for this many seconds."""
        self.tell(f"{what}, {seconds:.0f} s")
        self.check(what)
        self._sleep(seconds)


def _waits(what: str, reached: str) -> str:
    return f"waits for {what}" + (f" ({reached})" if reached else "")


def _late(what: str, seconds: float, reached: str) -> str:
    return f"timed out after {seconds:.0f} s waiting for: {what}" + (f" ({reached})" if reached else "")
