"""The plan, which assigns every sample to a split and a shard before any conversion starts.

A plan consists of `plan.json` (this model) and `units.parquet`. A *unit* is a part of the input that can be read separately. Examples are
an image file, an IDX file, and a range of rows of a CSV file. Samples are numbered from 0 across all units, in the order of the units. A
split is a set of sample numbers. A split is defined by ranges and, if it has a fraction, also by a hash interval. A shard is a range of
positions (*ranks*) in a split.

If ranges and hash intervals define all splits, the plan stores no data per sample or per shard, because every worker can derive the same
assignment. This isn't possible for splits by column, group, class, exact fraction or count, or with a limit. For these splits,
`splits.parquet` stores one compressed byte per sample.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from dataprep_api import names
from dataprep_api.dataset.stored import StoredDocument
from dataprep_api.spec import Model

HASH_BLOCK = 65_536
"""The number of samples in a block.

For splits by fraction or by code, the plan stores how many samples of each block belong to the split.
"""

FEWEST_BUNDLED = 8
"""The smallest number of shards in a bundle. A bundle is a file that repeats the reports of consecutive shards of one task."""
MOST_BUNDLED = 256
"""The largest number of shards in a bundle. A report takes up to about 8 KB, so the file of a bundle takes up to about 2 MB."""


class HashInterval(Model):
    """The samples whose 64-bit hash h satisfies low <= h < high."""

    seed: int
    low: int
    high: int


class SplitPlan(Model):
    """One split: its samples and its number of shards."""

    name: str
    ranges: list[tuple[int, int]]
    """Half-open ranges of sample numbers, in ascending order."""
    hash: HashInterval | None = None
    """If set, only samples in this interval belong to the split."""
    code: int | None = None
    """If set, only samples with this code in `splits.parquet` belong to the split."""
    block_counts: list[int] | None = None
    """The number of samples of each block that belong to the split.

    The field is set with `hash` or `code`. Each block consists of HASH_BLOCK consecutive samples of the concatenated ranges.
    """
    records: int
    batch: int = 1
    """The number of samples in a minibatch, or 1 without minibatches. A minibatch is never divided between shards."""
    expected: int | None = None
    """The number of records that the split should have. The field is set if the split's rule is a number or a fraction."""
    tolerance: int | None = None
    """The allowed deviation from `expected`. For randomly drawn fractions, the tolerance is four standard deviations."""
    shards: int
    template: str
    """The file name template."""
    first_shard: int = 0
    """The number in the name of the first shard's file. Files with lower numbers belong to an earlier run."""
    first_block: int = 0
    """The index of this entry's first block in `splits.parquet`. The field is set with `code`."""

    def first_rank(self, shard: int) -> int:
        """Return the rank of a shard's first record, or the number of records if `shard` equals the number of shards."""
        batches = -(-self.records // self.batch)
        return min(self.records, self.batch * (batches * shard // self.shards))


class Earlier(Model):
    """An earlier run that this run extends. This run's plan begins with the earlier run's plan."""

    run_id: str
    inputs_sha256: str
    content: dict[str, Any]
    """The earlier run's spec fields that affect the output's bytes, except for the source's URIs."""
    units: int
    samples: int
    splits: int
    """The number of entries of `PlanHead.splits` that belong to the run."""


class UnitGroups(Model):
    """The positions and digests of the row groups in `units.parquet`. With them, a worker can read and check a single row group."""

    rows: int
    """The number of units in each group except the last."""
    units: int
    firsts: list[int]
    """For each group, the number of its first sample."""
    offsets: list[int]
    """The offset of each group in the file, followed by the offset of the file's footer and by the file's size."""
    sha256: list[str]
    """The digests of the groups' bytes, followed by the digest of the footer."""


class PlanHead(StoredDocument):
    """The content of `plan.json`."""

    FILE: ClassVar[str] = "plan"
    SINCE: ClassVar[Mapping[str, int]] = {"parts": 2, "keys": 2, "commits": 2, "unit_groups": 3, "shuffle_tasks": 4}

    run_id: str
    encoding_version: int
    parts: dict[str, int] = {}
    """The versions of the rules that affect the bytes (`run_id.PARTS`). Rules with version 1 are omitted."""
    spec_sha256: str
    inputs_sha256: str
    """The digest of the paths, sizes and pins of all units."""
    units_sha256: str
    """The digest of `units.parquet`."""
    unit_groups: UnitGroups | None = None
    """The row groups of `units.parquet`, if it has several row groups."""
    codes_sha256: str | None = None
    """The digest of `splits.parquet`, if the splits need this file."""
    reader: str
    """The source's key in the registry of readers."""
    reader_state: dict[str, Any] = {}
    """What the reader determined while planning, such as columns, types, classes and roots.

    The state consists of JSON values in a form that the reader defines.
    """
    learned: dict[str, Any] = {}
    """What transforms learned from the data, such as the terms of a vocabulary. The keys are the numbers of the transforms."""
    samples: int
    bytes_in: int
    ignored: int = 0
    """The number of ignored input files.

    Ignored files are, for example, hidden files, files without the source's extensions, and files of data sets stored below the inputs.
    """
    code_sha256: str | None = None
    """The digest of the files of `spec.code`."""
    keys: dict[str, str] = {}
    """Maps each environment variable that contains a key (`hash.keyEnv`) to the digest of a constant, computed with this key.

    The digest shows whether the key is still the same, without revealing the key.
    """
    commits: dict[str, str] = {}
    """Maps each branch or tag of the Hugging Face Hub that the source reads (`hf://datasets/org/name@main`) to its commit at the time of planning.

    All workers read these commits, even if the branches have moved since then.
    """
    shuffle_seed: int | None = None
    shuffle_tasks: int | None = None
    """The number of tasks of the shuffle step, or None if the job has no shuffle step.

    Each of these tasks reads one slice of the input, and divides the slice's records among the convert tasks.
    """
    splits: list[SplitPlan]
    """The splits. An extended data set has one entry for each split of each run, starting with the entries of the earliest run."""
    extends: list[Earlier] = []
    """The earlier runs, in chronological order."""
    extension: str
    tasks: int
    warnings: list[str] = []

    def version_of(self, part: str) -> int:
        """Return the version of `part` (see `run_id.PARTS`) with which the plan's output is written."""
        return self.parts.get(part, 1)

    @property
    def shards(self) -> int:
        """The total number of shards."""
        return sum(split.shards for split in self.splits)

    @property
    def earlier_shards(self) -> int:
        """The number of shards that earlier runs wrote. These are the first shards."""
        return sum(split.shards for split in self.splits[: self.extends[-1].splits]) if self.extends else 0

    @property
    def split_names(self) -> list[str]:
        """The names of the splits, each once."""
        return list(dict.fromkeys(split.name for split in self.splits))


@dataclass(frozen=True)
class Shard:
    """One file to write. The file contains the records of its split whose ranks are `first` to `first + records - 1`."""

    number: int
    """The shard's number among all shards, counted from 0."""
    split: str
    index: int
    """The shard's number within the split, counted from 0."""
    file: str
    """The path relative to the output."""
    first: int
    records: int
    part: int = 0
    """The index of the shard's split in `PlanHead.splits`."""


def shards(plan: PlanHead) -> Iterator[Shard]:
    """Yield all shards in order. Within a split, shard sizes differ by at most one record or minibatch."""
    return _shards(plan, range(plan.shards))


def task(plan: PlanHead, index: int) -> list[Shard]:
    """Return the shards of one task: a range of consecutive shards.

    In an extended data set, a task has two ranges: a range of earlier shards, which already exist, and a range of new shards. If the shards
    can't be divided equally, the first tasks get more shards, because these tasks start first.
    """
    return [shard for run in _task_ranges(plan, index) for shard in _shards(plan, run)]


def bundles(plan: PlanHead) -> Iterator[range]:
    """Yield, in order, the ranges of shards whose reports are also stored in a bundle (see FEWEST_BUNDLED). All shards of a range belong to
    one task.

    Ranges with fewer shards than FEWEST_BUNDLED are left out, because reading a few reports one by one takes no longer than reading a
    bundle.
    """
    tasks = [_task_ranges(plan, index) for index in range(plan.tasks)]
    for run in (ranges[part] for part in (0, 1) for ranges in tasks):
        for start in range(run.start, run.stop, MOST_BUNDLED):
            bundle = range(start, min(start + MOST_BUNDLED, run.stop))
            if len(bundle) >= FEWEST_BUNDLED:
                yield bundle


def _task_ranges(plan: PlanHead, index: int) -> tuple[range, range]:
    """Return the shards of one task: the range of earlier shards, and the range of new shards."""
    old = plan.earlier_shards
    earlier, new = (
        range(*(_first_shard(low, high, tasks=plan.tasks, index=k) for k in (index, index + 1)))
        for low, high in ((0, old), (old, plan.shards))
    )
    return earlier, new


def first_new_shard(plan: PlanHead, index: int) -> int:
    """Return the number of a task's first new shard, or the number of shards if `index` equals the number of tasks."""
    return _first_shard(plan.earlier_shards, plan.shards, tasks=plan.tasks, index=index)


def _first_shard(low: int, high: int, *, tasks: int, index: int) -> int:
    """Return the number of a task's first shard when the shards `low` to `high - 1` are divided among `tasks` tasks."""
    return low - (low - high) * index // tasks


def _shards(plan: PlanHead, run: range) -> Iterator[Shard]:
    """Yield the shards whose numbers are in the range `run`."""
    before = 0
    for part, split in enumerate(plan.splits):
        for nth in range(max(0, run.start - before), min(split.shards, run.stop - before)):
            first, after = split.first_rank(nth), split.first_rank(nth + 1)
            index, so_far = split.first_shard + nth, split.first_shard + split.shards
            file = names.file_name(split.template, split=split.name, shard=index, shards=so_far, ext=plan.extension)
            yield Shard(number=before + nth, split=split.name, index=index, file=file, first=first, records=after - first, part=part)
        before += split.shards


class Maker(Model):
    """A process that does all steps of a job on its own machine (`dataprep run`)."""

    job: str
    """The job's name."""
    user: int
    """The id of the user who runs the process."""
    host: str
    machine: str
    """Identifies one boot of the machine, and the namespace of process ids. The host name isn't enough, because two hosts may share it."""
    pid: int
    started: int
    """When the process started, in the kernel's clock ticks. A later process with the same pid has a different start time."""


class Owner(StoredDocument):
    """The content of `_dataprep/OWNER`, which names the run that may write to the output."""

    FILE: ClassVar[str] = "OWNER file"
    SAYS_FIRST_VERSION: ClassVar[bool] = False
    SINCE: ClassVar[Mapping[str, int]] = {"makers": 2}

    run_id: str
    epoch: Annotated[int, Field(ge=1)] = 1
    """A number that increases when another run takes over the output."""
    makers: list[Maker] = []
    """All processes that may work on the unfinished run. Empty if unknown, as on a cluster, and also in a finished data set."""
