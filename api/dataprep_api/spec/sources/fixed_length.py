"""`source.fixedLength`."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dataprep_api.spec.model import Column, Model, Uri


class FixedField(Model):
    """One field of a record. It becomes a column."""

    name: Column
    """Column name."""
    dtype: Literal[
        "uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "float16", "float32", "float64", "bool", "bytes",
    ]  # fmt: skip
    """Type of the numbers, or `bytes`. A `bool` is one byte. Every byte except 0 is true."""
    shape: Annotated[list[Annotated[int, Field(ge=1, le=2_147_483_647)]], Field(max_length=8)] = []
    """Tensor shape, row-major. An empty shape means a single number."""
    length: Annotated[int, Field(ge=1, le=2_147_483_647)] | None = None
    """Length of a `bytes` field in bytes."""
    offset: Annotated[int, Field(ge=0, le=2_147_483_647)] | None = None
    """Offset of the field in the record. Default: the end of the previous field."""
    byte_order: Literal["Little", "Big"] = "Little"
    """Byte order of numbers."""

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        if (self.dtype == "bytes") != (self.length is not None):
            raise ValueError(f"the field {self.name!r}: bytes need a length, and other types can't have one")
        if self.dtype == "bytes" and self.shape:
            raise ValueError(f"the field {self.name!r}: bytes can't have a shape, only a length")
        return self


class FixedLengthSource(Model):
    """Binary records of the same length. Example: CIFAR-10. Columns: the fields."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders or globs. The entries are read in the order of this list. A folder means every file below it whose name doesn't begin with `_` or `.`. The files of one entry are sorted by name."""
    record_bytes: Annotated[int, Field(ge=1, le=2_147_483_647)]
    """Bytes per record."""
    header_bytes: Annotated[int, Field(ge=0, le=2_147_483_647)] = 0
    """Bytes to skip at the start of each file."""
    footer_bytes: Annotated[int, Field(ge=0, le=2_147_483_647)] = 0
    """Bytes to skip at the end of each file."""
    fields: Annotated[list[FixedField], Field(min_length=1, max_length=1024)] | None = None
    """Layout of a record. Default: the whole record is one column of bytes, `record`."""

    @model_validator(mode="after")
    def _check_field_names(self) -> Self:
        names = [field.name for field in self.fields or []]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the field {name!r} is listed twice")
        return self

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return list(self.uris)
