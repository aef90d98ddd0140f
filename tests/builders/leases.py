"""In-memory Leases and leader elections."""

import threading
from datetime import UTC, datetime
from typing import Any

from dataprep_operator.errors import AlreadyExists, Conflict, NotFound, Unavailable
from dataprep_operator.leadership.election import LeaderElector
from dataprep_operator.leadership.lease import Lease
from dataprep_operator.settings import Settings


class FakeLeases:
    """One in-memory Lease with resource versions."""

    def __init__(self) -> None:
        self.body: dict[str, Any] | None = None
        self.down = False
        self._version = 0

    async def get(self, *_: Any) -> dict[str, Any]:
        if self.down:
            raise Unavailable("no route")
        if self.body is None:
            raise NotFound("no lease")
        return {**self.body, "metadata": dict(self.body["metadata"]), "spec": dict(self.body["spec"])}

    async def create(self, _resource: Any, _namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.body is not None:
            raise AlreadyExists("there")
        return self._store(body)

    async def replace(self, _resource: Any, _namespace: str, _name: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.body is None or body["metadata"]["resourceVersion"] != self.body["metadata"]["resourceVersion"]:
            raise Conflict("modified")
        return self._store(body)

    def _store(self, body: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        self.body = body | {"metadata": body["metadata"] | {"resourceVersion": str(self._version)}}
        return self.body


def a_lease(leases: FakeLeases, identity: str, now: list[float]) -> Lease:
    return Lease(leases, namespace="n", name="l", identity=identity, clock=lambda: now[0])  # type: ignore[arg-type]  # it has only the methods that a Lease calls


PATIENCE_SECONDS = 60.0


class Leases(FakeLeases):
    """The Leases of a namespace. The class counts the renewals of the leader's Lease."""

    clock = staticmethod(lambda: datetime.now(UTC))

    def __init__(self) -> None:
        super().__init__()
        self.markers = FakeLeases()
        self.renewed = threading.Semaphore(0)
        self.closed = 0

    async def get(self, *asked: Any) -> dict[str, Any]:
        return await self.markers.get() if "scope" in asked[-1] else await super().get()

    async def create(self, resource: Any, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        if "scope" in body["metadata"]["name"]:
            return await self.markers.create(resource, namespace, body)
        return await super().create(resource, namespace, body)

    async def replace(self, resource: Any, namespace: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
        if "scope" in name:
            return await self.markers.replace(resource, namespace, name, body)
        stored = await super().replace(resource, namespace, name, body)
        self.renewed.release()
        return stored

    async def list(self, *_: Any, **__: Any) -> list[dict[str, Any]]:
        return []

    async def close(self) -> None:
        self.closed += 1


def an_election(leases: Leases, lost: list[BaseException]) -> LeaderElector:
    async def connect() -> Any:  # Any: an object with the methods that a Lease calls
        return leases

    settings = Settings(lease_namespace="n", identity="one")
    return LeaderElector(connect=connect, settings=settings, clock=leases.clock, lost=lost.append)
