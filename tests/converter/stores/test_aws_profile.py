"""AWS profiles in files. Profiles that need botocore are tested in tests/interop/test_aws_profiles.py."""

from pathlib import Path

import pytest
from tests.converter.stores.loopback import Quiet, served

from dataprep_converter.core.errors import BadCredentials, BadSpec
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.credentials.aws import CredentialChain
from dataprep_converter.stores.credentials.aws_keys import AwsCredentials
from dataprep_converter.stores.objects.s3 import S3Store


@pytest.fixture(autouse=True)
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the folder of `config` and `credentials`."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path


def current() -> AwsCredentials:
    return CredentialChain({}, region="us-east-1").current()


@pytest.mark.parametrize("file", ["config", "credentials"])
def test_keys_are_read_from_either_file(files: Path, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "work")
    section = "profile work" if file == "config" else "work"
    (files / file).write_text(f"[{section}]\naws_access_key_id = a\naws_secret_access_key = b\naws_session_token = c\n")

    assert current() == AwsCredentials("a", "b", "c")


def test_the_profile_default_needs_no_variable(files: Path) -> None:
    (files / "config").write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n[profile other]\nregion = x\n")

    assert current() == AwsCredentials("a", "b")


@pytest.mark.parametrize(("name", "section"), [("default", "profile default"), ("a b", 'profile "a b"'), ("a b", "profile a b")])
def test_a_section_may_be_written_as_for_the_command_line(files: Path, name: str, section: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", name)
    (files / "config").write_text(f"[{section}]\naws_access_key_id = a\naws_secret_access_key = b\n")

    assert current() == AwsCredentials("a", "b")


def test_a_user_without_a_home_has_no_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    for name in ("HOME", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    S3Store(StoreSettings(uri_prefix="s3://", credentials={"accessKeyId": "a", "accessKeySecret": "b"}))
    with pytest.raises(BadCredentials, match="^No credentials for S3: give the store a Secret"):
        current()


def test_an_unknown_profile_is_named_with_both_files(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "wrok")
    with pytest.raises(BadCredentials) as error:
        current()

    said = f"No credentials for S3: AWS_PROFILE is wrok, but neither {files / 'config'} nor {files / 'credentials'} has it."
    assert str(error.value) == said


@pytest.mark.parametrize("setting", ["role_arn", "sso_session", "sso_start_url", "credential_process", "login_session"])
def test_a_profile_that_needs_botocore_names_it(files: Path, setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.setitem(__import__("sys").modules, "botocore", None)
    (files / "config").write_text(f"[profile work]\n{setting} = x\n")
    with pytest.raises(BadSpec) as error:
        current()

    assert str(error.value) == f"AWS profile work uses {setting}, which needs the package botocore: pip install botocore."


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"aws_secret_access_key = marked\n", "line 1 comes before the first [section]."),
        (b"[default]\naws_access_key_id = a\naws_secret_access_key marked\n", "expected [section] or name = value in line 3."),
        (b"[default]\nname = \xff\n", "it is not UTF-8."),
    ],
)
def test_a_file_that_is_no_settings_file_is_named_without_its_keys(files: Path, content: bytes, reason: str) -> None:
    (files / "config").write_bytes(content)
    with pytest.raises(BadCredentials) as error:
        current()

    assert str(error.value) == f"{files / 'config'} is not a valid AWS settings file: {reason}"
    assert error.value.__cause__ is None or "marked" not in str(error.value.__cause__)


class _Recorder(Quiet):
    seen: list[dict[str, str]]

    def do_GET(self) -> None:  # noqa: N802 - the base class's name
        self.seen.append({name.lower(): value for name, value in self.headers.items()})
        self.answer(200, "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")


def test_the_region_of_the_profile_signs_the_requests(files: Path) -> None:
    (files / "config").write_text("[default]\nregion = eu-central-1\naws_access_key_id = a\naws_secret_access_key = b\n")
    seen: list[dict[str, str]] = []
    with served(type("Handler", (_Recorder,), {"seen": seen})) as port:
        assert list(S3Store(StoreSettings(uri_prefix="s3://", endpoint=f"http://127.0.0.1:{port}")).list("s3://bucket/a")) == []

    assert "/eu-central-1/s3/aws4_request" in seen[0]["authorization"]
