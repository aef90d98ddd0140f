"""Selection: each rank maps to exactly one sample, for any ranges, fractions and shuffle."""

from typing import Final

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import pairs

from dataprep_api.dataset.plan import HASH_BLOCK, HashInterval, SplitPlan
from dataprep_api.spec.splits import MOST_SPLITS
from dataprep_converter.sampling import selection
from dataprep_converter.sampling.selection import Selection, hashes, mix, permuted, unpermuted
from dataprep_converter.sampling.split_assignments import SplitAssignments, to_parquet
from dataprep_converter.sampling.units import Unit, UnitTable
from dataprep_reader.order import window_order


def units(*records: int) -> UnitTable:
    return UnitTable.of(Unit(root=0, path=f"file-{i}", uri=f"/x/file-{i}", records=n, size=n, pin="p") for i, n in enumerate(records))


def split(*ranges: tuple[int, int], interval: HashInterval | None = None, of: UnitTable | None = None) -> SplitPlan:
    total = sum(b - a for a, b in ranges)
    plan = SplitPlan(name="train", ranges=list(ranges), hash=interval, records=total, shards=1, template="{split}")
    if interval is None or of is None:
        return plan
    members = Selection(plan, of, shuffle_seed=None)
    counts = [len(members.members(block)) for block in range(-(-total // HASH_BLOCK))]
    return plan.model_copy(update={"block_counts": counts, "records": sum(counts)})


def all_samples(selection: Selection, records: int, *, size: int = 100) -> list[int]:
    return [int(sample) for chunk in selection.chunks(0, records, size=size) for sample in chunk]


def test_mix_is_splitmix64() -> None:
    # The first outputs of SplitMix64 for the seed 1234567, as published with the generator.
    seeds = (np.arange(1, 4, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) + np.uint64(1234567)
    assert mix(seeds).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(size=st.integers(1, 3000), seed=st.integers(0, 2**53), version=st.sampled_from([1, 2]))
def test_a_shuffle_is_a_permutation(size: int, seed: int, version: int) -> None:
    assert sorted(permuted(np.arange(size), size=size, seed=seed, version=version).tolist()) == list(range(size))


def test_a_large_shuffle_is_a_permutation() -> None:
    for size in (65_536, 65_537, 70_000):
        assert np.array_equal(np.sort(permuted(np.arange(size), size=size, seed=3)), np.arange(size))


@given(size=st.integers(1, 3000), seed=st.integers(0, 2**53), version=st.sampled_from([1, 2]))
def test_the_inverse_of_a_shuffle_finds_each_rank(size: int, seed: int, version: int) -> None:
    ranks = np.arange(size)
    images = permuted(ranks, size=size, seed=seed, version=version)
    assert np.array_equal(unpermuted(images, size=size, seed=seed, version=version), ranks)


@pytest.mark.parametrize("size", [65_536, 65_537, 70_000, 2**20 + 1, 2**40 + 7])
@pytest.mark.parametrize("version", [1, 2])
def test_the_inverse_of_a_large_shuffle_finds_each_rank(size: int, version: int) -> None:
    ranks = np.linspace(0, size - 1, 999).astype(np.int64)
    images = permuted(ranks, size=size, seed=3, version=version)
    assert np.array_equal(unpermuted(images, size=size, seed=3, version=version), ranks)


def test_the_first_version_of_a_shuffle_is_what_it_was() -> None:
    # These numbers were computed by the last release in which the shuffle had no versions. Plans made by that release have this order.
    assert permuted(np.arange(12), size=12, seed=7, version=1).tolist() == [9, 6, 3, 4, 11, 5, 0, 8, 1, 2, 7, 10]
    assert permuted(np.arange(5), size=100_000, seed=7, version=1).tolist() == [12069, 87266, 9140, 18074, 78921]


def excess(counts: npt.NDArray[np.int64], expected: npt.NDArray[np.float64], *, freedom: int) -> float:
    """Returns the number of standard deviations by which chi-square exceeds its expected value."""
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom))


SHUFFLED_SIZES: Final = (2, 3, 4, 5, 7, 8, 16, 17, 64, 100, 256, 1000, 1024, 4096, 10_000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "window"),
    pairs.chosen(
        ((size, window) for size in SHUFFLED_SIZES for window in (False, True)),
        lambda size, window: pairs.has_turn(size, window, SHUFFLED_SIZES, (False, True)),
    ),
)
def test_positions_and_neighbours_of_a_shuffle_are_as_likely_as_any_others(size: int, window: bool) -> None:
    drawn = max(60, min(1500, 150_000 // size))
    if window:
        orders = np.stack([window_order(size, seed=seed % 7, epoch=seed // 7, window=seed % 5) for seed in range(drawn)])
    else:
        orders = np.stack([permuted(np.arange(size), size=size, seed=seed) for seed in range(drawn)])
    bins = min(size, 12)
    bin_of = np.arange(size) * bins // size
    wide = np.bincount(bin_of, minlength=bins)
    places = np.zeros((bins, bins), np.int64)
    np.add.at(places, (np.broadcast_to(bin_of, orders.shape), bin_of[orders]), 1)
    # Each row and each column of `places` has a fixed sum. So the cells depend on each other, and are tested together.
    assert excess(places, np.outer(wide, wide) * drawn / size, freedom=(bins - 1) ** 2) * (size - 1) / size < 4.5
    steps = (np.diff(orders, axis=1) % size - 1).ravel()
    if size > 2:
        kinds = min(4 * bins, size - 1)
        expected = np.bincount(np.arange(size - 1) * kinds // (size - 1), minlength=kinds) / (size - 1) * len(steps)
        # In short orders, the steps depend slightly on each other, so this limit is higher.
        assert excess(np.bincount(steps * kinds // (size - 1), minlength=kinds), expected, freedom=kinds - 1) < 6


@pytest.mark.parametrize("size", [16, 64])
def test_a_shuffle_has_even_and_odd_orders(size: int) -> None:
    odd = sum(is_odd(permuted(np.arange(size), size=size, seed=seed)) for seed in range(600))
    assert 240 < odd < 360


def is_odd(order: npt.NDArray[np.int64]) -> bool:
    seen, swaps = np.zeros(len(order), np.bool_), 0
    for start in range(len(order)):
        at = start
        while not seen[at]:
            seen[at] = True
            at = int(order[at])
            swaps += at != start
    return swaps % 2 == 1


def test_numbers_a_half_apart_are_not_seen_in_a_large_shuffle() -> None:
    # With only four rounds, numbers with equal low bits would keep their distance 1.5 times as often as expected.
    size, half = 2**18, 9
    apart = orders = 0
    for seed in range(12):
        order = permuted(np.arange(size), size=size, seed=seed)
        apart += int((((order[: -(1 << half)] ^ order[1 << half :]) >> half) == 1).sum())
        orders += size - (1 << half)
    assert abs(apart * 2**half / orders - 1) < 0.06


def test_a_shuffle_depends_on_its_seed_and_not_on_the_chunks() -> None:
    whole = permuted(np.arange(1000), size=1000, seed=7)
    assert np.concatenate([permuted(np.arange(a, a + 125), size=1000, seed=7) for a in range(0, 1000, 125)]).tolist() == whole.tolist()
    assert permuted(np.arange(1000), size=1000, seed=8).tolist() != whole.tolist()
    assert np.mean(np.abs(whole - np.arange(1000)) < 20) < 0.1


@pytest.mark.parametrize("size", [2, 1000, 300_000, 2**32])
def test_a_shuffle_by_tables_is_the_same_as_without(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    ranks = np.arange(min(size, 500))
    found = permuted(ranks, size=size, seed=11)
    monkeypatch.setattr(selection, "_TABLE_BITS", 0)
    selection._rounds.cache_clear()
    assert permuted(ranks, size=size, seed=11).tolist() == found.tolist()
    selection._rounds.cache_clear()


@given(cuts=st.lists(st.integers(0, 500), min_size=2, max_size=8, unique=True).map(sorted), seed=st.one_of(st.none(), st.integers(0, 99)))
def test_ranges_are_walked_in_order_or_shuffled_but_whole(cuts: list[int], seed: int | None) -> None:
    ranges = [(a, b) for a, b in zip(cuts[::2], cuts[1::2], strict=False)]
    expected = [sample for a, b in ranges for sample in range(a, b)]
    found = all_samples(Selection(split(*ranges), units(500), shuffle_seed=seed), len(expected), size=13)
    assert (found if seed is None else sorted(found)) == expected


def test_fractions_share_out_every_sample_once() -> None:
    source = units(150_000, 1, 40_000)
    cut = int(0.3 * 2**64)
    low = split((0, 190_001), interval=HashInterval(seed=5, low=0, high=cut), of=source)
    high = split((0, 190_001), interval=HashInterval(seed=5, low=cut, high=2**64), of=source)
    both = [all_samples(Selection(part, source, shuffle_seed=None), part.records, size=5000) for part in (low, high)]
    assert sorted(both[0] + both[1]) == list(range(190_001))
    assert both[0] == sorted(both[0])
    assert abs(low.records / 190_001 - 0.3) < 4 * (0.3 * 0.7 / 190_001) ** 0.5


@pytest.mark.parametrize("shuffle_seed", [None, 3])
def test_each_sample_has_the_rank_at_which_it_is_read(shuffle_seed: int | None) -> None:
    source = units(150_000, 1, 40_000)
    ranges = ((10, 70_000), (100_000, 190_001))
    parts = [
        split(*ranges),
        split(*ranges, interval=HashInterval(seed=5, low=2**62, high=2**63), of=source),
        split(*ranges, interval=HashInterval(seed=5, low=7, high=7), of=source),
        split(),
    ]
    for part in parts:
        selection = Selection(part, source, shuffle_seed=shuffle_seed)
        order = np.array(all_samples(selection, part.records, size=50_000), np.int64)
        expected = np.full(source.samples, -1, np.int64)
        expected[order] = np.arange(part.records)
        assert np.array_equal(selection.ranks(np.arange(source.samples)), expected)


def test_samples_with_a_split_code_have_the_rank_at_which_they_are_read() -> None:
    source = units(HASH_BLOCK + 5000)
    codes = np.random.default_rng(3).integers(0, 3, source.samples).astype(np.uint8)
    blocks = [codes[:HASH_BLOCK], codes[HASH_BLOCK:]]
    counts = [int((block == 2).sum()) for block in blocks]
    plan = split((0, source.samples)).model_copy(update={"code": 2, "block_counts": counts, "records": sum(counts)})
    selection = Selection(plan, source, shuffle_seed=4, codes=SplitAssignments(to_parquet(blocks)))
    ranks = selection.ranks(np.arange(source.samples))
    assert np.array_equal(ranks >= 0, codes == 2)
    order = np.array(all_samples(selection, plan.records), np.int64)
    assert np.array_equal(ranks[order], np.arange(plan.records))


@pytest.mark.parametrize("shuffle_seed", [None, 3])
def test_any_part_of_a_fraction_can_be_read_alone(shuffle_seed: int | None) -> None:
    source = units(200_000)
    part = split((1000, 199_000), interval=HashInterval(seed=1, low=2**63, high=2**64), of=source)
    whole = all_samples(Selection(part, source, shuffle_seed=shuffle_seed), part.records, size=9999)
    middle = Selection(part, source, shuffle_seed=shuffle_seed).chunks(part.records // 2, 500, size=77)
    assert [int(s) for chunk in middle for s in chunk] == whole[part.records // 2 : part.records // 2 + 500]


def test_the_hash_depends_on_path_and_row_alone() -> None:
    here, there = units(10, 10), UnitTable.of([Unit(root=0, path="file-1", uri="s3://b/file-1", records=10, size=3, pin="q")])
    assert hashes(here, np.arange(10, 20), seed=3).tolist() == hashes(there, np.arange(10), seed=3).tolist()
    assert hashes(here, np.arange(10), seed=3).tolist() != hashes(here, np.arange(10), seed=4).tolist()


def test_a_batch_of_many_splits_sorts_no_split_again() -> None:
    selection._inverse_order.cache_clear()
    for _ in range(3):
        for number in range(MOST_SPLITS):
            unpermuted(np.arange(5), size=100 + number, seed=1)
    assert selection._inverse_order.cache_info().misses == MOST_SPLITS
