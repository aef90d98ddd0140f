"""Expected files are compared with a listing while it is read, and all differences are found."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dataprep_converter.dataset import expected_files
from dataprep_converter.dataset.expected_files import ExpectedFiles
from dataprep_converter.stores import Entry

COUNT = 23
STRANGE = "caf\udce9-\udcff.txt"
"""A name whose bytes aren't UTF-8."""


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected_files, "_AT_ONCE", 5)


def name(number: int) -> str:
    return f"train-{number:05d}.csv"


def expected() -> ExpectedFiles:
    files = ExpectedFiles()
    for number in range(COUNT):
        files.add(name(number), 10 + number, pin=f"pin {number}" if number % 2 else None, shard=number // 2)
    return files


def listing() -> dict[str, Entry]:
    return {name(number): Entry(f"/out/{name(number)}", 10 + number, f"pin {number}") for number in range(COUNT)}


def test_files_keep_their_fields() -> None:
    files = expected()
    assert len(files) == COUNT
    assert [files.path(number) for number in [*range(COUNT), 0, 22]] == [*map(name, range(COUNT)), name(0), name(22)]
    assert [files.size(number) for number in range(COUNT)] == list(range(10, 10 + COUNT))
    assert [files.has_pin(number) for number in range(COUNT)] == [number % 2 == 1 for number in range(COUNT)]
    assert [files.shard(number) for number in range(COUNT)] == [number // 2 for number in range(COUNT)]


def test_an_equal_listing_has_no_differences() -> None:
    found = expected().compared(listing().items())
    assert found == expected_files.Differences()
    assert expected().fault(found) is None


def test_all_kinds_of_differences_are_found() -> None:
    files, listed = expected(), listing()
    del listed[name(3)], listed[name(20)]
    listed[name(16)] = Entry("", 1, "pin 16")
    listed[name(2)] = Entry("", 2, "pin 2")
    listed[name(21)] = Entry("", 31, "another pin")
    listed[name(4)] = Entry("", 14, "a pin that isn't compared")
    listed |= {path: Entry("", 0, "") for path in ("a", STRANGE, "ours")}
    found = files.compared(listed.items(), ours=["ours"])
    assert (found.missing, found.sizes, found.changed) == ([3, 20], {2: 2, 16: 1}, [21])
    assert sorted(found.foreign) == sorted(["a", STRANGE])
    assert files.compared(listed.items(), ignores_others=True).foreign == []
    assert list(files.others(["a", name(1), STRANGE, name(22)])) == ["a", STRANGE]


def test_names_that_are_not_utf_8_are_expected_like_other_names() -> None:
    files = ExpectedFiles()
    for number in range(7):
        files.add(f"{number}{STRANGE}", number)
    assert [files.path(number) for number in range(7)] == [f"{number}{STRANGE}" for number in range(7)]
    assert files.compared([(f"{number}{STRANGE}", Entry("", number, "")) for number in range(6)]).missing == [6]


def test_without_expected_files_all_files_are_foreign() -> None:
    assert ExpectedFiles().compared([("a", Entry("", 0, ""))]).foreign == ["a"]


def test_the_expected_files_are_sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sorts = []
    sort: Callable[..., Any] = np.argsort

    def counted(*arguments: Any, **options: Any) -> Any:
        sorts.append(arguments)
        return sort(*arguments, **options)

    monkeypatch.setattr(np, "argsort", counted)
    files = expected()
    files.compared(listing().items())
    list(files.others(listing()))
    assert len(sorts) == 1
