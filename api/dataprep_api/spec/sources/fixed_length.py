"""`source.fixedLength`."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dataprep_api.spec.model import Column, Model, Uri


class FixedField(Model):
    """One field of a record, which becomes a column."""

    name: Column
    """The column's name."""
    dtype: Literal[
        "uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "float16", "float32", "float64", "bool", "bytes",
    ]  # fmt: skip
    """Type of the numbers, or `bytes`. A `bool` is one byte, and true unless it is 0."""
    shape: Annotated[list[Annotated[int, Field(ge=1, le=2_147_483_647)]], Field(max_length=8)] = []
    """Shape of a tensor of numbers, row-major. Empty: one number."""
    length: Annotated[int, Field(ge=1, le=2_147_483_647)] | None = None
    """How many bytes a field of `bytes` has."""
    offset: Annotated[int, Field(ge=0, le=2_147_483_647)] | None = None
    """First byte within the record. Default: where the field before ends."""
    byte_order: Literal["Little", "Big"] = "Little"
    """Order of the bytes of one number."""

    @model_validator(mode="after")
    def _sized(self) -> Self:
        if (self.dtype == "bytes") != (self.length is not None):
            raise ValueError(f"the field {self.name!r}: length is given for bytes, and only for them")
        if self.dtype == "bytes" and self.shape:
            raise ValueError(f"the field {self.name!r}: bytes have a length and no shape")
        return self


class FixedLengthSource(Model):
    """Binary files of records of one length, such as those of CIFAR-10. Columns: the fields."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders (every file below whose name doesn't begin with `_` or `.`) or globs, in order; within one, by name."""
    record_bytes: Annotated[int, Field(ge=1, le=2_147_483_647)]
    """Bytes of every record."""
    header_bytes: Annotated[int, Field(ge=0, le=2_147_483_647)] = 0
    """Bytes to skip at the start of every file."""
    footer_bytes: Annotated[int, Field(ge=0, le=2_147_483_647)] = 0
    """Bytes to leave out at the end of every file."""
    fields: Annotated[list[FixedField], Field(min_length=1, max_length=1024)] | None = None
    """What stands where in a record. When absent, the whole record is one column of bytes, `record`."""

    @model_validator(mode="after")
    def _unique_names(self) -> Self:
        names = [field.name for field in self.fields or []]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the field {name!r} is there twice")
        return self

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return list(self.uris)
