"""Tests the schemes that are read through fsspec, with a real FTP server.

Such stores are read-only, list files in our order, and use the server's metadata as pins (versions of files).
"""

import os
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]  # it ships no types
import pytest
from tests.builders.specs import parse_job
from tests.converter.stores.ftp import put

from dataprep_converter.cli.display import Display
from dataprep_converter.core.errors import BadCredentials, BadSpec, InputChanged, NotFound, Unreachable
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.pinned import open_pinned
from dataprep_converter.steps.run import run
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.registry import store_class
from dataprep_converter.tools import file_copy


def access_to(uri: str, **credentials: str) -> Access:
    login = credentials or {"username": "reader", "password": "marked-password"}
    return Access([StoreSettings(uri_prefix=uri, credentials=login)])


def test_files_are_listed_in_the_order_of_whole_paths(served: tuple[Path, str]) -> None:
    folder, uri = served
    for name in ("a/b", "a-1", "a.b", "z", "a/é", "B"):
        put(folder, **{name.replace("/", "__"): name.encode()})
    store = access_to(uri).store(uri)
    names = [entry.uri.removeprefix(f"{uri}/") for entry in store.list(uri)]
    assert names == ["B", "a-1", "a.b", "a/b", "a/é", "z"]
    assert [entry.uri for entry in store.list(f"{uri}/a/")] == [f"{uri}/a/b", f"{uri}/a/é"]
    assert [entry.uri.removeprefix(f"{uri}/") for entry in store.list(uri, recursive=False)] == ["B", "a-1", "a.b", "z"]
    assert list(store.list(f"{uri}/absent")) == []


def test_a_file_is_read_in_ranges_and_whole(served: tuple[Path, str]) -> None:
    folder, uri = served
    content = os.urandom(9 << 20)
    put(folder, large=content)
    store = access_to(uri).store(uri)
    with store.open(f"{uri}/large") as opened:
        assert opened.size == len(content)
        assert opened.read_at(5_000_000, 1000) == content[5_000_000:5_001_000]
        assert opened.read_at(len(content) - 3, 100) == content[-3:]
        assert opened.read_at(len(content), 1) == b""
        assert b"".join(opened.stream()) == content
        assert b"".join(opened.stream(7, 5_000_000)) == content[7:5_000_007]
    assert store.get(f"{uri}/large") == content
    assert (store.stat(f"{uri}/absent"), store.stat(uri)) == (None, None)
    with pytest.raises(NotFound, match=f"{uri}/absent does not exist"):
        store.open(f"{uri}/absent")


def test_a_file_that_has_changed_is_seen_when_it_is_opened_and_when_it_was_read(served: tuple[Path, str]) -> None:
    folder, uri = served
    put(folder, file=b"x" * (5 << 20))
    store = access_to(uri).store(uri)
    pinned = store.stat(f"{uri}/file")
    assert pinned is not None
    with store.open(f"{uri}/file") as opened:
        pieces = opened.stream()
        next(pieces)
        os.utime(folder / "file", (1, 1))
        with pytest.raises(InputChanged, match="was replaced while it was being read"):
            list(pieces)
    with pytest.raises(InputChanged, match="has changed since it was planned"):
        open_pinned(store, f"{uri}/file", pinned.pin)


def test_a_job_reads_a_folder_of_an_ftp_server(served: tuple[Path, str], tmp_path: Path) -> None:
    folder, uri = served
    put(folder, days__1=b"one\ntwo\n", days__2=b"three\n")
    spec: dict[str, Any] = {"source": {"text": {"uris": [f"{uri}/days"]}}, "output": {"uri": str(tmp_path / "out"), "format": "jsonl"}}
    job = parse_job(spec, name="ftp")
    assert run(job, access=access_to(uri), workers=1, display=Display(quiet=True))[1].records.out == 3


def test_files_are_copied_from_an_ftp_server(served: tuple[Path, str], tmp_path: Path) -> None:
    folder, uri = served
    put(folder, a=b"1", b__c=b"2")
    assert file_copy.copy(uri, str(tmp_path / "to"), access_to(uri), overwrite=False).files == 2
    assert (tmp_path / "to/b/c").read_bytes() == b"2"


def test_nothing_is_written(served: tuple[Path, str], tmp_path: Path) -> None:
    _, uri = served
    put(tmp_path, file=b"x")
    with pytest.raises(BadSpec) as told:
        file_copy.copy(str(tmp_path / "file"), f"{uri}/file", access_to(uri), overwrite=False)
    assert str(told.value) == (
        f"{uri}/file: dataprep doesn't write to ftp://, because fsspec doesn't guarantee that only complete files appear under their names. "
        "Name a folder of another store."
    )


def test_a_login_that_is_refused_is_no_defect_and_no_password_is_told(served: tuple[Path, str]) -> None:
    _, uri = served
    with pytest.raises(BadCredentials) as told:
        access_to(uri, username="reader", password="wrong-marked").store(uri).stat(f"{uri}/file")
    assert f"{uri} refuses the login: 530" in str(told.value)
    assert "wrong-marked" not in str(told.value)
    with pytest.raises(BadSpec) as refused:
        access_to("ftp://").store("ftp://").stat("ftp://reader:wrong-marked@host/file")
    assert "ftp://host/…: a URI must not contain a user and a password. Put them into a Secret referenced in spec.stores" in str(
        refused.value
    )
    assert "wrong-marked" not in str(refused.value)


def test_an_anonymous_entry_sends_no_user_of_the_environment(served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, uri = served
    put(folder.parent / "public", file=b"public")
    # Setting environment variables would have no effect, because fsspec read them when it was imported.
    monkeypatch.setitem(fsspec.config.conf, "ftp", {"username": "reader", "password": "marked-password"})
    assert Access().store(uri).stat(f"{uri}/file") is None
    store = Access([StoreSettings(uri_prefix=uri, anonymous=True)]).store(uri)
    assert store.get(f"{uri}/file") == b"public"


def test_a_server_that_is_not_there_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataprep_converter.stores.fsspec_store.retrying", lambda call, **_: call())
    with pytest.raises(Unreachable, match="ftp://127.0.0.1:1/file can.t be read: ConnectionRefusedError"):
        access_to("ftp://").store("ftp://").stat("ftp://127.0.0.1:1/file")


def test_options_that_no_address_says_are_asked_for() -> None:
    with pytest.raises(
        BadSpec, match=r"^github://docs/a.csv: fsspec needs more than an address \(.*'org' and 'repo'\): set FSSPEC_GITHUB_… variables"
    ):
        Access().store("github://docs/a.csv").stat("github://docs/a.csv")


def test_a_client_that_is_not_installed_is_named() -> None:
    with pytest.raises(BadSpec, match="smb:// is read through fsspec, whose client for this scheme isn't installed: "):
        access_to("smb://").store("smb://").stat("smb://host/share/file")


@pytest.mark.parametrize("scheme", ["s3a", "memory", "simplecache", "local", "zip"])
def test_other_names_of_fsspec_are_no_stores(scheme: str) -> None:
    with pytest.raises(BadSpec, match=f"No store for {scheme}://"):
        store_class(scheme)
