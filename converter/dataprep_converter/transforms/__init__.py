"""Transforms: small named steps, each Batch → Batch, applied in the order of the spec. One file per step."""

from collections.abc import Mapping
from importlib import import_module
from typing import Final, Protocol

import pyarrow as pa

from dataprep_api.spec import Transform
from dataprep_converter.errors import BadSpec
from dataprep_converter.readers import Batch

TRANSFORMS: Final[Mapping[str, str]] = {
    "scale": "dataprep_converter.transforms.scale:ScaleStep",
    "one_hot": "dataprep_converter.transforms.one_hot:OneHotStep",
}
"""Member of an entry of `spec.transforms` → class. Adding a step is one line here and one file."""


class Step(Protocol):
    """One step, bound to the schema that comes before it."""

    def __init__(self, transform: Transform, schema: pa.Schema) -> None:
        """Raises BadSpec, naming the column and the type it has, when the step can't take what comes."""
        ...

    def schema(self) -> pa.Schema:
        """Columns after the step."""
        ...

    def apply(self, batch: Batch) -> Batch:
        """The batch after the step; samples that don't fit move to `bad`."""
        ...


def step_class(kind: str) -> type[Step]:
    """The class of a step. Raises BadSpec naming the known ones."""
    if kind not in TRANSFORMS:
        raise BadSpec(f"No transform named {kind!r}; known: {', '.join(sorted(TRANSFORMS))}.")
    module, _, name = TRANSFORMS[kind].partition(":")
    found: type[Step] = getattr(import_module(module), name)
    return found
