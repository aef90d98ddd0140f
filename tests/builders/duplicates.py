"""Jobs that leave out duplicates. Their inputs are random records with columns of every type that can be compared."""

from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.builders.joins import COLUMNS, KEYS, Values, with_nulls

_FLOATS: Final = np.array([0.0, -0.0, np.nan, np.inf, 1 / 3, -1e300])

COMPARED: Final[dict[str, Values]] = {
    **{kind: values for kind, values in KEYS.items() if kind != "uint64"},
    **{kind: COLUMNS[kind] for kind in ("float", "half", "small", "raw", "tensor", "words", "time")},
    "double": lambda numbers: pa.array(_FLOATS[numbers % len(_FLOATS)]),
    # As float64, all of these numbers are equal.
    "decimal": lambda numbers: pa.array([Decimal(f"0.1{'0' * 20}{number % 10}") for number in numbers.tolist()], pa.decimal128(30, 25)),
}
"""Functions that make a column from numbers."""

_RULES: Final[list[dict[str, Any]]] = [
    {},
    {"groupBy": "group", "into": [{"name": "train", "fraction": 0.7}, {"name": "test", "fraction": 0.3}]},
    {"stratifyBy": "group", "into": [{"name": "train", "fraction": 0.7}, {"name": "test", "fraction": 0.3}]},
    {"exact": True, "into": [{"name": "train", "fraction": 0.5}, {"name": "test", "fraction": 0.5}]},
    {"into": [{"name": "head", "first": 5}, {"name": "some", "count": 7}, {"name": "rest"}]},
]


def random_job(seed: int, folder: Path) -> dict[str, Any]:
    """Writes two files of random records to `folder`. Returns the spec of a job that reads both files.

    In a file, all records are unique, or some have duplicates, or a third are equal. Some of the random jobs have nulls in the compared
    columns, records that can't be read, a limit, or splits. All kinds of splits occur.
    """
    rng = np.random.default_rng(seed)
    source, columns = _text_files(rng, folder) if rng.random() < 0.25 else _parquet_files(rng, folder)
    rules = _RULES[int(rng.integers(len(_RULES)))]
    spec: dict[str, Any] = {
        "source": source,
        "deduplicate": {"columns": columns},
        "onBadRecord": {"policy": "Skip"},
        "allowEmpty": True,
        "output": {"uri": str(folder / "out"), "format": "parquet", "shards": {"count": 2}},
    }
    if rules:
        spec["splits"] = {"seed": int(rng.integers(9)), **rules}
    if rng.random() < 0.4:
        spec["limit"] = int(rng.integers(1, 90))
    return spec


def _parquet_files(rng: np.random.Generator, folder: Path) -> tuple[dict[str, Any], list[str]]:
    kinds = rng.choice(sorted(COMPARED), rng.integers(1, 4), replace=False).tolist()
    every = int(rng.choice([0, 2, 7]))
    for name in ("a", "b"):
        numbers = _numbers(rng)
        columns = {"group": pa.array(numbers // 3), "other": pa.array(rng.random(len(numbers)))}
        columns |= {kind: with_nulls(COMPARED[kind](numbers), every) for kind in kinds}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet", row_group_size=16)
    return {"parquet": {"uris": [str(folder / f"{name}.parquet") for name in "ab"]}}, kinds


def _text_files(rng: np.random.Generator, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Writes files in which some records can't be read, because their `n` isn't a number."""
    for name in ("a", "b"):
        rows = [f"{number // 3},{'x' if rng.random() < 0.1 else number},word {number}" for number in _numbers(rng).tolist()]
        (folder / f"{name}.csv").write_text("\n".join(["group,n,word", *rows, ""]))
    columns = [{"name": "group", "type": "Int64"}, {"name": "n", "type": "Int64"}, {"name": "word", "type": "String"}]
    uris = [str(folder / f"{name}.csv") for name in "ab"]
    return {"csv": {"uris": uris, "header": True, "columns": columns}}, ["n", "word"]


def _numbers(rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The numbers from which a file's columns are made."""
    rows, kind = int(rng.integers(0, 80)), rng.integers(0, 3)
    if kind == 0:
        return rng.permutation(rows)
    numbers = rng.integers(0, 31, rows)
    return np.where(rng.random(rows) < 0.3, 7, numbers) if kind == 1 else numbers
