"""The plan: every sample's place in a split and a shard, decided before any work starts.

A plan is `plan.json` (this model) and `units.parquet`. A *unit* is a part of the input that can be read on its own: an image
file, an IDX file, a run of rows of a CSV file. Samples are numbered 0, 1, … over the units in order; a split is a set of
these numbers, given by ranges and, for fractions, a hash interval; a shard is a run of a split's ranks. So nothing is stored
per sample or per shard, and every worker derives the same answer. Only splits that depend on values or on ranks (a column, groups,
classes, exact fractions, counts, a limit) store one byte for each sample, compressed, in `splits.parquet`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from dataprep_api import names
from dataprep_api.dataset.stored import Stored
from dataprep_api.spec import Model

HASH_BLOCK = 65_536
"""Samples of a block: for splits by fraction or by code the plan counts each block's members."""


class HashInterval(Model):
    """Samples whose 64-bit hash h has low <= h < high."""

    seed: int
    low: int
    high: int


class SplitPlan(Model):
    """One split: which samples, how many shards."""

    name: str
    ranges: list[tuple[int, int]]
    """Half-open ranges of sample numbers, ascending."""
    hash: HashInterval | None = None
    """Only samples of this interval."""
    code: int | None = None
    """Only samples with this code in `splits.parquet`."""
    block_counts: list[int] | None = None
    """With `hash` or `code`: members of each block of HASH_BLOCK samples of the ranges laid end to end."""
    records: int
    batch: int = 1
    """Samples of a minibatch, which no shard divides; 1 where records stand alone."""
    expected: int | None = None
    """Records that the rule asks for, when it names a number or a fraction."""
    tolerance: int | None = None
    """How far from that the rule may be: for drawn fractions four standard deviations."""
    shards: int
    template: str
    """File name template."""
    first_shard: int = 0
    """Number of the first shard's file: those before it are an earlier run's."""
    first_block: int = 0
    """With `code`: where this entry's blocks begin in `splits.parquet`."""


class Earlier(Model):
    """A run that this one extends: the beginning of its plan is that run's plan."""

    run_id: str
    inputs_sha256: str
    content: dict[str, Any]
    """What of its spec decided the bytes, but for the source's URIs."""
    units: int
    samples: int
    splits: int
    """Entries of `PlanHead.splits`."""


class PlanHead(Stored):
    """`plan.json`."""

    FILE: ClassVar[str] = "plan"
    SINCE: ClassVar[Mapping[str, int]] = {"parts": 2, "keys": 2}

    run_id: str
    encoding_version: int
    parts: dict[str, int] = {}
    """The versions of the parts that decide the bytes (`run_id.PARTS`), but for those of version 1."""
    spec_sha256: str
    inputs_sha256: str
    """Digest over every unit's path, size and pin."""
    units_sha256: str
    """Digest of `units.parquet`."""
    codes_sha256: str | None = None
    """Digest of `splits.parquet`, when the splits need it."""
    reader: str
    """Registry key of the source."""
    reader_state: dict[str, Any] = {}
    """What the reader froze while planning: columns and types, class list, roots. JSON values; each reader knows its own form."""
    learned: dict[str, Any] = {}
    """What transforms learned from the data, by their number: the terms of a vocabulary."""
    samples: int
    bytes_in: int
    ignored: int = 0
    """Files among the inputs that the source doesn't take: hidden ones, other extensions, data sets below them."""
    code_sha256: str | None = None
    """Digest of the files of `spec.code`."""
    keys: dict[str, str] = {}
    """By environment variable, a keyed digest of a constant under the key in it (`hash.keyEnv`): tells whether a key is the same, and not what it is."""
    shuffle_seed: int | None = None
    splits: list[SplitPlan]
    """Of a data set that was extended, one entry for each split of each run: the earliest run's first."""
    extends: list[Earlier] = []
    """The earlier runs, the earliest first."""
    extension: str
    tasks: int
    warnings: list[str] = []

    def version_of(self, part: str) -> int:
        """The version of a part that the plan's bytes are made by."""
        return self.parts.get(part, 1)

    @property
    def shards(self) -> int:
        """Number of shards of all splits."""
        return sum(split.shards for split in self.splits)

    @property
    def earlier_shards(self) -> int:
        """Number of those that earlier runs made: the first ones."""
        return sum(split.shards for split in self.splits[: self.extends[-1].splits]) if self.extends else 0

    @property
    def split_names(self) -> list[str]:
        """Each once."""
        return list(dict.fromkeys(split.name for split in self.splits))


@dataclass(frozen=True)
class Shard:
    """One file to be made: the records of ranks first … first+records-1 of its split."""

    number: int
    """Number among all shards, from 0."""
    split: str
    index: int
    """Number within the split, from 0."""
    file: str
    """Path relative to the output."""
    first: int
    records: int
    part: int = 0
    """Its split's place in `PlanHead.splits`."""


def shards(plan: PlanHead) -> Iterator[Shard]:
    """All shards in order: sizes within a split differ by at most one record, or minibatch."""
    return _shards(plan, range(plan.shards))


def task(plan: PlanHead, index: int) -> list[Shard]:
    """The shards of one task: a run of the shards in order. Of an extended data set a run of the earlier shards, which are there, and one of the new.

    Where tasks can't have equally many, the first ones have more: they begin first.
    """
    old = plan.earlier_shards
    runs = [range(*(low - (low - high) * k // plan.tasks for k in (index, index + 1))) for low, high in ((0, old), (old, plan.shards))]
    return [shard for run in runs for shard in _shards(plan, run)]


def _shards(plan: PlanHead, run: range) -> Iterator[Shard]:
    """Those of these numbers."""
    before = 0
    for part, split in enumerate(plan.splits):
        batches = -(-split.records // split.batch)
        for nth in range(max(0, run.start - before), min(split.shards, run.stop - before)):
            first, after = (min(split.records, split.batch * (batches * k // split.shards)) for k in (nth, nth + 1))
            index, so_far = split.first_shard + nth, split.first_shard + split.shards
            file = names.file_name(split.template, split=split.name, shard=index, shards=so_far, ext=plan.extension)
            yield Shard(number=before + nth, split=split.name, index=index, file=file, first=first, records=after - first, part=part)
        before += split.shards


class Owner(Stored):
    """`_dataprep/OWNER`: the run that may write to the output."""

    FILE: ClassVar[str] = "OWNER file"
    SAYS_FIRST_VERSION: ClassVar[bool] = False

    run_id: str
    epoch: Annotated[int, Field(ge=1)] = 1
    """Rises when another run takes over."""
