"""Decides how many samples the first round of a shuffle reads at a time, so that the decoded rows of a batch stay small.

Decoded rows may be much larger than the compressed input. So the decoded rows of each batch are measured, and the next batch can be only a
few times larger. A unit is the smallest range of the input that can be read on its own. A batch ends at the end of a unit, because the next
unit's rows can be much larger. If the next unit has a different number of input bytes per sample, the next batch has few samples. Within a
unit, batches can grow, because the reader keeps the decoded block in memory anyway.
"""

from typing import Final

import numpy as np

from dataprep_converter.runtime import limits
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.sampling.selection import Samples
from dataprep_converter.sampling.units import UnitTable, samples_of_a_batch

MOST_RECORDS: Final = 16384
"""The maximum number of samples that are read at a time."""
FIRST_RECORDS: Final = 16
"""The maximum number of samples in a batch while the size of decoded rows is unknown, and in a batch from units that are not alike."""
_GROWTH = 4
"""A batch has at most this many times the samples of the previous batch."""
_DECODED_BYTES = 16 << 20
_SHARE_OF_MEMORY = 64
"""The decoded rows of a batch should take at most _DECODED_BYTES, and at most 1/_SHARE_OF_MEMORY of the memory."""
_ALIKE = 2
"""Consecutive units are alike if their numbers of input bytes per sample differ by at most this factor."""
_SHARED_BYTES, _SHARED_RECORDS = 256 << 10, 64
"""Several units can share a batch if they are alike. Such a batch has at most this many bytes of the input and this many samples. The
number of samples is small, because a unit with much larger rows can look like the other units if its rows are compressed better."""


class BatchSizes:
    """Divides the samples of a slice into batches. The division depends only on the plan, the rows and the memory limit."""

    def __init__(self, plan: Plan, units: UnitTable, *, first: int, end: int) -> None:
        """`units` are the units of the plan. The slice consists of complete units: those from the sample `first` to the sample `end`."""
        found = [np.zeros((3, 0), np.int64)]
        for batch in units.batches(["records", "size", "first"]):
            columns = np.stack([column.to_numpy() for column in batch.columns])
            found.append(columns[:, (columns[2] >= first) & (columns[2] < end)])
        records, sizes, self._firsts = np.concatenate(found, axis=1)
        self._ends = self._firsts + records
        self._offsets = np.append(0, np.cumsum(sizes))
        sample_bytes = np.maximum(sizes, 1) / np.maximum(records, 1)
        factors = sample_bytes[1:] / sample_bytes[:-1]
        self._kinds = np.append(0, np.cumsum((factors > _ALIKE) | (factors < 1 / _ALIKE)))
        """A number for each unit. A unit has the same number as the unit before it if the two are alike, and otherwise the next number."""
        self._most = samples_of_a_batch(plan.head.bytes_in, plan.head.samples, most=MOST_RECORDS)
        self._decoded_bytes = min(_DECODED_BYTES, limits.memory_bytes() // _SHARE_OF_MEMORY)
        self._samples = min(self._most, FIRST_RECORDS)
        self._kind = -1

    def next(self, samples: Samples) -> int:
        """Returns how many of these samples the next batch contains. `samples` must be in order."""
        unit = int(np.searchsorted(self._firsts, samples[0], side="right")) - 1
        if self._kinds[unit] != self._kind:
            self._kind = int(self._kinds[unit])
            self._samples = min(self._samples, FIRST_RECORDS)
        alike = int(np.searchsorted(self._kinds, self._kind, side="right"))
        small = int(np.searchsorted(self._offsets, self._offsets[unit] + _SHARED_BYTES, side="right")) - 1
        inside = int(np.searchsorted(samples, self._ends[unit]))
        shared = int(np.searchsorted(samples, self._ends[max(unit, min(alike, small) - 1)]))
        return min(self._samples, max(FIRST_RECORDS, inside, min(shared, _SHARED_RECORDS)))

    def measure(self, rows: int, decoded_bytes: int) -> None:
        """Sets the size of the next batch according to the decoded rows of the latest batch."""
        row_bytes = max(1, decoded_bytes // max(1, rows))
        self._samples = max(1, min(self._most, self._samples * _GROWTH, self._decoded_bytes // row_bytes))
