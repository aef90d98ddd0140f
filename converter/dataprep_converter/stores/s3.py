"""S3 and what speaks like it: obstore reads; `s3_requests` writes, lists and deletes.

Nothing is visible before an upload is completed, and completion takes If-None-Match, so that of several writers one wins.
"""

# Store, Upload and Input in __init__.py document the public methods.
# ruff: noqa: D102

import contextlib
import hashlib
import logging
import os
import re
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self
from xml.etree import ElementTree as ET

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, InvalidPathError, PreconditionError, UnauthenticatedError
from obstore.store import S3Store as Client

from dataprep_api.spec import HdfsOptions
from dataprep_converter.errors import (
    AlreadyExists,
    BadCredentials,
    BadSpec,
    ConvertError,
    InputChanged,
    NotFound,
    NotPermitted,
    StoreError,
    StoreFull,
    Unreachable,
)
from dataprep_converter.retrying import retrying
from dataprep_converter.stores import Details, Entry, StoreSettings
from dataprep_converter.stores.aws_credentials import CredentialChain, domain_of
from dataprep_converter.stores.digests import checked, checked_stream
from dataprep_converter.stores.parts import IN_FLIGHT, Parts, part_bytes_for, unfinished
from dataprep_converter.stores.s3_requests import ANSWER_SECONDS, CONNECT_SECONDS, Address, Answer, S3Requests
from dataprep_converter.stores.streaming import going_on

if TYPE_CHECKING:
    from obstore import GetResult  # known to type checkers only

logger = logging.getLogger(__name__)

_STREAM_BYTES = 4 << 20
_CONFLICTS = 20
_BAD_CREDENTIALS = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidToken",
    "ExpiredToken",
    "InvalidSecurity",
    "RequestTimeTooSkewed",
}
_FULL = {"QuotaExceeded", "EntityTooLarge", "XMinioStorageFull", "InsufficientCapacity"}

RIGHT_OF: Final = {
    "write": "s3:PutObject",
    "read": "s3:GetObject",
    "list": "s3:ListBucket",
    "delete": "s3:DeleteObject",
    "sweep": "s3:ListBucketMultipartUploads",
    "abort": "s3:AbortMultipartUpload",
}


class S3Store:
    """Buckets behind one endpoint."""

    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings
        environment = os.environ
        self._region = settings.region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"
        given = settings.endpoint or environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
        # A host that has no bucket names in its DNS is the rule for endpoints of one's own; Amazon's take both.
        self._path_style = settings.path_style or (given is not None and _is_bare_host(given))
        self._endpoint = _with_scheme(given or f"https://s3.{self._region}.{domain_of(self._region)}")
        self._credentials = CredentialChain(settings.credentials, region=self._region)
        self._encryption = _encryption(settings)
        self._buckets: dict[str, _Bucket] = {}
        self._threads: ThreadPoolExecutor | None = None

    def list(self, uri: str, *, recursive: bool = True) -> Iterator[Entry]:
        bucket, key = self._place(uri)
        prefix = f"{key.rstrip('/')}/" if key.rstrip("/") else ""
        # Without encoding-type=url: servers differ in what they encode, a plus sign above all.
        query = {"list-type": "2", "prefix": prefix}
        if not recursive:
            query["delimiter"] = "/"
        before = ""
        while True:
            answer = bucket.requests.send("GET", "", query=query)
            if not answer.ok:
                raise _refusal(answer, bucket, prefix, doing="list")
            page = answer.xml()
            for each in page.iterfind("{*}Contents"):
                name = each.findtext("{*}Key") or ""
                if name.encode() <= before.encode():
                    raise StoreError(f"S3 at {bucket.peer} lists {uri} out of order: {name} after {before}.", uri=uri)
                before = name
                # Folder markers of consoles are no files.
                if not name.endswith("/"):
                    yield Entry(
                        uri=f"{uri.rstrip('/')}/{name[len(prefix) :]}",
                        size=int(each.findtext("{*}Size") or 0),
                        pin=_pin(each.findtext("{*}ETag")),
                        details=_details(each.findtext("{*}LastModified")),
                    )
            token = page.findtext("{*}NextContinuationToken")
            if page.findtext("{*}IsTruncated") != "true" or not token:
                return
            query["continuation-token"] = token

    def stat(self, uri: str) -> Entry | None:
        bucket, key = self._place(uri)
        return _stat(uri, bucket, key)

    def open(self, uri: str) -> "S3Input":
        found = self.stat(uri)
        if found is None:
            raise NotFound(f"{uri} does not exist.", uri=uri)
        bucket, key = self._place(uri)
        return S3Input(bucket, key, found)

    def get(self, uri: str) -> bytes:
        bucket, key = self._place(uri)

        def attempt() -> bytes:
            def read() -> tuple[bytes, str]:
                found = obstore.get(bucket.client, key)
                return bytes(found.bytes()), _pin(found.meta["e_tag"])

            with _border(bucket, key, doing="read"):
                return checked(read, uri=uri)

        return retrying(attempt, what=f"reading {uri}")

    def create(self, uri: str, *, size_hint: int | None = None, hdfs: HdfsOptions | None = None) -> "S3Upload":  # noqa: ARG002 - not HDFS
        bucket, key = self._place(uri)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="s3-part")
        return S3Upload(uri, bucket, key, self._threads, size_hint=size_hint)

    def put(self, uri: str, data: bytes, *, replace: bool = True, hdfs: HdfsOptions | None = None) -> Entry:  # noqa: ARG002 - see create
        bucket, key = self._place(uri)
        return _put(uri, bucket, key, data, replace=replace)

    def delete(self, uri: str) -> None:
        bucket, key = self._place(uri)

        answer = bucket.requests.send("DELETE", key)
        if not answer.ok and answer.code != "NoSuchKey":
            raise _refusal(answer, bucket, key, doing="delete")

    def sweep(self, uri: str, *, older_than_seconds: float) -> int:
        bucket, key = self._place(uri)
        latest = time.time() - older_than_seconds
        query = {"uploads": "", "prefix": f"{key.rstrip('/')}/" if key.rstrip("/") else ""}
        removed = 0
        staying: list[str] = []
        while True:
            answer = bucket.requests.send("GET", "", query=query)
            if not answer.ok:
                raise _refusal(answer, bucket, key, doing="sweep")
            page = answer.xml()
            for each in page.iterfind("{*}Upload"):
                begun = datetime.fromisoformat(each.findtext("{*}Initiated") or "9999-01-01T00:00:00Z")
                if begun.timestamp() <= latest:
                    name, upload = each.findtext("{*}Key") or "", each.findtext("{*}UploadId") or ""
                    aborted = bucket.requests.send("DELETE", name, query={"uploadId": upload})
                    removed += aborted.ok
                    if aborted.status == 403:
                        staying.append(name)
            if page.findtext("{*}IsTruncated") != "true":
                break
            query["key-marker"] = page.findtext("{*}NextKeyMarker") or ""
            query["upload-id-marker"] = page.findtext("{*}NextUploadIdMarker") or ""
        if staying:
            raise NotPermitted(unfinished(RIGHT_OF["abort"], uri, staying), uri=uri)
        return removed

    def warnings(self, uri: str) -> Sequence[str]:
        bucket, _ = self._place(uri)
        answer = bucket.requests.send("GET", "", query={"versioning": ""})
        status = answer.xml().findtext("{*}Status") if answer.ok else None
        if not status:
            return []
        return [
            (
                f"The bucket {bucket.name} has versioning {status}: what jobs replace or remove is kept, and paid for, as older versions. "
                "Give it a lifecycle rule for them, or use a bucket without."
            )
        ]

    def _place(self, uri: str) -> "tuple[_Bucket, str]":
        name, _, key = uri.partition("://")[2].partition("/")
        if not name:
            raise BadSpec(f"{uri} names no bucket: write s3://bucket/key.", uri=uri)
        if name not in self._buckets:
            self._buckets[name] = _Bucket(
                name,
                endpoint=self._endpoint,
                region=self._region,
                path_style=self._path_style,
                credentials=self._credentials,
                encryption=self._encryption,
            )
        return self._buckets[name], key


class _Bucket:
    """Both clients of one bucket."""

    def __init__(
        self, name: str, *, endpoint: str, region: str, path_style: bool, credentials: CredentialChain, encryption: dict[str, str]
    ) -> None:
        self.name = name
        self.encryption = encryption
        """Headers of a request that makes an object."""
        parts = urllib.parse.urlsplit(endpoint)
        path = parts.path.rstrip("/")
        host = parts.hostname or ""
        if not path_style and "." in name:
            path_style = True  # no certificate fits such a host name
        address = Address(
            scheme=parts.scheme,
            host=host if path_style else f"{name}.{host}",
            port=parts.port,
            path=f"{path}/{name}" if path_style else path,
        )
        self.peer = address.peer
        self.requests = S3Requests(address, region=region, credentials=credentials)
        self.client = Client(
            name,
            config={
                "endpoint": f"{parts.scheme}://{address.netloc}{path}",
                "region": region,
                "virtual_hosted_style_request": not path_style,
            },
            client_options={
                "allow_http": parts.scheme == "http",
                "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
                "read_timeout": timedelta(seconds=ANSWER_SECONDS),
                # For the whole of a body, which may be large and its reader slow.
                "timeout": timedelta(hours=12),
            },
            retry_config={
                "max_retries": 1,
                "retry_timeout": timedelta(seconds=8),
                "backoff": {"init_backoff": timedelta(milliseconds=200), "max_backoff": timedelta(seconds=2), "base": 2},
            },
            credential_provider=credentials.for_obstore,  # type: ignore[arg-type] # its TypedDict is known to type checkers only
        )


class S3Upload:
    """A multipart upload, begun with the second part; an object of one part is one conditional PUT at commit."""

    def __init__(self, uri: str, bucket: _Bucket, key: str, threads: ThreadPoolExecutor, *, size_hint: int | None) -> None:
        self.uri = uri
        self._bucket = bucket
        self._key = key
        self._upload_id: str | None = None
        self._ended = False
        self._parts = Parts(begin=self._begin, send=self._send_part, threads=threads, part_bytes=part_bytes_for(size_hint))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._ended:
            raise ValueError(f"{self.uri}: the upload has ended.")
        self._parts.write(data)

    def commit(self, *, replace: bool) -> Entry:
        if self._ended:
            raise ValueError(f"{self.uri}: the upload has ended.")
        if not self._parts.begun:
            entry = _put(self.uri, self._bucket, self._key, bytes(self._parts.rest), replace=replace)
            self._ended = True
            return entry
        tags = self._parts.finish()
        entry = self._complete(tags, replace=replace)
        self._ended = True
        return entry

    def abort(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._parts.cancel()
        if self._upload_id is not None:
            # A part that was under way may land after an abort; S3 says to abort until nothing is left, the sweep does.
            with contextlib.suppress(StoreError):
                answer = self._bucket.requests.send("DELETE", self._key, query={"uploadId": self._upload_id})
                if answer.status == 403:
                    logger.warning("the unfinished upload of %s stays: missing %s", self.uri, RIGHT_OF["abort"])

    def _begin(self) -> None:
        answer = self._bucket.requests.send("POST", self._key, query={"uploads": ""}, headers=self._bucket.encryption)
        if not answer.ok:
            raise _refusal(answer, self._bucket, self._key, doing="write")
        self._upload_id = answer.xml().findtext("{*}UploadId") or ""

    def _send_part(self, number: int, data: memoryview) -> str:
        answer = self._bucket.requests.send(
            "PUT", self._key, query={"partNumber": str(number), "uploadId": self._upload_id or ""}, body=data
        )
        if answer.code == "NoSuchUpload":
            # A commit sweeps what attempts have left, and took this one for dead. A new attempt uploads anew.
            raise Unreachable(f"The upload of {self.uri} is gone: something else has aborted or completed it.", uri=self.uri)
        if not answer.ok:
            raise _refusal(answer, self._bucket, self._key, doing="write")
        return answer.headers.get("etag", "")

    def _complete(self, tags: list[str], *, replace: bool) -> Entry:
        root = ET.Element("CompleteMultipartUpload")
        for number, tag in enumerate(tags, start=1):
            part = ET.SubElement(root, "Part")
            ET.SubElement(part, "PartNumber").text = str(number)
            ET.SubElement(part, "ETag").text = tag
        headers = {"content-type": "application/xml"} | ({} if replace else {"if-none-match": "*"})
        answer = self._send_completion(ET.tostring(root), headers)
        if answer.ok:
            return Entry(uri=self.uri, size=self._parts.size, pin=_pin(answer.xml().findtext("{*}ETag")))
        # An attempt without an answer may have completed it; then the upload is gone, or in its own way.
        if answer.code == "NoSuchUpload" or (answer.in_doubt and answer.status == 412):
            found = _stat(self.uri, self._bucket, self._key)
            if found is not None and found.size == self._parts.size and found.pin == _pin_of_parts(tags):
                return found
            if found is not None and not replace:
                raise AlreadyExists(f"{self.uri} exists already.", uri=self.uri)
            raise Unreachable(f"The upload of {self.uri} is gone: it was aborted, or its end is in doubt.", uri=self.uri)
        if answer.status == 412:
            raise AlreadyExists(f"{self.uri} exists already.", uri=self.uri)
        if answer.code == "InvalidPart":
            # A sweep came while parts were under way. A new attempt uploads anew.
            raise Unreachable(f"A part of the upload of {self.uri} is gone: something else has aborted it.", uri=self.uri)
        raise _refusal(answer, self._bucket, self._key, doing="write")

    def _send_completion(self, document: bytes, headers: dict[str, str]) -> Answer:
        for _ in range(_CONFLICTS):
            answer = self._bucket.requests.send(
                "POST", self._key, query={"uploadId": self._upload_id or ""}, headers=headers, body=document
            )
            # Another conditional write is just being decided: S3 says to try again.
            if answer.status != 409:
                break
            time.sleep(0.1)
        return answer


class S3Input:
    """Ranges of one object, of the version that was opened."""

    def __init__(self, bucket: _Bucket, key: str, entry: Entry) -> None:
        self.uri = entry.uri
        self._bucket = bucket
        self._key = key
        self._entry = entry

    @property
    def size(self) -> int:
        return self._entry.size

    @property
    def pin(self) -> str:
        return self._entry.pin

    def read_at(self, offset: int, length: int) -> bytes:
        wanted = max(0, min(length, self.size - offset))
        if wanted == 0:
            return b""

        def attempt() -> bytes:
            def read() -> tuple[bytes, str]:
                return bytes(self._range(offset, offset + wanted).bytes()), self.pin

            with _border(self._bucket, self._key, doing="read"):
                return checked(read, uri=self.uri) if wanted == self.size else read()[0]

        piece = retrying(attempt, what=f"reading {self.uri}")
        if len(piece) != wanted:
            raise InputChanged(
                f"{self.uri} became shorter while it was read: got {len(piece)} of {wanted} bytes at {offset}.", uri=self.uri
            )
        return piece

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        end = self.size if length is None else min(self.size, offset + length)
        pieces = self._streamed(offset, end)
        if (offset, end) == (0, self.size):
            pieces = checked_stream(pieces, size=end, etag=self.pin, uri=self.uri, again=lambda: self._streamed(0, end))
        yield from pieces

    def _streamed(self, offset: int, end: int) -> Iterator[bytes]:
        return going_on(self._pieces, self.read_at, offset=offset, end=end, step=_STREAM_BYTES, what=self.uri)

    def _pieces(self, offset: int, end: int) -> Iterator[bytes]:
        with _border(self._bucket, self._key, doing="read"):
            pieces = iter(self._range(offset, end).stream(min_chunk_size=_STREAM_BYTES))
        while True:
            with _border(self._bucket, self._key, doing="read"):
                piece = next(pieces, None)
            if piece is None:
                break
            offset += len(piece)
            yield bytes(piece)
        if offset < end:
            raise Unreachable(f"S3 at {self._bucket.peer} ended {self.uri} at {offset}, {end} was due.", uri=self.uri)

    def close(self) -> None:
        """Nothing is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _range(self, offset: int, end: int) -> "GetResult":
        return obstore.get(self._bucket.client, self._key, options={"range": (offset, end), "if_match": f'"{self._entry.pin}"'})


def _stat(uri: str, bucket: _Bucket, key: str) -> Entry | None:
    if not key or key.endswith("/"):
        return None
    answer = bucket.requests.send("HEAD", key)
    if answer.ok:
        return Entry(uri=uri, size=int(answer.headers.get("content-length", 0)), pin=_pin(answer.headers.get("etag")))
    # The answer to HEAD has no body, so ask again in a way that tells why.
    answer = bucket.requests.send("GET", key, headers={"range": "bytes=0-0"})
    if answer.code in ("NoSuchKey", "NoSuchVersion") or (answer.status == 404 and not answer.code):
        return None
    if not answer.ok:
        raise _refusal(answer, bucket, key, doing="read")
    size = int(answer.headers.get("content-range", "/0").rpartition("/")[2])
    return Entry(uri=uri, size=size, pin=_pin(answer.headers.get("etag")))


def _put(uri: str, bucket: _Bucket, key: str, data: bytes, *, replace: bool) -> Entry:
    """One conditional PUT; as a request of our own, because obstore doesn't tell whether an attempt is in doubt."""
    headers = bucket.encryption | ({} if replace else {"if-none-match": "*"})
    for _ in range(_CONFLICTS):
        answer = bucket.requests.send("PUT", key, headers=headers, body=data)
        # Another conditional write is just being decided: S3 says to try again.
        if answer.status != 409:
            break
        time.sleep(0.1)
    if answer.ok:
        return Entry(uri=uri, size=len(data), pin=_pin(answer.headers.get("etag")))
    if answer.status == 412:
        # An attempt without an answer may have been ours.
        found = _stat(uri, bucket, key) if answer.in_doubt else None
        if found is not None and found.size == len(data) and found.pin == hashlib.md5(data, usedforsecurity=False).hexdigest():
            return found
        raise AlreadyExists(f"{uri} exists already.", uri=uri)
    raise _refusal(answer, bucket, key, doing="write")


def _encryption(settings: StoreSettings) -> dict[str, str]:
    if settings.server_side_encryption is None:
        return {}
    name = "x-amz-server-side-encryption"
    if settings.server_side_encryption == "AES256":
        return {name: "AES256"}
    return {name: "aws:kms"} | ({f"{name}-aws-kms-key-id": settings.kms_key_id} if settings.kms_key_id else {})


def _is_bare_host(endpoint: str) -> bool:
    """An address without a name of its own, or a name without dots: no bucket can stand before it."""
    host = urllib.parse.urlsplit(_with_scheme(endpoint)).hostname or ""
    return "." not in host or ":" in host or host.replace(".", "").isdigit()


def _with_scheme(endpoint: str) -> str:
    return endpoint if "://" in endpoint else f"https://{endpoint}"


def _details(modified: str | None) -> Details | None:
    return Details(modified=datetime.fromisoformat(modified).timestamp()) if modified else None


def _pin(tag: str | None) -> str:
    return (tag or "").strip('"')


def _pin_of_parts(tags: list[str]) -> str:
    digests = b"".join(bytes.fromhex(_pin(tag)) for tag in tags if re.fullmatch(r'"?[0-9a-f]{32}"?', tag))
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(tags)}"


def _refusal(answer: Answer, bucket: _Bucket, key: str, *, doing: str) -> ConvertError:
    return _error(answer.status, answer.code, answer.message, bucket, key, doing=doing)


_STATUS = re.compile(r"status code: (\d{3})|status: (\d{3})")
_CODE = re.compile(r"<Code>([^<]*)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")


@contextlib.contextmanager
def _border(bucket: _Bucket, key: str, *, doing: str) -> Iterator[None]:
    """Around every call of obstore: its errors become ours."""
    try:
        yield
    except AlreadyExistsError as exc:
        raise AlreadyExists(f"s3://{bucket.name}/{key} exists already.") from exc
    except PreconditionError as exc:
        raise InputChanged(f"s3://{bucket.name}/{key} was replaced since it was listed.", uri=f"s3://{bucket.name}/{key}") from exc
    except UnauthenticatedError as exc:
        # It wraps what the credentials' own chain says.
        raise BadCredentials(_line(str(exc)).rpartition("BadCredentials: ")[2]) from exc
    except (BaseError, OSError, ValueError) as exc:
        text = str(exc)
        status, code, message = _STATUS.search(text), _CODE.search(text), _MESSAGE.search(text)
        if status is None:
            if isinstance(exc, FileNotFoundError):
                raise NotFound(f"s3://{bucket.name}/{key} does not exist.", uri=f"s3://{bucket.name}/{key}") from exc
            if isinstance(exc, InvalidPathError | ValueError):
                raise StoreError(f"s3://{bucket.name}/{key}: no name that this client can open: {_line(text)}.") from exc
            raise Unreachable(f"S3: cannot connect to {bucket.peer}: {_line(text)}.") from exc
        number = int(status[1] or status[2])
        raise _error(number, code[1] if code else "", message[1] if message else "", bucket, key, doing=doing) from exc


def _error(status: int, code: str, message: str, bucket: _Bucket, key: str, *, doing: str) -> ConvertError:
    uri = f"s3://{bucket.name}/{key}"
    said = " ".join(filter(None, (str(status), code, message))).rstrip(".")
    if code == "NoSuchBucket":
        return NotFound(f"The bucket {bucket.name} does not exist at {bucket.peer}.", uri=uri)
    if code in _BAD_CREDENTIALS:
        return BadCredentials(f"S3 at {bucket.peer} refused the credentials: {said}.", uri=uri)
    if code in ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException") or status == 301:
        return BadSpec(f"{uri} is in another region, set the store's region or endpoint: {said}.", uri=uri)
    if code in _FULL or status == 507:
        return StoreFull(f"No space or quota left for {uri}: {said}.", uri=uri)
    if status in (401, 403):
        hint = " (or s3:ListBucket, without which an absent object is refused too)" if doing == "read" else ""
        return NotPermitted(f"missing {RIGHT_OF[doing]} on {uri}{hint}: {said}.", uri=uri)
    if status == 404:
        return NotFound(f"{uri} does not exist.", uri=uri)
    if status == 412:
        return InputChanged(f"{uri} was replaced since it was listed.", uri=uri)
    if status // 100 == 5 or status in (408, 409, 429):
        return Unreachable(f"S3 at {bucket.peer} failed at {uri}: {said}.", uri=uri)
    return StoreError(f"S3 at {bucket.peer} refused {uri}: {said}.", uri=uri)


def _line(text: str) -> str:
    """obstore's message without its debugging tail."""
    return text.partition("\n")[0].strip().rstrip(".")
