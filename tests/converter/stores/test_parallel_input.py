"""Objects that are read over several connections. The objects are fakes, which are in memory and count the requests for ranges."""

from collections.abc import Iterator

import pytest

from dataprep_converter.stores import Entry
from dataprep_converter.stores.ranged import AHEAD_BYTES, ParallelInput

CONTENT = bytes(range(256)) * (3 * AHEAD_BYTES // 256) + b"end"


class FakeInput(ParallelInput):
    step = 1 << 20

    def __init__(self, *, is_limited: bool) -> None:
        super().__init__(Entry("s3://bucket/object", len(CONTENT), "pin"), is_limited=is_limited)
        self.ranges = 0
        self.streams = 0

    def read_at(self, offset: int, length: int) -> bytes:
        self.ranges += 1
        return CONTENT[offset : offset + length]

    def _pieces(self, offset: int, end: int) -> Iterator[bytes]:
        self.streams += 1
        yield CONTENT[offset:end]


@pytest.mark.parametrize(("is_limited", "ranges", "streams"), [(False, 4, 0), (True, 0, 1)], ids=["no limit", "requestsPerSecond"])
def test_a_store_with_a_limit_of_requests_gets_one_request(is_limited: bool, ranges: int, streams: int) -> None:
    source = FakeInput(is_limited=is_limited)
    assert b"".join(source.stream_ahead()) == CONTENT
    assert (source.ranges, source.streams) == (ranges, streams)
