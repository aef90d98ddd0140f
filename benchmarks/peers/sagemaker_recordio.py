"""Writes dense and sparse matrices with SageMaker's SDK, version 2.

sagemaker_recordio.py dense|sparse INPUT OUTPUT RECORDS
"""

import importlib.util
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from clocked import clocked
from scipy.sparse import csr_matrix

_DIMENSIONS = 10_000

# The package's __init__ imports all of SageMaker and its dependencies, which this module doesn't need.
_FOUND = importlib.util.find_spec("sagemaker")
assert _FOUND is not None  # noqa: S101 - the script ends if the package is missing
_PACKAGE = types.ModuleType("sagemaker")
_PACKAGE.__path__ = list(_FOUND.submodule_search_locations or [])
sys.modules["sagemaker"] = _PACKAGE

from sagemaker import serializer_utils  # noqa: E402


def dense(held: Mapping[str, Any]) -> Callable[[IO[bytes]], None]:
    return lambda out: serializer_utils.write_numpy_to_dense_tensor(out, held["values"], held["label"])


def sparse(held: Mapping[str, Any]) -> Callable[[IO[bytes]], None]:
    keys, values = held["keys"], held["values"]
    ends = np.arange(len(keys) + 1) * keys.shape[1]
    matrix = csr_matrix((values.reshape(-1), keys.reshape(-1), ends), shape=(len(keys), _DIMENSIONS))
    return lambda out: serializer_utils.write_spmatrix_to_sparse_tensor(out, matrix, held["label"])


def main(kind: str, source: Path, output: Path, records: int) -> None:
    write = {"dense": dense, "sparse": sparse}[kind]({name: column[:records] for name, column in np.load(source / "table.npz").items()})

    def work() -> int:
        with (output / "data.rec").open("wb") as out:
            write(out)
        return records

    clocked(work)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
