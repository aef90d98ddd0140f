"""Requests to stores that speak HTTP and XML, with retries. S3, Cloud Storage and Azure differ in how they sign them.

They use the standard library's client and keep connections, because the stores' own clients don't say whether an attempt is in doubt.
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

logger = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 3.0
ANSWER_SECONDS: Final = 60.0
ATTEMPTS: Final = 4

_IDLE_SECONDS = 10.0
"""Servers close idle connections; an older one isn't reused."""
_UNRESERVED = "/-_.~"
_RETRIED_STATUS = {408, 429, 500, 502, 503, 504}
_RETRIED_CODES = {
    *("InternalError", "SlowDown", "ServiceUnavailable", "RequestTimeout", "OperationAborted"),
    # The body was damaged or truncated in transit.
    *("BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "IncompleteBody", "Md5Mismatch"),
}
_CODE_HEADER = "x-ms-error-code"
"""The header in which Azure names an error without a body."""


@dataclass(frozen=True)
class Answer:
    """The server's answer. `code` is its error code, empty on success or if there is none."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    in_doubt: bool = False
    """An earlier attempt of the same request had no answer: it may have succeeded."""

    @property
    def ok(self) -> bool:
        """Success. S3 may answer 200 with a failure in the body."""
        return self.status // 100 == 2 and not self.code

    @property
    def code(self) -> str:
        """The store's error code."""
        return self._of_error("Code") or self.headers.get(_CODE_HEADER, "")

    @property
    def message(self) -> str:
        """The store's explanation."""
        said = (self._of_error("Message").partition("\n")[0], self._of_error("Details"))
        return " ".join(filter(None, said))

    def xml(self) -> ET.Element:
        """The body as a document."""
        try:
            return ET.fromstring(self.body)  # noqa: S314 - expat of today limits expansion, and the store is the user's own
        except ET.ParseError as exc:
            raise StoreError(
                f"The store answered what is not XML ({exc}): a key with control characters, or another service: {self.body[:200]!r}."
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
    """Where a bucket is."""

    scheme: str
    host: str
    port: int | None
    path: str
    """Before the key: `/bucket` in path style."""

    @property
    def netloc(self) -> str:
        """Host and, when it isn't the scheme's own, port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def peer(self) -> str:
        """Host and port, for messages."""
        return f"{self.host}:{self.port or (443 if self.scheme == 'https' else 80)}"


class Requests(ABC):
    """Requests to one bucket, from any thread; connections are kept for the next request and closed with this object."""

    def __init__(self, address: Address, *, service: str) -> None:
        self.address = address
        self.service = service
        """The store's name, for messages."""
        self._proxy = _proxy_for(address)
        self._idle: deque[tuple[float, http.client.HTTPConnection]] = deque()
        # A store is never closed: it serves its process to the end.
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
        """The answer, with retries after faults of the server or the network. Raises Unreachable, naming host and port."""
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
            raise Unreachable(f"{self.service} at {self.address.peer} failed {attempts} times: {fault}.")
        raise Unreachable(f"{self.service}: cannot connect to {self.address.peer}: {fault}.") from fault

    def _send_once(
        self, method: str, key: str, *, query: Mapping[str, str], headers: Mapping[str, str], body: bytes | memoryview
    ) -> Answer:
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
                # A server that refuses a body before reading all of it answers and closes. If there is no answer, reading it raises.
                broke = True
            with connection.getresponse() as response:
                content = response.read()
        except BaseException:
            connection.close()
            raise
        if response.will_close or broke:
            connection.close()
        else:
            self._idle.append((time.monotonic(), connection))
        found: dict[str, str] = {}
        for name, value in response.getheaders():
            found[name.lower()] = f"{found[name.lower()]}, {value}" if name.lower() in found else value
        return Answer(response.status, found, content)

    def path(self, key: str) -> str:
        """The path to request, unencoded; the empty key is the bucket itself."""
        return f"{self.address.path}/{key}"

    def question(self, query: Mapping[str, str]) -> str:
        """The query as it is sent."""
        return encoded(query)

    @abstractmethod
    def signed(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes | memoryview
    ) -> dict[str, str]:
        """The headers to send, including the credentials. `path` is encoded as it is sent, the query isn't."""

    def _connection(self) -> http.client.HTTPConnection:
        while self._idle:
            with contextlib.suppress(IndexError):  # another thread took the last
                since, held = self._idle.pop()
                if time.monotonic() - since < _IDLE_SECONDS:
                    return held
                held.close()
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
    """A connection to a server, through the proxy if one is given, with its two timeouts in seconds. Raises OSError."""
    there = (host, port) if proxy is None else (proxy.hostname or "", proxy.port)
    made: http.client.HTTPConnection
    if scheme == "https":
        made = http.client.HTTPSConnection(*there, timeout=connecting, context=ssl.create_default_context())
        if proxy is not None:
            made.set_tunnel(host, port)
    else:
        made = http.client.HTTPConnection(*there, timeout=connecting)
    made.connect()
    if made.sock is not None:
        made.sock.settimeout(answering)
    return made


def _close_all(idle: deque[tuple[float, http.client.HTTPConnection]]) -> None:
    while idle:
        idle.pop()[1].close()


def encoded(query: Mapping[str, str]) -> str:
    """A query as it is sent: sorted by name."""
    return "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in sorted(query.items()))


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="-_.~")


def _proxy_for(address: Address) -> urllib.parse.SplitResult | None:
    proxy = urllib.request.getproxies().get(address.scheme)
    if not proxy or urllib.request.proxy_bypass(address.netloc):
        return None
    return urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
