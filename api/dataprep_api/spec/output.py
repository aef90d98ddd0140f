"""`spec.output`."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api import quantity
from dataprep_api.spec.formats.recordio_protobuf import RecordioProtobufOptions
from dataprep_api.spec.formats.tfrecord import TfrecordOptions
from dataprep_api.spec.model import Model, Quantity, Uri, rule, rules


class Shards(Model):
    """How many files each split has: at most one member; 128Mi each by default. No shard is ever empty."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "(has(self.count) ? 1 : 0) + (has(self.targetSize) ? 1 : 0) + (has(self.records) ? 1 : 0) <= 1",
                "set only one of count, targetSize, records",
            ),
            rule(
                "!has(self.targetSize) || (type(self.targetSize) == int ? self.targetSize >= 65536"
                " : isQuantity(self.targetSize) && quantity(self.targetSize).compareTo(quantity('64Ki')) >= 0)",
                "targetSize must be at least 64Ki",
                path=".targetSize",
            ),
        ),
    )

    count: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Number of shards of each split (fewer when the split has fewer records)."""
    target_size: Quantity | None = None
    """Wanted size of a shard, at least 64Ki: `128Mi`. The plan chooses the number of shards."""
    records: Annotated[int, Field(ge=1)] | None = None
    """Most records of a shard."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [n for n, v in (("count", self.count), ("targetSize", self.target_size), ("records", self.records)) if v is not None]
        if len(given) > 1:
            raise ValueError(f"set only one of count, targetSize, records, got {', '.join(given)}")
        if self.target_size is not None and quantity.to_bytes(self.target_size) < 65_536:
            raise ValueError(f"targetSize must be at least 64Ki, got {self.target_size}")
        return self


class HdfsOptions(Model):
    """How files are created on HDFS."""

    replication: Annotated[int, Field(ge=1, le=512)] | None = None
    """Replicas of each block. Default: the cluster's own."""
    permission: Annotated[str, Field(pattern=r"^0?[0-7]{3}$", max_length=4)] | None = None
    """Octal permission of the files: `"644"`."""
    block_size: Quantity | None = None
    """Block size of the files. Default: the cluster's own."""


class Output(Model):
    """Where the data set goes, and in what form."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.overwrite) || self.overwrite != 'Extend'",
                "Extend is not built yet: use Never, IfChanged or Always",
                path=".overwrite",
            )
        ),
    )

    uri: Uri
    """Folder of the data set: `hdfs://nn:9000/mnist-tfrecord`, `oss://bucket/mnist`, `s3://bucket/mnist`, `/mnt/nas/mnist`."""
    format: Literal["tfrecord", "recordioProtobuf"] = "tfrecord"
    """Format of the shards."""
    tfrecord: TfrecordOptions = TfrecordOptions()
    """Options of the format `tfrecord`."""
    recordio_protobuf: RecordioProtobufOptions = RecordioProtobufOptions()
    """Options of the format `recordioProtobuf`."""
    shards: Shards = Shards()
    """How many files each split has."""
    file_name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Template of the files' names with {split}, {shard}, {shards} and {ext}. Default: `{split}.{ext}` for a single shard, else `{split}-{shard}-of-{shards}.{ext}`. It may not begin with `_` or `.`."""
    overwrite: Literal["Never", "IfChanged", "Always", "Extend"] = "Never"
    """What to do with an output that is finished or holds another run's files: `Never` refuses, `IfChanged` reuses it when spec and inputs are the same and else replaces it, `Always` replaces it."""
    hdfs: HdfsOptions = HdfsOptions()
    """How files are created on HDFS."""

    @model_validator(mode="after")
    def _built(self) -> Self:
        if self.overwrite == "Extend":
            raise ValueError("overwrite: Extend is not built yet: use Never, IfChanged or Always")
        return self
