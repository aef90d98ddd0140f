"""The source `tfrecord` reads what TensorFlow writes, value for value."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.converter.readers.reader_contract import batches, faults, rows

from dataprep_api.spec import Source
from dataprep_converter.readers.tfrecord.tfrecord import TfrecordReader

pytestmark = pytest.mark.interop

COUNT = 500


def record(number: int) -> dict[str, Any]:
    noise = np.random.default_rng(number)
    return {
        "id": number * (-1) ** number * 10 ** (number % 15),
        "vector": noise.random(7, np.float32).tolist(),
        "tags": [f"tag {n}".encode() for n in range(number % 4)],
        "image": noise.bytes(number % 300),
        "ragged": noise.integers(-(2**62), 2**62, number % 6).tolist(),
    }


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_tensorflows_records_are_read(tf: Any, tmp_path: Path, compression: str) -> None:
    kinds = {"id": "int64_list", "vector": "float_list", "tags": "bytes_list", "image": "bytes_list", "ragged": "int64_list"}
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord"), compression) as writer:
        for number in range(COUNT):
            example = tf.train.Example()
            for name, values in record(number).items():
                listed = values if isinstance(values, list) else [values]
                getattr(example.features.feature[name], kinds[name]).value.extend(listed)
            writer.write(example.SerializeToString())
    source = Source.model_validate({"tfrecord": {"uris": [str(tmp_path)]}})
    found = batches(TfrecordReader, source, size=64)
    assert faults(found) == {}
    assert [{name: row[name] for name in kinds} for row in rows(found)] == [record(number) for number in range(COUNT)]
