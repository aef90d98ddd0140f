"""`spec.splits` and `spec.shuffle`."""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Model, Seed, SplitName, rule, rules

SUM_TOLERANCE = 1e-6


class Split(Model):
    """One split and the samples that go into it. A sample goes into the first entry that takes it."""

    model_config = ConfigDict(
        json_schema_extra=rules(rule("!(has(self.first) && has(self.fraction))", "set first or fraction, not both")),
    )

    name: SplitName
    """Name of the split: `train`."""
    subset: SplitName | None = None
    """Take samples of this subset of the source only."""
    first: Annotated[int, Field(ge=0)] | None = None
    """Take this many samples, the first in the source's order."""
    fraction: Annotated[float, Field(ge=0, le=1)] | None = None
    """Take this fraction, by a seeded hash of each sample's path and row: the same on every store and for any number of workers."""

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        if self.first is not None and self.fraction is not None:
            raise ValueError("set first or fraction, not both")
        return self


_PEERS = (
    "self.into.filter(b, has(b.fraction) && has(a.subset) == has(b.subset)"
    " && (!has(a.subset) || a.subset == b.subset)).map(b, b.fraction).sum()"
)


class Splits(Model):
    """How samples are divided. Without it every subset of the source is a split, and a source without subsets becomes `train`."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"self.into.all(a, !has(a.fraction) || ({_PEERS} > 0.999999 && {_PEERS} < 1.000001))",
                "the fractions of one subset must sum to 1",
                path=".into",
            ),
            # Not a list of type map: their order counts, and for such lists the API server's == and apply don't see it.
            rule("self.into.all(a, self.into.exists_one(b, b.name == a.name))", "the names of the splits must differ", path=".into"),
        ),
    )

    seed: Seed = 0
    """Seed of the hash behind `fraction`."""
    into: Annotated[list[Split], Field(min_length=1, max_length=16)]
    """The splits, in order."""

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


class Shuffle(Model):
    """Global shuffle of each split: a seeded permutation, the same for any number of workers."""

    seed: Seed = 0
