"""The samples of a shard, in the shard's order."""

from collections.abc import Iterator

from dataprep_api.dataset.plan import Shard
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.sampling.selection import Samples, Selection
from dataprep_converter.sampling.units import samples_of_a_batch

MOST_RECORDS = 16384
"""Maximum number of samples in a batch."""


def selection_of(shard: Shard, plan: Plan) -> Selection:
    """Returns the samples of the shard's split, and their order."""
    return Selection(
        plan.head.splits[shard.part],
        plan.units,
        shuffle_seed=plan.head.shuffle_seed,
        shuffle_version=plan.head.version_of("shuffle"),
        codes=plan.codes,
    )


def samples_of(shard: Shard, *, plan: Plan, most_records: int) -> Iterator[Samples]:
    """Yields the samples of a shard in the shard's order, as one array per batch. `most_records` is the pipeline's limit."""
    selection = selection_of(shard, plan)
    # The batch size can be chosen freely, because the shard's bytes don't depend on it.
    size = samples_of_a_batch(plan.head.bytes_in, plan.head.samples, most=min(most_records, MOST_RECORDS))
    return selection.chunks(shard.first, shard.records, size=size)
