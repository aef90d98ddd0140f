"""`spec.features` and `spec.labels`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model

Dtype = Literal["int64", "int32", "int16", "int8", "uint8", "float64", "float32", "float16", "bool", "bytes"]


class Feature(Model):
    """One feature of the records: its name, the source columns it holds, and how it is stored."""

    name: Column
    """Key of the feature in the records."""
    columns: Annotated[list[Column], Field(min_length=1, max_length=64)] | None = None
    """Columns that make up the feature: a name, or an inclusive range of positions (`0..4`, `-1` is the last). Default: the column of the feature's own name. Several columns become one vector."""
    dtype: Dtype | None = None
    """Type to convert to. Default: the column's own."""
    encoding: Literal["Auto", "Values", "Raw"] = "Auto"
    """`Values`: a list of numbers. `Raw`: a tensor's bytes, row-major and little-endian. `Auto`: Raw for tensors of integers below 64 bits and of float16, Values for all else."""
    sequence: bool | None = None
    """Whether the column's lists (or its tensors along their first dimension) are the steps of a sequence. Default: what the source says. Records with a sequence are tf.train.SequenceExample, and the other features are their context."""


class LabelFeature(Feature):
    """A feature that training predicts."""

    num_classes: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Number of classes: a label outside 0 … numClasses-1 makes the record bad."""
