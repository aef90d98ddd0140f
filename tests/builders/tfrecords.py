"""TFRecord files whose records are serialised by the protobuf library."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.converter.readers.reader_contract import batches, rows

from dataprep_api.spec import Source
from dataprep_converter.core.framing import frame
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.readers.tfrecord.tfrecord import TfrecordReader

KINDS = {int: "int64_list", float: "float_list", bytes: "bytes_list"}


def message(features: dict[str, Any]) -> Any:
    """The message class of a SequenceExample, made by the protobuf library. Its context has the fields of an Example's features."""
    built = records._record_class()()
    for name, values in features.items():
        listed = values if isinstance(values, list) else [values]
        feature = built.context.feature[name]
        if listed:
            getattr(feature, KINDS[type(listed[0])]).value.extend(listed)
        else:
            feature.float_list.SetInParent()
    return built


def example(**features: Any) -> bytes:
    """Serialise a record with protobuf, which chooses the order of the keys."""
    written: bytes = message(features).SerializeToString()
    return written


def put_records(path: Path, payloads: Sequence[bytes]) -> Path:
    """Write records to a file, which is gzipped if its suffix is `.gz`."""
    data = b"".join(map(frame, payloads))
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


def tfrecord_source(*uris: Path | str, **options: Any) -> Source:
    """Return a source that reads these files."""
    return Source.model_validate({"tfrecord": {"uris": [str(uri) for uri in uris], **options}})


def values(source: Source) -> list[dict[str, Any]]:
    """Return the good records, without their numbers."""
    return [{name: value for name, value in row.items() if name != "_sample"} for row in rows(batches(TfrecordReader, source))]
