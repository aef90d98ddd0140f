"""Small data sets for the loader tests, with every kind of feature. Each data set is made only once."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet
from tests.builders.jobs import output_of
from tests.builders.specs import job_into

from workbench import photos

_parquet: Any = pyarrow.parquet  # it has no type stubs
ROWS: list[dict[str, Any]] = [
    {
        "n": number,
        "x": number / 4,
        "flag": number % 2 == 0,
        "text": f"näme {number}",
        "ints": list(range(number)),
        "texts": ["a", "bc"][: number % 3],
    }
    for number in range(1, 8)
]
HALVES = {"into": [{"name": "train", "first": 5}, {"name": "validation"}]}
FEATURES = [{"name": name} for name in ("n", "flag", "text", "ints", "texts")]
VECTOR = {"name": "vector", "columns": ["x", "n"], "dtype": "float32"}
RAW = {"name": "raw", "columns": ["n", "x"], "dtype": "uint8", "encoding": "Raw"}
WHOLE = [{**row, "x": float(row["n"])} for row in ROWS]
"""The rows, with values of x that RAW can store."""
NULLS: Final[list[dict[str, Any]]] = [
    {"i": None, "f": 0.5, "s": "x", "v": [1.0, 2.0], "b": True},
    {"i": 2, "f": None, "s": "", "v": [3.0, 4.0], "b": None},
    {"i": 3, "f": 2.5, "s": None, "v": None, "b": False},
]
NULL_TYPES: Final[dict[str, pa.DataType]] = {
    "i": pa.int64(), "f": pa.float32(), "s": pa.string(), "v": pa.list_(pa.float32(), 2), "b": pa.bool_()
}  # fmt: skip
"""The types of the columns of NULLS."""


def table(folder: Path, **output: Any) -> Path:
    """Scalars, text, a vector, a raw tensor, and lists of any length; 5 training and 2 validation records, in two shards each."""
    return _made(folder, {"features": [*FEATURES, VECTOR, RAW], "splits": HALVES}, {"shards": {"count": 2}} | output)


def texts(folder: Path, **output: Any) -> Path:
    """A number and a text."""
    return _made(folder, {"features": [{"name": "n"}, {"name": "text"}], "splits": HALVES}, {"shards": {"count": 2}} | output)


def sequences(folder: Path, **output: Any) -> Path:
    """A number, a text, and the lists as sequences."""
    steps = [{"name": name, "sequence": True} for name in ("ints", "texts")]
    return _made(folder, {"features": [{"name": "n"}, {"name": "text"}, *steps]}, output)


def numbers(folder: Path, **output: Any) -> Path:
    """The types that all table formats and SageMaker's records support."""
    return _made(folder, {"features": [{"name": "n"}, {"name": "x"}], "splits": HALVES}, {"shards": {"count": 2}} | output)


def nulls(folder: Path, *, rows: list[dict[str, Any]] = NULLS, columns: Sequence[str] = tuple(NULL_TYPES), **output: Any) -> Path:
    """Three records in one shard, each of which lacks the value of a different feature."""
    folder.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([(name, NULL_TYPES[name]) for name in columns])
    _parquet.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "rows.parquet")
    source = {"parquet": {"uris": [str(folder / "rows.parquet")]}}
    return output_of(job_into(folder / "out", source=source, output={"shards": {"count": 1}} | output))


def vectors(folder: Path, **output: Any) -> Path:
    """A single feature."""
    return _made(folder, {"features": [VECTOR], "splits": HALVES}, output)


def images(folder: Path, **output: Any) -> Path:
    """39 photographs in three classes."""
    source = {"images": {"uris": [str(photos.write(folder / "photos"))]}}
    return output_of(job_into(folder / "out", source=source, output={"shards": {"count": 2}} | output))


def files(folder: Path) -> Path:
    """39 photographs in DL4J's zip files, 8 in each file."""
    source = {"images": {"uris": [str(photos.write(folder / "photos"))]}}
    features = [{"name": "image/encoded"}, {"name": "image/filename"}]
    output = {"format": "fileBatch", "granularity": "Minibatch", "minibatchSize": 8}
    return output_of(job_into(folder / "out", source=source, features=features, output=output))


def _made(folder: Path, spec: dict[str, Any], output: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in WHOLE))
    return output_of(job_into(folder / "out", source={"jsonl": {"uris": [str(folder / "in.jsonl")]}}, output=output, **spec))


def loader(out: Path, framework: str) -> Path:
    """The data set's loader file for a framework."""
    return out / f"_dataprep/loaders/load_{framework}.py"
