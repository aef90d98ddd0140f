"""The operations. Each operation takes a signed and authorised request, and returns the response.

Sockets, faults and logs are handled in `server`.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate, parsedate_to_datetime
from typing import BinaryIO
from urllib.parse import quote, unquote

from storeservers.oss.controls import Controls, allows
from storeservers.oss.documents import Children, document, parsed
from storeservers.oss.errors import OssError, access_denied, invalid_argument
from storeservers.oss.listing import Page, page_of
from storeservers.oss.operations import Operation
from storeservers.oss.shelf import Content, Shelf, StoredObject
from storeservers.oss.signatures import SignedRequest, signer_of

_MOST_DELETED = _MOST_LISTED = 1000
_LISTED_UNLESS_ASKED = 100
_LAST_PART_NUMBER = 10_000
_LONGEST_KEY_BYTES = 1023
_OWNER: Children = [("ID", "1000000000000000"), ("DisplayName", "1000000000000000")]
# Request headers that are returned with the object.
_KEPT_HEADERS = frozenset({"content-type", "cache-control", "content-disposition", "content-encoding", "expires"})
_KEPT_BEGINNINGS = ("x-oss-meta-", "x-oss-server-side-encryption")


@dataclass(frozen=True)
class Request:
    """A request whose body has not been read yet."""

    signed: SignedRequest
    operation: Operation
    pieces: Callable[[], Iterator[bytes]]
    """Reads the body."""

    @property
    def bucket(self) -> str:
        """The bucket of the request."""
        return self.signed.bucket

    @property
    def key(self) -> str:
        """The object of the request."""
        return self.signed.key

    @property
    def query(self) -> Mapping[str, str]:
        """The decoded query parameters."""
        return self.signed.query

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, with lower-case names."""
        return self.signed.headers

    @property
    def may_overwrite(self) -> bool:
        """Whether an existing object may be replaced."""
        return self.headers.get("x-oss-forbid-overwrite", "false").lower() != "true"


@dataclass(frozen=True)
class Stretch:
    """A range of an open file, used as the body of a response."""

    file: BinaryIO
    offset: int
    size: int


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Stretch = b""


class Service:
    """The operations on a shelf."""

    def __init__(self, *, shelf: Shelf, controls: Controls, region: str, endpoint: str) -> None:
        self._shelf = shelf
        self._controls = controls
        self._region = region
        self._endpoint = endpoint
        self._handlers: Mapping[str, Callable[[Request], Answer]] = {
            "GetBucketInfo": self._get_bucket_info,
            "GetBucketLocation": self._get_bucket_location,
            "GetBucketVersioning": self._get_bucket_versioning,
            "GetBucketAcl": self._get_bucket_acl,
            "ListMultipartUploads": self._list_multipart_uploads,
            "ListObjects": self._list_objects,
            "ListObjectsV2": self._list_objects_v2,
            "DeleteMultipleObjects": self._delete_multiple_objects,
            "ListParts": self._list_parts,
            "GetObject": self._get_object,
            "GetObjectMeta": self._head_object,
            "HeadObject": self._head_object,
            "InitiateMultipartUpload": self._initiate_multipart_upload,
            "CompleteMultipartUpload": self._complete_multipart_upload,
            "AppendObject": self._append_object,
            "UploadPart": self._upload_part,
            "UploadPartCopy": self._upload_part_copy,
            "CopyObject": self._copy_object,
            "PutObject": self._put_object,
            "AbortMultipartUpload": self._abort_multipart_upload,
            "DeleteObject": self._delete_object,
        }

    def answer(self, request: Request) -> Answer:
        """Authenticate and authorise the request, then perform its operation."""
        signer = signer_of(
            request.signed,
            keys=self._controls.keys(),
            region=self._region,
            now=dt.datetime.now(dt.UTC),
        )
        self._shelf.bucket(request.bucket)
        if not allows(signer, request.operation.action):
            raise access_denied(request.operation.action)
        if request.operation.name in ("CopyObject", "UploadPartCopy") and not allows(signer, "oss:GetObject"):
            raise access_denied("oss:GetObject")
        _check_key(request.key)
        return self._handlers[request.operation.name](request)

    # -- buckets ------------------------------------------------------------------------------------------------

    def _get_bucket_info(self, request: Request) -> Answer:
        bucket = self._shelf.bucket(request.bucket)
        info: Children = [
            ("Name", bucket.name),
            ("CreationDate", _iso(bucket.created)),
            ("Location", f"oss-{self._region}"),
            ("ExtranetEndpoint", self._endpoint),
            ("IntranetEndpoint", self._endpoint),
            ("StorageClass", "Standard"),
            ("DataRedundancyType", "LRS"),
            ("Owner", _OWNER),
            ("AccessControlList", [("Grant", "private")]),
            *([("Versioning", bucket.versioning)] if bucket.versioning else []),
        ]
        return _document_answer("BucketInfo", [("Bucket", info)])

    def _get_bucket_location(self, _request: Request) -> Answer:
        return _document_answer("LocationConstraint", f"oss-{self._region}")

    def _get_bucket_versioning(self, request: Request) -> Answer:
        versioning = self._shelf.bucket(request.bucket).versioning
        return _document_answer("VersioningConfiguration", [("Status", versioning)] if versioning else [])

    def _get_bucket_acl(self, _request: Request) -> Answer:
        return _document_answer("AccessControlPolicy", [("Owner", _OWNER), ("AccessControlList", [("Grant", "private")])])

    def _list_objects(self, request: Request) -> Answer:
        marker = request.query.get("marker", "")
        page = self._page(request, after=marker)
        encode = _encoder_of(request)
        return _document_answer(
            "ListBucketResult",
            [
                *self._listing_head(request),
                ("Marker", encode(marker)),
                *([("NextMarker", encode(page.last))] if page.is_truncated else []),
                *self._listing_tail(request, page, with_owner=True),
            ],
        )

    def _list_objects_v2(self, request: Request) -> Answer:
        token = request.query.get("continuation-token", "")
        start_after = request.query.get("start-after", "")
        page = self._page(request, after=_decoded_token(token) if token else start_after)
        encode = _encoder_of(request)
        return _document_answer(
            "ListBucketResult",
            [
                *self._listing_head(request),
                ("StartAfter", encode(start_after)),
                ("ContinuationToken", token),
                ("KeyCount", str(len(page.keys) + len(page.folders))),
                *([("NextContinuationToken", _encoded_token(page.last))] if page.is_truncated else []),
                *self._listing_tail(request, page, with_owner=request.query.get("fetch-owner") == "true"),
            ],
        )

    def _page(self, request: Request, *, after: str) -> Page:
        return page_of(
            self._shelf.keys(request.bucket),
            prefix=request.query.get("prefix", ""),
            delimiter=request.query.get("delimiter", ""),
            after=after,
            limit=_limit_of(request, "max-keys", unless_asked=_LISTED_UNLESS_ASKED),
        )

    def _listing_head(self, request: Request) -> list[tuple[str, str]]:
        encode = _encoder_of(request)
        return [
            ("Name", request.bucket),
            ("Prefix", encode(request.query.get("prefix", ""))),
            ("MaxKeys", request.query.get("max-keys", str(_LISTED_UNLESS_ASKED))),
            ("Delimiter", encode(request.query.get("delimiter", ""))),
            *([("EncodingType", request.query["encoding-type"])] if "encoding-type" in request.query else []),
        ]

    def _listing_tail(self, request: Request, page: Page, *, with_owner: bool) -> list[tuple[str, str | Children]]:
        encode = _encoder_of(request)
        contents: list[tuple[str, str | Children]] = [
            (
                "Contents",
                [
                    ("Key", encode(stored.key)),
                    ("LastModified", _iso(stored.last_modified)),
                    ("ETag", f'"{stored.etag}"'),
                    ("Type", stored.kind),
                    ("Size", str(stored.content.size)),
                    ("StorageClass", "Standard"),
                    *([("Owner", _OWNER)] if with_owner else []),
                ],
            )
            for stored in self._shelf.stats(request.bucket, page.keys)
        ]
        folders: list[tuple[str, str | Children]] = [("CommonPrefixes", [("Prefix", encode(folder))]) for folder in page.folders]
        return [("IsTruncated", str(page.is_truncated).lower()), *contents, *folders]

    def _delete_multiple_objects(self, request: Request) -> Answer:
        body = b"".join(request.pieces())
        if "content-md5" not in request.headers:
            raise OssError(400, "MissingArgument", "Missing Some Required Arguments.", details={"ArgumentName": "Content-MD5"})
        _check_md5(request, md5=hashlib.md5(body, usedforsecurity=False).hexdigest())
        order = parsed(body)
        keys = [each.findtext("Key") or "" for each in order.iterfind("Object")]
        if not 1 <= len(keys) <= _MOST_DELETED:
            raise OssError(400, "MalformedXML", f"A batch must delete 1 to {_MOST_DELETED} objects, got {len(keys)}.")
        for key in keys:
            self._shelf.delete(request.bucket, key)
        if order.findtext("Quiet") == "true":
            return Answer()
        encode = _encoder_of(request)
        return _document_answer(
            "DeleteResult",
            [
                *([("EncodingType", request.query["encoding-type"])] if "encoding-type" in request.query else []),
                *[("Deleted", [("Key", encode(key))]) for key in keys],
            ],
        )

    # -- objects ------------------------------------------------------------------------------------------------

    def _put_object(self, request: Request) -> Answer:
        self._shelf.check_may_put(request.bucket, request.key, overwrite=request.may_overwrite)
        with self._shelf.received(request.bucket, request.pieces()) as content:
            _check_md5(request, md5=content.md5)
            stored = self._shelf.put(
                request.bucket,
                request.key,
                content,
                headers=_kept(request.headers),
                overwrite=request.may_overwrite,
            )
        return Answer(headers={**_written(content), "ETag": f'"{stored.etag}"', "Content-MD5": _base64_md5(content)})

    def _append_object(self, _request: Request) -> Answer:
        # The fake rejects this operation so that the product can't use it: in real OSS, the object is visible while it grows.
        raise OssError(405, "MethodNotAllowed", "AppendObject is refused here: an object must not be visible before it is complete.")

    def _copy_object(self, request: Request) -> Answer:
        found, file = self._shelf.open(*_copy_source(request))
        replaces_headers = request.headers.get("x-oss-metadata-directive", "COPY").upper() == "REPLACE"
        with file, self._shelf.received(request.bucket, iter(lambda: file.read(1 << 20), b"")) as content:
            stored = self._shelf.put(
                request.bucket,
                request.key,
                content,
                headers=_kept(request.headers) if replaces_headers else found.headers,
                overwrite=request.may_overwrite,
            )
        answer = _document_answer("CopyObjectResult", [("LastModified", _iso(stored.last_modified)), ("ETag", f'"{stored.etag}"')])
        return Answer(headers={**answer.headers, **_written(content)}, body=answer.body)

    def _get_object(self, request: Request) -> Answer:
        stored, file = self._shelf.open(request.bucket, request.key)
        try:
            if _is_unchanged(request, stored):
                file.close()
                return Answer(status=304, headers=_described(stored))
            stretch = _range_of(request, size=stored.content.size)
        except OssError:
            file.close()
            raise
        if stretch is None:
            return Answer(headers=_described(stored), body=Stretch(file, offset=0, size=stored.content.size))
        offset, size = stretch
        content_range = f"bytes {offset}-{offset + size - 1}/{stored.content.size}"
        headers = {**_described(stored), "Content-Range": content_range}
        return Answer(status=206, headers=headers, body=Stretch(file, offset=offset, size=size))

    def _head_object(self, request: Request) -> Answer:
        stored = self._shelf.stat(request.bucket, request.key)
        status = 304 if _is_unchanged(request, stored) else 200
        return Answer(status=status, headers={**_described(stored), "Content-Length": str(stored.content.size)})

    def _delete_object(self, request: Request) -> Answer:
        self._shelf.delete(request.bucket, request.key)
        return Answer(status=204)

    # -- multipart uploads --------------------------------------------------------------------------------------

    def _initiate_multipart_upload(self, request: Request) -> Answer:
        self._shelf.check_may_put(request.bucket, request.key, overwrite=request.may_overwrite)
        upload = self._shelf.begin_upload(request.bucket, request.key, headers=_kept(request.headers))
        return _document_answer(
            "InitiateMultipartUploadResult",
            [("Bucket", request.bucket), *self._encoded_key(request), ("UploadId", upload.upload_id)],
        )

    def _upload_part(self, request: Request) -> Answer:
        number, upload_id = self._part_of(request)
        with self._shelf.received(request.bucket, request.pieces()) as content:
            _check_md5(request, md5=content.md5)
            self._shelf.put_part(request.bucket, request.key, upload_id, number=number, content=content)
        return Answer(headers={**_written(content), "ETag": f'"{content.md5}"', "Content-MD5": _base64_md5(content)})

    def _upload_part_copy(self, request: Request) -> Answer:
        number, upload_id = self._part_of(request)
        found, file = self._shelf.open(*_copy_source(request))
        with file:
            wanted = request.headers.get("x-oss-copy-source-if-match")
            if wanted is not None and wanted.strip('"') != found.etag:
                raise OssError(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold.")
            offset, size = 0, found.content.size
            if (asked := request.headers.get("x-oss-copy-source-range")) is not None:
                first, last = (int(each) for each in asked.removeprefix("bytes=").split("-"))
                if not 0 <= first <= last < size:
                    raise OssError(416, "InvalidRange", "The requested range cannot be satisfied.")
                offset, size = first, last - first + 1
            with self._shelf.received(request.bucket, _read(file, offset=offset, size=size)) as content:
                part = self._shelf.put_part(request.bucket, request.key, upload_id, number=number, content=content)
        return _document_answer("CopyPartResult", [("LastModified", _iso(part.last_modified)), ("ETag", f'"{content.md5}"')])

    def _part_of(self, request: Request) -> tuple[int, str]:
        """Return a request's part number and upload id. Fail unless the upload exists."""
        number = _number_of(request, "partNumber")
        if not 1 <= number <= _LAST_PART_NUMBER:
            raise invalid_argument(
                f"Part number must be an integer between 1 and {_LAST_PART_NUMBER}.",
                name="partNumber",
                value=str(number),
            )
        upload_id = request.query.get("uploadId", "")
        self._shelf.upload(request.bucket, request.key, upload_id)
        return number, upload_id

    def _complete_multipart_upload(self, request: Request) -> Answer:
        body = b"".join(request.pieces())
        takes_all = request.headers.get("x-oss-complete-all", "").lower() == "yes"
        if takes_all and body:
            raise invalid_argument("The body must be empty when x-oss-complete-all is given.", name="x-oss-complete-all", value="yes")
        stored = self._shelf.complete_upload(
            request.bucket,
            request.key,
            request.query["uploadId"],
            asked=None if takes_all else _asked_parts(body),
            overwrite=request.may_overwrite,
        )
        answer = _document_answer(
            "CompleteMultipartUploadResult",
            [
                ("Location", f"{self._endpoint}/{request.bucket}/{quote(request.key)}"),
                ("Bucket", request.bucket),
                *self._encoded_key(request),
                ("ETag", f'"{stored.etag}"'),
            ],
        )
        return Answer(headers={**answer.headers, **_written(stored.content), "ETag": f'"{stored.etag}"'}, body=answer.body)

    def _abort_multipart_upload(self, request: Request) -> Answer:
        self._shelf.abort_upload(request.bucket, request.key, request.query["uploadId"])
        return Answer(status=204)

    def _list_parts(self, request: Request) -> Answer:
        upload = self._shelf.upload(request.bucket, request.key, request.query["uploadId"])
        limit = _limit_of(request, "max-parts", unless_asked=_MOST_LISTED)
        after = int(request.query.get("part-number-marker", "0"))
        later = [upload.parts[number] for number in sorted(upload.parts) if number > after]
        page = later[:limit]
        return _document_answer(
            "ListPartsResult",
            [
                ("Bucket", request.bucket),
                *self._encoded_key(request),
                ("UploadId", upload.upload_id),
                ("StorageClass", "Standard"),
                ("PartNumberMarker", str(after)),
                ("NextPartNumberMarker", str(page[-1].number if page else after)),
                ("MaxParts", str(limit)),
                ("IsTruncated", str(len(later) > limit).lower()),
                *[
                    (
                        "Part",
                        [
                            ("PartNumber", str(part.number)),
                            ("LastModified", _iso(part.last_modified)),
                            ("ETag", f'"{part.content.md5}"'),
                            ("HashCrc64ecma", str(part.content.crc64)),
                            ("Size", str(part.content.size)),
                        ],
                    )
                    for part in page
                ],
            ],
        )

    def _list_multipart_uploads(self, request: Request) -> Answer:
        if request.query.get("delimiter"):
            raise OssError(501, "NotImplemented", "This fake lists uploads without a delimiter only.")
        limit = _limit_of(request, "max-uploads", unless_asked=_MOST_LISTED)
        marker = (request.query.get("key-marker", ""), request.query.get("upload-id-marker", ""))
        prefix = request.query.get("prefix", "")
        uploads = sorted(self._shelf.bucket(request.bucket).uploads.values(), key=lambda each: (each.key, each.upload_id))
        later = [each for each in uploads if each.key.startswith(prefix) and _comes_after(each.key, each.upload_id, marker)]
        page = later[:limit]
        encode = _encoder_of(request)
        is_truncated = len(later) > limit
        return _document_answer(
            "ListMultipartUploadsResult",
            [
                *([("EncodingType", request.query["encoding-type"])] if "encoding-type" in request.query else []),
                ("Bucket", request.bucket),
                ("KeyMarker", encode(marker[0])),
                ("UploadIdMarker", marker[1]),
                ("NextKeyMarker", encode(page[-1].key) if is_truncated and page else ""),
                ("NextUploadIdMarker", page[-1].upload_id if is_truncated and page else ""),
                ("Delimiter", ""),
                ("Prefix", encode(prefix)),
                ("MaxUploads", str(limit)),
                ("IsTruncated", str(is_truncated).lower()),
                *[
                    (
                        "Upload",
                        [
                            ("Key", encode(each.key)),
                            ("UploadId", each.upload_id),
                            ("Initiated", _iso(each.initiated)),
                        ],
                    )
                    for each in page
                ],
            ],
        )

    def _encoded_key(self, request: Request) -> list[tuple[str, str]]:
        encoding = [("EncodingType", request.query["encoding-type"])] if "encoding-type" in request.query else []
        return [*encoding, ("Key", _encoder_of(request)(request.key))]


# -- parsing requests -----------------------------------------------------------------------------------------------


def _check_key(key: str) -> None:
    if key.startswith(("/", "\\")) or len(key.encode()) > _LONGEST_KEY_BYTES:
        raise OssError(400, "InvalidObjectName", "The specified object is not valid.", details={"ObjectName": key})


def _check_md5(request: Request, *, md5: str) -> None:
    given = request.headers.get("content-md5")
    if given is not None and given != base64.b64encode(bytes.fromhex(md5)).decode():
        raise OssError(400, "InvalidDigest", "The Content-MD5 you specified was invalid.", details={"Content-MD5": given})


def _encoder_of(request: Request) -> Callable[[str], str]:
    if request.query.get("encoding-type") == "url":
        return quote
    return str


def _number_of(request: Request, name: str) -> int:
    try:
        return int(request.query[name])
    except ValueError as exc:
        raise invalid_argument(f"{name} must be a number.", name=name, value=request.query[name]) from exc


def _limit_of(request: Request, name: str, *, unless_asked: int) -> int:
    limit = _number_of(request, name) if name in request.query else unless_asked
    if not 1 <= limit <= _MOST_LISTED:
        raise invalid_argument(f"{name} must be between 1 and {_MOST_LISTED}.", name=name, value=str(limit))
    return limit


def _comes_after(key: str, upload_id: str, marker: tuple[str, str]) -> bool:
    # Without an upload id, the marker skips all uploads of its key.
    return (key, upload_id) > marker if marker[1] else key > marker[0]


def _asked_parts(body: bytes) -> list[tuple[int, str]]:
    try:
        return [(int(each.findtext("PartNumber") or ""), each.findtext("ETag") or "") for each in parsed(body).iterfind("Part")]
    except ValueError as exc:
        raise OssError(400, "MalformedXML", "A PartNumber is not a number.") from exc


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in headers.items() if name in _KEPT_HEADERS or name.startswith(_KEPT_BEGINNINGS)}
    return {"content-type": "application/octet-stream", **kept}


def _copy_source(request: Request) -> tuple[str, str]:
    """Return the bucket and the key of the object to copy."""
    bucket, _, key = unquote(request.headers["x-oss-copy-source"]).lstrip("/").partition("/")
    return bucket, key


def _read(file: BinaryIO, *, offset: int, size: int) -> Iterator[bytes]:
    """Yield `size` bytes from the offset."""
    file.seek(offset)
    while size and (piece := file.read(min(size, 1 << 20))):
        size -= len(piece)
        yield piece


def _is_unchanged(request: Request, stored: StoredObject) -> bool:
    """Tell whether the client already has this object; fail if a precondition does not hold."""
    modified = int(stored.last_modified)
    wanted = request.headers.get("if-match")
    unmodified_since = request.headers.get("if-unmodified-since")
    is_another = wanted is not None and wanted.strip('"') != stored.etag
    is_newer = unmodified_since is not None and modified > _epoch(unmodified_since)
    if is_another or is_newer:
        raise OssError(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold.")
    known = request.headers.get("if-none-match")
    modified_since = request.headers.get("if-modified-since")
    is_known = known is not None and known.strip('"') == stored.etag
    return is_known or (modified_since is not None and modified <= _epoch(modified_since))


def _range_of(request: Request, *, size: int) -> tuple[int, int] | None:
    """Return the offset and size of the requested range, or None for the complete object.

    Without `x-oss-range-behavior: standard`, OSS ignores a range that is not within the object, and sends the complete object.
    """
    is_standard = request.headers.get("x-oss-range-behavior", "") == "standard"
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("range", ""))
    if match is None or match.groups() == ("", ""):
        return None
    if match[1]:
        first, last = int(match[1]), int(match[2]) if match[2] else size - 1
    else:
        first, last = size - int(match[2]), size - 1
    if 0 <= first <= last < size:
        return first, last - first + 1
    if not is_standard:
        return None
    if first >= size or last < first:
        raise OssError(416, "InvalidRange", "The requested range cannot be satisfied.")
    first = max(first, 0)
    return first, min(last, size - 1) - first + 1


# -- building responses ---------------------------------------------------------------------------------------------


def _document_answer(root: str, children: str | Children) -> Answer:
    return Answer(headers={"Content-Type": "application/xml"}, body=document(root, children))


def _described(stored: StoredObject) -> dict[str, str]:
    return {
        **{name.title() if name in _KEPT_HEADERS else name: value for name, value in stored.headers.items()},
        **_written(stored.content),
        **({"Content-MD5": _base64_md5(stored.content)} if stored.kind == "Normal" else {}),
        "ETag": f'"{stored.etag}"',
        "Last-Modified": formatdate(stored.last_modified, usegmt=True),
        "Accept-Ranges": "bytes",
        "x-oss-object-type": stored.kind,
        "x-oss-storage-class": "Standard",
    }


def _written(content: Content) -> dict[str, str]:
    return {"x-oss-hash-crc64ecma": str(content.crc64)}


def _base64_md5(content: Content) -> str:
    return base64.b64encode(bytes.fromhex(content.md5)).decode()


def _iso(moment: float) -> str:
    return dt.datetime.fromtimestamp(moment, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _epoch(http_date: str) -> float:
    return parsedate_to_datetime(http_date).timestamp()


def _encoded_token(last: str) -> str:
    return base64.urlsafe_b64encode(last.encode()).decode()


def _decoded_token(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token).decode()
    except ValueError as exc:
        raise invalid_argument("The continuation token is invalid.", name="continuation-token", value=token) from exc
