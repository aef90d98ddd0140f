"""Compare the TFRecord encoder with golden bytes and with protobuf's own code."""

import hashlib
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.converter.formats.late import read_late
from tests.converter.formats.tfrecord_bytes import OUTPUT, encoded, payloads

from dataprep_api.spec import Output
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.framing import frame, header
from dataprep_converter.core.tensors import to_arrow
from dataprep_converter.formats.tfrecord import records, tfrecord_encoder
from dataprep_converter.formats.tfrecord.tfrecord_encoder import TfrecordEncoder
from dataprep_converter.records.feature import FeatureSpec

pytestmark = pytest.mark.usefixtures("native_and_python")

SYNTHETIC = {
    # name: (first image, end of the images, SHA-256 for sorted keys). The digests come from hand-written wire bytes.
    "validation": (0, 5_000, "1c95197f5308779e02693ff20778c6a1c1a6b46c740eef9f7292da97be1ff08f"),
    "train": (5_000, 60_000, "28a652fb317ed340e8b88ecfa5433215e66edec6c6e9b3f44f5100505623e1bc"),
    "test": (60_000, 70_000, "61caa6da3a1d08944a2b7b41380bba17b992fe56e3f23c453302d5fbb511b9c5"),
}
CSV_ROW_1 = (
    "3800000000000000a3797d570a360a240a086665617475726573121812160a140000803fcdcc4c4000009040cdcc8c3f9a99c940"
    "0a0e0a056c6162656c12051a030a01009c52cbf5"
)
CSV_ROW_2 = (
    "3800000000000000a3797d570a360a240a086665617475726573121812160a14cdcccc3f9a991940cdccbc40cdcc4c3ecdcc0c40"
    "0a0e0a056c6162656c12051a030a010105a7e32e"
)
CSV_REGRESSION_ROW = (
    "3b000000000000001a23ac5c0a390a1c0a0866656174757265731210120e0a0c0000803fcdcc4c40000090400a190a056c6162656c"
    "1210120e0a0ccdcc8c3f9a99c9400000000036efb213"
)


def a_feature(name: str, kind: str, **changes: Any) -> FeatureSpec:
    return FeatureSpec(**{"name": name, "kind": kind, "dtype": "bytes", "shape": (), **changes})


MNIST = [
    a_feature("image_raw", "bytes", dtype="uint8", shape=(28, 28), raw=True),
    *(a_feature(name, "int64", dtype="int64") for name in ("height", "width", "depth", "label")),
]


def mnist(images: np.ndarray[Any, np.dtype[np.uint8]], labels: np.ndarray[Any, np.dtype[np.int64]]) -> pa.RecordBatch:
    count = len(labels)
    constants = {name: np.full(count, value, np.int64) for name, value in (("height", 28), ("width", 28), ("depth", 1))}
    return pa.record_batch({"image_raw": to_arrow(images.reshape(-1, 28, 28)), "label": labels, **constants})


def test_a_record_without_data_is_sixteen_bytes() -> None:
    assert frame(b"").hex() == "000000000000000029039807d8ea82a2"
    assert encoded({"ignored": [1]}, []) == frame(b"")


def test_every_mnist_record_begins_with_the_same_twelve_bytes() -> None:
    assert header(875).hex() == "6b030000000000007d5f1878"


def test_a_blank_mnist_record_has_its_golden_bytes() -> None:
    record = bytes(TfrecordEncoder(OUTPUT, MNIST).encode(mnist(np.zeros((1, 784), np.uint8), np.zeros(1, np.int64))))
    before = "0ae8060a0e0a05646570746812051a030a01010a0f0a0668656967687412051a030a011c0aa4060a09696d6167655f7261771296060a93060a9006"
    after = "0a0e0a056c6162656c12051a030a01000a0e0a05776964746812051a030a011c"
    assert record[12:-4] == bytes.fromhex(before) + bytes(784) + bytes.fromhex(after)
    assert record[-4:].hex() == "5e67c67d"
    assert hashlib.sha256(record).hexdigest() == "601bb73da62bd115b3321b1f13a3be3983df55cc305bbe0d12f9a43b758bdf54"


@pytest.mark.parametrize(("first", "after", "sha256"), SYNTHETIC.values(), ids=SYNTHETIC.keys())
@pytest.mark.parametrize("batch_records", [701, 5_000])
def test_synthetic_mnist_has_its_golden_digest(first: int, after: int, sha256: str, batch_records: int) -> None:
    encoder = TfrecordEncoder(OUTPUT, MNIST)
    digest = hashlib.sha256()
    for start in range(first, after, batch_records):
        numbers = np.arange(start, min(start + batch_records, after))
        pixels = (31 * numbers[:, None] + 7 * np.arange(784)).astype(np.uint8)
        digest.update(encoder.encode(mnist(pixels, numbers % 10)))
    assert digest.hexdigest() == sha256


CSV = [a_feature("features", "float", dtype="float32", shape=(5,)), a_feature("label", "int64", dtype="int64")]
ROWS = np.array([[1.0, 3.2, 4.5, 1.1, 6.3], [1.6, 2.4, 5.9, 0.2, 2.2]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_csv_rows_have_their_golden_bytes(dtype: str) -> None:
    made = encoded({"features": to_arrow(ROWS.astype(dtype)), "label": [0, 1]}, CSV)
    assert made.hex() == CSV_ROW_1 + CSV_ROW_2
    assert len(made) == 2 * 72


def test_a_csv_row_for_regression_has_its_golden_bytes() -> None:
    features = [a_feature(name, "float", dtype="float32", shape=(3,)) for name in ("features", "label")]
    made = encoded({"features": to_arrow(ROWS[:1, :3]), "label": to_arrow(np.array([[1.1, 6.3, 0.0]]))}, features)
    assert made.hex() == CSV_REGRESSION_ROW


def test_a_one_hot_label_makes_111_bytes() -> None:
    features = [CSV[0], a_feature("label", "float", dtype="float32", shape=(10,))]
    assert len(encoded({"features": to_arrow(ROWS[1:]), "label": to_arrow(np.eye(10)[1:2])}, features)) == 111


# Maps a name to (kind, column, values that protobuf must find in each row).
KINDS: dict[str, tuple[str, Any, list[list[Any]]]] = {
    "bool": ("int64", pa.array([True, False]), [[1], [0]]),
    "int8": ("int64", pa.array([-128, 127], pa.int8()), [[-128], [127]]),
    "uint32": ("int64", pa.array([0, 2**32 - 1], pa.uint32()), [[0], [2**32 - 1]]),
    "int64": ("int64", pa.array([-(2**63), 2**63 - 1]), [[-(2**63)], [2**63 - 1]]),
    "wide ints of one width": ("int64", pa.array([300, 16_383]), [[300], [16_383]]),
    "float16": ("float", pa.array(np.array([0.5, -2.0], np.float16)), [[0.5], [-2.0]]),
    "float64": ("float", pa.array([1.1, 1e39]), [[float(np.float32(1.1))], [float("inf")]]),
    "string": ("bytes", pa.array(["", "é"]), [[b""], ["é".encode()]]),
    "strings of one length": ("bytes", pa.array(["ab", "cd"]), [[b"ab"], [b"cd"]]),
    "large string": ("bytes", pa.array(["a", "bcd"], pa.large_string()), [[b"a"], [b"bcd"]]),
    "dictionary": ("bytes", pa.array(["dog", "ox"]).dictionary_encode(), [[b"dog"], [b"ox"]]),
    "int lists": ("int64", pa.array([[], [1, -1]]), [[], [1, -1]]),
    "float lists": ("float", pa.array([[0.5], [1.5, 2.5]], pa.large_list(pa.float32())), [[0.5], [1.5, 2.5]]),
    "string lists": ("bytes", pa.array([["a", ""], []]), [[b"a", b""], []]),
    "no strings at all": ("bytes", pa.array([[], []], pa.list_(pa.binary())), [[], []]),
    "fixed int lists": ("int64", pa.array([[1, 2], [3, 400]], pa.list_(pa.int32(), 2)), [[1, 2], [3, 400]]),
    "fixed string lists": ("bytes", pa.array([["a", "b"], ["c", "dd"]], pa.list_(pa.string(), 2)), [[b"a", b"b"], [b"c", b"dd"]]),
    "bool lists": ("int64", pa.array([[True], [False, True]]), [[1], [0, 1]]),
    "tensors as values": ("int64", to_arrow(np.array([[[1, 2]], [[3, 255]]], np.uint8)), [[1, 2], [3, 255]]),
    "float tensors": ("float", to_arrow(np.array([[[1.0], [2.0]], [[3.0], [4.0]]])), [[1.0, 2.0], [3.0, 4.0]]),
    "empty vectors": ("float", pa.array([[], []], pa.list_(pa.float32(), 0)), [[], []]),
    "nulls among ints": ("int64", pa.array([None, 7]), [[], [7]]),
    "nulls among floats": ("float", pa.array([0.5, None]), [[0.5], []]),
    "nulls among strings": ("bytes", pa.array([None, "x"]), [[], [b"x"]]),
    "nulls among binaries": ("bytes", pa.array([b"\xff", None]), [[b"\xff"], []]),
    "nulls among lists": ("int64", pa.array([None, [1, 2]]), [[], [1, 2]]),
    "nulls among string lists": ("bytes", pa.array([["a"], None]), [[b"a"], []]),
    "nulls among fixed lists": ("float", pa.array([None, [1.0, 2.0]], pa.list_(pa.float32(), 2)), [[], [1.0, 2.0]]),
}


@pytest.mark.parametrize(("kind", "column", "expected"), KINDS.values(), ids=KINDS.keys())
def test_every_kind_of_column_is_read_back_by_protobuf(kind: str, column: Any, expected: list[list[Any]]) -> None:
    around = [a_feature("a", "int64"), a_feature("x", kind), a_feature("z", "bytes")]
    made = encoded({"x": column, "z": ["end", "end"], "a": [1, 2]}, around)
    found = [records.parse_example(payload) for payload in payloads(made)]
    assert found == [{"a": [row + 1], "x": expected[row], "z": [b"end"]} for row in range(2)]


@pytest.mark.parametrize(("kind", "column", "expected"), KINDS.values(), ids=KINDS.keys())
def test_a_slice_of_a_column_gives_the_same_bytes_as_its_rows(kind: str, column: Any, expected: list[list[Any]]) -> None:
    features = [a_feature("x", kind)]
    both = pa.record_batch({"x": pa.concat_arrays([column, column, column])}).slice(2, 2)
    assert bytes(TfrecordEncoder(OUTPUT, features).encode(both)) == encoded({"x": column}, features)
    assert len(expected) == 2


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "float16", "float32", "float64", "bool"])
def test_a_raw_tensor_is_its_bytes_row_major_and_little_endian(dtype: str) -> None:
    values = np.arange(12).reshape(2, 2, 3).astype(dtype)
    found = payloads(encoded({"x": to_arrow(values)}, [a_feature("x", "bytes", dtype=dtype, shape=(2, 3), raw=True)]))
    assert [records.parse_example(payload) for payload in found] == [{"x": [values[row].tobytes()]} for row in range(2)]


def test_a_permuted_tensor_is_written_in_the_order_of_its_shape() -> None:
    storage = pa.array([[0, 1, 2, 3, 4, 5]], pa.list_(pa.int64(), 6))
    permuted: Any = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int64(), (2, 3), permutation=[1, 0]), storage)
    made = payloads(encoded({"x": permuted}, [a_feature("x", "int64", shape=(3, 2))]))
    assert records.parse_example(made[0]) == {"x": permuted.to_numpy_ndarray()[0].ravel().tolist()}


def test_keys_stand_in_the_order_of_their_bytes() -> None:
    names = ["b", "ab", "a", "f10", "f1", "é", "Z"]
    payload = payloads(encoded({name: [1] for name in names}, [a_feature(name, "int64") for name in names]))[0]
    places = [payload.index(b"\x0a" + bytes([len(name.encode())]) + name.encode()) for name in sorted(names, key=str.encode)]
    assert places == sorted(places)


def test_a_null_is_a_feature_without_a_value_and_an_empty_list_a_list_without_values() -> None:
    made = payloads(encoded({"t": pa.array([None, []], pa.list_(pa.int64()))}, [a_feature("t", "int64")]))
    assert [payload.hex() for payload in made] == ["0a070a050a01741200", "0a090a070a017412021a00"]


@pytest.mark.parametrize(
    ("kind", "column", "named"),
    [("int64", pa.array([0.5]), "double"), ("float", pa.array([1]), "int64"), ("bytes", pa.array([1]), "int64"),
     ("int64", pa.array([[[1]]]), "list<item: list"), ("int64", pa.array([1], pa.uint64()), "uint64"), ("int64", pa.array([1], pa.timestamp("s")), "timestamp")],
)  # fmt: skip
def test_a_column_that_the_feature_cannot_hold_is_refused_by_name(kind: str, column: Any, named: str) -> None:
    with pytest.raises(BadSpec, match=rf"The feature 'x' must hold {kind}, but the type of its column is {named}"):
        encoded({"x": column}, [a_feature("x", kind)])


def test_a_null_inside_a_list_is_refused() -> None:
    with pytest.raises(BadSpec, match="A list contains a null"):
        encoded({"x": pa.array([[1, None]])}, [a_feature("x", "int64")])


def test_a_batch_without_rows_gives_no_bytes() -> None:
    assert encoded({"x": pa.array([], pa.int64())}, [a_feature("x", "int64")]) == b""


def test_values_of_a_megabyte_are_read_back() -> None:
    values = [bytes([n]) * (1_000_000 + n) for n in range(3)]
    ints = [list(range(-50_000, 50_000))] * 3
    made = encoded({"v": values, "i": ints}, [a_feature("v", "bytes"), a_feature("i", "int64")])
    assert [records.parse_example(payload) for payload in payloads(made)] == [{"i": ints[0], "v": [value]} for value in values]


def test_the_buffer_of_one_call_may_be_used_until_the_call_after_the_next() -> None:
    encoder = TfrecordEncoder(OUTPUT, [a_feature("x", "int64")])
    batches = [pa.record_batch({"x": [n, n + 1]}) for n in range(5)]
    expected = [bytes(TfrecordEncoder(OUTPUT, [a_feature("x", "int64")]).encode(batch)) for batch in batches]
    assert [*read_late(encoder, batches)] == expected


def test_layouts_of_equal_width_and_other_shape_follow_one_another() -> None:
    encoder = TfrecordEncoder(OUTPUT, [a_feature("x", "int64")])
    two = encoder.encode(pa.record_batch({"x": pa.array([[1, 2]], pa.list_(pa.int64(), 2))}))
    assert records.parse_example(payloads(bytes(two))[0]) == {"x": [1, 2]}
    wide = encoder.encode(pa.record_batch({"x": pa.array([[300]], pa.list_(pa.int64(), 1))}))
    assert records.parse_example(payloads(bytes(wide))[0]) == {"x": [300]}


@pytest.mark.parametrize(("compression", "extension"), [("None", "tfrecords"), ("Gzip", "tfrecords.gz")])
def test_the_extension_tells_compression(compression: str, extension: str) -> None:
    assert TfrecordEncoder.extension(Output.model_validate({"uri": "x", "tfrecord": {"compression": compression}})) == extension


# --- properties ---------------------------------------------------------------------------------------------------

INT64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 300)
FLOAT32 = st.floats(width=32)
BYTES = st.binary(max_size=300)
COLUMN_KINDS: dict[str, tuple[pa.DataType, Any, str]] = {
    "i": (pa.int64(), INT64, "int64"),
    "f": (pa.float32(), FLOAT32, "float"),
    "b": (pa.binary(), BYTES, "bytes"),
    "il": (pa.list_(pa.int64()), st.lists(INT64, max_size=6), "int64"),
    "fl": (pa.list_(pa.float32()), st.lists(FLOAT32, max_size=40), "float"),
    "bl": (pa.list_(pa.binary()), st.lists(BYTES, max_size=4), "bytes"),
    "ni": (pa.int64(), st.none() | INT64, "int64"),
    "nb": (pa.binary(), st.none() | BYTES, "bytes"),
    "nf": (pa.list_(pa.float32()), st.none() | st.lists(FLOAT32, max_size=3), "float"),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, Any], list[FeatureSpec], list[dict[str, list[Any]]]]:
    rows = draw(st.integers(0, 9))
    names = draw(st.lists(st.text(st.characters(codec="utf-8"), max_size=130), max_size=5, unique=True))
    columns: dict[str, Any] = {}
    features: list[FeatureSpec] = []
    expected: list[dict[str, list[Any]]] = [{} for _ in range(rows)]
    for name in names:
        kind, values, stored = COLUMN_KINDS[draw(st.sampled_from(sorted(COLUMN_KINDS)))]
        column = draw(st.lists(values, min_size=rows, max_size=rows))
        columns[name] = pa.array(column, kind)
        features.append(a_feature(name, stored))
        for row, value in zip(expected, column, strict=True):
            row[name] = [] if value is None else value if isinstance(value, list) else [value]
    columns[""] = columns.get("", pa.array([0] * rows, pa.int64()))
    return columns, features, expected


@pytest.mark.slow
@given(tables())
def test_any_table_is_read_back_by_protobuf(table: tuple[dict[str, Any], list[FeatureSpec], list[dict[str, list[Any]]]]) -> None:
    columns, features, expected = table
    found = [records.parse_example(payload) for payload in payloads(encoded(columns, features))]
    # repr is compared, because NaN doesn't equal itself.
    assert repr(found) == repr([dict(sorted(row.items())) for row in expected])


@pytest.mark.slow
@given(tables(), st.integers(1, 4))
def test_the_bytes_do_not_depend_on_how_batches_are_cut(
    table: tuple[dict[str, Any], list[FeatureSpec], list[dict[str, list[Any]]]], size: int
) -> None:
    columns, features, _ = table
    batch = pa.record_batch(columns)
    encoder = TfrecordEncoder(OUTPUT, features)
    cut = b"".join(read_late(encoder, (batch.slice(start, size) for start in range(0, batch.num_rows, size))))
    assert cut == encoded(columns, features)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [300, pytest.param(1_000, marks=pytest.mark.nightly)])
def test_rows_of_many_layouts_give_the_bytes_of_one_row_at_a_time(rows: int) -> None:
    random = np.random.default_rng(7)
    columns = {
        "id": random.integers(0, 1 << 40, rows),
        "age": random.integers(0, 100, rows),
        "text": [random.bytes(length) for length in random.integers(0, 400, rows)],
        "scores": pa.array([random.random(length) for length in random.integers(0, 9, rows)], pa.list_(pa.float32())),
        "weight": random.random(rows),
        "thumb": to_arrow(random.integers(0, 256, (rows, 20, 30), dtype=np.uint8)),
    }
    features = [
        a_feature("id", "int64"), a_feature("age", "int64"), a_feature("text", "bytes"), a_feature("scores", "float"),
        a_feature("weight", "float"), a_feature("thumb", "bytes", raw=True),
    ]  # fmt: skip
    batch = pa.record_batch(columns)
    single = TfrecordEncoder(OUTPUT, features)
    assert encoded(columns, features) == b"".join(bytes(single.encode(batch.slice(row, 1))) for row in range(rows))


@pytest.mark.parametrize("order", ["image z text", "z image text", "text z image"])
def test_large_values_are_not_copied_and_give_the_bytes_of_joined_ones(monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    random = np.random.default_rng(7)
    first, last, text = order.split()
    images = pa.array([random.bytes(length) for length in (40_000, 0, 70_000, 16_384)] + [None], pa.large_binary())
    columns = {first: images, last: images, text: ["a", "bc", "", None, "d"], "id": [1, 300, 2, 70_000, 3]}
    features = [a_feature(first, "bytes"), a_feature(last, "bytes"), a_feature(text, "bytes"), a_feature("id", "int64")]
    batch = pa.record_batch(columns).slice(1)
    encoder = TfrecordEncoder(OUTPUT, features)
    pieces = encoder.pieces(batch)
    sizes = encoder.sizes().tolist()
    monkeypatch.setattr(tfrecord_encoder, "_LARGE_VALUE", 1 << 40)
    joined = bytes(encoder.encode(batch))
    assert b"".join(pieces) == joined
    assert sizes == encoder.sizes().tolist() == [len(frame(payload)) for payload in payloads(joined)]
    assert sum(len(piece) >= 16_384 for piece in pieces) == 4


def test_a_large_value_is_written_from_where_it_is() -> None:
    column = pa.array([b"a" * 20_000, b"b" * 20_000], pa.large_binary())
    pieces = TfrecordEncoder(OUTPUT, [a_feature("image", "bytes")]).pieces(pa.record_batch({"image": column}))
    values = column.buffers()[2]
    assert values is not None
    held = np.frombuffer(memoryview(values), np.uint8)
    assert [np.shares_memory(np.frombuffer(piece, np.uint8), held) for piece in pieces] == [False, True, False, True, False]


def test_large_tensors_of_one_size_are_written_from_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(8)
    pixels = random.integers(0, 256, (5, 90, 80, 3), np.uint8)
    batch = pa.record_batch({"id": random.integers(0, 9, 5), "image": to_arrow(pixels), "weight": random.random(5)})
    features = [a_feature("id", "int64"), a_feature("image", "bytes", raw=True), a_feature("weight", "float")]
    encoder = TfrecordEncoder(OUTPUT, features)
    pieces = encoder.pieces(batch)
    sizes = encoder.sizes().tolist()
    assert sum(np.shares_memory(np.frombuffer(piece, np.uint8), pixels) for piece in pieces) == 5
    monkeypatch.setattr(tfrecord_encoder, "_LARGE_VALUE", 1 << 40)
    assert b"".join(pieces) == bytes(encoder.encode(batch))
    assert sizes == encoder.sizes().tolist()


def test_a_numeric_table_is_not_encoded_row_by_row() -> None:
    rows = 20_000
    columns = {f"f{n}": np.random.default_rng(n).random(rows) for n in range(22)}
    encoder = TfrecordEncoder(OUTPUT, [a_feature(name, "float") for name in columns])
    batch = pa.record_batch(columns)
    started = time.thread_time()
    encoder.encode(batch)
    # The limit is a tenth of the usual speed, to allow for busy machines. Even this limit is several times faster than building protobuf
    # messages.
    assert rows / (time.thread_time() - started) > 100_000
