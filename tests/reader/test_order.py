"""The order of an epoch: it contains every record once, is divided without overlap, and depends only on the seed and the epoch."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep_reader.order import Parts, Share, parts_of, share, window_order

counts = st.lists(st.lists(st.integers(1, 9), max_size=5), max_size=6)
Record = tuple[int, int, int]


def a_data_set(shards: Sequence[Sequence[int]]) -> Parts:
    return parts_of([np.array(shard, np.int64) for shard in shards])


def records(parts: Parts) -> list[Record]:
    """Returns the (shard, part, record) of every record, in order."""
    runs = zip(parts.shards.tolist(), parts.numbers.tolist(), parts.firsts.tolist(), parts.counts.tolist(), strict=True)
    return [(shard, number, first + row) for shard, number, first, count in runs for row in range(count)]


def test_parts_follow_one_another_shard_by_shard() -> None:
    assert records(a_data_set([[2, 1], [], [1]])) == [(0, 0, 0), (0, 0, 1), (0, 1, 0), (2, 0, 0)]


@given(counts, st.integers(0, 60), st.integers(0, 60))
def test_a_stretch_is_a_slice_of_the_records(shards: list[list[int]], first: int, count: int) -> None:
    whole = a_data_set(shards)
    assert records(whole.between(first, count)) == records(whole)[first : first + count]
    inner = whole.between(first, count)
    assert records(inner.between(1, count)) == records(inner)[1 : 1 + count]


@given(counts, st.integers(0, 2**62), st.integers(0, 1000))
def test_a_shuffled_epoch_has_every_record_once(shards: list[list[int]], seed: int, epoch: int) -> None:
    whole = a_data_set(shards)
    found = records(whole.shuffled(seed=seed, epoch=epoch))
    assert sorted(found) == records(whole)
    assert found == records(whole.shuffled(seed=seed, epoch=epoch))


def test_epochs_seeds_and_windows_have_orders_of_their_own() -> None:
    orders = {
        tuple(window_order(50, seed=seed, epoch=epoch, window=window)) for seed in range(5) for epoch in range(5) for window in range(5)
    }
    assert len(orders) == 125
    parts = a_data_set([[1] * 50])
    assert len({tuple(parts.shuffled(seed=seed, epoch=epoch).numbers) for seed in range(5) for epoch in range(5)}) == 25


def test_the_order_of_a_window_is_what_it_was() -> None:
    """A saved state may be used weeks later.

    States contain the version of the shuffle algorithm (`shuffle_version`). If a change gives the same seed a different order, this
    version must change too.
    """
    assert window_order(8, seed=7, epoch=0, window=0).tolist() == [0, 1, 6, 7, 4, 5, 2, 3]


@given(st.integers(0, 500), st.integers(1, 9), st.integers(1, 40))
def test_ranks_share_an_epoch_without_overlap_or_loss(count: int, ranks: int, batch: int) -> None:
    shares = [share(count, rank=rank, world_size=ranks, batch_size=batch, drop_remainder=False) for rank in range(ranks)]
    assert [row for each in shares for row in range(each.first, each.first + each.records)] == list(range(count))
    assert max(each.records for each in shares) - min(each.records for each in shares) <= 1
    assert all(each.batches == -(-each.records // batch) for each in shares)


@given(st.integers(0, 500), st.integers(1, 9), st.integers(1, 40))
def test_ranks_that_drop_the_remainder_have_equally_many_batches(count: int, ranks: int, batch: int) -> None:
    shares = [share(count, rank=rank, world_size=ranks, batch_size=batch, drop_remainder=True) for rank in range(ranks)]
    assert {(each.records, each.batches) for each in shares} == {(count // ranks, count // ranks // batch)}
    assert [each.first for each in shares] == [rank * (count // ranks) for rank in range(ranks)]


@pytest.mark.parametrize(
    ("batch", "drop", "batches"), [(100, False, 550), (32, False, 1719), (32, True, 1718), (128, False, 430), (128, True, 429)]
)
def test_batches_of_the_55000_digits(batch: int, drop: bool, batches: int) -> None:
    assert share(55_000, rank=0, world_size=1, batch_size=batch, drop_remainder=drop) == Share(0, 55_000, batches)
