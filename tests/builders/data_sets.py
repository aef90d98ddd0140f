"""Small data sets, made from a table of five columns, in any format."""

from pathlib import Path
from typing import Any

from tests.builders.jobs import run_spec

from dataprep_api.spec import Source


def data_set(folder: Path, lines: list[str], features: list[dict[str, Any]] | None = None, **output: Any) -> Path:
    """Write a data set whose records have a number, a vector, a text and a class. Returns its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.csv").write_text("".join(f"{line}\n" for line in lines))
    types = {"n": "Int64", "a": "Float32", "b": "Float32", "word": "String", "label": "Int64"}
    spec = {
        "source": {"csv": {"uris": [str(folder / "rows.csv")], "columns": [{"name": name, "type": kind} for name, kind in types.items()]}},
        "features": features or [{"name": "n"}, {"name": "v", "columns": ["a", "b"]}, {"name": "word"}],
        "labels": [{"name": "label"}],
        "allowEmpty": True,
        "output": ({} if "granularity" in output else {"shards": {"count": 3}}) | output | {"uri": str(folder / "set")},
    }
    run_spec(spec)
    return folder / "set"


def lines(count: int) -> list[str]:
    """Return the lines of the table."""
    return [f"{n},{n / 8},{-n},word {n},{n % 3}" for n in range(count)]


def expected(count: int) -> list[dict[str, Any]]:
    """Return the records that the lines are converted to."""
    return [{"label": n % 3, "n": n, "v": [n / 8, -float(n)], "word": f"word {n}"} for n in range(count)]


def dataset_source(folder: Path | str, **more: Any) -> Source:
    """Return a source that reads a data set."""
    return Source.model_validate({"dataset": {"uri": str(folder)} | more})
