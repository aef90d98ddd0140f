"""Tests Avro files that fastavro writes: types, codecs, blocks, and broken data."""

import datetime as dt
import decimal
import json
import uuid
import zlib
from pathlib import Path
from typing import Any, ClassVar

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, opened, plan, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.readers import Reader
from dataprep_converter.readers.columnar import avro, avro_records
from dataprep_converter.readers.columnar.avro import AvroReader

CODECS = ["null", "deflate", "bzip2", "xz"]
UTC = dt.UTC


def put(file: Path, fields: list[dict[str, Any]], records: list[dict[str, Any]], *, codec: str = "null", size: int = 16_000) -> Path:
    """Writes the records to a file. A block ends when it has this many bytes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    schema = fastavro.parse_schema({"type": "record", "name": "Row", "namespace": "a.test", "fields": fields})
    with file.open("wb") as out:
        fastavro.writer(out, schema, records, codec=codec, sync_interval=size, sync_marker=b"0123456789abcdef")
    return file


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


def a_source(*uris: Path | str, **options: Any) -> Source:
    return Source.model_validate({"avro": {"uris": [str(uri) for uri in uris], **options}})


def read(source: Source) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "_sample"} for row in rows(batches(AvroReader, source))]


class TestAvro(ReaderContract):
    reader: ClassVar[type[Reader]] = AvroReader

    @pytest.fixture(autouse=True)
    def _small_units(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(avro, "UNIT_BYTES", 8000)

    def a_source(self, folder: Path) -> Source:
        inner = {"type": "record", "name": "Inner", "fields": [field("l", {"type": "array", "items": "long"})]}
        fields = [field("n", "long"), field("word", "string"), field("noise", "string"), field("o", inner)]
        for name, first in (("a", 0), ("b", 1_000_000)):
            records = [
                {"n": n, "word": f"word {n % 3}", "noise": str(n) * 100, "o": {"l": list(range(n % 3))}} for n in range(first, first + 50)
            ]
            put(folder / f"{name}.avro", fields, records, size=4000)
        return a_source(folder)

    def an_empty_source(self, folder: Path) -> Source:
        return a_source(put(folder / "a.avro", [field("a", "long")], []))

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        file = put(folder / "a.avro", [field("a", "long")], [{"a": 1}])
        return a_source(file, folder / "absent.avro"), str(folder / "absent.avro")

    def change(self, folder: Path) -> Path:
        return put(folder / "b.avro", [field("a", "long")], [{"a": 1}])


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_of_fastavro_has_the_same_records(codec: str, tmp_path: Path) -> None:
    records = [{"n": n, "s": f"s{n}", "x": None if n % 3 == 0 else n / 2} for n in range(5000)]
    file = put(tmp_path / "a.avro", [field("n", "long"), field("s", "string"), field("x", ["null", "double"])], records, codec=codec)
    assert read(a_source(file)) == records


def packed(file: Path, codec: str, pack: Any, records: list[dict[str, Any]]) -> Path:
    """Writes a file whose blocks are compressed by `pack`. The blocks come from an uncompressed file that fastavro has written."""
    plain = put(file, [field("n", "long"), field("s", "string")], records, size=2000).read_bytes()
    sync = b"0123456789abcdef"
    head, *blocks = plain.split(sync)[:-1]
    out = head.replace(b"\x08null", bytes([len(codec) << 1]) + codec.encode()) + sync
    for block in blocks:
        end_of_count = next(at for at, byte in enumerate(block) if byte < 0x80) + 1
        end_of_size = next(at for at, byte in enumerate(block) if byte < 0x80 and at >= end_of_count) + 1
        content = pack(block[end_of_size:])
        size = bytearray()
        value = len(content) << 1
        while value > 0x7F:
            size.append(value & 0x7F | 0x80)
            value >>= 7
        out += block[:end_of_count] + bytes([*size, value]) + content + sync
    file.write_bytes(out)
    return file


def snappy(data: bytes) -> bytes:
    codec: Any = pa.Codec("snappy")
    return bytes(codec.compress(data, asbytes=True)) + zlib.crc32(data).to_bytes(4, "big")


def zstandard(data: bytes) -> bytes:
    codec: Any = pa.Codec("zstd")
    return bytes(codec.compress(data, asbytes=True))


@pytest.mark.parametrize(("codec", "pack"), [("snappy", snappy), ("zstandard", zstandard)])
def test_codecs_that_fastavro_needs_other_libraries_for_are_read(codec: str, pack: Any, tmp_path: Path) -> None:
    records = [{"n": n, "s": f"s{n}"} for n in range(1000)]
    assert read(a_source(packed(tmp_path / "a.avro", codec, pack, records))) == records


def test_a_wrong_checksum_of_a_snappy_block_is_named(tmp_path: Path) -> None:
    file = packed(tmp_path / "a.avro", "snappy", lambda data: snappy(data)[:-1] + b"\0", [{"n": 300, "s": "s"}])
    with pytest.raises(BadData, match=r"a\.avro: the blocks from byte [\d,]+ on can't be read: a block with a wrong checksum\."):
        read(a_source(file))


def test_values_of_every_type_are_those_that_fastavro_reads(tmp_path: Path) -> None:
    fixed = {"type": "fixed", "name": "Six", "size": 6}
    suit = {"type": "enum", "name": "Suit", "symbols": ["SPADES", "HEARTS"]}
    point = {"type": "record", "name": "Point", "fields": [field("x", "float"), field("y", ["null", "int"])]}
    fields = [
        field("b", "boolean"), field("i", "int"), field("l", "long"), field("f", "float"), field("d", "double"), field("s", "string"),
        field("raw", "bytes"), field("six", fixed), field("suit", suit), field("suit2", "a.test.Suit"), field("p", point),
        field("maybe", ["null", "string"]), field("list", {"type": "array", "items": "string"}), field("number", ["int", "double"]),
        field("null_last", ["long", "null"]), field("one", ["string"]),
    ]  # fmt: skip
    records = [
        {
            "b": bool(n % 2), "i": -n, "l": 2**62 - n, "f": n / 4, "d": n / 3, "s": f"ä{n}", "raw": bytes([n]), "six": bytes([n] * 6),
            "suit": "HEARTS", "suit2": "SPADES", "p": {"x": n / 2, "y": None if n % 2 else n}, "maybe": None if n % 2 else "m",
            "list": ["a"] * n, "number": n if n % 2 else n / 4, "null_last": None if n % 2 else n, "one": "o",
        }
        for n in range(6)
    ]  # fmt: skip
    file = put(tmp_path / "a.avro", fields, records)
    with file.open("rb") as foreign:
        expected: list[Any] = list(fastavro.reader(foreign))
    flat = [
        {name: value for name, value in row.items() if name != "p"} | {f"p/{name}": row["p"][name] for name in row["p"]} for row in expected
    ]
    assert read(a_source(file)) == flat


def test_times_are_numbers_of_the_files_unit_beyond_python_s_years_too(tmp_path: Path) -> None:
    when = dt.datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
    kinds = {
        "day": ("int", "date", dt.date(2026, 1, 2), 20_455),
        "milli": ("long", "timestamp-millis", when, 1_767_323_045_678),
        "micro": ("long", "timestamp-micros", when, 1_767_323_045_678_000),
        "local": ("long", "local-timestamp-micros", when.replace(tzinfo=None), 1_767_323_045_678_000),
        "clock": ("int", "time-millis", dt.time(0, 0, 1), 1000),
        "long_clock": ("long", "time-micros", dt.time(0, 0, 1), 1_000_000),
    }
    fields = [field(name, {"type": kind, "logicalType": logical}) for name, (kind, logical, _, _) in kinds.items()]
    file = put(tmp_path / "a.avro", fields, [{name: value for name, (_, _, value, _) in kinds.items()}])
    assert read(a_source(file)) == [{name: number for name, (_, _, _, number) in kinds.items()}]
    far = put(tmp_path / "b.avro", [field("t", "long")], [{"t": 10**17}])
    text = far.read_bytes()
    plain, logical = b'"type": "long"', b'"type": {"type": "long", "logicalType": "timestamp-millis"}'
    # The schema's size is a varint of two bytes in front of the schema.
    start = text.index(b"avro.schema") + len(b"avro.schema")
    size = (text[start] & 0x7F | text[start + 1] << 7) // 2
    schema = text[start + 2 : start + 2 + size].replace(plain, logical)
    doubled = len(schema) * 2
    far.write_bytes(text[:start] + bytes([doubled & 0x7F | 0x80, doubled >> 7]) + schema + text[start + 2 + size :])
    assert read(a_source(far)) == [{"t": 10**17}]


def test_decimals_and_uuids_are_read(tmp_path: Path) -> None:
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
    small = {"type": "fixed", "name": "Small", "size": 4, "logicalType": "decimal", "precision": 8, "scale": 3}
    records = [{"a": decimal.Decimal("1234.56"), "s": decimal.Decimal("-0.125"), "u": uuid.UUID(int=7)}]
    fields = [field("a", ["null", amount]), field("s", small), field("u", {"type": "string", "logicalType": "uuid"})]
    assert read(a_source(put(tmp_path / "a.avro", fields, records))) == [{"a": 1234.56, "s": -0.125, "u": str(uuid.UUID(int=7))}]


def test_a_unit_is_some_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro, "UNIT_BYTES", 10_000)
    records = [{"n": n, "s": "x" * 100} for n in range(1000)]
    source = a_source(put(tmp_path / "a.avro", [field("n", "long"), field("s", "string")], records, size=3000))
    units, state = plan(AvroReader, source)
    counts: list[Any] = units.table["records"].to_pylist()
    assert sum(counts) == 1000
    assert all(80 <= count <= 150 for count in counts[:-1])
    with opened(AvroReader, source, state) as reader:
        (batch,) = reader.read(units, iter([np.array([999, 0, 500], np.int64)]))
    assert batch.records["n"].to_pylist() == [999, 0, 500]


def test_only_selected_columns_are_returned(tmp_path: Path) -> None:
    inner = {"type": "record", "name": "Inner", "fields": [field("x", "long"), field("y", "string")]}
    file = put(tmp_path / "a.avro", [field("a", "long"), field("o", inner)], [{"a": 1, "o": {"x": 2, "y": "z"}}])
    assert read(a_source(file, columns=["o/y", "a"])) == [{"o/y": "z", "a": 1}]


def test_nulls_have_their_defaults(tmp_path: Path) -> None:
    file = put(tmp_path / "a.avro", [field("a", ["null", "long"]), field("s", ["null", "string"])], [{"a": None, "s": None}])
    assert read(a_source(file, defaults={"a": "7"})) == [{"a": 7, "s": None}]


def test_text_that_is_not_utf8_spoils_only_its_record(tmp_path: Path) -> None:
    file = put(tmp_path / "a.avro", [field("n", "long"), field("s", "bytes")], [{"n": 1, "s": b"\xff"}, {"n": 2, "s": b"ok"}])
    text = file.read_bytes()
    schema = text.replace(b'"type": "bytes"', b'"type":"string"')
    assert len(schema) == len(text)
    file.write_bytes(schema)
    found = batches(AvroReader, a_source(file))
    assert [row["n"] for row in rows(found)] == [2]
    assert list(faults(found).values()) == ["column 's' is not UTF-8"]


TREE = {"type": "record", "name": "Tree", "fields": [field("left", ["null", "a.test.Tree"]), field("n", "long")]}
REFUSED: dict[str, tuple[Any, Any, str]] = {
    "a union": (
        ["string", "long"],
        "x",
        r"the column 'x' is a union of string and int64, which records can't contain\. .* \(a single type, or a type and null\)",
    ),
    "a map of unions": (
        {"type": "map", "values": ["string", "long"]},
        {"a": 1},
        r"the column 'x' is map<string, a union of string and int64>, which records can't contain\. Leave it out of source\.avro\.columns",
    ),
    "a list of unions": (
        {"type": "array", "items": ["null", "boolean", "string"]},
        [True],
        "the column 'x' is list<a union of bool and string>, which records can't contain",
    ),
    "a record in itself": (TREE, {"left": None, "n": 1}, "the column 'x' is a record that contains itself, which records can't contain"),
    "nothing but nulls": ("null", None, "the column 'x' is null, which records can't contain"),
}


@pytest.mark.parametrize(
    ("kind", "values", "dtype"),
    [
        (["int", "long"], [1, 2**40], pa.int64()),
        (["null", {"type": "int"}, {"type": "long", "unit": "m"}], [1, None, 2**40], pa.int64()),
        ([{"type": "float"}, "double"], [0.5, 0.1], pa.float64()),
        (["int", {"type": "float", "logicalType": "share"}], [2**24 + 1, 0.5], pa.float64()),
    ],
    ids=["names", "objects", "floats", "an unknown logical type"],
)
def test_a_union_of_numbers_is_the_type_that_holds_them(kind: Any, values: list[Any], dtype: pa.DataType, tmp_path: Path) -> None:
    file = put(tmp_path / "a.avro", [field("x", kind)], [{"x": value} for value in values])
    found = batches(AvroReader, a_source(file))
    assert [row["x"] for row in rows(found)] == values
    assert {batch.records.schema.field("x").type for batch in found} == {dtype}


NUMBER = ["null", "long", "double"]


def inexact(column: str, number: int) -> str:
    return (
        f"column '{column}' has the long {number} in a union with double or float, which is read as double; expected a long that a double "
        "holds exactly, as all up to 9,007,199,254,740,992"
    )


def test_a_long_that_a_double_holds_is_read_beside_doubles(tmp_path: Path) -> None:
    values = [2**53, 2**60, -(2**63), 0.5, None, 2**62 + 2**30]
    assert [
        row["x"] for row in read(a_source(put(tmp_path / "a.avro", [field("x", NUMBER)], [{"x": value} for value in values])))
    ] == values


@pytest.mark.parametrize("first", [2**53 + 1, -(2**53) - 1, 2**63 - 1])
def test_a_long_that_no_double_holds_spoils_only_its_record(first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_records, "_PART_RECORDS", 3)
    values = [1, 0.5, *range(2**60, 2**60 + 4096, 256), first, None, 1.5, 2**53 + 3, 2]
    file = put(tmp_path / "a.avro", [field("n", "long"), field("x", NUMBER)], [{"n": n, "x": x} for n, x in enumerate(values)], size=40)
    found = batches(AvroReader, a_source(file))
    bad = {18: inexact("x", first), 21: inexact("x", 2**53 + 3)}
    assert faults(found) == bad
    assert [(row["n"], row["x"]) for row in rows(found)] == [(n, x) for n, x in enumerate(values) if n not in bad]


@pytest.mark.parametrize(
    ("kind", "value", "column"),
    [
        ({"type": "array", "items": NUMBER}, [1.5, 2**53 + 1], "x"),
        ({"type": "map", "values": NUMBER}, {"a": 2**53 + 1, "b": 0.5}, "x"),
        ({"type": "array", "items": {"type": "array", "items": NUMBER}}, [[1.5], [2**53 + 1]], "x"),
        ({"type": "record", "name": "In", "fields": [field("y", NUMBER), field("z", "long")]}, {"y": 2**53 + 1, "z": 1}, "x/y"),
    ],
    ids=["a list", "a map", "a list of lists", "a record"],
)
def test_an_inexact_long_within_other_values_is_found(kind: Any, value: Any, column: str, tmp_path: Path) -> None:
    file = put(tmp_path / "a.avro", [field("n", "long"), field("x", kind)], [{"n": 1, "x": value}])
    assert faults(batches(AvroReader, a_source(file))) == {0: inexact(column, 2**53 + 1)}
    others = ["n", "x/z"] if column == "x/y" else ["n"]
    assert [row["n"] for row in read(a_source(file, columns=others))] == [1]


def test_an_inexact_long_is_named_with_its_file_and_record(tmp_path: Path) -> None:
    file = put(tmp_path / "in/a.avro", [field("x", NUMBER)], [{"x": 0.5}, {"x": 2**53 + 1}])
    job = {"source": {"avro": {"uris": [str(file)]}}, "output": {"uri": str(tmp_path / "out"), "format": "jsonl"}}
    with pytest.raises(BadData) as caught:
        run_job(parse_job(job))
    assert str(caught.value) == f"{file}, record 1: {inexact('x', 2**53 + 1)}. Set onBadRecord.policy: Skip to leave such records out."
    skipping = {"onBadRecord": {"policy": "Skip"}, "output": {"uri": str(tmp_path / "skipped"), "format": "jsonl"}}
    run_job(parse_job(job | skipping))
    (made,) = (tmp_path / "skipped").glob("*.jsonl")
    assert made.read_text() == '{"x":0.5}\n'


@pytest.mark.parametrize(("kind", "value", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_types_that_records_can_not_hold_are_refused_unless_left_out(kind: Any, value: Any, text: str, tmp_path: Path) -> None:
    file = put(tmp_path / "a.avro", [field("a", "long"), field("x", kind)], [{"a": 5, "x": value}])
    with pytest.raises(BadSpec, match=f"{file}: {text}"):
        plan(AvroReader, a_source(file))
    assert read(a_source(file, columns=["a"])) == [{"a": 5}]


def a_file(folder: Path) -> tuple[Path, bytes]:
    file = put(folder / "a.avro", [field("n", "long")], [{"n": n} for n in range(1000)], size=500)
    return file, file.read_bytes()


def test_files_that_are_not_avro_are_named(tmp_path: Path) -> None:
    file = tmp_path / "a.avro"
    file.write_bytes(b"Obj\x02")
    with pytest.raises(BadData, match=f"{file} is not an Avro file: an Avro file begins with the letters Obj and a byte 01"):
        plan(AvroReader, a_source(file))


def test_truncated_files_are_named(tmp_path: Path) -> None:
    file, text = a_file(tmp_path)
    file.write_bytes(text[:30])
    with pytest.raises(BadData, match=f"{file} is not a complete Avro file: its header is truncated or broken"):
        plan(AvroReader, a_source(file))
    file.write_bytes(text[:-20])
    with pytest.raises(BadData, match=f"{file} is truncated: the block at byte [0-9,]+ has [0-9,]+ bytes, but the file ends before that"):
        plan(AvroReader, a_source(file))


def test_damaged_blocks_are_named(tmp_path: Path) -> None:
    file, text = a_file(tmp_path)
    file.write_bytes(text.replace(b"0123456789abcdef", b"0123456789abcdeX", 3).replace(b"0123456789abcdeX", b"0123456789abcdef", 1))
    with pytest.raises(BadData, match=f"{file}: the block at byte [0-9,]+ is damaged: it doesn't end with the sync marker"):
        plan(AvroReader, a_source(file))


def test_an_unknown_codec_is_named(tmp_path: Path) -> None:
    file, text = a_file(tmp_path)
    file.write_bytes(text.replace(b"\x08null", b"\x08lzma"))
    with pytest.raises(BadData, match=f"{file}: its blocks are compressed with 'lzma'; known: null, deflate, snappy, bzip2, xz, zstandard"):
        plan(AvroReader, a_source(file))


def test_a_schema_that_is_no_record_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "a.avro").open("wb") as out:
        fastavro.writer(out, "string", ["a"])
    with pytest.raises(BadData, match="its schema is a string, expected a record with fields"):
        plan(AvroReader, a_source(tmp_path))


def test_a_damaged_count_needs_no_more_memory(tmp_path: Path) -> None:
    file, text = a_file(tmp_path)
    at = text.index(b"0123456789abcdef") + 16
    file.write_bytes(text[:at] + b"\xfe\xff\xff\xff\xff\x0f" + text[at + 2 :])
    with pytest.raises(BadData, match=f"{file}: the block at byte {at:,} is damaged: [0-9,]+ records in"):
        plan(AvroReader, a_source(file))


def test_a_job_writes_the_records(tmp_path: Path) -> None:
    records = [{"n": n, "s": None if n == 3 else f"s{n}"} for n in range(10)]
    put(tmp_path / "in/day=1/a.avro", [field("n", "long"), field("s", ["null", "string"])], records)
    put(tmp_path / "in/day=2/a.avro", [field("n", "long"), field("s", ["null", "string"])], records)
    source = {"uris": [str(tmp_path / "in")], "hivePartitions": "Infer", "partitions": {"day": "== 2"}}
    run_job(parse_job({"source": {"avro": source}, "output": {"uri": str(tmp_path / "out"), "format": "jsonl"}}))
    (made,) = (tmp_path / "out").glob("*.jsonl")
    assert [json.loads(line) for line in made.read_text().splitlines()] == [record | {"day": 2} for record in records]


def test_the_error_for_a_null_names_the_line_to_add(tmp_path: Path) -> None:
    file = put(tmp_path / "in/a.avro", [field("i", ["null", "long"])], [{"i": 1}, {"i": None}])
    with pytest.raises(BadData) as caught:
        run_job(parse_job({"source": {"avro": {"uris": [str(file)]}}, "output": {"uri": str(tmp_path / "out"), "format": "npz"}}))
    assert 'i has no value, and npz has no null for this feature; add defaults: {i: "0"} to source.avro.' in str(caught.value)
