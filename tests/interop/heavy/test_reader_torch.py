"""PyTorch's DataLoader over dataprep_reader: tensors, workers, ranks."""

import json
import sysconfig
from pathlib import Path

import pytest
from tests.builders.jobs import run_spec

import environments

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = Path(__file__).parents[1] / "readers" / "read_by_torch.py"
COUNT = 50


def made(folder: Path) -> Path:
    """A data set with a number, a vector of bytes, a list of any length and a text."""
    lines = [json.dumps({"n": n, "a": n, "b": 1, "values": [0.5] * (n % 3), "text": f"näme {n}"}) for n in range(COUNT)]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    columns = [
        {"name": "n", "type": "Int64"},
        {"name": "a", "type": "Int64"},
        {"name": "b", "type": "Int64"},
        {"name": "values", "type": "Float32", "list": True},
        {"name": "text", "type": "String"},
    ]
    features = [{"name": "n"}, {"name": "image", "columns": ["a", "b"], "dtype": "uint8"}, {"name": "values"}, {"name": "text"}]
    source = {"jsonl": {"uris": [str(folder / "rows.jsonl")], "columns": columns}}
    run_spec({"source": source, "features": features, "output": {"uri": str(folder / "set"), "shards": {"count": 3}}})
    return folder / "set"


def test_a_data_loader_reads_every_record_once_in_any_number_of_workers_and_ranks(tmp_path: Path) -> None:
    packages = f"{ROOT / 'api'}:{ROOT / 'converter'}:{sysconfig.get_path('purelib')}"
    said = json.loads(environments.run("mds", SCRIPT, [packages, made(tmp_path)]))
    assert said["kinds"] == {"n": ["torch.int64", [COUNT]], "image": ["torch.uint8", [COUNT, 2]]}
    assert said["first"] == [2, 2]
    assert said["lengths"] == [n % 3 for n in range(COUNT)]
    assert said["text"] == ["näme 0", "näme 1"]
    for found in (said["one"], said["two"], said["ranks"][0] + said["ranks"][1]):
        assert sorted(number for batch in found for number in batch) == sorted([*range(COUNT), *range(COUNT)])
    assert len(said["one"]) == 14
    assert len({tuple(number for batch in said[kind] for number in batch) for kind in ("one", "two")}) == 2
