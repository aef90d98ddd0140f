"""Transforms of numbers."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Column, Model, rule, rules


class Scale(Model):
    """Maps one range onto another. Linear, as float32: by default 0 … 255 onto 0 … 1."""

    model_config = ConfigDict(
        json_schema_extra=rules(rule("self.fromMin != self.fromMax", "fromMin and fromMax must differ", path=".fromMax")),
    )

    columns: Annotated[list[Column], Field(min_length=1, max_length=64)]
    """Columns to map, each on its own."""
    from_min: float = 0.0
    """Value that becomes `toMin`."""
    from_max: float = 255.0
    """Value that becomes `toMax`."""
    to_min: float = 0.0
    """Lower end of the result."""
    to_max: float = 1.0
    """Upper end of the result."""

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.from_min == self.from_max:
            raise ValueError(f"fromMin and fromMax must differ, both are {self.from_min}")
        return self


class OneHot(Model):
    """An integer class as a one-hot vector. The vector is float32."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.unknownIsBackground) || !self.unknownIsBackground || (has(self.background) && self.background)",
                "unknownIsBackground needs background: true",
                path=".unknownIsBackground",
            )
        ),
    )

    columns: Annotated[list[Column], Field(min_length=1, max_length=64)]
    """Columns to replace."""
    num_classes: Annotated[int, Field(ge=1, le=100_000)]
    """Number of classes. A class outside 0 … numClasses-1 makes the record bad."""
    background: bool = False
    """Whether to add a background place. It is the last place, for a record without a class (a missing value)."""
    unknown_is_background: bool = False
    """Whether unknown is background. With background: a class outside 0 … numClasses-1 is background instead of bad."""

    @model_validator(mode="after")
    def _has_background(self) -> Self:
        if self.unknown_is_background and not self.background:
            raise ValueError("unknownIsBackground needs background: true")
        return self


class Cast(Model):
    """Converts numbers to another type. A value that the type can't hold makes the record bad; only floats are rounded, to a narrower float."""

    columns: Annotated[list[Column], Field(min_length=1, max_length=64)]
    """Columns of numbers or tensors."""
    dtype: Literal["int64", "int32", "int16", "int8", "uint8", "float64", "float32", "float16", "bool"]
    """Type to convert to. Records hold float16 tensors as bytes."""
