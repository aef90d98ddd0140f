"""Loaders with workers save their states on all ranks.

A different number of ranks and workers continues from these states, and every record is read once.

tests/interop/heavy/test_reader_torch.py has the same tests with torchdata.
"""

import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.reader.fake_torch import FakeLoader, FakeTorch
from tests.reader.sets import exactly, flat, numbers, opened

from dataprep_reader import Reader, shards

COUNT = 59
Shape: TypeAlias = tuple[int, int]
"""The number of ranks, and the number of workers per rank."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return numbers(tmp_path_factory.mktemp("loaders"), count=COUNT)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes parts so small that even small data sets have many parts."""
    monkeypatch.setattr(shards, "PART_BYTES", 300)


class Ranks:
    """The loaders of all ranks. All ranks read the same number of batches, as in training."""

    def __init__(self, torch: FakeTorch, module: Any, folder: Path, shape: Shape, *, states: Sequence[Any] = (), **options: Any) -> None:
        ranks, workers = shape
        self._loaders = []
        for rank in range(ranks):
            reader = opened(folder, **{"batch_size": 3, "shuffle": 5} | options, rank=rank, world_size=ranks)
            if states:
                reader.restore(states)
            self._loaders.append(FakeLoader(torch, module.Batches(reader), workers=workers))
        self._iterators = [iter(loader) for loader in self._loaders]

    def take(self, steps: int | None = None) -> Counter[int]:
        """Return how often each number occurs in the next `steps` batches of each rank, or in all remaining batches."""
        batches = (batch for iterator in self._iterators for batch in itertools.islice(iterator, steps))
        return Counter(number for batch in batches for number in batch["n"].tolist())

    def states(self) -> list[dict[str, Any]]:
        """Return the states of all loaders, as a checkpoint stores them."""
        stored: list[dict[str, Any]] = json.loads(json.dumps([loader.state_dict() for loader in self._loaders]))
        return stored


@pytest.fixture
def ranks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Returns the loaders of all ranks."""
    fake = FakeTorch()
    module = fake.install(monkeypatch)
    yield lambda shape, **options: Ranks(fake, module, folder, shape, **options)
    sys.modules.pop("dataprep_reader.torch", None)


@pytest.mark.parametrize(
    ("before", "after"),
    [((2, 2), (3, 1)), ((2, 2), (1, 0)), ((1, 0), (2, 2)), ((2, 1), (2, 2)), ((1, 2), (2, 1)), ((2, 2), (4, 0)), ((3, 2), (2, 3))],
)
def test_another_number_of_ranks_and_workers_reads_every_record_once(ranks: Any, before: Shape, after: Shape) -> None:
    first = ranks(before)
    seen = first.take(4)
    assert 0 < seen.total() < COUNT
    assert seen + ranks(after, states=first.states()).take() == dict.fromkeys(range(COUNT), 1)


def test_the_number_may_change_twice_in_an_epoch(ranks: Any) -> None:
    first = ranks((2, 2))
    seen = first.take(2)
    second = ranks((3, 1), states=first.states(), batch_size=4)
    seen += second.take(2)
    assert seen.total() < COUNT
    assert seen + ranks((1, 2), states=second.states()).take() == dict.fromkeys(range(COUNT), 1)


@pytest.mark.parametrize("steps", [16, 17, 31, 33, 45])
def test_workers_may_be_in_different_epochs(ranks: Any, steps: int) -> None:
    first = ranks((2, 2), epochs=4, batch_size=2)
    seen = first.take(steps)
    epochs = {each["dataset_state"]["epoch"] for state in first.states() for each in state["_snapshot"]["_worker_snapshots"].values()}
    assert len(epochs) == 1 + (steps in (31, 45))
    assert seen + ranks((3, 0), states=first.states(), epochs=4, batch_size=2).take() == dict.fromkeys(range(COUNT), 4)


def test_the_same_ranks_and_workers_go_on_with_exactly_their_batches(ranks: Any) -> None:
    first, whole = ranks((2, 2)), ranks((2, 2))
    first.take(3)
    whole.take(3)
    assert ranks((2, 2), states=first.states()).take(2) == whole.take(2)


def test_before_the_first_batch_nothing_is_divided(ranks: Any) -> None:
    assert ranks((2, 2), states=ranks((1, 2)).states()).take(3) == ranks((2, 2)).take(3)


def test_a_loop_after_the_epoch_reads_what_is_left_of_the_next_epoch(folder: Path, ranks: Any) -> None:
    first = ranks((2, 2), epochs=4, batch_size=2)
    seen = first.take(31)
    reader = opened(folder, batch_size=2, shuffle=5)
    reader.restore(first.states())
    assert reader.state()["epoch"] == 1
    for _ in range(4):
        seen.update(flat(reader))
    assert seen == dict.fromkeys(range(COUNT), 4)


def test_one_loader_without_ranks_is_enough(folder: Path, ranks: Any) -> None:
    first = ranks((1, 2))
    seen = first.take(5)
    reader = opened(folder, batch_size=3, shuffle=5)
    (state,) = first.states()
    reader.restore({"step": 5, "loader": state})
    assert seen + Counter(flat(reader)) == dict.fromkeys(range(COUNT), 1)


def test_a_loader_that_is_ahead_of_its_state_is_refused(folder: Path, ranks: Any) -> None:
    (state,) = ranks((1, 2)).states()
    with pytest.raises(
        ValueError,
        match=exactly("The loader has yielded 3 batches since it took the states of its workers, so their records would be read"),
    ):
        opened(folder, batch_size=3, shuffle=5).restore([state | {"_steps_since_snapshot": 3}])


def test_states_of_some_loaders_are_refused(folder: Path, ranks: Any) -> None:
    states = ranks((2, 2)).states()
    with pytest.raises(
        ValueError,
        match=exactly("There are 4 ranks, and the state of each rank is needed exactly once; got the states of the ranks [2, 3]."),
    ):
        opened(folder, batch_size=3, shuffle=5).restore([states[1]])
    with pytest.raises(ValueError, match=exactly("This is not a reader state of version 1 or 2: {'loader': 1}.")):
        opened(folder, batch_size=3, shuffle=5).restore({"loader": 1})


def test_the_state_of_one_rank_is_not_divided(folder: Path) -> None:
    def reader() -> Reader:
        return opened(folder, batch_size=3, shuffle=5, rank=1, world_size=2)

    first = reader()
    next(iter(first))
    second = reader()
    second.restore(first.state())
    assert second.part(0, 1).state() == first.state()
    with pytest.raises(
        ValueError,
        match=exactly("The state of rank 1 can't be divided into 2 parts in the middle of an epoch: restore the states of all ranks, as a"),
    ):
        second.part(0, 2)
