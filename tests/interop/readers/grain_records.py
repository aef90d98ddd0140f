"""Reads ArrayRecord files with Grain.

Input: a JSON file of [[file, …], …]; output: all records in order, then some records in another order, all in hex.
"""

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

import grain

PICKED = [3, 0, 77, 40]


def records(files: list[str]) -> dict[str, Any]:
    source = grain.sources.ArrayRecordDataSource(files)
    in_order = [bytes(source[number]).hex() for number in range(len(source))]
    return {"all": in_order, "picked": [bytes(record).hex() for record in source.__getitems__(PICKED)]}


versions = {name: importlib.metadata.version(name) for name in ("grain", "array-record")}
json.dump({"versions": versions, "sets": [records(files) for files in json.loads(Path(sys.argv[1]).read_text())]}, sys.stdout)
