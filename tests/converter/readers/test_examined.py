"""A remote store's files are examined several at a time.

The tests use a fake store, which opens local files and keeps track of the open files.
"""

import gzip
import threading
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from tests.builders.archives import a_tar

from dataprep_converter.core.errors import Unreachable
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.base.examined import Form, examined, open_once
from dataprep_converter.runtime.scans import Piece, ScannedBefore, ScanOfPart, results_in
from dataprep_converter.stores import Entry, Input, PinnedInput, Store
from dataprep_converter.stores.files import FileStore

SMALL = 1 << 20


class FakeRemoteStore:
    """Opens local files and keeps track of the open files. Each call of `open` waits until `meeting` threads have called it."""

    def __init__(self, local: Store, *, fails: str = "", meeting: int = 1) -> None:
        self._local = local
        self._fails = fails
        self._meeting = threading.Barrier(meeting, timeout=60)
        self.opened: list[str] = []
        self.is_open: set[str] = set()

    def open(self, uri: str) -> PinnedInput:
        self.opened.append(uri)
        self._meeting.wait()
        if self._fails and uri.endswith(self._fails):
            raise Unreachable(f"{uri} can't be reached.", uri=uri)
        self.is_open.add(uri)
        source: Any = _Counted(self._local.open(uri), uri, self.is_open)
        return source  # type: ignore[no-any-return]


class _Counted:
    def __init__(self, source: Input, uri: str, is_open: set[str]) -> None:
        self._source, self._uri, self._is_open = source, uri, is_open

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._is_open.discard(self._uri)
        self._source.close()


class FakeAccess(Access):
    def __init__(self, store: FakeRemoteStore) -> None:
        super().__init__()
        self._fake: Any = store

    def store(self, uri: str) -> Store:
        del uri
        fake: Store = self._fake
        return fake


def entries(folder: Path, sizes: list[int]) -> list[tuple[int, str, Entry]]:
    local = Access().store(str(folder))
    for number, size in enumerate(sizes):
        (folder / f"{number:03}").write_bytes(bytes([number % 251]) * size)
    return [(0, f"{number:03}", entry) for number, entry in enumerate(local.list(str(folder)))]


def contents(source: Input) -> bytes:
    assert b"".join(source.stream(3)) == source.read_at(3, source.size)
    return source.read_at(0, source.size)


def size_of(store: Store, entry: Entry) -> int:
    with open_once(store, entry) as source:
        return len(contents(source))


def test_a_scan_collects_results_in_the_order_of_the_files(tmp_path: Path) -> None:
    """The results keep the order of the files, no matter which result is known first. So a second scan of a part writes the same files."""
    access = FakeAccess(FakeRemoteStore(Access().store(str(tmp_path))))
    access.scan = scan = ScanOfPart(0)
    files = entries(tmp_path, [1, 2, 3])
    is_last_examined = threading.Event()

    def examine(_: Store, entry: Entry) -> int:
        if entry.size == 3:
            is_last_examined.set()
        assert is_last_examined.wait(60)
        return entry.size

    form = Form[int](lambda _: 1, lambda result: result, lambda document: int(document))
    assert list(examined(access, files, examine, form=form)) == []
    assert list(results_in(scan.to_bytes()).values()) == [1, 2, 3]


def test_only_the_planner_examines_a_file_whose_server_reports_no_version(tmp_path: Path) -> None:
    access = FakeAccess(FakeRemoteStore(Access().store(str(tmp_path))))
    (_, _, first), (_, _, second) = entries(tmp_path, [1, 2])
    files = [(0, "000", replace(first, pin="1-")), (0, "001", second)]
    form = Form[int](lambda _: 1, lambda result: result, lambda document: int(document))

    access.scan = scan = ScanOfPart(0)
    assert list(examined(access, files, lambda _, entry: entry.size, form=form)) == []
    results = results_in(scan.to_bytes())
    assert ([piece.uri for piece in results], scan.division.pieces) == ([second.uri], 1)

    access.scan = ScannedBefore(lambda: {**results, Piece(first.uri, "1-", 1, None, 1): 10})
    assert [each.result for each in examined(access, files, lambda _, entry: entry.size, form=form)] == [1, 2]


@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize("size", [0, 1, SMALL, SMALL + 1])
def test_a_file_that_is_opened_once_has_its_content(tmp_path: Path, is_remote: bool, size: int) -> None:
    local = Access().store(str(tmp_path))
    fake: Any = FakeRemoteStore(local)
    ((_, _, entry),) = entries(tmp_path, [size])
    with open_once(fake if is_remote else local, entry) as source:
        assert (contents(source), source.size) == (bytes(size), size)


def test_a_small_file_is_closed_as_soon_as_it_is_read(tmp_path: Path) -> None:
    fake: Any = FakeRemoteStore(Access().store(str(tmp_path)))
    (_, _, small), (_, _, large) = entries(tmp_path, [SMALL, SMALL + 1])
    with open_once(fake, small), open_once(fake, large):
        assert fake.is_open == {large.uri}
    assert fake.is_open == set()


def test_a_file_that_has_grown_since_it_was_listed_is_not_read_into_memory(tmp_path: Path) -> None:
    fake: Any = FakeRemoteStore(Access().store(str(tmp_path)))
    ((_, _, entry),) = entries(tmp_path, [10])
    (tmp_path / "000").write_bytes(bytes(SMALL + 1))
    with open_once(fake, entry) as source:
        assert source.size == SMALL + 1
        assert fake.is_open == {entry.uri}


@pytest.mark.parametrize("size", [10, SMALL + 1])
def test_files_are_read_at_the_same_time(tmp_path: Path, size: int) -> None:
    store = FakeRemoteStore(Access().store(str(tmp_path)), meeting=8)
    found = examined(FakeAccess(store), entries(tmp_path, [size] * 16), size_of)
    assert [each.result for each in found] == [size] * 16
    assert store.is_open == set()


def test_an_error_comes_when_the_file_is_due(tmp_path: Path) -> None:
    store = FakeRemoteStore(Access().store(str(tmp_path)), fails="002")
    found = examined(FakeAccess(store), entries(tmp_path, [10] * 5), size_of)
    assert [next(found).path, next(found).path] == ["000", "001"]
    with pytest.raises(Unreachable, match=r"002 can't be reached"):
        next(found)


def test_files_on_this_disk_are_not_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = entries(tmp_path, [10] * 5)
    opened: list[str] = []
    really = FileStore.open

    def counted(self: FileStore, uri: str) -> PinnedInput:
        opened.append(uri)
        return really(self, uri)

    monkeypatch.setattr(FileStore, "open", counted)
    for number, _ in enumerate(examined(Access(), files, size_of), start=1):
        assert len(opened) == number


@pytest.mark.parametrize("is_remote", [False, True])
def test_each_file_is_examined_with_its_store_in_order(tmp_path: Path, is_remote: bool) -> None:
    local = Access()
    access = FakeAccess(FakeRemoteStore(local.store(str(tmp_path)))) if is_remote else local
    files = entries(tmp_path, [10] * 20)

    results = examined(access, files, lambda store, entry: (store, entry.uri))

    assert [(each.root, each.path, each.entry, each.result) for each in results] == [
        (root, path, entry, (access.store(entry.uri), entry.uri)) for root, path, entry in files
    ]


def test_at_most_so_many_files_are_examined_at_the_same_time(tmp_path: Path) -> None:
    access = FakeAccess(FakeRemoteStore(Access().store(str(tmp_path))))
    lock = threading.Lock()
    at_once: list[int] = [0]
    peaks: list[int] = []

    def examine(store: Store, entry: Entry) -> None:
        del store, entry
        with lock:
            at_once[0] += 1
            peaks.append(at_once[0])
        threading.Event().wait(0.005)
        with lock:
            at_once[0] -= 1

    assert len([*examined(access, entries(tmp_path, [1] * 30), examine)]) == 30
    assert max(peaks) <= 8


def test_members_of_an_archive_are_examined_one_after_the_other(tmp_path: Path) -> None:
    """A compressed archive can only be read in order. To read it in any other order, a process would have to copy it to the local disk."""
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(gzip.compress(a_tar({f"{number}.bin": b"x" * 10 for number in range(20)})))
    access = Access()
    uri = f"{archive}!/"
    files = [(0, str(number), entry) for number, entry in enumerate(access.store(uri).list(uri))]

    def examine(store: Store, entry: Entry) -> str:
        del store, entry
        return threading.current_thread().name

    assert {each.result for each in examined(access, files, examine)} == {threading.current_thread().name}
    assert [each.result for each in examined(access, files, size_of)] == [10] * 20
