"""`source.tfrecord`."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dataprep_api.spec.model import Column, Model, Uri


class TfrecordFeature(Model):
    """One feature of the records. It becomes a column."""

    name: Column
    """Feature key, also the column name."""
    type: Literal["Int64", "Float32", "Bytes"]
    """Type of the values, as stored."""
    shape: Annotated[list[Annotated[int, Field(ge=1, le=2_147_483_647)]], Field(max_length=8)] = []
    """Tensor shape, row-major. An empty shape means a single value."""
    ragged: bool = False
    """Whether the number of values varies. A record without the feature has 0 values."""
    raw: Literal["uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "float16", "float32", "float64", "bool"] | None = None
    """Number type of a tensor in `Bytes`. The feature's bytes are a little-endian tensor. The column contains tensors of this type with the given `shape`."""

    sequence: bool = False
    """Whether the feature is a feature list. Feature lists occur in tf.train.SequenceExample. If true, the other fields describe each step of the sequence."""

    @model_validator(mode="after")
    def _check_form(self) -> Self:
        if self.ragged and (self.shape or self.raw is not None):
            raise ValueError(f"the feature {self.name!r}: ragged can't be combined with shape or raw")
        if self.raw is not None and self.type != "Bytes":
            raise ValueError(f"the feature {self.name!r}: raw needs type: Bytes, got {self.type}")
        if self.shape and self.type == "Bytes" and self.raw is None:
            raise ValueError(
                f"the feature {self.name!r}: type Bytes can have shape only with raw; for several values per record, set ragged"
            )
        return self


class TfrecordSource(Model):
    """TFRecord files. They contain messages of the type tf.train.Example or SequenceExample. Files may be gzipped. Columns: the features."""

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Files, folders or globs. The entries are read in the order of this list. A folder means every file below it whose name doesn't begin with `_` or `.`. The files of one entry are sorted by name. In a folder that a DataPrepJob wrote, each split is a subset."""
    features: Annotated[list[TfrecordFeature], Field(min_length=1, max_length=1024)] | None = None
    """Features to read. Other features are ignored. Default: planning takes the features once, from the manifest of a DataPrepJob's folder or from the first records. A record with any other feature is bad."""
    raw: bool = False
    """Whether to pass on records unparsed. If true, the only column is `record`, which contains bytes."""

    @model_validator(mode="after")
    def _check_features(self) -> Self:
        names = [feature.name for feature in self.features or []]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the feature {name!r} is listed twice")
        if self.raw and names:
            raise ValueError("raw can't be combined with features")
        return self

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return list(self.uris)
