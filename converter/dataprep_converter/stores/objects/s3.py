"""S3 and compatible stores. `gcs.py` uses this module too, because the XML API of Cloud Storage resembles S3's."""

# The public methods are documented on the classes `Bucket` and `Transfer`, in `objects.py`.
# ruff: noqa: D102

import contextlib
import hashlib
import logging
import os
import re
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Final
from xml.etree import ElementTree as ET

from obstore.store import S3Store as Client

from dataprep_converter.core.errors import (
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
from dataprep_converter.stores import Details, Entry, StoreSettings, Upload
from dataprep_converter.stores.credentials.aws import CredentialChain, domain_of
from dataprep_converter.stores.credentials.aws_profile import AwsProfile
from dataprep_converter.stores.objects.key_listing import entries_ahead, entries_in_turn
from dataprep_converter.stores.objects.key_stretches import KeyPage
from dataprep_converter.stores.objects.objects import Bucket, ObjectStore, ObjectUpload, client_options, is_written, retry_config, unquoted
from dataprep_converter.stores.objects.parts import CopyUnsupported, unfinished
from dataprep_converter.stores.objects.s3_requests import S3Requests
from dataprep_converter.stores.publish import aborted_on_error
from dataprep_converter.stores.store_requests import Address, Answer

logger = logging.getLogger(__name__)

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

RIGHT_OF: Final[Mapping[str, str]] = {
    "write": "s3:PutObject",
    "read": "s3:GetObject",
    "list": "s3:ListBucket",
    "delete": "s3:DeleteObject",
    "sweep": "s3:ListBucketMultipartUploads",
    "abort": "s3:AbortMultipartUpload",
}


class S3Store(ObjectStore):
    """The buckets at one endpoint."""

    def __init__(self, settings: StoreSettings) -> None:
        super().__init__(settings)
        environment = os.environ
        self._region = (
            settings.region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or AwsProfile().region or "us-east-1"
        )
        endpoint = settings.endpoint or environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
        # Most self-hosted endpoints have no DNS names for buckets. Amazon's endpoints accept both styles.
        self._path_style = settings.path_style or (endpoint is not None and _is_bare_host(endpoint))
        self._endpoint = with_scheme(endpoint or f"https://s3.{self._region}.{domain_of(self._region)}")
        self._credentials = None if settings.anonymous else CredentialChain(settings.credentials, region=self._region)
        self._buckets: dict[str, S3Bucket] = {}

    def place(self, uri: str) -> "tuple[S3Bucket, str]":
        name, key = bucket_and_key(uri)
        if name not in self._buckets:
            self._buckets[name] = S3Bucket.at(
                self._endpoint, name, region=self._region, path_style=self._path_style, credentials=self._credentials
            )
            self._buckets[name].making = _encryption(self.settings)
            self._buckets[name].requests.budget = self.budget
        return self._buckets[name], key

    def stage_copy(self, source: Entry, uri: str) -> Upload | None:
        if not source.size:
            return None  # a multipart upload can't consist of a single empty part
        bucket, key = self.place(uri)
        transfer = bucket.transfer(uri, key)
        upload = ObjectUpload(uri, bucket, key, transfer, self.threads())
        with aborted_on_error(upload):
            try:
                upload.copy(source.size, partial(transfer.copy, source))
                upload.stage()
            except CopyUnsupported as exc:
                logger.info("%s at %s doesn't copy objects, so they are sent again: %s", bucket.requests.service, bucket.peer, exc)
                upload.abort()
                return None
        return upload


class XmlBucket(Bucket):
    """A bucket of any service that speaks S3's protocol."""

    exclusively: dict[str, str] = {"if-none-match": "*"}
    """Headers for a request that must not replace an object."""
    making: Mapping[str, str] = MappingProxyType({})
    """Headers for a request that creates an object."""
    rights: Mapping[str, str] = RIGHT_OF

    def list_objects(self, uri: str, prefix: str, *, recursive: bool) -> Iterator[Entry]:
        keys = self.keys_below(uri, prefix)
        return entries_ahead(keys) if recursive else entries_in_turn(replace(keys, delimiter="/"))

    def keys_below(self, uri: str, prefix: str) -> "KeysBelow":
        """Returns the keys with this prefix, which are listed at `uri`."""
        return KeysBelow(self, uri, prefix)

    def look(self, uri: str, key: str) -> tuple[Entry, str] | None:
        if not key or key.endswith("/"):
            return None
        answer = self.requests.send("HEAD", key)
        if answer.ok:
            size = answer.headers.get("content-length", "0")
        else:
            # The response to HEAD has no body, so send a GET to learn the reason.
            answer = self.requests.send("GET", key, headers={"range": "bytes=0-0"})
            if answer.code in ("NoSuchKey", "NoSuchVersion") or (answer.status == 404 and not answer.code):
                return None
            if not answer.ok:
                raise self.refusal(answer, key, doing="read")
            size = answer.headers.get("content-range", "/0").rpartition("/")[2]
        tag = unquoted(answer.headers.get("etag"))
        return Entry(uri=uri, size=int(size), pin=tag), tag

    def put(self, uri: str, key: str, data: bytes, *, replace: bool) -> Entry:
        # Send our own request, because obstore doesn't report whether an attempt that got no response may have succeeded.
        answer = self.send_conditional("PUT", key, headers={**self.making, **({} if replace else self.exclusively)}, body=data)
        if answer.ok:
            return Entry(uri=uri, size=len(data), pin=unquoted(answer.headers.get("etag")))
        if answer.status == 412:
            # One of our own earlier attempts may have succeeded although we got no response.
            existing = self.look(uri, key) if answer.in_doubt else None
            if existing is not None and is_written(existing, data):
                return existing[0]
            raise AlreadyExists(f"{uri} exists already.", uri=uri)
        raise self.refusal(answer, key, doing="write")

    def send_conditional(
        self, method: str, key: str, *, query: Mapping[str, str] | None = None, headers: Mapping[str, str], body: bytes = b""
    ) -> Answer:
        """Sends a conditional write and returns S3's response. Repeats the request while S3 reports that another write is in progress."""
        for _ in range(_CONFLICTS):
            answer = self.requests.send(method, key, query=query, headers=headers, body=body)
            if answer.status != 409:
                break
            time.sleep(0.1)
        return answer

    def delete(self, key: str) -> None:
        answer = self.requests.send("DELETE", key)
        if not answer.ok and answer.code != "NoSuchKey":
            raise self.refusal(answer, key, doing="delete")

    def sweep(self, uri: str, prefix: str) -> int:
        query = {"uploads": "", "prefix": prefix}
        removed = 0
        staying: list[str] = []
        while True:
            answer = self.requests.send("GET", "", query=query)
            if not answer.ok:
                raise self.refusal(answer, prefix, doing="sweep")
            page = answer.xml()
            for element in page.iterfind("{*}Upload"):
                name, upload = element.findtext("{*}Key") or "", element.findtext("{*}UploadId") or ""
                aborted = self.requests.send("DELETE", name, query={"uploadId": upload})
                removed += aborted.ok
                if aborted.status == 403:
                    staying.append(name)
            if page.findtext("{*}IsTruncated") != "true":
                break
            query["key-marker"] = page.findtext("{*}NextKeyMarker") or ""
            query["upload-id-marker"] = page.findtext("{*}NextUploadIdMarker") or ""
        if staying:
            raise NotPermitted(unfinished(self.rights["abort"], uri, staying), uri=uri)
        return removed

    def warnings(self) -> Sequence[str]:
        answer = self.requests.send("GET", "", query={"versioning": ""})
        status = answer.xml().findtext("{*}Status") if answer.ok else None
        if not status:
            return []
        return [
            (
                f"The bucket {self.name} has versioning {status}: objects that jobs replace or remove are kept as older versions, "
                "which cost storage. Give the bucket a lifecycle rule for older versions, or use a bucket without versioning."
            )
        ]

    def transfer(self, uri: str, key: str) -> "Multipart":
        return Multipart(self, uri, key)

    def error(self, status: int, code: str, message: str, key: str, *, doing: str) -> ConvertError:
        uri = f"{self.root}{key}"
        service = self.requests.service
        reason = " ".join(filter(None, (str(status), code, message))).rstrip(".")
        if code == "NoSuchBucket":
            return NotFound(f"The bucket {self.name} does not exist at {self.peer}.", uri=uri)
        if code in _BAD_CREDENTIALS:
            return BadCredentials(f"{service} at {self.peer} refused the credentials: {reason}.", uri=uri)
        if code in ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException") or status == 301:
            return BadSpec(f"{uri} is in another region, set the store's region or endpoint: {reason}.", uri=uri)
        if code in _FULL or status == 507:
            return StoreFull(f"No space or quota left for {uri}: {reason}.", uri=uri)
        if status in (401, 403):
            hint = f" (or {self.rights['list']}: without it, requests for absent objects are refused as well)" if doing == "read" else ""
            return NotPermitted(f"missing {self.rights[doing]} on {uri}{hint}: {reason}.", uri=uri)
        if status == 404:
            return NotFound(f"{uri} does not exist.", uri=uri)
        if status == 412:
            return InputChanged(f"{uri} has been replaced since it was listed.", uri=uri)
        if status // 100 == 5 or status in (408, 409, 429):
            return Unreachable(f"{service} at {self.peer} failed at {uri}: {reason}.", uri=uri)
        return StoreError(f"{service} at {self.peer} refused {uri}: {reason}.", uri=uri)


@dataclass(frozen=True)
class KeysBelow:
    """The keys of a bucket below a prefix. If a delimiter is given, keys that contain it after the prefix are left out."""

    bucket: XmlBucket
    uri: str
    prefix: str
    delimiter: str = ""

    def page(self, after: str, token: str | None) -> KeyPage:
        answer = self._ask(self.prefix, self.delimiter, after, token)
        keys: list[str] = []
        entries: list[Entry | None] = []
        for element in answer.iterfind("{*}Contents"):
            fields = {field.tag.rpartition("}")[2]: field.text for field in element}
            key = fields.get("Key") or ""
            keys.append(key)
            entries.append(None if key.endswith("/") else self._entry(key, fields))
        return KeyPage(keys, entries, _next_token(answer))

    def folders(self, prefix: str, after: str) -> Sequence[str]:
        answer = self._ask(prefix, "/", after, None)
        return [element.findtext("{*}Prefix") or "" for element in answer.iterfind("{*}CommonPrefixes")]

    def disorder(self, key: str, previous: str) -> StoreError:
        requests = self.bucket.requests
        return StoreError(f"{requests.service} at {self.bucket.peer} lists {self.uri} out of order: {key} after {previous}.", uri=self.uri)

    def _ask(self, prefix: str, delimiter: str, after: str, token: str | None) -> ET.Element:
        # Don't send encoding-type=url, because servers differ in the characters they encode, above all the plus sign.
        query = {"list-type": "2", "prefix": prefix}
        if delimiter:
            query["delimiter"] = delimiter
        if token is not None:
            query["continuation-token"] = token
        elif after:
            query["start-after"] = after
        answer = self.bucket.requests.send("GET", "", query=query)
        if not answer.ok:
            raise self.bucket.refusal(answer, prefix, doing="list")
        return answer.xml()

    def _entry(self, key: str, fields: Mapping[str, str | None]) -> Entry:
        return Entry(
            uri=f"{self.uri}/{key[len(self.prefix) :]}",
            size=int(fields.get("Size") or 0),
            pin=unquoted(fields.get("ETag")),
            details=_details(fields.get("LastModified")),
        )


class S3Bucket(XmlBucket):
    """A bucket of S3."""

    @classmethod
    def at(cls, endpoint: str, name: str, *, region: str, path_style: bool, credentials: CredentialChain | None) -> "S3Bucket":
        """Returns an object for requests to one bucket at an endpoint. Without credentials, the requests are anonymous."""
        parts = urllib.parse.urlsplit(endpoint)
        path = parts.path.rstrip("/")
        host = parts.hostname or ""
        if not path_style and "." in name:
            path_style = True  # the certificate wouldn't match a host name with an additional dot
        address = Address(
            scheme=parts.scheme,
            host=host if path_style else f"{name}.{host}",
            port=parts.port,
            path=f"{path}/{name}" if path_style else path,
        )
        client = Client(
            name,
            config={
                "endpoint": f"{parts.scheme}://{address.netloc}{path}",
                "region": region,
                "virtual_hosted_style_request": not path_style,
                "skip_signature": credentials is None,
            },
            client_options=client_options(parts.scheme),
            retry_config=retry_config(),
            credential_provider=credentials and credentials.for_obstore,  # type: ignore[arg-type] # its TypedDict is known to type checkers only
        )
        return cls(f"s3://{name}/", name, requests=S3Requests(address, region=region, credentials=credentials), client=client)


class Multipart:
    """A multipart upload."""

    def __init__(self, bucket: XmlBucket, uri: str, key: str) -> None:
        self._uri = uri
        self._bucket = bucket
        self._key = key
        self._upload_id = ""

    def begin(self) -> None:
        answer = self._bucket.requests.send("POST", self._key, query={"uploads": ""}, headers=self._bucket.making)
        if not answer.ok:
            raise self._bucket.refusal(answer, self._key, doing="write")
        self._upload_id = answer.xml().findtext("{*}UploadId") or ""

    def send(self, number: int, data: memoryview) -> str:
        answer = self._bucket.requests.send("PUT", self._key, query={"partNumber": str(number), "uploadId": self._upload_id}, body=data)
        self._check_upload(answer)
        if not answer.ok:
            raise self._bucket.refusal(answer, self._key, doing="write")
        return answer.headers.get("etag", "")

    def copy(self, source: Entry, number: int, stretch: range | None) -> str:
        """Makes S3 copy a part from an object in this bucket, and returns the part's tag. Raises CopyUnsupported."""
        key = source.uri.removeprefix(self._bucket.root)
        headers = {
            "x-amz-copy-source": urllib.parse.quote(f"/{self._bucket.name}/{key}", safe="/-_.~"),
            "x-amz-copy-source-if-match": f'"{source.pin}"',
        }
        if stretch is not None:
            headers["x-amz-copy-source-range"] = f"bytes={stretch.start}-{stretch.stop - 1}"
        query = {"partNumber": str(number), "uploadId": self._upload_id}
        answer = self._bucket.requests.send("PUT", self._key, query=query, headers=headers)
        self._check_upload(answer)
        if answer.status in (405, 501):
            raise CopyUnsupported(f"{answer.status} {answer.code} {answer.message}".strip())
        if not answer.ok:
            raise self._bucket.refusal(answer, key, doing="read")
        tag = answer.xml().findtext("{*}ETag") if answer.body else None
        if tag is None:
            # The server treated the request as the upload of an empty part.
            raise CopyUnsupported(f"the response to UploadPartCopy has no ETag: {answer.body[:100]!r}")
        return tag

    def hold(self) -> None:
        """Does nothing, because a sweep aborts the upload."""

    def complete(self, tags: list[str], *, size: int, replace: bool) -> Entry:
        uri = self._uri
        answer = self.asked_to_complete(tags, headers={} if replace else self._bucket.exclusively)
        if answer.ok:
            return Entry(uri=uri, size=size, pin=unquoted(answer.xml().findtext("{*}ETag")))
        # An earlier attempt may have completed the upload although we got no response. In this case, the upload no longer exists, or the
        # condition fails because our own object exists.
        if answer.code == "NoSuchUpload" or (answer.in_doubt and answer.status == 412):
            existing = self._bucket.look(uri, self._key)
            if existing is not None and existing[0].size == size and existing[0].pin == _pin_of_parts(tags):
                return existing[0]
            if existing is not None and not replace:
                raise AlreadyExists(f"{uri} exists already.", uri=uri)
            raise Unreachable(f"The upload of {uri} is gone: it was aborted, or completed by a request that got no response.", uri=uri)
        if answer.status == 412:
            raise AlreadyExists(f"{uri} exists already.", uri=uri)
        if answer.code == "InvalidPart":
            # A sweep aborted the upload while parts were being sent. A new attempt uploads again.
            raise Unreachable(f"A part of the upload of {uri} is gone: something else has aborted it.", uri=uri)
        raise self._bucket.refusal(answer, self._key, doing="write")

    def _check_upload(self, answer: Answer) -> None:
        if answer.code == "NoSuchUpload":
            # The data set's commit sweeps away the leftovers of failed attempts, including this upload. A new attempt uploads again.
            raise Unreachable(f"The upload of {self._uri} is gone: something else has aborted or completed it.", uri=self._uri)

    def asked_to_complete(self, tags: list[str], *, headers: dict[str, str]) -> Answer:
        """Sends the request that joins the parts into one object, and returns the response."""
        root = ET.Element("CompleteMultipartUpload")
        for number, tag in enumerate(tags, start=1):
            part = ET.SubElement(root, "Part")
            ET.SubElement(part, "PartNumber").text = str(number)
            ET.SubElement(part, "ETag").text = tag
        return self._bucket.send_conditional(
            "POST",
            self._key,
            query={"uploadId": self._upload_id},
            headers={"content-type": "application/xml"} | headers,
            body=ET.tostring(root),
        )

    def drop(self) -> None:
        # A part that is still being sent may arrive after the abort. S3's documentation says that the abort must be repeated until no part
        # is left. The sweep does this.
        with contextlib.suppress(StoreError):
            answer = self._bucket.requests.send("DELETE", self._key, query={"uploadId": self._upload_id})
            if answer.status == 403:
                logger.warning("the unfinished upload of %s remains: missing %s", self._uri, self._bucket.rights["abort"])


def bucket_and_key(uri: str) -> tuple[str, str]:
    """Returns bucket and key. Raises BadSpec if the URI names no bucket."""
    scheme, _, rest = uri.partition("://")
    name, _, key = rest.partition("/")
    if not name:
        raise BadSpec(f"{uri} names no bucket: write {scheme}://bucket/key.", uri=uri)
    return name, key


def with_scheme(endpoint: str) -> str:
    """Returns the endpoint, with `https://` added if it has no scheme."""
    return endpoint if "://" in endpoint else f"https://{endpoint}"


def _encryption(settings: StoreSettings) -> dict[str, str]:
    if settings.server_side_encryption is None:
        return {}
    name = "x-amz-server-side-encryption"
    if settings.server_side_encryption == "AES256":
        return {name: "AES256"}
    return {name: "aws:kms"} | ({f"{name}-aws-kms-key-id": settings.kms_key_id} if settings.kms_key_id else {})


def _is_bare_host(endpoint: str) -> bool:
    """Returns whether buckets can't be subdomains of the host, because it is an IP address or a name without dots."""
    host = urllib.parse.urlsplit(with_scheme(endpoint)).hostname or ""
    return "." not in host or ":" in host or host.replace(".", "").isdigit()


def _details(modified: str | None) -> Details | None:
    return Details(modified=datetime.fromisoformat(modified).timestamp()) if modified else None


def _next_token(page: ET.Element) -> str | None:
    return (page.findtext("{*}NextContinuationToken") or None) if page.findtext("{*}IsTruncated") == "true" else None


def _pin_of_parts(tags: list[str]) -> str:
    digests = b"".join(bytes.fromhex(unquoted(tag)) for tag in tags if re.fullmatch(r'"?[0-9a-f]{32}"?', tag))
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(tags)}"
