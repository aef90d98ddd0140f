"""The reader as a tf.data.Dataset, with TensorFlow."""

import importlib
import itertools
from pathlib import Path
from typing import Any

import pytest
from tests.builders.data_sets import data_set, lines
from tests.builders.jobs import run_spec
from tests.builders.pages import python_code
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


def test_with_drop_remainder_the_shapes_include_the_batch_size(module: Any, tmp_path: Path) -> None:
    dataset = module.batches(opened(data_set(tmp_path, lines(30)), batch_size=8, drop_remainder=True))
    assert dataset.element_spec["v"].shape.as_list() == [8, 2]
    assert [batch["n"].shape.as_list() for batch in dataset] == [[8]] * 3
    ragged = module.batches(opened(lists(tmp_path / "lists"), batch_size=2, drop_remainder=True))
    assert ragged.element_spec["scores"].shape.as_list() == [2, None]
    assert [batch["scores"].to_list() for batch in ragged] == [SCORES[:2], SCORES[2:4]]


def test_a_state_after_some_batches_is_exact_although_tensorflow_takes_batches_in_advance(module: Any, tmp_path: Path) -> None:
    folder = data_set(tmp_path, lines(30))
    reader, other = (opened(folder, batch_size=4, shuffle=3) for _ in range(2))
    pairs = module.batches(reader).map(lambda batch: (batch["n"], batch["label"])).prefetch(2)
    begin = [n for ns, _ in itertools.islice(pairs, 3) for n in ns.numpy().tolist()]
    other.restore(reader.state(batches=3))
    rest = [n for batch in module.batches(other) for n in batch["n"].numpy().tolist()]
    assert (len(begin), sorted(begin + rest)) == (12, list(range(30)))


def test_the_code_in_the_docs_works(tf: Any, tmp_path: Path) -> None:
    features = [{"name": "image_raw", "columns": ["a", "b"]}]
    found: list[Any] = []
    model = tf.keras.Sequential([tf.keras.layers.Dense(3)])
    model.compile(loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    names: dict[str, Any] = {"uri": str(data_set(tmp_path, lines(200), features)), "model": model}
    names["train"] = lambda images, _labels: found.extend(images.numpy().tolist())
    exec("\n".join(python_code("docs/reading.md", "## TensorFlow")), names)  # noqa: S102 - the code is ours
    assert len(model.history.history["loss"]) == 2
    assert sorted(found) == sorted([n / 8, -float(n)] for n in range(200))


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
