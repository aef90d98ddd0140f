"""Maps requests to operations and the rights that they need. A single table lists all operations that the fake supports."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from storeservers.oss.errors import OssError

_LISTING = frozenset({"prefix", "delimiter", "max-keys", "encoding-type"})
_UPLOADS = frozenset({"prefix", "delimiter", "max-uploads", "key-marker", "upload-id-marker", "encoding-type"})
_PARTS = frozenset({"max-parts", "part-number-marker", "encoding-type"})


@dataclass(frozen=True)
class Operation:
    """An operation of the OSS API."""

    name: str
    action: str
    """The permission that the key's policy must grant."""
    method: str
    on: Literal["bucket", "object"]
    marker: str | None = None
    """The query parameter that distinguishes this operation from others."""
    parameters: Collection[str] = ()
    """The other query parameters that it accepts."""
    header: str | None = None
    """The header that distinguishes this operation from others."""


# The first match is the operation.
OPERATIONS = (
    Operation("GetBucketInfo", "oss:GetBucketInfo", "GET", "bucket", "bucketInfo"),
    Operation("GetBucketLocation", "oss:GetBucketLocation", "GET", "bucket", "location"),
    Operation("GetBucketVersioning", "oss:GetBucketVersioning", "GET", "bucket", "versioning"),
    Operation("GetBucketAcl", "oss:GetBucketAcl", "GET", "bucket", "acl"),
    Operation("ListMultipartUploads", "oss:ListMultipartUploads", "GET", "bucket", "uploads", _UPLOADS),
    Operation(
        "ListObjectsV2",
        "oss:ListObjects",
        "GET",
        "bucket",
        "list-type",
        _LISTING | {"continuation-token", "start-after", "fetch-owner"},
    ),
    Operation("ListObjects", "oss:ListObjects", "GET", "bucket", None, _LISTING | {"marker"}),
    Operation("DeleteMultipleObjects", "oss:DeleteObject", "POST", "bucket", "delete", {"encoding-type"}),
    Operation("ListParts", "oss:ListParts", "GET", "object", "uploadId", _PARTS),
    Operation("GetObject", "oss:GetObject", "GET", "object"),
    Operation("GetObjectMeta", "oss:GetObject", "HEAD", "object", "objectMeta"),
    Operation("HeadObject", "oss:GetObject", "HEAD", "object"),
    Operation("InitiateMultipartUpload", "oss:PutObject", "POST", "object", "uploads", {"encoding-type"}),
    Operation("CompleteMultipartUpload", "oss:PutObject", "POST", "object", "uploadId", {"encoding-type"}),
    Operation("AppendObject", "oss:PutObject", "POST", "object", "append", {"position"}),
    Operation("UploadPartCopy", "oss:PutObject", "PUT", "object", "partNumber", {"uploadId"}, header="x-oss-copy-source"),
    Operation("UploadPart", "oss:PutObject", "PUT", "object", "partNumber", {"uploadId"}),
    Operation("CopyObject", "oss:PutObject", "PUT", "object", header="x-oss-copy-source"),
    Operation("PutObject", "oss:PutObject", "PUT", "object"),
    Operation("AbortMultipartUpload", "oss:AbortMultipartUpload", "DELETE", "object", "uploadId"),
    Operation("DeleteObject", "oss:DeleteObject", "DELETE", "object"),
)  # fmt: skip

ACTIONS = frozenset(operation.action for operation in OPERATIONS)


def operation_of(
    *,
    method: str,
    bucket: str,
    key: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
) -> Operation:
    """Return the operation of a request. An unsupported operation is rejected with a message that names it."""
    on = "object" if key else "bucket"
    for operation in OPERATIONS:
        if bucket and operation.method == method and operation.on == on and _has_marker(operation, query, headers):
            unknown = query.keys() - set(operation.parameters) - {operation.marker}
            if not unknown:
                return operation
            break
    asked = "&".join(query) or "no parameters"
    about = f"an {on}" if key else f"a {on}" if bucket else "the service"
    raise OssError(501, "NotImplemented", f"This fake doesn't support {method} of {about} with {asked}.")


def _has_marker(operation: Operation, query: Mapping[str, str], headers: Mapping[str, str]) -> bool:
    return (operation.marker is None or operation.marker in query) and (operation.header is None or operation.header in headers)
