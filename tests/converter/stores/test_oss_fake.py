"""The OSS fake follows OSS's documentation: signatures, rights, objects."""

import base64
import hashlib
import http.client
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import alibabacloud_oss_v2 as alioss  # type: ignore[import-untyped]  # it ships no types
import pytest
from alibabacloud_oss_v2.exceptions import OperationError  # type: ignore[import-untyped]  # it ships no types
from tests.converter.stores.oss_clients import BUCKET, begin_upload, get, oss_client, put, refusal_of, signed_headers

from storeservers import FakeOss
from storeservers.oss import AccessKey
from storeservers.oss.crc64 import crc64

pytestmark = pytest.mark.store


@pytest.mark.parametrize("version", ["v1", "v4"])
@pytest.mark.parametrize("key", ["plain", "with/folders", "größe 1%+&=?#.txt", "~tilde*(')!"])
def test_what_is_put_is_got_under_any_signature_and_name(oss: FakeOss, version: str, key: str) -> None:
    client = oss_client(oss, version=version)

    written = put(client, f"{version}/{key}", b"content")

    assert get(client, f"{version}/{key}") == b"content"
    assert oss.read(BUCKET, f"{version}/{key}") == b"content"
    assert written.etag == f'"{hashlib.md5(b"content", usedforsecurity=False).hexdigest().upper()}"'
    assert written.hash_crc64 == str(crc64(b"content"))


def test_the_checksum_is_the_one_that_the_standard_gives() -> None:
    assert crc64(b"123456789") == 0x995DC9BBDF1939FA
    assert crc64(b"6789", crc64(b"12345")) == 0x995DC9BBDF1939FA


@pytest.mark.parametrize("version", ["v1", "v4"])
@pytest.mark.parametrize(
    ("key", "code"),
    [
        pytest.param(AccessKey("test-access-key", "wrong"), "SignatureDoesNotMatch", id="wrong secret"),
        pytest.param(AccessKey("unknown", "test-secret-key"), "InvalidAccessKeyId", id="unknown key"),
        pytest.param(AccessKey("test-access-key", "test-secret-key", "token"), "InvalidSecurityToken", id="needless token"),
        pytest.param(AccessKey("temporary", "secret", "other token"), "InvalidSecurityToken", id="wrong token"),
        pytest.param(AccessKey("temporary", "secret"), "InvalidAccessKeyId", id="missing token"),
        pytest.param(AccessKey("ended", "secret", "token"), "SecurityTokenExpired", id="expired token"),
    ],
)
def test_a_key_that_is_not_good_is_refused(oss: FakeOss, version: str, key: AccessKey, code: str) -> None:
    oss.add_key(AccessKey("temporary", "secret", security_token="token"))
    oss.add_key(AccessKey("ended", "secret", security_token="token", expires_at=time.time() - 1))

    refused = refusal_of(lambda: put(oss_client(oss, key=key, version=version), "refused", b"x"))

    assert (refused.status_code, refused.code) == (403, code)
    assert oss.keys(BUCKET, "refused") == []


@pytest.mark.parametrize("version", ["v1", "v4"])
def test_a_temporary_key_with_its_token_is_let_in(oss: FakeOss, version: str) -> None:
    key = AccessKey("temporary", "secret", security_token="token", expires_at=time.time() + 60)
    oss.add_key(key)

    put(oss_client(oss, key=key, version=version), f"sts/{version}", b"x")

    assert oss.read(BUCKET, f"sts/{version}") == b"x"


def test_another_region_is_refused_by_name(oss: FakeOss) -> None:
    refused = refusal_of(lambda: put(oss_client(oss, region="cn-beijing"), "refused", b"x"))

    assert (refused.status_code, refused.code) == (400, "InvalidArgument")
    assert "expected cn-hangzhou" in refused.message


def test_a_request_without_a_signature_is_refused(oss: FakeOss) -> None:
    status, body = plain_request(oss, "GET", f"/{BUCKET}/key")

    assert status == 403
    assert b"<Code>AccessDenied</Code>" in body


def plain_request(oss: FakeOss, method: str, target: str, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(oss.host, oss.port, timeout=10)
    try:
        connection.request(method, target, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_virtual_host_names_the_bucket(oss: FakeOss) -> None:
    put(oss_client(oss), "virtual/host", b"x")
    headers = {**signed_headers(oss, "GET", "virtual/host"), "Host": f"{BUCKET}.{oss.domain}:{oss.port}"}

    answer = plain_request(oss, "GET", "/virtual/host", headers)

    assert answer == (200, b"x")


@pytest.mark.parametrize(
    ("action", "operation"),
    [
        ("oss:PutObject", lambda client: put(client, "denied", b"y")),
        ("oss:PutObject", lambda client: begin_upload(client, "denied")),
        ("oss:GetObject", lambda client: get(client, "denied")),
        ("oss:GetObject", lambda client: client.head_object(alioss.HeadObjectRequest(BUCKET, "denied"))),
        ("oss:DeleteObject", lambda client: client.delete_object(alioss.DeleteObjectRequest(BUCKET, "denied"))),
        (
            "oss:DeleteObject",
            lambda client: client.delete_multiple_objects(
                alioss.DeleteMultipleObjectsRequest(BUCKET, objects=[alioss.DeleteObject("denied")])
            ),
        ),
        ("oss:ListObjects", lambda client: client.list_objects(alioss.ListObjectsRequest(BUCKET))),
        ("oss:ListObjects", lambda client: client.list_objects_v2(alioss.ListObjectsV2Request(BUCKET))),
        (
            "oss:AbortMultipartUpload",
            lambda client: client.abort_multipart_upload(alioss.AbortMultipartUploadRequest(BUCKET, "denied", "none")),
        ),
        (
            "oss:ListMultipartUploads",
            lambda client: client.list_multipart_uploads(alioss.ListMultipartUploadsRequest(BUCKET)),
        ),
        ("oss:ListParts", lambda client: client.list_parts(alioss.ListPartsRequest(BUCKET, "denied", "none"))),
        ("oss:GetBucketInfo", lambda client: client.get_bucket_info(alioss.GetBucketInfoRequest(BUCKET))),
        ("oss:GetBucketLocation", lambda client: client.get_bucket_location(alioss.GetBucketLocationRequest(BUCKET))),
        (
            "oss:GetBucketVersioning",
            lambda client: client.get_bucket_versioning(alioss.GetBucketVersioningRequest(BUCKET)),
        ),
    ],
)
def test_a_denied_action_is_refused_by_its_name(oss: FakeOss, action: str, operation: Callable[[alioss.Client], object]) -> None:
    oss.write(BUCKET, "denied", b"x")
    oss.deny(action)

    refused = refusal_of(lambda: operation(oss_client(oss)))

    assert (refused.status_code, refused.code) == (403, "AccessDenied")
    # The response to HEAD has no body, so OSS sends the error document in a header.
    document = refused.snapshot or base64.b64decode(refused.headers["x-oss-err"])
    assert f"<AuthAction>{action}</AuthAction>".encode() in document
    assert oss.read(BUCKET, "denied") == b"x"


def test_a_misspelt_action_cannot_be_denied(oss: FakeOss) -> None:
    with pytest.raises(ValueError, match=r"No action is named 'oss:PutObjekt'; known: oss:Abort"):
        oss.deny("oss:PutObjekt")


@pytest.mark.parametrize(
    ("asked", "behavior", "expected"),
    [
        pytest.param("bytes=2-4", None, b"234", id="middle"),
        pytest.param("bytes=7-", None, b"789", id="open end"),
        pytest.param("bytes=-2", None, b"89", id="suffix"),
        pytest.param("bytes=7-20", None, b"0123456789", id="end beyond the object: all of it"),
        pytest.param("bytes=7-20", "standard", b"789", id="end beyond the object, standard"),
        pytest.param("bytes=10-20", None, b"0123456789", id="begin beyond the object: all of it"),
    ],
)
def test_a_range_is_answered_as_oss_documents_it(oss: FakeOss, asked: str, behavior: str | None, expected: bytes) -> None:
    oss.write(BUCKET, "range", b"0123456789")

    assert get(oss_client(oss), "range", range_header=asked, range_behavior=behavior) == expected


def test_a_range_behind_the_object_is_refused_under_the_standard_behavior(oss: FakeOss) -> None:
    oss.write(BUCKET, "range", b"0123456789")

    refused = refusal_of(lambda: get(oss_client(oss), "range", range_header="bytes=10-20", range_behavior="standard"))

    assert (refused.status_code, refused.code) == (416, "InvalidRange")


def test_metadata_and_type_come_back_with_the_object(oss: FakeOss) -> None:
    put(oss_client(oss), "described", b"x", content_type="text/plain", metadata={"digest": "abc"})

    head = oss_client(oss).head_object(alioss.HeadObjectRequest(BUCKET, "described"))

    assert (head.content_type, head.content_length, dict(head.metadata or {})) == ("text/plain", 1, {"digest": "abc"})
    assert oss_client(oss).is_object_exist(BUCKET, "described")
    assert not oss_client(oss).is_object_exist(BUCKET, "absent")


def test_an_absent_object_or_bucket_is_named(oss: FakeOss) -> None:
    client = oss_client(oss)

    no_key = refusal_of(lambda: get(client, "absent"))
    no_bucket = refusal_of(lambda: client.list_objects_v2(alioss.ListObjectsV2Request("absent")))

    assert (no_key.status_code, no_key.code) == (404, "NoSuchKey")
    assert (no_bucket.status_code, no_bucket.code) == (404, "NoSuchBucket")


def test_a_client_that_has_the_object_is_told_so(oss: FakeOss) -> None:
    etag = put(oss_client(oss), "conditional", b"x").etag

    unchanged = refusal_of(lambda: get(oss_client(oss), "conditional", if_none_match=etag))
    changed = refusal_of(lambda: get(oss_client(oss), "conditional", if_match='"OTHER"'))

    assert (unchanged.status_code, changed.status_code, changed.code) == (304, 412, "PreconditionFailed")


def test_an_object_is_not_overwritten_when_that_is_forbidden(oss: FakeOss) -> None:
    put(oss_client(oss), "forbidden/put", b"first", forbid_overwrite="true")

    refused = refusal_of(lambda: put(oss_client(oss), "forbidden/put", b"second", forbid_overwrite="true"))

    assert (refused.status_code, refused.code) == (409, "FileAlreadyExists")
    assert oss.read(BUCKET, "forbidden/put") == b"first"


def test_of_many_creations_at_once_one_wins(oss: FakeOss) -> None:
    client = oss_client(oss)

    def create(number: int) -> bool:
        try:
            put(client, "race", str(number).encode(), forbid_overwrite="true")
        except OperationError:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        won = list(pool.map(create, range(32)))

    assert won.count(True) == 1
    assert oss.read(BUCKET, "race") == str(won.index(True)).encode()


def test_versioning_takes_the_effect_from_forbidding_to_overwrite(oss: FakeOss) -> None:
    oss.make_bucket("versioned", versioning="Enabled")
    client = oss_client(oss)
    request = alioss.PutObjectRequest(bucket="versioned", key="key", body=b"x", forbid_overwrite="true")

    client.put_object(request)
    client.put_object(request)

    status = client.get_bucket_versioning(alioss.GetBucketVersioningRequest("versioned")).version_status
    plain = client.get_bucket_versioning(alioss.GetBucketVersioningRequest(BUCKET)).version_status
    assert (status, plain) == ("Enabled", None)


def test_content_with_another_digest_than_announced_is_refused(oss: FakeOss) -> None:
    digest = base64.b64encode(hashlib.md5(b"other", usedforsecurity=False).digest()).decode()

    refused = refusal_of(lambda: put(oss_client(oss), "digest", b"content", content_md5=digest))

    assert (refused.status_code, refused.code) == (400, "InvalidDigest")
    assert oss.keys(BUCKET, "digest") == []


def test_a_bucket_tells_where_it_is(oss: FakeOss) -> None:
    client = oss_client(oss)

    info = client.get_bucket_info(alioss.GetBucketInfoRequest(BUCKET)).bucket_info
    location = client.get_bucket_location(alioss.GetBucketLocationRequest(BUCKET)).location

    assert info is not None
    assert (info.name, info.location, location) == (BUCKET, "oss-cn-hangzhou", "oss-cn-hangzhou")


def test_a_copy_is_made_unless_forbidden(oss: FakeOss) -> None:
    client = oss_client(oss)
    put(client, "copy/größe 1", b"content", metadata={"a": "b"})

    def copy() -> object:
        return client.copy_object(
            alioss.CopyObjectRequest(bucket=BUCKET, key="copy/target", source_key="copy/größe 1", forbid_overwrite="true")
        )

    copy()
    refused = refusal_of(copy)

    assert refused.code == "FileAlreadyExists"
    [target] = oss.entries(BUCKET, "copy/target")
    assert target.headers["x-oss-meta-a"] == "b"
    assert oss.read(BUCKET, "copy/target") == b"content"


def test_appending_is_refused(oss: FakeOss) -> None:
    request = alioss.AppendObjectRequest(bucket=BUCKET, key="appended", position=0, body=b"x")

    refused = refusal_of(lambda: oss_client(oss).append_object(request))

    assert (refused.status_code, refused.code) == (405, "MethodNotAllowed")


def test_what_the_fake_cannot_do_is_refused_by_name(oss: FakeOss) -> None:
    refused = refusal_of(lambda: oss_client(oss).get_object_acl(alioss.GetObjectAclRequest(BUCKET, "key")))

    assert (refused.status_code, refused.code) == (501, "NotImplemented")
    assert "GET of an object with acl" in refused.message


# multipart
