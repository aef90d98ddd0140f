"""A job that converts a small table of scores and texts."""

from pathlib import Path
from typing import Any

from tests.builders.specs import parse_job

from dataprep_api.resources.job import DataPrepJob

HALVES = {"into": [{"name": "train", "first": 5}, {"name": "validation"}]}
ROWS = "".join(f"{number},{number / 4},name {number},{number % 2}\n" for number in range(9))


def scores_job(folder: Path, out: str = "out", **spec: Any) -> DataPrepJob:
    """Return a job that converts nine scores and texts, with these fields of the spec replaced."""
    (folder / "in.csv").write_text("id,score,text,label\n" + ROWS)
    output = spec.pop("output", {}) | {"uri": str(folder / out)}
    source = {"csv": {"uris": [str(folder / "in.csv")], "header": True}}
    return parse_job(
        {"source": source, "splits": HALVES, "labels": [{"name": "label", "numClasses": 2}], "output": output} | spec, name="metadata"
    )
