"""Tests Hadoop's sequence files: every class and codec, DL4J's records, and the errors for broken files.

The files follow the format's specification. tests/interop/test_hadoop_files.py tests files that Hadoop has written.
"""

import bz2
import gzip
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from tests.builders.sequence_files import ESCAPE, IO, block, head, numbered, records, snappy, text
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, plan, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.readers import Reader
from dataprep_converter.readers.hadoop import sequence_file
from dataprep_converter.readers.hadoop.hadoop_codecs import CODECS, unpacker
from dataprep_converter.readers.hadoop.sequence_file import SequenceFileReader
from dataprep_converter.records.columns import IS_SEQUENCE

DL4J = "org.datavec.hadoop.records.reader.mapfile.record."


def a_source(*uris: Path) -> Source:
    return Source.model_validate({"sequenceFile": {"uris": [str(uri) for uri in uris]}})


def put(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def read(*uris: Path) -> list[dict[str, Any]]:
    """The good records, without the column `_sample`."""
    return [{name: value for name, value in row.items() if name != "_sample"} for row in rows(batches(SequenceFileReader, a_source(*uris)))]


class Contract(ReaderContract):
    reader: ClassVar[type[Reader]] = SequenceFileReader

    @pytest.fixture(autouse=True)
    def small_units(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sequence_file, "_UNIT_BYTES", 2000)
        monkeypatch.setattr(sequence_file, "_PACKED_BYTES", 500)

    def content(self, count: int, first: int) -> bytes:
        raise NotImplementedError

    def a_source(self, folder: Path) -> Source:
        for letter, first in (("a", 0), ("b", 1000)):
            put(folder / letter, self.content(30, first))
        return a_source(folder)

    def an_empty_source(self, folder: Path) -> Source:
        put(folder / "a", self.content(0, 0))
        return a_source(folder)

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        put(folder / "a", self.content(1, 0))
        return a_source(folder / "a", folder / "absent"), str(folder / "absent")

    def change(self, folder: Path) -> Path:
        return put(folder / "b", self.content(7, 0))


class TestRecords(Contract):
    def content(self, count: int, first: int) -> bytes:
        return head("Text", "LongWritable") + records(numbered(count, first))


class TestCompressedRecords(Contract):
    def content(self, count: int, first: int) -> bytes:
        packed = [(key, zlib.compress(value)) for key, value in numbered(count, first)]
        return head("Text", "LongWritable", compression="Record") + records(packed)


class TestBlocks(Contract):
    def content(self, count: int, first: int) -> bytes:
        pairs = numbered(count, first)
        blocks = b"".join(block(pairs[at : at + 9]) for at in range(0, count, 9))
        return head("Text", "LongWritable", compression="Block") + blocks


# --- literal bytes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("java", "data", "value", "kind"),
    [
        ("Text", "03 61c3bc", "aü", pa.large_string()),
        ("BytesWritable", "00000002 00ff", b"\x00\xff", pa.large_binary()),
        ("BooleanWritable", "01", True, pa.bool_()),
        ("ByteWritable", "ff", -1, pa.int8()),
        ("ShortWritable", "8000", -(2**15), pa.int16()),
        ("IntWritable", "fffffffe", -2, pa.int32()),
        ("LongWritable", "8000000000000000", -(2**63), pa.int64()),
        ("VIntWritable", "87 80", -129, pa.int32()),
        ("VIntWritable", "90", -112, pa.int32()),
        ("VLongWritable", "80 7fffffffffffffff", -(2**63), pa.int64()),
        ("VLongWritable", "8e 0100", 256, pa.int64()),
        ("FloatWritable", "3fc00000", 1.5, pa.float32()),
        ("DoubleWritable", "c000000000000000", -2.0, pa.float64()),
        ("ArrayPrimitiveWritable", "0005 666c6f6174 00000002 3fc00000 40000000", [1.5, 2.0], pa.large_list(pa.float32())),
        ("ArrayPrimitiveWritable", "0007 626f6f6c65616e 00000001 01", [True], pa.large_list(pa.bool_())),
        ("ArrayPrimitiveWritable", "0003 696e74 00000000", [], pa.large_list(pa.int32())),
    ],
)
def test_an_object_is_a_value_of_its_own_type(java: str, data: str, value: Any, kind: pa.DataType, tmp_path: Path) -> None:
    # Variable-length numbers have the form that WritableUtils.writeVLong writes. 0x87 means that the complement of a negative number
    # follows in one byte.
    pairs = [(b"", bytes.fromhex(data))]
    file = put(tmp_path / "a", head("NullWritable", java, about={"made": "here"}) + records(pairs))
    assert read(file) == [{"value": value}]
    _, state = plan(SequenceFileReader, a_source(file))
    assert SequenceFileReader(a_source(file).member, state, None).schema() == pa.schema([("value", kind)])  # type: ignore[arg-type]


VALUES = "00000007 0003 3fc00000 0000 01 0001 fd 0002 3fe0000000000000 0004 00000007 0007 02c3bc 0005 0000000000000002"


def test_a_record_of_dl4j_has_a_column_for_each_value(tmp_path: Path) -> None:
    rest = "00000007 0006 0000 00 0001 00 0002 0000000000000000 0004 ffffffff 0006 0005 0000000000000003"
    pairs = [(struct.pack(">q", at), bytes.fromhex(each)) for at, each in enumerate((VALUES, rest))]
    file = put(tmp_path / "a", head("LongWritable", f"{DL4J}RecordWritable") + records(pairs))
    assert read(file) == [
        {"key": 0, "0": 1.5, "1": True, "2": -3, "3": 0.5, "4": 7, "5": "ü", "6": 2},
        {"key": 1, "0": None, "1": False, "2": 0, "3": 0.0, "4": -1, "5": None, "6": 3},
    ]
    _, state = plan(SequenceFileReader, a_source(file))
    keys = SequenceFileReader(a_source(file).member, state, None).schema().field("key")  # type: ignore[arg-type]
    assert keys.metadata == {b"default": b"no"}


def test_numbers_of_dl4j_are_read_together(tmp_path: Path) -> None:
    pairs = [(struct.pack(">q", n), struct.pack(">ihihd", 2, 4, n - 5, 2, n / 4)) for n in range(20)]
    file = put(tmp_path / "a", head("LongWritable", f"{DL4J}RecordWritable") + records(pairs))
    assert read(file) == [{"key": n, "0": n - 5, "1": n / 4} for n in range(20)]


def test_a_sequence_of_dl4j_has_a_column_of_steps_for_each_value(tmp_path: Path) -> None:
    two = "00000002 00000002 0004 00000001 0007 0161 0004 00000002 0007 00"
    pairs = [(struct.pack(">q", at), bytes.fromhex(each)) for at, each in enumerate((two, "00000000"))]
    file = put(tmp_path / "a", head("LongWritable", f"{DL4J}SequenceRecordWritable") + records(pairs))
    assert read(file) == [{"key": 0, "0": [1, 2], "1": ["a", ""]}, {"key": 1, "0": [], "1": []}]
    _, state = plan(SequenceFileReader, a_source(file))
    schema = SequenceFileReader(a_source(file).member, state, None).schema()  # type: ignore[arg-type]
    assert schema.field("1").metadata == {key.encode(): value.encode() for key, value in IS_SEQUENCE.items()}


def zstandard(content: bytes) -> bytes:
    codec: Any = pa.Codec("zstd")
    packed: bytes = codec.compress(content, asbytes=True)
    return packed


PACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    "DefaultCodec": zlib.compress,
    "DeflateCodec": zlib.compress,
    "GzipCodec": lambda content: gzip.compress(content[:5]) + gzip.compress(content[5:]),
    "BZip2Codec": bz2.compress,
    "SnappyCodec": snappy,
    "ZStandardCodec": zstandard,
}


def test_every_codec_has_a_case() -> None:
    assert set(CODECS) == {f"{IO}compress.{name}" for name in PACKERS}


@pytest.mark.parametrize("codec", PACKERS)
def test_every_codec_by_record_and_by_block(codec: str, tmp_path: Path) -> None:
    pairs, pack = numbered(300), PACKERS[codec]
    by_record = records([(key, pack(value)) for key, value in pairs])
    files = [
        put(tmp_path / "records", head("Text", "LongWritable", compression="Record", codec=codec) + by_record),
        put(
            tmp_path / "blocks",
            head("Text", "LongWritable", compression="Block", codec=codec) + block(pairs, pack) + block(pairs[:1], pack),
        ),
    ]
    expected = [{"key": f"k{n}" * (n % 40), "value": n} for n in range(300)]
    assert read(files[0]) == expected
    assert read(files[1]) == [*expected, expected[0]]


@pytest.mark.parametrize("codec", PACKERS)
def test_a_stream_of_more_than_may_be_is_not_unpacked(codec: str) -> None:
    packed = PACKERS[codec](bytes(10_000))
    unpack = unpacker(f"{IO}compress.{codec}", "a")
    assert unpack(packed, 10_000) == bytes(10_000)
    with pytest.raises(ValueError, match="more than 9,999 bytes"):
        unpack(packed, 9_999)
    with pytest.raises(ValueError, match="truncated|broken|doesn't hold"):
        unpack(packed[: len(packed) * 2 // 3], 10_000)


def test_of_a_map_file_the_data_is_read(tmp_path: Path) -> None:
    for part in range(2):
        (tmp_path / f"part-r-0000{part}").mkdir()
        put(tmp_path / f"part-r-0000{part}" / "data", head("Text", "LongWritable") + records(numbered(3, 3 * part)))
        put(tmp_path / f"part-r-0000{part}" / "index", head("Text", "LongWritable", compression="Block") + block(numbered(1)))
    assert [row["value"] for row in read(tmp_path)] == list(range(6))


def test_a_file_may_end_with_a_sync_and_have_two_in_a_row(tmp_path: Path) -> None:
    pairs = numbered(2)
    file = put(tmp_path / "a", head("Text", "LongWritable") + records(pairs[:1]) + ESCAPE + ESCAPE + records(pairs[1:]) + ESCAPE)
    assert [row["value"] for row in read(file)] == [0, 1]


def test_a_header_longer_than_the_first_look(tmp_path: Path) -> None:
    about = {f"{n:03}": "x" * 120 for n in range(900)}
    file = put(tmp_path / "a", head("Text", "LongWritable", about=about) + records(numbered(2)))
    assert [row["value"] for row in read(file)] == [0, 1]


# --- what is refused ----------------------------------------------------------------------------------------------

PLAIN = head("Text", "LongWritable")
BLOCKS = head("Text", "LongWritable", compression="Block")
BROKEN: Mapping[str, tuple[bytes, str]] = {
    "something else": (b"abcdef", "{} is not a sequence file: it begins with 61626364 instead of 53455106."),
    "nothing": (b"", "{} is not a sequence file: it begins with nothing instead of 53455106."),
    "an old version": (b"SEQ\x04abc", "{} is a sequence file of version 4, but only version 6 can be read."),
    "a truncated header": (PLAIN[:-1], "{}: the header is broken: it is truncated."),
    "a truncated length": (PLAIN + b"\0\0\0", f"{{}}: truncated length (3 of 8 bytes) at offset {len(PLAIN)}."),
    "a truncated record": (
        PLAIN + records(numbered(1))[:-1],
        f"{{}}: the file ends within the record of 9 bytes at offset {len(PLAIN)}.",
    ),
    "a key larger than its record": (
        PLAIN + struct.pack(">ii", 1, 2) + b"ab",
        f"{{}}: the key's length is 2 bytes, but the whole record's is 1 bytes at offset {len(PLAIN)}.",
    ),
    "another marker": (
        PLAIN + b"\xff" * 20 + records(numbered(1)),
        f"{{}}: a sync marker that differs from the file's at offset {len(PLAIN)}.",
    ),
    "a block without a marker": (BLOCKS + bytes(30), f"{{}}: a sync marker that differs from the file's at offset {len(BLOCKS)}."),
    "a truncated block": (BLOCKS + block(numbered(9))[:-1], f"{{}}: a truncated block at offset {len(BLOCKS)}."),
    "a block of no records": (BLOCKS + ESCAPE + bytes(9), f"{{}}: a block of 0 records at offset {len(BLOCKS)}."),
    "a block of broken streams": (
        BLOCKS + ESCAPE + b"\1" + b"\2zz" * 4,
        f"{{}}: a broken compressed stream (Error -3 while decompressing data: incorrect header check) at offset {len(BLOCKS)}.",
    ),
}


@pytest.mark.parametrize(("data", "said"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_named_with_the_offset(data: bytes, said: str, tmp_path: Path) -> None:
    file = put(tmp_path / "a", data)
    with pytest.raises(BadData) as caught:
        read(file)
    assert str(caught.value) == said.format(file)


def test_what_is_not_known_is_refused_in_words(tmp_path: Path) -> None:
    file = put(tmp_path / "a", head("Text", "org.example.Mine") + records([(text("a"), b"x")]))
    with pytest.raises(
        BadSpec, match=r"holds objects of the class org\.example\.Mine; known: Text, BytesWritable, .*SequenceRecordWritable\."
    ):
        read(file)
    file = put(tmp_path / "a", head("Text", "Text", compression="Block", codec="Lz4Codec"))
    with pytest.raises(
        BadSpec, match=r"compressed with org\.apache\.hadoop\.io\.compress\.Lz4Codec; known: DefaultCodec, .*, ZStandardCodec\."
    ):
        read(file)
    file = put(tmp_path / "a", head("Text", "ArrayPrimitiveWritable") + records([(text("a"), bytes.fromhex("0004 63686172 00000000"))]))
    with pytest.raises(BadSpec, match=r"holds arrays of char; known: boolean, byte, "):
        read(file)
    file = put(tmp_path / "a", head("LongWritable", f"{DL4J}RecordWritable") + records([(bytes(8), bytes.fromhex("00000001 0008 00"))]))
    with pytest.raises(BadSpec, match=r"its first records can't be read: a value of the type NDArray, which can't be read\."):
        read(file)
    file = put(tmp_path / "a", head("LongWritable", f"{DL4J}RecordWritable") + records([(bytes(8), bytes.fromhex("00000001 0006"))]))
    with pytest.raises(BadSpec, match=r"value 0 is missing in all of the first records, so its type can't be determined\."):
        read(file)


def test_files_of_other_classes_are_refused(tmp_path: Path) -> None:
    put(tmp_path / "a", PLAIN + records(numbered(1)))
    put(tmp_path / "b", head("Text", "IntWritable"))
    with pytest.raises(
        BadSpec,
        match=r"b has keys of .*Text and values of .*IntWritable, .*a has keys of .*Text and values of .*LongWritable; the files of a source",
    ):
        read(tmp_path)


def test_objects_that_are_none_are_bad_records_with_the_reason(tmp_path: Path) -> None:
    cases = [
        ("Text", [b"\x01a", b"", b"\x02a", b"\x01\xff", b"\x8f"], "value: text in 0 bytes, with a length that doesn't match"),
        (
            "BytesWritable",
            [b"\0\0\0\1a", b"\0\0\0", b"\0\0\0\2a", b"\xff\xff\xff\xff", b"\0"],
            "value: bytes in 3 bytes, with a length that doesn't match",
        ),
        ("LongWritable", [bytes(8), bytes(7), bytes(9), b"", b"x"], "value: 7 bytes instead of 8"),
        ("VIntWritable", [b"\1", b"\x8f", b"", b"\1\1", b"\x8b" + b"\xff" * 5], "value: 8f is not a variable-length number of 32 bits"),
        (
            "ArrayPrimitiveWritable",
            [
                bytes.fromhex("0003 696e74 00000000"),
                b"",
                bytes.fromhex("0004 6c6f6e67 00000000"),
                bytes.fromhex("0003 696e74 00000001"),
                b"\0",
            ],
            "value: 0 bytes that are not an array of int",
        ),
        (
            f"{DL4J}RecordWritable",
            [bytes.fromhex(VALUES), b"", bytes(4), bytes.fromhex(VALUES)[:-1], bytes.fromhex(VALUES) + b"x"],
            "value: a value is truncated",
        ),
    ]
    for java, values, reason in cases:
        written = [(text("k"), value) for value in values]
        file = put(tmp_path / "a", head("Text", java) + records(written))
        if java.startswith(DL4J):
            with pytest.raises(BadSpec, match="its first records can't be read: a value is truncated"):
                read(file)
            file = put(tmp_path / "a", head("Text", java) + records([written[0]] * 256 + written[1:]))
        found = faults(batches(SequenceFileReader, a_source(file)))
        first = 256 if java.startswith(DL4J) else 1
        assert list(found) == list(range(first, first + 4)), java
        assert found[first] == reason


def test_values_of_another_type_or_number_are_bad_records(tmp_path: Path) -> None:
    good = bytes.fromhex("00000001 0004 00000007")
    others = ["00000001 0003 00000000", "00000002 0004 00000000 0006", "00000001 0006"]
    pairs = [(text("k"), each) for each in [good] * 256 + [bytes.fromhex(other) for other in others]]
    file = put(tmp_path / "a", head("Text", f"{DL4J}RecordWritable") + records(pairs))
    found = batches(SequenceFileReader, a_source(file))
    assert faults(found) == {
        256: "value: value 0 is Float, but Int in the first records",
        257: "value: 2 values, the first records have 1",
    }
    assert rows(found)[-1]["0"] is None
    assert [bad.raw.content for batch in found for bad in batch.bad if bad.raw] == [pairs[256][1], pairs[257][1]]
