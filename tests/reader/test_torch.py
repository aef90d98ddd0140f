"""The reader as a PyTorch dataset: workers divide each epoch among themselves, and each worker has its own state."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.builders.jobs import run_spec
from tests.reader.fake_torch import FakeTorch, WorkerInfo
from tests.reader.sets import flat, lists, ns, numbers, opened

from dataprep_converter.core.errors import BadData
from dataprep_reader import Ragged

COUNT = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return numbers(tmp_path_factory.mktemp("torch"), count=COUNT)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[FakeTorch, Any]]:
    fake = FakeTorch()
    yield fake, fake.install(monkeypatch)
    sys.modules.pop("dataprep_reader.torch", None)


def found(batches: Any) -> list[list[int]]:
    return [batch["n"].tolist() for batch in batches]


@pytest.mark.slow
def test_torch_is_imported_by_its_own_module_only() -> None:
    code = "import sys, dataprep_reader; assert 'torch' not in sys.modules and 'dataprep_reader.torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_torch_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "dataprep_reader.torch", raising=False)
    with pytest.raises(ModuleNotFoundError, match="dataprep_reader.torch needs PyTorch: pip install torch"):
        importlib.import_module("dataprep_reader.torch")


def test_one_process_reads_what_the_reader_reads(folder: Path, torch: tuple[FakeTorch, Any]) -> None:
    batches = torch[1].Batches(opened(folder, batch_size=7, shuffle=2, epochs=2))
    assert len(batches) == 12
    assert found(batches) == ns(opened(folder, batch_size=7, shuffle=2, epochs=2))


@pytest.mark.slow
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_of_all_ranks_share_an_epoch(folder: Path, torch: tuple[FakeTorch, Any], workers: int, drop: bool) -> None:
    fake, module = torch
    read: list[int] = []
    for rank in range(2):
        sets = [
            module.Batches(opened(folder, batch_size=3, shuffle=2, drop_remainder=drop, rank=rank, world_size=2), workers=workers)
            for _ in range(workers)
        ]
        mine: list[list[int]] = []
        for number, batches in enumerate(sets):
            fake.worker = WorkerInfo(number, workers)
            mine += found(batches)
        assert len(mine) == len(sets[0])
        read += [number for batch in mine for number in batch]
    assert len(set(read)) == len(read)
    assert drop or sorted(read) == list(range(COUNT))


def test_a_state_goes_on_in_the_worker_that_it_was_taken_in(folder: Path, torch: tuple[FakeTorch, Any]) -> None:
    fake, module = torch
    fake.worker = WorkerInfo(1, 2)

    def batches() -> Any:
        return module.Batches(opened(folder, batch_size=3, shuffle=2, epochs=2))

    whole, first, other = found(batches()), batches(), batches()
    items = iter(first)
    before = [next(items)["n"].tolist() for _ in range(4)]
    state = json.loads(json.dumps(first.state_dict()))
    items.close()
    other.load_state_dict(state)
    assert other.state_dict() == state
    assert before + found(other) == whole
    fake.worker = WorkerInfo(0, 2)
    wrong = batches()
    wrong.load_state_dict(state)
    with pytest.raises(ValueError, match="The state comes from a reader with a different record order: rank was 1 and is now 0"):
        next(iter(wrong))


def test_an_epoch_may_be_set_before_each_iteration(folder: Path, torch: tuple[FakeTorch, Any]) -> None:
    batches = torch[1].Batches(opened(folder, shuffle=2))
    batches.set_epoch(3)
    expected = opened(folder, shuffle=2)
    expected.set_epoch(3)
    assert [number for batch in found(batches) for number in batch] == flat(expected)


def test_lists_are_ragged_tensors_and_text_is_a_list(tmp_path: Path, torch: tuple[FakeTorch, Any]) -> None:
    (batch,) = torch[1].Batches(opened(lists(tmp_path)))
    assert isinstance(batch["words"], Ragged)
    assert batch["words"].values == ["a", "bc", "ä", "d"]
    assert batch["words"][1] == ["bc", "ä"]
    assert batch["scores"].values.tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]


def test_arrow_batches_are_refused(folder: Path, torch: tuple[FakeTorch, Any]) -> None:
    with pytest.raises(ValueError, match="A reader for PyTorch must yield numpy arrays: open it without as_='arrow'"):
        torch[1].Batches(opened(folder, as_="arrow"))


def test_a_null_needs_a_mask(torch: tuple[FakeTorch, Any], tmp_path: Path) -> None:
    _, module = torch
    (tmp_path / "rows.jsonl").write_text('{"n": 1, "s": "x"}\n{"n": null, "s": null}\n')
    run_spec({"source": {"jsonl": {"uris": [str(tmp_path / "rows.jsonl")]}}, "output": {"uri": str(tmp_path / "set")}})
    with pytest.raises(
        BadData, match=r"'n' has records without a value, which a tensor can't hold; open the reader with masks=\['n'\], or"
    ):
        list(module.Batches(opened(tmp_path / "set")))
    (batch,) = module.Batches(opened(tmp_path / "set", masks=["n"]))
    assert {name: column if name == "s" else column.tolist() for name, column in batch.items()} == {
        "n": [1, 0], "n_missing": [False, True], "s": ["x", None],
    }  # fmt: skip
