"""Memory while requests go wrong: what is tried again, resumed or begun anew leaves nothing behind in the process, native clients' buffers included. OSS's is in test_oss_faults.

A process of its own writes and reads a file, behind the proxies of test_faults, and tells by how much it grew.
"""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from tests.stores.places import gcs, s3
from tests.stores.test_faults import of_objects

from dataprep_converter.access import Access
from dataprep_converter.errors import Unreachable
from dataprep_converter.stores import StoreSettings, objects
from storeservers.faulty import Fault, Kind

pytestmark = pytest.mark.store

MIB = 1 << 20
PIECES = 64
"""Of a MiB each."""
_ATTEMPTS = 4
_STATUS = Path("/proc/self/status")

LANES = {
    "s3": of_objects("s3", "s3_server", s3, expired=""),
    "gcs": of_objects("gcs", "gcs_fake", gcs, expired=""),
}
KINDS = [Kind.RESET, Kind.LOST, Kind.BUSY, Kind.FAILED_LATE, Kind.TRUNCATED]


@pytest.fixture
def child() -> Iterator[ProcessPoolExecutor]:
    """A process that has no part in the servers, nor in the proxy."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as child:
        yield child


def begin() -> None:
    """Uploads go in the smallest parts that S3 takes, so that 64 MiB are many."""
    pytest.MonkeyPatch().setattr(objects, "part_bytes_for", lambda _: 5 * MIB)


def grown(work: Callable[[], None]) -> int:
    """By how many bytes the process was larger at its largest."""
    # Sets the peak back to what there is now.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = kibibytes("VmRSS")
    work()
    return (kibibytes("VmHWM") - before) << 10


def kibibytes(name: str) -> int:
    """A line of this process's status."""
    found = re.search(rf"{name}:\s+(\d+)", _STATUS.read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1])


def written(uri: str, settings: StoreSettings, pieces: int) -> int:
    """Writes the file, and again when it can't be gone on with, as a worker does."""
    store, piece = Access([settings]).store(uri), bytes(range(256)) * (MIB >> 8)

    def write() -> None:
        for _ in range(_ATTEMPTS):
            upload = store.create(uri)
            try:
                for _ in range(pieces):
                    upload.write(piece)
                upload.commit(replace=True)
            except Unreachable:
                upload.abort()
            else:
                return
        raise AssertionError(f"{uri}: {_ATTEMPTS} times in vain")

    return grown(write)


def read(uri: str, settings: StoreSettings, pieces: int) -> int:
    """Reads it as a stream."""

    def whole() -> None:
        with Access([settings]).store(uri).open(uri) as source:
            assert sum(len(each) for each in source.stream()) == pieces * MIB

    return grown(whole)


@pytest.mark.parametrize("name", LANES)
def test_faults_make_nothing_pile_up_in_memory(request: pytest.FixtureRequest, child: ProcessPoolExecutor, name: str) -> None:
    with LANES[name](request) as lane:
        uri, settings, proxy = lane.place.at("large"), lane.place.settings, lane.proxy
        child.submit(begin).result()
        # Once in small, for the modules and threads that stay.
        child.submit(written, f"{uri}-not", settings, 12).result()
        child.submit(read, f"{uri}-not", settings, 12).result()

        proxy.arm([Fault(3 + 2 * number, kind) for number, kind in enumerate(KINDS)])
        by_writing = child.submit(written, uri, settings, PIECES).result()
        hits = [fault.kind for fault in proxy.hits]
        proxy.arm([Fault(2 + number, kind) for number, kind in enumerate(reversed(KINDS))])
        by_reading = child.submit(read, uri, settings, PIECES).result()
        hits += [fault.kind for fault in proxy.hits]
    assert hits == [*KINDS, *reversed(KINDS)]
    # Of 64 MiB. Four parts of 5 MiB are under way while the next one fills.
    assert by_writing < 40 * MIB
    assert by_reading < 32 * MIB
