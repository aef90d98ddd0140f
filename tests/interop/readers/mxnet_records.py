"""Reads RecordIO files with MXNet and writes the records to another file. Input: a JSON file of [{file, index}, …]; output: payloads in hex
and the SHA-256 of the written file.

With an index, `MXIndexedRecordIO` must find the same records as `MXRecordIO` without one.
"""

import hashlib
import importlib.metadata
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

# The last release of MXNet uses np.bool, which numpy has removed.
np.bool = np.bool_  # type: ignore[misc]
warnings.simplefilter("ignore")

import mxnet  # noqa: E402


def payloads(file: str) -> list[bytes]:
    reader: Any = mxnet.recordio.MXRecordIO(file, "r")
    found = []
    while (payload := reader.read()) is not None:
        found.append(payload)
    return found


def written(records: list[bytes]) -> bytes:
    with tempfile.NamedTemporaryFile() as file:
        writer: Any = mxnet.recordio.MXRecordIO(file.name, "w")
        for record in records:
            writer.write(record)
        writer.close()
        return Path(file.name).read_bytes()


def by_index(file: str, index: str) -> list[bytes]:
    """Reads from the last record to the first, which requires the index."""
    reader: Any = mxnet.recordio.MXIndexedRecordIO(index, file, "r")
    return [reader.read_idx(key) for key in reversed(reader.keys)]


def read(wanted: Any) -> dict[str, Any]:
    records = payloads(wanted["file"])
    if "index" in wanted:
        assert by_index(wanted["file"], wanted["index"]) == records[::-1]
    return {"payloads": [payload.hex() for payload in records], "written": hashlib.sha256(written(records)).hexdigest()}


versions = {"mxnet": importlib.metadata.version("mxnet")}
json.dump({"versions": versions, "files": [read(wanted) for wanted in json.loads(Path(sys.argv[1]).read_text())]}, sys.stdout)
