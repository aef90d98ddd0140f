"""Behavior specific to file systems: full disks, read-only folders, stale handles, links."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.converter.stores import small_jobs
from tests.converter.stores.places import in_folder

from dataprep_converter.core.errors import AlreadyExists, InputChanged, NotFound, NotPermitted, StoreError, StoreFull, Unreachable
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps.remove import remove
from dataprep_converter.stores import Entry, StoreSettings, exclusive_rename, files
from dataprep_converter.stores.files import FileStore, temporary_name
from dataprep_converter.tools.verification import verify

pytestmark = pytest.mark.disk


@pytest.fixture
def store() -> FileStore:
    return FileStore(StoreSettings(uri_prefix=""))


def names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def failing(number: int, *, times: int = 99, real: Callable[..., object] | None = None) -> Callable[..., object]:
    """Return a system call that fails `times` times with an errno, and then does the real call."""
    calls: list[int] = []

    def call(*arguments: object, **keywords: object) -> object:
        calls.append(1)
        if len(calls) <= times or real is None:
            raise OSError(number, os.strerror(number))
        return real(*arguments, **keywords)

    return call


@pytest.mark.parametrize("scheme", ["file://", "FILE://", "file://localhost"])
def test_a_file_uri_is_a_path_and_nothing_in_it_is_decoded(store: FileStore, tmp_path: Path, scheme: str) -> None:
    uri = f"{scheme}{tmp_path}/a%20b"
    entry = store.put(uri, b"x")

    assert entry.uri == uri
    assert (tmp_path / "a%20b").read_bytes() == b"x"
    assert list(store.list(f"{scheme}{tmp_path}")) == [entry]


def test_a_file_uri_with_a_host_is_refused(store: FileStore) -> None:
    with pytest.raises(NotFound, match="has no host"):
        store.stat("file://server/share")


def test_relative_paths_work(store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store.put("file", b"x")
    store.put("./below/file", b"x")

    assert [entry.uri for entry in store.list(".")] == ["./below/file", "./file"]


def test_the_temporary_file_is_hidden_beside_the_target(store: FileStore, tmp_path: Path) -> None:
    upload = store.create(f"{tmp_path}/shard.tfrecords")
    upload.write(b"x")

    [name] = names_in(tmp_path)
    assert name.startswith(".dataprep-tmp-shard.tfrecords-")
    upload.abort()


@pytest.mark.parametrize("name", ["x" * 255, "ü" * 127])
def test_a_name_as_long_as_names_may_be_can_be_written(store: FileStore, tmp_path: Path, name: str) -> None:
    store.put(f"{tmp_path}/{name}", b"x")

    assert names_in(tmp_path) == [name]
    assert len(temporary_name(name).encode()) <= 255


def test_names_that_are_not_utf_8_are_listed_and_read(store: FileStore, tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")).write_bytes(b"x")

    [entry] = store.list(str(tmp_path))
    assert store.get(entry.uri) == b"x"


def test_links_are_followed_but_not_in_circles(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_bytes(b"x")
    (tmp_path / "linked").symlink_to("real")
    (tmp_path / "real" / "up").symlink_to("..")
    (tmp_path / "file").symlink_to("real/file")
    (tmp_path / "nowhere").symlink_to("absent")

    assert [entry.uri.removeprefix(f"{tmp_path}/") for entry in store.list(str(tmp_path))] == ["file", "linked/file", "real/file"]


def test_what_is_neither_file_nor_folder_is_left_out(store: FileStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert list(store.list(str(tmp_path))) == []
    assert store.stat(f"{tmp_path}/pipe") is None


@pytest.mark.slow
def test_ten_thousand_files_are_listed_in_order_while_files_come_and_go(store: FileStore, tmp_path: Path) -> None:
    for number in range(10_000):
        (tmp_path / f"{number:05d}").touch()
    found: list[str] = []
    listing: Iterator[Entry] = store.list(str(tmp_path))
    for entry in listing:
        found.append(entry.uri[-5:])
        if len(found) == 10:
            (tmp_path / "00500").unlink()

    assert found == [f"{number:05d}" for number in range(10_000) if number != 500]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["write", "fsync", "close", "open"])
def test_a_full_disk_is_named_wherever_it_shows(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    def write() -> None:
        upload = store.create(f"{tmp_path}/file")
        try:
            upload.write(b"x")
            upload.commit(replace=True)
        finally:
            upload.abort()

    with monkeypatch.context() as patched:
        patched.setattr(f"os.{call}", failing(number))
        with pytest.raises(StoreFull, match=f"No space or quota left for {tmp_path}"):
            write()
    assert [name for name in names_in(tmp_path) if not name.startswith(".")] == []


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_a_missing_right_names_user_and_path(store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr("os.open", failing(number))
    with pytest.raises(NotPermitted, match=rf"AccessDenied: user=.*uid \d+\)? path={tmp_path}"):
        store.create(f"{tmp_path}/file")
    with pytest.raises(NotPermitted, match=rf"AccessDenied: user=.* path={tmp_path}/file"):
        store.open(f"{tmp_path}/file")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
def test_another_users_folder_is_refused_for_real(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    for folder in [tmp_path, *tmp_path.parents][:3]:
        folder.chmod(0o755)
    program = f"""if True:
        import os
        from dataprep_converter.stores import StoreSettings
        from dataprep_converter.stores.files import FileStore
        os.setuid(65534)
        store = FileStore(StoreSettings(uri_prefix=""))
        for attempt in (lambda: store.put("{tmp_path}/closed/x", b""), lambda: list(store.list("{tmp_path}/closed")), lambda: store.put("{tmp_path}/x/y", b"")):
            try:
                attempt()
            except Exception as exc:
                print(type(exc).__name__, exc)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.count("NotPermitted AccessDenied: user=nobody (uid 65534) path=") == 3, done.stdout


def test_a_file_where_a_folder_should_be_is_named(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(NotPermitted, match=r"A part of the path .*file.* is a file, but must be a folder"):
        store.put(f"{tmp_path}/file/below", b"x")


def test_a_folder_where_a_file_should_be_is_named(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / "folder" / "below").mkdir(parents=True)

    with pytest.raises(NotPermitted, match="folder is a folder"):
        store.put(f"{tmp_path}/folder", b"x", replace=True)
    with pytest.raises(AlreadyExists):
        store.put(f"{tmp_path}/folder", b"x", replace=False)
    assert names_in(tmp_path) == ["folder"]


def test_a_failing_disk_is_worth_a_retry(store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"x")
    monkeypatch.setattr("os.pread", failing(errno.EIO))

    with pytest.raises(Unreachable, match="Input/output error"), store.open(f"{tmp_path}/file") as source:
        source.read_at(0, 1)


def test_a_stale_handle_is_opened_again(store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"content")
    with store.open(f"{tmp_path}/file") as source:
        monkeypatch.setattr("os.pread", failing(errno.ESTALE, times=1, real=os.pread))
        assert source.read_at(0, 7) == b"content"
    monkeypatch.setattr("os.stat", failing(errno.ESTALE, times=2, real=os.stat))
    assert store.stat(f"{tmp_path}/file") is not None


def test_a_stale_handle_of_a_file_that_was_replaced_is_told(store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"content")
    with store.open(f"{tmp_path}/file") as source:
        store.put(f"{tmp_path}/file", b"other content")
        monkeypatch.setattr("os.pread", failing(errno.ESTALE, times=1, real=os.pread))
        with pytest.raises(InputChanged, match="was replaced"):
            source.read_at(0, 7)


def test_a_file_that_becomes_shorter_is_told(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(100))
    with store.open(f"{tmp_path}/file") as source:
        os.truncate(tmp_path / "file", 50)
        with pytest.raises(InputChanged, match="shrank while it was being read"):
            source.read_at(40, 20)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.ENOTSUP])
def test_without_an_exclusive_rename_a_hard_link_is_as_exclusive(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(exclusive_rename, "_rename_without_replacing", failing(number))

    store.put(f"{tmp_path}/file", b"first", replace=False)
    with pytest.raises(AlreadyExists):
        store.put(f"{tmp_path}/file", b"second", replace=False)

    assert names_in(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"first"
    assert (tmp_path / "file").stat().st_nlink == 1


def test_a_link_whose_first_answer_was_lost_is_ours(store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link_twice(source: str, target: str, real: Callable[[str, str], None] = os.link) -> None:
        real(source, target)
        real(source, target)

    monkeypatch.setattr(exclusive_rename, "_rename_without_replacing", failing(errno.EINVAL))
    monkeypatch.setattr("os.link", link_twice)

    store.put(f"{tmp_path}/file", b"first", replace=False)
    assert names_in(tmp_path) == ["file"]


def test_a_file_system_that_can_do_neither_is_told(store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusive_rename, "_rename_without_replacing", failing(errno.EINVAL))
    monkeypatch.setattr("os.link", failing(errno.EPERM))

    with pytest.raises(StoreError, match="can't be created exclusively"):
        store.put(f"{tmp_path}/file", b"first", replace=False)
    assert names_in(tmp_path) == []


def test_a_commit_reaches_the_disk_before_its_name(store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def noted(name: str, real: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            order.append(name)
            real(*arguments)

        return call

    for name in ("fsync", "replace"):
        monkeypatch.setattr(f"os.{name}", noted(name, getattr(os, name)))

    store.put(f"{tmp_path}/file", b"x")

    assert order == ["fsync", "replace", "fsync"]


def test_the_disk_begins_while_a_file_is_written(store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _, *what: asked.append(what))
    monkeypatch.setattr(files, "_WRITE_BACK_BYTES", 10)
    upload = store.create(str(tmp_path / "file"))
    for piece in (b"0123", b"456789", b"abc", b"defghijklm"):
        upload.write(piece)
    upload.commit(replace=True)
    assert asked == [(0, 10, os.POSIX_FADV_DONTNEED), (10, 13, os.POSIX_FADV_DONTNEED)]
    assert (tmp_path / "file").read_bytes() == b"0123456789abcdefghijklm"


@pytest.mark.slow
def test_folders_are_made_by_many_at_once(tmp_path: Path) -> None:
    program = f"""if True:
        import sys
        from dataprep_converter.stores import StoreSettings
        from dataprep_converter.stores.files import FileStore
        FileStore(StoreSettings(uri_prefix="")).put(f"{tmp_path}/a/b/c/d/{{sys.argv[1]}}", b"x")
    """
    running = [subprocess.Popen([sys.executable, "-c", program, str(number)]) for number in range(4)]

    assert [each.wait() for each in running] == [0] * 4
    assert names_in(tmp_path / "a/b/c/d") == [str(number) for number in range(4)]


def test_files_that_nfs_keeps_for_who_has_them_open_are_nobodys(tmp_path: Path) -> None:
    """If a file is deleted while it is open, NFS clients rename it to `.nfs…` in the same folder."""
    place = in_folder(tmp_path)
    job = small_jobs.of_files(place, "a")
    small_jobs.live(job.to("whole"), Access())
    expected = small_jobs.whole(place, "whole")
    kept = [f"{folder}/.nfs00000000004d2a{number:08x}" for number, folder in enumerate(("in", "out", "out/_dataprep"))]
    for name in kept:
        place.store().put(place.at(name), b"1,2\nhalf a ro")

    small_jobs.live(job.to("out"), Access())
    assert small_jobs.whole(place, "out").visible == expected.visible
    assert verify(place.at("out"), Access()).records_out == small_jobs.RECORDS - 1
    run = small_jobs.plan(job.to("out"), Access()).result.run_id
    remove(place.at("out"), Access(), runs=[run])
    assert [name for name in place.names("out") if name not in kept] == []
