"""Reads files by index with vahidk's `tfrecord`.

Input: a JSON file of {file, index, features: {name: byte | int | float}}; output: values as lists.
"""

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tfrecord.reader import tfrecord_loader


def listed(value: Any, kind: str) -> list[Any]:
    if kind == "byte":
        return [bytes(value).hex()] if isinstance(value, bytes) else [bytes(each).hex() for each in value]
    found: list[Any] = np.asarray(value).tolist()
    return found


def records(wanted: Any) -> list[dict[str, list[Any]]]:
    kinds = wanted["features"]
    found = []
    # Read the file in two parts, which requires the index.
    for part in (0, 1):
        for record in tfrecord_loader(wanted["file"], wanted["index"], kinds, shard=(part, 2)):
            found += [{name: listed(record[name], kind) for name, kind in kinds.items()}]
    return found


versions = {"tfrecord": importlib.metadata.version("tfrecord")}
json.dump({"versions": versions, "files": [records(wanted) for wanted in json.loads(Path(sys.argv[1]).read_text())]}, sys.stdout)
