"""Reads the Kueue Workload of the Job in a queue, and the Workload's position in the queue. The module is used only when the chart sets
`kueue.enabled`.

This module is separate from `observer.py` because Kueue is another project, whose API is read leniently and in several versions.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass
class Kueue:
    """Reads Workloads in the newest version that the cluster serves."""

    cluster: Cluster
    _versions: tuple[str, ...] = VERSIONS

    async def admission(self, child: Child, *, queue: str) -> Admission | None:
        """Return the Job's admission, or None when Kueue can't be queried."""
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
        position = await self._position(child.namespace, queue, str(workload["metadata"]["name"]))
        condition = quota or eviction
        return Admission(exists=True, message=untrusted.text(condition.get("message")), position=position)

    async def _workload(self, child: Child) -> Mapping[str, Any] | None:  # Any, because a Workload is a JSON object
        for version in self._versions:
            resource = Resource(f"apis/{QUEUE_DOMAIN}/{version}", "workloads")
            try:
                workloads = await self.cluster.list(resource, child.namespace, labels=f"{JOB_UID_LABEL}={child.uid}")
            except NotFound:
                continue  # not served in this version
            self._versions = (version, *(other for other in VERSIONS if other != version))
            return workloads[0] if workloads else None
        return None

    async def _position(self, namespace: str, queue: str, workload: str) -> int | None:
        """Return the Workload's zero-based position in the queue, from Kueue's visibility API, or None when it is unknown."""
        for version in self._versions:
            path = f"namespaces/{quote(namespace, safe='')}/localqueues/{quote(queue, safe='')}/pendingworkloads"
            try:
                document = await self.cluster.document(f"/apis/visibility.{QUEUE_DOMAIN}/{version}/{path}")
            except (NotFound, Refused):
                continue
            except ClusterError:
                return None  # Kueue's visibility server may be down; the admission is useful without a position
            for item in untrusted.mappings(document.get("items")):
                if untrusted.mapping(item.get("metadata")).get("name") == workload:
                    position = untrusted.number(item.get("positionInLocalQueue"), -1)
                    return position if position >= 0 else None
        return None


def _condition(workload: Mapping[str, Any], kind: str) -> Mapping[str, Any]:  # Any, because a Workload is a JSON object
    return untrusted.conditions(untrusted.mapping(workload.get("status"))).get(kind, {})
