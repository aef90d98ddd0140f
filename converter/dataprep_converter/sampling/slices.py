"""Slices of the input: consecutive units of about equal size, for tasks that read each unit once."""

import numpy as np

from dataprep_converter.sampling.selection import Samples
from dataprep_converter.sampling.units import UnitTable


def first_samples(units: UnitTable, count: int) -> Samples:
    """Returns the number of the first sample of each of `count` slices, followed by the number of all samples.

    A unit belongs to the slice that contains the unit's first byte. So a slice can be empty if a unit is large.
    """
    sizes = np.concatenate([np.zeros(0, np.int64), *(batch.column("size").to_numpy() for batch in units.batches(["size"]))])
    firsts = np.concatenate([np.zeros(0, np.int64), *(batch.column("first").to_numpy() for batch in units.batches(["first"]))])
    starts = np.cumsum(sizes) - sizes
    total = int(sizes.sum())
    # Use Python's integers, which don't overflow.
    bounds = np.searchsorted(starts, np.array([total * number // count for number in range(count)], np.int64))
    bounds[0] = 0
    return np.append(np.append(firsts, units.samples)[bounds], units.samples)
