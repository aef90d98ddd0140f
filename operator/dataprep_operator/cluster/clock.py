"""The time as the API server has it, so that a node whose clock is wrong judges nothing too early or too late.

What the operator compares with its own time was written by the cluster: when a pod was made, when its deletion is due. And what it
writes itself must make sense to the replica that goes on tomorrow on another node.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from dataprep_operator.objects import times

logger = logging.getLogger(__name__)

TOLERATED_SECONDS: Final = 5.0
"""`Date` has whole seconds and an answer takes its time: a smaller difference is none."""


class Clock:
    """This machine's clock, corrected by the `Date` of the API server's answers where the two differ."""

    def __init__(self, local: Callable[[], datetime] = times.now) -> None:
        self._local = local
        self._ahead = timedelta()

    def __call__(self) -> datetime:
        """The time now."""
        return self._local() - self._ahead

    def observe(self, date: str | None, *, took_seconds: float) -> None:
        """Take note of the `Date` of an answer. One that was long on its way, or waited for a process that was paused, tells nothing."""
        if not date or took_seconds > TOLERATED_SECONDS / 2:
            return
        try:
            theirs = parsedate_to_datetime(date).astimezone(UTC)
        except ValueError:
            return
        ahead = self._local() - theirs
        if abs((ahead - self._ahead).total_seconds()) <= TOLERATED_SECONDS:
            return
        self._ahead = ahead if abs(ahead.total_seconds()) > TOLERATED_SECONDS else timedelta()
        logger.warning("this machine's clock is %+.0f s off the API server's, which counts from now on", self._ahead.total_seconds())
