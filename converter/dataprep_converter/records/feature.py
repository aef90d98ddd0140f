"""Resolved features, which are the input of encoders."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

_TYPES: Final = ("nested", "kept")
"""The fields of a FeatureSpec whose values are Arrow types."""


@dataclass(frozen=True)
class DtypeSupport:
    """The number types that a format stores, by their numpy names."""

    unasked: Mapping[str, str] = field(default_factory=dict)
    """Maps each type of values to the type in which they are stored if the spec names no type."""
    held: frozenset[str] | None = None
    """The types that the format can store, or None if the format can store any type."""
    raw: bool = False
    """Whether the format can store a tensor as bytes. If so, tensors of small integers are stored as bytes by default."""
    as_they_are: frozenset[str] = frozenset()
    """Names of features that always keep their types, because records don't contain them as values."""


@dataclass(frozen=True)
class FeatureSpec:
    """One resolved feature of the records. The encoder receives the feature's values as a column with the same name."""

    name: str
    kind: str
    """`int64`, `float` or `bytes`: the list type of tf.train.Feature."""
    dtype: str
    """numpy's name for the values' type, or `bytes`."""
    shape: tuple[int, ...]
    """The shape of a tensor, () for a scalar or a bytes value, (-1,) for lists of any length.

    The shape of a sequence begins with -1, which means any number of steps.
    """
    raw: bool = False
    """Whether a tensor is stored as bytes. In a sequence, each step's tensor is stored as bytes."""
    label: bool = False
    sequence: bool = False
    """Whether the values are lists of steps. Each step is a value, a vector (a fixed_size_list or tensor) or a list of any length."""
    record: bool = False
    """Whether the values are complete, serialized records. A feature of serialized records must be the only feature."""
    place: int = field(default=0, compare=False)
    """The feature's position in the spec, where features come before labels. Formats with ordered columns use this order."""
    text: bool = False
    """Whether all columns of a feature of `bytes` contain text (UTF-8)."""
    nested: pa.DataType | None = None
    """The type of nested values that the records contain as JSON text. Formats that can hold nested values write the values themselves."""
    kept: pa.DataType | None = None
    """If the format keeps times or decimals, the type of these values in the files. `kept_types.py` describes the columns."""


def describe(features: Sequence[FeatureSpec]) -> list[dict[str, Any]]:
    """Returns the features in the form that the manifest uses.

    Leaves out the types of nested and kept values, because the manifest has separate fields for these types.
    """
    return [{**_fields(feature), "shape": list(feature.shape)} for feature in features]


def _fields(feature: FeatureSpec) -> dict[str, Any]:
    return {name: value for name, value in asdict(replace(feature, nested=None, kept=None)).items() if name not in _TYPES}
