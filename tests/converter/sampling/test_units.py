"""Tables of units. A table made from columns of files equals a table made from single units."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep_converter.sampling.units import Files, Unit, UnitTable

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)


def units_of(names: list[str], *, root: int) -> list[Unit]:
    return [Unit(root, name, f"/in/{name}", 1, len(name), f"pin of {name}", f"subset {len(name)}", extra=name[:1]) for name in names]


def files_of(names: list[str], *, root: int) -> Files:
    return Files(
        root=root,
        paths=names,
        uris=[f"/in/{name}" for name in names],
        sizes=[len(name) for name in names],
        pins=[f"pin of {name}" for name in names],
        subsets=[f"subset {len(name)}" for name in names],
        extras=[name[:1] for name in names],
    )


@pytest.mark.slow
@given(st.lists(NAMES, max_size=20), st.lists(NAMES, max_size=20))
def test_files_in_columns_are_the_units_one_by_one(some: list[str], more: list[str]) -> None:
    rows = Unit(7, "rows.csv", "/in/rows.csv", 100, 4000, "p", offset=10, row=3)
    one_by_one = UnitTable.of([*units_of(some, root=0), rows, *units_of(more, root=1)])
    in_columns = UnitTable.of([files_of(some, root=0), rows, files_of(more, root=1)])
    assert in_columns.table.equals(one_by_one.table)
    assert in_columns.samples == len(some) + 100 + len(more)


def test_more_files_than_a_block_are_numbered_on() -> None:
    names = [f"{number}" for number in range(40_000)]
    units = UnitTable.of([files_of(names, root=0), files_of(names, root=1), files_of(names[:1], root=2)])
    assert units.table["first"].to_numpy().tolist() == list(range(80_001))
    assert units.unit(40_000).root == 1


def test_the_key_is_the_digest_of_root_and_path() -> None:
    units = UnitTable.of([files_of(["\u00e9/a.jpg"], root=3)])
    digest = hashlib.blake2b("3\0\u00e9/a.jpg".encode(), digest_size=8).digest()
    keys, _ = units.hash_inputs(np.array([0]))
    assert keys.tolist() == [int.from_bytes(digest, "little")]


def test_keys_are_in_the_table_once_they_were_asked_for() -> None:
    units = UnitTable.of([files_of([f"{number}" for number in range(70_000)], root=0)])
    assert units.table["key"].null_count == 70_000
    assert units.keys().tolist() == units.table["key"].to_pylist()
    assert UnitTable(units.table).keys().tolist() == units.keys().tolist()


def test_no_units_are_a_table_without_rows() -> None:
    assert len(UnitTable.of([])) == 0
    assert UnitTable.of([files_of([], root=0)]).samples == 0
