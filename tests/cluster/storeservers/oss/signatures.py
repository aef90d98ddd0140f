"""Authenticates requests: signature versions 4 and 1, in the Authorization header.

Implemented from the protocol's description, independently of the client, so this fake, like the real service, rejects a client that signs
incorrectly.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from urllib.parse import quote

from storeservers.oss.errors import OssError, invalid_argument

_MAX_SKEW = dt.timedelta(minutes=15)
_V4 = re.compile(
    r"OSS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<date>\d{8})/(?P<region>[^/]+)/oss/aliyun_v4_request"
    r"(, ?AdditionalHeaders=(?P<additional>[^,]+))?, ?Signature=(?P<signature>[0-9a-f]{64})"
)
_V1 = re.compile(r"OSS (?P<key>[^:]+):(?P<signature>\S+)")
# Version 1 signs only those query parameters that select a subresource or change the response.
_V1_SIGNED_PARAMETERS = frozenset(
    {
        "acl", "append", "bucketInfo", "continuation-token", "delete", "location", "objectMeta",
        "partNumber", "position", "security-token", "symlink", "tagging", "uploadId", "uploads", "versionId",
        "versioning", "versions", "response-content-type", "response-content-disposition",
    }
)  # fmt: skip


@dataclass(frozen=True)
class AccessKey:
    """A known access key."""

    access_key: str
    secret_key: str
    security_token: str | None = None
    """Temporary keys of STS come with a token that each request must carry."""
    expires_at: float | None = None
    """When a temporary key expires, in seconds since 1970."""
    denied: frozenset[str] = field(default_factory=frozenset)
    """The actions that its policy denies."""


@dataclass(frozen=True)
class SignedRequest:
    """The parts of a request that a signature covers."""

    method: str
    bucket: str
    key: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """The headers, with lower-case names."""


def signer_of(
    request: SignedRequest,
    *,
    keys: Mapping[str, AccessKey],
    region: str,
    now: dt.datetime,
) -> AccessKey:
    """Return the key that signed the request, or reject it as OSS does."""
    authorization = request.headers.get("authorization", "")
    if v4 := _V4.fullmatch(authorization):
        key = _known(v4["key"], keys)
        _check_time(_time_of(request), now=now)
        _check_region(v4["region"], expected=region)
        text = _v4_text(request, date=v4["date"], region=region, additional=(v4["additional"] or "").split(";"))
        _check_signature(_v4_signature(text, key=key, date=v4["date"], region=region), given=v4["signature"], key=key, text=text)
    elif v1 := _V1.fullmatch(authorization):
        key = _known(v1["key"], keys)
        _check_time(_time_of(request), now=now)
        text = _v1_text(request)
        _check_signature(_v1_signature(text, key=key), given=v1["signature"], key=key, text=text)
    elif authorization:
        raise invalid_argument("The Authorization header is invalid.", name="Authorization", value=authorization)
    else:
        raise OssError(403, "AccessDenied", "You have no right to access this object because of bucket acl.")
    _check_token(request, key=key, now=now)
    return key


def _known(name: str, keys: Mapping[str, AccessKey]) -> AccessKey:
    if name not in keys:
        raise _unknown_key(name)
    return keys[name]


def _unknown_key(name: str) -> OssError:
    return OssError(
        403,
        "InvalidAccessKeyId",
        "The OSS Access Key Id you provided does not exist in our records.",
        ec="0002-00000902",
        details={"OSSAccessKeyId": name},
    )


def _time_of(request: SignedRequest) -> dt.datetime:
    try:
        if "x-oss-date" in request.headers:
            return dt.datetime.strptime(f"{request.headers['x-oss-date']}+0000", "%Y%m%dT%H%M%SZ%z")
        return parsedate_to_datetime(request.headers.get("date", ""))
    except (TypeError, ValueError) as exc:
        raise OssError(403, "AccessDenied", "OSS authentication requires a valid Date.") from exc


def _check_time(signed: dt.datetime, *, now: dt.datetime) -> None:
    if abs(now - signed) > _MAX_SKEW:
        raise OssError(
            403,
            "RequestTimeTooSkewed",
            "The difference between the request time and the current time is too large.",
            ec="0002-00000504",
            details={"RequestTime": signed.isoformat(), "ServerTime": now.isoformat()},
        )


def _check_region(signed: str, *, expected: str) -> None:
    if signed != expected:
        raise invalid_argument(f"Invalid signing region in Authorization header, expected {expected}.", name="Region", value=signed)


def _check_signature(computed: str, *, given: str, key: AccessKey, text: str) -> None:
    if not hmac.compare_digest(computed, given):
        raise OssError(
            403,
            "SignatureDoesNotMatch",
            "The request signature we calculated does not match the signature you provided. Check your key and signing method.",
            ec="0002-00000040",
            details={"OSSAccessKeyId": key.access_key, "SignatureProvided": given, "StringToSign": text},
        )


def _check_token(request: SignedRequest, *, key: AccessKey, now: dt.datetime) -> None:
    given = request.headers.get("x-oss-security-token", request.headers.get("security-token"))
    if key.expires_at is not None and key.expires_at <= now.timestamp():
        raise OssError(403, "SecurityTokenExpired", "The security token you provided has expired.", ec="0002-00000901")
    if key.security_token is not None and given is None:
        # If the request has no token, OSS looks for the key among the permanent keys only.
        raise _unknown_key(key.access_key)
    if given != key.security_token:
        raise OssError(403, "InvalidSecurityToken", "The security token you provided is invalid.", ec="0002-00000912")


# Version 4:  algorithm | time | scope | hash of (method | uri | query | headers | names of additional headers | payload)
def _v4_text(request: SignedRequest, *, date: str, region: str, additional: list[str]) -> str:
    uri = quote(f"/{request.bucket}/{request.key}" if request.bucket else "/", safe="/")
    encoded = sorted((quote(name, safe=""), quote(value, safe="")) for name, value in request.query.items())
    query = "&".join(f"{name}={value}" if value else name for name, value in encoded)
    headers = "".join(
        f"{name}:{value.strip()}\n"
        for name, value in sorted(request.headers.items())
        if name.startswith("x-oss-") or name in ("content-type", "content-md5") or name in additional
    )
    payload = request.headers.get("x-oss-content-sha256", "")
    canonical = "\n".join([request.method, uri, query, headers, ";".join(additional), payload])
    time = request.headers.get("x-oss-date", "")
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    return f"OSS4-HMAC-SHA256\n{time}\n{date}/{region}/oss/aliyun_v4_request\n{digest}"


def _v4_signature(text: str, *, key: AccessKey, date: str, region: str) -> str:
    signing_key = f"aliyun_v4{key.secret_key}".encode()
    for part in (date, region, "oss", "aliyun_v4_request", text):
        signing_key = hmac.new(signing_key, part.encode(), hashlib.sha256).digest()
    return signing_key.hex()


# Version 1:  method | content-md5 | content-type | date | x-oss- headers | resource with its signed parameters
def _v1_text(request: SignedRequest) -> str:
    headers = "".join(f"{name}:{value.strip()}\n" for name, value in sorted(request.headers.items()) if name.startswith("x-oss-"))
    signed = sorted(item for item in request.query.items() if item[0] in _V1_SIGNED_PARAMETERS)
    query = "&".join(f"{name}={value}" if value else name for name, value in signed)
    resource = f"/{request.bucket}/{request.key}" if request.bucket else "/"
    return "\n".join(
        [
            request.method,
            request.headers.get("content-md5", ""),
            request.headers.get("content-type", ""),
            request.headers.get("x-oss-date", request.headers.get("date", "")),
            headers + resource + (f"?{query}" if query else ""),
        ]
    )


def _v1_signature(text: str, *, key: AccessKey) -> str:
    return base64.b64encode(hmac.new(key.secret_key.encode(), text.encode(), hashlib.sha1).digest()).decode()
