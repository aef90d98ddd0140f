"""TensorFlow's `tf.data` reads `tfrecord`: every field of every record, from three sources."""

import importlib.metadata
from pathlib import Path
from typing import Any

import pytest
from tests.interop import data_sets, tfrecord_sets
from tests.interop.comparisons import compared

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return tfrecord_sets.made(tmp_path_factory.mktemp("tfrecord"))


@pytest.mark.parametrize("source", data_sets.SOURCES)
def test_every_field_of_every_record_is_read(tf: Any, outputs: dict[str, Path], source: str) -> None:
    types = {"bytes": tf.string, "int64": tf.int64, "float": tf.float32}
    kinds = tfrecord_sets.KINDS[source]
    features = {name: tf.io.RaggedFeature(types[kind]) for name, kind in kinds.items()}
    data_set = tf.data.TFRecordDataset([str(shard) for shard in data_sets.shards(outputs[source])])
    found = [{name: listed(values.numpy()) for name, values in tf.io.parse_single_example(record, features).items()} for record in data_set]
    assert found == tfrecord_sets.examples(source)
    compared(
        format="tfrecord",
        reader="TensorFlow's `tf.data.TFRecordDataset`",
        versions={"tensorflow-cpu": importlib.metadata.version("tensorflow-cpu")},
        source=source,
        records=len(found),
        fields=sorted(kinds),
    )


def listed(values: Any) -> list[Any]:
    return [value.hex() if isinstance(value, bytes) else value for value in values.tolist()]
