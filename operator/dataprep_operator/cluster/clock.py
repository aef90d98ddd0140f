"""A clock that follows the API server's, so that a node with a wrong clock doesn't misjudge deadlines.

The operator compares its time with timestamps that the cluster wrote, and replicas on other nodes read those that it writes.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from dataprep_operator.objects import times

logger = logging.getLogger(__name__)

TOLERATED_SECONDS: Final = 5.0
"""`Date` has whole seconds and responses take time, so smaller differences are ignored."""


class Clock:
    """The local clock, corrected by the `Date` header of the API server's responses when it is off."""

    def __init__(self, local: Callable[[], datetime] = times.now) -> None:
        self._local = local
        self._ahead = timedelta()

    def __call__(self) -> datetime:
        """The current time."""
        return self._local() - self._ahead

    def observe(self, date: str | None, *, took_seconds: float) -> None:
        """Take in a response's `Date` header. Ignores responses that took long."""
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
        logger.warning("this machine's clock is %+.0f s off the API server's; using the API server's", self._ahead.total_seconds())
