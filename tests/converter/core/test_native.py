"""Compares native.c, and the Python code that replaces it if it isn't available, with independent code."""

import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.internal import encoder  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from tests.availability import skip_without

from dataprep_converter.core import native
from dataprep_converter.core.framing import FOOTER, HEADER, frame
from dataprep_converter.core.native import DictionaryColumn, Piece
from dataprep_converter.core.tensors import Array, binary_data


@pytest.fixture(scope="module", params=["native.c", "python"], autouse=True)
def each(request: pytest.FixtureRequest) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(native, "_library", lambda: None)
        yield request.param


@pytest.fixture(params=["as the processor can", "plainly"])
def vectors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "plainly":
        monkeypatch.setattr(native, "_is_wide", lambda: False)


def column(values: Sequence[bytes]) -> Array:
    return pa.array(values, pa.large_binary())


def masked(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def rows_of(column: Array) -> list[bytes]:
    data, offsets = binary_data(column)
    return [data[begin:end].tobytes() for begin, end in itertools.pairwise(offsets.tolist())]


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Piece], list[bytes]]:
    """Generate pieces of every kind, and the expected rows."""
    rows = draw(st.integers(1, 20))
    kinds = draw(st.lists(st.sampled_from(["own", "slice", "chosen", "constant"]), max_size=5))
    values = st.one_of(st.binary(max_size=9), st.binary(min_size=7, max_size=140))
    pieces: list[Piece] = []
    wanted = [b""] * rows
    for kind in draw(st.permutations(["own", *kinds])):
        here = draw(st.lists(values, min_size=rows, max_size=rows))
        match kind:
            case "own":
                pieces.append(column(here))
            case "slice":
                pieces.append(column([b"before", *here, b"behind"])[1:-1])
            case "chosen":
                places = draw(st.lists(st.integers(0, rows - 1), min_size=rows, max_size=rows))
                pieces.append(DictionaryColumn(column(here), np.array(places, np.int64)))
                here = [here[place] for place in places]
            case _:
                pieces.append(here[0])
                here = here[:1] * rows
        wanted = [before + value for before, value in zip(wanted, here, strict=True)]
    return pieces, wanted


@pytest.mark.slow
@given(tables())
def test_rows_are_joined_from_pieces_of_every_kind(table: tuple[list[Piece], list[bytes]]) -> None:
    pieces, wanted = table
    assert rows_of(native.join(pieces, len(wanted))) == wanted


@pytest.mark.slow
@given(tables(), st.sampled_from([0, 100, 10_000]))
def test_records_are_framed_as_one_by_one(table: tuple[list[Piece], list[bytes]], room: int) -> None:
    pieces, wanted = table
    made = native.framed(pieces, np.array(list(map(len, wanted)), np.int64), np.empty(room, np.uint8))
    assert made.tobytes() == b"".join(map(frame, wanted))


@pytest.mark.slow
@given(tables(), st.data())
def test_values_are_left_out_of_records_where_they_are_missing(table: tuple[list[Piece], list[bytes]], data: st.DataObject) -> None:
    pieces, wanted = table
    apart = [not isinstance(piece, DictionaryColumn | bytes) and data.draw(st.booleans()) for piece in pieces]
    between, cuts = native.framed_apart(pieces, np.array(list(map(len, wanted)), np.int64), apart)
    large = [
        rows_of(piece)
        for piece, is_apart in zip(pieces, apart, strict=True)
        if is_apart and not isinstance(piece, DictionaryColumn | bytes)
    ]
    values = [value for row in zip(*large, strict=True) for value in row]
    assert len(cuts) == len(values)
    ends = [0, *cuts.tolist(), len(between)]
    kept = [between[start:end].tobytes() for start, end in itertools.pairwise(ends)]
    assert b"".join(itertools.chain.from_iterable(itertools.zip_longest(kept, values, fillvalue=b""))) == b"".join(map(frame, wanted))


def test_records_stand_in_the_room_that_is_there(each: str) -> None:
    room = np.empty(100, np.uint8)
    made = native.framed([b"abc"], np.array([3, 3]), room)
    assert len(made) == 2 * (HEADER + 3 + FOOTER)
    assert np.shares_memory(made, room) == (each == "native.c")


@pytest.mark.parametrize(
    "piece",
    [
        column([b"a"]),
        DictionaryColumn(column([b"a"]), np.zeros(1, np.int64)),
        pa.array(["a", "b"]),
        DictionaryColumn(column([b"a"]), np.zeros(2, np.int32)),
    ],
)
def test_the_library_is_given_nothing_that_it_would_read_beyond(piece: Piece, each: str) -> None:
    if each == "native.c":
        with pytest.raises(ValueError, match="expected"):
            native.join([column([b"a", b"b"]), piece], 2)


@pytest.mark.slow
@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 300), max_size=30), st.data())
def test_varints_are_those_of_protobuf(numbers: list[int], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(numbers)), max_size=5)))
    ends = [0, *cuts, len(numbers)]
    wanted = []
    for begin, end in itertools.pairwise(ends):
        parts: list[bytes] = []
        for number in numbers[begin:end]:
            encoder._EncodeSignedVarint(parts.append, number, None)
        wanted.append(b"".join(parts))
    made, lengths = native.varints(np.array(numbers, np.int64).view(np.uint64), np.array(ends, np.int64))
    assert made.tobytes() == b"".join(wanted)
    assert lengths.tolist() == list(map(len, wanted))


@given(st.lists(st.binary(max_size=70), min_size=1, max_size=20))
def test_crcs_are_those_of_another_library(records: list[bytes]) -> None:
    ends = np.cumsum([0, *map(len, records)])
    made = native.masked_crcs(np.frombuffer(b"".join(records) or b"\0", np.uint8), ends[:-1], ends[1:])
    assert made.tolist() == [masked(google_crc32c.value(record)) for record in records]


def test_crcs_of_any_length() -> None:
    data = np.random.default_rng(1).integers(0, 256, 1 << 17, np.uint8)
    lengths = [
        *range(1600),
        *range(3000, 3200),
        *range(3800, 3900),
        *range(6100, 6200),
        *range(12_200, 12_400),
        *range(24_500, 24_600),
        100_000,
    ]
    starts = np.arange(len(lengths)) % 17
    made = native.masked_crcs(data, starts, starts + lengths)
    wanted = [data[start : start + length].tobytes() for start, length in zip(starts.tolist(), lengths, strict=True)]
    assert made.tolist() == [masked(google_crc32c.value(each)) for each in wanted]


@given(st.lists(st.tuples(st.integers(0, (1 << 63) - 1) | st.integers(0, 20), st.integers(0, 1 << 40)), max_size=20))
def test_lines_of_numbers(rows: list[tuple[int, int]]) -> None:
    first, second = (np.array([row[place] for row in rows], np.int64) for place in (0, 1))
    assert bytes(native.number_lines(first, "\t", second)).decode() == "".join(f"{one}\t{other}\n" for one, other in rows)


@pytest.mark.usefixtures("vectors")
@pytest.mark.parametrize("some", ["none", "few", "many", "all"])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 127, 128, 4096, 100_001])
def test_the_places_of_a_byte(size: int, some: str) -> None:
    share = {"none": 0.0, "few": 0.005, "many": 0.4, "all": 1.0}[some]
    text = np.where(np.random.default_rng(size).random(size) < share, ord("\n"), 0xF5).astype(np.uint8).tobytes()
    assert native.places_of(text, ord("\n")).tolist() == [found.start() for found in re.finditer(rb"\n", text)]


@pytest.mark.usefixtures("vectors")
@pytest.mark.parametrize("size", [0, 1, 3, 4, 255, 32_767, 32_768, 32_769, 100_001, 600_001])
def test_sums_of_bytes(size: int) -> None:
    values = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    assert native.byte_sums(values) == (sum(values.tolist()), sum(value * value for value in values.tolist()))
    assert native.byte_sums(np.full(size, 255, np.uint8)) == (255 * size, 65_025 * size)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int16"])
def test_bytes_are_looked_up(dtype: str) -> None:
    table = np.arange(256)[::-1].astype(dtype)
    values = np.random.default_rng(3).integers(0, 256, (2, 7, 5, 3), np.uint8)
    out = np.zeros((4, 7, 5, 3), dtype)
    native.look_up(table, values, out[1:3])
    assert (out[1:3] == 255 - values.astype(np.int64)).all()
    assert not out[0].any()
    assert not out[3].any()


@pytest.mark.usefixtures("vectors")
@pytest.mark.parametrize("size", [1, 15, 16, 17, 5000])
def test_what_is_computed_is_what_the_table_has(size: int) -> None:
    values = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    for middle, factor in ((127.5, 0.01), (0.0, 1.0), (117.0, 1 / 3), (3.25, 1e-9), (250.1, 200.0), (1 / 3, -2 / 3), (100.7, 0.0)):
        table = ((np.arange(256) - middle) * factor).astype(np.float16)
        for changed in (None, 0, 255):
            if changed is not None:
                table[changed] += np.float16(1)
            out = np.full(size + 1, 7, np.float16)
            native.look_up(table, values, out[:size], line=(middle, factor))
            np.testing.assert_array_equal(out[:size].view(np.uint16), table[values].view(np.uint16))
            assert out[size] == 7


def test_most_tables_of_images_are_computed(each: str) -> None:
    if each == "native.c" and native._is_wide():
        library, rng = native._library(), np.random.default_rng(5)
        levels, out = np.arange(256, dtype=np.uint8), np.empty(256, np.float16)
        computed = 0
        for _ in range(1000):
            middle, deviation = rng.uniform(30, 220), rng.uniform(5, 90)
            table = ((levels - middle) / deviation).astype(np.float16)
            given = native._address(levels), len(levels), 1, native._address(out)
            computed += library.look_up_line(native._address(table), middle, 1 / deviation, *given)
        assert computed > 950


def test_what_is_looked_up_has_its_size() -> None:
    table, values = np.arange(256, dtype=np.float16), np.zeros(7, np.uint8)
    for some, room in ((table[:255], np.empty(7, np.float16)), (table, np.empty(6, np.float16))):
        with pytest.raises(ValueError, match="expected a table of 256 entries and an output of shape"):
            native.look_up(some, values, room)


@skip_without(which("cc"), "this machine has no C compiler")
def test_it_is_built_where_there_is_a_compiler(each: str) -> None:
    assert (native._library() is not None) == (each == "native.c")


def test_whole_files_are_read_one_after_another(tmp_path: Path, each: str) -> None:
    contents = [b"first", b"", b"third"]
    files = [tmp_path / str(number) for number in range(len(contents))]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    paths = [os.fsencode(file) for file in files]
    room = np.zeros(10, np.uint8)
    found = native.read_files(paths, [len(content) for content in contents], room)
    if each == "python":
        assert found is None
        return
    assert found is not None
    modified, seconds = found
    assert room.tobytes() == b"firstthird"
    assert modified == [file.stat().st_mtime_ns for file in files]
    assert len(seconds) == len(files)
    assert all(0 <= spent < 60 for spent in seconds)


def test_a_file_of_another_size_and_one_that_is_none_are_told(tmp_path: Path, each: str) -> None:
    (tmp_path / "longer").write_bytes(b"12345")
    (tmp_path / "as planned").write_bytes(b"abc")
    paths = [os.fsencode(tmp_path / name) for name in ("longer", "gone", ".", "as planned")]
    room = np.zeros(15, np.uint8)
    found = native.read_files(paths, [4, 4, 4, 3], room)
    if found is not None:
        assert found[0] == [None, None, None, (tmp_path / "as planned").stat().st_mtime_ns]
        assert room[12:].tobytes() == b"abc"
    assert (found is None) == (each == "python")


def test_files_get_no_less_room_than_they_need(tmp_path: Path, each: str) -> None:
    if each == "python":
        assert native.read_files([b"x"], [2], np.zeros(1, np.uint8)) is None
        return
    with pytest.raises(ValueError, match="expected 1 paths and room for 2 bytes, found 1 paths and 1 bytes"):
        native.read_files([os.fsencode(tmp_path)], [2], np.zeros(1, np.uint8))


@given(
    st.sampled_from(["int16", "int32", "int64", "uint16", "uint32", "float16", "float32", "float64"]),
    st.integers(1, 100),
    st.integers(1, 5),
    st.integers(0, 9),
    st.integers(1, 9),
    st.randoms(use_true_random=False),
)
def test_bounds_are_those_of_each_column(dtype: str, rows: int, count: int, first: int, every: int, random: Any) -> None:
    bits = [np.frombuffer(random.randbytes(rows * 8), np.uint8)[: rows * np.dtype(dtype).itemsize] for _ in range(count)]
    columns = [each.view(dtype) for each in bits]
    found = native.bounds(columns, first=first, every=every)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "_is_wide", lambda: False)
        plainly = native.bounds(columns, first=first, every=every)
    assert (found.least.tobytes(), found.greatest.tobytes()) == (plainly.least.tobytes(), plainly.greatest.tobytes())
    for place, column in enumerate(columns):
        ends = found.least[place], found.greatest[place]
        if np.isfinite(column).all():
            assert ends == (column.min(), column.max())
        else:
            assert not np.isfinite(ends).all()
        assert found.looked_at[place].tobytes() == column[first::every].tobytes()


def test_columns_of_different_lengths_have_no_bounds() -> None:
    with pytest.raises(ValueError, match=r"expected at least one column of 2 int64, found \[\(2, 'int64'\), \(1, 'int64'\)\]"):
        native.bounds([np.zeros(2, np.int64), np.zeros(1, np.int64)], first=0, every=1)
    with pytest.raises(ValueError, match="expected at least one column of 0 int64"):
        native.bounds([np.zeros(0, np.int64)], first=0, every=1)


@pytest.mark.parametrize(("starts", "ends"), [([4], [2]), ([-1], [2]), ([0], [9]), ([0, 1], [1])])
def test_a_crc_of_what_is_no_stretch_of_the_data_is_refused(starts: list[int], ends: list[int]) -> None:
    with pytest.raises(ValueError, match=rf"{len(starts)} starts and {len(ends)} ends aren't valid ranges of 8 bytes"):
        native.masked_crcs(np.zeros(8, np.uint8), np.array(starts, np.int64), np.array(ends, np.int64))
