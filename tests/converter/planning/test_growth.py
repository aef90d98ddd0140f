"""Tests of the comparison between the current units and the units of an existing data set."""

import pytest

from dataprep_converter.core.errors import InputChanged
from dataprep_converter.planning.growth import find_growth
from dataprep_converter.sampling.units import Unit, UnitTable


def a_unit(path: str, *, row: int = 0, pin: str = "1", root: str = "/in", records: int = 3) -> Unit:
    return Unit(root=0, path=path, uri=f"{root}/{path}", records=records, size=10, pin=pin, row=row, offset=row * 5)


def rows(units: UnitTable) -> list[tuple[str, int, int]]:
    return [(row["path"], row["row"], row["first"]) for row in units.table.to_pylist()]


def test_earlier_units_keep_their_numbers_and_new_ones_follow_in_their_own_order() -> None:
    before = UnitTable.of([a_unit("c"), a_unit("c", row=3), a_unit("a")])
    now = UnitTable.of([a_unit("a"), a_unit("b"), a_unit("c"), a_unit("c", row=3), a_unit("d")])
    grown = find_growth(before, now)
    assert rows(grown.earlier) == [("c", 0, 0), ("c", 3, 3), ("a", 0, 6)]
    assert rows(grown.added) == [("b", 0, 0), ("d", 0, 3)]
    assert rows(grown.all_units()) == [("c", 0, 0), ("c", 3, 3), ("a", 0, 6), ("b", 0, 9), ("d", 0, 12)]


def test_an_input_is_known_by_its_path_wherever_it_lies_now() -> None:
    grown = find_growth(UnitTable.of([a_unit("a")]), UnitTable.of([a_unit("a", root="/moved")]))
    assert (grown.earlier.unit(0).uri, len(grown.added)) == ("/moved/a", 0)


def test_from_nothing_everything_is_new() -> None:
    grown = find_growth(UnitTable.of([]), UnitTable.of([a_unit("a")]))
    assert (len(grown.earlier), rows(grown.all_units())) == (0, [("a", 0, 0)])


@pytest.mark.parametrize(
    ("now", "said"),
    [
        pytest.param([a_unit("a"), a_unit("b", pin="2"), a_unit("b", row=3, pin="2")], "1 input has changed .*: /in/b\\. ", id="other pin"),
        pytest.param([a_unit("a"), a_unit("b")], "1 input has changed .*: /in/b\\. ", id="fewer units"),
        pytest.param([a_unit("a"), *(a_unit("b", row=row) for row in (0, 3, 6))], "1 input has changed .*: /in/b\\. ", id="more units"),
        pytest.param([a_unit("z")], "2 inputs whose records are in the data set are gone: /in/a, /in/b\\. ", id="gone"),
    ],
)
def test_what_is_not_as_it_was_is_named_once(now: list[Unit], said: str) -> None:
    before = UnitTable.of([a_unit("a"), a_unit("b"), a_unit("b", row=3)])
    with pytest.raises(InputChanged, match=said):
        find_growth(before, UnitTable.of(now))
