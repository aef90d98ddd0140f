"""Make the bytes of TFRecord files with the encoder."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dataprep_api.spec import Output
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.formats.tfrecord.tfrecord_encoder import TfrecordEncoder
from dataprep_converter.records.feature import FeatureSpec

OUTPUT = Output(uri="out")


def encoded(columns: Mapping[str, Any], features: Sequence[FeatureSpec]) -> bytes:
    return bytes(TfrecordEncoder(OUTPUT, features).encode(pa.record_batch(dict(columns))))


def payloads(data: bytes) -> list[bytes]:
    return [payload for _, payload in records.read([data])]
