"""Kubernetes quantities as bytes."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from dataprep_api import quantity
from dataprep_api.spec import ResourceQuantity


@pytest.mark.parametrize(
    ("written", "size"),
    [
        (0, 0),
        ("500000", 500_000),
        ("64Ki", 65_536),
        ("128Mi", 134_217_728),
        ("1.5Gi", 1_610_612_736),
        ("2Ti", 2_199_023_255_552),
        ("1k", 1000),
        ("1M", 1_000_000),
        ("0.5G", 500_000_000),
        ("1T", 10**12),
    ],
)
def test_a_quantity_is_a_number_of_bytes(written: int | str, size: int) -> None:
    assert quantity.to_bytes(written) == size


@pytest.mark.parametrize("written", ["", "Mi", "-1", "1 Mi", "1mi", "1MB", "1e3", ".5Gi", "1,5Gi", "\u0661"])
def test_anything_else_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(ValueError, match="expected bytes or a quantity such as 128Mi or 2Gi, got"):
        quantity.to_bytes(written)


@given(st.decimals(min_value=0, max_value=1000, places=3), st.sampled_from(["", "Ki", "Mi", "Gi", "k", "M", "G"]))
def test_the_schema_s_pattern_and_the_parser_agree(number: object, unit: str) -> None:
    written = f"{number}{unit}"

    assert re.fullmatch(quantity.PATTERN, written)
    assert quantity.to_bytes(written) >= 0


@pytest.mark.parametrize("written", [0, 2, "500m", "4Gi", "0.5", "1e3", "1E", "16"])
def test_a_resource_is_written_as_in_a_container(written: int | str) -> None:
    assert TypeAdapter(ResourceQuantity).validate_python(written) == written


@pytest.mark.parametrize("written", [-1, "-1", "", "2 GB", "1mi", "lots"])
def test_a_resource_that_kubernetes_would_refuse_is_refused(written: int | str) -> None:
    with pytest.raises(ValidationError, match="expected a Kubernetes quantity"):
        TypeAdapter(ResourceQuantity).validate_python(written)


@pytest.mark.parametrize(
    ("written", "number"),
    [
        (2, "2"),
        ("500m", "0.5"),
        ("0.1", "0.1"),
        ("2.", "2"),
        ("4Gi", "4294967296"),
        ("3E", "3e18"),
        ("2e3", "2000"),
        ("5E-1", "0.5"),
        ("1e400000", str(2**63 - 1)),
        ("1e99999999999999999999", str(2**63 - 1)),
        ("9223372036854775808", str(2**63 - 1)),
        ("1e-999999999", "1e-100"),
        ("0e999999999", "0"),
        ("7n", "7e-9"),
    ],
)
def test_an_amount_of_a_resource_is_a_number(written: int | str, number: str) -> None:
    assert quantity.to_number(written) == Decimal(number)


@pytest.mark.parametrize("written", ["", "2 GB", "-1", "1Kib", "m"])
def test_an_amount_of_a_resource_has_a_form(written: str) -> None:
    with pytest.raises(ValueError, match="expected a Kubernetes quantity such as 500m, 2 or 4Gi, got"):
        quantity.to_number(written)
