"""Transforms of numbers."""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Column, Model, rule, rules


class Scale(Model):
    """Linear map of a range of values onto another, as float32: 0 … 255 onto 0 … 1 by default."""

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
    to_max: float = 1.0

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.from_min == self.from_max:
            raise ValueError(f"fromMin and fromMax must differ, both are {self.from_min}")
        return self


class OneHot(Model):
    """An integer class as a float32 vector with a single 1."""

    columns: Annotated[list[Column], Field(min_length=1, max_length=64)]
    """Columns to replace by their vectors."""
    num_classes: Annotated[int, Field(ge=1, le=100_000)]
    """Length of the vector. A class outside 0 … numClasses-1 makes the record bad."""
