"""Transforms of numbers."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Column, Model, rule, rules


class Scale(Model):
    """Maps one range of numbers onto another. The mapping is linear and the result is float32. By default 0 … 255 becomes 0 … 1."""

    model_config = ConfigDict(
        json_schema_extra=rules(rule("self.fromMin != self.fromMax", "fromMin and fromMax must differ", path=".fromMax")),
    )

    columns: Annotated[list[Column], Field(min_length=1, max_length=64)]
    """Columns to map, each separately."""
    from_min: float = 0.0
    """Value that becomes `toMin`."""
    from_max: float = 255.0
    """Value that becomes `toMax`."""
    to_min: float = 0.0
    """Result for the value `fromMin`."""
    to_max: float = 1.0
    """Result for the value `fromMax`."""

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if self.from_min == self.from_max:
            raise ValueError(f"fromMin and fromMax must differ, but both are {self.from_min}")
        return self


class OneHot(Model):
    """Converts integer classes to one-hot vectors. The vectors are float32."""

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
    """Columns of classes to convert."""
    num_classes: Annotated[int, Field(ge=1, le=100_000)]
    """Number of classes. A record with a class outside 0 … numClasses-1 is bad."""
    background: bool = False
    """Whether to add a background class. The background class is the last entry of the vector. It is 1 for records whose class is missing."""
    unknown_is_background: bool = False
    """Whether unknown classes become background. If true, a record with a class outside 0 … numClasses-1 gets the background class and is not bad. Needs background: true."""

    @model_validator(mode="after")
    def _check_background(self) -> Self:
        if self.unknown_is_background and not self.background:
            raise ValueError("unknownIsBackground needs background: true")
        return self


class Cast(Model):
    """Converts numbers to another type. A record with a value that the type can't hold is bad. Values are rounded only when floats are converted to narrower floats."""

    columns: Annotated[list[Column], Field(min_length=1, max_length=64)]
    """Columns of numbers or tensors."""
    dtype: Literal["int64", "int32", "int16", "int8", "uint8", "float64", "float32", "float16", "bool"]
    """Type to convert to. Records hold float16 tensors as bytes."""
