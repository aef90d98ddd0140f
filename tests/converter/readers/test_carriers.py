"""Columns that are sent through an SQL engine come back bit for bit. Columns that the engine compares keep their order."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples

from dataprep_converter.readers.joins.carriers import carried, carrier, ordered, ordered_type, returned, unordered

_arrow: Any = pa  # the type stubs lack some functions

SPARK = {pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.binary()}
"""The Spark types in which values are sent through the engine."""

NUMBERS = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
TIMES = [pa.date32(), pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.duration("s")]
TEXTS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
LISTS = [
    _arrow.list_(pa.float32()),
    _arrow.large_list(pa.string()),
    _arrow.list_(pa.bool_()),
    _arrow.list_(_arrow.list_(pa.uint8())),
    _arrow.list_(pa.uint16(), 3),
    _arrow.large_list(_arrow.list_(pa.float64(), 2)),
]


def random_column(kind: Any, rows: int, rng: np.random.Generator, *, nulls: bool) -> Any:
    """A column of type `kind` with random bits."""
    missing = rng.random(rows) < 0.3 if nulls else np.zeros(rows, bool)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = np.where(missing, 0, rng.integers(0, 4, rows))
        ends = np.concatenate(([0], np.cumsum(lengths)))
        items = random_column(kind.value_type, int(ends[-1]), rng, nulls=False)
        lists: Any = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
        offsets = pa.array(ends, pa.int64() if pa.types.is_large_list(kind) else pa.int32())
        return lists.from_arrays(offsets, items, type=kind, mask=pa.array(missing))
    if pa.types.is_fixed_size_list(kind):
        items = random_column(kind.value_type, rows * kind.list_size, rng, nulls=False)
        return _arrow.FixedSizeListArray.from_arrays(items, type=kind).take(pa.array(np.arange(rows), mask=missing))
    if kind in TEXTS:
        texts = [rng.integers(0, 128, rng.integers(0, 5), np.uint8).tobytes() for _ in range(rows)]
        return _arrow.array(texts, pa.binary(), mask=missing).cast(kind)
    if kind == pa.bool_():
        return _arrow.array(rng.random(rows) < 0.5, mask=missing)
    bits = rng.integers(0, 256, rows * kind.bit_width // 8, np.uint8).view(f"i{kind.bit_width // 8}")
    return _arrow.array(bits, mask=missing).view(kind)


@pytest.mark.parametrize("nulls", [False, True], ids=["whole", "nulls"])
@pytest.mark.parametrize("kind", [pa.bool_(), *NUMBERS, *FLOATS, *TIMES, *TEXTS, *LISTS], ids=str)
def test_a_column_comes_back_bit_by_bit(kind: Any, nulls: bool) -> None:
    rng = np.random.default_rng(11)
    column = random_column(kind, 60, rng, nulls=nulls).slice(7, 40)
    travelling = carried(column)
    assert travelling.type == carrier(kind)
    assert innermost(travelling.type) in SPARK
    back: Any = returned(travelling, kind)
    back.validate(full=True)
    assert back.type == kind
    assert as_bits(back) == as_bits(column)


def innermost(kind: Any) -> pa.DataType:
    while pa.types.is_list(kind):
        kind = kind.value_type
    return kind  # type: ignore[no-any-return]  # kind is Any


def as_bits(column: Any) -> list[Any]:
    """The column's values. Floats and times are replaced by integers with the same bits."""
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [None if values is None else as_bits(values) if len(values) else [] for values in map(items_of, column)]
    if kind in TEXTS or kind == pa.bool_():
        return list(column.to_pylist())
    return list(column.view({8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]).to_pylist())


def items_of(scalar: Any) -> Any:
    return scalar.values if scalar.is_valid else None


@pytest.mark.parametrize("kind", [pa.decimal128(5, 2), pa.struct([("a", pa.int64())]), pa.list_(pa.null()), pa.null()], ids=str)
def test_other_types_do_not_travel(kind: Any) -> None:
    assert carrier(kind) is None
    assert ordered_type(kind) is None


def test_lists_are_not_compared() -> None:
    assert ordered_type(pa.list_(pa.int64())) is None


@pytest.mark.parametrize(
    ("kind", "ascending"),
    [
        (pa.int8(), [-128, -1, 0, 127]),
        (pa.int64(), [-(1 << 63), -1, 0, (1 << 63) - 1]),
        (pa.uint64(), [0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]),
        (pa.bool_(), [False, True]),
        (pa.string(), ["", "A", "a", "a\0", "ab", "z", "é", "€", "😀"]),
        (pa.large_binary(), [b"", b"\0", b"\x7f", b"\x80", b"\xff", b"\xff\0"]),
        (pa.float32(), [-np.inf, -1.5, -1e-45, 0.0, 1e-45, 2.0, np.inf, np.nan]),
        (pa.float64(), [-np.inf, -2.5, -5e-324, 0.0, 5e-324, 2.5, np.inf, np.nan]),
        (pa.date32(), [-1, 0, 1]),
        (pa.timestamp("us"), [-1, 0, 1]),
    ],
    ids=str,
)
def test_what_is_compared_keeps_its_order(kind: Any, ascending: list[Any]) -> None:
    column: Any = (
        pa.array(ascending, pa.int32() if kind == pa.date32() else pa.int64()).view(kind)
        if kind in (pa.date32(), pa.timestamp("us"))
        else pa.array(ascending, kind)
    )
    compared: list[Any] = ordered(column).to_pylist()
    assert ordered(column).type == ordered_type(kind)
    assert compared == sorted(set(compared))
    if not pa.types.is_floating(kind):
        assert unordered(ordered(column), kind).equals(column)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_zeros_are_equal_and_so_are_nans(kind: Any) -> None:
    column: Any = pa.array([0.0, -0.0, np.nan, -np.nan], kind)
    plus, minus, nan, negative = ordered(column).to_pylist()
    assert plus == minus
    assert nan == negative


@pytest.mark.slow
@settings(max_examples=examples(100))
@given(values=st.lists(st.floats(width=64), max_size=30))
def test_any_floats_are_ordered_as_numbers(values: list[float]) -> None:
    column: Any = pa.array(values, pa.float64())
    by_order = np.argsort(ordered(column).to_numpy(), kind="stable")
    # NumPy puts NaN last too.
    assert by_order.tolist() == np.argsort(np.array(values), kind="stable").tolist()
