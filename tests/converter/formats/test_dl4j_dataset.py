"""dl4jDataset: bytes equal those of ND4J 1.0.0-M2.1, and all values are read back. Tests with DL4J are in tests/interop/test_dl4j.py."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples
from tests.converter.formats.batches import Encoded
from tests.converter.formats.columns import all_same

from dataprep_converter.core.errors import BadSpec, BrokenRecord
from dataprep_converter.core.tensors import to_arrow
from dataprep_converter.formats.dl4j.nd4j import array

_BUFFER = "00104d495845445f444154415f5459504553"
_SQUARE = (
    f"{_BUFFER}000000000000000800044c4f4e47000000000000000200000000000000020000000000000002"
    "00000000000000020000000000000001000000000000200000000000000000010000000000000063"
    f"{_BUFFER}00000000000000040005464c4f4154"
)
"""The bytes that ND4J writes before the four floats of a 2 by 2 array."""
DATA_SET = f"03{_SQUARE}3f800000400000004040000040800000{_SQUARE}3f80000000000000000000003f800000"
"""The bytes that `new DataSet([[1, 2], [3, 4]], [[1, 0], [0, 1]]).save(…)` of ND4J 1.0.0-M2.1 writes."""
MASKED = (
    f"0b{_BUFFER}000000000000000a00044c4f4e47000000000000000300000000000000020000000000000002000000000000000200000000000000040000000000000002"
    f"0000000000000001000000000000200000000000000000010000000000000063{_BUFFER}00000000000000080005464c4f4154"
    f"3f80000040000000404000004080000040a000000000000040c0000000000000{_SQUARE}3f80000000000000000000003f800000{_SQUARE}"
    "3f8000003f8000003f80000000000000"
)
"""The bytes of a DataSet with the features [[[1, 2], [3, 4]], [[5, 0], [6, 0]]] and the mask [[1, 1], [1, 0]]."""
KINDS = {
    "float64": "4000 0006444f55424c45 3ff000000000000040000000000000004008000000000000000000000000000040140000000000004018000000000000",
    "float32": "2000 0005464c4f4154 3f80000040000000404000000000000040a0000040c00000",
    "float16": "1000 000448414c46 3c0040004200000045004600",
    "int64": "40000 00044c4f4e47 000000000000000100000000000000020000000000000003000000000000000000000000000000050000000000000006",
    "int32": "20000 0003494e54 000000010000000200000003000000000000000500000006",
    "int16": "10000 000553484f5254 000100020003000000050006",
    "int8": "8000 000442595445 010203000506",
    "uint8": "808000 00055542595445 010203000506",
}
"""The flags, name and values that `Nd4j.write` of ND4J 1.0.0-M2.1 writes for `[[1, 2, 3], [0, 5, 6]]`, by type."""


def vectors(*rows: list[float]) -> Any:
    return to_arrow(np.array(rows, np.float32))


def sequences(*rows: list[Any]) -> Any:
    step = pa.list_(pa.float32(), 2) if isinstance(next(each for row in rows for each in row), list) else pa.float32()
    return pa.array(rows, pa.list_(step))


@pytest.mark.parametrize("dtype", KINDS)
def test_arrays_are_those_that_nd4j_writes(dtype: str) -> None:
    flags, name, values = KINDS[dtype].split()
    shape = "000000000000000200000000000000020000000000000003" + "00000000000000030000000000000001"
    expected = f"{_BUFFER}000000000000000800044c4f4e47{shape}{int(flags, 16):016x}0000000000000001{99:016x}{_BUFFER}{6:016x}{name}{values}"
    assert b"".join(array(np.array([[1, 2, 3], [0, 5, 6]], dtype))).hex() == expected


def test_a_data_set_is_the_one_that_nd4j_writes() -> None:
    columns = {"x": vectors([1, 2], [3, 4]), "y": vectors([1, 0], [0, 1])}
    assert Encoded("dl4jDataset", columns, labels=["y"]).content.hex() == DATA_SET


def test_sequences_are_filled_up_and_masked() -> None:
    made = Encoded("dl4jDataset", {"x": sequences([[1, 3], [2, 4]], [[5, 6]]), "y": vectors([1, 0], [0, 1])}, labels=["y"], sequences=["x"])
    assert made.content.hex() == MASKED
    assert made.parsed() == [{"x": [[1, 3], [2, 4]], "y": [1, 0]}, {"x": [[5, 6]], "y": [0, 1]}]


def test_scalars_have_two_dimensions_and_tensors_keep_theirs() -> None:
    image = to_arrow(np.arange(12, dtype=np.uint8).reshape(2, 2, 3, 1))
    made = Encoded("dl4jDataset", {"image": image, "y": pa.array([3, 4])}, labels=["y"], dtypes={"image": "uint8"})
    assert made.content.startswith(b"\x03" + array(np.arange(12, dtype=np.uint8).reshape(2, 2, 3, 1))[0])
    assert made.content.endswith(b"".join(array(np.array([[3], [4]], np.float32))))


def test_a_multi_data_set_has_its_arrays_in_the_order_of_the_spec() -> None:
    columns = {"b": vectors([1, 2]), "a": vectors([3]), "z": vectors([4]), "y": vectors([5])}
    made = Encoded("dl4jDataset", columns, labels=["z", "y"], holds="MultiDataSet")
    arrays = [np.array([row], np.float32) for row in ([1, 2], [3], [4], [5])]
    numbers = bytes.fromhex("00000002 00000002 00000000 00000000")
    assert made.content == numbers + b"".join(piece for each in arrays for piece in array(each))
    assert made.parsed() == [{"a": [3], "b": [1, 2], "y": [5], "z": [4]}]


def test_where_one_array_of_a_multi_data_set_has_a_mask_all_of_them_have() -> None:
    columns = {"x": sequences([1.0, 2.0], [3.0]), "id": vectors([7], [8])}
    made = Encoded("dl4jDataset", columns, sequences=["x"], holds="MultiDataSet")
    assert made.content[:16] == bytes.fromhex("00000002 00000000 00000002 00000000")
    assert made.content.endswith(b"".join([*array(np.array([[1, 1], [1, 0]], np.float32)), *array(np.ones((2, 1), np.float32))]))
    assert made.parsed() == [{"x": [[1], [2]], "id": [7]}, {"x": [[3]], "id": [8]}]


@pytest.mark.parametrize(("holds", "content"), [("DataSet", b"\0"), ("MultiDataSet", bytes(16))])
def test_a_file_without_records_has_no_arrays(holds: str, content: bytes) -> None:
    made = Encoded("dl4jDataset", {"x": vectors([1]).slice(0, 0)}, holds=holds)
    assert made.content == content
    assert made.parsed() == []


numbers = st.floats(width=32)


@settings(max_examples=examples(40))
@given(
    rows=st.lists(
        st.tuples(st.lists(st.tuples(numbers, numbers), max_size=4), numbers, st.lists(numbers, max_size=3), st.integers(-(2**40), 2**40)),
        min_size=1,
        max_size=6,
    ),
    data=st.data(),
)
def test_every_value_comes_back_wherever_batches_are_cut(rows: list[tuple[Any, ...]], data: st.DataObject) -> None:
    steps, single, labels, whole = (list(column) for column in zip(*rows, strict=True))
    columns = {
        "steps": pa.array(steps, pa.list_(pa.list_(pa.float32(), 2))),
        "single": pa.array(single, pa.float32()),
        "labels": pa.array(labels, pa.list_(pa.float64())),
        "whole": pa.array(whole, pa.int64()),
    }
    options: dict[str, Any] = {
        "labels": ["labels"], "sequences": ["steps", "labels"], "dtypes": {"whole": "int64"}, "holds": "MultiDataSet",
    }  # fmt: skip
    made = Encoded("dl4jDataset", columns, **options)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    assert Encoded("dl4jDataset", columns, cuts=cuts, **options).content == made.content
    wanted = [
        {"steps": [list(step) for step in steps[n]], "single": [single[n]], "whole": [whole[n]], "labels": [[each] for each in labels[n]]}
        for n in range(len(rows))
    ]
    assert all_same(made.parsed(), wanted)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            {"b": pa.array([1.0]), "a": pa.array([1.0])},
            {},
            "A DataSet has one array of features, but there are 2: b, a. Join columns into one feature, or set output.dl4jDataset.holds: MultiDataSet.",
        ),
        ({"x": pa.array([1.0])}, {"labels": ["x"]}, "dl4jDataset needs at least one feature that isn't a label."),
        (
            {"x": pa.array([[1.0], [2.0, 3.0]])},
            {},
            "The feature 'x' has rows of different lengths, and dl4jDataset holds arrays of one shape.",
        ),
        ({"x": pa.array([True])}, {"dtypes": {"x": "bool"}}, "can't store bool"),
        ({"x": pa.array(["a"])}, {}, "The feature 'x' holds bytes or text, but dl4jDataset holds only arrays of numbers"),
    ],
)
def test_what_dl4j_has_no_array_for_is_refused(columns: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSpec) as caught:
        Encoded("dl4jDataset", columns, **options)
    assert message in str(caught.value)


# --- broken files -------------------------------------------------------------------------------------------------


def test_a_file_cut_anywhere_is_named_with_its_offset() -> None:
    made = Encoded("dl4jDataset", {"x": sequences([1.0, 2.0], [3.0]), "y": vectors([1], [2])}, labels=["y"], sequences=["x"])
    for size in range(len(made.content)):
        with pytest.raises(BrokenRecord, match=r"^truncated: \d+ of \d+ bytes at offset \d+$"):
            made.parsed(made.content[:size], piece=1 << 20)


def test_a_flipped_bit_outside_the_values_is_found() -> None:
    made = Encoded("dl4jDataset", {"x": vectors([1, 2], [3, 4])})
    for place in range(len(made.content) - 16):
        damaged = bytearray(made.content)
        damaged[place] ^= 1 << place % 8
        with pytest.raises(BrokenRecord, match=r" at offset \d+$"):
            made.parsed(bytes(damaged), piece=1 << 20)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x04", "flags 0x04, expected 0x01 at offset 0"),
        (bytes.fromhex(f"01{_SQUARE}") + bytes(17), "1 bytes after the last array at offset 146"),
        (b"\x01\x00\x04HEAP", "expected an ND4J buffer, got b'HEAP' at offset 1"),
        (
            b"\x01" + b"".join(array(np.ones((2, 2), np.int64))).replace(b"LONG", b"FLOX", 1),
            "expected the shape of an array, got 8 values of FLOX at offset 1",
        ),
    ],
    ids=["flags", "more bytes", "another buffer", "another type"],
)
def test_what_is_no_data_set_is_named(content: bytes, message: str) -> None:
    made = Encoded("dl4jDataset", {"x": vectors([1, 2], [3, 4])})
    with pytest.raises(BrokenRecord) as caught:
        made.parsed(content)
    assert str(caught.value) == message
