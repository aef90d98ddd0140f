"""Reads shards with DALI on the CPU. Input: a JSON file of {sets: [{format, files, indexes, records, …}]}; output: values as lists, bytes
in hex.

A `tfrecord` set also has `features: {name: bytes | int64 | float}`. A `webdataset` set also has `extensions`; its files are
read as bytes.
"""

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

import nvidia.dali.fn as fn
import nvidia.dali.tfrecord as tfrec
from nvidia.dali import pipeline_def, types

BATCH = 16
KINDS = {"bytes": (tfrec.string, ""), "int64": (tfrec.int64, 0), "float": (tfrec.float32, 0.0)}


@pipeline_def(batch_size=BATCH, num_threads=2, device_id=None)
def tfrecords(wanted: Any) -> Any:
    features = {
        name: tfrec.FixedLenFeature([], *KINDS[kind]) if kind == "bytes" else tfrec.VarLenFeature(*KINDS[kind])
        for name, kind in wanted["features"].items()
    }
    read = fn.readers.tfrecord(path=wanted["files"], index_path=wanted["indexes"], features=features)
    return tuple(read[name] for name in features)


@pipeline_def(batch_size=BATCH, num_threads=2, device_id=None)
def webdatasets(wanted: Any) -> Any:
    extensions = wanted["extensions"]
    read = fn.readers.webdataset(
        paths=wanted["files"], index_paths=wanted["indexes"], ext=extensions, dtypes=[types.UINT8] * len(extensions)
    )
    return tuple(read)


def records(wanted: Any) -> list[dict[str, list[Any]]]:
    is_tfrecord = wanted["format"] == "tfrecord"
    pipeline = (tfrecords if is_tfrecord else webdatasets)(wanted)
    pipeline.build()
    kinds = wanted["features"] if is_tfrecord else dict.fromkeys(wanted["extensions"], "bytes")
    found: list[dict[str, list[Any]]] = []
    while len(found) < wanted["records"]:
        outputs = dict(zip(kinds, pipeline.run(), strict=True))
        for row in range(BATCH):
            arrays = {name: outputs[name].at(row) for name in kinds}
            found.append({name: [array.tobytes().hex()] if kinds[name] == "bytes" else array.tolist() for name, array in arrays.items()})
    # DALI pads the last batch with records from the beginning.
    return found[: wanted["records"]]


versions = {"nvidia-dali-cuda130": importlib.metadata.version("nvidia-dali-cuda130")}
json.dump({"versions": versions, "sets": [records(wanted) for wanted in json.loads(Path(sys.argv[1]).read_text())["sets"]]}, sys.stdout)
