"""Makes data sets for the tests of the reader, and converts batches to plain rows."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.builders.jobs import run_spec

import dataprep_reader
from dataprep_reader import Ragged, Reader

HALVES = {"into": [{"name": "train", "first": 30}, {"name": "test"}]}


def numbers(folder: Path, *, count: int = 40, splits: dict[str, Any] | None = None, **output: Any) -> Path:
    """Makes records with a single number, `n`, from 0 to count-1, in three shards for each split."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.csv").write_text("".join(f"{number}\n" for number in range(count)))
    source = {"csv": {"uris": [str(folder / "rows.csv")], "columns": [{"name": "n", "type": "Int64"}]}}
    spec: dict[str, Any] = {
        "source": source,
        "allowEmpty": True,
        "output": {"shards": {"count": 3}} | output | {"uri": str(folder / "set")},
    }
    run_spec(spec | ({"splits": splits} if splits else {}))
    return folder / "set"


def halves(folder: Path, **output: Any) -> Path:
    """Makes a data set with the numbers 0 … 29 in train and 30 … 39 in test."""
    return numbers(folder, splits=HALVES, **output)


def lists(folder: Path, *, sequence: bool = False, **output: Any) -> Path:
    """Makes records with lists of numbers and lists of texts, of any length."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f'{{"id": {n}, "scores": {SCORES[n]}, "words": {WORDS[n]}}}\n'.replace("'", '"') for n in range(len(SCORES))]
    (folder / "rows.jsonl").write_text("".join(lines))
    columns = [
        {"name": "id", "type": "Int64"},
        {"name": "scores", "type": "Float32", "list": True},
        {"name": "words", "type": "String", "list": True},
    ]
    steps = [{"name": "id"}, *({"name": name, "sequence": True} for name in ("scores", "words"))]
    spec = {
        "source": {"jsonl": {"uris": [str(folder / "rows.jsonl")], "columns": columns}},
        "output": {"shards": {"count": 2}} | output | {"uri": str(folder / "set")},
    }
    run_spec(spec | ({"features": steps} if sequence else {}))
    return folder / "set"


SCORES = [[0.5, 1.5], [], [2.5], [3.5, 4.5, 5.5], []]
WORDS = [["a"], ["bc", "ä"], [], [], ["d"]]


def ns(reader: Reader) -> list[list[int]]:
    """Returns the numbers of each batch."""
    return [batch["n"].tolist() if isinstance(batch, dict) else batch.column("n").to_pylist() for batch in reader]


def flat(reader: Reader) -> list[int]:
    """Returns the numbers of all batches."""
    return [number for batch in ns(reader) for number in batch]


def rows(reader: Reader) -> list[dict[str, Any]]:
    """Returns every record of a reader that yields Arrow batches, as plain values."""
    found: list[dict[str, Any]] = []
    for batch in reader:
        columns = {name: batch.column(name) for name in batch.schema.names}
        stored = {name: column.storage if isinstance(column, pa.ExtensionArray) else column for name, column in columns.items()}
        found += pa.table(stored).to_pylist()
    return found


def plain(column: Any) -> list[Any]:
    """Converts an array, or lists of any length, to lists."""
    if isinstance(column, Ragged):
        return [plain(each) if isinstance(each, Ragged) else each.tolist() for each in column]
    assert isinstance(column, np.ndarray)
    found: list[Any] = column.tolist()
    return found


def opened(source: Any, **options: Any) -> Reader:
    return dataprep_reader.open(source, **options)


def exactly(text: str) -> str:
    return re.escape(text)
