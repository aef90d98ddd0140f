"""Finds the task that writes each sample, so that the first round of a shuffle can divide the samples.

This is the inverse of a plan's selections.
"""

from itertools import accumulate
from typing import Final

import numpy as np
import numpy.typing as npt

from dataprep_api.dataset.plan import PlanHead, first_new_shard
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.sampling.selection import Samples, Selection

NOWHERE: Final = -1
"""The task of a sample that is in no split."""


class Destinations:
    """Finds the tasks of any samples of a plan. The tasks are computed, so no list of all samples is needed."""

    def __init__(self, plan: Plan) -> None:
        head = plan.head
        self._splits = [
            (
                Selection(
                    split,
                    plan.units,
                    shuffle_seed=head.shuffle_seed,
                    shuffle_version=head.version_of("shuffle"),
                    codes=plan.codes,
                ),
                first_shard,
                np.array([split.first_rank(shard) for shard in range(split.shards)], np.int64),
            )
            for split, first_shard in zip(head.splits, _first_shards(head), strict=True)
            if split.records
        ]
        """For each split with records: its samples, the number of its first shard, and the first rank of each of its shards."""
        self._tasks = np.array([first_new_shard(head, index) for index in range(head.tasks)], np.int64)
        """The number of each task's first shard."""

    def tasks(self, samples: Samples) -> npt.NDArray[np.int64]:
        """Returns the index of the task that writes each sample, or NOWHERE for a sample in no split."""
        tasks = np.full(len(samples), NOWHERE, np.int64)
        for selection, first_shard, first_ranks in self._splits:
            ranks = selection.ranks(samples)
            inside = ranks >= 0
            # An empty shard or task begins at the same position as the next one. If several shards or tasks begin at the same position,
            # the last of them has the sample.
            shards = first_shard + np.searchsorted(first_ranks, ranks[inside], side="right") - 1
            tasks[inside] = np.searchsorted(self._tasks, shards, side="right") - 1
        return tasks


def _first_shards(head: PlanHead) -> list[int]:
    """Returns the number of the first shard of each split."""
    return [0, *accumulate(split.shards for split in head.splits)][:-1]
