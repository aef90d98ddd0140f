"""Seeded faults between the converter and real servers: the data set is byte for byte the same, or the job says why not and nothing half is seen.

20 seeds of S3 and OSS in CI, 8 of HDFS, where closing a file takes half a second, and 4 of the others; `make faults SEEDS=300` runs as many of
each and writes docs/faults.md.
"""

import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from tests.stores import fault_report, small_jobs
from tests.stores.places import Place, azure, files, gcs, hdfs, oss, s3, webhdfs
from tests.stores.site import serving
from tests.stores.small_jobs import SmallJob, Whole, assert_nothing_broken, assert_whole

from dataprep_api.reasons import Reason
from dataprep_converter import working as converter_working
from dataprep_converter.access import Access
from dataprep_converter.errors import ConvertError
from dataprep_converter.retrying import Patience
from dataprep_converter.stores import preflight
from storeservers import AzureServer, FakeGcs, FakeOss, HdfsCluster, S3Server
from storeservers.faulty import OF_TCP, Fault, HttpProxy, Kind, TcpProxy
from storeservers.odps import FakeMaxCompute, rows_of

pytestmark = pytest.mark.store

_SEEDS_IN_CI = {"s3": 20, "oss": 20, "hdfs": 8, "webhdfs": 4, "azure": 4, "gcs": 4, "http": 8, "maxcompute": 8}
_TYPES = {"x": "bigint", "label": "bigint"}
_ROWS = pa.schema({name: pa.int64() for name in _TYPES})
_MOST_FAULTS = 6
_STALL_SECONDS = 2.0
_ANSWER_SECONDS = 1.5


@dataclass(frozen=True)
class Sink:
    """A table of the fake that holds the rows of the data set when its `_SUCCESS` is there, and no rows or all of them at any time."""

    fake: FakeMaxCompute
    uri: str = "odps://p/tables/out"

    def empty(self) -> None:
        self.fake.make("out", _TYPES, _ROWS)

    def rows(self) -> pa.Table:
        return self.fake.rows("out")


@dataclass(frozen=True)
class Stretch:
    """A place behind a proxy, with a job that was done there once."""

    name: str
    proxy: HttpProxy | TcpProxy
    place: Place
    job: SmallJob
    expected: Whole
    requests: int
    """How many a whole life makes."""
    kinds: tuple[Kind, ...]
    table: "Sink | None" = None
    """The table to which the job writes, too."""

    def faults(self, seed: int) -> list[Fault]:
        """One to six, anywhere in the life."""
        chosen = random.Random(f"{self.name}-{seed}")  # noqa: S311 - the same faults each time
        numbers = chosen.sample(range(1, self.requests + 1), chosen.randint(1, min(_MOST_FAULTS, self.requests)))
        return [Fault(number, chosen.choice(self.kinds)) for number in sorted(numbers)]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of seconds that are minutes otherwise."""
    from dataprep_converter import maxcompute
    from dataprep_converter.stores import http, objects, store_requests
    from dataprep_converter.stores import oss as oss_store

    # Not WebHDFS: a NameNode that has just begun takes seconds for its first answer, and the proxy ends a stall by a reset.
    for module in (oss_store, objects, store_requests, http):
        monkeypatch.setattr(module, "ANSWER_SECONDS", _ANSWER_SECONDS)
    # pyodps takes whole seconds.
    monkeypatch.setattr(maxcompute, "ANSWER_SECONDS", int(_ANSWER_SECONDS))
    monkeypatch.setattr(converter_working, "_SHARD_PATIENCE", Patience(attempts=3, first_delay_seconds=0.01))
    monkeypatch.setattr(preflight, "_RETRY_SECONDS", 30.0)


def stretch(
    name: str, place: Place, proxy: HttpProxy | TcpProxy, kinds: tuple[Kind, ...], job: SmallJob | None = None, table: Sink | None = None
) -> Stretch:
    job = job or small_jobs.of_rows(place)
    small_jobs.live(job.to("whole"), Access([place.settings]))
    proxy.arm()
    if table is not None:
        table.empty()
    small_jobs.live(job.to("counted"), Access([place.settings]))
    return Stretch(name, proxy, place, job, small_jobs.whole(place, "whole"), proxy.count, kinds, table)


@pytest.fixture
def s3_stretch(s3_server: S3Server, request: pytest.FixtureRequest) -> Iterator[Stretch]:
    with HttpProxy(s3_server.port, expired="ExpiredToken", stall_seconds=_STALL_SECONDS) as proxy:
        place = s3(request)
        yield stretch("s3", replace(place, settings=replace(place.settings, endpoint=proxy.endpoint)), proxy, tuple(Kind))


@pytest.fixture
def oss_stretch(oss_fake: FakeOss, request: pytest.FixtureRequest) -> Iterator[Stretch]:
    with HttpProxy(oss_fake.port, expired="SecurityTokenExpired", stall_seconds=_STALL_SECONDS) as proxy:
        place = oss(request)
        yield stretch("oss", replace(place, settings=replace(place.settings, endpoint=proxy.endpoint)), proxy, tuple(Kind))


@pytest.fixture
def hdfs_stretch(hdfs_cluster: HdfsCluster, request: pytest.FixtureRequest) -> Iterator[Stretch]:
    with TcpProxy(hdfs_cluster.port) as proxy:
        place = hdfs(request)
        yield stretch("hdfs", replace(place, root=place.root.replace(f":{hdfs_cluster.port}/", f":{proxy.port}/")), proxy, OF_TCP)


@pytest.fixture
def azure_stretch(azure_server: AzureServer, request: pytest.FixtureRequest) -> Iterator[Stretch]:
    # Azurite tells of a body that was changed on its way in words that the service uses for other things.
    kinds = tuple(kind for kind in Kind if kind is not Kind.FLIPPED_UP)
    with HttpProxy(azure_server.port, expired="AuthenticationFailed", stall_seconds=_STALL_SECONDS) as proxy:
        place = azure(request)
        settings = replace(place.settings, endpoint=f"{proxy.endpoint}/{azure_server.account}")
        yield stretch("azure", replace(place, settings=settings), proxy, kinds)


@pytest.fixture
def gcs_stretch(gcs_fake: FakeGcs, request: pytest.FixtureRequest) -> Iterator[Stretch]:
    with HttpProxy(gcs_fake.port, expired="InvalidSecurity", stall_seconds=_STALL_SECONDS) as proxy:
        place = gcs(request)
        yield stretch("gcs", replace(place, settings=replace(place.settings, endpoint=proxy.endpoint)), proxy, tuple(Kind))


@pytest.fixture
def webhdfs_stretch(hdfs_cluster: HdfsCluster, request: pytest.FixtureRequest) -> Iterator[Stretch]:
    with HttpProxy(hdfs_cluster.http_port, expired="InvalidToken", stall_seconds=_STALL_SECONDS) as proxy:
        place = webhdfs(request)
        yield stretch(
            "webhdfs", replace(place, root=place.root.replace(f":{hdfs_cluster.http_port}/", f":{proxy.port}/")), proxy, tuple(Kind)
        )


@pytest.fixture
def http_stretch(request: pytest.FixtureRequest) -> Iterator[Stretch]:
    """Files of the web, made into a data set on this machine."""
    # Answers of the web have no checksum, and there is no token.
    kinds = tuple(kind for kind in Kind if kind not in (Kind.FLIPPED, Kind.FLIPPED_UP, Kind.EXPIRED))
    paths = [f"/{number}.csv" for number in range(3)]
    with (
        serving(dict.fromkeys(paths, small_jobs.ROWS.encode())) as site,
        HttpProxy(site.port, expired="", stall_seconds=_STALL_SECONDS) as proxy,
    ):
        place = files(request)
        yield stretch("http", place, proxy, kinds, small_jobs.of_csv(place, *(f"{proxy.endpoint}{path}" for path in paths)))


@pytest.fixture
def maxcompute_stretch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stretch]:
    """A table that becomes a data set on this machine and another table."""
    # What the service tells of a table has no checksum; its rows have. Its refusals look otherwise than those that the proxy makes.
    kinds = tuple(kind for kind in Kind if kind not in (Kind.FLIPPED, Kind.EXPIRED))
    with FakeMaxCompute() as fake:
        address = urlsplit(fake.tunnel_endpoint)
        with HttpProxy(address.port or 0, expired="", stall_seconds=_STALL_SECONDS) as proxy:
            monkeypatch.setenv("ODPS_ENDPOINT", fake.endpoint.replace(address.netloc, f"{proxy.host}:{proxy.port}"))
            monkeypatch.setenv("ODPS_TUNNEL_ENDPOINT", proxy.endpoint)
            monkeypatch.setenv("ODPS_ACCESS_ID", fake.access_id)
            monkeypatch.setenv("ODPS_ACCESS_KEY", fake.secret)
            fake.make("in", _TYPES, _ROWS)
            fake.fill("in", rows_of(pa.table({"x": range(24), "label": [number % 3 for number in range(24)]}, schema=_ROWS)))
            sink = Sink(fake)
            sink.empty()
            place = files(request)
            job = SmallJob(
                place, {"table": {"uris": ["odps://p/tables/in"]}}, output={"format": "arrow", "index": False, "table": {"uri": sink.uri}}
            )
            yield stretch("maxcompute", place, proxy, kinds, job, sink)


_STRETCHES = ("s3", "oss", "hdfs", "webhdfs", "azure", "gcs", "http", "maxcompute")


@pytest.fixture(params=[f"{name}_stretch" for name in _STRETCHES], ids=_STRETCHES)
def a_stretch(request: pytest.FixtureRequest) -> Stretch:
    found: Stretch = request.getfixturevalue(request.param)
    return found


def test_faults_change_no_byte_or_are_named(a_stretch: Stretch) -> None:
    place, job, expected = a_stretch.place, a_stretch.job, a_stretch.expected
    outcomes: list[fault_report.Outcome] = []
    seeds = int(os.environ.get("SEEDS", _SEEDS_IN_CI[a_stretch.name]))
    for seed in range(seeds):
        output = f"seed-{seed}"
        if a_stretch.table is not None:
            a_stretch.table.empty()
        a_stretch.proxy.arm(a_stretch.faults(seed))
        reason = None
        try:
            small_jobs.live(job.to(output), Access([place.settings]))
        except ConvertError as exc:
            true = {Reason.STORE_UNREACHABLE} | {Reason.BAD_CREDENTIALS for fault in a_stretch.proxy.hits if fault.kind is Kind.EXPIRED}
            if exc.reason not in true:
                raise AssertionError(f"{a_stretch.name}, seed {seed}: not the reason, after {a_stretch.proxy.hits}") from exc
            reason = exc.reason
        outcomes.append(fault_report.Outcome(a_stretch.proxy.hits, reason))
        a_stretch.proxy.arm()
        try:
            assert_nothing_broken(place, output, expected)
            if a_stretch.table is not None:
                assert len(a_stretch.table.rows()) in ((0, small_jobs.RECORDS) if reason is not None else (small_jobs.RECORDS,))
            if reason is None:
                assert small_jobs.whole(place, output).visible == expected.visible
            small_jobs.live(job.to(output), Access([place.settings]))
            assert_whole(place, output, expected)
            if a_stretch.table is not None:
                assert len(a_stretch.table.rows()) == small_jobs.RECORDS
        except AssertionError as exc:
            raise AssertionError(f"{a_stretch.name}, seed {seed}, after {outcomes[-1]}") from exc
        fault_report.note(a_stretch.name, outcomes)
    hit = Counter(fault.kind for outcome in outcomes for fault in outcome.hits)
    assert seeds < 20 or len(hit) >= min(8, len(a_stretch.kinds))
