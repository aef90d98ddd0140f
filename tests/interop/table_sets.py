"""The data sets of `data_sets.py` as tables in `parquet`, `jsonl` and `csv`, and the expected rows."""

from pathlib import Path
from typing import Any, Final

import numpy as np
from tests.interop import data_sets

FORMATS: Final = ("parquet", "jsonl", "csv")
_SINGLE: Final = {"csv": {"measures"}, "libsvm": {"values", "label"}}
"""The float32 fields of each source; all other floats have 64 bits."""


def made(format_: str, folder: Path) -> dict[str, Path]:
    """A data set from each source. CSV has no lists, so the rows of libsvm are dense there."""
    dense: dict[str, Any] = {"features": [{"name": "values"}], "reading": {"dense": True, "numFeatures": data_sets.WIDTH}}
    return {
        source: data_sets.made(
            source, folder / source, output={"format": format_}, **(dense if (format_, source) == ("csv", "libsvm") else {})
        )
        for source in data_sets.SOURCES
    }


def rows(format_: str, source: str) -> list[data_sets.Row]:
    """All records.

    Text formats write a float32 in its shortest form. If this text is parsed as a float64, the value differs slightly from the value in
    binary formats.
    """
    return [_row(format_, source, row) for row in data_sets.rows(source)]


def _row(format_: str, source: str, row: data_sets.Row) -> data_sets.Row:
    if (format_, source) == ("csv", "libsvm"):
        values = dict(zip(row["keys"], row["values"], strict=True))
        row = {"values": [values.get(key, 0.0) for key in range(data_sets.WIDTH)], "label": row["label"]}
    single = _SINGLE.get(source, set())
    return {name: [_float32(format_, value) for value in values] if name in single else values for name, values in row.items()}


def _float32(format_: str, value: float) -> float:
    return float(np.float32(value)) if format_ == "parquet" else float(str(np.float32(value)))
