"""Complete jobs with AWS roles: IRSA, EKS Pod Identity, and the instance's role.

STS, the agent and the metadata service are local fakes.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from tests.converter.stores import small_jobs
from tests.converter.stores.loopback import Quiet, served
from tests.converter.stores.places import s3

from dataprep_converter.core.errors import BadCredentials, Unreachable
from dataprep_converter.inputs.access import Access
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.credentials.aws import CredentialChain, domain_of
from dataprep_converter.stores.objects.s3 import S3Store
from storeservers import S3Server

ROLE = "arn:aws:iam::111122223333:role/training"


@dataclass
class FakeAws:
    """A fake of STS, of the agent of EKS Pod Identity, and of the instance's metadata service.

    It also accepts requests for S3, but only records them.
    """

    port: int = 0
    key: tuple[str, str] = ("ASIAKEY", "secret")
    has_token: bool = True
    lifetime_seconds: float = 240
    """The lifetime of a key. If it is below five minutes, the next request fetches another key."""
    refusal: tuple[int, str] | None = None
    issued: int = 0
    asked: list[tuple[str, dict[str, str], dict[str, str]]] = field(default_factory=list)
    """(method and path, form, headers) of each request."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class _Handler(Quiet):
    aws: FakeAws

    def _serve(self) -> None:
        aws, body = self.aws, self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        form = dict(parse_qsl(body.decode())) if self.command == "POST" else {}
        aws.asked.append((f"{self.command} {self.path}", form, headers))
        expires = (datetime.now(UTC) + timedelta(seconds=aws.lifetime_seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        token = f"token-{aws.issued + 1}" if aws.has_token else ""
        if aws.refusal is not None:
            self.answer(*aws.refusal)
        elif form.get("Action") == "AssumeRoleWithWebIdentity":
            aws.issued += 1
            self.answer(
                200,
                f'<R xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Credentials><AccessKeyId>{aws.key[0]}</AccessKeyId>'
                f"<SecretAccessKey>{aws.key[1]}</SecretAccessKey><SessionToken>{token}</SessionToken>"
                f"<Expiration>{expires}</Expiration></Credentials></R>",
            )
        elif self.path == "/latest/api/token":
            self.answer(200 if self.command == "PUT" else 405, "metadata-token")
        elif self.path.startswith("/latest/") and headers.get("x-aws-ec2-metadata-token") != "metadata-token":
            self.answer(401, "")
        elif self.path.endswith("/security-credentials/"):
            self.answer(200, "node-role")
        elif self.path in ("/v1/credentials", "/latest/meta-data/iam/security-credentials/node-role"):
            aws.issued += 1
            said = {"AccessKeyId": aws.key[0], "SecretAccessKey": aws.key[1], "Token": token, "Expiration": expires}
            self.answer(200, json.dumps(said))
        else:
            self.answer(200, "")

    do_GET = do_PUT = do_POST = _serve  # noqa: N815 - the base class's names


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeAws]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_EC2_METADATA_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "absent"))
    made = FakeAws()
    with served(type("Handler", (_Handler,), {"aws": made})) as made.port:
        # Don't send requests to the network of the machine that runs the tests.
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", made.url)
        yield made


@pytest.fixture(params=["service account", "pod identity", "instance"])
def role(request: pytest.FixtureRequest, aws: FakeAws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Set the variables and files that the EKS webhooks put into a pod (none for the instance's role).

    Return the role's name as it appears in messages.
    """
    (tmp_path / "token").write_text("projected-token")
    if request.param == "service account":
        monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", aws.url)
        return f"role {ROLE} of the service account"
    if request.param == "pod identity":
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{aws.url}/v1/credentials")
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
        return "the container's role"
    return "role node-role of the instance"


@pytest.mark.store
def test_a_job_on_s3_goes_on_while_its_keys_expire(request: pytest.FixtureRequest, s3_server: S3Server, aws: FakeAws, role: str) -> None:
    # The S3 server doesn't accept this fake's tokens, so its keys have no token here. The next test checks that tokens are signed
    # and sent.
    aws.key, aws.has_token = (s3_server.access_key, s3_server.secret_key), False
    place = s3(request)
    place = replace(place, settings=replace(place.settings, credentials={}))
    small_jobs.live(small_jobs.of_rows(place).to("out"), Access([place.settings]))

    assert "_SUCCESS" in small_jobs.listed(place, "out")
    assert aws.issued > 20, role


def test_the_identity_is_shown_and_the_token_is_signed_and_sent(aws: FakeAws, role: str) -> None:
    S3Store(StoreSettings(uri_prefix="s3://", endpoint=aws.url)).put("s3://bucket/key", b"x")

    [(_, _, sent)] = [each for each in aws.asked if each[0] == "PUT /bucket/key"]
    assert sent["x-amz-security-token"] == "token-1"
    assert re.search(r"Credential=ASIAKEY/.*SignedHeaders=[a-z0-9;-]*x-amz-security-token", sent["authorization"])
    forms, authorizations = [each[1] for each in aws.asked if each[1]], [each[2].get("authorization") for each in aws.asked]
    if "service account" in role:
        assert forms == [
            {
                "Action": "AssumeRoleWithWebIdentity",
                "Version": "2011-06-15",
                "RoleArn": ROLE,
                "RoleSessionName": "dataprep",
                "WebIdentityToken": "projected-token",
            }
        ]
    elif "container" in role:
        assert authorizations[0] == "projected-token"


def test_a_role_that_is_refused_is_named_and_what_to_do(aws: FakeAws, role: str) -> None:
    chain = CredentialChain({}, region="us-east-1")
    if "instance" in role:
        chain.current()
        chain = CredentialChain({}, region="us-east-1")
    aws.refusal = (403, "<Error><Code>AccessDenied</Code></Error>")
    with pytest.raises(BadCredentials) as error:
        chain.current()

    said = str(error.value)
    assert "projected-token" not in said
    if "instance" in role:
        # If the metadata service doesn't respond, the machine doesn't look like an instance.
        assert said.startswith("No credentials for S3: give the store a Secret")
    else:
        assert said.startswith(f"No credentials for {role}: 403 <Error><Code>AccessDenied</Code></Error>.")
        assert "workers.serviceAccountName" in said


def test_a_service_that_fails_is_worth_another_try_unless_there_is_a_key(aws: FakeAws, role: str) -> None:
    chain = CredentialChain({}, region="us-east-1")
    first = chain.current()
    aws.refusal = (503, "")
    assert chain.current() is first

    aws.refusal, aws.lifetime_seconds = None, 30
    chain.current()
    aws.refusal = (503, "busy")
    with pytest.raises(BadCredentials if "instance" in role else Unreachable):
        chain.current()


def test_china_has_a_domain_of_its_own() -> None:
    assert (domain_of("cn-north-1"), domain_of("us-east-1")) == ("amazonaws.com.cn", "amazonaws.com")
