"""Tables to join. Their keys and columns have every type that both Parquet files and joins support."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dataprep_converter.core.tensors import to_arrow

Values = Callable[[np.ndarray[Any, np.dtype[np.int64]]], Any]

KEYS: Final[dict[str, Values]] = {
    "int64": pa.array,
    "int8": lambda numbers: pa.array(numbers.astype(np.int8)),
    "uint64": lambda numbers: pa.array(numbers.astype(np.uint64) + np.uint64(1 << 63) - np.uint64(20)),
    "far apart": lambda numbers: pa.array((numbers - 4) * (1 << 60)),
    "text": lambda numbers: pa.array(
        [("é" if number % 2 else "z") * (number % 3) + str(number) for number in numbers.tolist()], pa.string()
    ),
    "dictionary": lambda numbers: pa.array([str(number) for number in numbers.tolist()], pa.large_string()).dictionary_encode(),
    "bytes": lambda numbers: pa.array([bytes([number % 256, 255]) for number in numbers.tolist()], pa.binary()),
    "bool": lambda numbers: pa.array(numbers % 2 == 0),
    "date": lambda numbers: pa.array(numbers.astype(np.int32), pa.date32()),
}

COLUMNS: Final[dict[str, Values]] = {
    "float": lambda numbers: pa.array(numbers.astype(np.float32) / 3),
    "half": lambda numbers: pa.array(numbers.astype(np.float16)),
    "small": lambda numbers: pa.array(numbers.astype(np.int16)),
    "flag": lambda numbers: pa.array(numbers % 3 == 0),
    "text": lambda numbers: pa.array([f"ä{number}" * (number % 4) for number in numbers.tolist()], pa.string()),
    "raw": lambda numbers: pa.array([bytes([255] * (number % 5)) for number in numbers.tolist()], pa.large_binary()),
    "list": lambda numbers: pa.array([[number] * (number % 4) for number in numbers.tolist()], pa.list_(pa.int32())),
    "texts": lambda numbers: pa.array([[str(number)] * (number % 3) for number in numbers.tolist()], pa.list_(pa.string())),
    "flags": lambda numbers: pa.array([[True] * (number % 3) for number in numbers.tolist()], pa.list_(pa.bool_())),
    "pair": lambda numbers: pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(numbers, 2)), 2),
    "tensor": lambda numbers: to_arrow(np.repeat(numbers, 6).astype(np.float32).reshape(-1, 2, 3)),
    "words": lambda numbers: pa.array([str(number % 3) for number in numbers.tolist()], pa.string()).dictionary_encode(),
    "day": lambda numbers: pa.array(numbers.astype(np.int32), pa.date32()),
    "time": lambda numbers: pa.array(numbers * 1_000_001, pa.timestamp("us")),
}

SORTED_BY: Final = ("float", "half", "small", "flag", "text", "raw", "words", "day", "time")
"""Columns by which sequences can be sorted."""


def a_table(folder: Path, name: str, table: pa.Table, **options: Any) -> dict[str, Any]:
    """Writes a table to a Parquet file. Returns the table's entry in `source.join`."""
    pq.write_table(table, folder / f"{name}.parquet", row_group_size=16)
    return {"name": name, "prefix": f"{name}_", "source": {"parquet": {"uris": [str(folder / f"{name}.parquet")]}}, **options}


def with_nulls(column: Any, every: int) -> Any:
    """The column with a null in each `every`-th row, or without nulls if `every` is 0."""
    rows = [None if every and row % every == 0 else row for row in range(len(column))]
    return column.take(pa.array(rows, pa.int64()))


def random_join(seed: int, folder: Path) -> dict[str, Any]:
    """A random `source.join`.

    In each table, the keys are unique, or some are duplicates, or a third of the rows have the same key. Keys and columns may contain
    nulls.
    """
    rng = np.random.default_rng(seed)
    keys = rng.choice(sorted(KEYS), rng.integers(1, 3), replace=False).tolist()
    columns = rng.choice(sorted(COLUMNS), rng.integers(0, 5), replace=False).tolist()
    tables = []
    for number in range(int(rng.integers(2, 4))):
        numbers = _numbers(rng)
        found = {f"key {kind}": KEYS[kind](numbers) for kind in keys}
        if rng.random() < 0.3:
            found[f"key {keys[0]}"] = with_nulls(found[f"key {keys[0]}"], 11)
        # Rows with the same key have different values in other columns.
        every = int(rng.choice([0, 2, 3]))
        found |= {
            kind: with_nulls(COLUMNS[kind](numbers + np.arange(len(numbers))), every and every + at) for at, kind in enumerate(columns)
        }
        order = [kind for kind in columns if kind in SORTED_BY][:2]
        is_sequence = bool(order) and rng.random() < 0.3 and not {"list", "texts", "flags", "pair", "tensor"} & set(columns)
        options = {"orderBy": order} if is_sequence else {"duplicates": str(rng.choice(["First", "Last", "First", "Last", "Refuse"]))}
        tables.append(a_table(folder, f"t{number}", pa.table(found), **options))
    return {"keys": [f"key {kind}" for kind in keys], "tables": tables, "missing": str(rng.choice(["Drop", "Drop", "Drop", "Refuse"]))}


def _numbers(rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The numbers from which keys are made."""
    rows = int(rng.integers(0, 120))
    kind = rng.integers(0, 3)
    if kind == 0:
        return rng.permutation(min(rows, 31))
    numbers = rng.integers(0, 31, rows)
    return np.where(rng.random(rows) < 0.3, 7, numbers) if kind == 1 else numbers
