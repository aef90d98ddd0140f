"""Tracks kopf's watch streams, and restarts streams that are interrupted.

kopf's handlers receive objects, but not bookmarks, and they aren't told when a listing ends. The operator needs this information to know
when the cache has synced, which objects vanished between two watches, and whether a silent stream is still alive. kopf has no public API
for it, so this module wraps the function that runs every stream. kopf is pinned to a minor version, and a test fails if the function no
longer exists.

kopf exits when a stream breaks unexpectedly, for example because of a truncated line, an error event, or missing permissions for a
namespace. Instead of letting kopf exit, this module repeats only the list request of the broken stream. A namespace becomes forbidden when
it is deleted together with its RoleBindings. A forbidden namespace doesn't block other namespaces, but its own jobs are not reconciled
until all of its streams have been listed again.
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
"""The objects of a namespace that has been forbidden for this long are dropped, so that they can't block jobs in other namespaces."""
# A truncated line isn't valid JSON or UTF-8, so parsing it raises a ValueError. JSON of an unexpected shape raises one of the other four
# errors in the list.
_STREAM_ERRORS: Final = (
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
    is_listed: bool = False
    listed_uids: set[str] = field(default_factory=set)
    uids_before: set[str] = field(default_factory=set)
    forbidden_since: float | None = None
    """The time at which the namespace became forbidden, or None if it isn't forbidden."""

    @property
    def is_forbidden(self) -> bool:
        return self.forbidden_since is not None


class Streams:
    """Keeps track of the state of every watch stream."""

    def __init__(
        self, *, expected: frozenset[StreamName], cache: Cache, enqueue: Callable[[Key], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._cache = cache
        self._enqueue = enqueue
        self._streams = {name: _Stream(heard_at=clock()) for name in expected}
        # Uids of listed objects that the handlers have not put into the cache yet.
        self._uncached_uids: dict[StreamName, set[str]] = {name: set() for name in expected}

    @property
    def synced(self) -> bool:
        """Whether all streams, except those of forbidden namespaces, have been listed and all listed objects are in the cache."""
        return all(stream.is_listed or stream.is_forbidden for stream in self._streams.values()) and not any(self._uncached_uids.values())

    def is_synced(self, namespace: str) -> bool:
        """Return whether the cache has all objects of the namespace.

        As long as the cache is incomplete, an existing Job may seem to be missing.
        """
        streams = {name: stream for name, stream in self._streams.items() if name[1] == namespace}
        return all(stream.is_listed and not stream.is_forbidden and not self._uncached_uids.get(name) for name, stream in streams.items())

    async def wait_for_sync(self) -> None:
        """Wait until `synced` is true."""
        while not self.synced:
            await asyncio.sleep(_POLL_SECONDS)

    @property
    def age_seconds(self) -> float:
        """How many seconds ago the quietest stream last received data."""
        now = self._clock()
        return max((now - stream.heard_at for stream in self._streams.values()), default=0.0)

    @property
    def unsynced(self) -> list[str]:
        """Descriptions of the streams that have not been listed yet, for use in messages."""
        return [
            f"{kind} in {namespace or 'all namespaces'}"
            for (kind, namespace), stream in self._streams.items()
            if not stream.is_listed and not stream.is_forbidden
        ]

    def mark_cached(self, kind: Kind, uid: str) -> None:
        """Record that the handlers have put the object into the cache."""
        for (stream_kind, _), uids in self._uncached_uids.items():
            if stream_kind is kind:
                uids.discard(uid)

    # Any, because kopf yields either its own bookmark or an event as parsed JSON.
    def observe(self, name: StreamName, event: Any) -> None:
        """Update the state of a stream from an event or bookmark of the stream."""
        stream = self._streams.setdefault(name, _Stream(heard_at=self._clock()))
        stream.heard_at = self._clock()
        if event is watching.Bookmark.LISTED:
            self._finish_listing(name, stream)
        elif isinstance(event, dict) and event.get("type") is None:
            uid = event["object"]["metadata"]["uid"]
            if not stream.listed_uids:
                stream.uids_before = set(self._cache.uids(name[0], namespace=name[1]))
            stream.listed_uids.add(uid)
            self._uncached_uids.setdefault(name, set()).add(uid)

    def reset(self, name: StreamName) -> None:
        """Discard the unfinished listing of a stream that broke."""
        stream = self._streams.get(name)
        if stream is not None:
            stream.listed_uids, stream.uids_before = set(), set()

    def mark_forbidden(self, name: StreamName, reason: object) -> None:
        """Record that the API server forbids reading the stream's namespace."""
        kind, namespace = name
        now = self._clock()
        stream = self._streams.setdefault(name, _Stream(heard_at=now))
        if stream.forbidden_since is None:
            logger.warning("%s in %s can't be read, so jobs of this namespace are not reconciled: %s", kind, namespace, reason)
            stream.forbidden_since, stream.is_listed = now, False
        # Even a refusal shows that the API server is reachable.
        stream.heard_at, stream.listed_uids, stream.uids_before = now, set(), set()
        self._uncached_uids.get(name, set()).clear()
        if now - stream.forbidden_since >= FORGET_AFTER_SECONDS:
            for key in self._cache.prune(kind, namespace=namespace, listed_uids=(), known_uids=self._cache.uids(kind, namespace=namespace)):
                self._enqueue(key)

    def _finish_listing(self, name: StreamName, stream: _Stream) -> None:
        kind, namespace = name
        known_uids = stream.uids_before or set(self._cache.uids(kind, namespace=namespace))
        for key in self._cache.prune(kind, namespace=namespace, listed_uids=stream.listed_uids, known_uids=known_uids):
            self._enqueue(key)
        logger.info("%s in %s: %d listed", kind, namespace or "all namespaces", len(stream.listed_uids))
        stream.is_listed, stream.listed_uids, stream.uids_before = True, set(), set()
        if stream.is_forbidden:
            stream.forbidden_since = None
            for key in self._cache.keys_in(namespace):
                self._enqueue(key)


def wrap_kopf(
    streams: Streams, *, again_seconds: float = _RETRY_SECONDS, refused_seconds: float = _FORBIDDEN_RETRY_SECONDS
) -> Callable[[], None]:
    """Wrap the kopf function that runs every stream. Return a function that restores kopf's original function."""
    original = watching.infinite_watch

    @functools.wraps(original)
    async def infinite_watch(**kwargs: Any) -> AsyncIterator[Any]:  # Any, because the arguments are passed through
        resource, namespace = kwargs["resource"], kwargs["namespace"]
        name = (Kind(resource.plural), namespace) if resource.plural in WATCHED else None
        while True:
            try:
                async for event in original(**kwargs):
                    if not _has_identity(event):
                        logger.warning("%s: ignored an object without uid, name or namespace", resource)
                        continue
                    if name is not None:
                        streams.observe(name, event)
                    yield event
            except _STREAM_ERRORS as exc:
                is_forbidden = isinstance(exc, errors.APIForbiddenError | errors.APINotFoundError) and namespace is not None
                if is_forbidden and name is not None:
                    streams.mark_forbidden(name, exc)
                else:
                    if name is not None:
                        streams.reset(name)
                    where = namespace or "all namespaces"
                    logger.warning("the watch of %s in %s was interrupted and restarts: %s: %s", resource, where, type(exc).__name__, exc)
                await asyncio.sleep(refused_seconds if is_forbidden else again_seconds)
            else:
                return

    watching.infinite_watch = infinite_watch

    def unwrap() -> None:
        watching.infinite_watch = original

    return unwrap


# Any, because kopf yields either its own bookmark or an event as parsed JSON.
def _has_identity(event: Any) -> bool:
    """Return whether an event identifies its object.

    Bookmarks don't have to identify an object, so for a bookmark the result is always true.
    """
    if not isinstance(event, dict) or event.get("type") == "BOOKMARK":
        return True
    metadata = event["object"]["metadata"]
    return all(isinstance(metadata.get(key), str) for key in ("uid", "name", "namespace"))
