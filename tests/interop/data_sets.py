"""Data sets from three sources in any format, and the records that a reader must find.

The same formulas compute the data sets' inputs and the expected records.

| source | features | labels |
|---|---|---|
| `idx` | `image`, a tensor of 28 by 28 bytes | `label`, 0 … 9 |
| `csv` | `measures`, five numbers; `exact`, a float64; `count`, a signed int32; `name`, `id`, `about`, text beyond ASCII | `label`, 0 … 2 |
| `libsvm` | `keys` and `values`, lists of any length, possibly empty | `label`, -1 or 1 |
"""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from tests.builders.jobs import run_job

from dataprep_api.resources.job import DataPrepJob
from workbench import mnist

Row = dict[str, list[Any]]
"""A record: the values of each field in order."""

SOURCES: Final = ("idx", "csv", "libsvm")
COUNT: Final = 120
"""Number of records in each data set."""
SHARDS: Final = 3
WIDTH: Final = 1_000
"""Number of columns of the libsvm data set."""


def rows(source: str) -> list[Row]:
    """All records, with the numbers of the input. For floats, these are the numbers that Python parses from the input's text."""
    return [_ROW[source](number) for number in range(COUNT)]


def made(
    source: str,
    folder: Path,
    *,
    output: Mapping[str, Any],
    features: list[dict[str, Any]] | None = None,
    reading: Mapping[str, Any] | None = None,
) -> Path:
    """Returns the folder of a data set with a single split, `train`, in SHARDS shards.

    `output` sets the format, `features` sets the features, and `reading` sets more fields of the source.
    """
    inputs = folder / "input"
    inputs.mkdir(parents=True)
    spec = {
        "source": {source: {**_WRITERS[source](inputs), **(reading or {})}},
        "features": features or [dict(feature) for feature in _FEATURES[source]],
        "labels": [{"name": "label"}],
        "output": {"shards": {"count": SHARDS}, **output, "uri": str(folder / "output")},
    }
    convert(spec)
    return folder / "output"


def convert(spec: Mapping[str, Any]) -> None:
    """Runs a job."""
    job = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "interop"}, "spec": spec}
    run_job(DataPrepJob.parse(job))


def shards(folder: Path) -> list[Path]:
    """The data files of a finished data set, in order."""
    found = sorted(file for file in folder.iterdir() if not file.name.startswith(("_", ".")))
    assert len(found) == SHARDS
    return found


def _idx_row(number: int) -> Row:
    return {"image": ((31 * number + 7 * np.arange(784)) % 256).tolist(), "label": [number % 10]}


def _csv_row(number: int) -> Row:
    return {
        "measures": [round((-1) ** step * (number + 1) / (step + 3), 3) for step in range(5)],
        "exact": [number / 7],
        "count": [(-1) ** number * number * 17_895_697],
        "name": [f"n° {number} ☃"],
        "id": [f"rows:{number}"],
        "about": [json.dumps({"row": number, "of": "a, b"})],
        "label": [number % 3],
    }


def _libsvm_row(number: int) -> Row:
    keys = sorted({(number * step * 37) % WIDTH for step in range(1, number % 9 + 1)})
    return {"keys": keys, "values": [round((key + 1) / (number + 2), 4) for key in keys], "label": [(-1) ** number]}


def _write_idx(folder: Path) -> dict[str, Any]:
    mnist.write(folder, train=COUNT, test=1)
    names = {"images": "train-images-idx3-ubyte.gz", "labels": "train-labels-idx1-ubyte.gz"}
    return {"subsets": [{"name": "train", **{key: str(folder / name) for key, name in names.items()}}]}


def _write_csv(folder: Path) -> dict[str, Any]:
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([value for values in row.values() for value in values] for row in rows("csv"))
    types = {"exact": "Float64", "count": "Int64", "name": "String", "id": "String", "about": "String", "label": "Int64"}
    columns = [{"name": name, "type": "Float32"} for name in "abcde"] + [{"name": name, "type": kind} for name, kind in types.items()]
    return {"uris": [str(folder / "rows.csv")], "columns": columns}


def _write_libsvm(folder: Path) -> dict[str, Any]:
    def line(row: Row) -> str:
        pairs = zip(row["keys"], row["values"], strict=True)
        return " ".join([str(row["label"][0]), *(f"{key + 1}:{value}" for key, value in pairs)])

    (folder / "rows.svm").write_text("".join(f"{line(row)}\n" for row in rows("libsvm")))
    return {"uris": [str(folder / "rows.svm")]}


_ROW: Final = {"idx": _idx_row, "csv": _csv_row, "libsvm": _libsvm_row}
_WRITERS: Final = {"idx": _write_idx, "csv": _write_csv, "libsvm": _write_libsvm}
_FEATURES: Final[Mapping[str, list[dict[str, Any]]]] = {
    "idx": [{"name": "image"}],
    "csv": [
        {"name": "measures", "columns": ["a", "b", "c", "d", "e"], "dtype": "float32"},
        *({"name": name} for name in ("exact", "count", "name", "id", "about")),
    ],
    "libsvm": [{"name": "keys"}, {"name": "values"}],
}


WEBDATASET_EXTENSIONS = {
    "idx": {"image": "npy", "label": "cls"},
    "csv": {
        "measures": "npy", "exact": "json", "count": "count.cls", "name": "name.txt", "id": "id.txt", "about": "about.txt", "label": "cls",
    },
    "libsvm": {"keys": "keys.json", "values": "values.json", "label": "json"},
}  # fmt: skip
"""The default extension of each feature."""


def flat(value: Any) -> list[Any]:
    return [each for part in value for each in flat(part)] if isinstance(value, list) else [value]
