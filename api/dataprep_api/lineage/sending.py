"""Sends events to the address in OpenLineage's environment variables, in the background.

No event can fail a run, or delay it for long. Another thread posts the events, each request has a time limit, and `close` waits at most a
few seconds. An event that isn't delivered is logged as a warning.
"""

import json
import logging
import os
import queue
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from dataprep_api.lineage.events import Parent
from dataprep_api.redaction import for_display

logger = logging.getLogger(__name__)

URL: Final = "OPENLINEAGE_URL"
ENDPOINT: Final = "OPENLINEAGE_ENDPOINT"
NAMESPACE: Final = "OPENLINEAGE_NAMESPACE"
DISABLED: Final = "OPENLINEAGE_DISABLED"
KEY: Final = "OPENLINEAGE_API_KEY"
PARENT: Final = "OPENLINEAGE_PARENT_ID"
TRANSPORT: Final = "OPENLINEAGE__TRANSPORT__"
"""The prefix of the variables that describe the transport in newer versions of OpenLineage's clients."""
_REQUEST_SECONDS: Final = 3.0
_CLOSE_SECONDS: Final = 5.0
_MOST_WAITING: Final = 1000


@dataclass(frozen=True)
class Receiver:
    """Where events are sent."""

    url: str
    """The address of the server, without the endpoint."""
    endpoint: str = "api/v1/lineage"
    key: str | None = None
    namespace: str | None = None
    """The namespace of the jobs, or None if the environment names none."""
    parent: Parent | None = None


def receiver(environ: Mapping[str, str] = os.environ) -> Receiver | None:
    """Return the receiver that the environment names, or None. Invalid settings are logged as a warning, and no events are sent."""
    if environ.get(DISABLED, "").strip().lower() in ("true", "1"):
        return None
    url = environ.get(TRANSPORT + "URL") or environ.get(URL)
    transport = environ.get(TRANSPORT + "TYPE", "http").lower()
    if transport != "http":
        logger.warning("no lineage events are sent: expected http for %sTYPE, got %s", TRANSPORT, for_display(transport))
        return None
    if not url:
        return None
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        is_web = False
    if not is_web:
        logger.warning("no lineage events are sent: expected an http or https address without a user for %s, got %s", URL, for_display(url))
        return None
    return Receiver(
        url=url,
        endpoint=environ.get(TRANSPORT + "ENDPOINT") or environ.get(ENDPOINT) or Receiver.endpoint,
        key=_key(environ),
        namespace=environ.get(NAMESPACE) or None,
        parent=_parent(environ),
    )


def _key(environ: Mapping[str, str]) -> str | None:
    """Return the key for the header Authorization: `OPENLINEAGE_API_KEY`, or `apiKey` in the JSON of the transport's `AUTH`."""
    text = environ.get(TRANSPORT + "AUTH")
    if not text:
        return environ.get(TRANSPORT + "AUTH__APIKEY") or environ.get(KEY) or None
    try:
        auth = json.loads(text)
    except ValueError:
        auth = None
    key = (auth.get("apiKey") or auth.get("api_key")) if isinstance(auth, dict) else None
    if not isinstance(key, str):
        logger.warning('lineage events are sent without a key: expected {"type": "api_key", "apiKey": …} for %sAUTH', TRANSPORT)
        return None
    return key


def _parent(environ: Mapping[str, str]) -> Parent | None:
    """Return the parent run, which is written as `<namespace>/<job>/<run>`. The namespace may contain slashes."""
    text = environ.get(PARENT)
    if not text:
        return None
    before, _, run = text.rpartition("/")
    namespace, _, job = before.rpartition("/")
    try:
        run = str(uuid.UUID(run))
    except ValueError:
        run = ""
    if not (namespace and job and run):
        logger.warning(
            "lineage events have no parent run: expected <namespace>/<job>/<UUID of the run> for %s, got %s", PARENT, for_display(text)
        )
        return None
    return Parent(namespace, job, run)


class Sender:
    """Posts events from another thread, in the order of the calls of `send`. The thread starts with the first event."""

    def __init__(self, receiver: Receiver, *, request_seconds: float = _REQUEST_SECONDS, close_seconds: float = _CLOSE_SECONDS) -> None:
        self._receiver = receiver
        self._request_seconds = request_seconds
        self._close_seconds = close_seconds
        # A run has few events. An operator sends many, and needs the limit if the receiver doesn't respond.
        self._events: queue.Queue[Mapping[str, Any] | None] = queue.Queue(_MOST_WAITING)
        self._thread: threading.Thread | None = None

    def send(self, event: Mapping[str, Any]) -> None:
        """Queue the event for the thread that posts events."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="lineage", daemon=True)
            self._thread.start()
        try:
            self._events.put_nowait(event)
        except queue.Full:
            logger.warning("a lineage event (%s) was dropped, because too many are waiting for %s", event.get("eventType"), self._shown)

    def close(self) -> None:
        """Wait at most a few seconds for the events to be delivered."""
        if self._thread is None:
            return
        try:
            self._events.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(self._close_seconds)
        if self._thread.is_alive():
            logger.warning("lineage events were not delivered within %.0f s: %s doesn't answer", self._close_seconds, self._shown)

    @property
    def _shown(self) -> str:
        return for_display(self._receiver.url)

    def _loop(self) -> None:
        while (event := self._events.get()) is not None:
            try:
                self._post(event)
            except Exception as exc:  # no failure here may end the run
                logger.warning(
                    "a lineage event (%s) was not delivered to %s: %s", event.get("eventType"), self._shown, for_display(str(exc))
                )

    def _post(self, event: Mapping[str, Any]) -> None:
        # Not imported at the top, because most processes send no events.
        import urllib.request

        # Unlike OpenLineage's clients, this code doesn't retry, because an unreachable receiver must not delay a run.
        address = f"{self._receiver.url.rstrip('/')}/{self._receiver.endpoint.lstrip('/')}"
        headers = {"Content-Type": "application/json"}
        if self._receiver.key is not None:
            headers["Authorization"] = f"Bearer {self._receiver.key}"
        request = urllib.request.Request(address, json.dumps(event).encode(), headers, method="POST")  # noqa: S310 - see `receiver`
        with urllib.request.urlopen(request, timeout=self._request_seconds) as answer:  # noqa: S310 - see `receiver`
            answer.read(1)
