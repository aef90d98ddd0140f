"""Alibaba Cloud OSS through its own SDK, with V4 signatures. AppendObject is never used: it isn't atomic, and is limited to 5 GB.

An object isn't visible until its upload is completed. Completion sends x-oss-forbid-overwrite, so that exactly one of several writers
succeeds. According to its documentation, OSS ignores x-oss-forbid-overwrite on buckets with versioning.

The SDK's own upload check is switched off: it computes CRC-64 while holding the GIL, which makes four threads slower than one. Instead,
every part is sent with its MD5, which OSS checks before it stores the part.
"""

# The public methods are documented on the classes `Store`, `Upload` and `Input`, in `stores/__init__.py`.
# ruff: noqa: D102

import base64
import hashlib
import logging
import os
import re
import urllib.parse
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

import alibabacloud_oss_v2 as oss  # type: ignore[import-untyped] # the SDK ships no types
from alibabacloud_oss_v2.retry import StandardRetryer  # type: ignore[import-untyped] # see above

from dataprep_api.spec import HdfsOptions
from dataprep_converter.core.errors import BadSpec, InputChanged, NotFound, NotPermitted, StoreError, Unreachable
from dataprep_converter.runtime.request_budget import RequestBudget
from dataprep_converter.runtime.retry import retrying
from dataprep_converter.stores import Details, Entry, StoreSettings, Upload
from dataprep_converter.stores.credentials.alibaba import AlibabaCredentials
from dataprep_converter.stores.digests import checked
from dataprep_converter.stores.objects.key_listing import entries_ahead, entries_in_turn
from dataprep_converter.stores.objects.key_stretches import KeyPage
from dataprep_converter.stores.objects.oss_client import RIGHT_OF, OssClient, PacedHttpClient, place_of
from dataprep_converter.stores.objects.parts import IN_FLIGHT, Parts, part_bytes_for, unfinished
from dataprep_converter.stores.publish import aborted_on_error
from dataprep_converter.stores.ranged import ParallelInput

logger = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 3.0
ANSWER_SECONDS: Final = 60.0
ATTEMPTS: Final = 3

_STREAM_BYTES = 2 << 20


class OssStore:
    """The buckets at one endpoint."""

    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings
        endpoint = settings.endpoint or os.environ.get("OSS_ENDPOINT")
        region = settings.region or os.environ.get("OSS_REGION") or (endpoint and _region_of(endpoint))
        if not region:
            raise BadSpec(
                f"The store {settings.uri_prefix} needs a region, in its entry of spec.stores or in OSS_REGION: "
                f"the endpoint {endpoint or '(none given)'} doesn't contain the region."
            )
        config = oss.config.load_default()
        config.region = region
        config.endpoint = endpoint
        config.use_path_style = settings.path_style
        config.credentials_provider = _credentials(settings)
        budget = settings.budget or RequestBudget(name=settings.uri_prefix)
        config.http_client = PacedHttpClient(budget, connect_timeout=CONNECT_SECONDS, readwrite_timeout=ANSWER_SECONDS)
        config.retryer = StandardRetryer(max_attempts=ATTEMPTS, max_backoff=2.0)
        config.disable_upload_crc64_check = True
        self._client = OssClient(
            oss.Client(config),
            peer=_peer(endpoint or f"https://oss-{region}.aliyuncs.com"),
            is_limited=budget.is_limited,
        )
        self._threads: ThreadPoolExecutor | None = None
        self.encryption = {
            "server_side_encryption": settings.server_side_encryption,
            "server_side_encryption_key_id": settings.kms_key_id,
        }
        """Fields of requests that create an object."""

    def list(self, uri: str, *, recursive: bool = True) -> Iterator[Entry]:
        keys = self.keys_below(uri)
        yield from entries_ahead(keys) if recursive else entries_in_turn(replace(keys, delimiter="/"))

    def keys_below(self, uri: str) -> "KeysBelow":
        """Returns the keys in a folder."""
        bucket, key = place_of(uri)
        return KeysBelow(self._client, uri.rstrip("/"), bucket, f"{key.rstrip('/')}/" if key.rstrip("/") else "")

    def stat(self, uri: str) -> Entry | None:
        head = self._head(uri)
        return head and head[0]

    def open(self, uri: str) -> "OssInput":
        entry = self.stat(uri)
        if entry is None:
            raise NotFound(f"{uri} does not exist.", uri=uri)
        return OssInput(self._client, entry)

    def get(self, uri: str) -> bytes:
        place = place_of(uri)

        def attempt() -> bytes:
            return checked(read, uri=uri)

        def read() -> tuple[bytes, str]:
            answer = self._client.call("get_object", oss.GetObjectRequest(bucket=place[0], key=place[1]), place=place, doing="read")
            with self._client.border(place, doing="read"):
                return answer.body.read(), _pin(answer.etag)

        return retrying(attempt, what=f"reading {uri}")

    def create(self, uri: str, *, size_hint: int | None = None, hdfs: HdfsOptions | None = None) -> "OssUpload":  # noqa: ARG002 - not HDFS
        if self._threads is None:
            self._threads = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="oss-part")
        return OssUpload(self, self._client, uri, self._threads, size_hint=size_hint)

    def stage_copy(self, source: Entry, uri: str) -> Upload | None:
        if not source.size:
            return None  # a multipart upload can't consist of a single empty part
        head = self._head(source.uri)
        if head is None:
            raise NotFound(f"{source.uri} does not exist.", uri=source.uri)
        upload = self.create(uri)
        with aborted_on_error(upload):
            upload.copy(source, crc=head[1])
            upload.stage()
        return upload

    def put(self, uri: str, data: bytes, *, replace: bool = True, hdfs: HdfsOptions | None = None) -> Entry:  # noqa: ARG002 - see create
        bucket, key = place = place_of(uri)
        request = oss.PutObjectRequest(
            bucket=bucket, key=key, body=data, content_md5=_md5(data), forbid_overwrite=None if replace else True, **self.encryption
        )

        def is_ours() -> Entry | None:
            entry = self.stat(uri)
            is_same = entry is not None and entry.pin.lower() == hashlib.md5(data, usedforsecurity=False).hexdigest()
            return entry if is_same else None

        answer = self._client.end("put_object", request, place=place, is_ours=is_ours)
        return answer if isinstance(answer, Entry) else Entry(uri=uri, size=len(data), pin=_pin(answer.etag))

    def delete(self, uri: str) -> None:
        bucket, key = place = place_of(uri)
        # Use the batch request even for one object: our documentation asks users only for this request's permission.
        request = oss.DeleteMultipleObjectsRequest(bucket=bucket, objects=[oss.DeleteObject(key=key)], quiet=True)
        self._client.persistently("delete_multiple_objects", request, place=place, doing="delete")

    def sweep(self, uri: str) -> int:
        bucket, key = place_of(uri)
        request = oss.ListMultipartUploadsRequest(
            bucket=bucket, prefix=f"{key.rstrip('/')}/" if key.rstrip("/") else "", encoding_type="url"
        )
        removed = 0
        staying: list[str] = []
        while True:
            page = self._client.persistently("list_multipart_uploads", request, place=(bucket, key), doing="sweep")
            for upload in page.uploads or ():
                try:
                    self._client.abort(bucket, upload.key, upload.upload_id)
                    removed += 1
                except NotPermitted:
                    staying.append(upload.key)
            if not page.is_truncated:
                break
            request.key_marker, request.upload_id_marker = page.next_key_marker, page.next_upload_id_marker
        if staying:
            raise NotPermitted(unfinished(RIGHT_OF["abort"], uri, staying), uri=uri)
        return removed

    def warnings(self, uri: str) -> Sequence[str]:
        bucket, key = place_of(uri)
        try:
            versioning = self._client.call(
                "get_bucket_versioning", oss.GetBucketVersioningRequest(bucket=bucket), place=(bucket, key), doing="look"
            )
        except StoreError as exc:
            logger.info("cannot find out whether oss://%s keeps versions: %s", bucket, exc)
            return []
        if not versioning.version_status:
            return []
        return [
            (
                f"The bucket {bucket} has versioning {versioning.version_status}: OSS then can't forbid overwriting, so that two runs with "
                "the same output aren't kept apart. OSS also keeps replaced and removed objects as older versions. "
                "Use a bucket without versioning."
            )
        ]

    def _head(self, uri: str) -> tuple[Entry, str | None] | None:
        """Returns the object's entry and the CRC-64 that OSS keeps for it, or None if the object is absent."""
        bucket, key = place = place_of(uri)
        if not key or key.endswith("/"):
            return None
        try:
            head = self._client.persistently("head_object", oss.HeadObjectRequest(bucket=bucket, key=key), place=place, doing="read")
        except NotFound as exc:
            if exc.uri == f"oss://{bucket}":
                raise
            return None
        return Entry(uri=uri, size=head.content_length, pin=_pin(head.etag)), head.hash_crc64


@dataclass(frozen=True)
class KeysBelow:
    """The keys of a bucket below a prefix. If a delimiter is given, keys that contain it after the prefix are left out."""

    client: OssClient
    uri: str
    bucket: str
    prefix: str
    delimiter: str | None = None

    def page(self, after: str, token: str | None) -> KeyPage:
        answer = self._ask(self.prefix, self.delimiter, after, token)
        items = answer.contents or ()
        return KeyPage(
            keys=[item.key for item in items],
            # The markers of folders, which consoles create, have no entries.
            entries=[None if item.key.endswith("/") else self._entry(item) for item in items],
            token=(answer.next_continuation_token or None) if answer.is_truncated else None,
        )

    def folders(self, prefix: str, after: str) -> Sequence[str]:
        answer = self._ask(prefix, "/", after, None)
        return [common.prefix for common in answer.common_prefixes or ()]

    def disorder(self, key: str, previous: str) -> StoreError:
        return StoreError(f"OSS at {self.client.peer} lists {self.uri} out of order: {key} after {previous}.", uri=self.uri)

    def _ask(self, prefix: str, delimiter: str | None, after: str, token: str | None) -> Any:  # the SDK has no types
        request = oss.ListObjectsV2Request(
            bucket=self.bucket,
            prefix=prefix,
            delimiter=delimiter,
            start_after=(after or None) if token is None else None,
            continuation_token=token,
            max_keys=1000,
            encoding_type="url",
        )
        return self.client.persistently("list_objects_v2", request, place=(self.bucket, prefix), doing="list")

    def _entry(self, item: Any) -> Entry:  # the SDK has no types
        details = item.last_modified and Details(modified=item.last_modified.timestamp())
        return Entry(uri=f"{self.uri}/{item.key[len(self.prefix) :]}", size=item.size, pin=_pin(item.etag), details=details)


class OssUpload:
    """A multipart upload, which starts when the second part begins. An object of one part is written at commit, with one PUT."""

    blocks = False

    def __init__(self, store: OssStore, client: OssClient, uri: str, threads: ThreadPoolExecutor, *, size_hint: int | None) -> None:
        self.uri = uri
        self._store = store
        self._client = client
        self._bucket, self._key = self._place = place_of(uri)
        self._upload_id: str | None = None
        self._ended = False
        self._sums: dict[int, tuple[str | None, int]] = {}
        self._parts = Parts(begin=self._begin, send=self._send_part, threads=threads, part_bytes=part_bytes_for(size_hint))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._ended:
            raise ValueError(f"{self.uri}: the upload has ended.")
        self._parts.write(data)

    def copy(self, source: Entry, *, crc: str | None) -> None:
        """Makes OSS copy all bytes of another object into this upload. Called instead of `write`. `crc` is the CRC-64 that OSS keeps for
        the other object."""
        source_bucket, source_key = place_of(source.uri)

        def copy_part(number: int, stretch: range | None) -> str:
            request = oss.UploadPartCopyRequest(
                bucket=self._bucket,
                key=self._key,
                part_number=number,
                upload_id=self._upload_id,
                source_bucket=source_bucket,
                source_key=source_key,
                source_range=None if stretch is None else f"bytes={stretch.start}-{stretch.stop - 1}",
                if_match=f'"{source.pin}"',
            )
            try:
                answer = self._client.persistently("upload_part_copy", request, place=(source_bucket, source_key), doing="read")
            except NotFound as exc:
                raise Unreachable(
                    f"{source.uri}, or the upload of {self.uri}, is gone: something else has removed it.", uri=self.uri
                ) from exc
            tag: str = answer.etag
            return tag

        self._sums[0] = (crc, source.size)
        self._parts.copy(source.size, copy_part)

    def stage(self) -> None:
        if self._ended:
            raise ValueError(f"{self.uri}: the upload has ended.")
        self._parts.finish()

    def commit(self, *, replace: bool) -> Entry:
        if self._ended:
            raise ValueError(f"{self.uri}: the upload has ended.")
        if not self._parts.begun:
            entry = self._store.put(self.uri, bytes(self._parts.rest), replace=replace)
            self._ended = True
            return entry
        tags = self._parts.finish()
        request = oss.CompleteMultipartUploadRequest(
            bucket=self._bucket,
            key=self._key,
            upload_id=self._upload_id,
            complete_multipart_upload=oss.CompleteMultipartUpload(
                parts=[oss.UploadPart(part_number=number, etag=tag) for number, tag in enumerate(tags, start=1)]
            ),
            forbid_overwrite=None if replace else True,
        )
        try:
            answer = self._client.end("complete_multipart_upload", request, place=self._place, is_ours=self._own_entry)
        except NotFound as exc:
            # Users can't fix this, but a new attempt uploads the object again.
            raise Unreachable(str(exc), uri=self.uri) from exc
        self._ended = True
        return answer if isinstance(answer, Entry) else Entry(uri=self.uri, size=self._parts.size, pin=_pin(answer.etag))

    def abort(self) -> None:
        if self._ended:
            return
        self._parts.cancel()
        if self._upload_id is not None:
            try:
                self._client.abort(self._bucket, self._key, self._upload_id)
            except (StoreError, InputChanged, BadSpec) as exc:
                logger.warning("the unfinished upload of %s remains: %s", self.uri, exc)
        self._ended = True

    def _begin(self) -> None:
        request = oss.InitiateMultipartUploadRequest(bucket=self._bucket, key=self._key, **self._store.encryption)
        answer = self._client.persistently("initiate_multipart_upload", request, place=self._place, doing="write")
        self._upload_id = answer.upload_id

    def _send_part(self, number: int, data: memoryview) -> str:
        request = oss.UploadPartRequest(
            bucket=self._bucket,
            key=self._key,
            part_number=number,
            upload_id=self._upload_id,
            content_md5=_md5(data),
            body=bytes(data),
        )
        try:
            answer = self._client.persistently("upload_part", request, place=self._place, doing="write")
        except NotFound as exc:
            if exc.uri == f"oss://{self._bucket}":
                raise
            # The data set's commit sweeps away the leftovers of failed attempts, including this upload. A new attempt uploads again.
            raise Unreachable(str(exc), uri=self.uri) from exc
        self._sums[number] = (answer.hash_crc64, len(data))
        tag: str = answer.etag
        return tag

    def _own_entry(self) -> Entry | None:
        """Returns the object at our URI if its bytes are ours, otherwise None. The CRC-64 that OSS keeps for the object is compared with
        the CRC-64 of our parts."""
        head = self._store._head(self.uri)  # noqa: SLF001 - in the same module
        if head is None or head[0].size != self._parts.size:
            return None
        from alibabacloud_oss_v2.crc import Crc64  # type: ignore[import-untyped] # not at the top: rarely needed

        total = 0
        for _, (crc, size) in sorted(self._sums.items()):
            if crc is None:
                return None
            total = Crc64.combine(total, int(crc), size)
        return head[0] if head[1] == str(total) else None


class OssInput(ParallelInput):
    """Reads ranges of one object, in the version that was opened."""

    step = _STREAM_BYTES

    def __init__(self, client: OssClient, entry: Entry) -> None:
        super().__init__(entry, digest=entry.pin, is_limited=client.is_limited)
        self._client = client
        self._place = place_of(entry.uri)

    def read_at(self, offset: int, length: int) -> bytes:
        count = max(0, min(length, self.size - offset))
        if count == 0:
            return b""

        def attempt() -> bytes:
            return checked(read, uri=self.uri) if count == self.size else read()[0]

        def read() -> tuple[bytes, str]:
            body = self._body(offset, offset + count)
            with self._client.border(self._place, doing="read"):
                content: bytes = body.read()
            if len(content) != count:
                raise Unreachable(f"OSS at {self._client.peer} sent {len(content)} of {count} bytes of {self.uri}.", uri=self.uri)
            return content, self.pin

        return retrying(attempt, what=f"reading {self.uri}")

    def _body(self, start: int, end: int) -> Any:  # the SDK has no types
        request = oss.GetObjectRequest(
            bucket=self._place[0],
            key=self._place[1],
            range_header=f"bytes={start}-{end - 1}",
            range_behavior="standard",
            if_match=f'"{self._entry.pin}"',
        )
        return self._client.call("get_object", request, place=self._place, doing="read").body

    def _pieces(self, offset: int, end: int) -> Iterator[bytes]:
        body = self._body(offset, end)
        try:
            pieces = iter(body.iter_bytes(block_size=_STREAM_BYTES))
            while True:
                with self._client.border(self._place, doing="read"):
                    piece = next(pieces, None)
                if piece is None:
                    break
                offset += len(piece)
                yield piece
            if offset < end:
                raise Unreachable(f"OSS at {self._client.peer} sent {self.uri} only up to byte {offset} instead of {end}.", uri=self.uri)
        finally:
            body.close()


def _region_of(endpoint: str) -> str | None:
    """Returns the region in an endpoint: `cn-shenzhen` for `https://oss-cn-shenzhen-internal.aliyuncs.com`."""
    match = re.match(r"(?:[a-z]+://)?(?:oss-)?([a-z]{2}-[a-z0-9-]+?)(?:-internal)?(?:\.oss)?\.aliyuncs\.com", endpoint)
    return match[1] if match else None


def _peer(endpoint: str) -> str:
    parts = urllib.parse.urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
    return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def _credentials(settings: StoreSettings) -> Any:  # the SDK has no types
    secret = settings.credentials
    if settings.anonymous:
        return oss.credentials.AnonymousCredentialsProvider()
    if secret:
        return oss.credentials.StaticCredentialsProvider(secret["accessKeyId"], secret["accessKeySecret"], secret.get("securityToken"))
    if os.environ.get("OSS_ACCESS_KEY_ID") and os.environ.get("OSS_ACCESS_KEY_SECRET"):
        return oss.credentials.EnvironmentVariableCredentialsProvider()
    chain = AlibabaCredentials()

    def current() -> Any:  # see above
        credential = chain.get_credential()
        return oss.credentials.Credentials(
            credential.get_access_key_id(), credential.get_access_key_secret(), credential.get_security_token()
        )

    return oss.credentials.CredentialsProviderFunc(current)


def _md5(data: bytes | memoryview) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _pin(tag: str | None) -> str:
    return (tag or "").strip('"')
