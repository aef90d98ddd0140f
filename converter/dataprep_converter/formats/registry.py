"""The formats: by name, their encoder and decoder."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final

from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.formats.decoder import Decoder, NamesFeatures
from dataprep_converter.formats.encoder import Encoder

ENCODERS: Final[Mapping[str, str]] = {
    "tfrecord": "dataprep_converter.formats.tfrecord.tfrecord_encoder:TfrecordEncoder",
    "recordioProtobuf": "dataprep_converter.formats.recordio.recordio_encoder:RecordioEncoder",
    "sequenceFile": "dataprep_converter.formats.hadoop.sequence_file_encoder:SequenceFileEncoder",
    "mapFile": "dataprep_converter.formats.hadoop.map_file_encoder:MapFileEncoder",
    "parquet": "dataprep_converter.formats.columnar.parquet_encoder:ParquetEncoder",
    "arrow": "dataprep_converter.formats.columnar.arrow_encoder:ArrowEncoder",
    "jsonl": "dataprep_converter.formats.text.jsonl_encoder:JsonlEncoder",
    "csv": "dataprep_converter.formats.text.csv_encoder:CsvEncoder",
    "npz": "dataprep_converter.formats.archives.npz_encoder:NpzEncoder",
    "fileBatch": "dataprep_converter.formats.archives.file_batch_encoder:FileBatchEncoder",
    "dl4jDataset": "dataprep_converter.formats.dl4j.dl4j_dataset_encoder:Dl4jDatasetEncoder",
    "webdataset": "dataprep_converter.formats.archives.webdataset_encoder:WebdatasetEncoder",
    "mds": "dataprep_converter.formats.mds.mds_encoder:MdsEncoder",
    "arrayRecord": "dataprep_converter.formats.tfrecord.array_record_encoder:ArrayRecordEncoder",
}
"""`spec.output.format` → class. Adding a format is one line here and one file."""


def encoder_class(name: str) -> type[Encoder]:
    """The class of a format. Raises BadSpec naming the known ones."""
    if name not in ENCODERS:
        raise BadSpec(f"No format named {name!r}; known: {', '.join(sorted(ENCODERS))}.")
    module, _, attribute = ENCODERS[name].partition(":")
    found: type[Encoder] = getattr(import_module(module), attribute)
    return found


DECODERS: Final[Mapping[str, str]] = {
    "tfrecord": "dataprep_converter.formats.tfrecord.tfrecord_decoder:TfrecordDecoder",
    "recordioProtobuf": "dataprep_converter.formats.recordio.recordio_decoder:RecordioDecoder",
    "sequenceFile": "dataprep_converter.formats.hadoop.sequence_file_decoder:SequenceFileDecoder",
    "mapFile": "dataprep_converter.formats.hadoop.sequence_file_decoder:MapFileDecoder",
    "parquet": "dataprep_converter.formats.columnar.parquet_decoder:ParquetDecoder",
    "arrow": "dataprep_converter.formats.columnar.arrow_decoder:ArrowDecoder",
    "jsonl": "dataprep_converter.formats.text.jsonl_decoder:JsonlDecoder",
    "csv": "dataprep_converter.formats.text.csv_decoder:CsvDecoder",
    "npz": "dataprep_converter.formats.archives.npz_decoder:NpzDecoder",
    "fileBatch": "dataprep_converter.formats.archives.file_batch_decoder:FileBatchDecoder",
    "dl4jDataset": "dataprep_converter.formats.dl4j.dl4j_dataset_decoder:Dl4jDatasetDecoder",
    "webdataset": "dataprep_converter.formats.archives.webdataset_decoder:WebdatasetDecoder",
    "mds": "dataprep_converter.formats.mds.mds_decoder:MdsDecoder",
    "arrayRecord": "dataprep_converter.formats.tfrecord.array_record_decoder:ArrayRecordDecoder",
}
"""`output.format` → class. Every format of ENCODERS has its line here."""


@cache
def _names_features(kind: type[Decoder]) -> bool:
    """Asked once: to hold an object against a protocol takes longer than to read a small record."""
    return issubclass(kind, NamesFeatures)


def by_feature(format_: Decoder, record: Any, features: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The values of a record by the names of the manifest's features. Raises NotWhole when it is no record of the format."""
    if features and features[0].get("record") and isinstance(record, bytes):
        return {features[0]["name"]: [record]}
    return (format_.by_feature if _names_features(type(format_)) else format_.parse)(record)  # type: ignore[attr-defined]  # it was asked


def decoder(manifest: Manifest) -> Decoder:
    """The decoder for a data set. Raises BadSpec naming the known formats."""
    if manifest.format not in DECODERS:
        raise BadSpec(f"No format named {manifest.format!r}; known: {', '.join(sorted(DECODERS))}.")
    module, _, name = DECODERS[manifest.format].partition(":")
    found: type[Decoder] = getattr(import_module(module), name)
    return found(manifest)
