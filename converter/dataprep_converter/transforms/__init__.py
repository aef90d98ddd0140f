"""Transforms: small named steps that turn a batch into another batch, applied in the order of the spec. Each step has its own file."""

from collections.abc import Iterator, Mapping
from pkgutil import resolve_name
from typing import Any, Final, Protocol, runtime_checkable

import pyarrow as pa

from dataprep_converter.core.errors import BadSpec
from dataprep_converter.records.batch import Batch

TRANSFORMS: Final[Mapping[str, str]] = {
    "scale": "dataprep_converter.transforms.scale:ScaleStep",
    "one_hot": "dataprep_converter.transforms.one_hot:OneHotStep",
    "select": "dataprep_converter.transforms.columns:SelectStep",
    "drop": "dataprep_converter.transforms.columns:DropStep",
    "rename": "dataprep_converter.transforms.columns:RenameStep",
    "filter": "dataprep_converter.transforms.filter:FilterStep",
    "fill_nulls": "dataprep_converter.transforms.fill_nulls:FillNullsStep",
    "hash": "dataprep_converter.transforms.hash:HashStep",
    "tokenize_split": "dataprep_converter.transforms.tokenize_split:TokenizeSplitStep",
    "vocabulary": "dataprep_converter.transforms.vocabulary:VocabularyStep",
    "map": "dataprep_converter.transforms.map:MapStep",
    "decode": "dataprep_converter.transforms.decode:DecodeStep",
    "resize": "dataprep_converter.transforms.resize:ResizeStep",
    "crop_or_pad": "dataprep_converter.transforms.crop_or_pad:CropOrPadStep",
    "standardize": "dataprep_converter.transforms.standardize:StandardizeStep",
    "cast": "dataprep_converter.transforms.cast:CastStep",
    "encode": "dataprep_converter.transforms.encode:EncodeStep",
}
"""Maps each step's name in `spec.transforms` to the step's class. A new step needs a line in this mapping and its own file."""


@runtime_checkable
class NamesClasses(Protocol):
    """A step that adds class names to columns, or renames columns that have them."""

    def classes(self, by_column: Mapping[str, list[str]]) -> dict[str, list[str]]:
        """Given the class names before the step, keyed by column, returns the class names after the step."""
        ...


@runtime_checkable
class Fittable(Protocol):
    """A step that must be fitted to one split of the data, while planning, before it can be applied."""

    @property
    def fitted_split(self) -> str | None:
        """The name of the split to fit to. "" means the first split with records, and None means that there is nothing to fit."""
        ...

    def fit(self, batches: Iterator[Batch]) -> Any:
        """Fits the step to the split's batches, to which the earlier steps have already been applied.

        Returns the parameters as JSON values.
        """
        ...

    def load(self, parameters: Any) -> None:
        """Uses these parameters from now on."""
        ...


@runtime_checkable
class ReordersSteps(Protocol):
    """A step that might change the positions of values in a list."""

    @property
    def moves_steps(self) -> bool:
        """Whether a step with these options changes the positions of values."""
        ...


@runtime_checkable
class FollowsVersions(Protocol):
    """A step whose result depends on the version of one of the parts in `run_id.PARTS`."""

    def follow(self, *, reads_heif: bool) -> None:
        """Uses the rules of the plan from now on. `reads_heif` says whether AVIF and HEIC files count as images."""
        ...


@runtime_checkable
class ComparesDecimals(Protocol):
    """A step that might compare decimals."""

    @property
    def compares_decimals(self) -> bool:
        """Whether the step compares all digits of decimals (`records/exact_decimals.py`)."""
        ...


@runtime_checkable
class CutsBatches(Protocol):
    """A step whose output can become far larger when later steps decode it."""

    def cut(self, batch: Batch) -> Iterator[Batch]:
        """Splits the result of `apply` into parts that are small enough for the following steps to decode completely."""
        ...


class Step(Protocol):
    """A step that is bound to the schema of its input."""

    def __init__(self, options: Any, schema: pa.Schema) -> None:
        """Binds the step to a schema. `options` are the options that the spec gives this transform.

        Raises BadSpec, naming the column and its type, if the step can't process a column.
        """
        ...

    def schema(self) -> pa.Schema:
        """Returns the columns after the step."""
        ...

    def apply(self, batch: Batch) -> Batch:
        """Returns the batch after the step. Samples that don't fit are moved to `bad`."""
        ...


def step_class(kind: str) -> type[Step]:
    """Returns a step's class. Raises BadSpec, which lists the known steps, if no step has this name."""
    if kind not in TRANSFORMS:
        raise BadSpec(f"No transform named {kind!r}; known: {', '.join(sorted(TRANSFORMS))}.")
    step: type[Step] = resolve_name(TRANSFORMS[kind])
    return step
