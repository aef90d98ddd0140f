"""Memory during faults. Requests that are retried, resumed or restarted leave nothing in memory, including the buffers of native clients.

A separate process writes and reads a file, behind the proxies of test_faults or while HDFS servers die, and reports by how much its memory
grew. The test for OSS is in test_oss_faults.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pytest
from tests.builders import pairs
from tests.converter.stores.lanes import Stretching, azure_lane, hdfs_lane, maxcompute_lane, of_objects, webhdfs_lane
from tests.converter.stores.places import Place, gcs, hdfs, s3, webhdfs
from tests.converter.stores.site import serving

from dataprep_api.spec import HdfsOptions
from dataprep_converter.core.errors import Unreachable
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.maxcompute import Table
from dataprep_converter.runtime.retry import RetryPolicy, retrying
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.objects import objects
from storeservers import HdfsCluster
from storeservers.faulty import OF_TCP, Fault, HttpProxy, Kind
from storeservers.processes import wait_until

pytestmark = [pytest.mark.store, pytest.mark.disk]

MIB = 1 << 20
PIECES = 64
"""The number of pieces in the file, each 1 MiB long."""
_ATTEMPTS = 4
_ATTEMPTS_OF_THE_DEAD, _DELAY_SECONDS = 12, 0.5
"""Enough attempts for a killed DataNode to restart."""
_STATUS = Path("/proc/self/status")
_KINDS = (Kind.RESET, Kind.LOST, Kind.BUSY, Kind.FAILED_LATE, Kind.TRUNCATED)
COLUMNS = ("x", "label")
ROWS_OF_A_BLOCK = MIB // 16
"""The number of rows in a 1 MiB block."""
_HDFS = HdfsOptions(block_size="1Mi")
"""Small blocks, so that the client sends many requests to the NameNode."""


@dataclass(frozen=True)
class Course:
    """The faults in a lane (see lanes.py), and the numbers of the requests that they hit."""

    lane: Stretching
    kinds: Sequence[Kind]
    writing: Sequence[int]
    reading: Sequence[int]


def of_requests(lane: Stretching) -> Course:
    """Return the faults for an object store, whose client sends a request for each piece."""
    return Course(lane, _KINDS, writing=range(3, 13, 2), reading=range(2, 7))


COURSES = {
    "s3": of_requests(of_objects("s3", "s3_server", s3, expired="")),
    "gcs": of_requests(of_objects("gcs", "gcs_fake", gcs, expired="")),
    "azure": of_requests(azure_lane),
    # Only HDFS's NameNode is behind the proxy, not its DataNodes.
    "hdfs": Course(hdfs_lane, OF_TCP, writing=range(9, 49, 10), reading=range(2, 10, 2)),
    "webhdfs": Course(webhdfs_lane, _KINDS, writing=range(2, 7), reading=range(1, 6)),
}


AT_NIGHT = ("gcs", "azure", "webhdfs")
"""The stores that are tested only at night.

Uploads and streams of the first two use S3's code. WebHDFS sends and reads files with plain requests, and the store for the web reads files
in the same way.
"""


@pytest.fixture
def child() -> Iterator[ProcessPoolExecutor]:
    """Yield a process in which neither the servers nor the proxy run."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as child:
        yield child


def begin() -> None:
    """Make uploads use the smallest parts that S3 accepts, so that 64 MiB have many parts, and shorten the pauses between retries."""
    patch = pytest.MonkeyPatch()
    patch.setattr(objects, "part_bytes_for", lambda _: 5 * MIB)
    patch.setattr(RetryPolicy, "delay", lambda *_: 0.02)


def grown(work: Callable[[], object]) -> int:
    """Call `work`. Return the number of bytes by which the process's memory grew at its peak."""
    # Reset the peak to the current value.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = kibibytes("VmRSS")
    work()
    return (kibibytes("VmHWM") - before) << 10


def kibibytes(name: str) -> int:
    """Return the value of a line in this process's status, in KiB."""
    found = re.search(rf"{name}:\s+(\d+)", _STATUS.read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1])


def written(uri: str, settings: StoreSettings, pieces: int, half_way: Path | None = None) -> int:
    """Write the file. If the upload fails, start again, like a worker. Return the memory growth."""
    store, piece = Access([settings]).store(uri), bytes(range(256)) * (MIB >> 8)

    def write() -> None:
        upload = store.create(uri, hdfs=_HDFS)
        try:
            for number in range(pieces):
                if number == pieces // 2:
                    wait_for_what_is_done(half_way)
                upload.write(piece)
            upload.commit(replace=True)
        except Unreachable:
            upload.abort()
            raise

    return grown(lambda: again_and_again(write, _ATTEMPTS if half_way is None else _ATTEMPTS_OF_THE_DEAD))


def read(uri: str, settings: StoreSettings, pieces: int, half_way: Path | None = None, *, reads: int = 2) -> int:
    """Read the file as a stream, several times. Return the memory growth."""

    def whole() -> None:
        with Access([settings]).store(uri).open(uri) as source:
            size = 0
            for piece in source.stream():
                size += len(piece)
                if size >= pieces * MIB // 2:
                    wait_for_what_is_done(half_way)
            assert size == pieces * MIB

    def often() -> None:
        for _ in range(reads):
            again_and_again(whole, 1 if half_way is None else _ATTEMPTS_OF_THE_DEAD)

    return grown(often)


def again_and_again(work: Callable[[], None], attempts: int) -> None:
    """Call `work` until it succeeds, but at most `attempts` times. Each call starts from the beginning, as in a worker."""
    for number in range(attempts):
        time.sleep(_DELAY_SECONDS * number)
        try:
            work()
        except Unreachable as exc:
            last = exc
        else:
            return
    raise AssertionError(f"{attempts} times without success: {last}")


def rows_written(uri: str, blocks: int) -> int:
    """Write a table block by block, and repeat blocks that fail. Return the memory growth."""
    block = pa.RecordBatch.from_pydict({name: pa.array(range(ROWS_OF_A_BLOCK)) for name in COLUMNS})

    def write() -> None:
        upload = Table(uri, Access()).upload()
        for number in range(blocks):
            retrying(lambda number=number: upload.put(number, [block]), what=uri)  # type: ignore[misc] # mypy can't infer a lambda with a default
        retrying(lambda: upload.commit(set(range(blocks))), what=uri)

    return grown(write)


def rows_read(uri: str, blocks: int) -> int:
    """Read the table in slices of one block, and repeat slices that fail. Return the memory growth."""

    def whole() -> None:
        session = Table(uri, Access()).session()
        assert session.count == blocks * ROWS_OF_A_BLOCK
        for number in range(blocks):

            def attempt(start: int = number * ROWS_OF_A_BLOCK) -> int:
                return sum(batch.num_rows for batch in session.batches(start, ROWS_OF_A_BLOCK, COLUMNS))

            assert retrying(attempt, what=uri) == ROWS_OF_A_BLOCK

    return grown(whole)


def wait_for_what_is_done(half_way: Path | None) -> None:
    """Tell the test that half of the work is done, and wait until the test has reacted."""
    if half_way is not None:
        half_way.touch()
        wait_until(half_way.with_suffix(".done").exists, seconds=60, what="what is done half-way")


def warm(child: ProcessPoolExecutor, uri: str, settings: StoreSettings) -> None:
    """Write and read a small file first, so that modules and threads that are loaded on first use don't count as growth."""
    child.submit(begin).result()
    child.submit(written, f"{uri}-not", settings, 12).result()
    child.submit(read, f"{uri}-not", settings, 12).result()


def is_by_day(name: str, reads: int) -> bool:
    """Return whether a case is in the quick run.

    The faults hit consecutive requests, so they all happen in the first two reads. Only on HDFS, they are spread over more reads.
    """
    return name not in AT_NIGHT and reads == (5 if name == "hdfs" else 2)


@pytest.mark.parametrize(
    ("name", "reads"), pairs.chosen(((name, reads) for name in COURSES for reads in (2, 5) if name != "hdfs" or reads == 5), is_by_day)
)
def test_faults_make_nothing_pile_up_in_memory(request: pytest.FixtureRequest, child: ProcessPoolExecutor, name: str, reads: int) -> None:
    course = COURSES[name]
    with course.lane(request) as lane:
        uri, settings, proxy = lane.place.at("large"), lane.place.settings, lane.proxy
        warm(child, uri, settings)
        proxy.arm([Fault(number, kind) for number, kind in zip(course.writing, course.kinds, strict=True)])
        by_writing = child.submit(written, uri, settings, PIECES).result()
        hits = [fault.kind for fault in proxy.hits]
        proxy.arm([Fault(number, kind) for number, kind in zip(course.reading, reversed(course.kinds), strict=True)])
        by_reading = child.submit(read, uri, settings, PIECES, reads=reads).result()
        hits += [fault.kind for fault in proxy.hits]
    assert hits == [*course.kinds, *reversed(course.kinds)]
    # The file is 64 MiB long. Four parts of 5 MiB are being sent while the next one fills.
    assert by_writing < 40 * MIB
    assert by_reading < 32 * MIB


def test_faults_of_the_web_make_nothing_pile_up_in_memory(child: ProcessPoolExecutor) -> None:
    settings = StoreSettings(uri_prefix="http://")
    with serving({"/large": bytes(PIECES * MIB), "/small": bytes(12 * MIB)}) as site, HttpProxy(site.port, expired="") as proxy:
        child.submit(read, f"{proxy.endpoint}/small", settings, 12).result()
        proxy.arm([Fault(number, kind) for number, kind in enumerate(_KINDS, start=2)])
        by_reading = child.submit(read, f"{proxy.endpoint}/large", settings, PIECES).result()
        hits = [fault.kind for fault in proxy.hits]
    assert hits == [*_KINDS]
    assert by_reading < 32 * MIB


def test_faults_of_maxcompute_make_nothing_pile_up_in_memory(request: pytest.FixtureRequest, child: ProcessPoolExecutor) -> None:
    with maxcompute_lane(request) as lane:
        assert lane.table is not None
        fake, proxy = lane.table.fake, lane.proxy
        for name in ("small", "large"):
            fake.make(name, dict.fromkeys(COLUMNS, "bigint"), pa.schema({column: pa.int64() for column in COLUMNS}))
        child.submit(begin).result()
        small, large = (f"odps://p/tables/{name}" for name in ("small", "large"))
        child.submit(rows_written, small, 4).result()
        child.submit(rows_read, small, 4).result()
        proxy.arm([Fault(number, kind) for number, kind in enumerate(_KINDS, start=5)])
        by_writing = child.submit(rows_written, large, PIECES).result()
        hits = [fault.kind for fault in proxy.hits]
        proxy.arm([Fault(number, kind) for number, kind in enumerate(reversed(_KINDS), start=5)])
        by_reading = child.submit(rows_read, large, PIECES).result()
        hits += [fault.kind for fault in proxy.hits]
        assert len(fake.rows("large")) == PIECES * ROWS_OF_A_BLOCK
    assert hits == [*_KINDS, *reversed(_KINDS)]
    assert by_writing < 32 * MIB
    assert by_reading < 32 * MIB


# The death of a DataNode is a fault like any other, and the tests above cover the faults of HDFS.
@pytest.mark.nightly
@pytest.mark.parametrize("made", [hdfs, webhdfs])
def test_datanodes_that_die_make_nothing_pile_up_in_memory(
    request: pytest.FixtureRequest, child: ProcessPoolExecutor, hdfs_cluster: HdfsCluster, tmp_path: Path, made: Callable[..., Place]
) -> None:
    place = made(request)
    uri = place.at("large")
    warm(child, uri, place.settings)
    grown = []
    for number, work in enumerate((written, read)):
        half_way = tmp_path / work.__name__
        working = child.submit(work, uri, place.settings, PIECES, half_way)
        wait_until(half_way.exists, seconds=60, what="half of the way")
        hdfs_cluster.kill_datanode(number)
        half_way.with_suffix(".done").touch()
        hdfs_cluster.start_missing()
        grown.append(working.result())
    by_writing, by_reading = grown
    assert by_writing < 40 * MIB
    assert by_reading < 32 * MIB
