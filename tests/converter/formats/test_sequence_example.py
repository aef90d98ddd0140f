"""Compare SequenceExamples with golden bytes and with protobuf's own code, and convert columns of lists to records and back."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.converter.formats.late import read_late
from tests.converter.formats.tfrecord_bytes import encoded, payloads

from dataprep_api.spec import Output
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.framing import frame
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.formats.tfrecord.tfrecord_encoder import TfrecordEncoder
from dataprep_converter.records.feature import FeatureSpec

pytestmark = pytest.mark.usefixtures("native_and_python")

OUTPUT = Output(uri="out")
STEPS = [[1.0, 3.2, 4.5, 1.1, 6.3], [1.6, 2.4, 5.9, 0.2, 2.2], [1.0, 2.0, 3.0, 4.0, 5.0]]
THREE_STEPS_SHA256 = "7d3e3421db2edefd46af7fe368ab6651fe36e93354f7c4dfde6ced83db2836cf"
"""The digest of the framed record with the labels 0, 1, 9, computed from hand-written wire bytes."""


def a_sequence(name: str, kind: str, *, shape: tuple[int, ...] = (-1,), **changes: Any) -> FeatureSpec:
    return FeatureSpec(**{"name": name, "kind": kind, "dtype": "bytes", "shape": shape, "sequence": True, **changes})


def a_context(name: str, kind: str) -> FeatureSpec:
    return FeatureSpec(name, kind, "bytes", ())


def parsed(columns: Mapping[str, Any], features: Sequence[FeatureSpec]) -> list[dict[str, list[Any]]]:
    return [records.parse_example(payload) for payload in payloads(encoded(columns, features))]


CSV = [a_sequence("features", "float", shape=(-1, 5)), a_sequence("label", "int64")]
VECTORS = pa.list_(pa.list_(pa.float32(), 5))


def test_three_steps_have_their_golden_digest() -> None:
    made = encoded({"features": pa.array([STEPS], VECTORS), "label": pa.array([[0, 1, 9]])}, CSV)
    assert (len(payloads(made)[0]), len(made)) == (126, 142)
    assert hashlib.sha256(made).hexdigest() == THREE_STEPS_SHA256


@pytest.mark.parametrize("kind", [VECTORS, pa.list_(pa.list_(pa.float32())), pa.large_list(pa.list_(pa.float64(), 5))])
def test_sequences_of_different_lengths_have_the_bytes_of_each_alone(kind: pa.DataType) -> None:
    rows = [STEPS, [*STEPS, *STEPS[:2]]]
    made = encoded({"features": pa.array(rows, kind), "label": pa.array([[0, 1, 9], [0, 1, 9, 0, 1]])}, CSV)
    assert hashlib.sha256(made[:142]).hexdigest() == THREE_STEPS_SHA256
    assert [len(payload) for payload in payloads(made)] == [126, 195]
    assert len(made) == 142 + 211


def test_a_context_stands_before_the_sequences() -> None:
    features = [a_sequence("t", "float", shape=(-1, 2)), a_context("id", "int64")]
    made = payloads(encoded({"t": pa.array([[[0.0, 0.0], [0.0, 0.0]]], pa.list_(pa.list_(pa.float32(), 2))), "id": [7]}, features))[0]
    vector = "0a0c120a0a08" + "00" * 8
    assert made.hex() == "0a0d0a0b0a02696412051a030a01071223" + "0a210a0174121c" + 2 * vector


def test_the_keys_of_both_maps_stand_in_the_order_of_their_bytes() -> None:
    names = ["b", "ab", "a", "é", "Z"]
    features = [*(a_context(name, "int64") for name in names), *(a_sequence(f"{name}s", "int64") for name in names)]
    made = payloads(encoded({f.name: [[1]] if f.sequence else [1] for f in features}, features))[0]
    keys = sorted(name.encode() for name in names) + sorted(f"{name}s".encode() for name in names)
    places = [made.index(b"\x0a" + bytes([len(key)]) + key) for key in keys]
    assert places == sorted(places)


def test_a_sequence_without_steps_is_an_empty_list() -> None:
    made = payloads(encoded({"t": pa.array([[], None], pa.list_(pa.int64()))}, [a_sequence("t", "int64")]))
    assert [payload.hex() for payload in made] == ["12070a050a01741200"] * 2


def test_a_step_without_values_is_a_list_without_values() -> None:
    made = payloads(encoded({"t": pa.array([[[]]], pa.list_(pa.list_(pa.int64())))}, [a_sequence("t", "int64", shape=(-1, -1))]))
    assert made[0].hex() == "120b0a090a017412040a021a00"


# Maps a name to (kind, type of a step, steps of each row, changes to the feature).
KINDS: dict[str, tuple[str, pa.DataType, list[list[Any]]]] = {
    "floats": ("float", pa.float32(), [[0.5], [], [1.5, -2.0]]),
    "doubles": ("float", pa.float64(), [[0.5], [0.25]]),
    "small ints": ("int64", pa.int32(), [[1, 2], [3]]),
    "ints of one width": ("int64", pa.int64(), [[300, 301], [16_383]]),
    "ints of any width": ("int64", pa.int64(), [[0, -1, 2**63 - 1], [-(2**63)], [127, 128]]),
    "bools": ("int64", pa.bool_(), [[True, False], [True]]),
    "texts": ("bytes", pa.string(), [["", "é"], [], ["a" * 300]]),
    "bytes of one length": ("bytes", pa.binary(), [[b"ab", b"\xff\x00"], [b"cd"]]),
    "words of a dictionary": ("bytes", pa.dictionary(pa.int32(), pa.string()), [["dog", "ox"], ["dog"]]),
    "vectors of floats": ("float", pa.list_(pa.float32(), 2), [[[0.5, 1.5], [2.5, 3.5]], [[4.5, 5.5]]]),
    "vectors of ints": ("int64", pa.list_(pa.int64(), 2), [[[1, 300], [-1, 4]], []]),
    "vectors of texts": ("bytes", pa.list_(pa.string(), 2), [[["a", ""], ["b", "cd"]], [["e", "f"]]]),
    "ragged floats": ("float", pa.list_(pa.float32()), [[[0.5], [], [1.5, 2.5]], []]),
    "ragged ints": ("int64", pa.large_list(pa.int64()), [[[1, -2], [300]], [[]]]),
    "ragged texts": ("bytes", pa.list_(pa.binary()), [[[b"a", b""], []], [[b"\xff"]]]),
}


def expected_steps(steps: Sequence[Any]) -> list[list[Any]]:
    """Convert steps to their form in records: each step is a list, texts are bytes, and true is 1."""
    lists = [step if isinstance(step, list) else [step] for step in steps]
    return [[value.encode() if isinstance(value, str) else int(value) if value is True else value for value in step] for step in lists]


@pytest.mark.parametrize(("kind", "step", "rows"), KINDS.values(), ids=KINDS.keys())
def test_every_kind_of_step_is_read_back_by_protobuf(kind: str, step: pa.DataType, rows: list[list[Any]]) -> None:
    features = [a_sequence("x", kind), a_context("z", "bytes"), a_context("a", "int64")]
    columns = {"x": pa.array(rows, pa.list_(step)), "z": ["end"] * len(rows), "a": list(range(len(rows)))}
    assert parsed(columns, features) == [{"a": [row], "x": expected_steps(steps), "z": [b"end"]} for row, steps in enumerate(rows)]


@pytest.mark.parametrize(("kind", "step", "rows"), KINDS.values(), ids=KINDS.keys())
def test_a_slice_gives_the_bytes_of_its_rows(kind: str, step: pa.DataType, rows: list[list[Any]]) -> None:
    column = pa.array(rows, pa.list_(step))
    sliced = pa.record_batch({"x": pa.concat_arrays([column, column])}).slice(len(rows) - 1, 2)
    features = [a_sequence("x", kind)]
    expected = encoded({"x": pa.array([rows[-1], rows[0]], pa.list_(step))}, features)
    assert bytes(TfrecordEncoder(OUTPUT, features).encode(sliced)) == expected


def test_raw_steps_are_the_bytes_of_each() -> None:
    frames = np.arange(12, dtype=np.uint8).reshape(1, 3, 4)
    column = pa.array(frames.tolist(), pa.list_(pa.list_(pa.uint8(), 4)))
    found = parsed({"x": column}, [a_sequence("x", "bytes", dtype="uint8", shape=(-1, 2, 2), raw=True)])
    assert found == [{"x": [[frame.tobytes()] for frame in frames[0]]}]


def test_a_column_without_steps_is_refused_by_name() -> None:
    with pytest.raises(BadSpec, match="The feature 'x' must hold steps of float, but the type of its column is double"):
        encoded({"x": [0.5]}, [a_sequence("x", "float")])


def test_a_null_among_the_steps_is_refused() -> None:
    with pytest.raises(BadSpec, match="A list contains a null"):
        encoded({"x": pa.array([[1, None]])}, [a_sequence("x", "int64")])


@pytest.mark.parametrize("values", [[b"one", b"", b"three" * 2000], [b"ab", b"cd"]], ids=["of any length", "of one length"])
def test_a_record_that_is_serialised_already_is_framed_as_it_is(values: list[bytes]) -> None:
    feature = FeatureSpec("record", "bytes", "bytes", (), record=True)
    assert encoded({"record": values}, [feature]) == b"".join(map(frame, values))


def test_a_whole_record_beside_other_features_is_refused() -> None:
    features = [FeatureSpec("record", "bytes", "bytes", (), record=True), a_context("a", "int64")]
    with pytest.raises(BadSpec, match="The feature 'record' is a complete record, so it must be the only feature"):
        TfrecordEncoder(OUTPUT, features)


# --- properties ---------------------------------------------------------------------------------------------------

INT64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 300)
FLOAT32 = st.floats(width=32)
BYTES = st.binary(max_size=200)
STEP_KINDS: dict[str, tuple[str, pa.DataType, Any]] = {
    "ints": ("int64", pa.int64(), INT64),
    "floats": ("float", pa.float32(), FLOAT32),
    "bytes": ("bytes", pa.binary(), BYTES),
    "vectors of ints": ("int64", pa.list_(pa.int64(), 2), st.lists(INT64, min_size=2, max_size=2)),
    "vectors of floats": ("float", pa.list_(pa.float32(), 3), st.lists(FLOAT32, min_size=3, max_size=3)),
    "ragged ints": ("int64", pa.list_(pa.int64()), st.lists(INT64, max_size=4)),
    "ragged floats": ("float", pa.list_(pa.float32()), st.lists(FLOAT32, max_size=4)),
    "ragged bytes": ("bytes", pa.list_(pa.binary()), st.lists(BYTES, max_size=3)),
}
Table = tuple[dict[str, Any], list[FeatureSpec], list[dict[str, list[Any]]]]


@st.composite
def tables(draw: st.DrawFn) -> Table:
    rows = draw(st.integers(1, 6))
    names = draw(st.lists(st.text(st.characters(codec="utf-8"), max_size=8), min_size=1, max_size=4, unique=True))
    columns: dict[str, Any] = {}
    features: list[FeatureSpec] = []
    expected: list[dict[str, list[Any]]] = [{} for _ in range(rows)]
    for name in names:
        kind, step, values = STEP_KINDS[draw(st.sampled_from(sorted(STEP_KINDS)))]
        column = draw(st.lists(st.lists(values, max_size=5), min_size=rows, max_size=rows))
        columns[name] = pa.array(column, pa.list_(step))
        features.append(a_sequence(name, kind))
        for row, steps in zip(expected, column, strict=True):
            row[name] = expected_steps(steps)
    if draw(st.booleans()):
        values = draw(st.lists(BYTES, min_size=rows, max_size=rows))
        columns["a context"] = pa.array(values, pa.binary())
        features.append(a_context("a context", "bytes"))
        for row, value in zip(expected, values, strict=True):
            row["a context"] = [value]
    return columns, features, expected


@pytest.mark.slow
@given(tables())
def test_any_sequences_are_read_back_by_protobuf(table: Table) -> None:
    columns, features, expected = table
    found = parsed(columns, features)
    assert len(found) == len(expected)
    # repr is compared, because NaN doesn't equal itself.
    assert [sorted(map(repr, row.items())) for row in found] == [sorted(map(repr, row.items())) for row in expected]


@pytest.mark.slow
@given(tables(), st.integers(1, 3))
def test_the_bytes_do_not_depend_on_how_batches_are_cut(table: Table, size: int) -> None:
    columns, features, _ = table
    batch = pa.record_batch(columns)
    encoder = TfrecordEncoder(OUTPUT, features)
    cut = b"".join(read_late(encoder, (batch.slice(start, size) for start in range(0, batch.num_rows, size))))
    assert cut == encoded(columns, features)
