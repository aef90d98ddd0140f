"""sequenceFile: bytes follow Hadoop's format, and all values are read back. Tests with Hadoop's code are in tests/interop/test_hadoop.py."""

import struct
import zlib
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples
from tests.converter.formats.columns import all_same
from tests.converter.formats.hadoop_files import Made, a_shard, an_output, projected

from dataprep_converter.core.errors import BadData, BadSpec, BrokenRecord
from dataprep_converter.core.tensors import to_arrow
from dataprep_converter.formats.hadoop.sequence_file_encoder import BLOCK, ESCAPE, SYNC_INTERVAL, SequenceFileEncoder, marker
from dataprep_converter.formats.hadoop.writables_encoder import vint

pytestmark = pytest.mark.usefixtures("native_and_python")

MARKER = marker(a_shard(), seed=0)
IO = "org.apache.hadoop.io."
COMPRESSIONS = ["None", "Record", "Block"]


def head(key: str, value: str, flags: str = "0000", codec: str = "") -> bytes:
    """Return the header according to the format's specification. Names are shorter than 128 bytes, so each length is a single byte."""
    names = b"".join(bytes([len(name)]) + name.encode() for name in (key, value))
    return b"SEQ\x06" + names + bytes.fromhex(flags) + (bytes([len(codec)]) + codec.encode() if codec else b"") + bytes(4) + MARKER


# --- literal bytes ------------------------------------------------------------------------------------------------


def test_text_and_numbers() -> None:
    made = Made({"k": pa.array(["a", "bc"]), "v": pa.array([1, -2], pa.int32())}, key="k", value="Feature")
    assert made.data == head(f"{IO}Text", f"{IO}IntWritable") + bytes.fromhex(
        "00000006 00000002 0161 00000001    00000007 00000003 026263 fffffffe"
    )


def test_without_a_key_records_are_numbered_from_the_first_of_the_shard() -> None:
    made = Made({"v": pa.array([b"\x00\xff", b""])}, value="Feature", shard=a_shard(first=300))
    assert made.data == head(f"{IO}LongWritable", f"{IO}BytesWritable") + bytes.fromhex(
        "0000000e 00000008 000000000000012c 00000002 00ff    0000000c 00000008 000000000000012d 00000000"
    )


def test_an_example_is_a_bytes_writable() -> None:
    made = Made({"z": pa.array([[-1, 0]], pa.list_(pa.int64()))})
    example = "0a16 0a14 0a017a 120f 1a0d 0a0b ffffffffffffffffff01 00"
    assert made.data == head(f"{IO}LongWritable", f"{IO}BytesWritable") + bytes.fromhex(
        f"00000024 00000008 0000000000000000 00000018 {example}"
    )


def test_a_record_of_dl4j_has_the_values_in_the_order_of_the_spec_and_labels_last() -> None:
    columns = {
        "z": to_arrow(np.array([[1.5, -2.0]], np.float32)),
        "b": pa.array([True]),
        "c": pa.array([-3], pa.int8()),
        "d": pa.array([0.5]),
        "e": pa.array([7], pa.uint8()),
        "a": pa.array(["ü"]),
        "y": pa.array([2]),
    }
    made = Made(columns, labels=["y"], value="Record")
    value = "00000008 0003 3fc00000 0003 c0000000 0000 01 0001 fd 0002 3fe0000000000000 0004 00000007 0007 02c3bc 0005 0000000000000002"
    size = len(bytes.fromhex(value))
    assert made.data == head(f"{IO}LongWritable", "org.datavec.hadoop.records.reader.mapfile.record.RecordWritable") + bytes.fromhex(
        f"{size + 8:08x} 00000008 0000000000000000 {value}"
    )


def test_a_sequence_of_dl4j_repeats_in_each_step_what_is_no_sequence() -> None:
    columns = {"x": pa.array([[1, 2], []], pa.list_(pa.int32())), "y": pa.array([9, 8], pa.int32())}
    made = Made(columns, labels=["y"], sequences=["x"], value="Record")
    value = "00000002 00000002 0004 00000001 0004 00000009 0004 00000002 0004 00000009"
    assert made.data == head(
        f"{IO}LongWritable", "org.datavec.hadoop.records.reader.mapfile.record.SequenceRecordWritable"
    ) + bytes.fromhex(f"00000028 00000008 0000000000000000 {value} 0000000c 00000008 0000000000000001 00000000")
    assert made.parsed() == [{"x": [[1], [2]], "y": [9]}, {"x": [], "y": []}]


def test_a_null_of_dl4j_is_a_type_without_a_value() -> None:
    made = Made({"s": pa.array([None, "a"]), "x": pa.array([1, 2], pa.int32())}, value="Record")
    first = "00000002 0006 0004 00000001"
    second = "00000002 0007 0161 0004 00000002"
    assert (
        made.body().hex(" ", -4).replace(" ", "")
        == bytes.fromhex(f"00000014 00000008 0000000000000000 {first} 00000016 00000008 0000000000000001 {second}").hex()
    )
    assert made.parsed() == [{"s": [], "x": [1]}, {"s": [b"a"], "x": [2]}]


@pytest.mark.parametrize(
    ("column", "java", "value"),
    [
        (pa.array([True]), "BooleanWritable", "01"),
        (pa.array([-1], pa.int8()), "ByteWritable", "ff"),
        (pa.array([65535], pa.uint16()), "IntWritable", "0000ffff"),
        (pa.array([2**32 - 1], pa.uint32()), "LongWritable", "00000000ffffffff"),
        (pa.array([-(2**63)]), "LongWritable", "8000000000000000"),
        (pa.array([1.5], pa.float32()), "FloatWritable", "3fc00000"),
        (pa.array([-2.0]), "DoubleWritable", "c000000000000000"),
        (to_arrow(np.array([[1, 255]], np.uint8)), "BytesWritable", "00000002 01ff"),
        (to_arrow(np.array([[[1.5], [2.0]]], np.float32)), "ArrayPrimitiveWritable", "0005 666c6f6174 00000002 3fc00000 40000000"),
        (pa.array([[7]], pa.list_(pa.int64())), "ArrayPrimitiveWritable", "0004 6c6f6e67 00000001 0000000000000007"),
        (pa.array([[]], pa.list_(pa.int32())), "ArrayPrimitiveWritable", "0003 696e74 00000000"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_feature_becomes_a_writable_of_its_own_type(column: Any, java: str, value: str) -> None:
    made = Made({"v": column}, value="Feature")
    data = bytes.fromhex(value)
    framed = struct.pack(">iiq", 8 + len(data), 8, 0) + data
    assert made.data == head(f"{IO}LongWritable", f"{IO}{java}") + framed


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "00"), (127, "7f"), (128, "8f80"), (255, "8fff"), (256, "8e0100"), (2**31 - 1, "8c7fffffff")]
)
def test_vints(number: int, expected: str) -> None:
    assert vint(number).hex() == expected


def test_a_file_of_records_compresses_each_value() -> None:
    made = Made({"k": pa.array(["a"]), "v": pa.array(["x" * 100])}, key="k", value="Feature", compression="Record")
    packed = zlib.compress(b"\x64" + b"x" * 100, 6)
    codec = "org.apache.hadoop.io.compress.DefaultCodec"
    assert made.data == head(f"{IO}Text", f"{IO}Text", "0100", codec) + struct.pack(">ii", len(packed) + 2, 2) + b"\x01a" + packed


def test_a_file_of_blocks_has_a_sync_and_four_streams() -> None:
    made = Made({"k": pa.array(["a", "bc"]), "v": pa.array([1, 2], pa.int32())}, key="k", value="Feature", compression="Block")
    streams = [zlib.compress(bytes.fromhex(content), 6) for content in ("0203", "0161026263", "0404", "0000000100000002")]
    codec = "org.apache.hadoop.io.compress.DefaultCodec"
    block = b"".join(bytes([len(stream)]) + stream for stream in streams)
    assert made.data == head(f"{IO}Text", f"{IO}IntWritable", "0101", codec) + ESCAPE + MARKER + b"\x02" + block


def test_a_sync_stands_before_the_first_record_behind_an_interval() -> None:
    each = 1000
    made = Made({"v": pa.array([b"x" * (each - 20)] * 300)}, value="Feature")
    places = [at for at in range(len(made.data)) if made.data.startswith(ESCAPE + MARKER, at)]
    begin = len(head(f"{IO}LongWritable", f"{IO}BytesWritable"))
    # After the first k records, the file is begin + 1000 k bytes long. The first sync follows when this size reaches 102,400.
    first = begin + each * -((begin - SYNC_INTERVAL) // each)
    assert places[0] == first
    assert places[1] == first + 20 + each * -(-SYNC_INTERVAL // each)
    assert len(made.pairs()) == 300


def test_a_file_without_records_is_a_header() -> None:
    for compression in COMPRESSIONS:
        made = Made({"v": pa.array([], pa.int32())}, value="Feature", compression=compression)
        assert made.data.endswith(bytes(4) + MARKER)
        assert made.pairs() == []


def test_the_sync_marker_depends_on_seed_split_and_shard_only() -> None:
    column = {"v": pa.array([1, 2])}
    data = Made(column, seed=1).data
    assert Made(column, seed=1).data == data
    assert len({data, Made(column, seed=2).data, Made(column, seed=1, shard=a_shard(index=1)).data}) == 3


# --- any records --------------------------------------------------------------------------------------------------

RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "count": st.integers(-(2**31), 2**31 - 1),
            "long": st.integers(-(2**63), 2**63 - 1),
            "ratio": st.floats(width=32),
            "text": st.text(max_size=300),
            "pixels": st.lists(st.integers(0, 255), min_size=6, max_size=6),
        }
    ),
    max_size=40,
)


def columns_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "count": pa.array([row["count"] for row in rows], pa.int32()),
        "long": pa.array([row["long"] for row in rows], pa.int64()),
        "ratio": pa.array([row["ratio"] for row in rows], pa.float32()),
        "text": pa.array([row["text"] for row in rows], pa.string()),
        "pixels": to_arrow(np.array([row["pixels"] for row in rows], np.uint8).reshape(len(rows), 2, 3)),
    }


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(RECORDS, st.lists(st.integers(0, 40), max_size=4), st.sampled_from(COMPRESSIONS), st.sampled_from(["count", "text", None]))
def test_records_come_back_and_cuts_between_batches_change_nothing(
    rows: list[dict[str, Any]], cuts: list[int], compression: str, key: str | None
) -> None:
    made = Made(columns_of(rows), value="Record", key=key, compression=compression)
    wanted = [
        {name: value if isinstance(value, list) else [value.encode() if isinstance(value, str) else value] for name, value in row.items()}
        for row in sorted_by_name(rows)
    ]
    assert all_same(made.parsed(), wanted)
    cut = Made(columns_of(rows), value="Record", key=key, compression=compression, cuts=[at for at in cuts if at <= len(rows)])
    assert cut.data == made.data
    assert made.pairs(size=7) == made.pairs()


EXAMPLES = st.lists(
    st.tuples(st.lists(st.floats(width=32), max_size=4), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4), st.binary(max_size=50)),
    max_size=20,
)


@settings(max_examples=examples(40))
@given(EXAMPLES, st.sampled_from(COMPRESSIONS), st.sampled_from(["content", None]))
def test_lists_and_bytes_come_back_from_examples(
    rows: list[tuple[list[float], list[int], bytes]], compression: str, key: str | None
) -> None:
    columns = {
        "content": pa.array([content for _, _, content in rows], pa.binary()),
        "floats": pa.array([floats for floats, _, _ in rows], pa.list_(pa.float32())),
        "ints": pa.array([ints for _, ints, _ in rows], pa.list_(pa.int64())),
    }
    made = Made(columns, key=key, compression=compression)
    assert all_same(made.parsed(), [{"content": [content], "floats": floats, "ints": ints} for floats, ints, content in rows])


def sorted_by_name(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [dict(sorted(row.items())) for row in rows]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_many_records_have_the_same_bytes_however_they_arrive(compression: str) -> None:
    noise = np.random.default_rng(1)
    sizes = noise.integers(0, 3000, 2000)
    values = pa.array([noise.bytes(int(size)) for size in sizes])
    made = Made({"v": values}, value="Feature", compression=compression)
    cut = Made({"v": values}, value="Feature", compression=compression, cuts=[1, 2, 3, 500, 501, 1999])
    assert made.data == cut.data
    assert [value[4:] for _, (_, value) in made.pairs(size=1 << 16)] == values.to_pylist()
    blocks = made.data.count(ESCAPE + MARKER)
    assert blocks == -(-int(sizes.sum() + 12 * 2000) // BLOCK) if compression == "Block" else blocks > 25


@pytest.mark.parametrize("value", ["Feature", "Record"])
def test_numbers_that_are_none(value: str) -> None:
    made = Made({"v": pa.array([float("nan"), float("inf")])}, value=value)
    assert repr(made.parsed()) == repr([{"v": [float("nan")]}, {"v": [float("inf")]}])


# --- what can't be ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "options", "fault"),
    [
        ({"a": "int64"}, {"key": "b"}, "output.sequenceFile.key: there is no feature 'b'; the features are a."),
        ({"a": "int64"}, {"key": "a"}, "the key is the only feature, so no feature is left for the value."),
        (
            {"a": "float64", "b": "int64"},
            {"key": "a", "value": "Record"},
            "the feature 'a' is float64; a key must be text, bytes or an integer",
        ),
        ({"a": "list", "b": "int64"}, {"key": "a"}, "the feature 'a' is int64 of shape ?; a key must be"),
        ({"a": "int64", "b": "int64"}, {"value": "Feature"}, "Feature allows only one feature besides the key, but there are a, b"),
        ({"a": "binary"}, {"value": "Record"}, "the feature 'a' holds bytes, but DL4J can't read records with bytes. Decode it"),
        ({"a": "list"}, {"value": "Record"}, "the feature 'a' has lists of different lengths"),
        ({"a": "texts"}, {"value": "Feature"}, "the feature 'a' is text of shape ?, for which Hadoop has no class"),
    ],
    ids=range(8),
)
def test_what_a_class_cant_hold_is_refused(columns: dict[str, str], options: dict[str, Any], fault: str) -> None:
    made = {
        "int64": pa.array([1]),
        "float64": pa.array([1.0]),
        "binary": pa.array([b"a"]),
        "list": pa.array([[1]], pa.list_(pa.int64())),
        "texts": pa.array([["a"]], pa.list_(pa.string())),
    }
    with pytest.raises(BadSpec) as caught:
        Made({name: made[kind] for name, kind in columns.items()}, **options)
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("column", "value", "fault"),
    [
        (
            pa.array([1, None]),
            "Feature",
            "'v' has no value in some records, and org.apache.hadoop.io.LongWritable can't store missing values.",
        ),
        (pa.array([[1.0], None], pa.list_(pa.float64(), 1)), "Record", "'v' has no value in some records; DL4J can store a missing number"),
    ],
    ids=["number", "vector"],
)
def test_a_value_that_is_missing_is_refused(column: Any, value: str, fault: str) -> None:
    output = an_output("sequenceFile", {"value": value})
    features, _ = projected({"v": column.slice(0, 1)}, output)
    with pytest.raises(BadData) as caught:
        SequenceFileEncoder(output, features).encode(pa.record_batch({"v": column}))
    assert fault in str(caught.value)


def test_sequences_of_different_lengths_are_no_dl4j_record() -> None:
    kind = pa.list_(pa.int32())
    with pytest.raises(BadData, match="A record has 2 steps of the feature 'a' and 1 of 'b'"):
        Made({"a": pa.array([[1, 2]], kind), "b": pa.array([[1]], kind)}, sequences=["a", "b"], value="Record")


# --- damage -------------------------------------------------------------------------------------------------------


def a_file(compression: str) -> Made:
    text = pa.array([f"text {number}" * 20 for number in range(40)])
    return Made({"k": text, "v": pa.array(range(40), pa.int32())}, key="k", value="Record", compression=compression)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_file_that_is_cut_off_says_where(compression: str) -> None:
    made = a_file(compression)
    ends = {offset for offset, _ in made.pairs()}
    begin = min(ends)
    for size in [*range(begin), *range(begin + 1, len(made.data), 97)]:
        if size in ends:
            continue
        with pytest.raises(BrokenRecord) as caught:
            made.pairs(made.data[:size])
        assert caught.value.offset <= size
        assert "truncated" in str(caught.value) or "header" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_no_flipped_bit_ends_in_anything_but_values_or_a_broken_record(compression: str) -> None:
    made = a_file(compression)
    for place in range(0, len(made.data) * 8, 53):
        broken = bytearray(made.data)
        broken[place // 8] ^= 1 << place % 8
        with suppress(BrokenRecord):
            for offset, pair in made.pairs(bytes(broken)):
                assert offset < len(broken)
                made.decoder.parse(pair)


@pytest.mark.parametrize(
    ("at", "word", "fault"),
    [
        (
            0,
            0x7FFFFFFF,
            "not a valid record: an object's header declares 12 bytes, but the record has 2,147,483,639 bytes for it at offset 80",
        ),
        (0, 4, "the key's length is 8 bytes, but the whole record's is 4 bytes at offset 80"),
        (4, 0x7FFFFFFF, "the key's length is 2,147,483,647 bytes, but the whole record's is 20 bytes at offset 80"),
        (4, 7, "not a valid record: an object's header declares 8 bytes, but the record has 7 bytes for it at offset 80"),
        (4, 0x80000000, "the key's length is -2,147,483,648 bytes, but the whole record's is 20 bytes at offset 80"),
        (
            16,
            0x7FFFFFFF,
            "not a valid record: an object's header declares 2,147,483,651 bytes, but the record has 12 bytes for it at offset 80",
        ),
        (16, 0xFFFFFFFF, "not a valid record: a length is negative at offset 80"),
        (12, 5, "record number 1 instead of 6 at offset 108"),
    ],
    ids=range(8),
)
def test_absurd_lengths_are_refused(at: int, word: int, fault: str) -> None:
    made = Made({"v": pa.array([b"12345678"] * 3)}, value="Feature")
    begin = made.pairs()[0][0]
    broken = made.data[: begin + at] + word.to_bytes(4, "big") + made.data[begin + at + 4 :]
    shift = begin - 80
    with pytest.raises(BrokenRecord) as caught:
        made.pairs(broken)
    offset = caught.value.offset - shift
    assert f"{caught.value.fault} at offset {offset}" == fault


@pytest.mark.parametrize("size", [10_000_000, pytest.param(100_000_000, marks=pytest.mark.nightly)])
def test_a_zlib_stream_that_would_grow_beyond_its_block_is_refused(size: int) -> None:
    made = Made({"v": pa.array([b""])}, value="Feature", compression="Block")
    sizes, keys, value_sizes = (zlib.compress(content) for content in (b"\x08", bytes(8), b"\x04"))
    bomb = zlib.compress(bytes(size), 1)
    streams = b"".join(vint(len(stream)) + stream for stream in (sizes, keys, value_sizes, bomb))
    begin = made.pairs()[0][0]
    with pytest.raises(BrokenRecord, match="a zlib stream that doesn't end where it should"):
        made.pairs(made.data[:begin] + ESCAPE + MARKER + b"\x01" + streams)


def test_another_class_than_the_data_set_s_is_refused() -> None:
    made = Made({"v": pa.array([1])}, value="Feature")
    other = made.data.replace(b"\x21org.apache.hadoop.io.LongWritable\x00", b"\x21org.apache.hadoop.io.LongWritablf\x00")
    with pytest.raises(BrokenRecord, match="not the header of a SequenceFile of org.apache.hadoop.io.LongWritable and"):
        made.pairs(other)
