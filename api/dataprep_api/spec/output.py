"""`spec.output`."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api import names, quantity
from dataprep_api.formats import ONE_MINIBATCH, TABLES, FormatName, format_rules
from dataprep_api.spec.formats.array_record import ArrayRecordOptions
from dataprep_api.spec.formats.arrow import ArrowOptions
from dataprep_api.spec.formats.csv import CsvOptions
from dataprep_api.spec.formats.dl4j_dataset import Dl4jDatasetOptions
from dataprep_api.spec.formats.file_batch import FileBatchOptions
from dataprep_api.spec.formats.jsonl import JsonlOptions
from dataprep_api.spec.formats.map_file import MapFileOptions
from dataprep_api.spec.formats.mds import MdsOptions
from dataprep_api.spec.formats.npz import NpzOptions
from dataprep_api.spec.formats.parquet import ParquetOptions
from dataprep_api.spec.formats.recordio_protobuf import RecordioProtobufOptions
from dataprep_api.spec.formats.sequence_file import SequenceFileOptions
from dataprep_api.spec.formats.tfrecord import TfrecordOptions
from dataprep_api.spec.formats.webdataset import WebdatasetOptions
from dataprep_api.spec.model import Model, Quantity, Uri, count, rule, rules
from dataprep_api.spec.sources.table import TableUri

MINIBATCH: Final = 32
"""The default number of records per minibatch."""


class Shards(Model):
    """How many files each split has. Set at most one member. By default, shards are about 128Mi each. Shards are never empty."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"{count('has(self.count)', 'has(self.targetSize)', 'has(self.records)')} <= 1",
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
    """Shards per split. A split with fewer records than `count` has fewer shards."""
    target_size: Quantity | None = None
    """Target size of a shard. Example: `128Mi`. The size must be at least 64Ki. The plan chooses the number of shards."""
    records: Annotated[int, Field(ge=1)] | None = None
    """Maximum number of records per shard."""

    @model_validator(mode="after")
    def _check_at_most_one(self) -> Self:
        members = [
            name
            for name, value in (("count", self.count), ("targetSize", self.target_size), ("records", self.records))
            if value is not None
        ]
        if len(members) > 1:
            raise ValueError(f"set only one of count, targetSize, records, got {', '.join(members)}")
        if self.target_size is not None and quantity.to_bytes(self.target_size) < 65_536:
            raise ValueError(f"targetSize must be at least 64Ki, got {self.target_size}")
        return self


class HdfsOptions(Model):
    """How files are created on HDFS."""

    replication: Annotated[int, Field(ge=1, le=512)] | None = None
    """Replicas per block. Default: the cluster's setting."""
    permission: Annotated[str, Field(pattern=r"^0?[0-7]{3}$", max_length=4)] | None = None
    """Octal file permission. Example: `"644"`."""
    block_size: Quantity | None = None
    """HDFS block size. Default: the cluster's setting."""


class TableOutput(Model):
    """A MaxCompute table, or a partition of a table, that receives the records as rows."""

    uri: TableUri
    """URI of a table or partition. A table is `odps://project/tables/t`, for example. A partition such as `odps://project/tables/t/pt=20260101` is created if needed. When the data set is finished, all rows of the table or partition are replaced in a single step."""


_NO_SHARDS: Final = f"with granularity: Minibatch, each file of {', '.join(ONE_MINIBATCH)} contains one minibatch, so leave shards out"
_NO_ROWS: Final = f"table needs format: {' or '.join(TABLES)}"
_IS_MINIBATCH: Final = "has(self.granularity) && self.granularity == 'Minibatch'"
_VERSION: Final = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_EXTENDABLE_NAME: Final = "with overwrite: Extend, the file name must contain {shard} and must not contain {shards}"
_NO_TABLE: Final = "a table can't be extended: use overwrite: Always"
_ANY_SHARDS: Final = "has(self.shards) && (has(self.shards.count) || has(self.shards.targetSize) || has(self.shards.records))"

_ONE_UID: Final = "provenance sets the records' uid and metadata, so leave out recordioProtobuf.uid and recordioProtobuf.metadata"


class Output(Model):
    """The destination and the format of the data set."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"!has(self.minibatchSize) || ({_IS_MINIBATCH})",
                "minibatchSize needs granularity: Minibatch",
                path=".minibatchSize",
            ),
            rule(
                f"!({_IS_MINIBATCH}) || !(has(self.format) && self.format in {ONE_MINIBATCH}) || !({_ANY_SHARDS})",
                _NO_SHARDS,
                path=".shards",
            ),
            rule(
                f"!({_IS_MINIBATCH}) || !(has(self.shards) && has(self.shards.records))"
                f" || self.shards.records >= (has(self.minibatchSize) ? self.minibatchSize : {MINIBATCH})",
                "shards.records must be at least minibatchSize",
                path=".shards.records",
            ),
            rule(
                "!has(self.provenance) || !self.provenance || !has(self.recordioProtobuf)"
                " || !(has(self.recordioProtobuf.uid) || has(self.recordioProtobuf.metadata))",
                _ONE_UID,
                path=".provenance",
            ),
            rule(f"!has(self.table) || (has(self.format) && self.format in {TABLES})", _NO_ROWS, path=".table"),
            rule(
                "!has(self.overwrite) || self.overwrite != 'Extend' || !has(self.fileName)"
                " || (self.fileName.contains('{shard') && !self.fileName.contains('{shards'))",
                _EXTENDABLE_NAME,
                path=".fileName",
            ),
            rule("!has(self.overwrite) || self.overwrite != 'Extend' || !has(self.table)", _NO_TABLE, path=".table"),
        ),
    )

    uri: Uri
    """Folder of the data set. Examples: `hdfs://nn:9000/mnist-tfrecord`, `oss://bucket/mnist`, `s3://bucket/mnist`, `/mnt/nas/mnist`."""
    version: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Sub-folder for this version. Each version has its own folder below `uri`. Examples: `v1`, `${DATE}`, `${SCHEDULED_TIME}`."""
    format: Literal[FormatName, "copy"] = "tfrecord"
    """Format of the shards. `copy` copies the source byte for byte. With `copy`, the source must be a finished data set."""
    tfrecord: TfrecordOptions = TfrecordOptions()
    """`tfrecord` options."""
    recordio_protobuf: RecordioProtobufOptions = RecordioProtobufOptions()
    """`recordioProtobuf` options."""
    sequence_file: SequenceFileOptions = SequenceFileOptions()
    """`sequenceFile` options."""
    map_file: MapFileOptions = MapFileOptions()
    """`mapFile` options."""
    parquet: ParquetOptions = ParquetOptions()
    """`parquet` options."""
    arrow: ArrowOptions = ArrowOptions()
    """`arrow` options."""
    jsonl: JsonlOptions = JsonlOptions()
    """`jsonl` options."""
    csv: CsvOptions = CsvOptions()
    """`csv` options."""
    npz: NpzOptions = NpzOptions()
    """`npz` options."""
    file_batch: FileBatchOptions = FileBatchOptions()
    """`fileBatch` options."""
    dl4j_dataset: Annotated[Dl4jDatasetOptions, Field(alias="dl4jDataset")] = Dl4jDatasetOptions()
    """`dl4jDataset` options."""
    webdataset: WebdatasetOptions = WebdatasetOptions()
    """`webdataset` options."""
    mds: MdsOptions = MdsOptions()
    """`mds` options."""
    array_record: ArrayRecordOptions = ArrayRecordOptions()
    """`arrayRecord` options."""
    granularity: Literal["Record", "Minibatch"] = "Record"
    """Unit that is never divided between shards. `Minibatch`: each split is divided, in order, into minibatches. By default, each file contains one minibatch, but `shards` can request larger files. `Record`: a new file can begin at any record."""
    minibatch_size: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Records per minibatch. A split's last minibatch may have fewer. Default: 32."""
    shards: Shards = Shards()
    """How many files each split has."""
    file_name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """File name template. It may use {split}, {shard}, {shards} and {ext}, and must not begin with `_` or `.`. Numbers have five digits, or six with {shard:06}. The default is `{split}.{ext}` for a single shard, and `{split}-{shard}-of-{shards}.{ext}` for several shards. With `overwrite: Extend` the default is `{split}-{shard}.{ext}`. For sequenceFile and mapFile the default is `part-r-{shard}`, which for mapFile names a folder. Some other formats have their own defaults."""
    overwrite: Literal["Never", "IfChanged", "Always", "Extend"] = "Never"
    """What to do with an existing output. An output exists if it is finished or contains another run's files. `Never`: refuse the job. `IfChanged`: reuse the output if spec and inputs are the same, otherwise replace it. `Always`: replace it. `Extend`: add shards for new inputs."""
    index: bool = True
    """Whether to write record indexes. Each uncompressed shard of `tfrecord` and `recordioProtobuf` gets an index file in `_dataprep/index`, for DALI and other readers."""
    provenance: bool = False
    """Whether records name their origin. The origin is stored in the features `_uid` and `_source`, or in `uid` and `metadata` in `recordioProtobuf`."""
    hdfs: HdfsOptions = HdfsOptions()
    """How files are created on HDFS."""
    table: TableOutput | None = None
    """MaxCompute table that also gets the records. The worker that writes a shard also uploads its rows. Needs format: arrow."""
    statistics: Literal["Sampled", "All", "ClassCounts"] = "Sampled"
    """How much the statistics cover. `Sampled`: in large data sets, means and histograms are computed from every k-th record. `All`: they cover every value, which takes longer. `ClassCounts`: only the number of records per class is counted."""

    @model_validator(mode="before")
    @classmethod
    def _append_version(cls, fields: Any) -> Any:  # the type is Any, because the input is unvalidated
        """Append the version to the URI, so that no other code has to handle versions."""
        if not isinstance(fields, Mapping) or not isinstance(fields.get("version"), str) or not isinstance(fields.get("uri"), str):
            return fields
        version = fields["version"]
        if re.fullmatch(_VERSION, version) is None:
            raise ValueError(
                f"version may contain only letters, digits, dots, dashes and underscores, and must begin with a letter or digit, got {version!r}"
            )
        return {**fields, "uri": names.join(fields["uri"], version), "version": None}

    @model_validator(mode="after")
    def _check_extendable(self) -> Self:
        if self.overwrite != "Extend":
            return self
        if self.table is not None:
            raise ValueError(_NO_TABLE)
        if self.file_name is not None and ("{shard" not in self.file_name or "{shards" in self.file_name):
            raise ValueError(_EXTENDABLE_NAME)
        return self

    @model_validator(mode="after")
    def _check_provenance(self) -> Self:
        if self.provenance and (self.recordio_protobuf.uid is not None or self.recordio_protobuf.metadata is not None):
            raise ValueError(_ONE_UID)
        return self

    @model_validator(mode="after")
    def _check_table_format(self) -> Self:
        if self.table is not None and not format_rules(self.format).fills_tables:
            raise ValueError(_NO_ROWS)
        return self

    @model_validator(mode="after")
    def _check_minibatches(self) -> Self:
        shards = self.shards
        if self.granularity != "Minibatch":
            if self.minibatch_size is not None:
                raise ValueError("minibatchSize needs granularity: Minibatch")
            return self
        if format_rules(self.format).is_one_minibatch and shards != Shards():
            raise ValueError(_NO_SHARDS)
        if shards.records is not None and shards.records < self.batch:
            raise ValueError(f"shards.records must be at least minibatchSize ({self.batch}), got {shards.records}")
        return self

    @property
    def template(self) -> str | None:
        """The file name template, or None for the format's default."""
        return names.extendable_template(self.format) if self.overwrite == "Extend" and self.file_name is None else self.file_name

    @property
    def options(self) -> Model:
        """The options of the format. Raises KeyError for `copy`, which has no options."""
        members = {field.alias: name for name, field in type(self).model_fields.items()}
        options: Model = getattr(self, members[self.format])
        return options

    @property
    def batch(self) -> int:
        """The number of samples that stay together in a file: the minibatch size, or 1 without minibatches."""
        return (self.minibatch_size or MINIBATCH) if self.granularity == "Minibatch" else 1
