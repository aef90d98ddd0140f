"""Reads data sets with MosaicML Streaming, checks the shards' hashes, and writes the samples again with the library's writer.

Input: a JSON file of {folders: [folder, …], columns: [{name: encoding}, …]}. Output: samples as {column: value}, arrays as lists with their
dtype, bytes in hex. `written` contains, for the first shard of each folder, the bytes that the writer writes, and the writer's index.json
for a data set of only that shard.
"""

import importlib.metadata
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from streaming import MDSWriter, StreamingDataset

BATCH = 8


def plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.name, "shape": value.shape, "values": value.reshape(-1).tolist()}
    if isinstance(value, np.generic):
        return {"dtype": value.dtype.name, "values": value.item()}
    return value.hex() if isinstance(value, bytes) else value


def written(samples: list[dict[str, Any]], columns: dict[str, str]) -> dict[str, str]:
    if any(isinstance(value, np.ndarray) and not value.size for sample in samples for value in sample.values()):
        return {}  # the writer rejects empty arrays, but the reader accepts them
    with tempfile.TemporaryDirectory() as folder:
        with MDSWriter(out=f"{folder}/out", columns=columns, hashes=["sha256"], size_limit=None) as writer:
            for sample in samples:
                writer.write(sample)
        files = [Path(folder, "out", name) for name in ("shard.00000.mds", "index.json")]
        return {file.name: file.read_bytes().hex() for file in files}


def read(folder: str, columns: dict[str, str]) -> dict[str, Any]:
    data = StreamingDataset(local=folder, split="train", shuffle=False, batch_size=BATCH, validate_hash="sha256")
    samples = [data[number] for number in range(len(data))]
    first = samples[: int(data.samples_per_shard[0])]
    return {"samples": [{name: plain(value) for name, value in sample.items()} for sample in samples], "written": written(first, columns)}


wanted = json.loads(Path(sys.argv[1]).read_text())
versions = {"mosaicml-streaming": importlib.metadata.version("mosaicml-streaming")}
sets = [read(folder, columns) for folder, columns in zip(wanted["folders"], wanted["columns"], strict=True)]
json.dump({"versions": versions, "sets": sets}, sys.stdout)
