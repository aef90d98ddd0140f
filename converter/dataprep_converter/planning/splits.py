"""Divides the samples of a source into the splits of a spec, and counts the splits' shards. Pure arithmetic.

Splits that depend on values or ranks are assigned sample by sample in `assignment.py`. All other splits are ranges of samples or intervals
of hashes.
"""

import json
import math
from collections.abc import Mapping, Sequence

from dataprep_api import names, quantity
from dataprep_api.dataset import run_id
from dataprep_api.dataset.plan import HASH_BLOCK, HashInterval, SplitPlan
from dataprep_api.formats import format_rules
from dataprep_api.spec import NO_TRAIN, DataPrepJobSpec, Split, Splits
from dataprep_api.spec.splits import LONGEST_SUBSET, MOST_SPLITS
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import pc
from dataprep_converter.sampling.selection import Selection
from dataprep_converter.sampling.units import UnitTable

DEFAULT_SHARD_BYTES = 128 * 2**20

Ranges = list[tuple[int, int]]


def divide(
    spec: DataPrepJobSpec,
    units: UnitTable,
    *,
    bytes_per_record: float,
    extension: str,
    rules: Splits | None = None,
    assigned: Sequence[SplitPlan] | None = None,
    parts: Mapping[str, int] | None = None,
) -> list[SplitPlan]:
    """Divides units into splits and shards by the rules (default: the spec's rules).

    If samples were assigned to splits one by one, `assigned` contains these splits. `parts` contains the rule versions, which affect file
    names.
    """
    dl4j_folders = (run_id.versions(spec) if parts is None else parts).get("dl4jFolders", 1)
    plans = assigned
    if plans is None:
        plans = [
            _members(split, ranges, interval, units)
            for split, ranges, interval in _assign(rules or rules_of(spec, units), subset_ranges(units))
        ]
    split_names = [plan.name for plan in plans]
    if format_rules(spec.output.format).is_for_sagemaker and "train" not in split_names:
        raise BadSpec(f"{NO_TRAIN}; they are {', '.join(split_names)}.")
    several = len(plans) > 1
    divided = []
    for plan in plans:
        count = _shard_count(spec, plan.records, bytes_per_record)
        template = names.file_name_template(
            spec.output.template, shards=count, format_=spec.output.format, several_splits=several, dl4j_folders=dl4j_folders
        )
        fault = names.template_fault(template, several_splits=several, several_shards=count > 1)
        if fault:
            raise BadSpec(f"output.fileName {template!r}: {fault}.")
        divided.append(plan.model_copy(update={"batch": spec.output.batch, "shards": count, "template": template}))
    _check_names(divided, extension)
    return divided


def rules_of(spec: DataPrepJobSpec, units: UnitTable) -> Splits:
    """Returns the spec's rules, or the default rules for the source's subsets.

    Raises BadSpec for a subset that doesn't exist, and if the subsets can't all become splits.
    """
    subsets = list(subset_ranges(units))
    if spec.splits is None:
        return _rules_by_default(subsets)
    for split in spec.splits.into:
        if units.samples and split.subset is not None and split.subset not in subsets:
            raise BadSpec(
                f"splits: {split.name} takes subset {split.subset!r}, which the source does not have (it has: {_abbreviate(subsets)})."
            )
    return spec.splits


def _rules_by_default(subsets: Sequence[str]) -> Splits:
    """Returns a split for each subset, with the subset's name. For a source without subsets, returns one split named `train`."""
    named_subsets = [subset for subset in subsets if subset]
    if not named_subsets:
        return Splits(into=[Split(name="train")])
    if len(named_subsets) < len(subsets):
        raise BadSpec(
            f"Some records are in a subset ({_abbreviate(named_subsets)}), but others are in none. Set their splits in splits.into; an "
            "entry without subset takes the remaining records."
        )
    if len(named_subsets) > MOST_SPLITS:
        raise BadSpec(
            f"The source has {len(named_subsets):,} subsets ({_abbreviate(named_subsets)}), and each of them would become a split, "
            f"but a job can have at most {MOST_SPLITS} splits. List the splits in splits.into, or, if subsetFrom is set, remove it, "
            "so that the source has no subsets."
        )
    subset_of: dict[str, str] = {}
    for subset in named_subsets:
        if len(subset) > LONGEST_SUBSET:
            raise BadSpec(f"The subset {subset[:64]!r}… has a name of {len(subset):,} characters; expected at most {LONGEST_SUBSET:,}.")
        name = names.split_name(subset)
        if not name:
            raise BadSpec(
                f"The name of the subset {subset!r} can't become the name of a split, "
                f"because it contains no letter from A to Z and no digit. "
                f"{_advise(subset)}"
            )
        if name in subset_of:
            raise BadSpec(
                f"The subsets {subset_of[name]!r} and {subset!r} would both be the split {name}. {_advise(subset_of[name], subset)}"
            )
        subset_of[name] = subset
    return Splits(into=[Split(name=name, subset=subset) for name, subset in subset_of.items()])


def _advise(*subsets: str) -> str:
    """Returns advice on setting split names for these subsets."""
    entries = ", ".join(f"{{name: …, subset: {json.dumps(subset, ensure_ascii=False)}}}" for subset in subsets)
    return f"Set the names of all subsets in the spec: splits: {{into: [{entries}, …]}}."


def _abbreviate(subsets: Sequence[str]) -> str:
    """Returns the names of subsets as text, abbreviated if there are many."""
    named_subsets = [subset for subset in subsets if subset]
    return ", ".join([*named_subsets[:MOST_SPLITS], *(["…"] if len(named_subsets) > MOST_SPLITS else [])]) or "none"


def deviations(fraction: float, spread: float) -> int:
    """Returns four times the standard deviation of the size of a split whose members are drawn at random.

    Each group is drawn as a whole. `spread` is the sum of the squares of the group sizes.
    """
    return math.ceil(4 * math.sqrt(max(0.0, fraction * (1 - fraction)) * spread))


def misses_rule(split: SplitPlan) -> bool:
    """Whether a split has more or fewer records than its rule allows."""
    return split.expected is not None and abs(split.records - split.expected) > (split.tolerance or 0)


def _assign(rules: Splits, subsets: Mapping[str, Ranges]) -> list[tuple[Split, Ranges, HashInterval | None]]:
    """Returns the ranges and hash interval of each split.

    Splits with `first` take their samples first, and splits with `fraction` come next. Splits with neither `first` nor `fraction` take the
    remaining samples.
    """
    pool = _Pool(subsets)
    first_ranges: dict[str, Ranges] = {}
    for split in rules.into:
        if split.first is not None:
            first_ranges[split.name] = pool.take(split.subset, split.first)
    groups: dict[str | None, Ranges] = {}
    reached: dict[str | None, float] = {}
    assigned: list[tuple[Split, Ranges, HashInterval | None]] = []
    for split in rules.into:
        interval = None
        if split.first is not None:
            ranges = first_ranges[split.name]
        elif split.fraction is None:
            ranges = pool.take_all(split.subset)
        else:
            if split.subset not in groups:
                groups[split.subset] = pool.take_all(split.subset)
            ranges = groups[split.subset]
            low = reached.get(split.subset, 0.0)
            high = reached[split.subset] = low + split.fraction
            interval = HashInterval(seed=rules.seed, low=_bound(low), high=_bound(high))
        assigned.append((split, _merge(ranges), interval))
    return assigned


def _bound(fraction: float) -> int:
    """Returns the hash at a fraction of the hash space. A fraction that differs from 1 only by rounding maps to the end of this space."""
    return 2**64 if fraction > 1 - 1e-6 else int(fraction * 2**64)


class _Pool:
    """The samples that aren't assigned to a split yet, by subset."""

    def __init__(self, subsets: Mapping[str, Ranges]) -> None:
        self._free = {name: list(ranges) for name, ranges in subsets.items()}

    def take_all(self, subset: str | None) -> Ranges:
        """Removes all samples of one subset, or of all subsets, and returns the samples' ranges."""
        ranges: Ranges = []
        for name in [name for name in self._free if subset in (None, name)]:
            ranges += self._free[name]
            self._free[name] = []
        return ranges

    def take(self, subset: str | None, count: int) -> Ranges:
        """Removes the first `count` samples of one subset, or of all subsets, and returns the samples' ranges."""
        taken_ranges: Ranges = []
        in_order = sorted((r, name) for name, ranges in self._free.items() if subset in (None, name) for r in ranges)
        for (start, stop), name in in_order:
            if count == 0:
                break
            end = min(stop, start + count)
            taken_ranges.append((start, end))
            count -= end - start
            self._free[name] = [r for r in self._free[name] if r != (start, stop)] + ([(end, stop)] if end < stop else [])
        return taken_ranges


def _merge(ranges: Ranges) -> Ranges:
    """Returns the ranges in ascending order, after joining adjacent ranges and dropping empty ranges."""
    merged: Ranges = []
    for start, stop in sorted(ranges):
        if start == stop:
            continue
        if merged and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return merged


def subset_ranges(units: UnitTable) -> dict[str, Ranges]:
    """Returns each subset's ranges of sample numbers, keyed by subset, in the order in which the subsets first appear.

    Adjacent ranges of one subset are joined.
    """
    subsets: dict[str, Ranges] = {}
    last = None
    for batch in units.batches(["subset", "first", "records"]):
        runs = pc.run_end_encode(batch.column("subset"))
        first, records = (batch.column(name).to_numpy() for name in ("first", "records"))
        begin = 0
        for name, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            ranges = subsets.setdefault(name, [])
            start = ranges.pop()[0] if name == last else int(first[begin])
            ranges.append((start, int(first[end - 1] + records[end - 1])))
            begin, last = end, name
    return subsets


def _members(split: Split, ranges: Ranges, interval: HashInterval | None, units: UnitTable) -> SplitPlan:
    pool = sum(b - a for a, b in ranges)
    plan = SplitPlan(name=split.name, ranges=ranges, hash=interval, records=pool, shards=0, template="")
    if interval is None or split.fraction is None:
        return plan if split.first is None else plan.model_copy(update={"expected": split.first, "tolerance": 0})
    selection = Selection(plan, units, shuffle_seed=None)
    counts = [len(selection.members(block)) for block in range(-(-pool // HASH_BLOCK))]
    expected = {"expected": round(split.fraction * pool), "tolerance": deviations(split.fraction, pool)}
    return plan.model_copy(update={"block_counts": counts, "records": sum(counts), **expected})


def counted_by_size(spec: DataPrepJobSpec) -> bool:
    """Whether the number of shards depends on the record size."""
    shards = spec.output.shards
    return shards.target_size is not None or (shards.count is None and shards.records is None and spec.output.granularity != "Minibatch")


def _shard_count(spec: DataPrepJobSpec, records: int, bytes_per_record: float) -> int:
    shards = spec.output.shards
    batches = -(-records // spec.output.batch)
    if shards.count is not None:
        return min(shards.count, batches)
    if shards.records is not None:
        return -(-batches // (shards.records // spec.output.batch))
    if not counted_by_size(spec):
        return batches
    target = quantity.to_bytes(shards.target_size) if shards.target_size is not None else DEFAULT_SHARD_BYTES
    return min(batches, max(1, -(-int(records * bytes_per_record) // target)))


def _check_names(splits: Sequence[SplitPlan], extension: str) -> None:
    firsts = [names.file_name(s.template, split=s.name, shard=0, shards=s.shards, ext=extension) for s in splits if s.shards]
    if len(set(firsts)) != len(firsts):
        raise BadSpec(f"output.fileName gives two splits the same file: {', '.join(firsts)}.")
    of_splits: dict[str, str] = {}
    for split in splits:
        first_two = range(min(2, split.shards))
        some = (names.file_name(split.template, split=split.name, shard=n, shards=split.shards, ext=extension) for n in first_two)
        for file in names.split_files(extension, some):
            if of_splits.setdefault(split.name, file) != file or list(of_splits.values()).count(file) > 1:
                raise BadSpec(
                    f"output.fileName {split.template!r}: {extension} needs one folder per split, and all shards of the split in that folder."
                )
