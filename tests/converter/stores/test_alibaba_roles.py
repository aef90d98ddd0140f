"""Tests of Alibaba Cloud's roles for service accounts (RRSA) and for nodes.

STS, the metadata service, OSS and MaxCompute are local fakes.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pyarrow as pa
import pytest
import requests
from Tea.core import TeaCore  # type: ignore[import-untyped] # the library's transport; it has no types
from tests.converter.stores import small_jobs
from tests.converter.stores.loopback import Quiet, served
from tests.converter.stores.places import Place, oss

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadCredentials, Unreachable
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.databases.table import TableReader
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.credentials.alibaba import AlibabaCredentials
from dataprep_converter.stores.objects.oss import OssStore
from storeservers import FakeOss
from storeservers.odps import AccessKey as OdpsKey
from storeservers.odps import FakeMaxCompute, rows_of
from storeservers.oss import AccessKey

ROLE = "acs:ram::1000000000000000:role/training"
PROVIDER = "acs:ram::1000000000000000:oidc-provider/ack-rrsa-c1"
STS, METADATA = "sts-vpc.cn-hangzhou.aliyuncs.com", "100.100.100.200"
_ALIVE = 20


@dataclass
class FakeRoles:
    """A fake of STS and of a node's metadata service. Every response contains a new key, and the last twenty keys work."""

    port: int = 0
    lifetime_seconds: float = 600
    """The lifetime of a key. If it is below a quarter of an hour, the library fetches another key for the next request."""
    refusal: tuple[int, dict[str, str]] | None = None
    is_node: bool = True
    """Whether there is a metadata service."""
    admit: Callable[["Issued"], object] = lambda _: None
    """Called with each new key, to make the store accept it."""
    expel: Callable[["Issued"], object] = lambda _: None
    issued: list["Issued"] = field(default_factory=list)
    seen: list[tuple[str, str, dict[str, str], dict[str, str]]] = field(default_factory=list)
    """(host, method and path, query, headers) of each request."""

    def issue(self) -> "Issued":
        number = len(self.issued)
        key = Issued(f"STS.{number}", f"secret-{number}", f"token-{number}", time.time() + self.lifetime_seconds)
        self.issued.append(key)
        self.admit(key)
        if number >= _ALIVE:
            self.expel(self.issued[number - _ALIVE])
        return key

    def asked(self, host: str) -> list[str]:
        return [what for named, what, _, _ in self.seen if named == host]


@dataclass(frozen=True)
class Issued:
    """A temporary key."""

    id: str
    secret: str
    token: str
    expires_at: float

    def said(self) -> dict[str, str]:
        expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.expires_at))
        return {"AccessKeyId": self.id, "AccessKeySecret": self.secret, "SecurityToken": self.token, "Expiration": expires}


class _Handler(Quiet):
    roles: FakeRoles

    def _serve(self) -> None:
        target = urlsplit(self.path)
        query, headers = dict(parse_qsl(target.query)), {name.lower(): value for name, value in self.headers.items()}
        host = headers["x-meant-for"]
        self.roles.seen.append((host, f"{self.command} {target.path}", query, headers))
        if self.roles.refusal is not None:
            self.answer(self.roles.refusal[0], json.dumps(self.roles.refusal[1]))
        elif host == STS and query.get("Action") == "AssumeRoleWithOIDC":
            self.answer(200, json.dumps({"Credentials": self.roles.issue().said()}))
        elif host == METADATA and self.command == "PUT" and target.path == "/latest/api/token":
            self.answer(200, "metadata-token")
        elif host == METADATA and headers.get("x-aliyun-ecs-metadata-token") != "metadata-token":
            self.answer(403, "")
        elif host == METADATA and target.path == "/latest/meta-data/ram/security-credentials/":
            self.answer(200, "node-role")
        elif host == METADATA and target.path == "/latest/meta-data/ram/security-credentials/node-role":
            self.answer(200, json.dumps({"Code": "Success", **self.roles.issue().said()}))
        else:
            self.answer(404, "")

    do_GET = do_PUT = do_POST = _serve  # noqa: N815 - the base class's names


class _ToLoopback(requests.adapters.HTTPAdapter):
    """Sends every request to the fake, whatever its host."""

    def __init__(self, roles: FakeRoles) -> None:
        super().__init__()
        self._roles = roles

    def send(self, request: requests.PreparedRequest, *arguments: Any, **options: Any) -> requests.Response:  # Any, as in the base class
        meant = urlsplit(str(request.url))
        if meant.hostname == METADATA and not self._roles.is_node:
            raise requests.ConnectionError("timed out")
        request.headers["x-meant-for"] = str(meant.hostname)
        request.url = meant._replace(scheme="http", netloc=f"127.0.0.1:{self._roles.port}").geturl()
        return super().send(request, *arguments, **(options | {"proxies": {}}))


@pytest.fixture
def roles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeRoles]:
    for name in ("OSS_ACCESS_KEY_ID", "ODPS_ACCESS_ID", "ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_CREDENTIALS_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    made = FakeRoles()
    adapter = _ToLoopback(made)
    monkeypatch.setattr(TeaCore, "http_adapter", adapter)
    monkeypatch.setattr(TeaCore, "https_adapter", adapter)
    with served(type("Handler", (_Handler,), {"roles": made})) as made.port:
        yield made
    adapter.close()


@pytest.fixture
def service_account(roles: FakeRoles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRoles:
    """Set the variables and files that ACK's webhook puts into a pod whose service account has a role."""
    (tmp_path / "oidc-token").write_text("projected-token")
    monkeypatch.setenv("ALIBABA_CLOUD_ROLE_ARN", ROLE)
    monkeypatch.setenv("ALIBABA_CLOUD_OIDC_PROVIDER_ARN", PROVIDER)
    monkeypatch.setenv("ALIBABA_CLOUD_OIDC_TOKEN_FILE", str(tmp_path / "oidc-token"))
    monkeypatch.setenv("ALIBABA_CLOUD_STS_REGION", "cn-hangzhou")
    monkeypatch.setenv("ALIBABA_CLOUD_VPC_ENDPOINT_ENABLED", "true")
    return roles


def admitted_to(fake: FakeOss, roles: FakeRoles) -> None:
    roles.admit = lambda key: fake.add_key(AccessKey(key.id, key.secret, key.token, key.expires_at))
    roles.expel = lambda key: fake.remove_key(key.id)


def without_key(place: Place) -> Place:
    return replace(place, settings=replace(place.settings, credentials={}))


# -- OSS ----------------------------------------------------------------------------------------------------------------


@pytest.mark.store
@pytest.mark.parametrize("kind", ["service account", "node"])
def test_a_job_on_oss_goes_on_while_its_keys_expire(request: pytest.FixtureRequest, roles: FakeRoles, oss_fake: FakeOss, kind: str) -> None:
    if kind == "service account":
        request.getfixturevalue("service_account")
    admitted_to(oss_fake, roles)
    place = without_key(oss(request))
    small_jobs.live(small_jobs.of_rows(place).to("out"), Access([place.settings]))

    assert "_SUCCESS" in small_jobs.listed(place, "out")
    assert len(roles.issued) > _ALIVE
    assert {each.access_key for each in oss_fake.requests() if each.access_key.startswith("STS.")} >= {"STS.0", f"STS.{_ALIVE}"}
    assert roles.asked(METADATA if kind == "service account" else STS) == []


@pytest.mark.store
def test_a_key_that_lasts_is_fetched_once(request: pytest.FixtureRequest, service_account: FakeRoles, oss_fake: FakeOss) -> None:
    service_account.lifetime_seconds = 3600
    admitted_to(oss_fake, service_account)
    place = without_key(oss(request))
    store = place.store()
    for _ in range(3):
        store.put(place.at("file"), b"x")

    assert len(service_account.issued) == 1
    [(host, what, query, _)] = service_account.seen
    assert (host, what.partition(" ")[2]) == (STS, "/")
    assert {name: query[name] for name in ("RoleArn", "OIDCProviderArn", "OIDCToken", "RoleSessionName", "DurationSeconds")} == {
        "RoleArn": ROLE,
        "OIDCProviderArn": PROVIDER,
        "OIDCToken": "projected-token",
        "RoleSessionName": "dataprep",
        "DurationSeconds": "3600",
    }


def test_a_nodes_key_is_asked_for_with_a_token(roles: FakeRoles) -> None:
    found = AlibabaCredentials().get_credential()

    assert (found.get_access_key_id(), found.get_access_key_secret(), found.get_security_token()) == ("STS.0", "secret-0", "token-0")
    assert "PUT /latest/api/token" in roles.asked(METADATA)


def test_the_role_of_a_service_account_that_is_refused_is_named_and_no_other_is_tried(service_account: FakeRoles) -> None:
    service_account.refusal = (403, {"Code": "AuthenticationFail.NoPermission", "Message": "not trusted"})
    with pytest.raises(BadCredentials) as error:
        an_oss_store().stat("oss://bucket/file")

    said = str(error.value)
    assert said.startswith(f"oss://bucket/file: No credentials for Alibaba Cloud: the role {ROLE} of the service account")
    assert "AuthenticationFail.NoPermission" in said
    assert "workers.serviceAccountName" in said
    assert "projected-token" not in said
    assert service_account.asked(METADATA) == []


def test_an_sts_that_cannot_be_reached_is_worth_another_try(service_account: FakeRoles) -> None:
    service_account.port = 1
    with pytest.raises(Unreachable, match=f"cannot connect to get the credentials of the role {ROLE} of the service account"):
        AlibabaCredentials().get_credential()


def test_a_key_that_is_still_good_bridges_an_sts_that_fails(service_account: FakeRoles) -> None:
    chain = AlibabaCredentials()
    first = chain.get_credential()
    service_account.refusal = (500, {})
    assert chain.get_credential() is first

    service_account.refusal, service_account.lifetime_seconds = None, 30
    chain.get_credential()
    service_account.refusal = (500, {})
    with pytest.raises(BadCredentials, match=ROLE):
        chain.get_credential()


def test_without_any_role_the_places_are_named(roles: FakeRoles) -> None:
    roles.is_node = False
    with pytest.raises(BadCredentials, match=r"a credentials file: .*; the RAM role of the node: .* Give the store a Secret"):
        AlibabaCredentials().get_credential()


def an_oss_store() -> OssStore:
    return OssStore(StoreSettings(uri_prefix="oss://", endpoint="http://127.0.0.1:1", region="cn-hangzhou", path_style=True))


# -- MaxCompute ---------------------------------------------------------------------------------------------------------


def test_a_table_is_read_while_the_keys_of_a_role_expire(service_account: FakeRoles) -> None:
    with FakeMaxCompute() as fake:
        service_account.admit = lambda key: fake.controls.keys.__setitem__(key.id, OdpsKey(key.id, key.secret, key.token))
        service_account.expel = lambda key: fake.controls.keys.pop(key.id)
        schema = pa.schema([pa.field("id", pa.int64())])
        fake.make("t", {"id": "bigint"}, schema)
        fake.fill("t", rows_of(pa.table({"id": np.arange(100)}, schema=schema)))
        access = Access([StoreSettings(uri_prefix="odps://", endpoint=fake.endpoint)])
        source = Source.model_validate({"table": {"uris": ["odps://p/tables/t"]}})
        units, state = TableReader.discover(source.member, access).collect()
        reader = TableReader(source.member, state, access)
        batches = list(reader.read(units, iter([np.arange(100)])))

    assert sum(batch.records.num_rows for batch in batches) == 100
    assert len(service_account.issued) > 3


def test_a_role_that_is_refused_is_named_with_the_table(service_account: FakeRoles) -> None:
    service_account.refusal = (400, {"Code": "EntityNotExist.Role"})
    access = Access([StoreSettings(uri_prefix="odps://", endpoint="http://127.0.0.1:1/api")])
    with pytest.raises(
        BadCredentials, match=rf"^odps://p/tables/t: No credentials for Alibaba Cloud: the role {ROLE} .*EntityNotExist\.Role"
    ):
        TableReader.discover(Source.model_validate({"table": {"uris": ["odps://p/tables/t"]}}).member, access)
