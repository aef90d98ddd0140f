"""Listens to kopf's watch streams for what kopf keeps to itself: the end of a listing, and bookmarks as signs of life. Keeps them alive.

kopf's handlers see objects only. But a cache is whole only after the listing, objects that vanished while nobody watched are
known only by their absence from it, and a stream that is silent for long is dead although everything looks well. kopf has no
public way to learn any of this, so the one function that every stream comes through is wrapped. kopf is pinned to a minor
version, and a test fails when the function is no longer there.

kopf ends the whole operator when a stream breaks in a way that it doesn't know: half a line, an error in the stream, a namespace whose
rights are gone. Here each of these ends one stream, which lists again and goes on. A namespace that may not be read (it was deleted, and the
rights with it) doesn't hold back the others: its jobs are left alone until all of its streams are listed again.
"""

import asyncio
import functools
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
from kopf._cogs.clients import errors, watching

from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.objects.observed import Key

logger = logging.getLogger(__name__)

WATCHED: Final = frozenset(Kind)
_POLL_SECONDS: Final = 0.1
_RETRY_SECONDS: Final = 1.0
_FORBIDDEN_RETRY_SECONDS: Final = 5.0
FORGET_AFTER_SECONDS: Final = 60.0
"""After so long without rights in a namespace, what was known of it is dropped: nobody there may hold back a job elsewhere."""
# Half a line is no JSON or no UTF-8; JSON of another form than the API's has no such key, attribute or index.
_BROKEN: Final = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    watching.WatchingError,
    errors.APIError,
    errors.APISessionClosed,
    aiohttp.ClientError,
    OSError,
)
StreamName = tuple[Kind, str | None]


@dataclass
class _Stream:
    heard_at: float
    listed: bool = False
    listed_uids: set[str] = field(default_factory=set)
    known_before: set[str] = field(default_factory=set)
    forbidden_since: float | None = None
    """Since when its namespace may not be read."""

    @property
    def is_forbidden(self) -> bool:
        return self.forbidden_since is not None


class Streams:
    """The state of every watch stream."""

    def __init__(
        self, *, expected: frozenset[StreamName], cache: Cache, enqueue: Callable[[Key], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._cache = cache
        self._concerns = enqueue
        self._streams = {name: _Stream(heard_at=clock()) for name in expected}
        # Listed objects that the handlers have not put into the cache yet.
        self._uncached: dict[StreamName, set[str]] = {name: set() for name in expected}

    @property
    def synced(self) -> bool:
        """Whether every stream that may be read has been listed and everything listed is in the cache."""
        return all(stream.listed or stream.is_forbidden for stream in self._streams.values()) and not any(self._uncached.values())

    def is_synced(self, namespace: str) -> bool:
        """Whether all of the namespace's objects are known. Without its Jobs, say, they would seem to be missing."""
        own = {name: stream for name, stream in self._streams.items() if name[1] == namespace}
        return all(stream.listed and not stream.is_forbidden and not self._uncached.get(name) for name, stream in own.items())

    async def wait_for_sync(self) -> None:
        """Waits until it is so."""
        while not self.synced:
            await asyncio.sleep(_POLL_SECONDS)

    @property
    def age_seconds(self) -> float:
        """Time since the most silent stream heard anything."""
        now = self._clock()
        return max((now - stream.heard_at for stream in self._streams.values()), default=0.0)

    @property
    def unsynced(self) -> list[str]:
        """The streams that have not been listed yet, for people."""
        return [
            f"{kind} in {namespace or 'all namespaces'}"
            for (kind, namespace), stream in self._streams.items()
            if not stream.listed and not stream.is_forbidden
        ]

    def mark_cached(self, kind: Kind, uid: str) -> None:
        """The handlers have put that object into the cache."""
        for (stream_kind, _), uids in self._uncached.items():
            if stream_kind is kind:
                uids.discard(uid)

    # Any: what kopf yields; a bookmark of its own, or an event as JSON.
    def observe(self, name: StreamName, event: Any) -> None:
        """Take note of one thing that a stream yields."""
        stream = self._streams.setdefault(name, _Stream(heard_at=self._clock()))
        stream.heard_at = self._clock()
        if event is watching.Bookmark.LISTED:
            self._listed(name, stream)
        elif isinstance(event, dict) and event.get("type") is None:
            uid = event["object"]["metadata"]["uid"]
            if not stream.listed_uids:
                stream.known_before = set(self._cache.uids(name[0], namespace=name[1]))
            stream.listed_uids.add(uid)
            self._uncached.setdefault(name, set()).add(uid)

    def reset(self, name: StreamName) -> None:
        """A stream ended where it should not have. What was seen of a listing that had begun says nothing about the next one."""
        stream = self._streams.get(name)
        if stream is not None:
            stream.listed_uids, stream.known_before = set(), set()

    def mark_forbidden(self, name: StreamName, why: object) -> None:
        """The API server lets us no longer read the stream of a namespace."""
        kind, namespace = name
        now = self._clock()
        stream = self._streams.setdefault(name, _Stream(heard_at=now))
        if stream.forbidden_since is None:
            logger.warning("%s in %s can't be read, so no job of this namespace is looked at: %s", kind, namespace, why)
            stream.forbidden_since, stream.listed = now, False
        # An answer is a sign of life.
        stream.heard_at, stream.listed_uids, stream.known_before = now, set(), set()
        self._uncached.get(name, set()).clear()
        if now - stream.forbidden_since >= FORGET_AFTER_SECONDS:
            for key in self._cache.prune(kind, namespace=namespace, listed=(), known=self._cache.uids(kind, namespace=namespace)):
                self._concerns(key)

    def _listed(self, name: StreamName, stream: _Stream) -> None:
        kind, namespace = name
        known = stream.known_before or set(self._cache.uids(kind, namespace=namespace))
        for key in self._cache.prune(kind, namespace=namespace, listed=stream.listed_uids, known=known):
            self._concerns(key)
        logger.info("%s in %s: %d listed", kind, namespace or "all namespaces", len(stream.listed_uids))
        stream.listed, stream.listed_uids, stream.known_before = True, set(), set()
        if stream.is_forbidden:
            stream.forbidden_since = None
            for key in self._cache.keys_in(namespace):
                self._concerns(key)


def wrap_kopf(
    streams: Streams, *, again_seconds: float = _RETRY_SECONDS, refused_seconds: float = _FORBIDDEN_RETRY_SECONDS
) -> Callable[[], None]:
    """Wrap kopf's streams. Returns what undoes it."""
    original = watching.infinite_watch

    @functools.wraps(original)
    async def infinite_watch(**given: Any) -> AsyncIterator[Any]:  # Any: passed through as it is
        resource, namespace = given["resource"], given["namespace"]
        name = (Kind(resource.plural), namespace) if resource.plural in WATCHED else None
        while True:
            try:
                async for event in original(**given):
                    if not _has_identity(event):
                        logger.warning("%s: an object without uid, name or namespace is passed over", resource)
                        continue
                    if name is not None:
                        streams.observe(name, event)
                    yield event
            except _BROKEN as exc:
                mark_forbidden = isinstance(exc, errors.APIForbiddenError | errors.APINotFoundError) and namespace is not None
                if mark_forbidden and name is not None:
                    streams.mark_forbidden(name, exc)
                else:
                    if name is not None:
                        streams.reset(name)
                    where = namespace or "all namespaces"
                    logger.warning("the watch of %s in %s broke, and is begun anew: %s: %s", resource, where, type(exc).__name__, exc)
                await asyncio.sleep(refused_seconds if mark_forbidden else again_seconds)
            else:
                return

    watching.infinite_watch = infinite_watch

    def undo() -> None:
        watching.infinite_watch = original

    return undo


# Any: what kopf yields.
def _has_identity(event: Any) -> bool:
    """Whether an event tells which object it is about. Bookmarks are about none."""
    if not isinstance(event, dict) or event.get("type") == "BOOKMARK":
        return True
    metadata = event["object"]["metadata"]
    return all(isinstance(metadata.get(each), str) for each in ("uid", "name", "namespace"))
