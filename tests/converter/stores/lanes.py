"""Lanes. A lane is a folder on a store behind a proxy that injects faults. Each store has its own kind of lane."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from tests.converter.stores import small_jobs
from tests.converter.stores.places import Place, azure, files, hdfs, in_folder, webhdfs
from tests.converter.stores.site import serving
from tests.converter.stores.small_jobs import SmallJob

from storeservers import AzureServer, HdfsCluster
from storeservers.faulty import OF_TCP, HttpProxy, Kind, TcpProxy
from storeservers.odps import FakeMaxCompute, rows_of

TYPES = {"x": "bigint", "label": "bigint"}
ROWS = pa.schema({name: pa.int64() for name in TYPES})
STALL_SECONDS, ANSWER_SECONDS = 2.0, 1.5
STALL_SECONDS_OF_PARTS, ANSWER_SECONDS_OF_PARTS = 5.0, 4.0
"""Longer times, for stores whose requests each send up to 5 MiB."""


@dataclass(frozen=True)
class Sink:
    """A table on the fake server. When `_SUCCESS` exists, the table has all of the data set's rows. At any other time, the table has either
    all rows or none."""

    fake: FakeMaxCompute
    uri: str = "odps://p/tables/out"

    def empty(self) -> None:
        self.fake.make("out", TYPES, ROWS)

    def rows(self) -> pa.Table:
        return self.fake.rows("out")


@dataclass(frozen=True)
class Lane:
    """A place behind a proxy, and the job to run there. The default job is `small_jobs.of_parts`.

    If the job also makes a table, `table` is this table.
    """

    name: str
    place: Place
    proxy: HttpProxy | TcpProxy
    kinds: tuple[Kind, ...] = tuple(Kind)
    job: SmallJob | None = None
    table: Sink | None = None
    direct: Place | None = None
    """The same place without the proxy, for checking results. If it is None, results are checked through the proxy."""

    @property
    def seen(self) -> Place:
        return self.direct or self.place


Stretching: TypeAlias = Callable[[pytest.FixtureRequest], AbstractContextManager[Lane]]


def of_objects(name: str, server: str, place: Callable[[pytest.FixtureRequest], Place], *, expired: str) -> Stretching:
    """Lanes to an object store, whose client gets the proxy as its endpoint.

    `server` is the name of a fixture, and `expired` is the error code for an old token.
    """

    @contextmanager
    def lane(request: pytest.FixtureRequest) -> Iterator[Lane]:
        with HttpProxy(request.getfixturevalue(server).port, expired=expired, stall_seconds=STALL_SECONDS_OF_PARTS) as proxy:
            direct = place(request)
            yield Lane(name, at_endpoint(direct, proxy.endpoint), proxy, direct=direct)

    return lane


@contextmanager
def hdfs_lane(request: pytest.FixtureRequest) -> Iterator[Lane]:
    cluster: HdfsCluster = request.getfixturevalue("hdfs_cluster")
    with TcpProxy(cluster.port) as proxy:
        yield Lane("hdfs", at_port(hdfs(request), cluster.port, proxy.port), proxy, OF_TCP)


@contextmanager
def azure_lane(request: pytest.FixtureRequest) -> Iterator[Lane]:
    server: AzureServer = request.getfixturevalue("azure_server")
    # Flipped bits in requests are left out: for a changed body, Azurite returns an error that the real service uses for other cases.
    kinds = tuple(kind for kind in Kind if kind is not Kind.FLIPPED_UP)
    with HttpProxy(server.port, expired="AuthenticationFailed", stall_seconds=STALL_SECONDS_OF_PARTS) as proxy:
        yield Lane("azure", at_endpoint(azure(request), f"{proxy.endpoint}/{server.account}"), proxy, kinds)


@contextmanager
def webhdfs_lane(request: pytest.FixtureRequest) -> Iterator[Lane]:
    cluster: HdfsCluster = request.getfixturevalue("hdfs_cluster")
    with HttpProxy(cluster.http_port, expired="InvalidToken", stall_seconds=STALL_SECONDS) as proxy:
        yield Lane("webhdfs", at_port(webhdfs(request), cluster.http_port, proxy.port), proxy)


@contextmanager
def http_lane(request: pytest.FixtureRequest) -> Iterator[Lane]:
    """Files on a web server, from which a job makes a data set on the local disk."""
    # Flipped bits and expired tokens are left out, because a web server's responses have no checksum, and requests to it have no token.
    kinds = tuple(kind for kind in Kind if kind not in (Kind.FLIPPED, Kind.FLIPPED_UP, Kind.EXPIRED))
    paths = [f"/{number}.csv" for number in range(3)]
    with (
        serving(dict.fromkeys(paths, small_jobs.ROWS.encode())) as site,
        HttpProxy(site.port, expired="", stall_seconds=STALL_SECONDS) as proxy,
    ):
        place = in_folder(request.getfixturevalue("tmp_path_factory").mktemp("web"))
        yield Lane("http", place, proxy, kinds, small_jobs.of_csv(place, *(f"{proxy.endpoint}{path}" for path in paths)))


@contextmanager
def maxcompute_lane(request: pytest.FixtureRequest) -> Iterator[Lane]:
    """A table from which a job makes two outputs: a data set on the local disk, and another table."""
    # Flipped bits in responses are left out, because the service sends a checksum for rows, but not for metadata. Expired tokens are left
    # out, because the proxy's errors don't have the form of the service's errors.
    kinds = tuple(kind for kind in Kind if kind not in (Kind.FLIPPED, Kind.EXPIRED))
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    with FakeMaxCompute() as fake:
        address = urlsplit(fake.tunnel_endpoint)
        with HttpProxy(address.port or 0, expired="", stall_seconds=STALL_SECONDS) as proxy:
            monkeypatch.setenv("ODPS_ENDPOINT", fake.endpoint.replace(address.netloc, f"{proxy.host}:{proxy.port}"))
            monkeypatch.setenv("ODPS_TUNNEL_ENDPOINT", proxy.endpoint)
            monkeypatch.setenv("ODPS_ACCESS_ID", fake.access_id)
            monkeypatch.setenv("ODPS_ACCESS_KEY", fake.secret)
            fake.make("in", TYPES, ROWS)
            fake.fill("in", rows_of(pa.table({"x": range(24), "label": [number % 3 for number in range(24)]}, schema=ROWS)))
            sink = Sink(fake)
            sink.empty()
            place = files(request)
            job = SmallJob(
                place, {"table": {"uris": ["odps://p/tables/in"]}}, output={"format": "arrow", "index": False, "table": {"uri": sink.uri}}
            )
            yield Lane("maxcompute", place, proxy, kinds, job, sink)


def at_endpoint(place: Place, endpoint: str) -> Place:
    return replace(place, settings=replace(place.settings, endpoint=endpoint))


def at_port(place: Place, port: int, other: int) -> Place:
    return replace(place, root=place.root.replace(f":{port}/", f":{other}/"))
