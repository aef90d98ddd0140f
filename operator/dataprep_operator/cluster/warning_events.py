"""Reads Warning Events, one namespace at a time.

To find one object's Events, the API server has to scan all Events in the namespace. When pods are slow to start, a thousand jobs may need
their Events at the same time. So all jobs in a namespace share one list request.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from dataprep_operator.cluster.cluster import EVENTS, Body, Cluster
from dataprep_operator.objects import untrusted

KEPT_SECONDS: Final = 5.0


class WarningEvents:
    """Lists a namespace's Warning Events at most once per `KEPT_SECONDS`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = asyncio.Lock()
        self._events: dict[str, tuple[datetime, Mapping[str, list[Body]]]] = {}

    async def about(self, namespace: str, uid: str, *, now: datetime) -> list[Body]:
        """Return the Events about the object with this uid, oldest first."""
        async with self._lock:
            self._events = {
                other: (listed_at, by_uid)
                for other, (listed_at, by_uid) in self._events.items()
                if (now - listed_at).total_seconds() < KEPT_SECONDS
            }
            if namespace not in self._events:
                self._events[namespace] = now, await self._list_by_uid(namespace)
        return self._events[namespace][1].get(uid, [])

    async def _list_by_uid(self, namespace: str) -> Mapping[str, list[Body]]:
        by_uid: defaultdict[str, list[Body]] = defaultdict(list)
        for event in await self._cluster.list(EVENTS, namespace, fields="type=Warning"):
            by_uid[untrusted.text(untrusted.mapping(event.get("involvedObject")).get("uid"))].append(event)
        for events in by_uid.values():
            events.sort(
                key=lambda event: untrusted.text(event.get("lastTimestamp")) or untrusted.text(event["metadata"].get("creationTimestamp"))
            )
        return dict(by_uid)
