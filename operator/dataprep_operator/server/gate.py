"""Limits each client address's connections before any data is read, because a request costs the server more than the client.

A connection lasts ten seconds at most and serves one request (`endpoint.py` closes it). For each address, the number of open connections
and the number of new connections per second are limited. When the server is full, a new connection replaces the oldest connection of the
address with the most connections. Therefore a flood of connections can't block the kubelet's probes or the workers' reports.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from dataprep_operator import metrics
from dataprep_operator.cluster.ratelimit import TokenBucket

MOST: Final = 512
MOST_PER_ADDRESS: Final = 256
PER_ADDRESS_A_SECOND: Final = 300.0
"""This rate is higher than the rate at which all workers together send reports, even right after their start.

The reports of all workers may come from one address.
"""
PER_ADDRESS_AT_ONCE: Final = 600
LIFE_SECONDS: Final = 10.0
BACKLOG: Final = 1024
_MAX_ADDRESSES: Final = 4096

ProtocolFactory = Callable[[], asyncio.Protocol]


class Gate:
    """Keeps track of the open connections by address, and decides which new connections to admit."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open_connections: dict[str, dict[asyncio.Transport, None]] = {}
        """The open connections, grouped by address, oldest first."""
        self._count = 0
        self._limiters: OrderedDict[str, TokenBucket] = OrderedDict()

    def wrap(self, factory: ProtocolFactory) -> ProtocolFactory:
        """Wrap a protocol factory so that each new connection is either admitted or aborted."""
        return lambda: _GatedProtocol(self, factory)

    def admit(self, address: str, transport: asyncio.Transport) -> bool:
        """Return whether the connection may stay open. If the result is true, the caller must call `release` when the connection closes."""
        connections = self._open_connections.get(address, {})
        if len(connections) >= MOST_PER_ADDRESS or not self._limiter(address).allow() or not self._make_room(len(connections)):
            metrics.CONNECTIONS_REFUSED.inc()
            return False
        self._open_connections.setdefault(address, connections)[transport] = None
        self._count += 1
        return True

    def release(self, address: str, transport: asyncio.Transport) -> None:
        """Forget a closed connection."""
        connections = self._open_connections.get(address, {})
        if transport in connections:
            del connections[transport]
            self._count -= 1
        if not connections:
            self._open_connections.pop(address, None)

    def _make_room(self, own_count: int) -> bool:
        if self._count < MOST:
            return True
        busiest = max(self._open_connections, key=lambda address: len(self._open_connections[address]))
        if len(self._open_connections[busiest]) <= own_count + 1:
            return False
        oldest = next(iter(self._open_connections[busiest]))
        oldest.abort()
        self.release(busiest, oldest)
        return True

    def _limiter(self, address: str) -> TokenBucket:
        limiter = self._limiters.pop(address, None) or TokenBucket(rate=PER_ADDRESS_A_SECOND, burst=PER_ADDRESS_AT_ONCE, clock=self._clock)
        self._limiters[address] = limiter
        if len(self._limiters) > _MAX_ADDRESSES:
            self._limiters.popitem(last=False)
        return limiter


@dataclass(frozen=True)
class _Connection:
    """An admitted connection and its inner protocol."""

    address: str
    transport: asyncio.Transport
    inner: asyncio.Protocol
    timeout: asyncio.TimerHandle


class _GatedProtocol(asyncio.Protocol):
    """Forwards everything to the inner protocol of an admitted connection."""

    def __init__(self, gate: Gate, factory: ProtocolFactory) -> None:
        self._gate = gate
        self._factory = factory
        self._connection: _Connection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - true for every TCP server
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        if not self._gate.admit(address, transport):
            transport.abort()
            return
        timeout = asyncio.get_running_loop().call_later(LIFE_SECONDS, transport.abort)
        self._connection = _Connection(address, transport, self._factory(), timeout)
        self._connection.inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._connection.timeout.cancel()
            self._gate.release(self._connection.address, self._connection.transport)
            self._connection.inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._connection is not None:
            self._connection.inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._connection.inner.eof_received() if self._connection is not None else None

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.inner.pause_writing()

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._connection.inner.resume_writing()
