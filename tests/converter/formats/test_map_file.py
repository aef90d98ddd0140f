"""mapFile: a sorted sequence file and its index. Tests with Hadoop's own code are in tests/interop/test_hadoop.py."""

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples
from tests.converter.formats.hadoop_files import Made, a_shard, an_output, projected

from dataprep_converter.core.errors import BadData, BrokenRecord
from dataprep_converter.formats.hadoop.map_file_encoder import MapFileEncoder
from dataprep_converter.formats.hadoop.sequence_file_encoder import header, marker

pytestmark = pytest.mark.usefixtures("native_and_python")

RECORD = "org.datavec.hadoop.records.reader.mapfile.record.RecordWritable"


def test_records_are_numbered_and_the_index_has_each_as_dl4j_s_does() -> None:
    made = Made({"x": pa.array([5, 6], pa.int32())}, format_="mapFile", shard=a_shard(first=7))
    begin = header("org.apache.hadoop.io.LongWritable", RECORD, "None", marker(a_shard(), seed=0))
    assert made.data == begin + bytes.fromhex(
        "00000012 00000008 0000000000000007 00000001 0004 00000005    00000012 00000008 0000000000000008 00000001 0004 00000006"
    )
    assert made.entries() == [(struct.pack(">q", 7), len(begin)), (struct.pack(">q", 8), len(begin) + 26)]
    assert made.index.startswith(
        header("org.apache.hadoop.io.LongWritable", "org.apache.hadoop.io.LongWritable", "Block", marker(a_shard(), seed=0, file="index"))
    )


@pytest.mark.parametrize(("options", "interval"), [({"value": "Example"}, 128), ({"indexInterval": 5}, 5), ({}, 1)], ids=str)
def test_an_entry_comes_after_so_many_records(options: dict[str, Any], interval: int) -> None:
    made = Made({"x": pa.array(range(1000))}, format_="mapFile", cuts=[3, 130, 131, 700], **options)
    offsets = [offset for offset, _ in made.pairs()]
    numbers = [struct.unpack(">q", key)[0] for key, _ in made.entries()]
    assert numbers == list(range(0, 1000, interval))
    assert [position for _, position in made.entries()] == [offsets[number] for number in numbers]


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.integers(1, 2999), max_size=5), st.integers(1, 700), st.sampled_from(["None", "Block"]))
def test_the_index_is_the_same_however_records_arrive(cuts: list[int], interval: int, compression: str) -> None:
    columns = {"x": pa.array([np.random.default_rng(1).bytes(900)] * 3000)}
    options: dict[str, Any] = {"value": "Feature", "indexInterval": interval, "compression": compression}
    whole = Made(columns, format_="mapFile", **options)
    cut = Made(columns, format_="mapFile", cuts=cuts, **options)
    assert (cut.data, cut.index) == (whole.data, whole.index)
    positions = [position for _, position in whole.entries()]
    assert positions == sorted(set(positions))
    assert set(positions) <= {offset for offset, _ in whole.pairs()}


KEYS = {
    "text": pa.array(["B", "a", "a", "é", "😀"]),
    "bytes": pa.array([b"\x00", b"\x7f", b"\x80", b"\xff", b"\xff\x00"]),
    "number": pa.array([-(2**63), -1, 0, 0, 2**63 - 1]),
}


@pytest.mark.parametrize("kind", KEYS)
def test_a_sorted_key_is_one_in_java_s_order(kind: str) -> None:
    made = Made({"k": KEYS[kind], "v": pa.array(range(5))}, format_="mapFile", key="k", cuts=[2])
    assert [record["v"] for record in made.parsed()] == [[number] for number in range(5)]
    assert len(made.entries()) == 5


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("cuts", [[], [2], [1, 2, 3, 4]], ids=str)
def test_a_key_that_decreases_names_its_record(kind: str, cuts: list[int]) -> None:
    keys: Any = KEYS[kind]
    wanted = keys.take(pa.array([0, 2, 4, 1, 3]))
    with pytest.raises(BadData) as caught:
        Made({"k": wanted, "v": pa.array(range(5))}, format_="mapFile", key="k", cuts=cuts)
    assert str(caught.value).startswith("part-r-00000: the key of record 3, ")
    assert "but a MapFile must be sorted by key. Sort the source by the key" in str(caught.value)


def test_a_file_without_records_has_an_index_without_entries() -> None:
    made = Made({"x": pa.array([], pa.int32())}, format_="mapFile")
    assert made.pairs() == []
    assert made.entries() == []


def test_the_index_belongs_to_the_shard() -> None:
    output = an_output("mapFile", {})
    features, batch = projected({"x": pa.array([1])}, output)
    encoder = MapFileEncoder(output, features)
    encoder.encode(batch)
    encoder.close()
    assert list(encoder.companions()) == ["index"]


def test_keys_that_decrease_in_a_file_are_found() -> None:
    made = Made({"k": pa.array(["a", "b"]), "v": pa.array([1, 2])}, format_="mapFile", key="k")
    broken = made.data.replace(b"\x01b", b"\x01A")
    with pytest.raises(BrokenRecord, match="the key b'A' follows the larger key b'a' at offset"):
        made.pairs(broken)
