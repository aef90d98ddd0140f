"""Web servers as sources: ranges, pins, and streams that continue where they were cut off. Writing is refused."""

from pathlib import Path

import pytest
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job
from tests.converter.stores.site import Site

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadSpec, InputChanged, NotFound, NotPermitted, StoreError, Unreachable
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.http import HttpStore
from storeservers.faulty import Fault, HttpProxy, Kind


@pytest.fixture
def store() -> HttpStore:
    return HttpStore(StoreSettings(uri_prefix="http://"))


@pytest.mark.parametrize("lacks", ["nothing", "ranges", "head", "tags"])
def test_any_range_is_read_whatever_the_server_lacks(site: Site, store: HttpStore, lacks: str) -> None:
    if lacks != "nothing":
        setattr(site, lacks, False)
    site.files["/big"] = big = bytes(range(256)) * 40_000
    found = store.stat(site.at("/big"))
    assert found is not None
    assert found.size == len(big)
    with store.open(site.at("/big")) as source:
        assert source.pin == found.pin
        assert source.read_at(5_000_001, 1000) == big[5_000_001:5_001_001]
        assert source.read_at(len(big) - 3, 100) == big[-3:]
        assert source.read_at(len(big), 5) == b""
        assert b"".join(source.stream()) == big
        assert b"".join(source.stream(7, 6_000_000)) == big[7:6_000_007]


def test_only_what_was_asked_for_is_sent(site: Site, store: HttpStore) -> None:
    store.open(site.at("/rows.csv")).read_at(4, 3)
    assert site.seen == ["HEAD /rows.csv", "GET /rows.csv bytes=4-6"]


def test_an_address_is_used_as_it_is_written_and_a_redirection_followed(site: Site, store: HttpStore) -> None:
    assert store.get(site.at("/a%20b.csv?key=x")) == b"4,1\n"
    assert store.get(site.at("/moved")) == b"1,0\n2,1\n3,0\n"
    site.files["/%C3%BC%20x"] = b"umlaut"
    assert store.get(site.at("/ü x")) == b"umlaut"


def test_an_empty_file_is_one(site: Site, store: HttpStore) -> None:
    site.files["/empty"] = b""
    with store.open(site.at("/empty")) as source:
        assert (source.size, source.read_at(0, 10), list(source.stream())) == (0, b"", [])


@pytest.mark.parametrize("tags", [True, False], ids=["etag", "last-modified and size"])
def test_a_file_that_is_replaced_is_noticed(site: Site, store: HttpStore, tags: bool) -> None:
    site.tags = tags
    with store.open(site.at("/rows.csv")) as source:
        site.files["/rows.csv"] = b"another content, and longer"
        with pytest.raises(InputChanged, match=r"/rows\.csv has been replaced since it was listed"):
            source.read_at(0, 3)


@pytest.mark.parametrize(("tags", "dates", "has_version"), [(True, False, True), (False, True, True), (False, False, False)])
def test_a_server_that_sends_neither_a_tag_nor_a_date_reports_no_version(
    site: Site, store: HttpStore, tags: bool, dates: bool, has_version: bool
) -> None:
    site.tags, site.dates = tags, dates
    entry = store.stat(site.at("/rows.csv"))
    assert entry is not None
    assert entry.has_version == has_version


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (401, NotPermitted, "isn't permitted: 401"),
        (403, NotPermitted, "isn't permitted: 403"),
        (418, StoreError, "was refused: 418"),
    ],
)
def test_a_refusal_is_named_without_the_query(site: Site, store: HttpStore, status: int, error: type[StoreError], words: str) -> None:
    site.refusals["/a%20b.csv?key=x"] = status
    with pytest.raises(error, match=words) as raised:
        store.open(site.at("/a%20b.csv?key=x"))
    assert "key=x" not in str(raised.value)


def test_what_is_not_there_is_named(site: Site, store: HttpStore) -> None:
    assert store.stat(site.at("/absent")) is None
    with pytest.raises(NotFound, match=r"/absent does not exist"):
        store.open(site.at("/absent"))
    with pytest.raises(NotFound, match="web folders can't be listed: name each file"):
        next(store.list(site.at("/folder")))


def test_a_server_that_tells_no_size_is_named(site: Site, store: HttpStore) -> None:
    site.sizes = site.ranges = False
    with pytest.raises(StoreError, match="doesn't report the file's size"):
        store.open(site.at("/rows.csv"))


def test_a_password_in_an_address_is_refused_and_not_shown(site: Site, store: HttpStore) -> None:
    with pytest.raises(BadSpec, match="must not contain a user and a password") as raised:
        store.open(f"http://me:secret@127.0.0.1:{site.port}/rows.csv")
    assert "secret" not in str(raised.value)


def test_nothing_is_written(site: Site, store: HttpStore) -> None:
    for writing in (
        lambda: store.put(site.at("/x"), b""),
        lambda: store.create(site.at("/x")),
        lambda: store.delete(site.at("/rows.csv")),
        lambda: store.sweep(site.at("/")),
    ):
        with pytest.raises(BadSpec, match="nothing can be written to the web"):
            writing()
    assert site.seen == []


def test_a_host_that_does_not_listen_is_named(store: HttpStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataprep_converter.stores.http.retrying", lambda call, **_: call())
    with pytest.raises(Unreachable, match=r"cannot connect to 127\.0\.0\.1:1, or the connection broke at http://127\.0\.0\.1:1/x"):
        store.stat("http://127.0.0.1:1/x")


@pytest.mark.parametrize("kind", [Kind.RESET, Kind.LOST, Kind.FAILED, Kind.BUSY, Kind.TOO_MANY, Kind.TRUNCATED, Kind.SLOW])
def test_a_bad_day_changes_no_byte(site: Site, store: HttpStore, kind: Kind) -> None:
    site.files["/big"] = big = bytes(range(256)) * 40_000
    with HttpProxy(site.port, expired="none") as proxy:
        uri = f"http://127.0.0.1:{proxy.port}/big"
        proxy.arm([Fault(2, kind), Fault(4, kind)])
        with store.open(uri) as source:
            assert b"".join(source.stream()) == big
            assert source.read_at(3, 5) == big[3:8]
        assert [fault.kind for fault in proxy.hits] == [kind] * len(proxy.hits) != []


def a_job(source: str, output: str) -> DataPrepJob:
    columns = [{"name": "x", "type": "Int64"}, {"name": "label", "type": "Int64"}]
    spec = {"source": {"csv": {"uris": [source], "columns": columns}}, "output": {"uri": output}}
    return parse_job(spec, name="web")


def test_a_job_reads_from_the_web(site: Site, tmp_path: Path) -> None:
    made = run_job(a_job(site.at("/rows.csv"), str(tmp_path / "out")))[1]
    assert made.records.out == 3


def test_a_job_that_writes_to_the_web_is_refused_at_once(site: Site) -> None:
    with pytest.raises(BadSpec, match="nothing can be written to the web; http:// and https:// are for sources"):
        run_job(a_job(site.at("/rows.csv"), site.at("/out")))
