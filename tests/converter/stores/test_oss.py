"""Behavior specific to OSS: rights, credentials, lost responses to the completion of an upload, broken connections."""

from dataclasses import replace

import pytest
from tests.builders.stores import MIB, forget, fresh_name, put_in_parts
from tests.converter.stores.at_once import raised
from tests.converter.stores.calls import assert_refused, every_call

from dataprep_converter.core.errors import AlreadyExists, BadCredentials, BadSpec, InputChanged, NotFound, NotPermitted, Unreachable
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.objects.oss import ATTEMPTS, OssStore, _region_of
from dataprep_converter.stores.objects.oss_client import OssClient
from storeservers import FakeOss
from storeservers.oss import AccessKey, Fault


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch, "OSS_ACCESS_KEY_ID", "OSS_ACCESS_KEY_SECRET", "OSS_SESSION_TOKEN", "OSS_ENDPOINT", "OSS_REGION")


@pytest.fixture
def bucket(oss_fake: FakeOss) -> str:
    name = fresh_name("oss")
    oss_fake.make_bucket(name)
    oss_fake.clear_requests()
    return name


@pytest.fixture
def store(oss_settings: StoreSettings) -> OssStore:
    return OssStore(oss_settings)


RIGHTS = {
    "put": "oss:PutObject",
    "upload": "oss:PutObject",
    "stat": "oss:GetObject",
    "get": "oss:GetObject",
    "list": "oss:ListObjects",
    "delete": "oss:DeleteObjects",
}


@pytest.mark.store
def test_a_missing_right_is_named(oss_fake: FakeOss, store: OssStore, bucket: str) -> None:
    oss_fake.deny("oss:*")
    for name, call in every_call(store, f"oss://{bucket}/folder/file").items():
        with pytest.raises(NotPermitted, match=rf"missing {RIGHTS[name]}.* on oss://{bucket}/folder/"):
            call()


@pytest.mark.store
def test_four_rights_are_enough(oss_fake: FakeOss, store: OssStore, bucket: str) -> None:
    oss_fake.deny("oss:AbortMultipartUpload", "oss:ListMultipartUploads", "oss:ListParts", "oss:GetBucket*")
    uri = f"oss://{bucket}/file"
    for call in every_call(store, uri).values():
        if not call():
            store.put(uri, b"x")
    made = store.create(uri)
    made.write(bytes(20 * MIB))
    made.abort()

    with pytest.raises(NotPermitted, match="missing oss:ListMultipartUploads"):
        store.sweep(f"oss://{bucket}")
    assert store.warnings(f"oss://{bucket}") == []
    assert {each.action for each in oss_fake.requests() if each.status < 400} == {
        "oss:PutObject",
        "oss:GetObject",
        "oss:ListObjects",
        "oss:DeleteObject",
    }
    assert not {"AppendObject", "CopyObject", "DeleteObject"} & {each.operation for each in oss_fake.requests()}


@pytest.mark.store
@pytest.mark.parametrize(
    "credentials",
    [{"accessKeyId": "nobody", "accessKeySecret": "x"}, {"accessKeyId": "test-access-key", "accessKeySecret": "wrong"}],
    ids=["key", "secret"],
)
def test_refused_credentials_are_told_from_missing_rights(oss_settings: StoreSettings, bucket: str, credentials: dict[str, str]) -> None:
    store = OssStore(replace(oss_settings, credentials=credentials))
    assert_refused(store, f"oss://{bucket}/file", BadCredentials, match="refused the credentials: 403")


@pytest.mark.store
def test_a_security_token_is_sent(oss_fake: FakeOss, oss_settings: StoreSettings, bucket: str) -> None:
    oss_fake.add_key(AccessKey("temporary", "its-secret", "its-token"))
    given = {"accessKeyId": "temporary", "accessKeySecret": "its-secret", "securityToken": "its-token"}
    OssStore(replace(oss_settings, credentials=given)).put(f"oss://{bucket}/file", b"x")

    with pytest.raises(BadCredentials):
        OssStore(replace(oss_settings, credentials=given | {"securityToken": "old"})).put(f"oss://{bucket}/file", b"x")


@pytest.mark.store
def test_the_environment_has_credentials_endpoint_and_region(oss_fake: FakeOss, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSS_ACCESS_KEY_ID", oss_fake.access_key)
    monkeypatch.setenv("OSS_ACCESS_KEY_SECRET", oss_fake.secret_key)
    monkeypatch.setenv("OSS_ENDPOINT", oss_fake.endpoint)
    monkeypatch.setenv("OSS_REGION", oss_fake.region)
    store = OssStore(StoreSettings(uri_prefix="oss://"))

    store.put(f"oss://{bucket}/file", b"x")
    assert oss_fake.read(bucket, "file") == b"x"


@pytest.mark.store
def test_the_chain_of_alibaba_cloud_comes_last(
    oss_fake: FakeOss, oss_settings: StoreSettings, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", oss_fake.access_key)
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", oss_fake.secret_key)
    OssStore(replace(oss_settings, credentials={})).put(f"oss://{bucket}/file", b"x")

    assert oss_fake.keys(bucket) == ["file"]


@pytest.mark.store
@pytest.mark.parametrize("size", [100, 9 * MIB], ids=str)
@pytest.mark.parametrize(("algorithm", "key"), [("AES256", None), ("KMS", None), ("KMS", "9468da86-3509-4f8d-a61e-6eab1eac****")])
def test_what_is_written_is_encrypted_as_the_store_says(
    oss_fake: FakeOss, oss_settings: StoreSettings, bucket: str, size: int, algorithm: str, key: str | None
) -> None:
    """The fake refuses requests with unsigned OSS headers, so this also tests that the headers for encryption are signed."""
    upload = OssStore(replace(oss_settings, server_side_encryption=algorithm, kms_key_id=key)).create(f"oss://{bucket}/file")
    upload.write(bytes(size))
    upload.commit(replace=False)

    [entry] = oss_fake.entries(bucket)
    asked = {"x-oss-server-side-encryption": algorithm} | ({"x-oss-server-side-encryption-key-id": key} if key else {})
    assert asked == {name: value for name, value in entry.headers.items() if "encryption" in name}


@pytest.mark.store
def test_an_absent_bucket_is_named(store: OssStore) -> None:
    assert_refused(store, "oss://no-such-bucket/file", NotFound, match="bucket no-such-bucket does not exist at 127")


@pytest.mark.store
@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("size", [100, 17 * MIB], ids=str)
def test_a_completion_whose_answer_is_lost_is_ours(oss_fake: FakeOss, store: OssStore, bucket: str, size: int, exclusive: bool) -> None:
    oss_fake.inject(Fault("drop", after=True, matching="CompleteMultipartUpload|PutObject"))
    entry = put_in_parts(store, f"oss://{bucket}/file", b"c" * size, replace=not exclusive)

    assert oss_fake.faults() == []
    assert entry == store.stat(f"oss://{bucket}/file")
    assert oss_fake.read(bucket, "file") == b"c" * size


@pytest.mark.store
@pytest.mark.parametrize("size", [100, 17 * MIB], ids=str)
def test_a_lost_answer_does_not_make_anothers_object_ours(oss_fake: FakeOss, store: OssStore, bucket: str, size: int) -> None:
    store.put(f"oss://{bucket}/file", b"t" * size)
    oss_fake.inject(Fault("drop", matching="CompleteMultipartUpload|PutObject"))
    upload = store.create(f"oss://{bucket}/file")
    upload.write(b"m" * size)
    with pytest.raises(AlreadyExists):
        upload.commit(replace=False)
    upload.abort()
    assert oss_fake.read(bucket, "file") == b"t" * size


@pytest.mark.store
@pytest.mark.parametrize(
    "fault",
    [Fault("drop", count=2), Fault("drop", count=2, after=True), Fault("error", count=2, status=503), Fault("error", count=1, status=500)],
    ids=["drop", "drop after", "503", "500"],
)
def test_parts_that_fail_are_sent_again(oss_fake: FakeOss, store: OssStore, bucket: str, fault: Fault) -> None:
    oss_fake.inject(replace(fault, matching="UploadPart"))
    content = bytes(range(256)) * 4096 * 30
    put_in_parts(store, f"oss://{bucket}/file", content)

    assert oss_fake.faults() == []
    assert oss_fake.read(bucket, "file") == content


@pytest.mark.store
def test_a_part_that_cannot_be_sent_fails_the_upload(oss_fake: FakeOss, store: OssStore, bucket: str) -> None:
    oss_fake.inject(Fault("drop", count=999, matching="UploadPart"))
    upload = store.create(f"oss://{bucket}/file")
    with pytest.raises(Unreachable, match="127"):
        upload.write(bytes(100 * MIB))
    upload.abort()

    assert oss_fake.uploads(bucket) == []
    assert oss_fake.keys(bucket) == []


@pytest.mark.store
def test_an_abort_in_which_the_process_is_told_to_end_is_made_again(
    oss_fake: FakeOss, store: OssStore, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = store.create(f"oss://{bucket}/file")
    upload.write(bytes(20 * MIB))
    with monkeypatch.context() as told:
        told.setattr(OssClient, "abort", interrupted)
        with pytest.raises(KeyboardInterrupt):
            upload.abort()
    assert len(oss_fake.uploads(bucket)) == 1
    upload.abort()
    assert oss_fake.uploads(bucket) == []


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.store
def test_an_abort_that_meets_faults_is_made_again(oss_fake: FakeOss, store: OssStore, bucket: str) -> None:
    upload = store.create(f"oss://{bucket}/file")
    upload.write(bytes(20 * MIB))
    # Inject more faults than the SDK makes attempts.
    oss_fake.inject(Fault(kind="error", matching="AbortMultipartUpload", count=ATTEMPTS + 1))
    upload.abort()
    assert oss_fake.uploads(bucket) == []


@pytest.mark.store
def test_a_stream_that_breaks_goes_on_where_it_was(oss_fake: FakeOss, store: OssStore, bucket: str) -> None:
    content = bytes(range(256)) * 4096 * 20
    oss_fake.write(bucket, "file", content)
    oss_fake.inject(Fault("truncate", matching="GetObject", size=5 * MIB + 11, count=2))

    with store.open(f"oss://{bucket}/file") as source:
        assert b"".join(source.stream()) == content
    assert oss_fake.faults() == []


@pytest.mark.store
def test_an_input_that_is_replaced_while_it_is_read_is_told(store: OssStore, bucket: str) -> None:
    uri = f"oss://{bucket}/file"
    store.put(uri, b"a" * 100)
    with store.open(uri) as source:
        store.put(uri, b"b" * 100)
        with pytest.raises(InputChanged, match="has been replaced"):
            source.read_at(0, 10)
        with pytest.raises(InputChanged, match="has been replaced"):
            next(source.stream())


@pytest.mark.store
def test_folder_markers_are_no_files(oss_fake: FakeOss, store: OssStore, bucket: str) -> None:
    oss_fake.write(bucket, "folder/", b"")
    store.put(f"oss://{bucket}/folder/file", b"x")

    assert [entry.uri for entry in store.list(f"oss://{bucket}")] == [f"oss://{bucket}/folder/file"]
    assert store.stat(f"oss://{bucket}/folder") is None


@pytest.mark.slow
@pytest.mark.parametrize(("endpoint", "peer"), [("http://127.0.0.1:1", "127.0.0.1:1"), ("http://oss.invalid", "oss.invalid:80")])
def test_a_server_that_is_not_there_is_named_within_seconds(endpoint: str, peer: str) -> None:
    given = {"accessKeyId": "a", "accessKeySecret": "b"}
    store = OssStore(StoreSettings(uri_prefix="oss://", endpoint=endpoint, region="cn-hangzhou", path_style=True, credentials=given))
    calls = every_call(store, "oss://bucket/file")
    for right, (error, seconds) in zip(calls, raised(calls.values()), strict=True):
        assert isinstance(error, Unreachable), (right, error)
        assert f"cannot connect to {peer}" in str(error), right
        assert seconds < 25, right


@pytest.mark.parametrize(
    ("endpoint", "region"),
    [
        ("https://oss-cn-shenzhen-internal.aliyuncs.com", "cn-shenzhen"),
        ("oss-cn-hangzhou.aliyuncs.com", "cn-hangzhou"),
        ("https://oss-ap-southeast-1.aliyuncs.com", "ap-southeast-1"),
        ("https://cn-beijing.oss.aliyuncs.com", "cn-beijing"),
        ("https://oss-cn-shanghai-finance-1-internal.aliyuncs.com", "cn-shanghai-finance-1"),
        ("http://10.0.0.1:8080", None),
        ("https://data.example.com", None),
    ],
)
def test_the_region_is_in_the_endpoints_name(endpoint: str, region: str | None) -> None:
    assert _region_of(endpoint) == region


def test_without_a_region_the_store_is_refused() -> None:
    with pytest.raises(BadSpec, match="needs a region"):
        OssStore(StoreSettings(uri_prefix="oss://bucket/", endpoint="http://10.0.0.1"))


def test_a_bucket_name_that_none_may_have_is_refused() -> None:
    given = {"accessKeyId": "a", "accessKeySecret": "b"}
    store = OssStore(StoreSettings(uri_prefix="oss://", region="cn-hangzhou", credentials=given))
    with pytest.raises(BadSpec, match="Bucket name is invalid"):
        store.stat("oss://B_/file")
    with pytest.raises(BadSpec, match="names no bucket"):
        store.stat("oss:///file")
