"""Assigns each sample to a split by rules that ranges and hash intervals can't express.

These rules select samples by value, select an exact fraction or an exact number of samples, or stop at a limit. The rules are applied one
after the other. Each rule goes, block by block, through the samples that have no split yet. The rules need the code, the class and the
group's hash of each sample. These values are kept in anonymous temporary files, so memory use doesn't grow with the number of samples.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.dataset.plan import HASH_BLOCK, SplitPlan
from dataprep_api.spec import DataPrepJobSpec, Split, Splits
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import pc
from dataprep_converter.planning import column_values, dedupe, ranking
from dataprep_converter.planning.sample_limit import SampleLimit
from dataprep_converter.planning.splits import deviations, subset_ranges
from dataprep_converter.records.columns import find_columns
from dataprep_converter.runtime.temporary import TemporaryFile
from dataprep_converter.sampling import split_assignments
from dataprep_converter.sampling.selection import Samples, hashes, mix, mix_one
from dataprep_converter.sampling.units import UnitTable

MOST_CLASSES: Final = 10_000

_FREE, _UNREADABLE, _BEYOND = 0, 254, 255
# With equal seeds, the limit and the counts would select the same samples. With a seed that a spec can contain, they could select the same
# samples as the first fraction. So their seeds differ, and both are larger than any seed in a spec.
_LIMIT_SEED = 2**54
_COUNT_SEED = 2**55

Mask = npt.NDArray[np.bool_]
Hashes = npt.NDArray[np.uint64]

ReadColumns = Callable[[Sequence[str]], Iterator[tuple[Samples, pa.RecordBatch, Samples]]]
"""Reads columns of every sample in order. Yields (requested sample numbers, records of the good samples, numbers of the good samples)."""

FindRepeated = Callable[[Sequence[str], SampleLimit | None], Generator[Samples, None, None]]
"""Yields the numbers of the duplicates within a limit: samples whose values in these columns equal the values of an earlier sample within
the limit. It may also yield samples beyond the limit."""


@dataclass(frozen=True)
class Assignment:
    """The split of every sample."""

    stored: bytes
    """Content of `splits.parquet`."""
    plans: list[SplitPlan]
    """The splits, not yet divided into shards."""
    repeated: int
    """Number of samples left out as duplicates."""


def is_needed(spec: DataPrepJobSpec, samples: int) -> bool:
    """Whether sample-by-sample assignment is needed, because ranges and hash intervals can't express the splits."""
    rules = spec.splits
    if samples == 0:
        return False
    if spec.deduplicate is not None or (spec.limit is not None and spec.limit < samples):
        return True
    return rules is not None and (
        rules.exact
        or rules.group_by is not None
        or rules.stratify_by is not None
        or rules.column is not None
        or any(split.count is not None for split in rules.into)
    )


def assign(
    rules: Splits,
    units: UnitTable,
    *,
    limit: int | None,
    unique: Sequence[str] | None = None,
    schema: pa.Schema,
    read: ReadColumns,
    find_repeated: FindRepeated | None = None,
) -> Assignment:
    """Assigns every sample. `find_repeated` finds the samples with equal values in the columns `unique`; if None, this process does.

    Raises BadSpec for columns that don't exist or whose values don't fit the rules.
    """
    table = _Table(units, rules)
    columns = _Columns.of(rules, schema)
    sample_limit = _apply_limit(table, limit) if limit is not None and limit < units.samples else None
    if unique is not None:
        find = find_repeated or partial(_find_repeated_here, table, read)
        with closing(find(find_columns(unique, schema, of="deduplicate"), sample_limit)) as found:
            _leave_out(table, found)
    if columns.names:
        _read_values(table, columns, read)
    for number, split in enumerate(rules.into):
        if split.first is not None:
            _take_first(table, number, split)
    for number, split in enumerate(rules.into):
        if split.count is not None:
            _take_count(table, number, split)
    shared_out: set[str | None] = set()
    for number, split in enumerate(rules.into):
        if split.fraction is not None and split.subset not in shared_out:
            shared_out.add(split.subset)
            _share_out(table, split.subset)
        elif split.fraction is None and split.first is None and split.count is None and not split.by_column:
            table.take(number, split.subset)
    return table.result()


class _Table:
    """The samples' codes, while the samples are assigned to splits."""

    def __init__(self, units: UnitTable, rules: Splits) -> None:
        self.units = units
        self.rules = rules
        self.codes = scratch(units.samples, np.uint8)
        self.groups: Hashes | None = None
        self.classes: npt.NDArray[np.uint16] | None = None
        self.class_count = 1
        self.expected_counts: dict[int, tuple[int, int]] = {}
        """Maps a split's number to its expected record count and the tolerance."""
        self.repeated = 0
        self._subsets = {name: np.array(ranges, np.int64) for name, ranges in subset_ranges(units).items()}

    def blocks(self) -> Iterator[slice]:
        """Yields the samples as slices, one block at a time."""
        for start in range(0, self.units.samples, HASH_BLOCK):
            yield slice(start, min(start + HASH_BLOCK, self.units.samples))

    def free(self, block: slice, subset: str | None) -> Mask:
        """Returns which samples of a block have no split yet and, if a subset is given, belong to this subset."""
        codes = self.codes[block]
        is_free: Mask = (codes == _FREE) | (codes == _UNREADABLE)
        if subset is not None:
            is_free &= self._belongs_to(block, subset)
        return is_free

    def _belongs_to(self, block: slice, subset: str) -> Mask:
        """Returns which samples of a block belong to the subset."""
        if subset not in self._subsets:
            return np.zeros(block.stop - block.start, np.bool_)
        starts, stops = self._subsets[subset].T
        samples = np.arange(block.start, block.stop)
        is_inside: Mask = np.searchsorted(starts, samples, side="right") > np.searchsorted(stops, samples, side="right")
        return is_inside

    def take(self, number: int, subset: str | None) -> None:
        """Assigns all free samples to one split."""
        for block in self.blocks():
            self.codes[block][self.free(block, subset)] = number + 1

    def hash_block(self, block: slice, *, seed: int) -> Hashes:
        """Returns the hash of each sample of a block. A hash has ranking.HASH_BITS bits."""
        return hashes(self.units, np.arange(block.start, block.stop), seed=seed) >> np.uint64(1)

    def result(self) -> Assignment:
        """Returns the final assignment. Unreadable samples without a split go to the first split, where they count as bad."""
        counts: list[npt.NDArray[np.int64]] = []

        def final() -> Iterator[npt.NDArray[np.uint8]]:
            for block in self.blocks():
                codes = np.array(self.codes[block])
                codes[codes == _UNREADABLE] = 1
                codes[codes == _BEYOND] = 0
                counts.append(np.bincount(codes, minlength=len(self.rules.into) + 1))
                yield codes

        encoded_codes = split_assignments.to_parquet(final())
        by_block = np.stack(counts) if counts else np.zeros((0, len(self.rules.into) + 1), np.int64)
        plans = []
        for number, split in enumerate(self.rules.into):
            members = by_block[:, number + 1]
            expected, tolerance = self.expected_counts.get(number, (None, None))
            plans.append(
                SplitPlan(
                    name=split.name,
                    ranges=[(0, self.units.samples)],
                    code=number + 1,
                    block_counts=members.tolist(),
                    records=int(members.sum()),
                    expected=expected,
                    tolerance=tolerance,
                    shards=0,
                    template="",
                )
            )
        return Assignment(stored=encoded_codes, plans=plans, repeated=self.repeated)


def scratch(count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Returns an array of zeros in an anonymous temporary file, which the operating system can page out. Raises StoreFull."""
    size = count * np.dtype(dtype).itemsize
    if not size:
        return np.zeros(0, dtype)
    with TemporaryFile(f"{size:,} bytes of the plan's temporary data") as file:
        file.reserve(size)  # otherwise a full disk would kill the process at a later write
        array: npt.NDArray[Any] = np.memmap(file.file, dtype=dtype, mode="r+", shape=(count,))
    return array


# --- values -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Columns:
    """The columns that the rules use, by their names in the source."""

    value: str | None
    group: str | None
    kind: str | None

    @classmethod
    def of(cls, rules: Splits, schema: pa.Schema) -> "_Columns":
        """Finds the columns.

        Raises BadSpec if a column doesn't exist, its type can't be compared, or the bounds in the spec don't fit its type.
        """

        def resolve(field: str, reference: str | None) -> str | None:
            if reference is None:
                return None
            column_names = find_columns([reference], schema, of=f"splits.{field}")
            if len(column_names) != 1:
                raise BadSpec(f"splits.{field} must be one column, but {reference!r} matches {len(column_names)} columns.")
            column_values.check_type(schema.field(column_names[0]).type, of=f"splits.{field}: the column {column_names[0]!r}")
            return column_names[0]

        columns = cls(
            value=resolve("column", rules.column), group=resolve("groupBy", rules.group_by), kind=resolve("stratifyBy", rules.stratify_by)
        )
        if columns.value is not None:
            for split in rules.into:
                if split.by_range:
                    kind = schema.field(columns.value).type
                    column_values.check_bounds(kind, since=split.since, before=split.before, of=f"splits: the range of {split.name}")
        return columns

    @property
    def names(self) -> list[str]:
        """The columns' names, without duplicates."""
        return list(dict.fromkeys(name for name in (self.value, self.group, self.kind) if name is not None))


def _read_values(table: _Table, columns: _Columns, read: ReadColumns) -> None:
    """Reads the source once, assigns samples to splits by value, and stores the group and the class of each sample."""
    rules, samples = table.rules, table.units.samples
    if columns.group is not None:
        table.groups = scratch(samples, np.uint64)
    if columns.kind is not None:
        table.classes = scratch(samples, np.uint16)
    classes = _ClassNumbers(of=columns.kind or "")
    for samples_read, records, good in read(columns.names):
        unreadable = np.setdiff1d(samples_read, good)
        if columns.value is not None:
            table.codes[unreadable] = np.where(table.codes[unreadable] == _FREE, _UNREADABLE, table.codes[unreadable])
            _take_by_value(table, samples_read, good, records.column(columns.value))
        if table.groups is not None and columns.group is not None:
            salt = mix_one(rules.seed + 1)
            table.groups[good] = mix(column_values.hashes(records.column(columns.group)) ^ salt) >> np.uint64(1)
            table.groups[unreadable] = hashes(table.units, unreadable, seed=rules.seed) >> np.uint64(1)
        if table.classes is not None and columns.kind is not None:
            table.classes[good] = classes.of_column(records.column(columns.kind))
            table.classes[unreadable] = classes.of_value(None)
    table.class_count = max(1, len(classes))


def _find_repeated_here(
    table: _Table, read: ReadColumns, columns: Sequence[str], limit: SampleLimit | None
) -> Generator[Samples, None, None]:
    """Reads the source once, and finds the samples that duplicate an earlier sample; see `FindRepeated`."""
    digests = scratch(2 * table.units.samples, np.uint64).reshape(-1, 2)
    for samples_read, records, good in read(columns):
        found = dedupe.digests_of_all(samples_read, records, good, columns)
        if limit is not None:
            # Samples beyond the limit don't count: a sample isn't a duplicate if it equals only such samples.
            is_beyond = limit.beyond(table.units, samples_read)
            found[is_beyond] = dedupe.unique_digests(samples_read[is_beyond])
        digests[samples_read] = found
    yield from dedupe.find_repeated(digests)


def _leave_out(table: _Table, repeated: Iterator[Samples]) -> None:
    """Leaves out and counts these samples, except samples that the limit has already left out."""
    for found in repeated:
        samples = found[table.codes[found] != _BEYOND]
        table.codes[samples] = _BEYOND
        table.repeated += len(samples)


def _take_by_value(table: _Table, samples_read: Samples, good: Samples, column: Any) -> None:
    text = None
    for number, split in enumerate(table.rules.into):
        if split.values is not None:
            text = column_values.as_text(column) if text is None else text
            matches = pc.is_in(text, value_set=pa.array(split.values, pa.large_string())).to_numpy(zero_copy_only=False)
        elif split.by_range:
            matches = column_values.in_range(column, since=split.since, before=split.before, of=f"splits: the range of {split.name}")
        else:
            continue
        block = slice(int(samples_read[0]), int(samples_read[-1]) + 1)
        matching = good[matches]
        table.codes[matching[table.free(block, split.subset)[matching - block.start]]] = number + 1


class _ClassNumbers:
    """Numbers the values of a column from 0, in the order of their first appearance."""

    def __init__(self, *, of: str) -> None:
        self._column = of
        self._numbers: dict[str | None, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def of_column(self, column: Any) -> npt.NDArray[np.uint16]:
        """Returns, for each row, the number assigned to the row's value."""
        encoded = pc.dictionary_encode(column_values.as_text(column), null_encoding="encode")
        numbers = np.array([self.of_value(value) for value in encoded.dictionary.to_pylist()], np.uint16)
        return numbers[encoded.indices.to_numpy()] if len(numbers) else np.empty(0, np.uint16)

    def of_value(self, value: str | None) -> int:
        """Returns the number assigned to the value. Raises BadSpec for too many values."""
        if value not in self._numbers and len(self._numbers) >= MOST_CLASSES:
            raise BadSpec(
                f"splits.stratifyBy: the column {self._column!r} has more than {MOST_CLASSES:,} values; is it a class? groupBy accepts any number of values."
            )
        return self._numbers.setdefault(value, len(self._numbers))


# --- ranks and fractions ------------------------------------------------------------------------------------------


def _apply_limit(table: _Table, limit: int) -> SampleLimit:
    """Leaves out the samples beyond the limit, and returns the limit."""
    kept = SampleLimit(seed=_LIMIT_SEED, bound=int(_bounds(table, None, seed=_LIMIT_SEED, upto=[limit])[0]))
    for block in table.blocks():
        table.codes[block][kept.beyond(table.units, np.arange(block.start, block.stop))] = _BEYOND
    return kept


def _take_first(table: _Table, number: int, split: Split) -> None:
    remaining = split.first or 0
    table.expected_counts[number] = (remaining, 0)
    for block in table.blocks():
        if remaining == 0:
            return
        first_free = np.flatnonzero(table.free(block, split.subset))[:remaining]
        table.codes[block][first_free] = number + 1
        remaining -= len(first_free)


def _take_count(table: _Table, number: int, split: Split) -> None:
    count = split.count or 0
    table.expected_counts[number] = (count, 0)
    seed = _COUNT_SEED + table.rules.seed
    bound = _bounds(table, split.subset, seed=seed, upto=[count])[0]
    for block in table.blocks():
        table.codes[block][table.free(block, split.subset) & (table.hash_block(block, seed=seed) < bound)] = number + 1


def _bounds(table: _Table, subset: str | None, *, seed: int, upto: Sequence[int]) -> Hashes:
    """For each number n in `upto`, returns a bound that is greater than the hashes of exactly n free samples."""

    def blocks() -> Iterator[tuple[Hashes, npt.NDArray[np.int64]]]:
        for block in table.blocks():
            hashed = table.hash_block(block, seed=seed)[table.free(block, subset)]
            yield hashed, np.zeros(len(hashed), np.int64)

    bounds: Hashes = ranking.bounds(blocks, classes=1, ranks=lambda counts: np.minimum(np.array([upto]), counts[:, None]))[0][0]
    return bounds


def _share_out(table: _Table, subset: str | None) -> None:
    """Divides all free samples of a subset among the subset's splits that have a fraction."""
    rules = table.rules
    entries = [(number, split.fraction) for number, split in enumerate(rules.into) if split.fraction is not None and split.subset == subset]
    # A sum that differs from 1 only by rounding counts as 1.
    reached = [1.0 if total > 1 - 1e-6 else total for total in np.cumsum([fraction for _, fraction in entries]).tolist()]
    ends = np.array(reached[:-1])

    def classes_of(block: slice) -> npt.NDArray[np.int64]:
        return table.classes[block].astype(np.int64) if table.classes is not None else np.zeros(block.stop - block.start, np.int64)

    def hashed_of(block: slice) -> Hashes:
        return table.groups[block] if table.groups is not None else table.hash_block(block, seed=rules.seed)

    def blocks() -> Iterator[tuple[Hashes, npt.NDArray[np.int64]]]:
        for block in table.blocks():
            free = table.free(block, subset)
            yield hashed_of(block)[free], classes_of(block)[free]

    if rules.exact or table.classes is not None:
        bounds, counts = ranking.bounds(
            blocks, classes=table.class_count, ranks=lambda counts: np.floor(counts[:, None] * ends[None, :] + 0.5).astype(np.int64)
        )
        pool = int(counts.sum())
        tolerances = [int(np.count_nonzero(counts))] * len(entries)
    else:
        bounds = np.array([[int(end * 2**ranking.HASH_BITS) for end in ends]], np.uint64)
        pool, spread = _pool_and_spread(blocks(), grouped=table.groups is not None)
        tolerances = [deviations(fraction, spread) for _, fraction in entries]

    split_numbers = np.array([number + 1 for number, _ in entries], np.uint8)
    for block in table.blocks():
        free = np.flatnonzero(table.free(block, subset))
        limits = bounds[classes_of(block)[free]]
        which = np.count_nonzero(np.asarray(hashed_of(block)[free])[:, None] >= limits, axis=1)
        table.codes[block][free] = split_numbers[which]
    for (number, fraction), tolerance in zip(entries, tolerances, strict=True):
        table.expected_counts[number] = (round(fraction * pool), tolerance)


def _pool_and_spread(blocks: Iterator[tuple[Hashes, npt.NDArray[np.int64]]], *, grouped: bool) -> tuple[int, float]:
    """Returns (number of samples, sum of the squared group sizes).

    There can be too many groups to count each group's members. The sum is then estimated from sums of random signs (Alon, Matias and
    Szegedy 1996), with an error of about a fifth.
    """
    pool = 0
    signs = np.zeros(64, np.int64)
    for hashed, _ in blocks:
        pool += len(hashed)
        if grouped:
            bits = np.unpackbits(mix(np.ascontiguousarray(hashed)).view(np.uint8).reshape(-1, 8), axis=1)
            signs += 2 * bits.sum(axis=0, dtype=np.int64) - len(hashed)
    return pool, float(np.mean(signs.astype(np.float64) ** 2)) if grouped else float(pool)
