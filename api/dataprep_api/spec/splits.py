"""`spec.splits` and `spec.shuffle`."""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Column, Model, Seed, SplitName, count, rule, rules

SUM_TOLERANCE = 1e-6

_ONE = "set only one of first, count, fraction, values, or since and before"
_RULE_COUNT = count("has(self.first)", "has(self.count)", "has(self.fraction)", "has(self.values)", "has(self.since) || has(self.before)")
_Bound = Annotated[str, Field(min_length=1, max_length=64)]
_Value = Annotated[str, Field(max_length=256)]
LONGEST_SUBSET = 1024
_Subset = Annotated[str, Field(min_length=1, max_length=LONGEST_SUBSET)]
MOST_SPLITS = 16


class Split(Model):
    """One split and its samples. A sample belongs to the first split that takes it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"{_RULE_COUNT} <= 1",
                _ONE,
            )
        ),
    )

    name: SplitName
    """Split name. Example: `train`."""
    subset: _Subset | None = None
    """Take only samples of this subset. For a folder, write its name unchanged: `train set`."""
    first: Annotated[int, Field(ge=0)] | None = None
    """Take the first N samples. Samples are counted in the order of the source."""
    count: Annotated[int, Field(ge=0)] | None = None
    """Take N samples, drawn at random with `seed`."""
    fraction: Annotated[float, Field(ge=0, le=1)] | None = None
    """Take this fraction of the samples. A seeded hash of a sample's path and row decides whether it is taken. The result is the same on every store and for any number of workers."""
    values: Annotated[list[_Value], Field(min_length=1, max_length=256)] | None = None
    """Take samples with these values. A sample's value in `column` is compared as text with the entries of this list."""
    since: _Bound | None = None
    """Take samples from this value on. `since` is the first value of `column` to take: `"2024-01-01"`, `"2024-01-01T12:00:00+02:00"` (UTC without an offset), or a number if the column has numbers."""
    before: _Bound | None = None
    """Take samples below this value. `before` has the same form as `since`, but a sample with exactly this value is excluded."""

    @model_validator(mode="after")
    def _check_one_rule(self) -> Self:
        if sum((self.first is not None, self.count is not None, self.fraction is not None, self.values is not None, self.by_range)) > 1:
            raise ValueError(_ONE)
        return self

    @property
    def by_range(self) -> bool:
        """Whether the entry takes a range of values."""
        return self.since is not None or self.before is not None

    @property
    def by_column(self) -> bool:
        """Whether the entry takes samples by their value in `column`."""
        return self.values is not None or self.by_range


_SUM = "self.into.filter(b, has(b.fraction) && [?a.?subset] == [?b.?subset]).map(b, b.fraction).sum()"
_WAY_COUNT = count("has(self.groupBy)", "has(self.stratifyBy)", "has(self.exact) && self.exact")
_FRACTIONS = "self.into.exists(a, has(a.fraction))"
_BY_COLUMN = "self.into.exists(a, has(a.values) || has(a.since) || has(a.before))"
_NEEDS_COLUMN = "values, since and before need splits.column"
_NEEDS_VALUES = "column needs an entry with values, since or before"
_NEEDS_FRACTION = "groupBy, stratifyBy and exact need entries with a fraction"
_ONE_WAY = "set only one of groupBy, stratifyBy and exact: groups can't be divided, and stratified splits are already exact"


class Splits(Model):
    """How samples are divided into splits. By default, each subset of the source is a split, and a source without subsets becomes the split `train`."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"self.into.all(a, !has(a.fraction) || [{_SUM}].all(sum, sum > 0.999999 && sum < 1.000001))",
                "the fractions of one subset must sum to 1",
                path=".into",
            ),
            # The list isn't of type map, because the order of splits matters. CEL's == and server-side apply ignore the order of lists of
            # type map.
            rule("self.into.all(a, self.into.exists_one(b, b.name == a.name))", "the names of the splits must differ", path=".into"),
            rule(f"has(self.column) || !{_BY_COLUMN}", _NEEDS_COLUMN),
            rule(f"!has(self.column) || {_BY_COLUMN}", _NEEDS_VALUES, path=".column"),
            rule(
                f"!(has(self.groupBy) || has(self.stratifyBy) || (has(self.exact) && self.exact)) || {_FRACTIONS}",
                _NEEDS_FRACTION,
            ),
            rule(
                f"{_WAY_COUNT} <= 1",
                _ONE_WAY,
            ),
        ),
    )

    seed: Seed = 0
    """Random seed for `fraction` and `count`."""
    exact: bool = False
    """Whether fractions are exact. If true, the number of records in each split is exact to within one record. If false, each sample is assigned independently, and stays in its split when samples are added."""
    group_by: Column | None = None
    """Group column: groups stay together. Samples with the same value in this source column belong to the same split. Needs splits with `fraction`."""
    stratify_by: Column | None = None
    """Class column: splits are stratified. The fractions hold within each class of this source column. Needs splits with `fraction`."""
    column: Column | None = None
    """Source column for `values`, `since` and `before`."""
    into: Annotated[list[Split], Field(min_length=1, max_length=MOST_SPLITS)]
    """The splits, in order. Samples go first to the splits that choose by the value in `column`, then to splits with `first`, and then to splits with `count`. Splits with a fraction or without a rule share the remaining samples."""

    @model_validator(mode="after")
    def _check_names_and_sums(self) -> Self:
        names = [split.name for split in self.into]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the split {name!r} is listed twice")
        sums: dict[str | None, float] = {}
        for split in self.into:
            if split.fraction is not None:
                sums[split.subset] = sums.get(split.subset, 0.0) + split.fraction
        for subset, total in sums.items():
            if abs(total - 1) >= SUM_TOLERANCE:
                suffix = f" of subset {subset}" if subset else ""
                raise ValueError(f"the fractions{suffix} must sum to 1, got {total:g}")
        return self

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        by_column = any(split.by_column for split in self.into)
        if by_column and self.column is None:
            raise ValueError(_NEEDS_COLUMN)
        if self.column is not None and not by_column:
            raise ValueError(_NEEDS_VALUES)
        ways = [self.group_by is not None, self.stratify_by is not None, self.exact]
        if any(ways) and all(split.fraction is None for split in self.into):
            raise ValueError(_NEEDS_FRACTION)
        if sum(ways) > 1:
            raise ValueError(_ONE_WAY)
        return self


class Deduplicate(Model):
    """Drops repeated records. A record that equals an earlier record is left out. Records are dropped before they are divided into splits."""

    columns: Annotated[list[Column], Field(min_length=1, max_length=64)]
    """Source columns to compare. They may contain text, bytes, numbers or tensors. Values are compared by a 128-bit digest. Of equal records, only the first is kept."""


class Shuffle(Model):
    """Shuffles each split as a whole. The order is a seeded permutation, which is the same for any number of workers."""

    seed: Seed = 0
    """Random seed of the permutation."""
