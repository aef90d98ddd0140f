"""Calls the OSS SDK, with retries and translated errors. If the request that completes an upload gets no response, this module finds out
whether the upload was completed.

See `oss` for the store.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import alibabacloud_oss_v2 as oss  # type: ignore[import-untyped] # the SDK ships no types
import requests
from alibabacloud_oss_v2 import exceptions as sdk
from alibabacloud_oss_v2.transport import RequestsHttpClient  # type: ignore[import-untyped] # see above

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
from dataprep_converter.runtime.request_budget import RequestBudget
from dataprep_converter.runtime.retry import CLEANUP_POLICY, RetryPolicy, retrying
from dataprep_converter.stores import Entry

RIGHT_OF: Final = {
    "write": "oss:PutObject",
    "read": "oss:GetObject",
    "list": "oss:ListObjects",
    "delete": "oss:DeleteObjects (in RAM's words oss:DeleteObject)",
    "sweep": "oss:ListMultipartUploads",
    "abort": "oss:AbortMultipartUpload",
    "look": "oss:GetBucketVersioning",
}

_BAD_CREDENTIALS = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "SecurityTokenExpired",
    "InvalidSecurityToken",
    "InvalidAccessKeySecret",
    "RequestTimeTooSkewed",
}
_DAMAGED = {"InvalidDigest", "BadDigest", "IncompleteBody", "RequestTimeout", "InvalidPart", "InvalidPartOrder", "MalformedXML"}
"""OSS's error codes for a body that was damaged or truncated in transit, and for an upload that a sweep removed while parts were being
sent.

After these errors, a new attempt sends the data again.
"""
_FULL = {"QuotaExceeded", "StorageQuotaExceeded", "EntityTooLarge"}
_COMPLETION_POLICY = RetryPolicy(attempts=4, total_seconds=40)


class PacedHttpClient(RequestsHttpClient):  # type: ignore[misc] # the SDK has no types
    """The SDK's HTTP client. It delays each request until the request budget allows the request. The SDK's own retries use it too."""

    def __init__(self, budget: RequestBudget, *, connect_timeout: float, readwrite_timeout: float) -> None:
        super().__init__(connect_timeout=connect_timeout, readwrite_timeout=readwrite_timeout)
        self._budget = budget

    # The SDK's requests and responses have no type annotations.
    def send(self, request: Any, **options: Any) -> Any:
        """Sends a request and returns the response."""
        sent_at = self._budget.wait_turn()
        answer = super().send(request, **options)
        self._budget.answered(answer.status_code, sent_at=sent_at)
        return answer


class OssClient:
    """The SDK's client with translated errors."""

    def __init__(self, client: Any, *, peer: str, is_limited: bool) -> None:  # the SDK has no types
        self._client = client
        self.peer = peer
        self.is_limited = is_limited
        """Whether the job limits the store's requests per second."""

    # The SDK's requests and results have no type annotations.
    def call(self, operation: str, request: Any, *, place: tuple[str, str], doing: str, **options: int) -> Any:
        """Returns the result of an operation."""
        with self.border(place, doing=doing):
            return getattr(self._client, operation)(request, **options)

    def persistently(self, operation: str, request: Any, *, place: tuple[str, str], doing: str) -> Any:
        """Returns the result of an operation that is safe to repeat.

        Retries the operation, because the SDK's own retries miss some network faults.
        """
        return retrying(lambda: self.call(operation, request, place=place, doing=doing), what=f"{operation} of oss://{place[0]}/{place[1]}")

    def end(self, operation: str, request: Any, *, place: tuple[str, str], is_ours: Callable[[], Entry | None]) -> Any:
        """Returns the result of the operation that makes an object visible.

        If an earlier attempt got no response but succeeded, returns the object's entry instead. The SDK's own retries are switched off
        here, because they would raise an error instead of returning the entry.
        """
        in_doubt = False

        def attempt() -> Any:  # the SDK has no types
            nonlocal in_doubt
            try:
                return self.call(operation, request, place=place, doing="write", retry_max_attempts=1)
            except Unreachable:
                in_doubt = True
                raise
            except (AlreadyExists, NotFound):
                entry = is_ours() if in_doubt else None
                if entry is None:
                    raise
                return entry

        return retrying(attempt, what=f"{operation} of oss://{place[0]}/{place[1]}", policy=_COMPLETION_POLICY)

    def abort(self, bucket: str, key: str, upload_id: str) -> None:
        """Aborts an upload. Does nothing if the upload is absent."""
        request = oss.AbortMultipartUploadRequest(bucket=bucket, key=key, upload_id=upload_id)

        def attempt() -> None:
            with contextlib.suppress(NotFound):
                self.call("abort_multipart_upload", request, place=(bucket, key), doing="abort")

        retrying(attempt, what=f"aborting the upload of oss://{bucket}/{key}", policy=CLEANUP_POLICY)

    @contextlib.contextmanager
    def border(self, place: tuple[str, str], *, doing: str) -> Iterator[None]:
        """Wraps every SDK call and translates its errors."""
        try:
            yield
        except (sdk.BaseError, requests.RequestException, OSError) as exc:
            raise self._error(exc, place, doing=doing) from exc

    def _error(self, error: Exception, place: tuple[str, str], *, doing: str) -> ConvertError:
        uri = f"oss://{place[0]}/{place[1]}"
        while isinstance(error, sdk.OperationError):
            error = error.unwrap()
        if isinstance(error, sdk.CredentialsFetchError) and isinstance(cause := error.kwargs["error"], BadCredentials | Unreachable):
            return type(cause)(f"{uri}: {cause}", uri=uri)
        if isinstance(error, sdk.CredentialsBaseError):
            return BadCredentials(
                f"No credentials for {uri}: give the store a Secret (accessKeyId, accessKeySecret), set OSS_ACCESS_KEY_ID and "
                f"OSS_ACCESS_KEY_SECRET, or run with a RAM role: {error}.",
                uri=uri,
            )
        if isinstance(error, sdk.ServiceError):
            return self._service_error(error, place[0], uri, doing=doing)
        if isinstance(error, sdk.DeserializationError):
            # A gateway in front of OSS may respond in its own format. For example, a gateway's 502 response lacks the Date header, which
            # the SDK requires.
            return Unreachable(f"OSS at {self.peer}: the response for {uri} isn't in OSS's format: {_line(error)}.", uri=uri)
        if isinstance(error, sdk.RequestError | sdk.ResponseError | requests.RequestException | OSError):
            return Unreachable(f"OSS: cannot connect to {self.peer}, or the connection broke at {uri}: {_line(error)}.", uri=uri)
        return BadSpec(f"OSS doesn't accept {uri}: {_line(error)}.", uri=uri)

    def _service_error(self, error: Any, bucket: str, uri: str, *, doing: str) -> ConvertError:
        status, code = error.status_code, error.code or ""
        reason = " ".join(filter(None, (str(status), code, error.message or ""))).rstrip(".")
        if code in ("FileAlreadyExists", "ObjectAlreadyExists") or (status == 409 and "exist" in code.lower()):
            return AlreadyExists(f"{uri} exists already.", uri=uri)
        if code == "NoSuchBucket":
            return NotFound(f"The bucket {bucket} does not exist at {self.peer}.", uri=f"oss://{bucket}")
        if code in _BAD_CREDENTIALS:
            return BadCredentials(f"OSS at {self.peer} refused the credentials: {reason}.", uri=uri)
        if code in _FULL:
            return StoreFull(f"No space or quota left for {uri}: {reason}.", uri=uri)
        if "specified endpoint" in reason or code == "InvalidArgument":
            return BadSpec(f"OSS at {self.peer} can't serve {uri}; check the store's endpoint and region: {reason}.", uri=uri)
        if status in (401, 403):
            return NotPermitted(f"missing {RIGHT_OF[doing]} on {uri}: {reason}.", uri=uri)
        if code == "NoSuchUpload":
            return NotFound(f"The upload of {uri} is gone: something else has aborted or completed it.", uri=uri)
        if status == 404:
            return NotFound(f"{uri} does not exist.", uri=uri)
        if status == 412:
            return InputChanged(f"{uri} has been replaced since it was listed.", uri=uri)
        if status // 100 == 5 or status in (408, 409, 429) or code in _DAMAGED:
            return Unreachable(f"OSS at {self.peer} failed at {uri}: {reason}.", uri=uri)
        return StoreError(f"OSS at {self.peer} refused {uri}: {reason}.", uri=uri)


def place_of(uri: str) -> tuple[str, str]:
    """Returns bucket and key. Raises BadSpec for a URI without a bucket."""
    bucket, _, key = uri.partition("://")[2].partition("/")
    if not bucket:
        raise BadSpec(f"{uri} names no bucket: write oss://bucket/key.", uri=uri)
    return bucket, key


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0].strip().rstrip(".")[:300]
