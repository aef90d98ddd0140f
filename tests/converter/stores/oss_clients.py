"""Helpers for tests of the OSS fake: requests through the vendor's own client."""

import hashlib
from collections.abc import Callable

import alibabacloud_oss_v2 as alioss  # type: ignore[import-untyped]  # it ships no types
import pytest
from alibabacloud_oss_v2.exceptions import OperationError, ServiceError  # type: ignore[import-untyped]  # it ships no types

from storeservers import FakeOss
from storeservers.oss import AccessKey

BUCKET = "test-bucket"
MIB = 1 << 20
_PATTERN = b"".join(hashlib.sha256(bytes([number])).digest() for number in range(251))


def some_bytes(size: int) -> bytes:
    return (_PATTERN * (size // len(_PATTERN) + 1))[:size]


def oss_client(
    server: FakeOss,
    *,
    key: AccessKey | None = None,
    version: str = "v4",
    region: str | None = None,
    attempts: int = 1,
) -> alioss.Client:
    key = key or AccessKey(server.access_key, server.secret_key)
    configuration = alioss.config.load_default()
    configuration.credentials_provider = alioss.credentials.StaticCredentialsProvider(key.access_key, key.secret_key, key.security_token)
    configuration.region = region or server.region
    configuration.endpoint = server.endpoint
    configuration.use_path_style = True
    configuration.signature_version = version
    configuration.retry_max_attempts = attempts
    configuration.readwrite_timeout = 5
    return alioss.Client(configuration)


def put(client: alioss.Client, key: str, content: bytes, **options: object) -> alioss.PutObjectResult:
    return client.put_object(alioss.PutObjectRequest(bucket=BUCKET, key=key, body=content, **options))


def get(client: alioss.Client, key: str, **options: object) -> bytes:
    answer = client.get_object(alioss.GetObjectRequest(bucket=BUCKET, key=key, **options))
    assert answer.body is not None
    content = answer.body.read()
    assert isinstance(content, bytes)
    return content


def begin_upload(client: alioss.Client, key: str) -> str:
    begun = client.initiate_multipart_upload(alioss.InitiateMultipartUploadRequest(bucket=BUCKET, key=key))
    assert isinstance(begun.upload_id, str)
    return begun.upload_id


def upload_part(client: alioss.Client, key: str, upload_id: str, *, number: int, content: bytes) -> alioss.UploadPart:
    sent = client.upload_part(alioss.UploadPartRequest(bucket=BUCKET, key=key, upload_id=upload_id, part_number=number, body=content))
    return alioss.UploadPart(part_number=number, etag=sent.etag)


def complete(
    client: alioss.Client,
    key: str,
    upload_id: str,
    parts: list[alioss.UploadPart],
    *,
    forbid_overwrite: bool = False,
) -> alioss.CompleteMultipartUploadResult:
    return client.complete_multipart_upload(
        alioss.CompleteMultipartUploadRequest(
            bucket=BUCKET,
            key=key,
            upload_id=upload_id,
            complete_multipart_upload=alioss.CompleteMultipartUpload(parts=parts),
            forbid_overwrite="true" if forbid_overwrite else None,
        )
    )


def refusal_of(operation: Callable[[], object]) -> ServiceError:
    with pytest.raises(OperationError) as refused:
        operation()
    error = refused.value.unwrap()
    assert isinstance(error, ServiceError), error
    return error


def signed_headers(oss: FakeOss, method: str, key: str) -> dict[str, str]:
    request = alioss.types.HttpRequest(method, oss.endpoint)
    alioss.signer.SignerV4().sign(
        alioss.types.SigningContext(
            product="oss",
            region=oss.region,
            bucket=BUCKET,
            key=key,
            request=request,
            credentials=alioss.credentials.Credentials(oss.access_key, oss.secret_key),
        )
    )
    return dict(request.headers)
