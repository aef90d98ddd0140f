"""Keeps two releases of the chart from reconciling the same jobs, because each would overwrite the statuses that the other wrote.

Each release keeps a marker, a Lease with a fixed name, in each namespace that it watches. A cluster-wide release keeps one marker, in the
namespace that it is installed in. A marker expires 15 seconds after its last renewal. If a release finds the marker of an earlier release,
it refuses to start.

A namespaced release can't see the marker of a cluster-wide release. So the cluster-wide release looks for new markers every five seconds
and refuses their releases by an annotation, and a namespaced release waits for such a refusal before it starts. Each operator class has a
separate marker name, because classes don't share jobs.
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
_HOW: Final = "List other namespaces in one of them, or give one of them a separate operator class (operatorClass)."

Body = dict[str, Any]  # the API's JSON


def marker(operator_class: str | None) -> str:
    """Return the marker's name for an operator class."""
    return f"dataprep-operator-scope-{operator_class}" if operator_class else "dataprep-operator-scope"


class Scope:
    """The markers of this release. Its replicas share one identity, the name of their leader Lease."""

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
        self._own = settings.lease_namespace or ""
        self._release = f"{settings.lease_namespace}/{settings.lease_name}"
        self._everywhere = not settings.namespaces
        self._places: Sequence[str] = settings.namespaces or (self._own,)
        self._checks_others = self._everywhere
        """Whether to look for other releases' markers. Becomes False when the API server forbids listing them."""

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
        """Renew the markers until cancelled. Raises Overlap when an earlier release refuses this one."""
        while True:
            await self._sleep(RENEW_SECONDS)
            try:
                await self._claim_all()
                if self._checks_others and self._places:
                    await self._check_others(begins=False)
            except ClusterError as exc:
                logger.warning("can't renew the marker %s: %s", self._name, exc)

    async def _claim(self) -> None:
        new = await self._claim_all()
        if self._checks_others and self._places:
            await self._check_others(begins=True)
        elif new and not self._everywhere:
            await self._sleep(NOTICE_SECONDS)
            for place in new:
                self._raise_if_refused(place, await self._cluster.get(LEASES, place, self._name))

    async def _claim_all(self) -> list[str]:
        """Create or renew all markers, and return the namespaces where they are new.

        Namespaces that don't exist, or that the operator may not access, are skipped.
        """
        new = []
        for place in self._places:
            try:
                if await self._claim_marker(place):
                    new.append(place)
            except NotFound:
                continue  # the namespace may be created later
            except Refused as exc:
                logger.warning("can't check for other releases in the namespace %s: %s", place, exc)
                self._places = [each for each in self._places if each != place]
        return new

    async def _claim_marker(self, place: str) -> bool:
        """Create or renew the marker in one namespace. Returns whether it is new."""
        while True:
            try:
                lease = await self._cluster.get(LEASES, place, self._name)
            except NotFound:
                try:
                    await self._cluster.create(LEASES, place, self._body(place, {}, begins=True))
                    return True
                except AlreadyExists:
                    continue
            is_ours, is_alive = self._holder(lease) == self._release, self._alive(lease)
            if is_ours and is_alive:
                self._raise_if_refused(place, lease)
            elif is_alive:
                await self._wait_for_expiry(place, lease)
                continue
            begins = not (is_ours and is_alive)
            try:
                await self._cluster.replace(LEASES, place, self._name, self._body(place, lease, begins=begins))
                return begins
            except Conflict:
                continue

    async def _wait_for_expiry(self, place: str, lease: Body) -> None:
        """Wait for another release's marker to expire. Raises Overlap when it is renewed instead."""
        renewed = self._renewed(lease)
        while self._alive(lease):
            await self._sleep(1.0)
            try:
                lease = await self._cluster.get(LEASES, place, self._name)
            except NotFound:
                return
            if self._renewed(lease) != renewed and self._holder(lease) != self._release and self._alive(lease):
                raise Overlap(
                    f"The release {self._holder(lease)} works in the namespace {place}: this one, {self._release}, doesn't start. {_HOW}"
                )

    async def _check_others(self, *, begins: bool) -> None:
        """Give way to earlier releases, and refuse later ones. Only a cluster-wide release does this."""
        mine = await self._cluster.get(LEASES, self._own, self._name)
        try:
            markers = await self._cluster.list(LEASES, "", fields=f"metadata.name={self._name}")
        except Refused as exc:
            logger.warning("can't check for other releases in other namespaces: %s", exc)
            self._checks_others = False
            return
        for lease in markers:
            place = lease["metadata"]["namespace"]
            if lease["metadata"]["name"] != self._name or self._holder(lease) == self._release or not self._alive(lease):
                continue
            if self._since(lease) < self._since(mine):
                if begins:
                    await self._wait_for_expiry(place, lease)
                    continue
                raise Overlap(self._overlap_message(self._holder(lease), place, lease))
            annotations = {**(lease["metadata"].get("annotations") or {}), REFUSED_BY: self._release}
            try:
                await self._cluster.replace(
                    LEASES, place, self._name, lease | {"metadata": lease["metadata"] | {"annotations": annotations}}
                )
            except (Conflict, NotFound):
                continue  # the next check, in five seconds, tries again
            except Refused as exc:
                logger.warning("can't refuse the release %s in %s: %s", self._holder(lease), place, exc)
                continue
            logger.warning("refused the release %s in %s", self._holder(lease), place)

    def _raise_if_refused(self, place: str, lease: Body) -> None:
        by = (lease["metadata"].get("annotations") or {}).get(REFUSED_BY)
        if by and by != self._release:
            raise Overlap(f"The release {by} works in all namespaces, and so in {place}: this one, {self._release}, doesn't start. {_HOW}")

    def _overlap_message(self, other: str, place: str, lease: Body) -> str:
        where = "all namespaces" if (lease["metadata"].get("labels") or {}).get(EVERYWHERE) == "true" else f"the namespace {place}"
        return f"The release {other} works in {where}: this one, {self._release}, doesn't start. {_HOW}"

    def _holder(self, lease: Body) -> str:
        return str((lease.get("spec") or {}).get("holderIdentity") or "")

    def _renewed(self, lease: Body) -> str:
        return str((lease.get("spec") or {}).get("renewTime") or "")

    def _since(self, lease: Body) -> tuple[str, str]:
        """Return when the holder started, with the holder's name as the tie-breaker."""
        return str((lease.get("spec") or {}).get("acquireTime") or ""), self._holder(lease)

    def _alive(self, lease: Body) -> bool:
        age = times.seconds_between(times.parse(self._renewed(lease)), self._clock())
        return bool(self._holder(lease)) and age is not None and age <= EXPIRY_SECONDS

    def _body(self, place: str, before: Body, *, begins: bool) -> Body:
        now = self._clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = before.get("spec") or {}
        labels = {EVERYWHERE: str(self._everywhere).lower()}
        metadata = {**(before.get("metadata") or {"name": self._name, "namespace": place}), "labels": labels}
        if begins:
            metadata["annotations"] = {}
        renewed = {
            "holderIdentity": self._release,
            "leaseDurationSeconds": EXPIRY_SECONDS,
            "acquireTime": now if begins else spec.get("acquireTime") or now,
            "renewTime": now,
        }
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": renewed}
