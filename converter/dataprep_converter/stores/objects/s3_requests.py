"""Signed S3 requests for features that obstore lacks: conditional completion of uploads, and listings with the exact names.

obstore can't abort a multipart upload, and can't complete a multipart upload conditionally. Its listings omit names that its paths can't
express, such as folder markers and names with empty segments. Requests are signed according to AWS Signature Version 4. The signature
covers the body, so the server checks it.
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime

from dataprep_converter.stores.credentials.aws import CredentialChain
from dataprep_converter.stores.store_requests import Address, Requests, encoded


class S3Requests(Requests):
    """Requests to one bucket, signed with the current credentials, or anonymous if there are no credentials."""

    def __init__(self, address: Address, *, region: str, credentials: CredentialChain | None) -> None:
        super().__init__(address, service="S3")
        self._region = region
        self._credentials = credentials

    def signed(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes | memoryview
    ) -> dict[str, str]:
        """Returns the headers, signed according to AWS Signature Version 4."""
        if self._credentials is None:
            return dict(headers)
        credentials = self._credentials.current()
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(body).hexdigest()
        all_headers = {name.lower(): value for name, value in headers.items()} | {
            "host": self.address.netloc,
            "x-amz-content-sha256": digest,
            "x-amz-date": now,
        }
        if credentials.token:
            all_headers["x-amz-security-token"] = credentials.token
        if not body and method in ("PUT", "POST"):
            all_headers["content-length"] = "0"
        names = sorted(all_headers)
        canonical = "\n".join(
            [method, path, encoded(query), *(f"{name}:{all_headers[name].strip()}" for name in names), "", ";".join(names), digest]
        )
        scope = f"{now[:8]}/{self._region}/s3/aws4_request"
        key = f"AWS4{credentials.secret_key}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        all_headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, SignedHeaders={';'.join(names)}, Signature={signature}"
        )
        return all_headers
