"""Web addresses, `http://` and `https://`.

Web addresses can only be sources, and are read with range requests. The web has no folders, so jobs name each file.

An address is used as written, including its query and percent signs. Signatures stay in the job's spec: inputs and plans name a file
without its signature, and the signature is added to each request. The pin of an input is its ETag or, without an ETag, its size and
Last-Modified. Every response is compared with the pin.
"""

# The public methods are documented on the classes `Store` and `Input`, in `__init__.py`.
# ruff: noqa: D102

import contextlib
import http.client
import logging
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Final, Protocol

from dataprep_api.redaction import unsigned
from dataprep_converter.core.errors import BadSpec, ConvertError, InputChanged, NotFound, NotPermitted, StoreError, Unreachable
from dataprep_converter.runtime.request_budget import RequestBudget
from dataprep_converter.runtime.retry import retrying
from dataprep_converter.stores import Details, Entry, StoreSettings
from dataprep_converter.stores.ranged import RangedInput
from dataprep_converter.stores.read_only import ReadOnlyStore

logger = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 60.0
_PIECE: Final = 4 << 20
_WITHOUT_HEAD: Final = (400, 403, 405, 501)
"""Servers that only support GET refuse HEAD with one of these statuses.

A HEAD request to an address that was signed for GET also gets one of these statuses.
"""
_AS_WRITTEN: Final = "!#$%&'()*+,/:;=?@[]~"


class _Body(Protocol):
    """A urllib response."""

    status: int
    headers: Message

    def read(self, amount: int, /) -> bytes: ...


class HttpStore(ReadOnlyStore):
    """Any web server."""

    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings
        self._budget = settings.budget or RequestBudget(name=settings.uri_prefix)

    def list(self, uri: str, *, recursive: bool = True) -> Iterator[Entry]:  # noqa: ARG002 - there is nothing to list
        raise NotFound(
            f"{_without_secrets(uri)} is not a file on the server, and web folders can't be listed: name each file by its own address.",
            uri=uri,
        )
        yield  # makes this function a generator, like `list` of other stores

    def stat(self, uri: str) -> Entry | None:
        def attempt() -> Entry | None:
            try:
                return _look(uri, self._address(uri), self._budget)
            except NotFound:
                return None

        return retrying(attempt, what=f"looking at {_without_secrets(uri)}")

    def open(self, uri: str) -> "HttpInput":
        entry = self.stat(uri)
        if entry is None:
            raise NotFound(f"{_without_secrets(uri)} does not exist.", uri=uri)
        return HttpInput(entry, self._address(uri), self._budget)

    def _address(self, uri: str) -> str:
        """Returns the address to request. If the job's spec has a signature for this address, the signature is included.

        Plans made by older releases contain the signature from the time of planning. This signature is replaced.
        """
        return self.settings.signed.get(unsigned(uri), uri)

    def refusal(self, uri: str) -> BadSpec:
        return BadSpec(
            f"{_without_secrets(uri)}: nothing can be written to the web; http:// and https:// are for sources. Name a folder of another store."
        )


class HttpInput(RangedInput):
    """Reads ranges of one file, in the version that was opened."""

    step = _PIECE

    def __init__(self, entry: Entry, address: str, budget: RequestBudget) -> None:
        super().__init__(entry)
        self._address = address
        self._budget = budget

    @property
    def shown(self) -> str:
        return _without_secrets(self.uri)

    def read_at(self, offset: int, length: int) -> bytes:
        end = offset + max(0, min(length, self.size - offset))
        return retrying(lambda: b"".join(self._pieces(offset, end)), what=f"reading {self.shown}")

    def _pieces(self, offset: int, end: int) -> Iterator[bytes]:
        """Yields all the bytes from `offset` to `end`. Raises Unreachable if the connection breaks."""
        if offset >= end:
            return
        with _request(self._address, "GET", {"Range": f"bytes={offset}-{end - 1}"}, self._budget) as answer:
            self._check(answer)
            # A server that doesn't support ranges sends the complete file. Skip the bytes before the range.
            skipped = offset if answer.status != http.client.PARTIAL_CONTENT else 0
            while skipped:
                skipped -= len(_read(answer, min(_PIECE, skipped), self.uri))
            while offset < end:
                piece = _read(answer, min(_PIECE, end - offset), self.uri)
                offset += len(piece)
                yield piece

    def _check(self, answer: _Body) -> None:
        if _entry(self.uri, answer) != self._entry:
            raise InputChanged(f"{_without_secrets(self.uri)} has been replaced since it was listed.", uri=self.uri)


def _look(uri: str, address: str, budget: RequestBudget) -> Entry:
    try:
        with _request(address, "HEAD", {}, budget) as answer:
            if answer.headers["Content-Length"] is not None:
                return _entry(uri, answer)
    except StoreError as exc:
        status = exc.__cause__.code if isinstance(exc.__cause__, urllib.error.HTTPError) else None
        if status not in _WITHOUT_HEAD:
            raise
    with _request(address, "GET", {"Range": "bytes=0-0"}, budget) as answer:
        return _entry(uri, answer)


def _entry(uri: str, answer: _Body) -> Entry:
    headers = answer.headers
    # The response to a range request contains `bytes 0-0/1234`.
    size = headers["Content-Range"].rpartition("/")[2] if headers["Content-Range"] is not None else headers["Content-Length"]
    if size is None or not size.isdigit():
        raise StoreError(
            f"{_without_secrets(uri)}: the server doesn't report the file's size, "
            "so the file can't be read with range requests; copy the file to a store.",
            uri=uri,
        )
    modified = headers["Last-Modified"]
    tag = headers["ETag"]
    return Entry(uri=uri, size=int(size), pin=tag if tag is not None else f"{size}-{modified or ''}", details=_details(modified))


def _details(modified: str | None) -> Details:
    with contextlib.suppress(ValueError):
        if modified is not None:
            return Details(modified=parsedate_to_datetime(modified).timestamp())
    return Details(modified=0.0)


@contextlib.contextmanager
def _request(uri: str, method: str, headers: dict[str, str], budget: RequestBudget) -> Iterator[_Body]:
    """Yields the response, after redirects. Translates errors that occur in the request and while the response is read."""
    parts = urllib.parse.urlsplit(uri)
    if "@" in parts.netloc:
        raise BadSpec(f"An address must not contain a user and a password: {_without_secrets(uri)}.")
    address = urllib.parse.quote(uri.partition("#")[0], safe=_AS_WRITTEN)
    # If the file were compressed in transit, its size and ranges would refer to the compressed data.
    request = urllib.request.Request(address, method=method, headers={"Accept-Encoding": "identity", "User-Agent": "dataprep", **headers})  # noqa: S310 - scheme_of saw http or https
    sent_at = budget.wait_turn()
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310 - see above
            yield answer
    except urllib.error.HTTPError as exc:
        budget.answered(exc.code, sent_at=sent_at)
        with exc:
            raise _refusal(exc, uri) from exc
    except (OSError, http.client.HTTPException) as exc:
        reason = getattr(exc, "reason", None) or exc
        raise Unreachable(
            f"HTTP: cannot connect to {parts.netloc}, or the connection broke at {_without_secrets(uri)}: {reason}.", uri=uri
        ) from exc


def _read(answer: _Body, amount: int, uri: str) -> bytes:
    piece = answer.read(amount)
    if not piece:
        raise Unreachable(f"{_without_secrets(uri)}: the response ended too early.", uri=uri)
    return piece


def _refusal(error: urllib.error.HTTPError, uri: str) -> ConvertError:
    reason = f"{error.code} {error.reason}"
    if error.code in (404, 410):
        return NotFound(f"{_without_secrets(uri)} does not exist: {reason}.", uri=uri)
    if error.code in (401, 403, 407):
        return NotPermitted(f"Reading {_without_secrets(uri)} isn't permitted: {reason}.", uri=uri)
    if error.code in (412, 416):
        return InputChanged(f"{_without_secrets(uri)} has been replaced since it was listed: {reason}.", uri=uri)
    if error.code // 100 == 5 or error.code in (408, 425, 429):
        return Unreachable(f"HTTP: {urllib.parse.urlsplit(uri).netloc} failed at {_without_secrets(uri)}: {reason}.", uri=uri)
    return StoreError(f"{_without_secrets(uri)} was refused: {reason}.", uri=uri)


def _without_secrets(uri: str) -> str:
    """Returns the address without its query, which may contain a signature, and without a user's name and password."""
    parts = urllib.parse.urlsplit(uri)
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
