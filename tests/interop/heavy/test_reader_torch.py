"""PyTorch's DataLoader and torchdata's StatefulDataLoader over dataprep_reader: tensors, workers, ranks, states."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.builders.data_sets import data_set, lines
from tests.builders.jobs import run_spec
from tests.builders.pages import PACKAGES, python_code, to_paste

import environments

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

READERS = Path(__file__).parents[1] / "readers"
COUNT = 50


def made(folder: Path) -> Path:
    """A data set whose records have a number, a vector of bytes, a list of any length and a text."""
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


CHANGES = [[[2, 2], [3, 1]], [[2, 1], [1, 2]], [[1, 2], [2, 0]], [[3, 0], [2, 2]]]
"""The numbers of ranks and workers before and after a change in the middle of an epoch."""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = made(tmp_path_factory.mktemp("torch"))
    return json.loads(environments.run("mds", READERS / "read_by_torch.py", [":".join(PACKAGES), folder, json.dumps(CHANGES)]))


def test_a_data_loader_reads_every_record_once_in_any_number_of_workers_and_ranks(said: Any) -> None:
    assert said["kinds"] == {"n": ["torch.int64", [COUNT]], "image": ["torch.uint8", [COUNT, 2]]}
    assert said["first"] == [2, 2]
    assert said["lengths"] == [n % 3 for n in range(COUNT)]
    assert said["text"] == ["näme 0", "näme 1"]
    for found in (said["one"], said["two"], said["ranks"][0] + said["ranks"][1]):
        assert sorted(number for batch in found for number in batch) == sorted([*range(COUNT), *range(COUNT)])
    assert len(said["one"]) == 14
    assert len({tuple(number for batch in said[kind] for number in batch) for kind in ("one", "two")}) == 2


def test_states_of_all_workers_are_taken_up_by_other_numbers_of_ranks_and_workers(said: Any) -> None:
    assert len(said["taken_up"]) == len(CHANGES)
    for found in said["taken_up"]:
        assert all(found[name] for name in ("first", "second", "last"))
        assert sorted(found["first"] + found["second"] + found["last"]) == list(range(COUNT))
        assert sorted(found["first"] + found["same"]) == list(range(COUNT))


def test_a_loader_that_is_ahead_of_its_state_is_refused(said: Any) -> None:
    assert said["refusal"].startswith("The loader has yielded ")
    assert "make the StatefulDataLoader with snapshot_every_n_steps=1." in said["refusal"]


def test_the_code_in_the_docs_works(tmp_path: Path) -> None:
    folder = data_set(tmp_path / "data", lines(200), [{"name": "image_raw", "columns": ["a", "b"]}])
    (plain,), (saving, restoring) = (python_code("docs/reading.md", heading) for heading in ("## PyTorch", "### States of a DataLoader"))
    states = "next(iter(loader)); states = [loader.state_dict()]"
    rest = "for batch in loader: train(batch['image_raw'], batch['label'])"
    code = [plain, saving, states, restoring.replace("world_size=6", "world_size=1"), rest]
    wanted = to_paste(tmp_path / "wanted.json", code, packages=["torch"], uri=str(folder), rank=0, world_size=1)
    said = json.loads(environments.run("mds", READERS / "pasted.py", [wanted]))
    images = [pair for images, _ in said["calls"] for pair in images]
    everything = sorted([n / 8, -float(n)] for n in range(200))
    assert [sorted(images[:200]), sorted(images[200:400])] == [everything, everything]
    assert len(images) == 500  # the reader continues with the other half of the epoch
