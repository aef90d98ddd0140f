"""arrayRecord: files equal the library's files, messages equal those of `tfrecord`, all values are read back, and damage is detected."""

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter  # type: ignore[import-untyped]  # no types
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples
from tests.converter.formats.columns import WORDS, Written, tensors, written

from dataprep_converter.core.errors import BadSpec, BrokenRecord
from dataprep_converter.formats.registry import decoder
from dataprep_converter.formats.tfrecord import records

COLUMNS: dict[str, Any] = {
    "id": pa.array(list(range(-20, 20))),
    "text": pa.array([f"n° {row}" * (row % 5) for row in range(40)]),
    "vector": tensors(*[[row, row / 3] for row in range(40)]),
}


def messages(columns: dict[str, Any], **more: Any) -> list[bytes]:
    """Return the records that the `tfrecord` format writes for the same columns."""
    return [payload for _, payload in records.read([written("tfrecord", columns, **more).data])]


def by_library(made: Written, folder: Path) -> list[bytes]:
    file = folder / "made.array_record"
    file.write_bytes(made.data)
    reader = ArrayRecordReader(str(file))
    found: list[bytes] = reader.read_all()
    reader.close()
    return found


@pytest.mark.parametrize(
    ("options", "theirs"),
    [
        ({}, "group_size:1"),
        ({"groupSize": 7}, "group_size:7"),
        ({"compression": "None"}, "group_size:1,uncompressed"),
        ({"compression": "Brotli", "groupSize": 40}, "group_size:40,brotli"),
        ({"compression": "Snappy", "groupSize": 100}, "group_size:100,snappy"),
    ],
)
def test_the_library_makes_the_same_file_and_reads_the_messages(tmp_path: Path, options: dict[str, Any], theirs: str) -> None:
    made = written("arrayRecord", COLUMNS, cuts=[3, 3, 31], options=options)
    expected = messages(COLUMNS)
    writer = ArrayRecordWriter(str(tmp_path / "theirs"), theirs)
    for message in expected:
        writer.write(message)
    writer.close()
    assert made.data == (tmp_path / "theirs").read_bytes()
    assert by_library(made, tmp_path) == expected


def test_a_file_without_records_can_be_read(tmp_path: Path) -> None:
    made = written("arrayRecord", {"a": pa.array([], pa.int64())})
    assert by_library(made, tmp_path) == []
    assert made.records() == []


@settings(max_examples=examples(25))
@given(
    rows=st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1), st.lists(st.floats(width=32), max_size=4), st.binary(max_size=50), WORDS),
        min_size=1,
        max_size=12,
    ),
    cuts=st.lists(st.integers(0, 12), max_size=4),
)
def test_records_are_those_of_tfrecord_however_batches_are_cut(rows: list[tuple[int, list[float], bytes, str]], cuts: list[int]) -> None:
    types = {"int": pa.int64(), "floats": pa.list_(pa.float32()), "bytes": pa.large_binary(), "text": pa.string()}
    columns = {name: pa.array(list(values), kind) for (name, kind), values in zip(types.items(), zip(*rows, strict=True), strict=True)}
    shard = written("arrayRecord", columns, cuts=cuts)
    assert shard.data == written("arrayRecord", columns).data
    expected = [records.parse_example(message) for message in messages(columns)]
    assert repr(shard.records(size=1000)) == repr(expected)


WHOLE = written("arrayRecord", COLUMNS, options={"compression": "None"})


def damaged(place: int) -> bytes:
    return WHOLE.data[:place] + bytes([WHOLE.data[place] ^ 1]) + WHOLE.data[place + 1 :]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", r"damaged ArrayRecord: ArrayRecord file should be at least 64KB big at offset 0"),
        (WHOLE.data[:-1], r"damaged ArrayRecord: Invalid Riegeli/records file: .* at offset \d+"),
        (WHOLE.data[: 1 << 16], r"not an ArrayRecord file at offset 0"),
        (damaged(200), r"damaged ArrayRecord: Corrupted Riegeli/records file: chunk header hash mismatch .* at offset 169"),
        (
            damaged(len(WHOLE.data) - (1 << 16) + 50),
            r"damaged ArrayRecord: Corrupted Riegeli/records file: chunk header hash mismatch .* at offset \d+",
        ),
    ],
)
def test_what_is_broken_is_named_with_its_offset(data: bytes, fault: str) -> None:
    with pytest.raises(BrokenRecord) as caught:
        WHOLE.records(data=data, size=1000)
    assert caught.match(f"^{fault}$")


def test_good_records_come_before_the_first_fault() -> None:
    found: list[bytes] = []
    place = WHOLE.data.index("n° 3".encode())
    with pytest.raises(BrokenRecord, match="hash mismatch"):
        found.extend(record for _, record in decoder(WHOLE.manifest()).read([damaged(place)]))
    assert found
    assert found == messages(COLUMNS)[: len(found)]


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "array_record.python", None)
    with pytest.raises(BadSpec) as caught:
        written("arrayRecord", COLUMNS)
    assert str(caught.value) == "The format arrayRecord needs the package array-record: pip install 'dataprep-operator[arrayrecord]'."
