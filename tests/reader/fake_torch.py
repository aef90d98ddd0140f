"""FakeTorch: the parts of PyTorch that `dataprep_reader.torch` uses, for tests without PyTorch. A tensor is the array itself.

FakeLoader: stands in for torchdata's StatefulDataLoader, and uses FakeTorch. tests/interop/heavy/test_reader_torch.py has the same tests
with PyTorch and torchdata.
"""

import pickle
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest


class IterableDataset:
    """The base class of PyTorch's datasets. Subclasses with `__iter__` use none of the real class's behaviour."""


@dataclass
class WorkerInfo:
    """The information that a DataLoader's process has about itself."""

    id: int
    num_workers: int


class FakeTorch:
    """The modules `torch` and `torch.utils.data`. `get_worker_info` says that this process is `worker`."""

    def __init__(self) -> None:
        self.worker: WorkerInfo | None = None

    def get_worker_info(self) -> WorkerInfo | None:
        return self.worker

    def install(self, patch: pytest.MonkeyPatch) -> Any:
        """Makes the modules importable, imports `dataprep_reader.torch` again, and returns it.

        Any, because a module has no type that declares its functions and classes.
        """
        self.install_torch(patch)
        patch.delitem(sys.modules, "dataprep_reader.torch", raising=False)
        import dataprep_reader.torch as made

        return made

    def install_torch(self, patch: pytest.MonkeyPatch) -> None:
        """Makes the modules importable."""
        torch, utils, data = (_module(name) for name in ("torch", "torch.utils", "torch.utils.data"))
        torch.from_numpy, torch.utils, utils.data = (lambda array: array), utils, data
        data.IterableDataset, data.Dataset, data.get_worker_info = IterableDataset, IterableDataset, self.get_worker_info
        for module in (torch, utils, data):
            patch.setitem(sys.modules, module.__name__, module)


class FakeLoader:
    """A StatefulDataLoader: each worker has a copy of the dataset, and the batches of the workers are yielded in turn.

    Its state has the form of torchdata 0.11 with snapshot_every_n_steps=1. Without workers, the dataset is read by this process.
    """

    def __init__(self, torch: FakeTorch, dataset: Any, *, workers: int) -> None:
        self._torch = torch
        self._infos: list[WorkerInfo | None] = [WorkerInfo(number, workers) for number in range(workers)] if workers else [None]
        self._workers = workers
        # Each worker is sent its own copy.
        self._copies = [pickle.loads(pickle.dumps(dataset)) for _ in self._infos] if workers else [dataset]  # noqa: S301 - our own
        self._iterators = [iter(copy) for copy in self._copies]
        self.steps_since_snapshot = 0

    def __iter__(self) -> Iterator[Any]:
        """Yields the remaining batches."""
        active = list(range(len(self._iterators)))
        while active:
            for number in list(active):
                self._torch.worker = self._infos[number]
                batch = next(self._iterators[number], None)
                if batch is None:
                    active.remove(number)
                else:
                    yield batch

    def state_dict(self) -> dict[str, Any]:
        states = []
        for info, copy in zip(self._infos, self._copies, strict=True):
            self._torch.worker = info
            fetcher = {"dataset_iter_state": None, "fetcher_ended": False}
            states.append({"fetcher_state": fetcher, "dataset_state": copy.state_dict()})
        if not self._workers:
            return states[0] | {"_num_yielded": 0, "_iterator_finished": False}
        snapshot = {
            "_snapshot_step": 0,
            "_main_snapshot": {"_num_workers": self._workers, "_base_seed": 1},
            "_worker_snapshots": {f"worker_{number}": {"worker_id": number} | state for number, state in enumerate(states)},
        }
        return {"_snapshot": snapshot, "_steps_since_snapshot": self.steps_since_snapshot, "_iterator_finished": False}


def _module(name: str) -> Any:
    return types.ModuleType(name)
