"""Token services, which issue temporary credentials over HTTP: asked, and asked again before those expire. For AWS, Google and Azure."""

import http.client
import logging
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, Generic, Protocol, TypeVar

from dataprep_converter.core.errors import BadCredentials, Unreachable

logger = logging.getLogger(__name__)

EARLY: Final = timedelta(minutes=5)
"""How long before they expire credentials are refreshed."""
_NEARLY: Final = timedelta(minutes=1)
"""How long before they expire a service that doesn't answer becomes an error."""
_TIMEOUT_SECONDS: Final = 5.0


class _ExpiringCredentials(Protocol):
    @property
    def expires(self) -> datetime | None: ...


C = TypeVar("C", bound=_ExpiringCredentials)


class CachedCredentials(Generic[C]):
    """The current credentials of one store. Used by several threads."""

    def __init__(self, fetch: Callable[[], C], *, of: str) -> None:
        self._fetch = fetch
        self._of = of
        self._lock = threading.Lock()
        self._held: C | None = None

    def current(self) -> C:
        """The credentials, refreshed if needed. Raises what fetching raises."""
        with self._lock:
            now = datetime.now(UTC)
            if self._held is None or (self._held.expires is not None and self._held.expires - EARLY < now):
                try:
                    self._held = self._fetch()
                except (BadCredentials, Unreachable) as exc:
                    if self._held is None or self._held.expires is None or self._held.expires - _NEARLY < now:
                        raise
                    logger.warning("the credentials of %s could not be fetched anew yet: %s", self._of, exc)
            return self._held


def ask(
    url: str,
    *,
    what: str,
    hint: str = "",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    method: str | None = None,
    timeout_seconds: float = _TIMEOUT_SECONDS,
) -> bytes:
    """The body of the answer. Raises BadCredentials, with `what` and the hint, if the service refuses; Unreachable, naming its host."""
    request = urllib.request.Request(url, data=body, headers=dict(headers or {}), method=method)  # noqa: S310 - the environment's own addresses
    try:
        with urllib.request.urlopen(request, timeout=timeout_seconds) as answer:  # noqa: S310 - see above
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as exc:
        with exc:
            said = f"{exc.code} {' '.join(exc.read()[:300].decode(errors='replace').split())}"
            if exc.code in (408, 429) or exc.code >= 500:
                raise Unreachable(f"{urllib.parse.urlsplit(url).netloc} failed for the credentials of {what}: {said}.") from exc
            raise BadCredentials(f"No credentials for {what}: {said}. {hint}".rstrip()) from exc
    except (OSError, http.client.HTTPException) as exc:
        raise Unreachable(f"cannot connect to {urllib.parse.urlsplit(url).netloc} for the credentials of {what}: {exc}.") from exc
