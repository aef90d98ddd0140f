"""Cases of a test matrix. `make test` runs a selection that covers each row and each column, and `make nightly` runs the others."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def chosen(cases: Iterable[Any], keep: Callable[..., bool]) -> list[Any]:
    """Return all cases as parameter sets. A case is a value or a tuple of values.

    If `keep` returns false for a case, the case is marked as nightly.

    Any: pytest's parameter sets have no type.
    """
    values = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*each, marks=() if keep(*each) else pytest.mark.nightly) for each in values]


def has_turn(row: Any, column: Any, rows: Sequence[Any], columns: Sequence[Any], *, shift: int = 0, every: int = 0) -> bool:
    """Whether a pair is on a selected diagonal of the matrix. Each `every`-th diagonal is selected, so all rows and columns occur."""
    return (rows.index(row) + shift - columns.index(column)) % (every or min(len(rows), len(columns))) == 0
