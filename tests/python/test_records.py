"""How dictionaries and tuples become columns."""

from collections import namedtuple
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dataprep_converter.core.errors import BadData
from dataprep_io.data.records import record_batches


def table_of(records: Any, *, columns: list[str] | None = None, schema: pa.Schema | None = None) -> pa.Table:
    known, batches = record_batches(iter(records), columns=columns, schema=schema)
    return pa.Table.from_batches(list(batches), known)


def test_a_missing_key_is_a_null() -> None:
    assert table_of([{"a": 1}, {"a": 2, "b": "x"}]).to_pylist() == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]


def test_tuples_and_single_values_get_names() -> None:
    pair = namedtuple("pair", "a b")  # noqa: PYI024 - the fields' types are of no interest
    assert table_of([(1, "x")], columns=["n", "word"]).to_pylist() == [{"n": 1, "word": "x"}]
    assert table_of([5, 6], columns=["n"]).to_pylist() == [{"n": 5}, {"n": 6}]
    assert table_of([pair(1, 2)]).to_pylist() == [{"a": 1, "b": 2}]


def test_arrays_of_one_shape_are_tensors_and_others_are_lists() -> None:
    table = table_of([{"t": np.ones((2, 3), np.float32), "l": np.arange(n, dtype=np.int32), "x": np.float32(n)} for n in (1, 2)])
    assert table.schema.field("t").type == pa.fixed_shape_tensor(pa.float32(), (2, 3))
    assert table.schema.field("l").type == pa.list_(pa.int32())
    assert table.schema.field("x").type == pa.float32()
    assert table.column("l").to_pylist() == [[0], [0, 1]]


def test_later_records_have_the_types_of_the_first_ones() -> None:
    records = [{"n": n} for n in range(1500)]
    assert table_of(records).column("n").to_pylist() == list(range(1500))
    with pytest.raises(BadData, match=r"^Record 1300: 'n' is 0\.5, expected int64\. The first records determine the types; pass schema="):
        table_of([*records[:1300], {"n": 0.5}])
    floats = table_of([*records[:1300], {"n": 0.5}], schema=pa.schema([("n", pa.float64())]))
    assert floats.column("n")[1300].as_py() == 0.5


@pytest.mark.parametrize("value", [[1.5], {"a": 1.5}, np.array([1.5])])
def test_a_fraction_within_a_value_is_not_truncated(value: Any) -> None:
    whole = {"a": 1} if isinstance(value, dict) else [1]
    with pytest.raises(BadData, match="^Record 1024: 'n' is "):
        table_of([{"n": whole}] * 1024 + [{"n": value}])


def test_a_record_that_does_not_fit_is_named() -> None:
    with pytest.raises(BadData, match=r"^Record 1: 'n' is 'x', expected int64"):
        table_of([{"n": 1}, {"n": "x"}])
    with pytest.raises(BadData, match=r"^Record 0: 'n' is <object .*, expected a number of at most 64 bits, a decimal, text"):
        table_of([{"n": object()}])
    with pytest.raises(BadData, match=r"^Record 1024 has 'm', but the columns of the first records are n\."):
        table_of([*({"n": n} for n in range(1024)), {"n": 1, "m": 2}])
    with pytest.raises(BadData, match="Record 1 has 3 values, but columns has 2 names: a, b"):
        table_of([(1, 2), (1, 2, 3)], columns=["a", "b"])


def test_large_records_are_read_in_small_batches() -> None:
    drawn = 0

    def records() -> Any:
        nonlocal drawn
        for drawn in range(1, 100):  # noqa: B007 - the test looks at it
            yield {"image": bytes(1 << 20)}

    _, batches = record_batches(records(), columns=None, schema=None)
    next(batches)
    assert drawn <= 16
