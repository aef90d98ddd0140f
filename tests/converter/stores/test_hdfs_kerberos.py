"""HDFS with Kerberos: a real KDC, a real NameNode that accepts only clients with a ticket, and keytabs like those from a Secret."""

import base64
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import pytest
from tests.availability import unavailable
from tests.converter.stores import pages, small_jobs
from tests.converter.stores.places import Place, hidden_ones, in_folder

from dataprep_api import spec
from dataprep_converter.core.errors import BadCredentials, BadSpec, ConvertError, NotPermitted, Unreachable
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.store_settings import settings_for
from dataprep_converter.steps import preflight
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.hdfs import hdfs_kerberos
from dataprep_converter.stores.hdfs.hdfs import HdfsStore
from storeservers import ServerFailed
from storeservers.cache import BuildFailed
from storeservers.hdfs import site_xml
from storeservers.hdfs_secured import SecuredHdfs
from storeservers.kdc import REALM, Kdc

pytestmark = pytest.mark.store

HADOOP = {"dfs.data.transfer.protection": "authentication"}


@dataclass(frozen=True)
class Secured:
    """The running servers, and the files that an administrator of the cluster would give to users."""

    kdc: Kdc
    hdfs: SecuredHdfs
    alice: Path
    """The keytab of the user alice."""


@pytest.fixture(scope="module")
def secured(servers_folder: Path) -> Iterator[Secured]:
    kdc = Kdc(servers_folder / "kdc")
    try:
        kdc.start()
        hdfs = SecuredHdfs(servers_folder / "secured", kdc)
        hdfs.start()
    except (ServerFailed, BuildFailed, OSError) as exc:
        kdc.stop()
        unavailable(f"HDFS with Kerberos (needs java, mvn, krb5-kdc, krb5-admin-server) is missing: {exc}")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(hdfs_kerberos.CONFIGURATION_VARIABLE, str(kdc.krb5_conf))
        _make_home(hdfs, "alice")
    yield Secured(kdc, hdfs, kdc.keytab("alice"))
    hdfs.stop()
    kdc.stop()


def _make_home(hdfs: SecuredHdfs, user: str) -> None:
    administrator = StoreSettings(uri_prefix="hdfs://", principal=hdfs.service, keytab=str(hdfs.keytab))
    client = HdfsStore(administrator).new_client(f"{hdfs.host}:{hdfs.port}")
    client.mkdirs("/home", 0o755, True)
    client.mkdirs(f"/home/{user}", 0o700, True)
    client.set_owner(f"/home/{user}", user, "users")


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Use the test's Kerberos configuration, ignore the machine user's tickets, and retry only for a short time."""
    monkeypatch.setattr(preflight, "_RETRY_SECONDS", 0.5)
    monkeypatch.setenv(hdfs_kerberos.CONFIGURATION_VARIABLE, "")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")


@pytest.fixture
def mounts(secured: Secured, tmp_path: Path) -> Path:
    """Make the files that the operator mounts for the first entry of the stores."""
    secret, hadoop = tmp_path / "secrets" / "0", tmp_path / "hadoop" / "0"
    for folder in (secret, hadoop):
        folder.mkdir(parents=True)
    (secret / "principal").write_text(f"alice@{REALM}\n")
    (secret / "keytab").write_bytes(secured.alice.read_bytes())
    (hadoop / "hdfs-site.xml").write_text(site_xml(HADOOP))
    (hadoop / "krb5.conf").write_text(secured.kdc.client_configuration())
    return tmp_path


@pytest.fixture
def settings(mounts: Path) -> StoreSettings:
    return settings_of(mounts)


def settings_of(mounts: Path, **fields: object) -> StoreSettings:
    entry = {"uriPrefix": "hdfs://", "secretRef": {"name": "etl"}, "configMapRef": {"name": "hadoop"}, **fields}
    return settings_for([spec.Store.model_validate(entry)], str(mounts))[0]


def test_a_job_with_the_keytab_of_a_secret_makes_the_same_bytes(secured: Secured, settings: StoreSettings, tmp_path: Path) -> None:
    store = HdfsStore(settings)
    root = f"{secured.hdfs.uri}/home/alice"

    def keys(below: str = "") -> list[str]:
        return [entry.uri.removeprefix(f"{root}/") for entry in store.list(f"{root}/{below}".rstrip("/"))]

    place = Place(root, settings, keys, hidden_ones(keys))
    small_jobs.live(small_jobs.of_rows(place).to("out"), Access([settings]))

    local = in_folder(tmp_path / "local")
    small_jobs.live(small_jobs.of_rows(local).to("out"), Access())
    assert small_jobs.visible(place, "out") == small_jobs.visible(local, "out")
    assert small_jobs.whole(place, "out").names
    assert place.leftovers() == 0
    assert {entry.details.owner for entry in store.list(root) if entry.details} == {"alice"}
    assert not (tmp_path / "tickets").exists(), "a keytab leaves no ticket on the disk"


def test_a_keytab_makes_the_client_log_in_without_any_configuration(secured: Secured, settings: StoreSettings) -> None:
    HdfsStore(settings)  # also sets the krb5.conf of this process
    alone = HdfsStore(replace(settings, hadoop_conf=None))

    assert alone.stat(f"{secured.hdfs.uri}/nothing") is None


def _without(folder: Path, name: str) -> None:
    (folder / name).unlink()


def _another_keytab(secured: Secured, secret: Path) -> None:
    (secret / "keytab").write_bytes(secured.kdc.keytab("bob").read_bytes())


def _an_old_keytab(secured: Secured, secret: Path) -> None:
    (secret / "keytab").write_bytes(secured.kdc.keytab("carol").read_bytes())
    (secret / "principal").write_text("carol")
    secured.kdc.change_key("carol")


def _says_kerberos(hadoop: Path) -> None:
    (hadoop / "core-site.xml").write_text(site_xml({hdfs_kerberos.AUTHENTICATION: "kerberos"}))


def real_errors(secured: Secured, mounts: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, ConvertError]]:
    """Yield (missing step, error of the preflight), in the order of the page. Each case starts from a working configuration."""
    uri = f"{secured.hdfs.uri}/home/alice/out"
    secret, hadoop = mounts / "secrets" / "0", mounts / "hadoop" / "0"
    none: dict[str, object] = {"secretRef": None}

    def without(
        spoil: Callable[[], object] = lambda: None, *, at: str = uri, fields: Mapping[str, object] = MappingProxyType({})
    ) -> ConvertError:
        monkeypatch.setenv(hdfs_kerberos.CONFIGURATION_VARIABLE, "")
        before = {file: file.read_bytes() for folder in (secret, hadoop) for file in folder.iterdir()}
        spoil()
        try:
            with pytest.raises(ConvertError) as found:
                preflight.preflight(Access([settings_of(mounts, **fields)]), at, [])
        finally:
            for file in (*secret.iterdir(), *hadoop.iterdir()):
                file.unlink()
            for file, content in before.items():
                file.write_bytes(content)
        return found.value

    yield "neither Secret nor configuration", without(fields=none)
    yield "no Secret", without(lambda: _says_kerberos(hadoop), fields=none)
    yield "half a Secret", without(lambda: _without(secret, "principal"))
    yield "user beside a keytab", without(fields={"user": "etl"})
    yield "keytab of somebody else", without(lambda: _another_keytab(secured, secret))
    yield "old keytab", without(lambda: _an_old_keytab(secured, secret))
    yield "no krb5.conf", without(lambda: _without(hadoop, "krb5.conf"))
    yield "KDC out of reach", without(lambda: (hadoop / "krb5.conf").write_text(secured.kdc.client_configuration(port=1)))
    yield "no protection", without(lambda: (hadoop / "hdfs-site.xml").write_text(site_xml({})))
    yield "no right", without(at=f"{secured.hdfs.uri}/home/out")
    monkeypatch.setattr(hdfs_kerberos, "LIBRARY", "libgssapi_krb5.so.none")
    yield "no library", without()


def test_each_error_is_the_one_that_the_page_quotes(secured: Secured, mounts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"nn1.example:8020": f"localhost:{secured.hdfs.port}", "EXAMPLE.COM": REALM}
    found = list(real_errors(secured, mounts, monkeypatch))
    quoted = pages.errors("hdfs.md", "When a step of Kerberos is missing")

    assert len(quoted) == len(found)
    for line, (missing, error) in zip(quoted, found, strict=True):
        assert pages.says(line, str(error), here), f"{missing}: {error}"
    kinds = [type(error) for _, error in found]
    credentials = [BadCredentials] * 3
    assert kinds == [Unreachable, BadCredentials, BadSpec, BadSpec, *credentials, Unreachable, Unreachable, NotPermitted, BadSpec]


def _token_of_another_cluster(user: str) -> str:
    """Return a token as `hdfs fetchdt` writes it: Hadoop's Token with a DelegationTokenIdentifier.

    All numbers are below 128, so each takes a single byte.
    """

    def counted(content: bytes) -> bytes:
        return bytes([len(content)]) + content

    times_and_numbers = bytes([1, 2, 3, 4])
    identifier = b"\0" + counted(user.encode()) + counted(b"") + counted(b"") + times_and_numbers
    token = counted(identifier) + counted(bytes(20)) + counted(b"HDFS_DELEGATION_TOKEN") + counted(b"")
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


@pytest.mark.parametrize(("missing", "length"), [("a valid token", None), ("the whole text of a token", 20)])
def test_a_bad_token_over_http_is_told_in_the_words_of_the_page(secured: Secured, missing: str, length: int | None) -> None:
    address = secured.hdfs.http_address
    token = _token_of_another_cluster("etl")[:length]
    settings = StoreSettings("webhdfs://", user="etl", credentials={"delegationToken": token})
    with pytest.raises(BadCredentials) as found:
        preflight.preflight(Access([settings]), f"webhdfs://{address}/training/rows", [f"webhdfs://{address}/raw/rows"])

    quoted = dict(pages.rows("webhdfs.md", "When a step is missing"))[missing]
    assert pages.says(quoted, str(found.value), {"nn1.example:9870": address}), str(found.value)
    assert token not in str(found.value)


def test_two_stores_bring_a_realm_each(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "krb5.conf").write_text("")
        hdfs_kerberos.prepare(str(tmp_path / name))
        hdfs_kerberos.prepare(str(tmp_path / name))

    assert os.environ[hdfs_kerberos.CONFIGURATION_VARIABLE] == f"{tmp_path}/a/krb5.conf:{tmp_path}/b/krb5.conf"
