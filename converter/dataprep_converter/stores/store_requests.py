"""Requests to stores that speak HTTP and XML, with retries. S3, Cloud Storage and Azure differ in how requests are signed.

Requests use the standard library's HTTP client with persistent connections. The stores' own clients aren't used, because they don't report
whether an attempt that got no response may have succeeded.
"""

import contextlib
import http.client
import logging
import random
import ssl
import time
import urllib.parse
import urllib.request
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree as ET

from dataprep_converter.core.errors import StoreError, Unreachable
from dataprep_converter.runtime.request_budget import RequestBudget

logger = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 3.0
ANSWER_SECONDS: Final = 60.0
ATTEMPTS: Final = 4

_IDLE_SECONDS = 10.0
"""A connection that has been idle for longer than this isn't reused, because servers close idle connections."""
_UNRESERVED = "/-_.~"
_RETRIED_STATUS = {408, 429, 500, 502, 503, 504}
_RETRIED_CODES = {
    *("InternalError", "SlowDown", "ServiceUnavailable", "RequestTimeout", "OperationAborted"),
    # The body was damaged or truncated in transit.
    *("BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "IncompleteBody", "Md5Mismatch"),
}
_CODE_HEADER = "x-ms-error-code"
"""The header in which Azure sends the error code if the response has no body."""


@dataclass(frozen=True)
class Answer:
    """The server's response. `code` is the error code in the response, or an empty string."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    in_doubt: bool = False
    """Whether an earlier attempt at the same request may have succeeded, because it got no response or a server error."""

    @property
    def ok(self) -> bool:
        """Whether the request succeeded. S3 can respond with status 200 and an error in the body."""
        return self.status // 100 == 2 and not self.code

    @property
    def code(self) -> str:
        """The store's error code."""
        return self._of_error("Code") or self.headers.get(_CODE_HEADER, "")

    @property
    def message(self) -> str:
        """The store's explanation."""
        lines = (self._of_error("Message").partition("\n")[0], self._of_error("Details"))
        return " ".join(filter(None, lines))

    def xml(self) -> ET.Element:
        """Parses the body as an XML document."""
        try:
            return ET.fromstring(self.body)  # noqa: S314 - current versions of expat limit entity expansion, and the store is the user's own
        except ET.ParseError as exc:
            raise StoreError(
                f"The store's response is not XML ({exc}): a key contains control characters, or the endpoint belongs to another service: {self.body[:200]!r}."
            ) from exc

    def _of_error(self, name: str) -> str:
        if b"<Error" not in self.body[:512]:
            return ""
        try:
            root = self.xml()
        except StoreError:
            return ""
        return (root.findtext(f"{{*}}{name}") or "") if root.tag.rpartition("}")[2] == "Error" else ""


@dataclass(frozen=True)
class Address:
    """The address of a bucket."""

    scheme: str
    host: str
    port: int | None
    path: str
    """The part of the path before the key: `/bucket` in path style."""

    @property
    def netloc(self) -> str:
        """The host, and the port if one is given."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def peer(self) -> str:
        """Host and port as shown in messages."""
        return f"{self.host}:{self.port or (443 if self.scheme == 'https' else 80)}"


class Requests(ABC):
    """Sends requests to one bucket, from any thread. Connections are kept for later requests until this object is garbage-collected."""

    def __init__(self, address: Address, *, service: str) -> None:
        self.address = address
        self.service = service
        """The store's name as shown in messages."""
        self.budget = RequestBudget(name=address.peer)
        """The budget for this process's requests. The store replaces it if several buckets share a budget."""
        self._proxy = _proxy_for(address)
        self._idle: deque[tuple[float, http.client.HTTPConnection]] = deque()
        # A store has no `close` method, because it is used until its process ends. Its connections are closed when this object is
        # garbage-collected.
        weakref.finalize(self, _close_all, self._idle)

    def send(
        self,
        method: str,
        key: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | memoryview = b"",
        attempts: int | None = None,
    ) -> Answer:
        """Sends a request and returns the response.

        Retries after server and network faults. If the last attempt fails, raises Unreachable, with host and port.
        """
        attempts = attempts or ATTEMPTS
        in_doubt = False
        fault: Exception | None = None
        for attempt in range(attempts):
            if attempt:
                time.sleep(min(0.2 * 2**attempt, 3.0) * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            try:
                answer = self._send_once(method, key, query=query or {}, headers=headers or {}, body=body)
            except (OSError, http.client.HTTPException) as exc:
                fault = exc
                in_doubt = in_doubt or not isinstance(exc, ConnectionRefusedError)
                logger.debug("%s %s: attempt %d: %s", method, key, attempt + 1, exc)
                continue
            if answer.status in _RETRIED_STATUS or answer.code in _RETRIED_CODES:
                fault = Unreachable(f"{answer.status} {answer.code} {answer.message}".strip())
                in_doubt = True
                continue
            return Answer(answer.status, answer.headers, answer.body, in_doubt)
        if isinstance(fault, Unreachable):
            raise Unreachable(f"{self.service} at {self.address.peer} failed {attempts} time{'s' * (attempts != 1)}: {fault}.")
        raise Unreachable(f"{self.service}: cannot connect to {self.address.peer}: {fault}.") from fault

    def _send_once(
        self, method: str, key: str, *, query: Mapping[str, str], headers: Mapping[str, str], body: bytes | memoryview
    ) -> Answer:
        # Wait before signing, because a signature contains the time.
        sent_at = self.budget.wait_turn()
        path = urllib.parse.quote(self.path(key), safe=_UNRESERVED)
        question = self.question(query)
        signed = self.signed(method, path, query, headers, body)
        target = f"{path}?{question}" if question else path
        if self._proxy and self.address.scheme == "http":
            target = f"http://{self.address.netloc}{target}"
        connection = self._connection()
        broke = False
        try:
            try:
                connection.request(method, target, body=body or None, headers=signed)
            except (BrokenPipeError, ConnectionResetError):
                # If a server refuses a request before it has read the complete body, it sends a response and closes the connection. If
                # there is no response, `getresponse` raises an error.
                broke = True
            with connection.getresponse() as response:
                self.budget.answered(response.status, sent_at=sent_at)
                content = response.read()
        except BaseException:
            connection.close()
            raise
        if response.will_close or broke:
            connection.close()
        else:
            self._idle.append((time.monotonic(), connection))
        answer_headers: dict[str, str] = {}
        for name, value in response.getheaders():
            answer_headers[name.lower()] = f"{answer_headers[name.lower()]}, {value}" if name.lower() in answer_headers else value
        return Answer(response.status, answer_headers, content)

    def path(self, key: str) -> str:
        """Returns the path to request, without percent-encoding. An empty key means the bucket itself."""
        return f"{self.address.path}/{key}"

    def question(self, query: Mapping[str, str]) -> str:
        """Returns the encoded query."""
        return encoded(query)

    @abstractmethod
    def signed(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes | memoryview
    ) -> dict[str, str]:
        """Returns the headers to send, including the credentials. `path` is already percent-encoded; `query` is not encoded yet."""

    def _connection(self) -> http.client.HTTPConnection:
        while self._idle:
            with contextlib.suppress(IndexError):  # another thread took the last connection
                since, connection = self._idle.pop()
                if time.monotonic() - since < _IDLE_SECONDS:
                    return connection
                connection.close()
        address = self.address
        return connected(
            address.scheme, address.host, address.port, connecting=CONNECT_SECONDS, answering=ANSWER_SECONDS, proxy=self._proxy
        )


def connected(
    scheme: str,
    host: str,
    port: int | None,
    *,
    connecting: float,
    answering: float,
    proxy: urllib.parse.SplitResult | None = None,
) -> http.client.HTTPConnection:
    """Opens a connection to a server, through the proxy if one is given.

    `connecting` and `answering` are timeouts in seconds. Raises OSError.
    """
    peer = (host, port) if proxy is None else (proxy.hostname or "", proxy.port)
    connection: http.client.HTTPConnection
    if scheme == "https":
        connection = http.client.HTTPSConnection(*peer, timeout=connecting, context=ssl.create_default_context())
        if proxy is not None:
            connection.set_tunnel(host, port)
    else:
        connection = http.client.HTTPConnection(*peer, timeout=connecting)
    connection.connect()
    if connection.sock is not None:
        connection.sock.settimeout(answering)
    return connection


def _close_all(idle: deque[tuple[float, http.client.HTTPConnection]]) -> None:
    while idle:
        idle.pop()[1].close()


def encoded(query: Mapping[str, str]) -> str:
    """Returns the encoded query, with its parameters sorted by name."""
    return "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in sorted(query.items()))


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="-_.~")


def _proxy_for(address: Address) -> urllib.parse.SplitResult | None:
    proxy = urllib.request.getproxies().get(address.scheme)
    if not proxy or urllib.request.proxy_bypass(address.netloc):
        return None
    return urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
