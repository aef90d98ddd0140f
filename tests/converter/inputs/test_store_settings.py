"""Entries of spec.stores become settings, completed with the Secrets and ConfigMaps that are mounted in a pod."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from dataprep_api import spec
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.store_settings import MOUNTS_VARIABLE, SECRET_KEYS, mounts_of_this_pod, settings_for


def a_store(**fields: object) -> spec.Store:
    return spec.Store.model_validate({"uriPrefix": "oss://bucket/", **fields})


def a_secret(mounts: Path, index: int, **keys: str) -> None:
    folder = mounts / "secrets" / str(index)
    folder.mkdir(parents=True)
    for key, value in keys.items():
        (folder / key).write_text(value)


def test_no_stores_are_no_settings() -> None:
    assert settings_for(None, None) == []
    assert settings_for([], "/nowhere") == []


def test_what_the_spec_says_is_taken(tmp_path: Path) -> None:
    [found] = settings_for([a_store(endpoint="http://oss:80", region="cn-shenzhen", pathStyle=True, user="alice")], str(tmp_path))

    assert (found.uri_prefix, found.endpoint, found.region, found.path_style, found.user) == (
        "oss://bucket/",
        "http://oss:80",
        "cn-shenzhen",
        True,
        "alice",
    )
    assert (found.credentials, found.hadoop_conf) == ({}, None)


def test_encryption_is_taken_and_a_key_is_one_of_kms() -> None:
    [found] = settings_for([a_store(serverSideEncryption="KMS", kmsKeyId="alias/k")], None)
    assert (found.server_side_encryption, found.kms_key_id) == ("KMS", "alias/k")
    for fields in ({"kmsKeyId": "k"}, {"kmsKeyId": "k", "serverSideEncryption": "AES256"}):
        with pytest.raises(ValidationError, match="kmsKeyId needs serverSideEncryption: KMS"):
            a_store(**fields)


def test_an_anonymous_store_has_no_secret() -> None:
    [found] = settings_for([a_store(anonymous=True)], None)
    assert found.anonymous
    with pytest.raises(ValidationError, match="anonymous can't be combined with secretRef"):
        a_store(anonymous=True, secretRef={"name": "a"})


def test_a_limit_of_requests_belongs_to_its_entry() -> None:
    stores = [a_store(), a_store(uriPrefix="oss://bucket/in/", requestsPerSecond=20)]
    access = Access([replace(each, region="cn-shenzhen") for each in settings_for(stores, None)])

    for uri in ("oss://bucket/in/a", "oss://bucket/b", "oss://bucket/in/c"):
        access.store(uri)

    assert {entry: budget.counts.limit for entry, budget in access.budgets.items()} == {"0": None, "1": 20.0}


def test_a_limit_of_requests_for_a_store_without_pacing_is_refused() -> None:
    access = Access(settings_for([a_store(), a_store(uriPrefix="ftp://", requestsPerSecond=20)], None))

    with pytest.raises(BadSpec, match=r"stores\[1\]\.requestsPerSecond can't limit requests to ftp://; it works only for s3://, oss://, "):
        access.store("ftp://host/file")


@pytest.mark.parametrize("limit", [0, -1, 2_000_000])
def test_a_limit_of_requests_is_in_bounds(limit: int) -> None:
    with pytest.raises(ValidationError, match="requestsPerSecond"):
        a_store(requestsPerSecond=limit)


def test_each_store_has_its_own_secret(tmp_path: Path) -> None:
    a_secret(tmp_path, 0, accessKeyId="id 0\n", accessKeySecret="secret 0\n")
    a_secret(tmp_path, 2, accessKeyId="id 2", accessKeySecret="secret 2", securityToken="token", other="x")
    stores = [a_store(secretRef={"name": "a"}), a_store(), a_store(secretRef={"name": "b"})]

    found = settings_for(stores, str(tmp_path))

    assert [each.credentials for each in found] == [
        {"accessKeyId": "id 0", "accessKeySecret": "secret 0"},
        {},
        {"accessKeyId": "id 2", "accessKeySecret": "secret 2", "securityToken": "token"},
    ]
    assert "secret" not in repr(found)


def test_outside_a_pod_the_environment_has_the_credentials() -> None:
    [found] = settings_for([a_store(secretRef={"name": "a"}, configMapRef={"name": "hadoop"})], None)

    assert (found.credentials, found.hadoop_conf) == ({}, None)


def test_a_secret_without_its_keys_is_named(tmp_path: Path) -> None:
    a_secret(tmp_path, 0, accessKeyId="id", secret="x")

    with pytest.raises(BadSpec, match=r"Secret mine must have .* missing: accessKeySecret; it has: accessKeyId, secret\."):
        settings_for([a_store(secretRef={"name": "mine"})], str(tmp_path))


@pytest.mark.parametrize(
    ("prefix", "keys"),
    [
        ("abfs://c@a/", {"accountKey": "k"}),
        ("abfss://c@a/", {"sasToken": "s"}),
        ("abfs://c@a/", {"tenantId": "t", "clientId": "c", "clientSecret": "s"}),
        ("gs://b/", {"serviceAccountKey": "{}"}),
        ("webhdfs://nn:9870/", {"delegationToken": "t"}),
    ],
)
def test_other_stores_have_keys_of_their_own(tmp_path: Path, prefix: str, keys: dict[str, str]) -> None:
    a_secret(tmp_path, 0, **keys, other="x")

    [found] = settings_for([a_store(uriPrefix=prefix, secretRef={"name": "mine"})], str(tmp_path))

    assert found.credentials == keys


def test_every_set_of_keys_is_named(tmp_path: Path) -> None:
    a_secret(tmp_path, 0, accessKeyId="x")

    said = r"keys accountKey, or sasToken, or tenantId, clientId and clientSecret; missing: accountKey; it has: accessKeyId"
    with pytest.raises(BadSpec, match=said):
        settings_for([a_store(uriPrefix="abfs://c@a/", secretRef={"name": "mine"})], str(tmp_path))


def test_a_secret_that_is_not_mounted_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match=r"Secret mine .* it has: nothing"):
        settings_for([a_store(secretRef={"name": "mine"})], str(tmp_path))


def test_an_entry_of_hdfs_has_a_principal_and_a_keytab(tmp_path: Path) -> None:
    a_secret(tmp_path, 0, principal="alice@REALM\n", keytab="keys")

    [found] = settings_for([a_store(uriPrefix="hdfs://ns1/", secretRef={"name": "mine"})], str(tmp_path))

    assert (found.principal, found.keytab, found.credentials) == ("alice@REALM", f"{tmp_path}/secrets/0/keytab", {})


def test_a_secret_without_its_keytab_is_named(tmp_path: Path) -> None:
    a_secret(tmp_path, 0, principal="alice", accessKeyId="id")

    with pytest.raises(
        BadSpec, match=r"Secret mine must have the keys principal and keytab; missing: keytab; it has: accessKeyId, principal\."
    ):
        settings_for([a_store(uriPrefix="hdfs://", secretRef={"name": "mine"})], str(tmp_path))


def test_the_hadoop_configuration_is_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "hadoop" / "0"
    folder.mkdir(parents=True)
    (folder / "core-site.xml").write_text("<configuration/>")

    [found] = settings_for([a_store(configMapRef={"name": "hadoop"})], str(tmp_path))

    assert found.hadoop_conf == str(folder)


def test_a_config_map_without_its_keys_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match=r"ConfigMap hadoop must have the key core-site\.xml or hdfs-site\.xml"):
        settings_for([a_store(configMapRef={"name": "hadoop"})], str(tmp_path))


def test_the_mounts_are_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MOUNTS_VARIABLE, "/etc/dataprep")
    assert mounts_of_this_pod() == "/etc/dataprep"
    monkeypatch.delenv(MOUNTS_VARIABLE)
    assert mounts_of_this_pod() is None


PAGE = Path(__file__).resolve().parents[3] / "docs" / "stores" / "credentials.md"


def rows_of_the_page() -> dict[str, list[list[str]]]:
    """Return, for each scheme, the sets of keys that the documentation names for its Secret."""
    table = [line.split("|")[1:3] for line in PAGE.read_text().splitlines() if line.startswith("| `") and "://`" in line.split("|")[1]]
    quoted = {schemes: [re.findall(r"`(\w+)`", keys) for keys in named.split(";")] for schemes, named in table}
    return {scheme: keys for schemes, keys in quoted.items() for scheme in re.findall(r"`(\w+)://`", schemes)}


def test_the_page_names_the_keys_of_every_secret(tmp_path: Path) -> None:
    rows = rows_of_the_page()
    assert set(rows) == {*SECRET_KEYS, "oss", "odps", "s3", "hdfs"}
    assert {scheme: tuple(map(tuple, rows[scheme])) for scheme in SECRET_KEYS} == {
        scheme: tuple(map(tuple, sets)) for scheme, sets in SECRET_KEYS.items()
    }
    for scheme, sets in rows.items():
        for place, keys in enumerate(sets):
            mounts = tmp_path / f"{scheme}-{place}"
            a_secret(mounts, 0, **dict.fromkeys(keys, "value"))
            [found] = settings_for([a_store(uriPrefix=f"{scheme}://a", secretRef={"name": "a"})], str(mounts))
            assert {*found.credentials, *({"principal", "keytab"} if found.keytab else {})} == set(keys)
