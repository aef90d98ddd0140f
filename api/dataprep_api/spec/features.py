"""`spec.features` and `spec.labels`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model

Dtype = Literal["int64", "int32", "int16", "int8", "uint8", "float64", "float32", "float16", "bool", "bytes"]


class Feature(Model):
    """One feature of the records: its name, its source columns, and how it is stored."""

    name: Column
    """Key in the records."""
    columns: Annotated[list[Column], Field(min_length=1, max_length=64)] | None = None
    """Source columns. Entries are names, positions or ranges of positions. A range such as `0..4` includes both ends. `-1` is the last column. Several columns form one vector. Default: the column with the feature's name."""
    dtype: Dtype | None = None
    """Type to convert to. Default: the type of the column."""
    encoding: Literal["Auto", "Values", "Raw"] = "Auto"
    """How values are stored. `Values`: as a list of numbers. `Raw`: as the bytes of a tensor, row-major and little-endian. `Auto`: Raw for tensors of float16 or of integers narrower than 64 bits, otherwise Values."""
    sequence: bool | None = None
    """Whether lists are steps of a sequence. Each value of a list is a step. In a tensor, each entry of the first dimension is a step. Records with a sequence are stored as tf.train.SequenceExample, with the other features as their context. Default: the source decides."""


class LabelFeature(Feature):
    """A feature that training predicts."""

    num_classes: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Number of classes. A record with a label outside 0 … numClasses-1 is bad."""
