"""Reads TFRecord files with TensorFlow in a separate process: a check that shares no code with the writer."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

Record = dict[str, list[bytes] | list[int] | list[float]]

_READER: Final = """
import json, sys
import tensorflow as tf

for record in tf.data.TFRecordDataset(sys.argv[1:]):
    features = {}
    for name, feature in tf.train.Example.FromString(record.numpy()).features.feature.items():
        kind = feature.WhichOneof("kind")
        values = list(getattr(feature, kind).value) if kind else []
        features[name] = {"kind": kind, "values": [value.hex() for value in values] if kind == "bytes_list" else values}
    print(json.dumps(features))
"""


def examples(files: Iterable[Path]) -> list[Record]:
    """The features of every tf.train.Example in the files, in order. Raises CalledProcessError if TensorFlow rejects a file."""
    done = subprocess.run(
        [sys.executable, "-c", _READER, *map(str, files)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    return [
        {name: _values(feature["kind"], feature["values"]) for name, feature in json.loads(line).items()}
        for line in done.stdout.splitlines()
    ]


def _values(kind: str | None, values: list[str] | list[int] | list[float]) -> list[bytes] | list[int] | list[float]:
    return [bytes.fromhex(str(value)) for value in values] if kind == "bytes_list" else values  # type: ignore[return-value]  # numbers
