"""The data sets of `data_sets.py` as `recordioProtobuf`, and the expected messages."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
from tests.interop import data_sets

OPTIONS: dict[str, dict[str, Any]] = {
    "idx": {},
    "csv": {"contentType": "text/plain", "uid": "id", "metadata": "about", "configuration": "settings"},
    "libsvm": {"sparse": [{"name": "values", "keys": "keys", "values": "values", "shape": [data_sets.WIDTH]}]},
}
CSV_FEATURES: list[dict[str, Any]] = [
    {"name": "measures", "columns": ["a", "b", "c", "d", "e"]},
    {"name": "exact", "dtype": "float64"},
    {"name": "count", "dtype": "int32"},
    {"name": "name"},
    {"name": "id"},
    {"name": "about"},
    {"name": "settings", "columns": ["about"]},
]


def dense(values: list[Any], shape: tuple[int, ...] = ()) -> dict[str, Any]:
    """A tensor in protobuf's JSON mapping. Floats have the shortest text of a float32, 64-bit integers are text, and empty fields are left
    out."""
    tensor: dict[str, Any] = {"values": [float(str(np.float32(value))) for value in values]}
    return {"float32_tensor": {name: found for name, found in {**tensor, "shape": list(map(str, shape))}.items() if found}}


def sparse(keys: list[int], values: list[float]) -> dict[str, Any]:
    tensor: dict[str, Any] = {"keys": list(map(str, keys)), "shape": [str(data_sets.WIDTH)]}
    return {"float32_tensor": {**dense(values)["float32_tensor"], **{name: found for name, found in tensor.items() if found}}}


def message(source: str, row: data_sets.Row) -> dict[str, Any]:
    """The `Record` message of a row."""
    label = {"values": dense(row["label"])}
    if source == "idx":
        return {"features": {"values": dense(row["image"])}, "label": label}
    if source == "libsvm":
        return {"features": {"values": sparse(row["keys"], row["values"])}, "label": label}
    features = {
        "measures": dense(row["measures"]),
        "exact": {"float64_tensor": {"values": row["exact"]}},
        "count": {"int32_tensor": {"values": row["count"]}},
        "name": {"bytes": {"value": [base64.b64encode(row["name"][0].encode()).decode()], "content_type": "text/plain"}},
    }
    return {"features": features, "label": label, "uid": row["id"][0], "metadata": row["about"][0], "configuration": row["about"][0]}


def as_published(record: dict[str, Any]) -> dict[str, Any]:
    """The message with the field names of the schema in SageMaker's guide, which differ from those in its SDK."""
    features = {
        key: {"int64_tensor" if name == "int32_tensor" else name: value for name, value in entry.items()}
        for key, entry in record["features"].items()
    }
    return {**record, "features": features}


def made(folder: Path) -> dict[str, Path]:
    """A data set from each source."""
    return {
        source: data_sets.made(
            source,
            folder / source,
            output={"format": "recordioProtobuf", "recordioProtobuf": options},
            features=CSV_FEATURES if source == "csv" else None,
        )
        for source, options in OPTIONS.items()
    }


def with_the_number(folder: Path) -> Path:
    """A file with three records. The second record contains the magic number, because the value -1,804,698,880 has the same bytes."""
    (folder / "rows.csv").write_text("1,2\n3,-1804698880\n5,6\n")
    spec = {
        "source": {"csv": {"uris": [str(folder / "rows.csv")]}},
        "features": [{"name": "x", "columns": ["0..1"]}],
        "output": {"format": "recordioProtobuf", "shards": {"count": 1}, "uri": str(folder / "output")},
    }
    data_sets.convert(spec)
    return folder / "output" / "train.rec"


def fields(source: str) -> list[str]:
    """The paths of a record's fields: `features/KEY` or `label/KEY`, followed by the names of inner fields."""
    record = message(source, data_sets.rows(source)[1])
    maps = [f"{part}/{key}" for part in ("features", "label") for key in sorted(record[part])]
    return maps + [name for name in record if name not in ("features", "label")]
