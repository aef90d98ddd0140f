"""Runs code from the documentation with a library of this environment. Prints, as JSON, the arguments with which the code has called
`train`.

Input: a JSON file of {paths, code, names}. `paths` are the folders of the reader and its dependencies, and `names` the variables of the code.
"""

import importlib.metadata
import json
import os
import sys
from pathlib import Path
from typing import Any

wanted = json.loads(Path(sys.argv[1]).read_text())
sys.path += wanted["paths"]
os.environ["PYTHONPATH"] = os.pathsep.join(wanted["paths"])  # for the processes that a library starts

import numpy as np  # noqa: E402 - only after the path is set

CALLS: list[list[Any]] = []


def train(*columns: Any) -> None:
    """Records the arguments of a call."""
    CALLS.append([np.asarray(column).tolist() for column in columns])


if __name__ == "__main__":
    exec(compile("\n".join(wanted["code"]), "the page", "exec"), {"train": train} | wanted["names"])  # noqa: S102 - the code is ours
    versions = {name: importlib.metadata.version(name) for name in wanted["packages"]}
    json.dump({"calls": CALLS, "versions": versions}, sys.stdout)
