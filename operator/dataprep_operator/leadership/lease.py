"""A `coordination.k8s.io` Lease that elects the leader.

The Lease is valid for `DURATION_SECONDS`, is renewed every `RETRY_SECONDS`, and is given up after `RENEW_DEADLINE_SECONDS` without a
renewal. A replica that isn't certain that it holds the Lease must exit. Two leaders can't damage data, but would overwrite each other's
statuses.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from dataprep_operator.cluster.cluster import LEASES, Cluster
from dataprep_operator.errors import AlreadyExists, ClusterError, Conflict, LeaseLost, NotFound

logger = logging.getLogger(__name__)

DURATION_SECONDS: Final = 12
RENEW_DEADLINE_SECONDS: Final = 9.0
RETRY_SECONDS: Final = 2.0
_MOMENT_SECONDS: Final = 0.05
# This timeout is short enough to leave time for a second attempt when a request hangs.
_TRY_SECONDS: Final = 2.5
_AGAIN_SECONDS: Final = 0.5

Body = dict[str, Any]  # the API's JSON


class Lease:
    """This replica's claim to the Lease."""

    def __init__(self, cluster: Cluster, *, namespace: str, name: str, identity: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._clock = clock
        # The holder's last record, and the local time when this replica first saw the record. Clocks of different machines are never
        # compared.
        self._record: tuple[str, str] | None = None
        self._record_since = clock()
        self._expires_at = clock()
        self._renewed_at = clock()

    @property
    def is_valid(self) -> bool:
        """Whether this replica is certain to be the only leader.

        After a long pause of the process, this is false until the Lease is renewed.
        """
        return self._clock() - self._renewed_at <= RENEW_DEADLINE_SECONDS

    async def acquire(self) -> None:
        """Wait until this replica is the leader."""
        while True:
            try:
                if await self.try_once():
                    logger.info("%s leads (Lease %s/%s)", self._identity, self._namespace, self._name)
                    return
            except ClusterError as exc:
                logger.warning("Lease %s/%s: %s", self._namespace, self._name, exc)
            await asyncio.sleep(self._seconds_until_next_try())

    async def hold(self) -> None:
        """Renew until cancelled. Raises LeaseLost when the Lease may have been lost."""
        pause = RETRY_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = RETRY_SECONDS
            try:
                async with asyncio.timeout(max(0.0, min(_TRY_SECONDS, self._renewed_at + RENEW_DEADLINE_SECONDS - self._clock()))):
                    is_held = await self.try_once()
            except (ClusterError, TimeoutError) as exc:
                logger.warning("Lease %s/%s not renewed: %s", self._namespace, self._name, exc or "no response in time")
                is_held, pause = True, _AGAIN_SECONDS
            if not is_held:
                raise LeaseLost(f"another replica holds the Lease {self._namespace}/{self._name}")
            if self._clock() - self._renewed_at >= RENEW_DEADLINE_SECONDS:
                raise LeaseLost(f"the Lease {self._namespace}/{self._name} was not renewed for {RENEW_DEADLINE_SECONDS:.0f} s")

    async def try_once(self) -> bool:
        """Take or renew the Lease. Returns False when another replica holds the Lease."""
        try:
            body = await self._cluster.get(LEASES, self._namespace, self._name)
        except NotFound:
            return await self._create()
        spec = body.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder not in ("", self._identity) and not self._has_expired(holder, spec):
            return False
        started_at = self._clock()
        try:
            await self._cluster.replace(
                LEASES, self._namespace, self._name, body | {"spec": self._spec(spec, is_new_holder=holder != self._identity)}
            )
        except Conflict:
            return False
        self._renewed_at = started_at
        return True

    async def release(self) -> None:
        """Release the Lease so that another replica can take it immediately. A failure is only logged."""
        try:
            body = await self._cluster.get(LEASES, self._namespace, self._name)
            if (body.get("spec") or {}).get("holderIdentity") == self._identity:
                await self._cluster.replace(LEASES, self._namespace, self._name, body | {"spec": body["spec"] | {"holderIdentity": ""}})
        except ClusterError as exc:
            logger.warning("Lease %s/%s not released: %s", self._namespace, self._name, exc)

    async def _create(self) -> bool:
        started_at = self._clock()
        metadata = {"name": self._name, "namespace": self._namespace}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": self._spec({}, is_new_holder=True)}
        try:
            await self._cluster.create(LEASES, self._namespace, body)
        except AlreadyExists:
            return False
        self._renewed_at = started_at
        return True

    def _has_expired(self, holder: str, spec: Body) -> bool:
        record = (holder, str(spec.get("renewTime")))
        if record != self._record:
            self._record, self._record_since = record, self._clock()
        self._expires_at = self._record_since + (spec.get("leaseDurationSeconds") or DURATION_SECONDS)
        return self._clock() > self._expires_at

    def _seconds_until_next_try(self) -> float:
        """Return the seconds until the next attempt. This is the usual pause, or less if the holder's record expires sooner."""
        remaining = self._expires_at - self._clock()
        return min(RETRY_SECONDS, remaining + _MOMENT_SECONDS) if remaining >= 0 else RETRY_SECONDS

    def _spec(self, old_spec: Body, *, is_new_holder: bool) -> Body:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        transitions = (old_spec.get("leaseTransitions") or 0) + (1 if is_new_holder and old_spec else 0)
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": DURATION_SECONDS,
            "acquireTime": now if is_new_holder else old_spec.get("acquireTime") or now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }
