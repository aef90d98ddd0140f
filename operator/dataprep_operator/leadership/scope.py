"""Keeps two releases of the chart from reconciling the same jobs, because each would overwrite the statuses that the other wrote.

Each release keeps a marker, a Lease with a fixed name, in each namespace that it watches. A cluster-wide release keeps one marker, in its
own namespace. A marker expires 15 seconds after its last renewal. A release that finds the marker of an earlier release refuses to start.

A namespaced release can't see the marker of a cluster-wide release. Therefore a cluster-wide release looks for new markers every five
seconds, and annotates the markers of the releases that it refuses. Before a namespaced release starts, it waits long enough to see such an
annotation. Each operator class has a separate marker name, because classes don't share jobs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from dataprep_api import GROUP
from dataprep_operator.cluster.cluster import LEASES, Cluster
from dataprep_operator.errors import AlreadyExists, ClusterError, Conflict, NotFound, Overlap, Refused
from dataprep_operator.objects import times
from dataprep_operator.settings import Settings

logger = logging.getLogger(__name__)

RENEW_SECONDS: Final = 5.0
EXPIRY_SECONDS: Final = 15
NOTICE_SECONDS: Final = 7.0
"""Time within which a cluster-wide release notices a new marker."""
EVERYWHERE: Final = f"{GROUP}/works-everywhere"
REFUSED_BY: Final = f"{GROUP}/refused-by"
_HOW_TO_AVOID: Final = "Configure different namespaces for one of the two releases, or give it a separate operator class (operatorClass)."

Body = dict[str, Any]  # the API's JSON


def marker(operator_class: str | None) -> str:
    """Return the marker's name for an operator class."""
    return f"dataprep-operator-scope-{operator_class}" if operator_class else "dataprep-operator-scope"


class Scope:
    """The markers of this release. All replicas of a release share one identity, the name of their leader Lease."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        settings: Settings,
        clock: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._sleep = sleep
        self._name = marker(settings.operator_class)
        self._own_namespace = settings.lease_namespace or ""
        self._release = f"{settings.lease_namespace}/{settings.lease_name}"
        self._is_clusterwide = not settings.namespaces
        self._namespaces: Sequence[str] = settings.namespaces or (self._own_namespace,)
        self._checks_others = self._is_clusterwide
        """Whether to look for other releases' markers. Becomes False when the API server forbids listing the markers."""

    async def claim(self) -> None:
        """Create the markers. Raises Overlap when another release owns one of the namespaces."""
        while True:
            try:
                await self._claim()
                return
            except ClusterError as exc:
                logger.warning("can't create the marker %s: %s", self._name, exc)
                await self._sleep(1.0)

    async def keep(self) -> None:
        """Renew the markers until cancelled. Raises Overlap when an earlier release refuses this release."""
        while True:
            await self._sleep(RENEW_SECONDS)
            try:
                await self._claim_all()
                if self._checks_others and self._namespaces:
                    await self._check_others(begins=False)
            except ClusterError as exc:
                logger.warning("can't renew the marker %s: %s", self._name, exc)

    async def _claim(self) -> None:
        new_namespaces = await self._claim_all()
        if self._checks_others and self._namespaces:
            await self._check_others(begins=True)
        elif new_namespaces and not self._is_clusterwide:
            await self._sleep(NOTICE_SECONDS)
            for namespace in new_namespaces:
                self._raise_if_refused(namespace, await self._cluster.get(LEASES, namespace, self._name))

    async def _claim_all(self) -> list[str]:
        """Create or renew all markers. Return the namespaces where this release had no valid marker before.

        Namespaces that don't exist, or that the operator isn't allowed to access, are skipped.
        """
        new_namespaces = []
        for namespace in self._namespaces:
            try:
                if await self._claim_marker(namespace):
                    new_namespaces.append(namespace)
            except NotFound:
                continue  # the namespace may be created later
            except Refused as exc:
                logger.warning("can't check for other releases in the namespace %s: %s", namespace, exc)
                self._namespaces = [other for other in self._namespaces if other != namespace]
        return new_namespaces

    async def _claim_marker(self, namespace: str) -> bool:
        """Create or renew the marker in one namespace. Return whether this release had no valid marker there before."""
        while True:
            try:
                lease = await self._cluster.get(LEASES, namespace, self._name)
            except NotFound:
                try:
                    await self._cluster.create(LEASES, namespace, self._body(namespace, {}, begins=True))
                    return True
                except AlreadyExists:
                    continue
            is_own, is_alive = self._holder(lease) == self._release, self._is_alive(lease)
            if is_own and is_alive:
                self._raise_if_refused(namespace, lease)
            elif is_alive:
                await self._wait_for_expiry(namespace, lease)
                continue
            begins = not (is_own and is_alive)
            try:
                await self._cluster.replace(LEASES, namespace, self._name, self._body(namespace, lease, begins=begins))
                return begins
            except Conflict:
                continue

    async def _wait_for_expiry(self, namespace: str, lease: Body) -> None:
        """Wait for another release's marker to expire. Raises Overlap if the other release renews its marker."""
        first_renew_time = self._renew_time(lease)
        while self._is_alive(lease):
            await self._sleep(1.0)
            try:
                lease = await self._cluster.get(LEASES, namespace, self._name)
            except NotFound:
                return
            if self._renew_time(lease) != first_renew_time and self._holder(lease) != self._release and self._is_alive(lease):
                raise Overlap(
                    f"The release {self._holder(lease)} already manages the namespace {namespace}, so this release, {self._release}, doesn't start. {_HOW_TO_AVOID}"
                )

    async def _check_others(self, *, begins: bool) -> None:
        """Give way to earlier releases, and refuse later releases. Only a cluster-wide release calls this method."""
        own_marker = await self._cluster.get(LEASES, self._own_namespace, self._name)
        try:
            markers = await self._cluster.list(LEASES, "", fields=f"metadata.name={self._name}")
        except Refused as exc:
            logger.warning("can't check for other releases in other namespaces: %s", exc)
            self._checks_others = False
            return
        for lease in markers:
            namespace = lease["metadata"]["namespace"]
            if lease["metadata"]["name"] != self._name or self._holder(lease) == self._release or not self._is_alive(lease):
                continue
            if self._seniority(lease) < self._seniority(own_marker):
                if begins:
                    await self._wait_for_expiry(namespace, lease)
                    continue
                raise Overlap(self._overlap_message(self._holder(lease), namespace, lease))
            annotations = {**(lease["metadata"].get("annotations") or {}), REFUSED_BY: self._release}
            try:
                await self._cluster.replace(
                    LEASES, namespace, self._name, lease | {"metadata": lease["metadata"] | {"annotations": annotations}}
                )
            except (Conflict, NotFound):
                continue  # the next check, in five seconds, tries again
            except Refused as exc:
                logger.warning("can't refuse the release %s in %s: %s", self._holder(lease), namespace, exc)
                continue
            logger.warning("refused the release %s in %s", self._holder(lease), namespace)

    def _raise_if_refused(self, namespace: str, lease: Body) -> None:
        refuser = (lease["metadata"].get("annotations") or {}).get(REFUSED_BY)
        if refuser and refuser != self._release:
            raise Overlap(
                f"The release {refuser} already manages all namespaces, including {namespace}, so this release, {self._release}, doesn't start. {_HOW_TO_AVOID}"
            )

    def _overlap_message(self, other: str, namespace: str, lease: Body) -> str:
        where = "all namespaces" if (lease["metadata"].get("labels") or {}).get(EVERYWHERE) == "true" else f"the namespace {namespace}"
        return f"The release {other} already manages {where}, so this release, {self._release}, doesn't start. {_HOW_TO_AVOID}"

    def _holder(self, lease: Body) -> str:
        return str((lease.get("spec") or {}).get("holderIdentity") or "")

    def _renew_time(self, lease: Body) -> str:
        return str((lease.get("spec") or {}).get("renewTime") or "")

    def _seniority(self, lease: Body) -> tuple[str, str]:
        """Return the holder's start time, and the holder's name as the tie-breaker."""
        return str((lease.get("spec") or {}).get("acquireTime") or ""), self._holder(lease)

    def _is_alive(self, lease: Body) -> bool:
        age = times.seconds_between(times.parse(self._renew_time(lease)), self._clock())
        return bool(self._holder(lease)) and age is not None and age <= EXPIRY_SECONDS

    def _body(self, namespace: str, old_lease: Body, *, begins: bool) -> Body:
        now = self._clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        old_spec = old_lease.get("spec") or {}
        labels = {EVERYWHERE: str(self._is_clusterwide).lower()}
        metadata = {**(old_lease.get("metadata") or {"name": self._name, "namespace": namespace}), "labels": labels}
        if begins:
            metadata["annotations"] = {}
        new_spec = {
            "holderIdentity": self._release,
            "leaseDurationSeconds": EXPIRY_SECONDS,
            "acquireTime": now if begins else old_spec.get("acquireTime") or now,
            "renewTime": now,
        }
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": new_spec}
