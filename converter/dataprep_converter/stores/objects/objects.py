"""Object stores: the common part of S3, Cloud Storage and Azure. obstore reads objects; our own requests write, list and delete them.

Each store has its own file with a `Bucket` and a `Transfer`, which define how a bucket is addressed, listed and written, and how requests
are signed. An object isn't visible until its upload is completed. Completion is conditional, so that exactly one of several writers
succeeds.
"""

# The public methods are documented on the classes `Store`, `Upload` and `Input`, in `stores/__init__.py`.
# ruff: noqa: D102

import contextlib
import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol

import obstore
from obstore.exceptions import BaseError, InvalidPathError, PreconditionError, UnauthenticatedError

from dataprep_api.spec import HdfsOptions
from dataprep_converter.core.errors import BadCredentials, ConvertError, InputChanged, NotFound, StoreError, Unreachable
from dataprep_converter.runtime.request_budget import RequestBudget
from dataprep_converter.runtime.retry import retrying
from dataprep_converter.stores import Entry, StoreSettings
from dataprep_converter.stores.digests import checked
from dataprep_converter.stores.objects.parts import IN_FLIGHT, Parts, part_bytes_for
from dataprep_converter.stores.ranged import ParallelInput
from dataprep_converter.stores.store_requests import ANSWER_SECONDS, CONNECT_SECONDS, Answer, Requests

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult  # known to type checkers only
    from obstore.store import ClientConfig, RetryConfig
    from obstore.store import ObjectStore as Client

_STREAM_BYTES: Final = 4 << 20


class Transfer(Protocol):
    """One multipart upload in progress."""

    def begin(self) -> None:
        """Starts the upload. Called once, before the first part is sent."""
        ...

    def send(self, number: int, data: memoryview) -> str:
        """Sends a part and returns its tag, which `complete` needs. Parts are numbered from 1.

        May be called from any thread.
        """
        ...

    def hold(self) -> None:
        """Called after the last part if `complete` isn't called immediately. A later sweep makes `complete` fail (see `Upload.stage`)."""
        ...

    def complete(self, tags: list[str], *, size: int, replace: bool) -> Entry:
        """Joins the parts into the object and makes it visible. Raises AlreadyExists, like `Upload.commit`."""
        ...

    def drop(self) -> None:
        """Discards the parts that were sent. Never raises."""
        ...


class Bucket(ABC):
    """One bucket or container, accessed by our own requests and, for reading, by obstore's client."""

    def __init__(self, root: str, name: str, *, requests: Requests, client: "Client") -> None:
        self.root = root
        """The part of a URI before the key: `s3://bucket/`."""
        self.name = name
        self.requests = requests
        self.client = client
        self.peer = requests.address.peer

    @abstractmethod
    def list_objects(self, uri: str, prefix: str, *, recursive: bool) -> Iterator[Entry]:
        """Yields the objects whose keys begin with the prefix, in UTF-8 byte order.

        The prefix is empty or ends with a slash. An entry's URI is `uri`, a slash, and the key without the prefix.
        """

    @abstractmethod
    def look(self, uri: str, key: str) -> tuple[Entry, str] | None:
        """Returns the object's entry and a hexadecimal digest that is, or may be, its MD5 (see `digests`).

        Returns None if there is no object.
        """

    @abstractmethod
    def put(self, uri: str, key: str, data: bytes, *, replace: bool) -> Entry:
        """Writes an object in one request. Unless `replace` is set, the request succeeds only if no object has this name."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Removes one object. Does nothing if the object is absent."""

    @abstractmethod
    def sweep(self, uri: str, prefix: str) -> int:
        """Implements `Store.sweep`. `prefix` is the folder's prefix."""

    def warnings(self) -> Sequence[str]:
        """Implements `HasWarnings.warnings`."""
        return []

    @abstractmethod
    def transfer(self, uri: str, key: str) -> Transfer:
        """Returns a new multipart upload."""

    @abstractmethod
    def error(self, status: int, code: str, message: str, key: str, *, doing: str) -> ConvertError:
        """Returns the error for a request that the store refused. `doing` is one of write, read, list, delete and sweep."""

    def get(self, key: str) -> tuple[bytes, str]:
        """Returns the bytes of a complete object, and the same digest as `look`."""
        result = self.fetch(key, {})
        return bytes(result.bytes()), unquoted(result.meta["e_tag"])

    def fetch(self, key: str, options: "GetOptions") -> "GetResult":
        """Waits until the request budget allows another request, and then requests an object through obstore.

        Call this method within `border`.
        """
        sent_at = self.requests.budget.wait_turn()
        try:
            return obstore.get(self.client, key, options=options)
        except (BaseError, OSError, ValueError) as exc:
            if (status := _STATUS.search(str(exc))) is not None:
                self.requests.budget.answered(int(status[1] or status[2]), sent_at=sent_at)
            raise

    def refusal(self, answer: Answer, key: str, *, doing: str) -> ConvertError:
        """Returns the error for an unsuccessful response."""
        return self.error(answer.status, answer.code, answer.message, key, doing=doing)

    @contextlib.contextmanager
    def border(self, key: str, *, doing: str) -> Iterator[None]:
        """Wraps every obstore call and translates its errors."""
        uri = f"{self.root}{key}"
        try:
            yield
        except PreconditionError as exc:
            raise InputChanged(f"{uri} has been replaced since it was listed.", uri=uri) from exc
        except UnauthenticatedError as exc:
            if (status := _STATUS.search(str(exc))) is not None:
                raise self._error_of(status, str(exc), key, doing=doing) from exc
            # Without a status, an UnauthenticatedError contains the text of the credential chain's error.
            raise BadCredentials(_line(str(exc)).rpartition("BadCredentials: ")[2]) from exc
        except (BaseError, OSError, ValueError) as exc:
            text = str(exc)
            if (status := _STATUS.search(text)) is not None:
                raise self._error_of(status, text, key, doing=doing) from exc
            if isinstance(exc, FileNotFoundError):
                raise NotFound(f"{uri} does not exist.", uri=uri) from exc
            if isinstance(exc, InvalidPathError | ValueError):
                raise StoreError(f"{uri} is not a name that this client can open: {_line(text)}.") from exc
            raise Unreachable(f"{self.requests.service}: cannot connect to {self.peer}: {_line(text)}.") from exc

    def _error_of(self, status: re.Match[str], text: str, key: str, *, doing: str) -> ConvertError:
        code, message = _CODE.search(text), _MESSAGE.search(text)
        number = int(status[1] or status[2])
        return self.error(number, code[1] if code else "", message[1].strip() if message else "", key, doing=doing)


class ObjectStore(ABC):
    """A store of objects in buckets. Each URI names its bucket."""

    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings
        self.budget = settings.budget or RequestBudget(name=settings.uri_prefix)
        self._threads: ThreadPoolExecutor | None = None

    @abstractmethod
    def place(self, uri: str) -> tuple[Bucket, str]:
        """Returns the bucket and the key. Raises BadSpec if the URI names no bucket."""

    def list(self, uri: str, *, recursive: bool = True) -> Iterator[Entry]:
        bucket, key = self.place(uri)
        yield from bucket.list_objects(uri.rstrip("/"), as_folder(key), recursive=recursive)

    def stat(self, uri: str) -> Entry | None:
        bucket, key = self.place(uri)
        result = bucket.look(uri, key)
        return None if result is None else result[0]

    def open(self, uri: str) -> "ObjectInput":
        bucket, key = self.place(uri)
        result = bucket.look(uri, key)
        if result is None:
            raise NotFound(f"{uri} does not exist.", uri=uri)
        return ObjectInput(bucket, key, *result)

    def get(self, uri: str) -> bytes:
        bucket, key = self.place(uri)

        def attempt() -> bytes:
            with bucket.border(key, doing="read"):
                return checked(lambda: bucket.get(key), uri=uri)

        return retrying(attempt, what=f"reading {uri}")

    def create(self, uri: str, *, size_hint: int | None = None, hdfs: HdfsOptions | None = None) -> "ObjectUpload":  # noqa: ARG002 - not HDFS
        bucket, key = self.place(uri)
        return ObjectUpload(uri, bucket, key, bucket.transfer(uri, key), self.threads(), size_hint=size_hint)

    def threads(self) -> ThreadPoolExecutor:
        """Returns the threads that send parts."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="part")
        return self._threads

    def put(self, uri: str, data: bytes, *, replace: bool = True, hdfs: HdfsOptions | None = None) -> Entry:  # noqa: ARG002 - see create
        bucket, key = self.place(uri)
        return bucket.put(uri, key, data, replace=replace)

    def delete(self, uri: str) -> None:
        bucket, key = self.place(uri)
        bucket.delete(key)

    def sweep(self, uri: str) -> int:
        bucket, key = self.place(uri)
        return bucket.sweep(uri, as_folder(key))

    def warnings(self, uri: str) -> Sequence[str]:
        return self.place(uri)[0].warnings()


class ObjectUpload:
    """A multipart upload, which starts when the second part begins. An object of one part is written at commit, with one conditional
    PUT."""

    blocks = False

    def __init__(
        self, uri: str, bucket: Bucket, key: str, transfer: Transfer, threads: ThreadPoolExecutor, *, size_hint: int | None = None
    ) -> None:
        self.uri = uri
        self._bucket = bucket
        self._key = key
        self._transfer = transfer
        self._ended = False
        self._parts = Parts(begin=self._transfer.begin, send=self._transfer.send, threads=threads, part_bytes=part_bytes_for(size_hint))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._ended:
            raise ValueError(f"{self.uri}: the upload has ended.")
        self._parts.write(data)

    def copy(self, size: int, copy: Callable[[int, range | None], str]) -> None:
        """Makes the store copy all bytes of another object into this upload. Called instead of `write`. See `Parts.copy`."""
        self._parts.copy(size, copy)

    def stage(self) -> None:
        if self._ended:
            raise ValueError(f"{self.uri}: the upload has ended.")
        self._parts.finish()
        self._transfer.hold()

    def commit(self, *, replace: bool) -> Entry:
        if self._ended:
            raise ValueError(f"{self.uri}: the upload has ended.")
        if self._parts.begun:
            entry = self._transfer.complete(self._parts.finish(), size=self._parts.size, replace=replace)
        else:
            entry = self._bucket.put(self.uri, self._key, bytes(self._parts.rest), replace=replace)
        self._ended = True
        return entry

    def abort(self) -> None:
        if self._ended:
            return
        self._parts.cancel()
        if self._parts.begun:
            self._transfer.drop()
        self._ended = True


class ObjectInput(ParallelInput):
    """Reads ranges of one object, in the version that was opened."""

    step = _STREAM_BYTES

    def __init__(self, bucket: Bucket, key: str, entry: Entry, digest: str) -> None:
        super().__init__(entry, digest=digest, is_limited=bucket.requests.budget.is_limited)
        self._bucket = bucket
        self._key = key

    def read_at(self, offset: int, length: int) -> bytes:
        count = max(0, min(length, self.size - offset))
        if count == 0:
            return b""

        def attempt() -> bytes:
            def read() -> tuple[bytes, str]:
                return bytes(self._range(offset, offset + count).bytes()), self._digest

            with self._bucket.border(self._key, doing="read"):
                return checked(read, uri=self.uri) if count == self.size else read()[0]

        piece = retrying(attempt, what=f"reading {self.uri}")
        if len(piece) != count:
            raise InputChanged(f"{self.uri} shrank while it was being read: got {len(piece)} of {count} bytes at {offset}.", uri=self.uri)
        return piece

    def _pieces(self, offset: int, end: int) -> Iterator[bytes]:
        bucket = self._bucket
        with bucket.border(self._key, doing="read"):
            pieces = iter(self._range(offset, end).stream(min_chunk_size=_STREAM_BYTES))
        while True:
            with bucket.border(self._key, doing="read"):
                piece = next(pieces, None)
            if piece is None:
                break
            offset += len(piece)
            yield bytes(piece)
        if offset < end:
            raise Unreachable(
                f"{bucket.requests.service} at {bucket.peer} sent {self.uri} only up to byte {offset} instead of {end}.", uri=self.uri
            )

    def _range(self, offset: int, end: int) -> "GetResult":
        return self._bucket.fetch(self._key, {"range": (offset, end), "if_match": f'"{self._entry.pin}"'})


def client_options(scheme: str) -> "ClientConfig":
    """Returns the timeouts to set for obstore's clients."""
    return {
        "allow_http": scheme == "http",
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "read_timeout": timedelta(seconds=ANSWER_SECONDS),
        # `timeout` covers the complete body, which may be large and read slowly.
        "timeout": timedelta(hours=12),
    }


def retry_config() -> "RetryConfig":
    """Returns the retry settings for obstore's clients. The clients never retry, because their retries would ignore the request budget.
    Instead, `retrying` repeats the clients' calls."""
    return {"max_retries": 0}


def as_folder(key: str) -> str:
    """Returns the prefix of the keys below a folder, or the empty string for the complete bucket."""
    return f"{key.rstrip('/')}/" if key.rstrip("/") else ""


def unquoted(tag: str | None) -> str:
    """Returns an ETag without quotes, as used in pins."""
    return (tag or "").strip('"')


def is_written(existing: tuple[Entry, str], data: bytes) -> bool:
    """Returns whether an object has the size and the MD5 of these bytes. `existing` is the result of `Bucket.look`."""
    entry, md5 = existing
    return entry.size == len(data) and md5 == hashlib.md5(data, usedforsecurity=False).hexdigest()


_STATUS = re.compile(r"status code: (\d{3})|status: (\d{3})")
_CODE = re.compile(r"<Code>([^<]*)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")


def _line(text: str) -> str:
    """Returns obstore's message without the debug output that follows it."""
    return text.partition("\n")[0].strip().rstrip(".")
