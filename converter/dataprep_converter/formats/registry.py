"""The registry of formats, which maps each format's name to its `Format`."""

from collections.abc import Mapping, Sequence
from functools import cache
from pkgutil import resolve_name
from typing import Any, Final

from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.formats.decoder import Decoder, NamesFeatures
from dataprep_converter.formats.encoder import Encoder
from dataprep_converter.formats.format import Format, IndexLine, ReadUnit

_FORMATS: Final = "dataprep_converter.formats"
_SIDECARS: Final = "dataprep_converter.dataset.sidecars"

FORMATS: Final[Mapping[str, Format]] = {
    "tfrecord": Format(
        encoder=f"{_FORMATS}.tfrecord.tfrecord_encoder:TfrecordEncoder",
        decoder=f"{_FORMATS}.tfrecord.tfrecord_decoder:TfrecordDecoder",
        holds_examples=True,
        index_line=IndexLine("offset", " ", "size"),
        read_unit=ReadUnit.INDEXED_RECORDS,
        script_extensions=("tfrecords", "tfrecord", "tfrec", "records", "record"),
        media_type="application/x-tfrecord",
        is_sagemaker_input=True,
        sidecars=("tfds",),
        loaders={
            "tensorflow": f"{_SIDECARS}.loader_tensorflow:text",
            "torch": f"{_SIDECARS}.loader_torch:examples",
            "dali": f"{_SIDECARS}.loader_dali:examples",
            "spark": f"{_SIDECARS}.loader_spark:examples",
        },
    ),
    "recordioProtobuf": Format(
        encoder=f"{_FORMATS}.recordio.recordio_encoder:RecordioEncoder",
        decoder=f"{_FORMATS}.recordio.recordio_decoder:RecordioDecoder",
        index_line=IndexLine("number", "\t", "offset"),
        script_extensions=("rec", "recordio", "pbr"),
        media_type="application/x-recordio-protobuf",
        is_sagemaker_input=True,
    ),
    "arrayRecord": Format(
        encoder=f"{_FORMATS}.tfrecord.array_record_encoder:ArrayRecordEncoder",
        decoder=f"{_FORMATS}.tfrecord.array_record_decoder:ArrayRecordDecoder",
        holds_examples=True,
    ),
    "parquet": Format(
        encoder=f"{_FORMATS}.columnar.parquet_encoder:ParquetEncoder",
        decoder=f"{_FORMATS}.columnar.parquet_decoder:ParquetDecoder",
        read_unit=ReadUnit.ROW_GROUPS,
        media_type="application/x-parquet",
        is_sagemaker_input=True,
        croissant_columns=f"{_SIDECARS}.croissant:feature_columns",
        loaders={"torch": f"{_SIDECARS}.loader_torch:parquet", "spark": f"{_SIDECARS}.loader_spark:parquet"},
    ),
    "arrow": Format(
        encoder=f"{_FORMATS}.columnar.arrow_encoder:ArrowEncoder",
        decoder=f"{_FORMATS}.columnar.arrow_decoder:ArrowDecoder",
        read_unit=ReadUnit.RECORD_BATCHES,
        media_type="application/vnd.apache.arrow.file",
        loaders={"torch": f"{_SIDECARS}.loader_torch:arrow"},
    ),
    "jsonl": Format(
        encoder=f"{_FORMATS}.text.jsonl_encoder:JsonlEncoder",
        decoder=f"{_FORMATS}.text.jsonl_decoder:JsonlDecoder",
        media_type="application/jsonlines",
        is_sagemaker_input=True,
        croissant_columns=f"{_SIDECARS}.croissant:feature_columns",
        loaders={"torch": f"{_SIDECARS}.loader_torch:jsonl", "spark": f"{_SIDECARS}.loader_spark:jsonl"},
    ),
    "csv": Format(
        encoder=f"{_FORMATS}.text.csv_encoder:CsvEncoder",
        decoder=f"{_FORMATS}.text.csv_decoder:CsvDecoder",
        media_type="text/csv",
        is_sagemaker_input=True,
        croissant_columns=f"{_SIDECARS}.croissant:csv_columns",
        loaders={"spark": f"{_SIDECARS}.loader_spark:csv"},
    ),
    "sequenceFile": Format(
        encoder=f"{_FORMATS}.hadoop.sequence_file_encoder:SequenceFileEncoder",
        decoder=f"{_FORMATS}.hadoop.sequence_file_decoder:SequenceFileDecoder",
        loaders={"spark": f"{_SIDECARS}.loader_spark:hadoop"},
        programs={"LoadHadoop.java": f"{_SIDECARS}.loader_java:hadoop"},
    ),
    "mapFile": Format(
        encoder=f"{_FORMATS}.hadoop.map_file_encoder:MapFileEncoder",
        decoder=f"{_FORMATS}.hadoop.sequence_file_decoder:MapFileDecoder",
        loaders={"spark": f"{_SIDECARS}.loader_spark:hadoop"},
        programs={"LoadHadoop.java": f"{_SIDECARS}.loader_java:hadoop"},
    ),
    "webdataset": Format(
        encoder=f"{_FORMATS}.archives.webdataset_encoder:WebdatasetEncoder",
        decoder=f"{_FORMATS}.archives.webdataset_decoder:WebdatasetDecoder",
        media_type="application/x-tar",
        loaders={"torch": f"{_SIDECARS}.loader_torch_samples:webdataset", "dali": f"{_SIDECARS}.loader_dali:members"},
    ),
    "mds": Format(
        encoder=f"{_FORMATS}.mds.mds_encoder:MdsEncoder",
        decoder=f"{_FORMATS}.mds.mds_decoder:MdsDecoder",
        sidecars=("mds_index",),
        loaders={"torch": f"{_SIDECARS}.loader_torch_samples:mds"},
    ),
    "npz": Format(
        encoder=f"{_FORMATS}.archives.npz_encoder:NpzEncoder",
        decoder=f"{_FORMATS}.archives.npz_decoder:NpzDecoder",
        read_unit=ReadUnit.ARRAYS,
        loaders={"torch": f"{_SIDECARS}.loader_torch_samples:npz", "numpy": f"{_SIDECARS}.loader_numpy:text"},
    ),
    "fileBatch": Format(
        encoder=f"{_FORMATS}.archives.file_batch_encoder:FileBatchEncoder",
        decoder=f"{_FORMATS}.archives.file_batch_decoder:FileBatchDecoder",
        programs={"LoadDl4j.java": f"{_SIDECARS}.loader_java:file_batch"},
    ),
    "dl4jDataset": Format(
        encoder=f"{_FORMATS}.dl4j.dl4j_dataset_encoder:Dl4jDatasetEncoder",
        decoder=f"{_FORMATS}.dl4j.dl4j_dataset_decoder:Dl4jDatasetDecoder",
        programs={"LoadDl4j.java": f"{_SIDECARS}.loader_java:dl4j_dataset"},
    ),
}
"""Maps the value of `spec.output.format` to its format, in the order in which the loaders' messages list the formats."""


def format_of(name: str) -> Format:
    """Return the format with this name. Raises BadSpec, which lists the known formats, if no format has this name."""
    if name not in FORMATS:
        raise BadSpec(f"No format named {name!r}; known: {', '.join(sorted(FORMATS))}.")
    return FORMATS[name]


def encoder_class(name: str) -> type[Encoder]:
    """Return a format's encoder class. Raises BadSpec, which lists the known formats, if no format has this name."""
    encoder: type[Encoder] = resolve_name(format_of(name).encoder)
    return encoder


def decoder(manifest: Manifest) -> Decoder:
    """Return the decoder for a data set. Raises BadSpec, which lists the known formats, if the data set's format is unknown."""
    kind: type[Decoder] = resolve_name(format_of(manifest.format).decoder)
    return kind(manifest)


@cache
def _names_features(kind: type[Decoder]) -> bool:
    """Whether a decoder class implements NamesFeatures. Cached, because the check takes longer than reading a small record."""
    return issubclass(kind, NamesFeatures)


def by_feature(format_: Decoder, record: Any, features: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values of a record, keyed by the names of the manifest's features.

    Raises NotWhole if `record` isn't a record of the format.
    """
    if features and features[0].get("record") and isinstance(record, bytes):
        return {features[0]["name"]: [record]}
    return (format_.by_feature if _names_features(type(format_)) else format_.parse)(record)  # type: ignore[attr-defined]  # checked on the same line
