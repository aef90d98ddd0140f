"""A clock that follows the API server's clock, so that an operator on a node with a wrong clock doesn't misjudge deadlines.

The operator compares its time with timestamps that the cluster wrote, and writes timestamps that replicas on other nodes read.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from dataprep_operator.objects import times

logger = logging.getLogger(__name__)

TOLERATED_SECONDS: Final = 5.0
"""Clock differences up to this limit are ignored, because the `Date` header has a resolution of one second and responses take time."""


class Clock:
    """The local clock, corrected by its difference from the `Date` header of the API server's responses."""

    def __init__(self, local: Callable[[], datetime] = times.now) -> None:
        self._local = local
        self._ahead = timedelta()

    def __call__(self) -> datetime:
        """Return the current time."""
        return self._local() - self._ahead

    def observe(self, date: str | None, *, took_seconds: float) -> None:
        """Correct the clock with a response's `Date` header. Slow responses are ignored."""
        if not date or took_seconds > TOLERATED_SECONDS / 2:
            return
        try:
            server_time = parsedate_to_datetime(date).astimezone(UTC)
        except ValueError:
            return
        ahead = self._local() - server_time
        if abs((ahead - self._ahead).total_seconds()) <= TOLERATED_SECONDS:
            return
        self._ahead = ahead if abs(ahead.total_seconds()) > TOLERATED_SECONDS else timedelta()
        logger.warning(
            "this machine's clock differs from the API server's clock by %+.0f s; using the API server's clock", self._ahead.total_seconds()
        )
