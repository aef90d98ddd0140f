"""Ranking: finds a bound for each class, such that exactly a given number of the class's hashes are below the bound."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep_converter.planning.ranking import HASH_BITS, Classes, Hashes, bounds


@pytest.mark.slow
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=4).map(sorted),
    leading=st.sampled_from([0, 40, 58]),
    seed=st.integers(0, 99),
)
def test_so_many_hashes_lie_below_each_bound(sizes: list[int], shares: list[float], leading: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    kinds = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    # Hashes that share many leading bits are in the same bin.
    hashed = random.choice(2**16, size=len(kinds), replace=False).astype(np.uint64) << np.uint64(max(0, HASH_BITS - 16 - leading))
    blocks = [(hashed[at : at + 7], kinds[at : at + 7]) for at in range(0, len(kinds), 7)]

    def again() -> Iterator[tuple[Hashes, Classes]]:
        return iter(blocks)

    wanted = np.array([[int(size * share) for share in shares] for size in sizes])
    found, counts = bounds(again, classes=len(sizes), ranks=lambda _: wanted)
    assert counts.tolist() == sizes
    below = [[int(np.count_nonzero(hashed[kinds == c] < bound)) for bound in row] for c, row in enumerate(found)]
    assert below == wanted.tolist()


def test_a_rank_behind_the_last_is_above_every_hash() -> None:
    highest = np.array([2**HASH_BITS - 1], np.uint64)
    found, _ = bounds(lambda: iter([(highest, np.zeros(1, np.int64))]), classes=1, ranks=lambda counts: counts[:, None])
    assert found.tolist() == [[2**HASH_BITS]]
