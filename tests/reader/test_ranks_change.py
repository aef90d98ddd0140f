"""All ranks save their states in the middle of an epoch.

A different number of ranks continues from these states, and every record is read once.
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples
from tests.reader.sets import exactly, ns, numbers, opened

from dataprep_reader import Reader, shards

COUNT = 137


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return numbers(tmp_path_factory.mktemp("ranks"), count=COUNT)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes parts so small that even small data sets have many parts."""
    monkeypatch.setattr(shards, "PART_BYTES", 300)


def readers(folder: Path, ranks: int, **options: Any) -> list[Reader]:
    return [opened(folder, **{"batch_size": 6, "epochs": 2} | options, rank=rank, world_size=ranks) for rank in range(ranks)]


def take(reader: Reader, batches: int) -> list[int]:
    """Return the numbers in the next batches."""
    iterator = iter(reader)
    found = [number for _, batch in zip(range(batches), iterator, strict=False) for number in batch["n"].tolist()]
    iterator.close()  # type: ignore[attr-defined]  # a generator, but the type doesn't say so
    return found


def states_of(all_readers: Sequence[Reader]) -> list[dict[str, Any]]:
    """Return the states of all ranks, as a checkpoint stores them."""
    stored: list[dict[str, Any]] = json.loads(json.dumps([reader.state() for reader in all_readers]))
    return stored


def numbers_of(reader: Reader) -> list[int]:
    return [number for batch in ns(reader) for number in batch]


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(
    ranks=st.lists(st.integers(1, 4), min_size=2, max_size=3),
    taken=st.lists(st.integers(0, 6), min_size=12, max_size=12),
    seed=st.sampled_from([None, 8]),
    window=st.sampled_from([1, 7, 25, 1000]),
    sizes=st.lists(st.sampled_from([4, 6]), min_size=3, max_size=3),
)
def test_every_record_of_the_epoch_is_read_once(
    folder: Path, ranks: list[int], taken: list[int], seed: int | None, window: int, sizes: list[int]
) -> None:
    options: dict[str, Any] = {"shuffle": seed, "shuffle_window": window}
    first: Counter[int] = Counter()
    states: list[dict[str, Any]] = []
    coming = iter(taken)
    for count, size in zip(ranks[:-1], sizes, strict=False):
        current = readers(folder, count, batch_size=size, **options)
        for reader in current:
            if states:
                reader.restore(states)
            # Leave two batches of the first epoch to the ranks that come next, so that all ranks stay in this epoch.
            left = max(0, COUNT // count // size - 2) if not states else 2
            first.update(take(reader, min(next(coming), left)))
        states = states_of(current)
    second: Counter[int] = Counter()
    plain = readers(folder, ranks[-1], batch_size=sizes[-1], **options)
    for reader, other in zip(readers(folder, ranks[-1], batch_size=sizes[-1], **options), plain, strict=True):
        reader.restore(states)
        rest, both = numbers_of(reader), numbers_of(other)
        own = both[len(both) // 2 :]
        assert rest[len(rest) - len(own) :] == own
        first.update(rest[: len(rest) - len(own)])
        second.update(own)
    assert first == dict.fromkeys(range(COUNT), 1)
    assert second == dict.fromkeys(range(COUNT), 1)


def test_after_the_rest_the_epochs_are_those_of_the_new_ranks(folder: Path) -> None:
    before = readers(folder, 3, shuffle=5)
    seen = [number for reader in before for number in take(reader, 4)]
    after = readers(folder, 2, shuffle=5)
    for reader in after:
        reader.restore(states_of(before))
    both = [ns(reader) for reader in after]
    plain = [ns(reader) for reader in readers(folder, 2, shuffle=5)]
    epoch = len(plain[0]) // 2
    assert [batches[-epoch:] for batches in both] == [batches[-epoch:] for batches in plain]
    rest = [number for batches in both for batch in batches[:-epoch] for number in batch]
    assert sorted(seen + rest) == list(range(COUNT))


def test_the_same_ranks_go_on_with_exactly_their_batches(folder: Path) -> None:
    before = readers(folder, 2, shuffle=5)
    taken = [take(reader, 3) for reader in before]
    after = readers(folder, 2, shuffle=5)
    for reader in after:
        reader.restore(states_of(before))
    assert [first + numbers_of(rest) for first, rest in zip(taken, after, strict=True)] == [
        numbers_of(reader) for reader in readers(folder, 2, shuffle=5)
    ]


def test_a_state_in_the_rest_can_be_saved_and_restored(folder: Path) -> None:
    before = readers(folder, 3, shuffle=5)
    for reader in before:
        take(reader, 2)
    one = opened(folder, batch_size=6, epochs=2, shuffle=5)
    one.restore(states_of(before))
    assert one.state()["version"] == 2
    whole = numbers_of(one)
    again = opened(folder, batch_size=6, epochs=2, shuffle=5)
    again.restore(states_of(before))
    begin = take(again, 4)
    assert again.state(batches=4) == again.state()
    last = opened(folder, batch_size=6, epochs=2, shuffle=5)
    last.restore(json.loads(json.dumps(again.state())))
    assert begin + numbers_of(last) == whole
    assert last.state()["version"] == 1  # the rest of the epoch has been read


def test_with_drop_remainder_all_new_ranks_have_equal_numbers_of_batches(folder: Path) -> None:
    before = readers(folder, 3, shuffle=5, drop_remainder=True)
    seen = [number for reader in before for number in take(reader, 2)]
    after = readers(folder, 4, shuffle=5, drop_remainder=True, epochs=1)
    for reader in after:
        reader.restore(states_of(before))
    counts = [ns(reader) for reader in after]
    assert len({len(batches) for batches in counts}) == 1
    rest = [number for batches in counts for batch in batches for number in batch]
    assert len(set(seen + rest)) == len(seen + rest)


def test_ranks_at_the_end_of_the_epoch_have_nothing_left_of_it(folder: Path) -> None:
    before = readers(folder, 2)
    take(before[0], 12)
    seen = take(before[1], 3)
    one = opened(folder, batch_size=6, epochs=1)
    one.restore(states_of(before))
    assert sorted(seen + numbers_of(one)) == list(range(COUNT // 2, COUNT))


def test_a_rank_without_records_of_whole_epochs_reads_its_record_of_the_rest(tmp_path: Path) -> None:
    few = numbers(tmp_path, count=3)
    before = opened(few, batch_size=1)
    seen = take(before, 1)
    after = readers(few, 5, batch_size=1, epochs=1)
    assert [reader.batches for reader in after] == [0, 1, 0, 1, 1]
    for reader in after:
        reader.restore(states_of([before]))
    rest = [numbers_of(reader) for reader in after]
    assert [len(each) for each in rest] == [0, 0, 1, 0, 1]
    assert sorted(seen + rest[2] + rest[4]) == [0, 1, 2]


def test_at_the_beginning_of_an_epoch_nothing_is_divided(folder: Path) -> None:
    one = opened(folder, batch_size=6, epochs=1)
    one.restore(states_of(readers(folder, 2)))
    assert one.state()["version"] == 1
    assert numbers_of(one) == list(range(COUNT))


def test_states_that_are_not_those_of_all_ranks_are_refused(folder: Path) -> None:
    states = states_of(readers(folder, 3, shuffle=5))
    one = opened(folder, batch_size=6, shuffle=5)
    with pytest.raises(
        ValueError,
        match=exactly("There are 3 ranks, and the state of each rank is needed exactly once; got the states of the ranks [0, 2]."),
    ):
        one.restore([states[0], states[2]])
    with pytest.raises(
        ValueError,
        match=exactly("There are 3 ranks, and the state of each rank is needed exactly once; got the states of the ranks [0, 0, 1]."),
    ):
        one.restore([states[0], states[0], states[1]])
    with pytest.raises(
        ValueError, match=exactly("The state comes from a reader with a different record order: shuffle was 5 and is now 6.")
    ):
        opened(folder, batch_size=6, shuffle=6).restore(states)


def test_states_of_different_times_are_refused(folder: Path) -> None:
    before = readers(folder, 2)
    take(before[0], 14)
    take(before[1], 3)
    with pytest.raises(ValueError, match="The states weren't taken at the same time: rank 0 is in epoch 1, but another rank is in epoch 0"):
        opened(folder, batch_size=6).restore(states_of(before))
