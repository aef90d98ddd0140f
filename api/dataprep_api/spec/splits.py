"""`spec.splits` and `spec.shuffle`."""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Column, Model, Seed, SplitName, count, rule, rules

SUM_TOLERANCE = 1e-6

_ONE = "set only one of first, count, fraction, values, and since with before"
_TAKEN = count("has(self.first)", "has(self.count)", "has(self.fraction)", "has(self.values)", "has(self.since) || has(self.before)")
_Bound = Annotated[str, Field(min_length=1, max_length=64)]
_Value = Annotated[str, Field(max_length=256)]
LONGEST_SUBSET = 1024
_Subset = Annotated[str, Field(min_length=1, max_length=LONGEST_SUBSET)]
MOST_SPLITS = 16


class Split(Model):
    """One split and its samples. A sample goes into the first entry that takes it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"{_TAKEN} <= 1",
                _ONE,
            )
        ),
    )

    name: SplitName
    """Split name: `train`."""
    subset: _Subset | None = None
    """Take only samples of this subset. A folder is named as it is: `train set`."""
    first: Annotated[int, Field(ge=0)] | None = None
    """Take the first N samples, in source order."""
    count: Annotated[int, Field(ge=0)] | None = None
    """Take N samples, drawn by `seed`."""
    fraction: Annotated[float, Field(ge=0, le=1)] | None = None
    """Take this fraction of the samples. A seeded hash of each sample's path and row decides: the same on every store and for any number of workers."""
    values: Annotated[list[_Value], Field(min_length=1, max_length=256)] | None = None
    """Take samples with these values. They are compared as text with the value in `column`."""
    since: _Bound | None = None
    """Take samples from this value on. Their value in `column` is this or later: `"2024-01-01"`, `"2024-01-01T12:00:00+02:00"` (UTC without an offset), or a number when the column has numbers."""
    before: _Bound | None = None
    """Take samples below this value. Their value in `column` is earlier than this."""

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        if sum((self.first is not None, self.count is not None, self.fraction is not None, self.values is not None, self.by_range)) > 1:
            raise ValueError(_ONE)
        return self

    @property
    def by_range(self) -> bool:
        """Whether the entry takes a range of values."""
        return self.since is not None or self.before is not None

    @property
    def by_column(self) -> bool:
        """Whether the entry takes samples by their value in the column."""
        return self.values is not None or self.by_range


_SUM = "self.into.filter(b, has(b.fraction) && [?a.?subset] == [?b.?subset]).map(b, b.fraction).sum()"
_WAYS = count("has(self.groupBy)", "has(self.stratifyBy)", "has(self.exact) && self.exact")
_FRACTIONS = "self.into.exists(a, has(a.fraction))"
_BY_COLUMN = "self.into.exists(a, has(a.values) || has(a.since) || has(a.before))"
_NEEDS_COLUMN = "values, since and before need splits.column"
_NEEDS_VALUES = "column needs an entry with values, since or before"
_NEEDS_FRACTION = "groupBy, stratifyBy and exact need entries with a fraction"
_ONE_WAY = "set only one of groupBy, stratifyBy and exact: a group can't be cut, and stratified splits are exact already"


class Splits(Model):
    """How samples are divided. Without it every subset of the source is a split, and a source without subsets becomes `train`."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"self.into.all(a, !has(a.fraction) || [{_SUM}].all(sum, sum > 0.999999 && sum < 1.000001))",
                "the fractions of one subset must sum to 1",
                path=".into",
            ),
            # Not a list of type map: their order counts, and for such lists the API server's == and apply don't see it.
            rule("self.into.all(a, self.into.exists_one(b, b.name == a.name))", "the names of the splits must differ", path=".into"),
            rule(f"has(self.column) || !{_BY_COLUMN}", _NEEDS_COLUMN),
            rule(f"!has(self.column) || {_BY_COLUMN}", _NEEDS_VALUES, path=".column"),
            rule(
                f"!(has(self.groupBy) || has(self.stratifyBy) || (has(self.exact) && self.exact)) || {_FRACTIONS}",
                _NEEDS_FRACTION,
            ),
            rule(
                f"{_WAYS} <= 1",
                _ONE_WAY,
            ),
        ),
    )

    seed: Seed = 0
    """Seed for `fraction` and `count`."""
    exact: bool = False
    """Whether fractions are exact. They then hold to within one record. Otherwise each sample is drawn independently, and stays in its split when others are added."""
    group_by: Column | None = None
    """Group column: groups stay together. Samples with the same value in this column of the source go into the same split. For fractions."""
    stratify_by: Column | None = None
    """Class column: splits are stratified. The fractions hold within each class of this column of the source. For fractions."""
    column: Column | None = None
    """Source column of `values`, `since`, `before`."""
    into: Annotated[list[Split], Field(min_length=1, max_length=MOST_SPLITS)]
    """The splits, in order. Samples are taken first by value in `column`, then by `first`, then by `count`; fractions and entries without a rule share the rest."""

    @model_validator(mode="after")
    def _sums(self) -> Self:
        names = [split.name for split in self.into]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the split {name!r} is named twice")
        sums: dict[str | None, float] = {}
        for split in self.into:
            if split.fraction is not None:
                sums[split.subset] = sums.get(split.subset, 0.0) + split.fraction
        for subset, total in sums.items():
            if abs(total - 1) >= SUM_TOLERANCE:
                of = f" of subset {subset}" if subset else ""
                raise ValueError(f"the fractions{of} must sum to 1, got {total:g}")
        return self

    @model_validator(mode="after")
    def _possible(self) -> Self:
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
    """Drops repeated records. A record that equals an earlier one is left out, before records are divided into splits."""

    columns: Annotated[list[Column], Field(min_length=1, max_length=64)]
    """Source columns to compare. By a 128-bit digest: text, bytes, numbers or tensors. The first record stays."""


class Shuffle(Model):
    """Global shuffle of each split. A seeded permutation, the same for any number of workers."""

    seed: Seed = 0
    """Seed of the permutation."""
