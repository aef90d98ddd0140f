"""For each class of samples, finds bounds such that a given number of samples have hashes below each bound. Doesn't sort all samples.

`bounds` makes two passes over the hashes. The first pass counts the hashes by their leading bits. The second pass keeps only hashes that
have the same leading bits as a bound. So memory use depends on the number of classes and bounds, but hardly on the number of samples.
"""

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

HASH_BITS: Final = 63
"""One bit of a 64-bit hash isn't used, so that even a bound above all hashes fits in 64 bits."""

_CELLS = 1 << 20
_MOST_BINS = 1 << 16
_FEWEST_BINS = 64

Hashes = npt.NDArray[np.uint64]
Classes = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]


def bounds(
    blocks: Callable[[], Iterable[tuple[Hashes, Classes]]],
    *,
    classes: int,
    ranks: Callable[[Counts], npt.NDArray[np.int64]],
) -> tuple[Hashes, Counts]:
    """Returns (bounds, number of samples in each class). Exactly `ranks(counts)[c, j]` hashes of class c are less than `bounds[c, j]`.

    `blocks` yields the samples' hashes (HASH_BITS bits) and classes (0 … classes-1). `blocks` is called twice. `ranks` receives the number
    of samples of each class. For each class and bound, it returns how many of these samples should be below the bound. Equal hashes are
    always on the same side of a bound.
    """
    bins = max(_FEWEST_BINS, min(_MOST_BINS, 1 << (_CELLS // max(1, classes)).bit_length() - 1))
    shift = np.uint64(HASH_BITS - (bins - 1).bit_length())
    histogram = np.zeros(classes * bins, np.int64)
    for hashed, kinds in blocks():
        histogram += np.bincount(kinds * bins + (hashed >> shift).astype(np.int64), minlength=len(histogram))
    by_class = histogram.reshape(classes, bins)
    counts = by_class.sum(axis=1)
    target_ranks = ranks(counts)
    found_bounds = np.full(target_ranks.shape, np.uint64(1) << np.uint64(HASH_BITS), np.uint64)

    upto = np.cumsum(by_class, axis=1)
    open_ends = np.argwhere(target_ranks < counts[:, None])
    cell_of = {(int(c), int(j)): int(c) * bins + int(np.searchsorted(upto[c], target_ranks[c, j], side="right")) for c, j in open_ends}
    is_target = np.zeros(classes * bins, np.bool_)
    is_target[list(cell_of.values())] = True
    cell_hashes: list[tuple[npt.NDArray[np.int64], Hashes]] = []
    for hashed, kinds in blocks() if cell_of else ():
        cells = kinds * bins + (hashed >> shift).astype(np.int64)
        inside = is_target[cells]
        cell_hashes.append((cells[inside], hashed[inside]))
    if cell_hashes:
        cells, hashed = (np.concatenate(parts) for parts in zip(*cell_hashes, strict=True))
        order = np.lexsort((hashed, cells))
        cells, hashed = cells[order], hashed[order]
        for (c, j), cell in cell_of.items():
            lower_count = int(upto[c, cell % bins]) - int(by_class[c, cell % bins])
            found_bounds[c, j] = hashed[int(np.searchsorted(cells, cell)) + int(target_ranks[c, j]) - lower_count]
    return found_bounds, counts
