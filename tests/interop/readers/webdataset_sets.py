"""Reads and decodes shards with the webdataset library.

Input: a JSON file of [[file, …], …]; output: samples as {key: value}, arrays as lists with their dtype.
"""

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import webdataset


def plain(value: Any) -> Any:
    return (
        {"dtype": value.dtype.name, "shape": value.shape, "values": value.reshape(-1).tolist()} if isinstance(value, np.ndarray) else value
    )


def samples(files: list[str]) -> list[dict[str, Any]]:
    found = webdataset.WebDataset(files, shardshuffle=False, empty_check=False).decode()
    return [{key: plain(value) for key, value in sample.items() if key not in ("__url__", "__local_path__")} for sample in found]


versions = {"webdataset": importlib.metadata.version("webdataset")}
json.dump({"versions": versions, "sets": [samples(files) for files in json.loads(Path(sys.argv[1]).read_text())]}, sys.stdout)
