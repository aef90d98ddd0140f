"""Small jobs with a shuffle, for tests of its two rounds."""

import gzip
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders.specs import parse_job
from tests.converter.steps.two_rounds import (
    make_rounds,
)

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.readers.text import stretches

_pq: Any = pq  # the type stubs lack some options
ROWS = 200


def as_text(folder: Path) -> dict[str, Any]:
    (folder / "a.txt").write_text("".join(f"the text of line {number}\n" for number in range(ROWS)))
    return {"text": {"uris": [str(folder / "a.txt")]}}


def as_csv(folder: Path, *, zipped: bool = False) -> dict[str, Any]:
    text = "".join(f"{n},{'abc'[n % 3]},t{n}\n" if n % 37 else f"bad {n},a,t\n" for n in range(ROWS)).encode()
    (folder / "a.csv").write_bytes(gzip.compress(text, mtime=0) if zipped else text)
    columns = [{"name": "id", "type": "Int64"}, {"name": "part", "type": "String"}, {"name": "s", "type": "String"}]
    return {"csv": {"uris": [str(folder / "a.csv")], "columns": columns}}


def as_zipped_csv(folder: Path) -> dict[str, Any]:
    return as_csv(folder, zipped=True)


def as_jsonl(folder: Path) -> dict[str, Any]:
    for half in (0, 1):
        rows = (
            {"id": n, "part": "abc"[n % 3], "v": [n, n + 1], "o": {"x": n} if n % 5 else None} for n in range(half * 100, half * 100 + 100)
        )
        lines = [json.dumps(row) if row["id"] % 41 else "{not json" for row in rows]  # type: ignore[operator]
        (folder / f"{half}.jsonl").write_text("\n".join(lines) + "\n")
    return {"jsonl": {"uris": [str(folder / f"{half}.jsonl") for half in (0, 1)], "nested": ["o"]}}


def as_parquet(folder: Path, *, compression: str = "zstd") -> dict[str, Any]:
    table = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "part": pa.array(["abc"[n % 3] for n in range(ROWS)]),
            "w": pa.array([n / 7 if n % 11 else None for n in range(ROWS)], pa.float64()),
            "d": pa.array([Decimal(f"12345678901234567{n:03d}.25") for n in range(ROWS)], pa.decimal128(25, 2)),
            "t": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(ROWS * 4, dtype=np.float32).reshape(ROWS, 2, 2)),
        }
    )
    (folder / "key=1").mkdir()
    _pq.write_table(table, folder / "key=1" / "a.parquet", row_group_size=17, compression=compression)
    return {"parquet": {"uris": [str(folder)]}}


def as_plain_parquet(folder: Path) -> dict[str, Any]:
    return as_parquet(folder, compression="none")


SOURCES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "text": as_text,
    "csv": as_csv,
    "csv.gz": as_zipped_csv,
    "jsonl": as_jsonl,
    "parquet": as_parquet,
    "parquet without compression": as_plain_parquet,
}


def a_job(source: dict[str, Any], folder: Path, **spec: Any) -> DataPrepJob:
    written = {
        "source": source,
        "shuffle": {"seed": 1},
        "onBadRecord": {"policy": "Quarantine"},
        "workers": {"parallelism": 3},
        **spec,
        "output": {"uri": str(folder), "shards": {"count": 5}, **spec.get("output", {})},
    }
    return parse_job(written)


def remove(folder: Path) -> None:
    """Removes the inputs, so that no convert task can read them."""
    folder.rename(folder.with_name("removed"))


def plan_small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan two rounds for these jobs, and cut text into small units."""
    make_rounds(monkeypatch)
    monkeypatch.setattr(stretches, "UNIT_BYTES", 300)
