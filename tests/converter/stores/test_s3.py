"""Behavior specific to S3: permissions, credentials, lost responses to the completion of an upload, servers that fail."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.builders.stores import MIB, forget, fresh_name, put_in_parts
from tests.converter.stores.at_once import raised
from tests.converter.stores.calls import assert_refused, every_call
from tests.converter.stores.loopback import Quiet, served
from tests.converter.stores.lost_answers import lose_answers

from dataprep_converter.core.errors import (
    AlreadyExists,
    BadCredentials,
    BadSpec,
    InputChanged,
    NotFound,
    NotPermitted,
    StoreError,
    Unreachable,
)
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.credentials.aws import CredentialChain
from dataprep_converter.stores.credentials.aws_keys import AwsCredentials
from dataprep_converter.stores.objects.s3 import S3Store
from dataprep_converter.stores.objects.s3_requests import S3Requests
from dataprep_converter.stores.store_requests import Answer
from storeservers import S3Server


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget(monkeypatch, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_PROFILE")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "absent"))


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    name = fresh_name("s3")
    s3_server.make_bucket(name)
    return name


@pytest.fixture
def store(s3_settings: StoreSettings) -> S3Store:
    return S3Store(s3_settings)


RIGHTS = {
    "put": "s3:PutObject",
    "upload": "s3:PutObject",
    "stat": "s3:GetObject",
    "get": "s3:GetObject",
    "list": "s3:ListBucket",
    "delete": "s3:DeleteObject",
}


# -- against a real server ----------------------------------------------------------------------------------------------


@pytest.mark.store
def test_a_missing_right_is_named(s3_server: S3Server, s3_settings: StoreSettings, bucket: str) -> None:
    s3_server.add_user("stranger", "stranger-secret")
    store = S3Store(replace(s3_settings, credentials={"accessKeyId": "stranger", "accessKeySecret": "stranger-secret"}))

    for name, call in every_call(store, f"s3://{bucket}/folder/file").items():
        with pytest.raises(NotPermitted, match=rf"missing {RIGHTS[name]} on s3://{bucket}/folder/"):
            call()
    with pytest.raises(NotPermitted, match="missing s3:ListBucketMultipartUploads"):
        store.sweep(f"s3://{bucket}")
    assert store.warnings(f"s3://{bucket}") == []


@pytest.mark.store
@pytest.mark.parametrize(
    "credentials",
    [{"accessKeyId": "nobody", "accessKeySecret": "x"}, {"accessKeyId": "test-access-key", "accessKeySecret": "wrong"}],
    ids=["key", "secret"],
)
def test_refused_credentials_are_told_from_missing_rights(s3_settings: StoreSettings, bucket: str, credentials: dict[str, str]) -> None:
    store = S3Store(replace(s3_settings, credentials=credentials))

    assert_refused(store, f"s3://{bucket}/file", BadCredentials, match="refused the credentials: 403")


@pytest.mark.store
def test_an_absent_bucket_is_named(store: S3Store) -> None:
    assert_refused(store, "s3://no-such-bucket/file", NotFound, match="bucket no-such-bucket does not exist at 127")


@pytest.mark.store
def test_the_environment_has_credentials_endpoint_and_region(s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    monkeypatch.setenv("AWS_REGION", s3_server.region)
    store = S3Store(StoreSettings(uri_prefix="s3://"))

    store.put(f"s3://{bucket}/file", b"x")
    assert store.get(f"s3://{bucket}/file") == b"x"


@pytest.mark.store
def test_an_input_that_is_replaced_while_it_is_read_is_told(store: S3Store, bucket: str) -> None:
    uri = f"s3://{bucket}/file"
    store.put(uri, b"a" * 100)
    with store.open(uri) as source:
        store.put(uri, b"b" * 100)
        with pytest.raises(InputChanged, match="has been replaced"):
            source.read_at(0, 10)
        with pytest.raises(InputChanged, match="has been replaced"):
            next(source.stream())


@pytest.mark.store
def test_folder_markers_are_no_files(s3_server: S3Server, store: S3Store, bucket: str) -> None:
    s3_server.request("PUT", f"/{bucket}/folder/")
    store.put(f"s3://{bucket}/folder/file", b"x")

    assert [entry.uri for entry in store.list(f"s3://{bucket}")] == [f"s3://{bucket}/folder/file"]
    assert store.stat(f"s3://{bucket}/folder") is None


@pytest.mark.store
@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("size", [100, 17 * MIB], ids=str)
def test_a_completion_whose_answer_is_lost_is_ours(
    store: S3Store, bucket: str, monkeypatch: pytest.MonkeyPatch, size: int, exclusive: bool
) -> None:
    lose_answers(monkeypatch, of=lambda method, query: (method == "POST" and "uploadId" in query) or (method == "PUT" and not query))
    entry = put_in_parts(store, f"s3://{bucket}/file", b"c" * size, replace=not exclusive)

    assert entry == store.stat(f"s3://{bucket}/file")
    assert store.get(f"s3://{bucket}/file") == b"c" * size


@pytest.mark.store
def test_a_lost_answer_does_not_make_anothers_object_ours(store: S3Store, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(f"s3://{bucket}/file", b"theirs")
    lose_answers(monkeypatch, of=lambda method, _: method == "PUT")
    with pytest.raises(AlreadyExists):
        store.put(f"s3://{bucket}/file", b"mine!!", replace=False)


@pytest.mark.store
def test_parts_whose_answers_are_lost_are_sent_again(
    s3_server: S3Server, store: S3Store, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answers(monkeypatch, of=lambda _, query: "partNumber" in query, times=3)
    content = bytes(range(256)) * 4096 * 30
    put_in_parts(store, f"s3://{bucket}/file", content)

    assert s3_server.read(bucket, "file") == content


@pytest.mark.store
def test_a_part_that_cannot_be_sent_fails_the_upload(
    s3_server: S3Server, store: S3Store, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answers(monkeypatch, of=lambda _, query: "partNumber" in query, times=99)
    monkeypatch.setattr("dataprep_converter.stores.store_requests.ATTEMPTS", 2)
    upload = store.create(f"s3://{bucket}/file")
    with pytest.raises(Unreachable, match="127"):
        upload.write(bytes(100 * MIB))
    upload.abort()

    assert s3_server.uploads(bucket) == []
    assert s3_server.keys(bucket) == []


class _EarlyRefusal(Quiet):
    """Refuses a request without reading its body, and closes the connection."""

    def do_PUT(self) -> None:  # noqa: N802 - the base class's name
        self.close_connection = True
        self.answer(403, "<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>")

    def do_HEAD(self) -> None:  # noqa: N802 - the base class's name
        self.answer(404, "")


def test_a_refusal_that_comes_before_the_data_was_read_is_named() -> None:
    with served(_EarlyRefusal) as port:
        keys = {"accessKeyId": "a", "accessKeySecret": "b"}
        store = S3Store(StoreSettings(uri_prefix="s3://", endpoint=f"http://127.0.0.1:{port}", path_style=True, credentials=keys))
        with pytest.raises(NotPermitted, match="AccessDenied"):
            store.put("s3://bucket/file", bytes(64 << 20))


# -- without one --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("endpoint", "peer"), [("http://127.0.0.1:1", "127.0.0.1:1"), ("http://s3.invalid", "s3.invalid:80")])
def test_a_server_that_is_not_there_is_named_within_seconds(endpoint: str, peer: str) -> None:
    store = S3Store(
        StoreSettings(uri_prefix="s3://", endpoint=endpoint, path_style=True, credentials={"accessKeyId": "a", "accessKeySecret": "b"})
    )
    calls = every_call(store, "s3://bucket/file")
    for right, (error, seconds) in zip(calls, raised(calls.values()), strict=True):
        assert isinstance(error, Unreachable), (right, error)
        assert f"cannot connect to {peer}" in str(error), right
        assert seconds < 15, right


def test_a_uri_without_bucket_is_refused() -> None:
    with pytest.raises(BadSpec, match="names no bucket"):
        S3Store(StoreSettings(uri_prefix="s3://")).stat("s3:///file")


@pytest.mark.parametrize(
    ("settings", "bucket", "host", "path"),
    [
        ({}, "b", "b.s3.us-east-1.amazonaws.com", ""),
        ({"region": "eu-west-1"}, "b", "b.s3.eu-west-1.amazonaws.com", ""),
        ({"path_style": True}, "b", "s3.us-east-1.amazonaws.com", "/b"),
        ({}, "a.b", "s3.us-east-1.amazonaws.com", "/a.b"),
        ({"endpoint": "https://minio.example.org:9000"}, "b", "b.minio.example.org:9000", ""),
        ({"endpoint": "https://minio.example.org:9000", "path_style": True}, "b", "minio.example.org:9000", "/b"),
        ({"endpoint": "http://10.0.0.1:9000/base/"}, "b", "10.0.0.1:9000", "/base/b"),
        ({"endpoint": "http://minio:9000"}, "b", "minio:9000", "/b"),
        ({"endpoint": "http://[::1]:9000"}, "b", "[::1]:9000", "/b"),
        ({"endpoint": "minio.example.org"}, "b", "b.minio.example.org", ""),
    ],
)
def test_the_bucket_stands_where_the_endpoint_wants_it(settings: dict[str, str], bucket: str, host: str, path: str) -> None:
    made, _ = S3Store(StoreSettings(uri_prefix="s3://", **settings)).place(f"s3://{bucket}/key")  # type: ignore[arg-type] # of several types
    assert (made.requests.address.netloc, made.requests.address.path) == (host, path)


def an_answer(code: str, *, status: int) -> Answer:
    return Answer(status, {}, f"<Error><Code>{code}</Code><Message>words</Message></Error>".encode())


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (an_answer("ExpiredToken", status=400), BadCredentials, "refused the credentials: 400 ExpiredToken words"),
        (an_answer("PermanentRedirect", status=301), BadSpec, "set the store's region or endpoint"),
        (an_answer("QuotaExceeded", status=403), StoreError, "No space or quota left for s3://bucket/key"),
        (an_answer("SlowDown", status=503), Unreachable, "failed at s3://bucket/key: 503 SlowDown words"),
        (an_answer("InvalidPart", status=400), StoreError, "refused s3://bucket/key: 400 InvalidPart"),
        (Answer(200, {}, b"<Error><Code>AccessDenied</Code></Error>"), StoreError, "200 AccessDenied"),
    ],
    ids=lambda value: value.code if isinstance(value, Answer) else "",
)
def test_what_the_server_says_becomes_ours(monkeypatch: pytest.MonkeyPatch, answer: Answer, error: type[StoreError], message: str) -> None:
    monkeypatch.setattr(S3Requests, "send", lambda *_, **__: answer)
    with pytest.raises(error, match=message):
        S3Store(StoreSettings(uri_prefix="s3://")).put("s3://bucket/key", b"x")


@pytest.mark.parametrize(
    ("settings", "headers"),
    [
        ({"server_side_encryption": "AES256"}, {"": "AES256"}),
        ({"server_side_encryption": "KMS"}, {"": "aws:kms"}),
        ({"server_side_encryption": "KMS", "kms_key_id": "alias/k"}, {"": "aws:kms", "-aws-kms-key-id": "alias/k"}),
        ({}, {}),
    ],
    ids=["aes", "kms", "key", "none"],
)
@pytest.mark.parametrize("size", [100, 9 * MIB], ids=str)
def test_what_is_written_is_encrypted_as_the_store_says(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], headers: dict[str, str], size: int
) -> None:
    sent: list[tuple[str, dict[str, str]]] = []

    def send(self: S3Requests, method: str, key: str, **given: Any) -> Answer:  # Any, because the arguments have many types
        query = given.get("query") or {}
        headers = self.signed(method, key, query, given.get("headers") or {}, given.get("body", b""))
        signed = headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
        sent.append((f"{method} {'&'.join(query)}", {name: headers[name] for name in signed if "encryption" in name}))
        return Answer(200, {"etag": '"e"'}, b"<R><UploadId>u</UploadId><ETag>e</ETag></R>" if method == "POST" else b"")

    monkeypatch.setattr(S3Requests, "send", send)
    given = {"accessKeyId": "a", "accessKeySecret": "b"}
    upload = S3Store(StoreSettings(uri_prefix="s3://", credentials=given, **settings)).create("s3://bucket/key")  # type: ignore[arg-type] # of several types
    upload.write(bytes(size))
    upload.commit(replace=False)

    making = "PUT " if size < 8 * MIB else "POST uploads"
    assert [each for each in sent if each[1] or each[0] == making] == [
        (making, {f"x-amz-server-side-encryption{name}": value for name, value in headers.items()})
    ]


# -- credentials --------------------------------------------------------------------------------------------------------


class _Roles(Quiet):
    """Fakes the parts of STS, of the container's agent and of the instance's metadata service that these tests need."""

    def do_POST(self) -> None:  # noqa: N802 - the base class's name
        asked = self.rfile.read(int(self.headers["content-length"])).decode()
        assert "AssumeRoleWithWebIdentity" in asked
        assert "WebIdentityToken=projected" in asked
        self.answer(
            200,
            b'<R xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Credentials><AccessKeyId>web</AccessKeyId><SecretAccessKey>s</SecretAccessKey>'
            b"<SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></R>",
        )

    def do_PUT(self) -> None:  # noqa: N802 - the base class's name
        self.answer(200, b"metadata-token")

    def do_GET(self) -> None:  # noqa: N802 - the base class's name
        if self.path.endswith("security-credentials/"):
            self.answer(200, b"the-role\n")
        elif self.path == "/pod" and self.headers["Authorization"] != "pod-token":
            self.send_error(401)
        else:
            name = "container" if self.path == "/pod" else "instance"
            self.answer(
                200, json.dumps({"AccessKeyId": name, "SecretAccessKey": "s", "Token": "t", "Expiration": "2099-01-01T00:00:00Z"}).encode()
            )


@pytest.fixture
def roles() -> Iterator[str]:
    with served(_Roles) as port:
        yield f"http://127.0.0.1:{port}"


def current(**given: str) -> AwsCredentials:
    return CredentialChain(given, region="us-east-1").current()


def test_the_secret_wins_over_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "env")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "env")
    assert current(accessKeyId="a", accessKeySecret="b", securityToken="c") == AwsCredentials("a", "b", "c")


def test_a_web_identity_is_exchanged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, roles: str) -> None:
    (tmp_path / "token").write_text("projected")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", roles)
    found = current()
    assert (found.access_key, found.token, found.expires and found.expires.year) == ("web", "t", 2099)


def test_the_shared_file_has_profiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id=d\naws_secret_access_key=%x\n[p]\naws_access_key_id=p\naws_secret_access_key=y\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    assert current() == AwsCredentials("d", "%x")
    monkeypatch.setenv("AWS_PROFILE", "p")
    assert current() == AwsCredentials("p", "y")


def test_the_containers_role_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, roles: str) -> None:
    (tmp_path / "token").write_text("pod-token")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{roles}/pod")
    with pytest.raises(BadCredentials, match="401"):
        current()
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
    assert current().access_key == "container"


def test_the_instances_role_is_asked_for(monkeypatch: pytest.MonkeyPatch, roles: str) -> None:
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", roles)
    assert current().access_key == "instance"


def test_without_any_the_places_are_named() -> None:
    with pytest.raises(BadCredentials, match="AWS_ACCESS_KEY_ID"):
        current()
    store = S3Store(StoreSettings(uri_prefix="s3://", endpoint="http://127.0.0.1:1"))
    assert_refused(store, "s3://bucket/file", BadCredentials, match="AWS_ACCESS_KEY_ID")
