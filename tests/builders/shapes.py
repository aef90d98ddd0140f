"""Sources for every shape of schema. Each has a job that can convert it to any format."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job

from dataprep_api.resources.job import DataPrepJob

RECORDS: Final = 17


def idx(folder: Path) -> dict[str, Any]:
    """IDX digits of 4 x 4 pixels and their classes."""
    pixels = (np.arange(RECORDS * 16) % 251).astype(np.uint8).tobytes()
    header = b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in (RECORDS, 4, 4))
    (folder / "images").write_bytes(header + pixels)
    labels = bytes(number % 10 for number in range(RECORDS))
    (folder / "labels").write_bytes(b"\0\0\x08\x01" + RECORDS.to_bytes(4, "big") + labels)
    return {"source": {"idx": {"subsets": [{"name": "train", "images": str(folder / "images"), "labels": str(folder / "labels")}]}}}


def images(folder: Path) -> dict[str, Any]:
    """Photographs, with one folder per class."""
    for number in range(RECORDS):
        path = folder / "photos" / ("cat", "dog")[number % 2] / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (3, 2), (number, 0, 0)).save(path)
    return {"source": {"images": {"uris": [str(folder / "photos")]}}}


def csv(folder: Path) -> dict[str, Any]:
    """A vector, a text and a class."""
    lines = [f"{number},{number / 4},name {number},{number % 3}" for number in range(RECORDS)]
    (folder / "rows.csv").write_text("\n".join(["a,b,name,label", *lines]) + "\n")
    features = [{"name": "features", "columns": ["a", "b"]}, {"name": "name"}]
    return {"source": {"csv": {"uris": [str(folder / "rows.csv")], "header": True}}, "features": features}


def jsonl(folder: Path) -> dict[str, Any]:
    """Lists of any length."""
    lines = [
        f'{{"id":{number},"scores":{[0.5] * (number % 4)},"words":{["a"] * (number % 3)}}}'.replace("'", '"') for number in range(RECORDS)
    ]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")
    columns = [
        {"name": "id", "type": "Int64"},
        {"name": "scores", "type": "Float32", "list": True},
        {"name": "words", "type": "String", "list": True},
    ]
    return {"source": {"jsonl": {"uris": [str(folder / "rows.jsonl")], "columns": columns}}}


def csv_sequences(folder: Path) -> dict[str, Any]:
    """Walks of two to four steps."""
    (folder / "walks").mkdir()
    for number in range(RECORDS):
        steps = [f"{step / 2},{number},{number % 2}" for step in range(2 + number % 3)]
        (folder / "walks" / f"{number:02}.csv").write_text("\n".join(steps) + "\n")
    source = {"csvSequences": {"uris": [str(folder / "walks")], "perSequence": ["2"]}}
    return {"source": source, "features": [{"name": "walk", "columns": ["0..1"]}], "labels": [{"name": "label", "columns": ["2"]}]}


def numpy(folder: Path) -> dict[str, Any]:
    """Arrays of float16 and of booleans."""
    np.save(folder / "x.npy", np.arange(RECORDS * 6, dtype=np.float16).reshape(RECORDS, 2, 3))
    np.save(folder / "y.npy", np.arange(RECORDS) % 2 == 0)
    return {"source": {"numpy": {"uris": [str(folder / "x.npy")]}}}


SOURCES: Final[Mapping[str, Callable[[Path], dict[str, Any]]]] = {
    "idx": idx, "images": images, "csv": csv, "jsonl": jsonl, "csvSequences": csv_sequences, "numpy": numpy,
}  # fmt: skip
REFUSED: Final[Mapping[tuple[str, str], str]] = {
    ("images", "csv"): "The feature 'image/encoded' has bytes",
    ("jsonl", "csv"): "The feature 'scores' is a list of any length",
    ("csvSequences", "csv"): "The feature 'walk' is a sequence",
    ("csvSequences", "recordioProtobuf"): "The feature 'walk' is a sequence",
    ("images", "mapFile"): "the feature 'image/encoded' holds bytes",
    ("jsonl", "mapFile"): "the feature 'scores' has lists of different lengths",
    ("images", "npz"): "The feature 'image/class/text' holds bytes or text",
    ("csv", "npz"): "The feature 'name' holds bytes or text",
    ("jsonl", "npz"): "The feature 'scores' has rows of different lengths",
    ("csvSequences", "npz"): "The feature 'walk' is a sequence",
    ("idx", "dl4jDataset"): "image, height, width, depth",
    ("images", "dl4jDataset"): "The feature 'image/encoded' holds bytes or text",
    ("csv", "dl4jDataset"): "The feature 'name' holds bytes or text",
    ("jsonl", "dl4jDataset"): "The feature 'scores' has rows of different lengths",
    # The members of a `fileBatch` are files, so this format needs one feature with their bytes and one with their names.
    ("idx", "fileBatch"): "the features are depth, height, image, label, width",
    ("images", "fileBatch"): "the features are image/class/label, image/class/text, image/encoded",
    ("csv", "fileBatch"): "the features are features, label, name",
    ("jsonl", "fileBatch"): "the features are id, scores, words",
    ("csvSequences", "fileBatch"): "the features are label, walk",
    ("numpy", "fileBatch"): "the features are values",
}
"""The combinations that are refused, each with text that the error message contains besides the format.

The tests check that all other combinations can be converted.
"""


def shape_job(written: dict[str, Any], output: Path, *, format_: str, parallelism: int) -> DataPrepJob:
    """Return a job that writes one split of three shards."""
    spec = written | {
        "output": {"uri": str(output), "format": format_, "shards": {"count": 3}},
        "workers": {"parallelism": parallelism},
        "splits": {"into": [{"name": "train"}]},
    }
    return parse_job(spec)


def file_digests(job: DataPrepJob, *, workers: int) -> dict[str, str]:
    """Run a job. Return the SHA-256 of every visible file of the finished data set."""
    _, result = run_job(job, workers=workers)
    assert result.records.out == RECORDS
    folder = Path(job.spec.output.uri)
    paths = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in paths.items() if not name.startswith("_")}


SERVICES: Final = ("table", "fromJob")
