"""botocore gets the keys of profiles that need more than a file: SSO, roles, processes. AWS's services are fakes."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from tests.converter.stores.loopback import Quiet, served

import environments

pytestmark = pytest.mark.interop

ROOT = Path(__file__).parents[2]
READER = Path(__file__).parent / "readers" / "aws_profiles.py"
START = "https://login.example.com/start"


class _FakeAws(Quiet):
    """A fake of STS and of SSO's portal, which return a key for every valid request."""

    def do_GET(self) -> None:  # noqa: N802 - the base class's name
        if self.headers.get("x-amz-sso_bearer_token") != "logged-in" or not self.path.startswith("/federation/credentials?"):
            self.answer(401, json.dumps({"message": "Session token not found or invalid"}))
            return
        expires = int((datetime.now(UTC) + timedelta(hours=1)).timestamp() * 1000)
        keys = {"accessKeyId": "of-sso", "secretAccessKey": "s", "sessionToken": "t", "expiration": expires}
        self.answer(200, json.dumps({"roleCredentials": keys}))

    def do_POST(self) -> None:  # noqa: N802 - the base class's name
        form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        assert form["Action"] == ["AssumeRole"]
        if "of-file" not in self.headers["authorization"] or form["RoleArn"] != ["arn:aws:iam::1:role/training"]:
            self.answer(403, "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>")
            return
        expires = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.answer(
            200,
            '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>'
            f"<AccessKeyId>of-role</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>"
            f"<Expiration>{expires}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>",
        )


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, list[object]]]:
    home = tmp_path_factory.mktemp("home")
    folder = home / ".aws"
    (folder / "sso" / "cache").mkdir(parents=True)
    process = home / "keys.sh"
    process.write_text("""#!/bin/sh\necho '{"Version": 1, "AccessKeyId": "of-process", "SecretAccessKey": "s"}'\n""")
    process.chmod(0o755)
    (folder / "credentials").write_text("[base]\naws_access_key_id = of-file\naws_secret_access_key = s\n")
    sso = f"sso_start_url = {START}\nsso_region = us-east-1\nsso_account_id = 1\n"
    (folder / "config").write_text(
        "[profile base]\nregion = us-east-1\n"
        f"[profile process]\ncredential_process = {process}\n"
        "[profile role]\nrole_arn = arn:aws:iam::1:role/training\nsource_profile = base\n"
        "[profile refused]\nrole_arn = arn:aws:iam::1:role/other\nsource_profile = base\n"
        f"[profile sso]\n{sso}sso_role_name = reader\n"
        f"[profile logged-out]\n{sso.replace('login.', 'other.')}sso_role_name = reader\n"
        "[profile bare]\nsso_session = session\n[sso-session session]\nsso_region = us-east-1\n"
    )
    token = {"startUrl": START, "region": "us-east-1", "accessToken": "logged-in", "expiresAt": "2099-01-01T00:00:00Z"}
    (folder / "sso" / "cache" / f"{hashlib.sha1(START.encode(), usedforsecurity=False).hexdigest()}.json").write_text(json.dumps(token))
    with served(_FakeAws) as port:
        url = f"http://127.0.0.1:{port}"
        said = environments.run(
            "aws",
            READER,
            [ROOT / "converter", ROOT / "api", "--", "base", "process", "role", "refused", "sso", "logged-out", "bare"],
            {
                "HOME": str(home),
                "AWS_ENDPOINT_URL_STS": url,
                "AWS_ENDPOINT_URL_SSO": url,
                "AWS_EC2_METADATA_DISABLED": "true",
                "AWS_CONFIG_FILE": str(folder / "config"),
                "AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"),
                "AWS_ACCESS_KEY_ID": "",
            },
        )
        yield json.loads(said)


@pytest.mark.parametrize(
    ("profile", "keys"),
    [
        ("base", ["of-file", "s", None, False]),
        ("process", ["of-process", "s", None, False]),
        ("role", ["of-role", "s", "t", True]),
        ("sso", ["of-sso", "s", "t", True]),
    ],
)
def test_a_profile_gives_its_keys(answers: Mapping[str, list[object]], profile: str, keys: list[object]) -> None:
    assert answers[profile] == keys


def test_a_role_that_is_refused_is_named(answers: Mapping[str, list[object]]) -> None:
    kind, message = answers["refused"]

    assert kind == "BadCredentials"
    assert str(message).startswith("No credentials for AWS profile refused: An error occurred (AccessDenied)")


def test_a_login_that_is_missing_is_named(answers: Mapping[str, list[object]]) -> None:
    kind, message = answers["logged-out"]

    assert kind == "BadCredentials"
    assert str(message).startswith("No credentials for AWS profile logged-out: ")
    assert str(message).endswith(" Log in: aws sso login --profile logged-out.")


def test_a_profile_without_an_account_has_no_credentials(answers: Mapping[str, list[object]]) -> None:
    assert answers["bare"] == ["BadCredentials", "No credentials for AWS profile bare: botocore finds none in its settings."]
