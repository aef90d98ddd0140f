"""The reader as a Grain dataset, tested without Grain: iterators have states, and processes divide the records.

tests/interop/test_reader_grain.py has tests with Grain.
"""

import importlib
import itertools
import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.builders.jobs import run_spec
from tests.reader.sets import ns, numbers, opened

from dataprep_converter.core.errors import BadData

COUNT = 40


class Base:
    """The base class of Grain's datasets and iterators. Subclasses use none of the real classes' behaviour here."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return numbers(tmp_path_factory.mktemp("grain"), count=COUNT)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    grain: Any = types.ModuleType("grain")
    grain.IterDataset = grain.DatasetIterator = Base
    monkeypatch.setitem(sys.modules, "grain", grain)
    monkeypatch.delitem(sys.modules, "dataprep_reader.grain", raising=False)
    yield importlib.import_module("dataprep_reader.grain")
    sys.modules.pop("dataprep_reader.grain", None)


def found(batches: Any) -> list[list[int]]:
    return [batch["n"].tolist() for batch in iter_of(batches)]


def iter_of(iterator: Any) -> Iterator[Any]:
    """Yield what the iterator yields. The real base class has `__iter__`."""
    while (batch := next(iterator, None)) is not None:
        yield batch


def test_without_grain_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grain", None)
    monkeypatch.delitem(sys.modules, "dataprep_reader.grain", raising=False)
    with pytest.raises(ModuleNotFoundError, match="dataprep_reader.grain needs Grain: pip install grain"):
        importlib.import_module("dataprep_reader.grain")


def test_each_iterator_is_a_pass_of_its_own(module: Any, folder: Path) -> None:
    batches = module.Batches(opened(folder, batch_size=7, shuffle=2, epochs=2))
    whole = ns(opened(folder, batch_size=7, shuffle=2, epochs=2))
    first, second = iter(batches), iter(batches)
    assert [next(first)["n"].tolist() for _ in range(3)] == whole[:3]
    assert found(second) == whole


def test_an_iterator_goes_on_at_a_state(module: Any, folder: Path) -> None:
    batches = module.Batches(opened(folder, batch_size=7, shuffle=2, epochs=2))
    whole, first, second = found(iter(batches)), iter(batches), iter(batches)
    assert second.get_state() == first.get_state()
    next(second)
    begin = [next(first)["n"].tolist() for _ in range(4)]
    state = json.loads(json.dumps(first.get_state()))
    second.set_state(state)
    assert second.get_state() == state
    assert begin + found(second) == whole


def test_the_state_at_the_end_has_nothing_left(module: Any, folder: Path) -> None:
    batches = module.Batches(opened(folder, batch_size=7))
    first, second = iter(batches), iter(batches)
    assert len(found(first)) == 6
    second.set_state(first.get_state())
    assert found(second) == []


def test_processes_divide_the_records_and_their_states_are_taken_up_by_ranks(module: Any, folder: Path) -> None:
    read: list[int] = []
    states = []
    for number in range(3):
        batches = module.Batches(opened(folder, batch_size=4, shuffle=2))
        batches.set_slice(slice(number, None, 3))
        iterator = iter(batches)
        read += [n for batch in itertools.islice(iter_of(iterator), 2) for n in batch["n"].tolist()]
        states.append({"iterators_in_use_states": [iterator.get_state()]})
    for rank in range(2):
        reader = opened(folder, batch_size=4, shuffle=2, rank=rank, world_size=2)
        reader.restore(states)
        read += [n for batch in found(iter(module.Batches(reader))) for n in batch]
    assert sorted(read) == list(range(COUNT))


def test_arrow_batches_are_refused(module: Any, folder: Path) -> None:
    with pytest.raises(ValueError, match="A reader for Grain must yield numpy arrays: open it without as_='arrow'"):
        module.Batches(opened(folder, as_="arrow"))


def test_a_null_needs_a_mask(module: Any, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"n": 1}\n{"n": null}\n')
    run_spec({"source": {"jsonl": {"uris": [str(tmp_path / "rows.jsonl")]}}, "output": {"uri": str(tmp_path / "set")}})
    with pytest.raises(
        BadData, match=r"'n' has records without a value, which a tensor can't hold; open the reader with masks=\['n'\], or"
    ):
        next(iter(module.Batches(opened(tmp_path / "set"))))
    batch = next(iter(module.Batches(opened(tmp_path / "set", masks=["n"]))))
    assert {name: column.tolist() for name, column in batch.items()} == {"n": [1, 0], "n_missing": [False, True]}
