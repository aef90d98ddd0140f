"""`source.tfrecord`."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dataprep_api.spec.model import Column, Model, Uri


class TfrecordFeature(Model):
    """One feature of the records, which becomes a column."""

    name: Column
    """Key of the feature, and name of the column."""
    type: Literal["Int64", "Float32", "Bytes"]
    """Type of the values, as stored."""
    shape: Annotated[list[Annotated[int, Field(ge=1, le=2_147_483_647)]], Field(max_length=8)] = []
    """Shape of a tensor, row-major. Empty: one value."""
    ragged: bool = False
    """Whether every record has its own number of values, also none. A record without the feature has none."""
    raw: Literal["uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "float16", "float32", "float64", "bool"] | None = None
    """For `Bytes` that are a tensor's own bytes, little-endian: the type of its numbers. The column then holds numbers of `shape`."""

    sequence: bool = False
    """Whether it is a feature list of tf.train.SequenceExample; the other fields then say what each step is."""

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
    """TFRecord files of tf.train.Example or SequenceExample, gzip or not. Columns: the features."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders (every file below whose name doesn't begin with `_` or `.`) or globs, in order; within one, by name. A folder that a DataPrepJob wrote has its splits as subsets."""
    features: Annotated[list[TfrecordFeature], Field(min_length=1, max_length=1024)] | None = None
    """The features to read; others are passed over. When absent they are taken, once, while planning, from the manifest of a DataPrepJob's folder or from the first records; then any other feature makes a record bad."""
    raw: bool = False
    """Whether records are passed on as they are, without a look inside: one column of bytes, `record`."""

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
