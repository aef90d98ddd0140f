"""The code in the documentation makes the reader an IterableDataset of Hugging Face's `datasets`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders.data_sets import data_set, lines
from tests.builders.jobs import run_spec
from tests.builders.pages import python_code, to_paste

import environments

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

_pa: Any = pa  # the stubs lack some functions
_pq: Any = pq  # the module has no type stubs
PASTED = Path(__file__).parents[1] / "readers" / "pasted.py"
COUNT = 200
FEATURES: list[dict[str, Any]] = [{"name": "n"}, {"name": "image_raw", "columns": ["a", "b"]}, {"name": "word"}]
MORE = """
from datasets import Dataset
from datasets.distributed import split_dataset_by_node

train([row["word"] for row in dataset], next(iter(dataset))["image_raw"])
ranks = [split_dataset_by_node(dataset, rank=rank, world_size=2) for rank in range(2)]
train(*([row["n"] for row in rank] for rank in ranks))
first, second = (IterableDataset.from_generator(rows, gen_kwargs={"parts": list(range(8))}) for _ in range(2))
begin = [row["n"] for _, row in zip(range(70), first)]
second.load_state_dict(first.state_dict())
train(begin, [row["n"] for row in second])
train(Dataset.from_generator(rows, gen_kwargs={"parts": list(range(8))}, cache_dir=cache)["n"])
"""


def test_the_code_in_the_docs_works_and_its_data_set_is_divided_and_resumed(tmp_path: Path) -> None:
    folder = data_set(tmp_path / "data", lines(COUNT), FEATURES)
    code = [*python_code("docs/reading.md", "## Hugging Face"), MORE]
    wanted = to_paste(tmp_path / "wanted.json", code, packages=["datasets"], uri=str(folder), cache=str(tmp_path / "cache"))
    said = json.loads(environments.run("datasets", PASTED, [wanted], {"HF_HOME": str(tmp_path / "home")}))
    *batches, (words, first), ranks, (begin, rest), (stored,) = said["calls"]
    assert [len(labels) for _, labels in batches] == [100, 100]
    assert [pair for images, _ in batches for pair in images] == [[n / 8, -float(n)] for n in range(COUNT)]
    assert (words, first) == ([f"word {n}" for n in range(COUNT)], [0.0, 0.0])
    assert [len(numbers) for numbers in ranks] == [100, 100]
    assert sorted(ranks[0] + ranks[1]) == list(range(COUNT))
    assert (len(begin), begin + rest) == (70, list(range(COUNT)))
    assert stored == list(range(COUNT))


def test_nulls_are_none_and_tensors_keep_their_shape(tmp_path: Path) -> None:
    pixels = _pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(8, dtype=np.uint8).reshape(2, 2, 2))
    _pq.write_table(pa.table({"image_raw": pixels, "label": pa.array([None, 7])}), tmp_path / "rows.parquet")
    run_spec({"source": {"parquet": {"uris": [str(tmp_path / "rows.parquet")]}}, "output": {"uri": str(tmp_path / "set")}})
    generator = python_code("docs/reading.md", "## Hugging Face")[0].partition("for batch in")[0]
    code = [generator, "for row in dataset: train(row['image_raw'], row['label'] is None or row['label'])"]
    wanted = to_paste(tmp_path / "wanted.json", code, packages=["datasets"], uri=str(tmp_path / "set"))
    said = json.loads(environments.run("datasets", PASTED, [wanted], {"HF_HOME": str(tmp_path / "home")}))
    assert said["calls"] == [[[[0, 1], [2, 3]], True], [[[4, 5], [6, 7]], 7]]
