"""Cases of a matrix: `make test` runs a choice in which each row and each column has its turn, `make nightly` the others."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def chosen(cases: Iterable[Any], keep: Callable[..., bool]) -> list[Any]:
    """All cases, each a value or a tuple of some; those that `keep` does not take run at night. Any: pytest's parameter sets have no type."""
    values = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*each, marks=() if keep(*each) else pytest.mark.nightly) for each in values]


def has_turn(row: Any, column: Any, rows: Sequence[Any], columns: Sequence[Any], *, shift: int = 0, every: int = 0) -> bool:
    """Whether a pair is on a diagonal of the matrix, or on one of every `every` diagonals, so that no row and no column is left out."""
    return (rows.index(row) + shift - columns.index(column)) % (every or min(len(rows), len(columns))) == 0
