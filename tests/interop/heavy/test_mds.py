"""MosaicML Streaming reads `mds` and checks the hashes. Its own writer writes the same bytes for the same samples."""

import hashlib
import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from tests.interop import data_sets
from tests.interop.comparisons import compared

import environments

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

READER = Path(__file__).parents[1] / "readers" / "mds_sets.py"
COLUMNS: Final = {
    "idx": {"image": "ndarray:uint8:28,28", "label": "int"},
    "csv": {
        "measures": "ndarray:float32:5", "exact": "float64", "count": "int", "name": "str", "id": "str", "about": "str", "label": "int",
    },
    "libsvm": {"keys": "ndarray:int64", "values": "ndarray:float32", "label": "float32"},
}  # fmt: skip


def sample(source: str, row: data_sets.Row) -> dict[str, Any]:
    """The sample that the library must return for a record."""
    found: dict[str, Any] = {}
    for name, values in row.items():
        kind, _, dtype = COLUMNS[source][name].partition(":")
        dtype, _, shape = dtype.partition(":")
        if kind == "ndarray":
            sizes = [int(size) for size in shape.split(",")] if shape else [len(values)]
            found[name] = {"dtype": dtype, "shape": sizes, "values": np.array(values, dtype).tolist()}
        else:
            found[name] = values[0] if kind in ("int", "str") else {"dtype": kind, "values": np.array(values[0], kind).item()}
    return found


def test_every_field_of_every_record_is_read_and_written_alike(tmp_path: Path) -> None:
    outputs = {source: data_sets.made(source, tmp_path / source, output={"format": "mds"}) for source in data_sets.SOURCES}
    (tmp_path / "wanted.json").write_text(json.dumps({"folders": list(map(str, outputs.values())), "columns": list(COLUMNS.values())}))
    said = json.loads(environments.run("mds", READER, [tmp_path / "wanted.json"]))
    for (source, output), found in zip(outputs.items(), said["sets"], strict=True):
        assert found["samples"] == [sample(source, row) for row in data_sets.rows(source)]
        shard = (output / "train/shard.00000.mds").read_bytes()
        assert bool(found["written"]) == (source != "libsvm")  # the writer rejects empty lists, but the reader accepts them
        if found["written"]:
            assert shard.hex() == found["written"]["shard.00000.mds"]
            ours = json.loads((output / "train/index.json").read_text())
            theirs = json.loads(bytes.fromhex(found["written"]["index.json"]))
            assert ours["shards"][:1] == theirs["shards"]
            assert ours["shards"][0]["raw_data"]["hashes"] == {"sha256": hashlib.sha256(shard).hexdigest()}
        compared(
            format="mds",
            reader="MosaicML Streaming's `StreamingDataset`, with verified hashes",
            versions=said["versions"],
            source=source,
            records=len(found["samples"]),
            fields=sorted(COLUMNS[source]),
        )
