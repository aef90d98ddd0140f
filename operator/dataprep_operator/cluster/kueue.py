"""What Kueue says about a convert Job: its Workload, and its place in the queue. Only asked when the chart's `kueue.enabled` says that Kueue is there.

Apart from `observer.py`, because nothing here is ours: another project's API, in the versions that it serves, read with care.
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
"""Newest first. Both have had the fields that are read here."""
JOB_UID_LABEL: Final = f"{QUEUE_DOMAIN}/job-uid"


@dataclass
class Kueue:
    """Asks for Workloads, in the version that this cluster serves."""

    cluster: Cluster
    _versions: tuple[str, ...] = VERSIONS

    async def admission(self, child: Child, *, queue: str) -> Admission | None:
        """What is known of the Job's admission; None when it can't be asked."""
        try:
            found = await self._workloads(child)
        except ClusterError as exc:
            logger.warning("%s/%s: its Workload can't be read: %s", child.namespace, child.name, exc)
            return None
        if found is None:
            return Admission()
        reserved = _condition(found, "QuotaReserved")
        if reserved.get("status") == "True":
            return Admission(exists=True, reserved=True, message=untrusted.text(reserved.get("message")))
        position = await self._position(child.namespace, queue, str(found["metadata"]["name"]))
        told = reserved or _condition(found, "Evicted")
        return Admission(exists=True, message=untrusted.text(told.get("message")), position=position)

    async def _workloads(self, child: Child) -> Mapping[str, Any] | None:  # Any: the API's JSON
        for version in self._versions:
            resource = Resource(f"apis/{QUEUE_DOMAIN}/{version}", "workloads")
            try:
                found = await self.cluster.list(resource, child.namespace, labels=f"{JOB_UID_LABEL}={child.uid}")
            except NotFound:
                continue  # this version isn't served
            self._versions = (version, *(each for each in VERSIONS if each != version))
            return found[0] if found else None
        return None

    async def _position(self, namespace: str, queue: str, workload: str) -> int | None:
        """The place among the Workloads that wait in the queue, from 0, by Kueue's visibility API; None when that isn't served or doesn't know."""
        for version in self._versions:
            where = f"namespaces/{quote(namespace, safe='')}/localqueues/{quote(queue, safe='')}/pendingworkloads"
            try:
                found = await self.cluster.document(f"/apis/visibility.{QUEUE_DOMAIN}/{version}/{where}")
            except (NotFound, Refused):
                continue
            except ClusterError:
                return None  # Kueue's own server may be down; the Workload has said what matters
            for item in untrusted.mappings(found.get("items")):
                if untrusted.mapping(item.get("metadata")).get("name") == workload:
                    position = untrusted.number(item.get("positionInLocalQueue"), -1)
                    return position if position >= 0 else None
        return None


def _condition(workload: Mapping[str, Any], kind: str) -> Mapping[str, Any]:  # Any: the API's JSON
    return untrusted.conditions(untrusted.mapping(workload.get("status"))).get(kind, {})
