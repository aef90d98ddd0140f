"""SequenceExamples that TensorFlow has written are read with every step, and TensorFlow reads the same values from the output."""

from pathlib import Path
from typing import Any

import pytest
from tests.builders.jobs import run_spec
from tests.builders.tfrecords import tfrecord_source, values

pytestmark = pytest.mark.interop

ROWS: list[dict[str, Any]] = [
    {
        "id": -(2**63),
        "name": b"\x00\xff",
        "t": [[0.5, -0.25], [1.0, 2.0]],
        "n": [1, -1, 2**63 - 1],
        "w": [b"a", b""],
        "r": [[1, 2], [], [3]],
    },
    {"id": 7, "name": b"", "t": [], "n": [], "w": [], "r": []},
    {"id": 8, "name": b"x" * 300, "t": [[3.0, 4.0]], "n": [0], "w": [b"bc" * 200], "r": [[300]]},
]


def message(tf: Any, row: dict[str, Any]) -> Any:
    """A message built with TensorFlow's own classes."""

    def feature(found: list[Any], kind: type) -> Any:
        if kind is bytes:
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=found))
        if kind is float:
            return tf.train.Feature(float_list=tf.train.FloatList(value=found))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=found))

    kinds = {"t": float, "n": int, "w": bytes, "r": int}
    lists = {
        name: tf.train.FeatureList(feature=[feature(step if isinstance(step, list) else [step], kind) for step in row[name]])
        for name, kind in kinds.items()
    }
    context = tf.train.Features(feature={"id": feature([row["id"]], int), "name": feature([row["name"]], bytes)})
    return tf.train.SequenceExample(context=context, feature_lists=tf.train.FeatureLists(feature_list=lists))


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_tensorflows_records_survive_a_round_trip(tf: Any, tmp_path: Path, compression: str) -> None:
    file = tmp_path / "in.tfrecords"
    messages = [message(tf, row) for row in ROWS]
    with tf.io.TFRecordWriter(str(file), options=tf.io.TFRecordOptions(compression_type=compression)) as writer:
        for each in messages:
            writer.write(each.SerializeToString())
    assert values(tfrecord_source(file)) == ROWS
    run_spec({"source": {"tfrecord": {"uris": [str(file)]}}, "output": {"uri": str(tmp_path / "out")}})
    found = [tf.train.SequenceExample.FromString(each.numpy()) for each in tf.data.TFRecordDataset(str(tmp_path / "out/train.tfrecords"))]
    assert found == messages
