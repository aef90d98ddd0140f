"""Records Events. A repeated Event increments the count of the existing Event."""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from dataprep_operator.cluster.cluster import EVENTS, Body, Cluster
from dataprep_operator.decisions import events
from dataprep_operator.decisions.events import Note
from dataprep_operator.errors import AlreadyExists, ClusterError
from dataprep_operator.objects import times
from dataprep_operator.objects.observed import Key

logger = logging.getLogger(__name__)

# Maximum number of Events whose counts are kept in memory. When this number is reached, all counts start over.
_MAX_COUNTED_EVENTS: Final = 2048


class EventRecorder:
    """Records Events about DataPrepJobs and DataPrepCronJobs."""

    def __init__(self, *, cluster: Cluster, clock: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._counts: dict[str, tuple[int, datetime]] = {}

    async def record(self, key: Key, *, uid: str, attempt: int, notes: Sequence[Note]) -> None:
        """Record each note as an Event. A failure is only logged."""
        for note in notes:
            now = self._clock()
            body = events.body(note, key=key, uid=uid, attempt=attempt, count=1, first=now, now=now)
            try:
                await self._record(key.namespace, body, now=now)
            except ClusterError as exc:
                logger.warning("%s: can't record the Event %s: %s", key, note.reason, exc)

    async def _record(self, namespace: str, body: Body, *, now: datetime) -> None:
        name = body["metadata"]["name"]
        count, first = self._counts.get(name, (0, now))
        if len(self._counts) >= _MAX_COUNTED_EVENTS:
            self._counts.clear()
        self._counts[name] = (count + 1, first)
        try:
            await self._cluster.create(EVENTS, namespace, body)
        except AlreadyExists:
            changes = {"count": max(2, count + 1), "lastTimestamp": times.text(now)}
            await self._cluster.patch(EVENTS, namespace, name, changes)
