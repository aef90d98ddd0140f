"""Read records back: every fault is found and reported with its offset, regardless of how the file is cut into pieces."""

import gzip
import struct
import tracemalloc
from collections.abc import Iterator

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep_converter.core.errors import BrokenRecord, NotWhole
from dataprep_converter.core.framing import frame
from dataprep_converter.formats.tfrecord import records

pytestmark = pytest.mark.usefixtures("native_and_python")

PAYLOADS = [b"first", b"", b"x" * 300, *(bytes([n]) * 40 for n in range(30)), b"last"]
FILE = b"".join(map(frame, PAYLOADS))


def offsets() -> list[int]:
    starts = [0]
    for payload in PAYLOADS:
        starts.append(starts[-1] + len(payload) + 16)
    return starts


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def broken(data: bytes, *, compression: str = "none") -> tuple[int, BrokenRecord]:
    """Return the number of good records before the fault, and the fault."""
    good: list[bytes] = []
    with pytest.raises(BrokenRecord) as caught:
        good.extend(payload for _, payload in records.read(pieces(data, 97), compression=compression))
    return len(good), caught.value


def test_a_frame_has_the_crc_of_another_implementation() -> None:
    def masked(data: bytes) -> int:
        crc = int(google_crc32c.value(data))
        return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

    length = struct.pack("<Q", 9)
    assert google_crc32c.value(b"123456789") == 0xE3069283
    assert frame(b"123456789") == length + struct.pack("<I", masked(length)) + b"123456789" + struct.pack("<I", masked(b"123456789"))


@pytest.mark.parametrize("size", [1, 7, 56, 1000, 1 << 20])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_all_records_come_with_their_offsets(size: int, compression: str) -> None:
    data = gzip.compress(FILE[:500]) + gzip.compress(FILE[500:]) if compression == "gzip" else FILE
    assert list(records.read(pieces(data, size), compression=compression)) == list(zip(offsets(), PAYLOADS, strict=False))


@given(st.lists(st.binary(max_size=60), max_size=40), st.integers(1, 200))
def test_any_records_are_read_back(payloads: list[bytes], size: int) -> None:
    data = b"".join(map(frame, payloads))
    assert [payload for _, payload in records.read(pieces(data, size))] == payloads


def test_an_empty_file_has_no_records() -> None:
    assert list(records.read([])) == []
    assert list(records.read([gzip.compress(b"")], compression="gzip")) == []


@pytest.mark.parametrize("record", [0, 1, 2, 3, 20, 32, 33])
def test_a_flipped_bit_in_the_data_is_found_at_its_record(record: int) -> None:
    start = offsets()[record]
    at = start + 12 if PAYLOADS[record] else start + 13
    data = FILE[:at] + bytes([FILE[at] ^ 1]) + FILE[at + 1 :]
    count, fault = broken(data)
    assert (count, fault.offset, fault.fault) == (record, start, "bad data CRC")
    assert str(fault) == f"bad data CRC at offset {start}"


@pytest.mark.parametrize("record", [0, 1, 2, 3, 20, 33])
@pytest.mark.parametrize("byte", [0, 7, 8, 11])
def test_a_flipped_bit_in_the_header_is_found_at_its_record(record: int, byte: int) -> None:
    at = offsets()[record] + byte
    count, fault = broken(FILE[:at] + bytes([FILE[at] ^ 0x80]) + FILE[at + 1 :])
    assert (count, fault.offset, fault.fault) == (record, offsets()[record], "bad length CRC")


@pytest.mark.parametrize("cut", range(1, 17))
def test_a_file_cut_inside_its_last_record_is_truncated(cut: int) -> None:
    count, fault = broken(FILE[:-cut])
    assert (count, fault.offset) == (len(PAYLOADS) - 1, offsets()[-2])
    assert fault.fault.startswith("truncated data" if cut <= 8 else "truncated length")


def test_a_short_gzip_stream_is_named_as_one() -> None:
    _, fault = broken(gzip.compress(FILE)[:-20], compression="gzip")
    assert "the gzip stream ends early" in str(fault)


def test_what_is_no_gzip_is_named_as_such() -> None:
    assert broken(FILE, compression="gzip")[1].fault.startswith("not valid gzip")


def test_memory_holds_a_piece_and_not_the_file() -> None:
    record = frame(bytes(100_000))
    tracemalloc.start()
    count = sum(1 for _ in records.read(record for _ in range(2_000)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 2_000
    assert peak < 3_000_000


def test_a_record_of_many_pieces_is_put_together_once() -> None:
    large = bytes(range(256)) * 40_000
    assert [payload for _, payload in records.read(pieces(frame(large) + frame(b"end"), 4_096))] == [large, b"end"]


def test_what_is_no_example_is_refused() -> None:
    with pytest.raises(NotWhole, match=r"holds no tf\.train\.Example"):
        records.parse_example(b"\xff\xff")
