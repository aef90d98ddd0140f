"""Encoders: a whole Arrow batch at once into the bytes of one format. One file per format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol

import pyarrow as pa

from dataprep_api.spec import Output
from dataprep_converter.errors import BadSpec

ENCODERS: Final[Mapping[str, str]] = {
    "tfrecord": "dataprep_converter.encoders.tfrecord:TfrecordEncoder",
}
"""`spec.output.format` → class. Adding a format is one line here and one file."""


@dataclass(frozen=True)
class FeatureSpec:
    """One feature of the records, resolved: what the encoder is given as a column of the same name."""

    name: str
    kind: str
    """`int64`, `float` or `bytes`: the list type of tf.train.Feature."""
    dtype: str
    """numpy name of the values, or `bytes`."""
    shape: tuple[int, ...]
    """Shape of a tensor, () of a scalar or a bytes value."""
    raw: bool = False
    """A tensor stored as its bytes."""
    label: bool = False


class Encoder(Protocol):
    """Made once per shard; holds no more than one batch. The same batches cut anywhere else give the same bytes."""

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None: ...

    @staticmethod
    def extension(output: Output) -> str:
        """File extension without a leading dot: `tfrecords`."""
        ...

    def encode(self, batch: pa.RecordBatch) -> bytes | bytearray | memoryview:
        """The framed records of the batch, one after another, before compression. The buffer is valid until the next call."""
        ...

    def close(self) -> bytes:
        """What ends the file; often nothing."""
        ...


def encoder_class(name: str) -> type[Encoder]:
    """The class of a format. Raises BadSpec naming the known ones."""
    if name not in ENCODERS:
        raise BadSpec(f"No format named {name!r}; known: {', '.join(sorted(ENCODERS))}.")
    module, _, attribute = ENCODERS[name].partition(":")
    found: type[Encoder] = getattr(import_module(module), attribute)
    return found


def describe(features: Sequence[FeatureSpec]) -> list[dict[str, Any]]:
    """The features for the manifest."""
    return [{"name": f.name, "kind": f.kind, "dtype": f.dtype, "shape": list(f.shape), "raw": f.raw, "label": f.label} for f in features]
