"""Reads a queued Job's Kueue Workload, and its position in the queue. The module is used only if the chart sets `kueue.enabled`.

This module is separate from `observer.py` because Kueue is another project. The module reads several versions of Kueue's API, and tolerates
unexpected values.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from dataprep_operator.cluster.cluster import Cluster, Resource
from dataprep_operator.errors import ClusterError, NotFound, Refused
from dataprep_operator.objects import untrusted
from dataprep_operator.objects.child_jobs import QUEUE_DOMAIN, Child
from dataprep_operator.objects.observed import Admission

logger = logging.getLogger(__name__)

VERSIONS: Final = ("v1beta2", "v1beta1")
"""API versions, newest first. Both supported versions have all fields that this module reads."""
JOB_UID_LABEL: Final = f"{QUEUE_DOMAIN}/job-uid"
POSITIONS_FOR: Final = timedelta(seconds=5)
"""How long a queue's positions are cached. One response contains all positions in the queue. Each waiting job needs its position about
every ten seconds."""


@dataclass
class Kueue:
    """Reads Workloads in the newest version that the cluster serves."""

    cluster: Cluster
    _versions: tuple[str, ...] = VERSIONS
    _positions: dict[tuple[str, str], tuple[datetime, Mapping[str, int]]] = field(default_factory=dict)
    """Maps a namespace and queue to the time when its positions were read, and to the position of each Workload."""

    async def admission(self, child: Child, *, queue: str, now: datetime) -> Admission | None:
        """Return the Job's admission, or None if Kueue can't be queried."""
        try:
            workload = await self._workload(child)
        except ClusterError as exc:
            logger.warning("%s/%s: its Workload can't be read: %s", child.namespace, child.name, exc)
            return None
        if workload is None:
            return Admission()
        quota, eviction = _condition(workload, "QuotaReserved"), _condition(workload, "Evicted")
        if quota.get("status") == "True" and eviction.get("status") == "True":
            # Kueue takes the quota back as soon as the Job's last pod has ended.
            return Admission(exists=True, message=untrusted.text(eviction.get("message")))
        if quota.get("status") == "True":
            return Admission(exists=True, reserved=True, message=untrusted.text(quota.get("message")))
        position = (await self._positions_in(child.namespace, queue, now=now)).get(str(workload["metadata"]["name"]))
        condition = quota or eviction
        return Admission(exists=True, message=untrusted.text(condition.get("message")), position=position)

    async def _workload(self, child: Child) -> Mapping[str, Any] | None:  # Any, because a Workload is a JSON object
        for version in self._versions:
            resource = Resource(f"apis/{QUEUE_DOMAIN}/{version}", "workloads")
            try:
                workloads = await self.cluster.list(resource, child.namespace, labels=f"{JOB_UID_LABEL}={child.uid}")
            except NotFound:
                continue  # the cluster doesn't serve this version
            self._versions = (version, *(other for other in VERSIONS if other != version))
            return workloads[0] if workloads else None
        return None

    async def _positions_in(self, namespace: str, queue: str, *, now: datetime) -> Mapping[str, int]:
        """Return the zero-based position of each Workload in the queue. Unknown positions are left out."""
        read_at, positions = self._positions.get((namespace, queue), (None, {}))
        if read_at is not None and timedelta() <= now - read_at < POSITIONS_FOR:
            return positions
        self._positions = {key: entry for key, entry in self._positions.items() if now - entry[0] < POSITIONS_FOR}
        positions = await self._read_positions(namespace, queue)
        self._positions[namespace, queue] = now, positions
        return positions

    async def _read_positions(self, namespace: str, queue: str) -> Mapping[str, int]:
        """Read the positions from Kueue's visibility API."""
        for version in self._versions:
            path = f"namespaces/{quote(namespace, safe='')}/localqueues/{quote(queue, safe='')}/pendingworkloads"
            try:
                document = await self.cluster.document(f"/apis/visibility.{QUEUE_DOMAIN}/{version}/{path}")
            except (NotFound, Refused):
                continue
            except ClusterError:
                return {}  # Kueue's visibility server may be down; the admission is useful without a position
            positions = {
                untrusted.text(untrusted.mapping(item.get("metadata")).get("name")): untrusted.number(item.get("positionInLocalQueue"), -1)
                for item in untrusted.mappings(document.get("items"))
            }
            return {name: position for name, position in positions.items() if position >= 0}
        return {}


def _condition(workload: Mapping[str, Any], kind: str) -> Mapping[str, Any]:  # Any, because a Workload is a JSON object
    return untrusted.conditions(untrusted.mapping(workload.get("status"))).get(kind, {})
