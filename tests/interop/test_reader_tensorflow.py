"""The reader as a tf.data.Dataset, with TensorFlow."""

import importlib
from pathlib import Path
from typing import Any

import pytest
from tests.builders.data_sets import data_set, lines
from tests.builders.jobs import run_spec
from tests.reader.sets import SCORES, WORDS, lists, opened

pytestmark = pytest.mark.interop


@pytest.fixture
def module(tf: Any) -> Any:
    del tf  # requested for its effect
    return importlib.import_module("dataprep_reader.tensorflow")


def test_batches_are_tensors_of_the_features_types(module: Any, tf: Any, tmp_path: Path) -> None:
    dataset = module.batches(opened(data_set(tmp_path, lines(30)), batch_size=8, epochs=2))
    found = list(dataset)
    assert [len(batch["n"]) for batch in found] == [8, 8, 8, 6] * 2
    assert (found[0]["v"].dtype, found[0]["v"].shape.as_list()) == (tf.float32, [8, 2])
    assert found[0]["word"].numpy().tolist() == [f"word {n}".encode() for n in range(8)]
    assert [n for batch in found for n in batch["n"].numpy().tolist()] == [*range(30), *range(30)]


@pytest.mark.parametrize("sequence", [False, True])
def test_lists_are_ragged_tensors(module: Any, tf: Any, tmp_path: Path, sequence: bool) -> None:
    (batch,) = module.batches(opened(lists(tmp_path, sequence=sequence)))
    assert isinstance(batch["scores"], tf.RaggedTensor)
    assert batch["scores"].to_list() == SCORES
    assert batch["words"].to_list() == [[word.encode() for word in row] for row in WORDS]


def test_arrow_batches_are_refused(module: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="A reader for TensorFlow must yield numpy arrays: open it without as_='arrow'"):
        module.batches(opened(lists(tmp_path), as_="arrow"))


def test_a_null_needs_a_mask(module: Any, tf: Any, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"n": 1, "s": "x", "f": 0.5}\n{"n": null, "s": null, "f": null}\n')
    run_spec({"source": {"jsonl": {"uris": [str(tmp_path / "rows.jsonl")]}}, "output": {"uri": str(tmp_path / "set")}})
    for name in ("n", "s"):
        with pytest.raises(
            tf.errors.UnknownError, match=f"'{name}' has records without a value, which a tensor can't hold; open the reader"
        ):
            list(module.batches(opened(tmp_path / "set", columns=[name])))
    (batch,) = module.batches(opened(tmp_path / "set", masks=["n", "s"]))
    assert [batch[name].numpy().tolist() for name in ("n", "n_missing", "s", "s_missing")] == [
        [1, 0], [False, True], [b"x", b""], [False, True],
    ]  # fmt: skip
    assert str(batch["f"].numpy().tolist()) == "[0.5, nan]"
