"""`source.tfrecord`."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dataprep_api.spec.model import Column, Model, Uri


class TfrecordFeature(Model):
    """One feature of the records. It becomes a column."""

    name: Column
    """Key of the feature, and column name."""
    type: Literal["Int64", "Float32", "Bytes"]
    """Type of the values, as stored."""
    shape: Annotated[list[Annotated[int, Field(ge=1, le=2_147_483_647)]], Field(max_length=8)] = []
    """Tensor shape, row-major. Empty: a single value."""
    ragged: bool = False
    """Whether the number of values varies. A record without the feature has none."""
    raw: Literal["uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "float16", "float32", "float64", "bool"] | None = None
    """Number type of a tensor in `Bytes`. The bytes are those of a little-endian tensor; the column holds numbers of `shape`."""

    sequence: bool = False
    """Whether it is a feature list. That is one of tf.train.SequenceExample; the other fields describe each step."""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.ragged and (self.shape or self.raw is not None):
            raise ValueError(f"the feature {self.name!r}: ragged goes with no shape and no raw")
        if self.raw is not None and self.type != "Bytes":
            raise ValueError(f"the feature {self.name!r}: raw is for Bytes, got {self.type}")
        if self.shape and self.type == "Bytes" and self.raw is None:
            raise ValueError(f"the feature {self.name!r}: Bytes have a shape only with raw; several of them are ragged")
        return self


class TfrecordSource(Model):
    """TFRecord files of tf.train.Example. SequenceExample too; files may be gzipped. Columns: the features."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders or globs, in order. A folder stands for every file below it whose name doesn't begin with `_` or `.`. Within one entry, files come by name. A folder that a DataPrepJob wrote has its splits as subsets."""
    features: Annotated[list[TfrecordFeature], Field(min_length=1, max_length=1024)] | None = None
    """Features to read. Others are ignored. Default: planning takes them once from the manifest of a DataPrepJob's folder, or from the first records; any other feature then makes a record bad."""
    raw: bool = False
    """Whether to pass records on unparsed. There is one column of bytes, `record`."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [feature.name for feature in self.features or []]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the feature {name!r} is there twice")
        if self.raw and names:
            raise ValueError("raw records have no features")
        return self

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return list(self.uris)
