"""Decides which samples `spec.limit` leaves out."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dataprep_converter.sampling.selection import Samples, hashes
from dataprep_converter.sampling.units import Units


@dataclass(frozen=True)
class SampleLimit:
    """Keeps the samples whose hashes are below a bound. Can be pickled."""

    seed: int
    bound: int
    """A number of `ranking.HASH_BITS` bits, or the number after the largest such number."""

    def beyond(self, units: Units, samples: Samples) -> npt.NDArray[np.bool_]:
        """Returns which of the samples are left out."""
        is_beyond: npt.NDArray[np.bool_] = hashes(units, samples, seed=self.seed) >> np.uint64(1) >= np.uint64(self.bound)
        return is_beyond
