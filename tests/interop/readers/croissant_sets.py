"""Checks Croissant descriptions with mlcroissant and reads the data. Input: a JSON file of paths to croissant.json files; output: the
result for each path.

`records` holds the records of every shard in order, for formats whose columns are described.
"""

import importlib.metadata
import json
import logging
import sys
from pathlib import Path
from typing import Any

import mlcroissant
import numpy as np

logging.disable(logging.INFO)


def plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value


def records(data_set: Any, name: str) -> list[dict[str, Any]]:
    """The records, with each field keyed by the last part of its name."""
    return [{field.rpartition("/")[2]: plain(value) for field, value in record.items()} for record in data_set.records(name)]


def read(path: str) -> dict[str, Any]:
    data_set = mlcroissant.Dataset(jsonld=path)
    issues = data_set.metadata.ctx.issues
    sets = [each.uuid for each in data_set.metadata.record_sets]
    files = [{"name": each.name, "sha256": each.sha256, "content_url": each.content_url} for each in data_set.metadata.distribution]
    shards = [name for name in sets if name.startswith("records/")]
    return {
        "errors": sorted(issues.errors),
        "warnings": sorted(issues.warnings),
        "files": files,
        "splits": records(data_set, "splits"),
        "records": [record for name in shards for record in records(data_set, name)],
    }


versions = {"mlcroissant": importlib.metadata.version("mlcroissant")}
json.dump({"versions": versions, "sets": [read(path) for path in json.loads(Path(sys.argv[1]).read_text())]}, sys.stdout)
