"""The web as a source: ranges, pins, retries at the cursor; and nothing is ever written there."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.stores.loopback import Quiet, served

from dataprep_api.job import DataPrepJob
from dataprep_converter.access import Access
from dataprep_converter.display import Display
from dataprep_converter.errors import BadSpec, InputChanged, NotFound, NotPermitted, StoreError, Unreachable
from dataprep_converter.run import run
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.http import HttpStore
from storeservers.faulty import Fault, HttpProxy, Kind


@dataclass
class Site:
    """A small web server. What it can and what it serves may be changed at any time."""

    files: dict[str, bytes] = field(default_factory=dict)
    tags: bool = True
    ranges: bool = True
    head: bool = True
    sizes: bool = True
    refusals: dict[str, int] = field(default_factory=dict)
    """Path → the status that it is refused with."""
    seen: list[str] = field(default_factory=list)
    """`METHOD path range` of each request."""
    port: int = 0

    def at(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


class _Handler(Quiet):
    site: Site
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:  # noqa: N802 - the base class's name
        self._answer(with_body=False)

    def do_GET(self) -> None:  # noqa: N802 - the base class's name
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        site = self.site
        site.seen.append(f"{self.command} {self.path} {self.headers.get('Range', '')}".strip())
        content = site.files.get(self.path)
        status = site.refusals.get(self.path, 200 if content is not None else 404)
        if not with_body and not site.head:
            status = 405
        if self.path == "/moved":
            self._send(302, b"", {"Location": "/rows.csv"}, with_body)
            return
        if status != 200 or content is None:
            self._send(status, b"no", {}, with_body)
            return
        headers = {"ETag": f'"{hash(content)}"'} if site.tags else {"Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if asked and site.ranges:
            first, last = int(asked[1]), min(int(asked[2]), len(content) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
            self._send(206, content[first : last + 1], headers, with_body)
        else:
            self._send(200, content, headers, with_body)

    def _send(self, status: int, body: bytes, headers: dict[str, str], with_body: bool) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.site.sizes:
            self.send_header("Content-Length", str(len(body)))
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        if with_body:
            self.wfile.write(body)


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site({"/rows.csv": b"1,0\n2,1\n3,0\n", "/a%20b.csv?key=x": b"4,1\n"})
    with served(type("Handler", (_Handler,), {"site": made})) as made.port:
        yield made


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
        with pytest.raises(InputChanged, match=r"/rows\.csv was replaced since it was listed"):
            source.read_at(0, 3)


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (401, NotPermitted, "may not be read: 401"),
        (403, NotPermitted, "may not be read: 403"),
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
    with pytest.raises(NotFound, match="no folder of the web can be listed: name each file"):
        next(store.list(site.at("/folder")))


def test_a_server_that_tells_no_size_is_named(site: Site, store: HttpStore) -> None:
    site.sizes = site.ranges = False
    with pytest.raises(StoreError, match="doesn't tell how large it is"):
        store.open(site.at("/rows.csv"))


def test_a_password_in_an_address_is_refused_and_not_shown(site: Site, store: HttpStore) -> None:
    with pytest.raises(BadSpec, match="can't hold a user and a password") as raised:
        store.open(f"http://me:secret@127.0.0.1:{site.port}/rows.csv")
    assert "secret" not in str(raised.value)


def test_nothing_is_written(site: Site, store: HttpStore) -> None:
    for writing in (
        lambda: store.put(site.at("/x"), b""),
        lambda: store.create(site.at("/x")),
        lambda: store.delete(site.at("/rows.csv")),
        lambda: store.sweep(site.at("/"), older_than_seconds=0),
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
    return DataPrepJob.parse({"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "web"}, "spec": spec})


def test_a_job_reads_from_the_web(site: Site, tmp_path: Path) -> None:
    made = run(a_job(site.at("/rows.csv"), str(tmp_path / "out")), access=Access(), workers=1, display=Display(quiet=True))[1]
    assert made.records.out == 3


def test_a_job_that_writes_to_the_web_is_refused_at_once(site: Site) -> None:
    with pytest.raises(BadSpec, match="nothing can be written to the web; http:// and https:// are for sources"):
        run(a_job(site.at("/rows.csv"), site.at("/out")), access=Access(), workers=1, display=Display(quiet=True))
