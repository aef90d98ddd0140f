"""The store servers that other tests rely on do what those tests assume."""

import base64
import hashlib
import http.client
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import alibabacloud_oss_v2 as alioss  # type: ignore[import-untyped]  # it ships no types
import fsspec  # type: ignore[import-untyped]  # it ships no types
import obstore
import pytest
from alibabacloud_oss_v2.exceptions import OperationError, ServiceError  # type: ignore[import-untyped]  # it ships no types
from obstore.exceptions import AlreadyExistsError, PermissionDeniedError
from obstore.store import S3Store

from storeservers import FakeOss, HdfsCluster, Lifetime, S3Server
from storeservers.oss import AccessKey, Fault
from storeservers.oss.crc64 import crc64
from storeservers.oss.listing import page_of
from storeservers.processes import ProcessIdentity, ServerFailed, ServerProcess, wait_until

pytestmark = pytest.mark.store

_BUCKET = "test-bucket"
_MIB = 1 << 20
_PATTERN = b"".join(hashlib.sha256(bytes([number])).digest() for number in range(251))


def some_bytes(size: int) -> bytes:
    return (_PATTERN * (size // len(_PATTERN) + 1))[:size]


# -- processes ----------------------------------------------------------------------------------------------------------


def a_sleeper(folder: Path, *, lifetime: Lifetime = Lifetime.WITH_STARTER) -> ServerProcess:
    return ServerProcess.start(
        "sleeper",
        ["sleep", "600"],
        log=folder / "sleeper.log",
        environment={},
        lifetime=lifetime,
    )


def test_a_server_that_ends_too_early_is_reported_with_its_log(tmp_path: Path) -> None:
    server = ServerProcess.start(
        "liar",
        ["sh", "-c", "echo no such luck; exit 3"],
        log=tmp_path / "log",
        environment={},
        lifetime=Lifetime.WITH_STARTER,
    )

    with pytest.raises(ServerFailed, match=r"liar ended with 3:\nno such luck"):
        server.wait_until(lambda: False, seconds=10)


def test_a_server_dies_with_the_tests_that_started_it(tmp_path: Path) -> None:
    starter = (
        "import sys, time; from pathlib import Path; from storeservers.processes import *;"
        f"server = ServerProcess.start('sleeper', ['sleep', '600'], log=Path({str(tmp_path / 'log')!r}), environment={{}},"
        "lifetime=Lifetime.WITH_STARTER); print(server.pid, flush=True); time.sleep(600)"
    )
    sources = str(Path(sys.modules["storeservers"].__path__[0]).parent)
    with subprocess.Popen(  # this interpreter, this module's text
        [sys.executable, "-c", starter],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": sources},
    ) as tests:
        assert tests.stdout is not None
        server = ProcessIdentity.of(int(tests.stdout.readline()))
        was_running = server.running()

        tests.send_signal(signal.SIGKILL)

    assert was_running
    wait_until(lambda: not server.running(), seconds=10, what="the server is gone")


def test_a_server_is_not_started_by_a_thread_that_may_end_before_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(ServerFailed, match="main thread"):
        pool.submit(a_sleeper, tmp_path).result()


def test_an_identity_tells_a_process_from_a_later_one_with_its_id(tmp_path: Path) -> None:
    server = a_sleeper(tmp_path)
    later = replace(server.identity, start_ticks=server.identity.start_ticks - 1)

    later.end(grace_seconds=1)
    still_running = server.running
    server.kill()

    assert still_running
    assert not server.identity.running()


# -- HDFS ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    with HdfsCluster(tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster


def hdfs_client(cluster: HdfsCluster) -> fsspec.AbstractFileSystem:
    # The default attempts of a call to a dead NameNode take three minutes.
    return fsspec.filesystem(
        "hdfs",
        host=cluster.host,
        port=cluster.port,
        skip_instance_cache=True,
        **{
            "dfs.client.failover.max.attempts": "2",
            "dfs.client.failover.sleep.base.millis": "200",
            "dfs.client.failover.sleep.max.millis": "1000",
        },
    )


def test_hdfs_comes_up_with_two_datanodes(hdfs: HdfsCluster) -> None:
    assert len(hdfs.live_datanodes()) == 2


@pytest.mark.parametrize("replication", [1, 2])
def test_a_file_has_the_replication_that_its_writer_asked_for(hdfs: HdfsCluster, replication: int) -> None:
    path = f"/replication-{replication}/file"

    with hdfs_client(hdfs).open(path, "wb", replication=replication) as file:
        file.write(b"twelve bytes")

    [entry] = hdfs.ls(f"/replication-{replication}")
    assert (entry.path, entry.replication, entry.size, entry.is_folder) == (path, replication, 12, False)
    assert hdfs.read(path) == b"twelve bytes"


def test_a_name_with_blanks_and_letters_beyond_ascii_is_read_and_listed(hdfs: HdfsCluster) -> None:
    hdfs.write("/names/größe 1%.txt", b"x")

    assert [each.path for each in hdfs.files("/names")] == ["/names/größe 1%.txt"]
    assert hdfs.read("/names/größe 1%.txt") == b"x"
    assert hdfs_client(hdfs).cat_file("/names/größe 1%.txt") == b"x"


def test_a_folder_of_somebody_else_is_closed(hdfs: HdfsCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    hdfs.mkdirs("/closed", owner="somebody", permission="700")
    monkeypatch.setenv("HADOOP_USER_NAME", "nobody")

    with (
        pytest.raises(Exception, match=r"AccessControlException.*user=nobody"),
        hdfs_client(hdfs).open("/closed/file", "wb") as file,
    ):
        file.write(b"x")

    entry = hdfs.stat("/closed")
    assert (entry.owner, entry.permission, hdfs.ls("/closed")) == ("somebody", "700", [])


def test_what_is_deleted_or_was_never_there_does_not_exist(hdfs: HdfsCluster) -> None:
    hdfs.write("/gone/file", b"x")
    existed = hdfs.exists("/gone/file")

    hdfs.delete("/gone")

    assert existed
    assert not hdfs.exists("/gone/file")


def test_the_client_configuration_leads_a_client_to_the_cluster(hdfs: HdfsCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hdfs.write("/configured", b"x")
    hdfs.write_client_configuration(tmp_path)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))

    found = subprocess.run(
        [sys.executable, "-c", "import hdfs_native; print(hdfs_native.Client().get_file_info('/configured').length)"],
        check=True,
        capture_output=True,
        text=True,
    )

    assert found.stdout == "1\n"


def test_a_killed_datanode_is_missed_and_comes_back(hdfs: HdfsCluster) -> None:
    hdfs.write("/survivor", some_bytes(_MIB))

    hdfs.kill_datanode(0)
    hdfs.wait_for_live_datanodes(1, seconds=60)
    content_without = hdfs_client(hdfs).cat_file("/survivor")
    hdfs.start_datanode(0)
    hdfs.wait_for_live_datanodes(2)

    assert content_without == some_bytes(_MIB)


def test_a_killed_namenode_comes_back_with_its_files(hdfs: HdfsCluster) -> None:
    hdfs.write("/kept", b"x")

    hdfs.kill_namenode()
    hdfs.start_namenode()

    assert hdfs.read("/kept") == b"x"
    assert hdfs_client(hdfs).cat_file("/kept") == b"x"


# -- S3 -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        server.make_bucket(_BUCKET)
        yield server


def s3_client(server: S3Server, *, access_key: str | None = None, secret_key: str | None = None) -> S3Store:
    return S3Store(
        _BUCKET,
        endpoint=server.endpoint,
        region=server.region,
        access_key_id=access_key or server.access_key,
        secret_access_key=secret_key or server.secret_key,
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


def test_a_multipart_upload_to_s3_is_one_object(s3: S3Server) -> None:
    content = some_bytes(17 * _MIB)

    obstore.put(s3_client(s3), "multi/part", content, use_multipart=True, chunk_size=5 * _MIB)

    assert s3.keys(_BUCKET, "multi/") == ["multi/part"]
    assert s3.read(_BUCKET, "multi/part") == content
    assert bytes(obstore.get_range(s3_client(s3), "multi/part", start=6 * _MIB, length=9)) == content[6 * _MIB :][:9]


def test_s3_creates_an_object_only_once(s3: S3Server) -> None:
    obstore.put(s3_client(s3), "once", b"first", mode="create")

    with pytest.raises(AlreadyExistsError):
        obstore.put(s3_client(s3), "once", b"second", mode="create")

    assert s3.read(_BUCKET, "once") == b"first"


def test_an_unfinished_upload_to_s3_is_no_object(s3: S3Server) -> None:
    s3.request("POST", f"/{_BUCKET}/unfinished", query={"uploads": ""})

    assert [each.key for each in s3.uploads(_BUCKET)] == ["unfinished"]
    assert s3.keys(_BUCKET, "unfinished") == []


def test_a_wrong_secret_is_refused_by_s3(s3: S3Server) -> None:
    with pytest.raises(PermissionDeniedError, match="SignatureDoesNotMatch"):
        obstore.put(s3_client(s3, secret_key="wrong"), "key", b"x")


def test_a_right_that_the_policy_does_not_give_is_denied_by_s3(s3: S3Server) -> None:
    s3.write(_BUCKET, "readable", b"x")
    s3.add_user("reader", "reader-secret")
    s3.set_policy(
        _BUCKET,
        '{"Statement": [{"Effect": "Allow", "Principal": "reader", "Action": ["s3:GetObject"],'
        f'"Resource": ["arn:aws:s3:::{_BUCKET}/*"]}}]}}',
    )
    client = s3_client(s3, access_key="reader", secret_key="reader-secret")

    content = bytes(obstore.get(client, "readable").bytes())
    with pytest.raises(PermissionDeniedError, match="AccessDenied"):
        obstore.put(client, "readable", b"y")

    assert content == b"x"


def test_s3_keeps_its_objects_over_a_restart(s3: S3Server) -> None:
    s3.write(_BUCKET, "kept in/s3", b"x")

    s3.stop()
    s3.start()

    assert bytes(obstore.get(s3_client(s3), "kept in/s3").bytes()) == b"x"


# -- OSS ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running_oss(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeOss]:
    with FakeOss(tmp_path_factory.mktemp("oss")) as server:
        server.make_bucket(_BUCKET)
        yield server


@pytest.fixture
def oss(running_oss: FakeOss) -> FakeOss:
    running_oss.deny()
    running_oss.clear_faults()
    running_oss.clear_requests()
    return running_oss


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
    return client.put_object(alioss.PutObjectRequest(bucket=_BUCKET, key=key, body=content, **options))


def get(client: alioss.Client, key: str, **options: object) -> bytes:
    answer = client.get_object(alioss.GetObjectRequest(bucket=_BUCKET, key=key, **options))
    assert answer.body is not None
    content = answer.body.read()
    assert isinstance(content, bytes)
    return content


def begin_upload(client: alioss.Client, key: str) -> str:
    begun = client.initiate_multipart_upload(alioss.InitiateMultipartUploadRequest(bucket=_BUCKET, key=key))
    assert isinstance(begun.upload_id, str)
    return begun.upload_id


def upload_part(client: alioss.Client, key: str, upload_id: str, *, number: int, content: bytes) -> alioss.UploadPart:
    sent = client.upload_part(alioss.UploadPartRequest(bucket=_BUCKET, key=key, upload_id=upload_id, part_number=number, body=content))
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
            bucket=_BUCKET,
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


@pytest.mark.parametrize("version", ["v1", "v4"])
@pytest.mark.parametrize("key", ["plain", "with/folders", "größe 1%+&=?#.txt", "~tilde*(')!"])
def test_what_is_put_is_got_under_any_signature_and_name(oss: FakeOss, version: str, key: str) -> None:
    client = oss_client(oss, version=version)

    written = put(client, f"{version}/{key}", b"content")

    assert get(client, f"{version}/{key}") == b"content"
    assert oss.read(_BUCKET, f"{version}/{key}") == b"content"
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
    assert oss.keys(_BUCKET, "refused") == []


@pytest.mark.parametrize("version", ["v1", "v4"])
def test_a_temporary_key_with_its_token_is_let_in(oss: FakeOss, version: str) -> None:
    key = AccessKey("temporary", "secret", security_token="token", expires_at=time.time() + 60)
    oss.add_key(key)

    put(oss_client(oss, key=key, version=version), f"sts/{version}", b"x")

    assert oss.read(_BUCKET, f"sts/{version}") == b"x"


def test_another_region_is_refused_by_name(oss: FakeOss) -> None:
    refused = refusal_of(lambda: put(oss_client(oss, region="cn-beijing"), "refused", b"x"))

    assert (refused.status_code, refused.code) == (400, "InvalidArgument")
    assert "expected cn-hangzhou" in refused.message


def test_a_request_without_a_signature_is_refused(oss: FakeOss) -> None:
    status, body = plain_request(oss, "GET", f"/{_BUCKET}/key")

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


def signed_headers(oss: FakeOss, method: str, key: str) -> dict[str, str]:
    request = alioss.types.HttpRequest(method, oss.endpoint)
    alioss.signer.SignerV4().sign(
        alioss.types.SigningContext(
            product="oss",
            region=oss.region,
            bucket=_BUCKET,
            key=key,
            request=request,
            credentials=alioss.credentials.Credentials(oss.access_key, oss.secret_key),
        )
    )
    return dict(request.headers)


def test_a_virtual_host_names_the_bucket(oss: FakeOss) -> None:
    put(oss_client(oss), "virtual/host", b"x")
    headers = {**signed_headers(oss, "GET", "virtual/host"), "Host": f"{_BUCKET}.{oss.domain}:{oss.port}"}

    answer = plain_request(oss, "GET", "/virtual/host", headers)

    assert answer == (200, b"x")


@pytest.mark.parametrize(
    ("action", "operation"),
    [
        ("oss:PutObject", lambda client: put(client, "denied", b"y")),
        ("oss:PutObject", lambda client: begin_upload(client, "denied")),
        ("oss:GetObject", lambda client: get(client, "denied")),
        ("oss:GetObject", lambda client: client.head_object(alioss.HeadObjectRequest(_BUCKET, "denied"))),
        ("oss:DeleteObject", lambda client: client.delete_object(alioss.DeleteObjectRequest(_BUCKET, "denied"))),
        (
            "oss:DeleteObject",
            lambda client: client.delete_multiple_objects(
                alioss.DeleteMultipleObjectsRequest(_BUCKET, objects=[alioss.DeleteObject("denied")])
            ),
        ),
        ("oss:ListObjects", lambda client: client.list_objects(alioss.ListObjectsRequest(_BUCKET))),
        ("oss:ListObjects", lambda client: client.list_objects_v2(alioss.ListObjectsV2Request(_BUCKET))),
        (
            "oss:AbortMultipartUpload",
            lambda client: client.abort_multipart_upload(alioss.AbortMultipartUploadRequest(_BUCKET, "denied", "none")),
        ),
        (
            "oss:ListMultipartUploads",
            lambda client: client.list_multipart_uploads(alioss.ListMultipartUploadsRequest(_BUCKET)),
        ),
        ("oss:ListParts", lambda client: client.list_parts(alioss.ListPartsRequest(_BUCKET, "denied", "none"))),
        ("oss:GetBucketInfo", lambda client: client.get_bucket_info(alioss.GetBucketInfoRequest(_BUCKET))),
        ("oss:GetBucketLocation", lambda client: client.get_bucket_location(alioss.GetBucketLocationRequest(_BUCKET))),
        (
            "oss:GetBucketVersioning",
            lambda client: client.get_bucket_versioning(alioss.GetBucketVersioningRequest(_BUCKET)),
        ),
    ],
)
def test_a_denied_action_is_refused_by_its_name(oss: FakeOss, action: str, operation: Callable[[alioss.Client], object]) -> None:
    oss.write(_BUCKET, "denied", b"x")
    oss.deny(action)

    refused = refusal_of(lambda: operation(oss_client(oss)))

    assert (refused.status_code, refused.code) == (403, "AccessDenied")
    # The answer to HEAD has no body; OSS sends the document in a header.
    document = refused.snapshot or base64.b64decode(refused.headers["x-oss-err"])
    assert f"<AuthAction>{action}</AuthAction>".encode() in document
    assert oss.read(_BUCKET, "denied") == b"x"


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
    oss.write(_BUCKET, "range", b"0123456789")

    assert get(oss_client(oss), "range", range_header=asked, range_behavior=behavior) == expected


def test_a_range_behind_the_object_is_refused_under_the_standard_behavior(oss: FakeOss) -> None:
    oss.write(_BUCKET, "range", b"0123456789")

    refused = refusal_of(lambda: get(oss_client(oss), "range", range_header="bytes=10-20", range_behavior="standard"))

    assert (refused.status_code, refused.code) == (416, "InvalidRange")


def test_metadata_and_type_come_back_with_the_object(oss: FakeOss) -> None:
    put(oss_client(oss), "described", b"x", content_type="text/plain", metadata={"digest": "abc"})

    head = oss_client(oss).head_object(alioss.HeadObjectRequest(_BUCKET, "described"))

    assert (head.content_type, head.content_length, dict(head.metadata or {})) == ("text/plain", 1, {"digest": "abc"})
    assert oss_client(oss).is_object_exist(_BUCKET, "described")
    assert not oss_client(oss).is_object_exist(_BUCKET, "absent")


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
    assert oss.read(_BUCKET, "forbidden/put") == b"first"


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
    assert oss.read(_BUCKET, "race") == str(won.index(True)).encode()


def test_versioning_takes_the_effect_from_forbidding_to_overwrite(oss: FakeOss) -> None:
    oss.make_bucket("versioned", versioning="Enabled")
    client = oss_client(oss)
    request = alioss.PutObjectRequest(bucket="versioned", key="key", body=b"x", forbid_overwrite="true")

    client.put_object(request)
    client.put_object(request)

    status = client.get_bucket_versioning(alioss.GetBucketVersioningRequest("versioned")).version_status
    plain = client.get_bucket_versioning(alioss.GetBucketVersioningRequest(_BUCKET)).version_status
    assert (status, plain) == ("Enabled", None)


def test_content_with_another_digest_than_announced_is_refused(oss: FakeOss) -> None:
    digest = base64.b64encode(hashlib.md5(b"other", usedforsecurity=False).digest()).decode()

    refused = refusal_of(lambda: put(oss_client(oss), "digest", b"content", content_md5=digest))

    assert (refused.status_code, refused.code) == (400, "InvalidDigest")
    assert oss.keys(_BUCKET, "digest") == []


def test_a_bucket_tells_where_it_is(oss: FakeOss) -> None:
    client = oss_client(oss)

    info = client.get_bucket_info(alioss.GetBucketInfoRequest(_BUCKET)).bucket_info
    location = client.get_bucket_location(alioss.GetBucketLocationRequest(_BUCKET)).location

    assert info is not None
    assert (info.name, info.location, location) == (_BUCKET, "oss-cn-hangzhou", "oss-cn-hangzhou")


def test_a_copy_is_made_unless_forbidden(oss: FakeOss) -> None:
    client = oss_client(oss)
    put(client, "copy/größe 1", b"content", metadata={"a": "b"})

    def copy() -> object:
        return client.copy_object(
            alioss.CopyObjectRequest(bucket=_BUCKET, key="copy/target", source_key="copy/größe 1", forbid_overwrite="true")
        )

    copy()
    refused = refusal_of(copy)

    assert refused.code == "FileAlreadyExists"
    [target] = oss.entries(_BUCKET, "copy/target")
    assert target.headers["x-oss-meta-a"] == "b"
    assert oss.read(_BUCKET, "copy/target") == b"content"


def test_appending_is_refused(oss: FakeOss) -> None:
    request = alioss.AppendObjectRequest(bucket=_BUCKET, key="appended", position=0, body=b"x")

    refused = refusal_of(lambda: oss_client(oss).append_object(request))

    assert (refused.status_code, refused.code) == (405, "MethodNotAllowed")


def test_what_the_fake_cannot_do_is_refused_by_name(oss: FakeOss) -> None:
    refused = refusal_of(lambda: oss_client(oss).get_object_acl(alioss.GetObjectAclRequest(_BUCKET, "key")))

    assert (refused.status_code, refused.code) == (501, "NotImplemented")
    assert "GET of an object with acl" in refused.message


# multipart


def test_an_upload_is_an_object_when_it_is_complete_and_not_before(oss: FakeOss) -> None:
    client = oss_client(oss)
    content = some_bytes(3 * _MIB)
    upload_id = begin_upload(client, "multi/whole")
    second = upload_part(client, "multi/whole", upload_id, number=2, content=content[2 * _MIB :])
    upload_part(client, "multi/whole", upload_id, number=1, content=b"a part that is sent again replaces itself")
    first = upload_part(client, "multi/whole", upload_id, number=1, content=content[: 2 * _MIB])
    before = oss.keys(_BUCKET, "multi/whole"), [(each.key, each.part_sizes) for each in oss.uploads(_BUCKET)]

    completed = complete(client, "multi/whole", upload_id, [first, second])

    assert before == ([], [("multi/whole", {1: 2 * _MIB, 2: _MIB})])
    assert get(client, "multi/whole") == content
    assert completed.hash_crc64 == str(crc64(content))
    assert re.fullmatch(r'"[0-9A-F]{32}-2"', completed.etag or "")
    assert oss.uploads(_BUCKET) == []
    assert refusal_of(lambda: complete(client, "multi/whole", upload_id, [first, second])).code == "NoSuchUpload"


def test_the_uploader_of_the_client_works_with_parallel_parts(oss: FakeOss) -> None:
    content = some_bytes(5 * _MIB + 1)

    oss_client(oss).uploader(part_size=_MIB, parallel_num=4).upload_from(
        alioss.PutObjectRequest(_BUCKET, "multi/uploader"), io.BytesIO(content)
    )

    assert oss.read(_BUCKET, "multi/uploader") == content


def test_completing_does_not_overwrite_when_that_is_forbidden(oss: FakeOss) -> None:
    client = oss_client(oss)
    upload_id = begin_upload(client, "forbidden/complete")
    part = upload_part(client, "forbidden/complete", upload_id, number=1, content=b"mine")
    oss.write(_BUCKET, "forbidden/complete", b"theirs")

    refused = refusal_of(lambda: complete(client, "forbidden/complete", upload_id, [part], forbid_overwrite=True))
    client.abort_multipart_upload(alioss.AbortMultipartUploadRequest(_BUCKET, "forbidden/complete", upload_id))

    assert (refused.status_code, refused.code) == (409, "FileAlreadyExists")
    assert oss.read(_BUCKET, "forbidden/complete") == b"theirs"
    assert oss.uploads(_BUCKET) == []


def test_an_upload_is_completed_with_all_parts_when_none_are_named(oss: FakeOss) -> None:
    client = oss_client(oss)
    upload_id = begin_upload(client, "multi/all")
    upload_part(client, "multi/all", upload_id, number=7, content=b"b")
    upload_part(client, "multi/all", upload_id, number=3, content=b"a" * 102_400)

    client.complete_multipart_upload(alioss.CompleteMultipartUploadRequest(_BUCKET, "multi/all", upload_id, complete_all="yes"))

    assert oss.read(_BUCKET, "multi/all") == b"a" * 102_400 + b"b"


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        pytest.param([(1, None), (2, "WRONG")], "InvalidPart", id="wrong ETag"),
        pytest.param([(1, None), (3, "NONE")], "InvalidPart", id="absent part"),
        pytest.param([(2, None), (1, None)], "InvalidPartOrder", id="order"),
        pytest.param([(1, None), (2, None)], "EntityTooSmall", id="a small part before the last"),
    ],
)
def test_an_upload_with_wrong_parts_is_not_completed(oss: FakeOss, parts: list[tuple[int, str | None]], code: str) -> None:
    client = oss_client(oss)
    upload_id = begin_upload(client, "multi/wrong")
    sent = {number: upload_part(client, "multi/wrong", upload_id, number=number, content=b"small") for number in (1, 2)}
    named = [alioss.UploadPart(part_number=number, etag=etag or sent[number].etag) for number, etag in parts]

    refused = refusal_of(lambda: complete(client, "multi/wrong", upload_id, named))

    client.abort_multipart_upload(alioss.AbortMultipartUploadRequest(_BUCKET, "multi/wrong", upload_id))
    assert (refused.status_code, refused.code) == (400, code)
    assert oss.keys(_BUCKET, "multi/wrong") == []


def test_uploads_and_their_parts_are_listed_in_pages(oss: FakeOss) -> None:
    client = oss_client(oss)
    uploads = [(f"listed/{number}", begin_upload(client, f"listed/{number}")) for number in range(5)]
    for number in range(1, 6):
        upload_part(client, *uploads[0], number=number, content=b"x" * number)

    upload_pages = client.list_multipart_uploads_paginator(limit=2).iter_page(alioss.ListMultipartUploadsRequest(_BUCKET, prefix="listed/"))
    part_pages = client.list_parts_paginator(limit=2).iter_page(alioss.ListPartsRequest(_BUCKET, *uploads[0]))

    assert [[each.key for each in page.uploads or []] for page in upload_pages] == [
        ["listed/0", "listed/1"],
        ["listed/2", "listed/3"],
        ["listed/4"],
    ]
    assert [[each.size for each in page.parts or []] for page in part_pages] == [[1, 2], [3, 4], [5]]
    for key, upload_id in uploads:
        client.abort_multipart_upload(alioss.AbortMultipartUploadRequest(_BUCKET, key, upload_id))
    assert oss.uploads(_BUCKET) == []


# listing


@pytest.fixture(scope="module")
def listed(running_oss: FakeOss) -> FakeOss:
    running_oss.make_bucket("listed")
    for key in ("a", "b/1", "b/2", "b/c/3", "d", "größe 1", "ö"):
        running_oss.write("listed", key, key.encode())
    return running_oss


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
def test_both_listings_give_all_keys_and_folders_once(listed: FakeOss, limit: int) -> None:
    client = oss_client(listed)
    first = client.list_objects_paginator(limit=limit).iter_page(alioss.ListObjectsRequest("listed", delimiter="/"))
    second = client.list_objects_v2_paginator(limit=limit).iter_page(alioss.ListObjectsV2Request("listed", delimiter="/"))
    for pages in (list(first), list(second)):
        keys = [each.key for page in pages for each in page.contents or []]
        folders = [each.prefix for page in pages for each in page.common_prefixes or []]
        sizes = {len(page.contents or []) + len(page.common_prefixes or []) for page in pages[:-1]}

        assert keys == ["a", "d", "größe 1", "ö"]
        assert folders == ["b/"]
        assert sizes <= {limit}


def test_a_prefix_and_a_start_narrow_the_listing(listed: FakeOss) -> None:
    answer = oss_client(listed).list_objects_v2(alioss.ListObjectsV2Request("listed", prefix="b/", start_after="b/1", fetch_owner=True))

    assert [(each.key, each.size) for each in answer.contents or []] == [("b/2", 3), ("b/c/3", 5)]
    assert (answer.key_count, answer.is_truncated) == (2, False)


def test_a_page_has_100_keys_unless_more_are_asked_for_and_1000_at_most(oss: FakeOss) -> None:
    oss.make_bucket("many")
    for number in range(105):
        oss.write("many", f"{number:04}", b"")
    client = oss_client(oss)

    page = client.list_objects_v2(alioss.ListObjectsV2Request("many"))
    refused = refusal_of(lambda: client.list_objects_v2(alioss.ListObjectsV2Request("many", max_keys=1001)))

    assert (len(page.contents or []), page.is_truncated) == (100, True)
    assert (refused.status_code, refused.code) == (400, "InvalidArgument")


def test_a_page_after_a_folder_begins_behind_all_its_keys() -> None:
    keys = ["a/1", "a/2", "a0", "b"]

    page = page_of(keys, prefix="", delimiter="/", after="a/", limit=10)

    assert (page.keys, page.folders, page.is_truncated) == (["a0", "b"], [], False)


def test_a_batch_of_objects_is_deleted(oss: FakeOss) -> None:
    for key in ("batch/1", "batch/größe 2", "batch/3"):
        oss.write(_BUCKET, key, b"x")
    order = [alioss.DeleteObject(key) for key in ("batch/1", "batch/größe 2", "batch/absent")]

    answer = oss_client(oss).delete_multiple_objects(alioss.DeleteMultipleObjectsRequest(_BUCKET, objects=order))

    deleted = [each.key for each in answer.deleted_objects or []]
    assert deleted == ["batch/1", "batch/größe 2", "batch/absent"]
    assert oss.keys(_BUCKET, "batch/") == ["batch/3"]


def test_deleting_what_is_not_there_is_no_error(oss: FakeOss) -> None:
    answer = oss_client(oss).delete_object(alioss.DeleteObjectRequest(_BUCKET, "absent"))

    assert answer.status_code == 204


# faults and the log


def test_a_fault_hits_as_many_requests_as_it_is_armed_for(oss: FakeOss) -> None:
    oss.inject(Fault("error", status=503, count=2, method="PUT", matching=r"^PutObject /test-bucket/faulty$"))
    client = oss_client(oss)

    put(client, "healthy", b"x")
    refused = [refusal_of(lambda: put(client, "faulty", b"x")) for _ in range(2)]
    put(client, "faulty", b"x")

    assert [(each.status_code, each.code) for each in refused] == [(503, "ServiceUnavailable")] * 2
    assert oss.faults() == []


def test_a_client_that_tries_again_gets_over_a_fault(oss: FakeOss) -> None:
    oss.inject(Fault("error", status=500, count=2))

    put(oss_client(oss, attempts=3), "retried", some_bytes(_MIB))

    assert [each.status for each in oss.requests()] == [500, 500, 200]
    assert oss.read(_BUCKET, "retried") == some_bytes(_MIB)


def test_a_fault_may_let_requests_pass_first(oss: FakeOss) -> None:
    oss.inject(Fault("error", status=500, skip=1))
    client = oss_client(oss)

    put(client, "first", b"x")

    assert refusal_of(lambda: put(client, "second", b"x")).status_code == 500


@pytest.mark.parametrize("after", [False, True])
def test_a_connection_is_dropped_before_or_after_the_work_is_done(oss: FakeOss, after: bool) -> None:
    key = f"dropped/{after}"
    oss.inject(Fault("drop", after=after))

    with pytest.raises(OperationError):
        put(oss_client(oss), key, some_bytes(_MIB))

    assert (key in oss.keys(_BUCKET)) is after


def test_a_stalled_answer_runs_into_the_time_limit_of_the_client(oss: FakeOss) -> None:
    oss.write(_BUCKET, "stalled", b"x")
    oss.inject(Fault("stall", seconds=8))
    begin = time.monotonic()

    with pytest.raises(OperationError):
        get(oss_client(oss), "stalled")

    assert 4 < time.monotonic() - begin < 7.5


def test_a_truncated_body_is_noticed(oss: FakeOss) -> None:
    oss.write(_BUCKET, "truncated", some_bytes(3 * _MIB))
    oss.inject(Fault("truncate", size=_MIB))

    with pytest.raises(Exception, match=r"IncompleteRead|InvalidChunk|broken|crc"):
        get(oss_client(oss), "truncated")

    assert oss.requests()[-1].sent_bytes == _MIB


def test_a_client_that_leaves_in_the_middle_leaves_no_object(oss: FakeOss) -> None:
    headers = {**signed_headers(oss, "PUT", "half/object"), "Content-Length": str(2 * _MIB)}
    connection = http.client.HTTPConnection(oss.host, oss.port, timeout=10)

    connection.putrequest("PUT", f"/{_BUCKET}/half/object")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders(some_bytes(_MIB))
    connection.close()

    wait_until(lambda: len(oss.requests()) > 0, seconds=10, what="the request is logged")
    assert oss.requests()[-1].status == 0
    assert oss.keys(_BUCKET, "half/") == []


def test_the_log_tells_what_was_asked_and_how_much_was_moved(oss: FakeOss) -> None:
    client = oss_client(oss)
    put(client, "logged", some_bytes(1000))
    get(client, "logged")
    refusal_of(lambda: get(client, "absent"))

    assert [
        (each.method, each.operation, each.action, each.key, each.status, each.code, each.received_bytes) for each in oss.requests()
    ] == [
        ("PUT", "PutObject", "oss:PutObject", "logged", 200, "", 1000),
        ("GET", "GetObject", "oss:GetObject", "logged", 200, "", 0),
        ("GET", "GetObject", "oss:GetObject", "absent", 404, "NoSuchKey", 0),
    ]
    assert oss.requests()[1].sent_bytes == 1000
    assert {each.access_key for each in oss.requests()} == {oss.access_key}


def test_objects_and_uploads_outlive_a_restart_of_oss(oss: FakeOss) -> None:
    client = oss_client(oss)
    put(client, "restart/object", b"x", metadata={"a": "b"})
    upload_id = begin_upload(client, "restart/upload")
    part = upload_part(client, "restart/upload", upload_id, number=1, content=b"y")

    oss.stop()
    oss.start()

    complete(client, "restart/upload", upload_id, [part])
    assert get(client, "restart/object") == b"x"
    assert get(client, "restart/upload") == b"y"
    assert oss.entries(_BUCKET, "restart/object")[0].headers["x-oss-meta-a"] == "b"


# -- the command --------------------------------------------------------------------------------------------------------


def test_up_starts_all_stores_and_down_stops_them(tmp_path: Path) -> None:
    sources = str(Path(sys.modules["storeservers"].__path__[0]).parent)

    def command(*arguments: str) -> None:
        subprocess.run(  # this interpreter, this package
            [sys.executable, "-m", "storeservers", *arguments, "--dir", str(tmp_path)],
            check=True,
            capture_output=True,
            timeout=180,
            env={**os.environ, "PYTHONPATH": sources},
        )

    command("up")
    state = json.loads((tmp_path / "servers.json").read_text())
    identities = [ProcessIdentity(each["pid"], each["start_ticks"]) for store in state.values() for each in store["processes"]]
    were_running = [identity.running() for identity in identities]
    command("down")

    assert were_running == [True] * 5
    assert [identity.running() for identity in identities] == [False] * 5
    assert set(state) == {"hdfs", "s3", "oss"}
