"""The contract of Store, Upload and Input, which is the same for every store."""

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.converter.stores.places import PLACES, Place, hidden, some_bytes

from dataprep_converter.core.errors import AlreadyExists, NotFound, Unreachable
from dataprep_converter.stores import MovesFiles, Store, Upload, folders_of, stream_ahead

MIB = 1 << 20
OF_PARTS = 9 * MIB
"""A file of this size is sent to object stores in two parts. The first part is sent before the commit."""
OF_MORE_PARTS = pytest.param(20 * MIB, marks=pytest.mark.nightly)
"""A file of this size is sent to object stores in three parts."""


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Place:
    made: Place = request.param(request)
    return made


@pytest.fixture
def store(place: Place) -> Store:
    return place.store()


@pytest.mark.parametrize("size", [0, 1, 100, MIB, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1, 21 * MIB + 7], ids=str)
def test_what_is_written_is_read_back(place: Place, store: Store, size: int) -> None:
    content = some_bytes(size)
    upload = store.create(place.at("a/b/file.bin"))
    upload.write(content)
    entry = upload.commit(replace=False)

    assert (entry.uri, entry.size) == (place.at("a/b/file.bin"), size)
    assert store.stat(place.at("a/b/file.bin")) == entry
    assert store.get(place.at("a/b/file.bin")) == content
    assert place.names() == ["a/b/file.bin"]


def test_pieces_of_any_kind_and_size_make_one_object(place: Place, store: Store) -> None:
    content = some_bytes(19 * MIB)
    view = memoryview(content)
    upload = store.create(place.at("pieces"))
    upload.write(b"")
    upload.write(content[: 3 * MIB])
    reused = bytearray(content[3 * MIB : 12 * MIB])
    upload.write(reused)
    reused[:] = bytes(len(reused))
    upload.write(view[12 * MIB : 12 * MIB + 5])
    upload.write(view[12 * MIB + 5 :])
    upload.commit(replace=True)

    assert store.get(place.at("pieces")) == content


@pytest.mark.parametrize("recursive", [True, False], ids=["all", "folder"])
def test_folders_have_the_files_of_a_listing_in_its_order(place: Place, store: Store, recursive: bool) -> None:
    for name in ("a", "b/c", "b/d/e", "b-1", "b.1", "\u00e9/\U0001f600", "z"):
        store.put(place.at(f"in/{name}"), name.encode())
    listed = list(store.list(place.at("in"), recursive=recursive))
    folders = list(folders_of(store, place.at("in"), recursive=recursive))

    found = [(f.folder + name, size, pin) for f in folders for name, size, pin in zip(f.names, f.sizes, f.pins, strict=True)]
    assert found == [(entry.uri, entry.size, entry.pin) for entry in listed]
    assert len(found) == (7 if recursive else 4)
    assert all("/" not in name for files in folders for name in files.names)


def test_a_size_hint_changes_nothing_that_is_read(place: Place, store: Store) -> None:
    content = some_bytes(9 * MIB)
    upload = store.create(place.at("hinted"), size_hint=100 << 30)
    upload.write(content)
    upload.commit(replace=False)

    assert store.get(place.at("hinted")) == content


@pytest.mark.parametrize("size", [100, OF_PARTS, OF_MORE_PARTS], ids=str)
def test_nothing_is_visible_before_the_commit(place: Place, store: Store, size: int) -> None:
    upload = store.create(place.at("file"))
    upload.write(some_bytes(size))

    assert store.stat(place.at("file")) is None
    assert [key for key in place.names() if not hidden([key])] == []
    upload.commit(replace=False)
    assert place.names() == ["file"]


@pytest.mark.parametrize("size", [0, 100, OF_PARTS, OF_MORE_PARTS], ids=str)
def test_an_abort_leaves_nothing(place: Place, store: Store, size: int) -> None:
    upload = store.create(place.at("file"))
    upload.write(some_bytes(size))
    upload.abort()
    upload.abort()

    assert place.names() == []
    assert place.leftovers() == 0


def test_an_abort_after_the_commit_changes_nothing(place: Place, store: Store) -> None:
    upload = store.create(place.at("file"))
    upload.write(b"whole")
    upload.commit(replace=False)
    upload.abort()

    assert store.get(place.at("file")) == b"whole"


def test_an_exception_in_the_middle_publishes_nothing(place: Place, store: Store) -> None:
    def convert() -> None:
        upload = store.create(place.at("file"))
        try:
            upload.write(some_bytes(OF_PARTS))
            raise RuntimeError("a defect")
        finally:
            upload.abort()

    with pytest.raises(RuntimeError, match="a defect"):
        convert()
    assert place.names() == []
    assert place.leftovers() == 0


def test_a_commit_without_replace_leaves_the_existing_object(place: Place, store: Store) -> None:
    store.put(place.at("file"), b"first")
    for size in (5, OF_PARTS):
        upload = store.create(place.at("file"))
        upload.write(some_bytes(size))
        with pytest.raises(AlreadyExists, match="file"):
            upload.commit(replace=False)
        upload.abort()

    assert store.get(place.at("file")) == b"first"
    assert place.names() == ["file"]
    assert place.leftovers() == 0


@pytest.mark.slow
@pytest.mark.parametrize(("size", "writers"), [(64, 8), (OF_PARTS, 4), pytest.param(17 * MIB, 8, marks=pytest.mark.nightly)])
def test_of_commits_at_once_one_wins(place: Place, size: int, writers: int) -> None:
    contents = [some_bytes(size, seed=number) for number in range(writers)]
    together = threading.Barrier(len(contents))

    def commit(content: bytes) -> bool:
        upload = place.store().create(place.at("file"))
        upload.write(content)
        together.wait()
        try:
            upload.commit(replace=False)
        except AlreadyExists:
            upload.abort()
            return False
        return True

    with ThreadPoolExecutor(len(contents)) as threads:
        won = list(threads.map(commit, contents))

    assert won.count(True) == 1
    assert place.store().get(place.at("file")) == contents[won.index(True)]
    assert place.names() == ["file"]
    assert place.leftovers() == 0


def test_of_exclusive_puts_at_once_one_wins(place: Place) -> None:
    stores = [place.store() for _ in range(8)]
    together = threading.Barrier(len(stores))

    def put(number: int) -> bool:
        together.wait()
        try:
            stores[number].put(place.at("OWNER"), f"owner {number}".encode(), replace=False)
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(len(stores)) as threads:
        won = list(threads.map(put, range(len(stores))))

    assert won.count(True) == 1
    assert stores[0].get(place.at("OWNER")) == f"owner {won.index(True)}".encode()
    assert place.names() == ["OWNER"]


def test_a_replaced_object_is_the_old_or_the_new_one_at_any_time(place: Place, store: Store) -> None:
    old, new = b"o" * 3000, b"n" * 5000
    store.put(place.at("file"), old)
    stop = threading.Event()
    seen: set[bytes] = set()

    def watch() -> None:
        reader = place.store()
        while not stop.is_set():
            seen.add(reader.get(place.at("file")))

    watcher = threading.Thread(target=watch)
    watcher.start()
    for content in [new, old] * 5:
        store.put(place.at("file"), content)
    stop.set()
    watcher.join()

    assert seen <= {old, new}
    assert store.get(place.at("file")) == old


def test_the_pin_changes_with_the_content_and_only_then(place: Place, store: Store) -> None:
    first = store.put(place.at("file"), b"12345")
    assert store.stat(place.at("file")) == first
    assert list(store.list(place.root)) == [first]

    time.sleep(0.01)
    second = store.put(place.at("file"), b"54321")

    assert second.pin != first.pin
    assert store.stat(place.at("file")) == second


def test_what_is_opened_tells_its_pin_where_the_store_knows_it(place: Place, store: Store) -> None:
    entry = store.put(place.at("file"), b"12345")

    with store.open(place.at("file")) as source:
        assert source.pin == (None if place.root.startswith("hdfs://") else entry.pin)


TRICKY = [
    "a-1",
    "a.b",
    "a/b",
    "a/b.c/d",
    "a/b/c",
    "a0",
    "1+1",
    "p%20q",
    "two words",
    "ünïcödé/β",
    "日本",
    "😀",
    "z#q?x=1&y",
    "_x/.hidden",
    "~",
]


def test_the_listing_is_in_the_order_of_the_bytes_of_whole_paths(place: Place, store: Store) -> None:
    names = [name for name in TRICKY if name != "a/b"]
    for name in names:
        store.put(place.at(name), name.encode())

    found = list(store.list(place.root))

    assert [entry.uri for entry in found] == [place.at(name) for name in sorted(names, key=str.encode)]
    assert [entry.size for entry in found] == [len(name.encode()) for name in sorted(names, key=str.encode)]
    assert [store.get(entry.uri).decode() for entry in found] == sorted(names, key=str.encode)
    assert found == [store.stat(entry.uri) for entry in found]


def test_the_listing_tells_when_and_where_it_can_whose_a_file_is(place: Place, store: Store) -> None:
    began = time.time()
    store.put(place.at("a/file"), b"x")

    [entry] = store.list(place.root)

    assert entry.details is not None
    assert began - 2 < entry.details.modified < time.time() + 2
    if place.root.startswith(("s3:", "oss:", "abfs:", "gs:")):
        assert (entry.details.mode, entry.details.replication, entry.details.owner, entry.details.group) == (None, None, None, None)
    else:
        assert entry.details.mode == 0o644
        assert entry.details.owner
        assert entry.details.group
        assert entry.details.replication == (None if place.root.startswith("/") else 2)


def test_a_folder_that_is_not_recursed_into_shows_its_own_files(place: Place, store: Store) -> None:
    for name in ["a", "b/c", "b.d", "e/f/g"]:
        store.put(place.at(name), b"x")

    assert [entry.uri for entry in store.list(place.root, recursive=False)] == [place.at("a"), place.at("b.d")]
    assert [entry.uri for entry in store.list(place.at("b/"))] == [place.at("b/c")]


@pytest.mark.slow
def test_the_listing_spans_many_pages_in_order(place: Place, store: Store) -> None:
    # S3, OSS and Cloud Storage list a thousand objects per page.
    in_pages = place.root.startswith(("s3:", "oss:", "gs:"))
    names = [f"{number % 7}/{number:05d}" for number in range(1010 if in_pages else 60)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda name: store.put(place.at(name), b""), names))

    found = [entry.uri for entry in store.list(place.root)]

    assert found == [place.at(name) for name in sorted(place.names())]


@pytest.mark.parametrize("name", ["absent", "file", "file/below"])
def test_what_is_no_folder_has_no_files(place: Place, store: Store, name: str) -> None:
    store.put(place.at("file"), b"x")

    assert list(store.list(place.at(name))) == []


@pytest.mark.parametrize("name", ["absent", "folder", "folder/", "folder/file/below"])
def test_what_is_no_file_has_no_entry_and_cannot_be_opened(place: Place, store: Store, name: str) -> None:
    store.put(place.at("folder/file"), b"x")

    assert store.stat(place.at(name)) is None
    with pytest.raises(NotFound, match=r"folder|absent"):
        store.open(place.at(name))


def test_an_absent_object_is_named(place: Place, store: Store) -> None:
    with pytest.raises(NotFound, match="absent"):
        store.get(place.at("absent"))


RANGES = [(0, 0), (0, 1), (0, 10), (5, 5), (MIB - 1, 2), (9 * MIB - 3, 3), (9 * MIB - 3, 100), (9 * MIB, 5), (10 * MIB, 5), (0, 20 * MIB)]


def test_a_range_is_exact(place: Place, store: Store) -> None:
    content = some_bytes(9 * MIB)
    store.put(place.at("file"), content)

    for offset, length in RANGES:
        with store.open(place.at("file")) as source:
            assert source.size == len(content)
            found = source.read_at(offset, length)
            assert type(found) is bytes
            assert found == content[offset : offset + length], (offset, length)


STRETCHES = [(0, None), (0, 0), (7, None), (3 * MIB + 1, 4 * MIB), (9 * MIB - 1, None), (9 * MIB, 10), (0, 99 * MIB)]


def test_a_stream_is_exact(place: Place, store: Store) -> None:
    content = some_bytes(9 * MIB)
    store.put(place.at("file"), content)

    for offset, length in STRETCHES:
        with store.open(place.at("file")) as source:
            pieces = list(source.stream(offset, length))

        assert b"".join(pieces) == content[offset : None if length is None else offset + length], (offset, length)
        assert all(type(piece) is bytes and len(piece) <= 8 * MIB for piece in pieces)
        assert len(pieces) <= 10


def test_a_stream_over_several_connections_is_exact(place: Place, store: Store) -> None:
    content = some_bytes(21 * MIB + 7)
    store.put(place.at("file"), content)

    for offset in (0, 5, 9 * MIB, 21 * MIB, 21 * MIB + 7):
        with store.open(place.at("file")) as source:
            pieces = list(stream_ahead(source, offset))

        assert b"".join(pieces) == content[offset:], offset
        assert all(type(piece) is bytes and len(piece) <= 8 * MIB for piece in pieces)


def test_a_stream_over_several_connections_may_be_left_in_the_middle(place: Place, store: Store) -> None:
    store.put(place.at("file"), some_bytes(21 * MIB))

    for _ in range(5):
        with store.open(place.at("file")) as source:
            next(stream_ahead(source))
    assert store.get(place.at("file")) == some_bytes(21 * MIB)


def test_an_empty_object_streams_nothing(place: Place, store: Store) -> None:
    store.put(place.at("empty"), b"")

    with store.open(place.at("empty")) as source:
        assert (source.size, list(source.stream()), list(stream_ahead(source)), source.read_at(0, 5)) == (0, [], [], b"")


def test_a_stream_may_be_left_in_the_middle(place: Place, store: Store) -> None:
    store.put(place.at("file"), some_bytes(9 * MIB))

    for _ in range(30):
        with store.open(place.at("file")) as source:
            stream: Iterator[bytes] = source.stream()
            next(stream)
    assert store.get(place.at("file")) == some_bytes(9 * MIB)


def test_ranges_are_read_by_several_threads(place: Place, store: Store) -> None:
    content = some_bytes(6 * MIB)
    store.put(place.at("file"), content)

    with store.open(place.at("file")) as source, ThreadPoolExecutor(8) as threads:
        offsets = range(0, 6 * MIB, 100_003)
        found = list(threads.map(lambda offset: source.read_at(offset, 100_003), offsets))

    assert b"".join(found) == content


def test_a_deleted_object_is_gone_and_deleting_it_again_is_fine(place: Place, store: Store) -> None:
    store.put(place.at("a/file"), b"x")
    store.delete(place.at("a/file"))
    store.delete(place.at("a/file"))
    store.delete(place.at("never/was"))

    assert store.stat(place.at("a/file")) is None
    assert place.names() == []


def test_the_sweep_removes_what_dead_writers_left_and_only_that(place: Place, store: Store) -> None:
    store.put(place.at("kept"), b"x")
    dead = store.create(place.at("a/dead"))
    dead.write(some_bytes(OF_PARTS))
    assert place.leftovers() == place.sweeps

    # A store's clock can be ahead of ours, so that new uploads appear to come from the future.
    with pytest.MonkeyPatch.context() as yesterday:
        yesterday.setattr(time, "time", lambda: 0.0)
        yesterday.setattr(time, "time_ns", lambda: 0)
        assert place.store().sweep(place.root) == place.sweeps

    assert place.leftovers() == 0
    assert place.names() == ["kept"]
    dead.abort()


def test_a_writer_whose_upload_was_swept_publishes_nothing(place: Place, store: Store) -> None:
    upload = store.create(place.at("file"))
    upload.write(some_bytes(OF_PARTS))
    if place.sweeps:
        await_upload(place)
        await_parts(upload)
    swept = store.sweep(place.root)

    if not place.sweeps:
        assert swept == 0
        return
    with pytest.raises(Exception, match="file"):  # the error depends on the store
        upload.commit(replace=False)
    upload.abort()

    assert place.names() == []
    assert place.leftovers() == 0


@pytest.mark.parametrize("size", [0, 100, OF_PARTS], ids=str)
@pytest.mark.parametrize("is_there", [False, True], ids=["new", "replaced"])
def test_a_staged_upload_is_visible_after_its_commit(place: Place, store: Store, size: int, is_there: bool) -> None:
    if is_there:
        store.put(place.at("file"), b"before")
    upload = store.create(place.at("file"))
    upload.write(some_bytes(size))
    upload.stage()
    assert store.stat(place.at("file")) is None or store.get(place.at("file")) == b"before"

    assert upload.commit(replace=True).size == size
    assert store.get(place.at("file")) == some_bytes(size)
    assert place.names() == ["file"]
    assert place.leftovers() == 0


@pytest.mark.parametrize("is_there", [False, True], ids=["new", "replaced"])
def test_a_staged_upload_that_was_swept_is_never_completed(place: Place, store: Store, is_there: bool) -> None:
    if is_there:
        store.put(place.at("file"), b"before")
    upload = store.create(place.at("file"))
    upload.write(b"late")
    upload.stage()
    assert place.store().sweep(place.root) == place.sweeps
    if not place.sweeps:
        store.put(place.at("file"), b"before")

    # If the object exists, the S3 server of these tests reports success for completing an aborted upload, but changes nothing.
    answers_anyway = is_there and place.root.startswith("s3:")
    with contextlib.nullcontext() if answers_anyway else pytest.raises(Unreachable, match="file.* is gone|are gone"):
        upload.commit(replace=True)
    upload.abort()
    assert place.names() == ["file"] * (is_there or not place.sweeps)
    assert not place.names() or store.get(place.at("file")) == b"before"
    assert place.leftovers() == 0


def test_a_staged_upload_replaces_no_other_object_than_the_one_it_found(place: Place, store: Store) -> None:
    """This applies only to stores that can't sweep, such as Azure, where a commit succeeds only if the object is unchanged."""
    if place.sweeps:
        return
    for change in (lambda: store.put(place.at("file"), b"newer"), lambda: store.delete(place.at("file"))):
        store.put(place.at("file"), b"before")
        upload = store.create(place.at("file"))
        upload.write(b"late")
        upload.stage()
        change()
        with pytest.raises(Unreachable, match="something else was written under this name in the meantime"):
            upload.commit(replace=True)
        upload.abort()
    assert place.names() == []


def test_a_file_is_moved_only_into_a_folder_that_exists(place: Place, store: Store) -> None:
    if not isinstance(store, MovesFiles):
        assert place.root.partition(":")[0] in ("s3", "oss", "gs", "abfs")
        return
    store.put(place.at("file"), b"x")
    with pytest.raises(NotFound):
        store.move(place.at("file"), place.at("a/folder/moved"))
    for _ in range(2):
        store.make_folder(place.at("a/folder"))
    with pytest.raises(NotFound):
        store.move(place.at("absent"), place.at("a/folder/moved"))
    store.move(place.at("file"), place.at("a/folder/moved"))
    assert place.names() == ["a/folder/moved"]

    store.put(place.at("file"), b"y")
    for _ in range(2):
        store.remove_folder(place.at("a"))
    with pytest.raises(NotFound):
        store.move(place.at("file"), place.at("a/folder/moved"))
    assert place.names() == ["file"]
    assert store.get(place.at("file")) == b"y"


def await_upload(place: Place) -> None:
    """Wait until the store has the unfinished upload, which another thread begins."""
    deadline = time.monotonic() + 30
    while place.leftovers() == 0:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def await_parts(upload: Upload) -> None:
    """Wait for all parts. If parts are still being sent during an abort, the upload can survive it, as Amazon documents."""
    parts = getattr(upload, "_parts", None)
    for part in list(parts._pending) if parts is not None else []:
        part.exception(timeout=30)


def test_an_ended_upload_takes_no_more(place: Place, store: Store) -> None:
    upload = store.create(place.at("file"))
    upload.commit(replace=False)

    with pytest.raises(ValueError, match="ended"):
        upload.write(b"more")


@pytest.mark.parametrize("size", [100, OF_PARTS, OF_MORE_PARTS], ids=str)
def test_an_upload_that_was_swept_fails_as_worth_another_attempt(place: Place, store: Store, size: int) -> None:
    content = some_bytes(size)
    upload = store.create(place.at("file"))
    upload.write(content)
    place.store().sweep(place.root)
    try:
        # An upload that fits into one part hasn't begun yet. An upload whose parts are still being sent might succeed anyway.
        upload.commit(replace=False)
    except Unreachable:
        assert store.stat(place.at("file")) is None
        upload.abort()
        again = store.create(place.at("file"))
        again.write(content)
        again.commit(replace=False)

    assert store.get(place.at("file")) == content
    assert place.names() == ["file"]
    assert place.leftovers() == 0
