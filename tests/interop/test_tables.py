"""Arrow, DuckDB and Python read every field of every record in data sets of parquet, arrow, jsonl and csv, from at least three sources."""

import base64
import csv
import json
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from tests.builders import shapes
from tests.interop.comparisons import compared

pytestmark = pytest.mark.interop

_dataset: Any = ds  # the stubs lack some options
Rows = list[dict[str, Any]]


def csv_rows(_folder: Path) -> Rows:
    return [{"features": [float(number), number / 4], "name": f"name {number}", "label": number % 3} for number in range(shapes.RECORDS)]


def jsonl_rows(_folder: Path) -> Rows:
    return [{"id": number, "scores": [0.5] * (number % 4), "words": ["a"] * (number % 3)} for number in range(shapes.RECORDS)]


def image_rows(folder: Path) -> Rows:
    files = sorted((folder / "photos").rglob("*.png"))
    return [
        {
            "image/encoded": file.read_bytes(),
            "image/format": "png",
            "image/height": 2,
            "image/width": 3,
            "image/class/text": file.parent.name,
            "image/class/label": ["cat", "dog"].index(file.parent.name),
        }
        for file in files
    ]


def walk_rows(_folder: Path) -> Rows:
    steps = [[[step / 2, float(number)] for step in range(2 + number % 3)] for number in range(shapes.RECORDS)]
    return [{"walk": walk, "label": number % 2} for number, walk in enumerate(steps)]


def digit_rows(_folder: Path) -> Rows:
    """The expected rows of the digits. They are used only for csv, because in other formats each reader represents tensors differently."""
    pixels = [number % 251 for number in range(shapes.RECORDS * 16)]
    return [
        {"image": pixels[16 * number : 16 * number + 16], "height": 4, "width": 4, "depth": 1, "label": number % 10}
        for number in range(shapes.RECORDS)
    ]


def array_rows(_folder: Path) -> Rows:
    return [{"values": [float(6 * number + place) for place in range(6)]} for number in range(shapes.RECORDS)]


ROWS: Final[Mapping[str, Callable[[Path], Rows]]] = {
    "csv": csv_rows, "jsonl": jsonl_rows, "images": image_rows, "csvSequences": walk_rows, "idx": digit_rows, "numpy": array_rows,
}  # fmt: skip


def by_arrow(folder: Path, format_: str) -> Rows:
    """Reads the folder with Arrow, which skips hidden files."""
    found: Rows = _dataset.dataset(folder, format={"jsonl": "json"}.get(format_, format_)).to_table().to_pylist()
    return found


def by_duckdb(folder: Path, format_: str) -> Rows:
    reader = {"parquet": "read_parquet", "jsonl": "read_json", "csv": "read_csv"}[format_]
    found: Any = duckdb.sql(f"SELECT * FROM {reader}('{folder}/*.{format_}')")  # noqa: S608 - our own path
    return [dict(zip(found.columns, map(listed, row), strict=True)) for row in found.fetchall()]


def listed(value: Any) -> Any:
    """Converts DuckDB's tuples to lists."""
    return [listed(each) for each in value] if isinstance(value, (list, tuple)) else value


def by_json(folder: Path, _format: str) -> Rows:
    return [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().split("\n")[:-1]]


def by_csv(folder: Path, _format: str) -> Rows:
    found: Rows = []
    for file in sorted(folder.glob("*.csv")):
        with file.open(newline="") as lines:
            found += csv.DictReader(lines, strict=True)
    return found


READERS: Final = [
    ("parquet", by_arrow), ("parquet", by_duckdb), ("arrow", by_arrow), ("jsonl", by_arrow), ("jsonl", by_duckdb), ("jsonl", by_json),
    ("csv", by_arrow), ("csv", by_duckdb), ("csv", by_csv),
]  # fmt: skip
NAMES: Final[Mapping[Callable[[Path, str], Rows], tuple[str, dict[str, str]]]] = {
    by_arrow: ("Arrow's `dataset`, the complete folder", {"pyarrow": pa.__version__}),
    by_duckdb: ("DuckDB", {"duckdb": duckdb.__version__}),
    by_json: ("Python's `json`", {"python": platform.python_version()}),
    by_csv: ("Python's `csv`", {"python": platform.python_version()}),
}
TENSORS: Final = ("idx", "numpy")


@pytest.mark.parametrize(("format_", "read"), READERS, ids=lambda each: getattr(each, "__name__", each))
@pytest.mark.parametrize("source", ROWS)
def test_every_field_of_a_data_set(source: str, format_: str, read: Callable[[Path, str], Rows], tmp_path: Path) -> None:
    if (source, format_) in shapes.REFUSED or (source in TENSORS and format_ != "csv"):
        return
    written = shapes.SOURCES[source](tmp_path)
    shapes.file_digests(shapes.shape_job(written, tmp_path / "out", format_=format_, parallelism=1), workers=1)
    rows = ROWS[source](tmp_path)
    if format_ == "jsonl":
        rows = [
            {name: base64.b64encode(value).decode() if isinstance(value, bytes) else value for name, value in row.items()} for row in rows
        ]
    fields = sorted(rows[0])
    if format_ == "csv":
        flat = [{column: each for name, value in row.items() for column, each in columns_of(name, value)} for row in rows]
        rows = [{name: str(value) for name, value in row.items()} for row in flat] if read is by_csv else flat
    found = read(tmp_path / "out", format_)
    assert [list(row) for row in found] == [list(row) for row in rows]
    assert found == rows
    reader, versions = NAMES[read]
    compared(format=format_, reader=reader, versions=versions, source=source, records=len(found), fields=fields)


def columns_of(name: str, value: Any) -> list[tuple[str, Any]]:
    """A vector's columns in csv."""
    return [(f"{name}_{place}", each) for place, each in enumerate(value)] if isinstance(value, list) else [(name, value)]
