"""recordioProtobuf: bytes follow SageMaker's guide and dmlc's RecordIO, and all values are read back."""

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples
from tests.converter.formats.columns import same

from dataprep_api.spec import Feature, LabelFeature, Output
from dataprep_converter.core.errors import BadData, BadSpec, BrokenRecord
from dataprep_converter.core.tensors import to_arrow
from dataprep_converter.formats.recordio.recordio_decoder import RecordioDecoder, parse_record
from dataprep_converter.formats.recordio.recordio_encoder import RecordioEncoder, header, split_at_magic
from dataprep_converter.pipeline.features import resolve
from dataprep_converter.records.batch import SAMPLE, Batch

pytestmark = pytest.mark.usefixtures("native_and_python")

NO_MANIFEST: Any = None
"""The decoder needs no manifest, because the messages contain all that is needed."""
MAGIC_FLOAT = struct.unpack("<f", bytes.fromhex("0a23d7ce"))[0]


def encoded(columns: dict[str, Any], *, labels: list[str] | None = None, dtypes: dict[str, str] | None = None, **options: Any) -> bytes:
    """Project and encode a batch in the same way as a job. `dtypes` are the types set in the spec."""
    wanted = dtypes or {}
    output = Output.model_validate({"uri": "out", "format": "recordioProtobuf", "recordioProtobuf": options})
    records = pa.record_batch({**columns, SAMPLE: pa.array(range(len(next(iter(columns.values())))), pa.int64())})
    names = [name for name in columns if name not in (labels or [])]
    projector = resolve(
        [Feature(name=name, dtype=wanted.get(name)) for name in names],
        [LabelFeature(name=name, dtype=wanted.get(name)) for name in labels or []],
        schema=records.schema,
        default_label="",
        output=output,
    )
    batch = projector.project(Batch(records=records, bad=[], bytes_in=0))
    assert batch.bad == []
    encoder = RecordioEncoder(output, projector.features)
    return bytes(encoder.encode(batch.records)) + encoder.close()


def payloads(data: bytes, *, size: int = 1 << 20) -> list[bytes]:
    decoder = RecordioDecoder(NO_MANIFEST)
    return [payload for _, payload in decoder.read(data[at : at + size] for at in range(0, len(data), size))]


def parsed(data: bytes) -> list[dict[str, Any]]:
    decoder = RecordioDecoder(NO_MANIFEST)
    return [decoder.parse(payload) for payload in payloads(data)]


def vectors(*rows: list[float], dtype: str = "float32") -> Any:
    return to_arrow(np.array(rows, dtype))


# --- literal bytes ------------------------------------------------------------------------------------------------


def test_the_two_rows_of_the_csv_example() -> None:
    made = encoded({"features": vectors([1.0, 3.2, 4.5, 1.1, 6.3], [1.6, 2.4, 5.9, 0.2, 2.2]), "label": pa.array([0, 1])}, labels=["label"])
    assert len(made) == 128
    assert made[:64].hex() == (
        "0a23d7ce380000000a220a0676616c756573121812160a140000803fcdcc4c4000009040cdcc8c3f9a99c94012120a0676616c756573120812060a0400000000"
    )
    assert made[64:].hex().endswith("0a040000803f")


def test_a_sparse_record() -> None:
    columns = {
        "keys": pa.array([[3, 199]], pa.list_(pa.int64())),
        "x": pa.array([[1.5, 2.5]], pa.list_(pa.float32())),
        "label": pa.array([1]),
    }
    sparse = [{"name": "x", "keys": "keys", "values": "x", "shape": [200]}]
    made = encoded(columns, labels=["label"], sparse=sparse)
    assert made.hex() == (
        "0a23d7ce350000000a1f0a0676616c756573121512130a080000c03f00002040120303c7011a02c80112120a0676616c756573120812060a040000803f000000"
    )


def test_integers_are_int32_and_a_negative_one_takes_ten_bytes() -> None:
    made = encoded({"x": pa.array([-1], pa.int64())}, dtypes={"x": "int32"})
    assert payloads(made)[0].hex().endswith("3a0c0a0affffffffffffffffff01")


def test_data_that_holds_the_magic_number_is_split_there_and_joined_again() -> None:
    # The frames that dmlc writes for `abcd`, the magic number and `efgh`.
    frames = bytes.fromhex("0a23d7ce04000020616263640a23d7ce0400006065666768")
    assert list(RecordioDecoder(NO_MANIFEST).read([frames])) == [(0, bytes.fromhex("616263640a23d7ce65666768"))]
    # In this message, the tags, the lengths and the key take 20 bytes, so the offset of each float is a multiple of 4.
    made = encoded({"x": vectors([1.0, MAGIC_FLOAT, 2.0, MAGIC_FLOAT])})
    assert made.count(bytes.fromhex("0a23d7ce")) == 3
    assert [word >> 29 for word in struct.unpack(f"<{len(made) // 4}I", made)[1::1] if word >> 29 in (1, 2, 3) and word & 0xFFFFFF < 64][
        :1
    ] == [1]
    assert parsed(made) == [{"values": [1.0, MAGIC_FLOAT, 2.0, MAGIC_FLOAT]}]
    assert made[4:8] == (1 << 29 | 20).to_bytes(4, "little")


def test_the_frames_are_those_that_dmlc_writes() -> None:
    # MXNet's own writer gives the same bytes for this payload; see tests/interop/test_mxnet.py.
    payload = bytes.fromhex("61626364 0a23d7ce 65666768")
    made, sizes = split_at_magic(pa.array([header(len(payload)) + payload], pa.large_binary()))
    assert made.hex() == "0a23d7ce04000020616263640a23d7ce0400006065666768"
    assert list(sizes) == [24]


def test_only_records_with_the_number_are_split() -> None:
    rows = np.arange(40, dtype=np.float32).reshape(10, 4)
    rows[3, 0] = rows[7, 3] = MAGIC_FLOAT
    made = encoded({"x": to_arrow(rows)})
    assert [found["values"] for found in parsed(made)] == rows.tolist()
    assert payloads(made, size=7) == payloads(made)


# --- types and names ----------------------------------------------------------------------------------------------


def test_numbers_are_float32_unless_the_spec_says_otherwise() -> None:
    columns = {"a": pa.array([7], pa.uint8()), "b": pa.array([0.1], pa.float64()), "c": pa.array([0.1], pa.float64()), "d": pa.array([3])}
    (record,) = payloads(encoded(columns, dtypes={"c": "float64", "d": "int32"}))
    message = parse_record(record)
    kinds = {key: message.features[key].WhichOneof("value") for key in message.features}
    assert kinds == {"a": "float32_tensor", "b": "float32_tensor", "c": "float64_tensor", "d": "int64_tensor"}
    assert message.features["b"].float32_tensor.values[0] == np.float32(0.1)
    assert message.features["c"].float64_tensor.values[0] == 0.1


def test_a_type_that_the_format_has_not_is_refused() -> None:
    with pytest.raises(BadSpec, match="The feature 'x': recordioProtobuf can't store int64; it supports float32, float64, int32."):
        encoded({"x": pa.array([1])}, dtypes={"x": "int64"})


def test_several_features_keep_their_names_in_byte_order_and_tensors_their_shape() -> None:
    columns = {"b": pa.array([1.0]), "a": to_arrow(np.zeros((1, 2, 3), np.float32)), "y": pa.array([1]), "x": pa.array([2])}
    (record,) = payloads(encoded(columns, labels=["y", "x"]))
    message = parse_record(record)
    assert record.index(b"\x0a\x01a") < record.index(b"\x0a\x01b") < record.index(b"\x0a\x01x") < record.index(b"\x0a\x01y")
    assert list(message.features["a"].float32_tensor.shape) == [2, 3]
    assert list(message.features["b"].float32_tensor.shape) == []
    assert sorted(message.label) == ["x", "y"]


def test_bytes_have_a_content_type_and_texts_their_fields() -> None:
    columns = {
        "image": pa.array([b"\xff\xd8", b""], pa.large_binary()),
        "id": pa.array(["a:1", "ä"], pa.string()),
        "about": pa.array(["{}", None], pa.string()),
    }
    made = encoded(columns, contentType="image/jpeg", uid="id", metadata="about")
    first, second = (parse_record(payload) for payload in payloads(made))
    assert list(first.features["values"].bytes.value) == [b"\xff\xd8"]
    assert first.features["values"].bytes.content_type == "image/jpeg"
    assert (first.uid, first.metadata, second.uid, second.metadata) == ("a:1", "{}", "ä", "")
    assert not first.HasField("configuration")


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"x": pa.array([1.0])}, {"uid": "id"}, "output.recordioProtobuf.uid: 'id' isn't a feature of text; the features are x."),
        ({"x": pa.array([1.0])}, {"uid": "x"}, "output.recordioProtobuf.uid: 'x' isn't a feature of text; the features are x."),
        (
            {"x": pa.array([1.0])},
            {"sparse": [{"name": "x", "keys": "k", "values": "x", "shape": [3]}]},
            "output.recordioProtobuf.sparse: 'x' isn't a feature of lists; the features are x.",
        ),
    ],
)
def test_options_that_name_nothing_are_refused(columns: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSpec) as caught:
        encoded(columns, **options)
    assert str(caught.value) == message


def test_a_record_of_labels_alone_is_refused() -> None:
    with pytest.raises(BadSpec, match="needs at least one feature that isn't a label"):
        encoded({"y": pa.array([1])}, labels=["y"])


def test_keys_outside_the_shape_and_of_another_number_are_refused() -> None:
    sparse = [{"name": "x", "keys": "k", "values": "x", "shape": [10, 20]}]
    lists = pa.list_(pa.int64()), pa.list_(pa.float32())
    with pytest.raises(BadData, match=r"The sparse feature 'values' has the key 200, which is outside its shape \[10, 20\]."):
        encoded({"k": pa.array([[0, 200]], lists[0]), "x": pa.array([[1.0, 2.0]], lists[1])}, sparse=sparse)
    with pytest.raises(BadData, match="has different numbers of keys and values in a record"):
        encoded({"k": pa.array([[0]], lists[0]), "x": pa.array([[1.0, 2.0]], lists[1])}, sparse=sparse)


# --- all values ---------------------------------------------------------------------------------------------------

floats = st.floats(width=32)


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(
    rows=st.lists(
        st.tuples(
            st.lists(floats, max_size=5),
            st.integers(-(2**31), 2**31 - 1),
            st.binary(max_size=9),
            st.lists(st.integers(0, 10**12), max_size=4),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_every_value_comes_back(rows: list[tuple[list[float], int, bytes, list[int]]]) -> None:
    ragged, ints, content, keys = (list(column) for column in zip(*rows, strict=True))
    values = [[float(number) for number in range(len(each))] for each in keys]
    columns = {
        "ragged": pa.array(ragged, pa.list_(pa.float32())),
        "int": pa.array(ints, pa.int64()),
        "bytes": pa.array(content, pa.large_binary()),
        "wide": pa.array([float(number) for number in ints], pa.float64()),
        "keys": pa.array(keys, pa.list_(pa.int64())),
        "sparse": pa.array(values, pa.list_(pa.float64())),
    }
    sparse = [{"name": "s", "keys": "keys", "values": "sparse", "shape": [10**12 + 1]}]
    found = parsed(encoded(columns, dtypes={"int": "int32", "wide": "float64"}, sparse=sparse))
    assert same([record["ragged"] for record in found], ragged)
    assert [record["int"] for record in found] == [[number] for number in ints]
    assert [record["wide"] for record in found] == [[float(number)] for number in ints]
    assert [record["bytes"] for record in found] == [[value] for value in content]
    assert [record["s"] for record in found] == values
    assert [record.get("s:keys", []) for record in found] == keys


def test_a_batch_without_records_is_no_bytes() -> None:
    assert encoded({"x": pa.array([], pa.float32())}) == b""


# --- broken files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"\0" * 8, "expected the magic number, got 0x00000000 at offset 0"),
        (header(4) + b"ab", "truncated record (10 bytes) at offset 0"),
        (header(2) + b"ab\0\1", "bytes other than zero after the data at offset 0"),
        (header(4) + b"abcd" + header(4, 2) + b"abcd", "a part of a record without its beginning at offset 12"),
        (header(4, 1) + b"abcd", "a record without its end at offset 0"),
        (header(4, 1) + b"abcd" + header(4) + b"abcd", "a record begins within another at offset 12"),
        (header(4, 5) + b"abcd", "unknown flag 5 at offset 0"),
    ],
)
def test_what_is_broken_is_named_with_its_offset(data: bytes, fault: str) -> None:
    with pytest.raises(BrokenRecord) as caught:
        payloads(data)
    assert str(caught.value) == fault


def test_a_payload_that_is_no_record_is_named() -> None:
    with pytest.raises(BrokenRecord, match="not a message of the type Record"):
        parse_record(b"\xff\xff")
