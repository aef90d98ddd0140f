"""Fetches temporary credentials over HTTP from the token services of AWS, Google and Azure, and refreshes them before they expire."""

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
"""Credentials are refreshed this long before they expire."""
_NEARLY: Final = timedelta(minutes=1)
"""If the current credentials are valid for longer than this, a failed refresh is only logged. Otherwise, a failed refresh is an error."""
_TIMEOUT_SECONDS: Final = 5.0


class _ExpiringCredentials(Protocol):
    @property
    def expires(self) -> datetime | None: ...


C = TypeVar("C", bound=_ExpiringCredentials)


class CachedCredentials(Generic[C]):
    """The current credentials of one store. Safe to use from several threads."""

    def __init__(self, fetch: Callable[[], C], *, service: str) -> None:
        self._fetch = fetch
        self._service = service
        self._lock = threading.Lock()
        self._credentials: C | None = None

    def current(self) -> C:
        """Returns the credentials, refreshed if needed. Raises any error that `fetch` raises."""
        with self._lock:
            now = datetime.now(UTC)
            if self._credentials is None or (self._credentials.expires is not None and self._credentials.expires - EARLY < now):
                try:
                    self._credentials = self._fetch()
                except (BadCredentials, Unreachable) as exc:
                    if self._credentials is None or self._credentials.expires is None or self._credentials.expires - _NEARLY < now:
                        raise
                    logger.warning("could not refresh the credentials of %s yet: %s", self._service, exc)
            return self._credentials


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
    """Returns the body of the service's response.

    Raises BadCredentials, with `what` and the hint, if the service refuses the request. Raises Unreachable, with the service's host, if the
    service fails or can't be reached.
    """
    request = urllib.request.Request(url, data=body, headers=dict(headers or {}), method=method)  # noqa: S310 - the environment's own addresses
    try:
        with urllib.request.urlopen(request, timeout=timeout_seconds) as answer:  # noqa: S310 - see above
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as exc:
        with exc:
            reason = f"{exc.code} {' '.join(exc.read()[:300].decode(errors='replace').split())}"
            if exc.code in (408, 429) or exc.code >= 500:
                raise Unreachable(f"{urllib.parse.urlsplit(url).netloc} failed to provide the credentials of {what}: {reason}.") from exc
            raise BadCredentials(f"No credentials for {what}: {reason}. {hint}".rstrip()) from exc
    except (OSError, http.client.HTTPException) as exc:
        raise Unreachable(f"cannot connect to {urllib.parse.urlsplit(url).netloc} to get the credentials of {what}: {exc}.") from exc
