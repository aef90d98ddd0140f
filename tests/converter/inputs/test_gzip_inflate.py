"""gzip streams are inflated correctly, however they are split into pieces, both with ISA-L and with zlib."""

import gzip
import zlib
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from isal import isal_zlib
from tests.builders import pairs
from tests.builders.examples import examples

from dataprep_converter.inputs import gzip_inflate, pinned
from dataprep_converter.inputs.compressions import BrokenStream, gunzipped
from dataprep_converter.inputs.pinned import ForwardReader, InputCopy
from dataprep_converter.stores.files import FileInput

CONTENT = b"".join(b"%d,%d\n" % (number, number * number % 977) for number in range(400))
PIECES = (1, 2, 7, 11, 1000)
HEADER_PARTS = tuple(product((b"", b"extra bytes"), (b"", b"name.csv"), (b"", b"a comment"), (False, True)))


@pytest.fixture(params=["isal", "zlib"], autouse=True)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "zlib":
        monkeypatch.setattr(gzip_inflate, "_Inflater", zlib.decompressobj)
        monkeypatch.setattr(gzip_inflate, "ERRORS", (zlib.error,))


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def contents(data: bytes, size: int = 1 << 20) -> bytes:
    return b"".join(gunzipped(cut(data, size)))


def a_member(extra: bytes, name: bytes, comment: bytes, has_crc: bool, content: bytes = CONTENT) -> bytes:
    """Return a gzip member whose header has these parts, in the format of RFC 1952."""
    flags = 2 * has_crc | 4 * bool(extra) | 8 * bool(name) | 16 * bool(comment)
    head = b"\x1f\x8b\x08" + bytes([flags]) + bytes(4) + b"\0\xff"
    head += len(extra).to_bytes(2, "little") + extra if extra else b""
    head += b"".join(text + b"\0" for text in (name, comment) if text)
    head += (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little") if has_crc else b""
    body = zlib.compressobj(6, zlib.DEFLATED, -15)
    packed = body.compress(content) + body.flush()
    return head + packed + zlib.crc32(content).to_bytes(4, "little") + len(content).to_bytes(4, "little")


def test_the_package_that_is_quicker_is_the_one_that_is_used(request: pytest.FixtureRequest) -> None:
    if "isal" in request.node.callspec.id:
        assert gzip_inflate._Inflater is isal_zlib.decompressobj


@pytest.mark.parametrize(
    ("parts", "size"),
    pairs.chosen(
        ((parts, size) for parts in HEADER_PARTS for size in PIECES), lambda parts, size: pairs.has_turn(parts, size, HEADER_PARTS, PIECES)
    ),
)
def test_a_header_may_be_cut_anywhere(parts: tuple[bytes, bytes, bytes, bool], size: int) -> None:
    member = a_member(*parts)
    assert contents(member, size) == CONTENT
    assert contents(member + member + bytes(100), size) == 2 * CONTENT


@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.binary(max_size=3000), st.integers(1, 200), st.integers(0, 9)), min_size=1, max_size=4), st.integers(1, 5000))
def test_members_are_one_stream(members: list[tuple[bytes, int, int]], size: int) -> None:
    stream = b"".join(gzip.compress(content * times, level) for content, times, level in members)
    assert contents(stream, size) == b"".join(content * times for content, times, _ in members)


def test_pieces_are_bounded() -> None:
    found = list(gunzipped([gzip.compress(bytes(5 << 20))]))
    assert sum(map(len, found)) == 5 << 20
    assert max(map(len, found)) <= 1 << 20


@pytest.mark.slow
@pytest.mark.parametrize(("size", "every"), [(1, 61), pytest.param(1, 7, marks=pytest.mark.nightly), (1000, 1)])
def test_a_stream_that_ends_early_says_so_after_what_it_held(size: int, every: int) -> None:
    member = a_member(b"", b"name.csv", b"", False)
    # If the pieces have one byte, the test's time grows with the square of the stream's length. So only a few positions within the data are
    # tested.
    for end in [*range(1, 30), *range(30, len(member) - 9, every), *range(len(member) - 9, len(member))]:
        found: list[bytes] = []
        with pytest.raises(BrokenStream, match="^the gzip stream ends early$"):
            found.extend(gunzipped(cut(member[:end], size)))
        assert CONTENT.startswith(b"".join(found))
    assert contents(b"") == b""


@pytest.mark.parametrize("at", [0, 1, 2, 200, -8, -4])
def test_damage_is_refused(at: int) -> None:
    damaged = bytearray(gzip.compress(CONTENT))
    damaged[at] ^= 0xFF
    with pytest.raises(BrokenStream, match=r"^not valid gzip: ."):
        contents(bytes(damaged))


def test_what_is_no_gzip_is_refused_at_once() -> None:
    for data in (b"\x1fx, and more of it", b"plain text"):
        with pytest.raises(BrokenStream, match=r"^not valid gzip: ."):
            contents(data)


def test_a_name_without_an_end_is_not_waited_for() -> None:
    endless = b"\x1f\x8b\x08\x08" + bytes(4) + b"\0\xff" + b"n" * (3 << 20)
    with pytest.raises(BrokenStream):
        contents(endless, 1 << 16)


@pytest.mark.parametrize("maps", [True, False])
def test_scattered_pieces_of_a_copy_are_those_that_lie_there(maps: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_mapping(*_: object) -> None:
        raise OSError("not here")

    if not maps:
        monkeypatch.setattr(pinned, "MappedFile", no_mapping)
    contents = np.random.default_rng(1).bytes(3 << 20)
    (tmp_path / "a.gz").write_bytes(gzip.compress(contents, 1))
    with FileInput(str(tmp_path / "a.gz")) as source:
        copy = InputCopy(ForwardReader(source, "a.gz", compression="gzip"))
    offsets = np.array([2 << 20, 0, 17, (3 << 20) - 100], np.int64)
    with copy:
        assert copy.size == len(contents)
        assert copy.read_each(offsets, 100) == b"".join(contents[offset : offset + 100] for offset in offsets.tolist())
