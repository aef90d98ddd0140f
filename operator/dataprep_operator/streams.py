"""Listens to kopf's watch streams for what kopf keeps to itself: the end of a listing, and bookmarks as signs of life.

kopf's handlers see objects only. But a cache is whole only after the listing, objects that vanished while nobody watched are
known only by their absence from it, and a stream that is silent for long is dead although everything looks well. kopf has no
public way to learn any of this, so the one function that every stream comes through is wrapped. kopf is pinned to a minor
version, and a test fails when the function is no longer there.
"""

import asyncio
import functools
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kopf._cogs.clients import watching

from dataprep_operator.cache import Cache, Kind
from dataprep_operator.observed import Key

logger = logging.getLogger(__name__)

OURS: Final = frozenset(Kind)
_POLL_SECONDS: Final = 0.1
StreamName = tuple[Kind, str | None]


@dataclass
class _Stream:
    heard: float
    listed: bool = False
    seen: set[str] = field(default_factory=set)
    known_before: set[str] = field(default_factory=set)


class Streams:
    """The state of every watch stream."""

    def __init__(
        self, *, expected: frozenset[StreamName], cache: Cache, concerns: Callable[[Key], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._cache = cache
        self._concerns = concerns
        self._streams = {name: _Stream(heard=clock()) for name in expected}
        # Listed objects that the handlers have not put into the cache yet.
        self._on_the_way: dict[StreamName, set[str]] = {name: set() for name in expected}

    @property
    def complete(self) -> bool:
        """Whether every stream has been listed and everything listed is in the cache."""
        return all(stream.listed for stream in self._streams.values()) and not any(self._on_the_way.values())

    async def whole(self) -> None:
        """Waits until it is so."""
        while not self.complete:
            await asyncio.sleep(_POLL_SECONDS)

    @property
    def age_seconds(self) -> float:
        """Time since the most silent stream heard anything."""
        now = self._clock()
        return max((now - stream.heard for stream in self._streams.values()), default=0.0)

    @property
    def unlisted(self) -> list[str]:
        """The streams that have not been listed yet, for people."""
        return [f"{kind} in {namespace or 'all namespaces'}" for (kind, namespace), stream in self._streams.items() if not stream.listed]

    def handled(self, kind: Kind, uid: str) -> None:
        """The handlers have put that object into the cache."""
        for (stream_kind, _), uids in self._on_the_way.items():
            if stream_kind is kind:
                uids.discard(uid)

    # Any: what kopf yields; a bookmark of its own, or an event as JSON.
    def hear(self, name: StreamName, event: Any) -> None:
        """Take note of one thing that a stream yields."""
        stream = self._streams.setdefault(name, _Stream(heard=self._clock()))
        stream.heard = self._clock()
        if event is watching.Bookmark.LISTED:
            self._listed(name, stream)
        elif isinstance(event, dict) and event.get("type") is None:
            uid = event["object"]["metadata"]["uid"]
            if not stream.seen:
                stream.known_before = set(self._cache.uids(name[0], namespace=name[1]))
            stream.seen.add(uid)
            self._on_the_way.setdefault(name, set()).add(uid)

    def _listed(self, name: StreamName, stream: _Stream) -> None:
        kind, namespace = name
        known = stream.known_before or set(self._cache.uids(kind, namespace=namespace))
        for key in self._cache.prune(kind, namespace=namespace, listed=stream.seen, known=known):
            self._concerns(key)
        logger.info("%s in %s: %d listed", kind, namespace or "all namespaces", len(stream.seen))
        stream.listed, stream.seen, stream.known_before = True, set(), set()


def listen(streams: Streams) -> Callable[[], None]:
    """Wrap kopf's streams. Returns what undoes it."""
    original = watching.infinite_watch

    @functools.wraps(original)
    async def infinite_watch(**given: Any) -> AsyncIterator[Any]:  # Any: passed through as it is
        resource, namespace = given["resource"], given["namespace"]
        name = (Kind(resource.plural), namespace) if resource.plural in OURS else None
        async for event in original(**given):
            if name is not None:
                streams.hear(name, event)
            yield event

    watching.infinite_watch = infinite_watch

    def undo() -> None:
        watching.infinite_watch = original

    return undo
