"""Authenticates requests: MaxCompute's signature version 2, and version 4 with a region.

Implemented from the protocol's description, independently of the client.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from storeservers.odps.errors import OdpsError


@dataclass(frozen=True)
class AccessKey:
    """A known access key."""

    access_id: str
    secret: str
    token: str | None = None
    """Temporary keys come with a token that each request must carry."""


def check(*, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], keys: Mapping[str, AccessKey]) -> None:
    """Rejects a request that is not signed by any of the keys. `headers` have lower-case names."""
    scheme, _, credential = headers.get("authorization", "").partition(" ")
    access_id, _, signature = credential.rpartition(":")
    access_id, _, scope = access_id.partition("/")
    if scheme != "ODPS" or not signature:
        raise OdpsError(401, "Unauthorized", "The request authorization header is invalid or missing.")
    key = keys.get(access_id)
    if key is None:
        raise OdpsError(401, "ODPS-0410051", "ODPS-0410051:Invalid credentials - accessKeyId not found")
    if key.token != headers.get("authorization-sts-token"):
        raise OdpsError(401, "ODPS-0410051", "ODPS-0410051:Invalid credentials - the security token is wrong or has expired")
    secret = key.secret.encode()
    if scope:
        date, region, *_ = scope.split("/")
        secret = b"aliyun_v4" + secret
        for part in (date, region, "odps", "aliyun_v4_request"):
            secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
    expected = base64.b64encode(hmac.new(secret, _canonical(method, path, query, headers).encode(), hashlib.sha1).digest())
    if not hmac.compare_digest(expected, signature.encode()):
        raise OdpsError(401, "ODPS-0410042", "ODPS-0410042:Invalid signature value - User signature does not match")


def _canonical(method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> str:
    signed = {"content-md5": "", "content-type": "", "date": ""}
    signed |= {name: value for name, value in headers.items() if name in signed or name.startswith("x-odps-")}
    signed |= {name: value for name, value in query.items() if name.startswith("x-odps-")}
    lines = [f"{name}:{value}" if name.startswith("x-odps-") else value for name, value in sorted(signed.items())]
    parameters = "&".join(f"{name}={value}" if value else name for name, value in sorted(query.items()))
    return "\n".join([method, *lines, f"{path}?{parameters}" if parameters else path])
