"""Behavior specific to Azure: signatures, tokens, rights, data lakes, and the completion of an upload whose response is lost."""

import base64
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

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
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps.preflight import preflight
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.credentials.azure import CredentialChain
from dataprep_converter.stores.objects.azure import AzureStore
from dataprep_converter.stores.store_requests import Answer, Requests
from storeservers import AzureServer


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STORAGE_ACCOUNT_NAME", "STORAGE_ACCOUNT_KEY", "STORAGE_SAS_TOKEN", "TENANT_ID", "CLIENT_ID", "FEDERATED_TOKEN_FILE"):
        forget(monkeypatch, f"AZURE_{name}")
    # No server listens at this address, so this machine appears to be outside Azure.
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:1")


@pytest.fixture
def container(azure_server: AzureServer) -> str:
    name = fresh_name("azure")
    azure_server.make_container(name)
    return f"abfs://{name}@{azure_server.account}.dfs.core.windows.net"


@pytest.fixture
def store(azure_settings: StoreSettings) -> AzureStore:
    return AzureStore(azure_settings)


# -- against Azurite ----------------------------------------------------------------------------------------------------


@pytest.mark.store
def test_a_shared_access_signature_reads_and_writes(azure_server: AzureServer, azure_settings: StoreSettings, container: str) -> None:
    store = AzureStore(replace(azure_settings, credentials={"sasToken": f"?{azure_server.shared_access('rwdlc')}"}))
    content = bytes(range(256)) * 4096 * 9

    entry = put_in_parts(store, f"{container}/a b/file", content)

    assert list(store.list(container)) == [entry]
    with store.open(f"{container}/a b/file") as source:
        assert source.read_at(5, 100) == content[5:105]


@pytest.mark.store
@pytest.mark.parametrize("letter", ["w", "r", "l", "d"])
def test_the_preflight_names_the_right_that_is_missing(
    azure_server: AzureServer, azure_settings: StoreSettings, container: str, letter: str
) -> None:
    given = "".join(each for each in "rwdlc" if each != letter and not (letter == "w" and each == "c"))
    settings = replace(azure_settings, credentials={"sasToken": azure_server.shared_access(given)})

    with pytest.raises(NotPermitted, match=rf"missing blobs/\w+ \(SAS: .*{letter}\) on {container}"):
        preflight(Access([settings]), f"{container}/out", [])


@pytest.mark.store
def test_refused_credentials_are_told_from_missing_rights(azure_settings: StoreSettings, container: str) -> None:
    store = AzureStore(replace(azure_settings, credentials={"accountKey": base64.b64encode(b"wrong").decode()}))

    assert_refused(store, f"{container}/file", BadCredentials, match="refused the credentials: 403")


@pytest.mark.store
def test_an_absent_container_is_named(azure_server: AzureServer, store: AzureStore) -> None:
    uri = f"abfs://no-such-container@{azure_server.account}.dfs.core.windows.net/file"
    assert_refused(store, uri, NotFound, match="container no-such-container does not exist at 127")


@pytest.mark.store
def test_the_short_form_takes_account_key_and_endpoint_from_the_environment(
    azure_server: AzureServer, container: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", azure_server.account)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", azure_server.key)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", azure_server.endpoint)
    store = AzureStore(StoreSettings(uri_prefix="abfs://"))
    uri = container.partition("@")[0] + "/file"

    assert store.put(uri, b"x").uri == uri
    assert store.get(f"{container}/file") == b"x"


@pytest.mark.store
def test_an_input_that_is_replaced_while_it_is_read_is_told(store: AzureStore, container: str) -> None:
    store.put(f"{container}/file", b"a" * 100)
    with store.open(f"{container}/file") as source:
        store.put(f"{container}/file", b"b" * 100)
        with pytest.raises(InputChanged, match="has been replaced"):
            source.read_at(0, 10)
        with pytest.raises(InputChanged, match="has been replaced"):
            next(source.stream())


@pytest.mark.store
def test_a_data_lake_and_an_account_without_folders_are_listed_in_the_order_of_whole_paths(
    store: AzureStore, container: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a-1", "a.b", "a/b", "a/b.c/d", "a/b/c", "a0", "ü/β", "z"]
    for name in names:
        store.put(f"{container}/x/{name}", b"1")
    walked = list(store.list(f"{container}/x"))
    made, _ = store.place(container)
    # The real service reports whether an account is a data lake, but Azurite doesn't. So folders are listed one by one.
    assert made.requests.hierarchical is True
    monkeypatch.setattr(made.requests, "hierarchical", False)
    flat = list(store.list(f"{container}/x"))

    assert walked == flat
    assert [entry.uri.removeprefix(f"{container}/x/") for entry in flat] == sorted(names, key=str.encode)


@pytest.mark.store
@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("size", [100, 17 * MIB], ids=str)
def test_a_completion_whose_answer_is_lost_is_ours(
    store: AzureStore, container: str, monkeypatch: pytest.MonkeyPatch, size: int, exclusive: bool
) -> None:
    lose_answers(monkeypatch, of=lambda method, query: method == "PUT" and query.get("comp") != "block")
    entry = put_in_parts(store, f"{container}/file", b"c" * size, replace=not exclusive)

    assert entry == store.stat(f"{container}/file")
    assert store.get(f"{container}/file") == b"c" * size


@pytest.mark.store
@pytest.mark.parametrize("size", [100, 17 * MIB], ids=str)
def test_a_lost_answer_does_not_make_anothers_object_ours(
    store: AzureStore, container: str, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    upload = store.create(f"{container}/file")
    upload.write(b"m" * size)
    store.put(f"{container}/file", b"t" * size)
    lose_answers(monkeypatch, of=lambda method, query: method == "PUT" and query.get("comp") != "block")
    with pytest.raises(AlreadyExists):
        upload.commit(replace=False)
    upload.abort()


@pytest.mark.store
def test_a_writer_whose_blocks_another_commit_dropped_is_worth_another_attempt(store: AzureStore, container: str) -> None:
    upload = store.create(f"{container}/file")
    upload.write(bytes(20 * MIB))
    for block in upload._parts._pending:
        block.result()  # wait until the blocks have arrived, because the other commit can drop only these
    another = store.create(f"{container}/file")
    another.write(bytes(9 * MIB))
    another.commit(replace=False)

    with pytest.raises(Unreachable, match="something else was written"):
        upload.commit(replace=True)
    upload.abort()
    assert store.get(f"{container}/file") == bytes(9 * MIB)


# -- without it ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("abfs://c@acc.dfs.core.windows.net/k", "acc.blob.core.windows.net/c"),
        ("abfss://c@acc.dfs.core.chinacloudapi.cn/k", "acc.blob.core.chinacloudapi.cn/c"),
        ("abfs://c@acc.blob.core.windows.net/k", "acc.blob.core.windows.net/c"),
        ("abfs://c@acc/k", "acc.blob.core.windows.net/c"),
    ],
)
def test_the_blobs_of_a_data_lake_are_behind_another_name(uri: str, address: str) -> None:
    made, key = AzureStore(StoreSettings(uri_prefix="abfs://", credentials={"accountKey": "eA=="})).place(uri)

    assert (f"{made.requests.address.netloc}{made.requests.address.path}", key) == (address, "k")


@pytest.mark.parametrize(("uri", "said"), [("abfs://c/k", "names no account"), ("abfs://@a.dfs.core.windows.net/k", "names no container")])
def test_a_uri_without_container_or_account_is_refused(uri: str, said: str) -> None:
    with pytest.raises(BadSpec, match=said):
        AzureStore(StoreSettings(uri_prefix="abfs://")).stat(uri)


def an_answer(code: str, *, status: int) -> Answer:
    return Answer(status, {}, f"<Error><Code>{code}</Code><Message>words\nRequestId:1</Message></Error>".encode())


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (
            an_answer("InvalidAuthenticationInfo", status=401),
            BadCredentials,
            "refused the credentials: 401 InvalidAuthenticationInfo words",
        ),
        (an_answer("AuthorizationPermissionMismatch", status=403), NotPermitted, "missing blobs/write"),
        (an_answer("ServerBusy", status=503), Unreachable, "failed at abfs://c@a/key: 503 ServerBusy words"),
        (an_answer("InvalidResourceName", status=400), BadSpec, "not a valid name for a container or a blob"),
        (an_answer("LeaseIdMissing", status=412), StoreError, "refused abfs://c@a/key: 412 LeaseIdMissing"),
        (Answer(507, {}, b""), StoreError, "No space or quota left for abfs://c@a/key"),
    ],
    ids=lambda value: value.code if isinstance(value, Answer) else "",
)
def test_what_the_service_says_becomes_ours(monkeypatch: pytest.MonkeyPatch, answer: Answer, error: type[StoreError], message: str) -> None:
    monkeypatch.setattr(Requests, "send", lambda *_, **__: answer)
    with pytest.raises(error, match=message):
        AzureStore(StoreSettings(uri_prefix="abfs://")).put("abfs://c@a/key", b"x")


@pytest.mark.parametrize("why", [an_answer("BlobNotFound", status=404), Answer(206, {}, b"x")], ids=["absent", "there"])
def test_a_refusal_that_is_over_when_it_is_asked_why(monkeypatch: pytest.MonkeyPatch, why: Answer) -> None:
    refused = Answer(403, {"x-ms-error-code": "AuthenticationFailed"}, b"")
    monkeypatch.setattr(Requests, "send", lambda _, method, *__, **___: refused if method == "HEAD" else why)
    store = AzureStore(StoreSettings(uri_prefix="abfs://"))
    if why.ok:
        with pytest.raises(BadCredentials, match="refused the credentials: 403 AuthenticationFailed"):
            store.stat("abfs://c@a/key")
    else:
        assert store.stat("abfs://c@a/key") is None


class _Azure(Quiet):
    """The parts of Entra ID and of the node's identity service that these tests need.

    Also serves a blob that requires a token from one of these services.
    """

    def do_POST(self) -> None:  # noqa: N802 - the base class's name
        form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        proof = form.get("client_secret", []) + form.get("client_assertion", [])
        assert (self.path, form["client_id"], form["scope"]) == (
            "/tenant/oauth2/v2.0/token",
            ["client"],
            ["https://storage.azure.com/.default"],
        )
        if proof == ["wrong"]:
            self.answer(401, b'{"error":"invalid_client"}')
        else:
            self.answer(200, json.dumps({"access_token": f"of {proof[0]}", "expires_in": 3600}).encode())

    def do_GET(self) -> None:  # noqa: N802 - the base class's name
        asked = urlsplit(self.path)
        if asked.path == "/metadata/identity/oauth2/token":
            assert self.headers["Metadata"] == "true"
            self.answer(200, json.dumps({"access_token": "of the node", "expires_in": "3600"}).encode())
        elif self.headers["Authorization"] == "Bearer of projected":
            headers = {"ETag": '"0x1"', "Last-Modified": "Sat, 21 Nov 2026 20:00:00 GMT"}
            if self.headers["Range"] == "bytes=0-6":
                self.answer(206, b"content", headers=headers | {"Content-Range": "bytes 0-6/7"})
            else:
                self.answer(200, b"content", headers=headers)
        else:
            self.answer(401, b"<Error><Code>NoAuthenticationInformation</Code><Message>no</Message></Error>")

    def do_HEAD(self) -> None:  # noqa: N802 - the base class's name
        self.do_GET()


@pytest.fixture
def azure() -> Iterator[str]:
    with served(_Azure) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def workload(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, azure: str) -> str:
    """Set the variables and files that Azure's webhook puts into the pods of a service account."""
    (tmp_path / "token").write_text("projected\n")
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", f"{azure}/")
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
    monkeypatch.setenv("AZURE_CLIENT_ID", "client")
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "token"))
    return azure


def test_a_workload_identity_reads_by_both_clients(workload: str) -> None:
    store = AzureStore(StoreSettings(uri_prefix="abfs://", endpoint=workload))

    assert store.get("abfs://c@acc/file") == b"content"
    with store.open("abfs://c@acc/file") as source:
        assert source.read_at(0, 7) == b"content"


@pytest.mark.usefixtures("workload")
def test_the_secret_wins_over_a_workload_identity() -> None:
    assert CredentialChain({"accountKey": "eA=="}).current().key == b"x"
    given = {"tenantId": "tenant", "clientId": "client", "clientSecret": "s"}
    assert CredentialChain(given).current().token == "of s"


@pytest.mark.usefixtures("workload")
def test_an_application_that_is_refused_is_named() -> None:
    with pytest.raises(BadCredentials, match="application client of tenant tenant: 401"):
        CredentialChain({"tenantId": "tenant", "clientId": "client", "clientSecret": "wrong"}).current()


def test_the_nodes_identity_is_asked_for_last(monkeypatch: pytest.MonkeyPatch, azure: str) -> None:
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", azure)
    assert CredentialChain({}).current().token == "of the node"


def on_the_path(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """Put a fake of `az` on the path."""
    program = folder / "az"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_the_login_of_az_comes_after_the_nodes_identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, azure: str) -> None:
    answer = json.dumps({"accessToken": "of az", "expires_on": 4_000_000_000, "tokenType": "Bearer"})
    on_the_path(monkeypatch, tmp_path, f"echo \"$@\" > {tmp_path}/asked; echo '{answer}'")

    found = CredentialChain({}).current()
    assert (found.token, found.expires) == ("of az", datetime.fromtimestamp(4_000_000_000, UTC))
    assert "--resource https://storage.azure.com" in (tmp_path / "asked").read_text()
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", azure)
    assert CredentialChain({}).current().token == "of the node"


def test_a_missing_login_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    on_the_path(monkeypatch, tmp_path, "echo \"ERROR: Please run 'az login' to setup account.\" >&2; exit 1")
    with pytest.raises(BadCredentials, match=r"in stores\. Please run 'az login' to set up an account\.$"):
        CredentialChain({}).current()


def test_a_missing_package_for_the_login_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    on_the_path(monkeypatch, tmp_path, "exit 1")
    monkeypatch.setitem(sys.modules, "azure.identity", None)
    with pytest.raises(
        BadCredentials, match=r"To use the login of `az`, install azure-identity: pip install 'dataprep-operator\[azure-login\]'\.$"
    ):
        CredentialChain({}).current()


def test_without_any_the_places_are_named() -> None:
    store = AzureStore(StoreSettings(uri_prefix="abfs://", endpoint="http://127.0.0.1:1"))
    assert_refused(store, "abfs://c@acc/file", BadCredentials, match="AZURE_STORAGE_ACCOUNT_KEY")


@pytest.mark.slow
def test_a_service_that_is_not_there_is_named() -> None:
    store = AzureStore(StoreSettings(uri_prefix="abfs://", endpoint="http://127.0.0.1:1/acc", credentials={"accountKey": "eA=="}))
    calls = every_call(store, "abfs://c@acc/file")
    for right, (error, _) in zip(calls, raised(calls.values()), strict=True):
        assert isinstance(error, Unreachable), (right, error)
        assert "Azure: cannot connect to 127.0.0.1:1" in str(error), right
