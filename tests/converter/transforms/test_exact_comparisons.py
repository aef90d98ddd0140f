"""For any digits, comparisons of decimals agree with Python's `decimal`."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples

from dataprep_api.spec.transforms.columns import Filter
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.records.batch import SAMPLE, Batch, LostDigits
from dataprep_converter.records.exact_decimals import EXACT, plain_texts
from dataprep_converter.records.lossy import lost_digits
from dataprep_converter.transforms.filter import FilterStep

KIND = pa.decimal128(24, 4)
SIGNS = {"==": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}
CLOSE = st.builds(
    lambda base, more: Decimal(base + more).scaleb(-4), st.sampled_from([0, 10**20 // 3, -(10**23), 2**53 * 10**4]), st.integers(-3, 3)
)
"""Decimals. As float64, many of them would be the same number."""


def a_batch(**columns: list[Decimal | None]) -> tuple[pa.Schema, Batch]:
    """The columns as a reader returns them: float64 numbers, and the digits that the conversion to float64 has lost."""
    decimals: dict[str, Any] = {name: pa.array(values, KIND) for name, values in columns.items()}
    numbers = {name: values.cast(pa.float64()) for name, values in decimals.items()}
    samples = np.arange(len(next(iter(columns.values()))))
    lost = []
    for name, values in decimals.items():
        texts: Any = lost_digits(values, numbers[name])
        places = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
        if len(places):
            lost.append(LostDigits(name, samples[places], texts.take(pa.array(places)).to_pylist()))
    schema = pa.schema([pa.field(name, pa.float64(), metadata={EXACT: name}) for name in columns])
    records = pa.record_batch({**numbers, SAMPLE: pa.array(samples)})
    return schema, Batch(records=records, bad=[], bytes_in=0, lost=lost)


def kept(where: str, **columns: list[Decimal | None]) -> list[int]:
    schema, batch = a_batch(**columns)
    rows: list[Any] = FilterStep(Filter(where=where), schema).apply(batch).records.column(SAMPLE).to_pylist()
    return rows


@settings(max_examples=examples(200))
@given(
    rows=st.lists(st.tuples(st.none() | CLOSE, st.none() | CLOSE), min_size=1, max_size=8), sign=st.sampled_from(list(SIGNS)), literal=CLOSE
)
def test_comparisons_agree_with_decimal(rows: list[tuple[Decimal | None, Decimal | None]], sign: str, literal: Decimal) -> None:
    a, b = [row[0] for row in rows], [row[1] for row in rows]
    compare = SIGNS[sign]
    pairs = list(enumerate(rows))
    both = [at for at, (one, other) in pairs if one is not None and other is not None and getattr(one, compare)(other)]
    assert kept(f"a {sign} b", a=a, b=b) == both
    with_literal = [at for at, (one, _) in pairs if one is not None and getattr(one, compare)(literal)]
    assert kept(f"a {sign} {literal:f}", a=a) == with_literal
    assert kept(f"a in [{literal:f}, 7.5]", a=a) == [at for at, (one, _) in pairs if one in (literal, Decimal("7.5"))]


@pytest.mark.parametrize("number", ["1e400", "-1e400", "12345678901234567890123456789", "1_000.5", ".5", "2."])
def test_numbers_may_have_any_form(number: str) -> None:
    values: list[Decimal | None] = [Decimal("-1"), Decimal("0.5"), Decimal(2), Decimal("1000.5"), None]
    expected = [at for at, value in enumerate(values) if value is not None and value >= Decimal(number)]
    assert kept(f"a >= {number}", a=values) == expected


def test_equal_decimals_have_one_text() -> None:
    texts = ["12345678901234567.50", "12345678901234567.5", "1.23456789012345678E-10", "100000000000000001", None]
    assert plain_texts(texts) == ["12345678901234567.5", "12345678901234567.5", "0.000000000123456789012345678", "100000000000000001", None]


def test_a_number_with_too_many_signs_is_refused() -> None:
    with pytest.raises(BadSpec, match="is nested more than 50 levels deep"):
        kept("a > " + "-" * 80 + "1", a=[Decimal(1)])
