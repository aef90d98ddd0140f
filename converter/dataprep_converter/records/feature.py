"""Resolved features, the input of encoders."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class DtypeSupport:
    """The types in which a format holds numbers, by numpy's names."""

    unasked: Mapping[str, str] = field(default_factory=dict)
    """Types that are stored as another one unless the spec names a type."""
    held: frozenset[str] | None = None
    """All types that it can hold; None for any."""
    raw: bool = False
    """Whether a tensor can be stored as its bytes, which is then the default for small integers."""
    as_they_are: frozenset[str] = frozenset()
    """Features that keep their types anyway, because they aren't values of the records."""


@dataclass(frozen=True)
class FeatureSpec:
    """One feature of the records, resolved: what the encoder is given as a column of the same name."""

    name: str
    kind: str
    """`int64`, `float` or `bytes`: the list type of tf.train.Feature."""
    dtype: str
    """numpy name of the values, or `bytes`."""
    shape: tuple[int, ...]
    """Shape of a tensor, () of a scalar or a bytes value, (-1,) of lists of any length. A sequence's begins with -1 for its steps."""
    raw: bool = False
    """A tensor stored as its bytes; in a sequence, that of each step."""
    label: bool = False
    sequence: bool = False
    """A list of steps, each a value, a vector (a fixed_size_list or tensor) or a list of any length."""
    record: bool = False
    """Whole records that are serialised already; such a feature is alone."""
    place: int = field(default=0, compare=False)
    """In the order of the spec, features before labels: the order of the columns, where a format's columns have one."""
    text: bool = False
    """Whether all columns of a feature of `bytes` are text (UTF-8) by their type."""


def describe(features: Sequence[FeatureSpec]) -> list[dict[str, Any]]:
    """The features for the manifest."""
    return [asdict(feature) | {"shape": list(feature.shape)} for feature in features]
