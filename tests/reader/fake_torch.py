"""FakeTorch: what `dataprep_reader.torch` uses of PyTorch, for tests without it. A tensor is the array itself.

tests/interop/heavy/test_reader_torch.py does the same with PyTorch.
"""

import sys
import types
from dataclasses import dataclass
from typing import Any

import pytest


class IterableDataset:
    """The base class has no behaviour that a subclass with `__iter__` keeps."""


@dataclass
class WorkerInfo:
    """A process of a DataLoader, as it knows itself."""

    id: int
    num_workers: int


class FakeTorch:
    """`torch`, `torch.utils.data`, and which worker this process is."""

    def __init__(self) -> None:
        self.worker: WorkerInfo | None = None

    def get_worker_info(self) -> WorkerInfo | None:
        return self.worker

    def install(self, patch: pytest.MonkeyPatch) -> Any:
        """Makes it importable, and returns `dataprep_reader.torch`. Any: the module as it is now."""
        torch: Any = types.ModuleType("torch")
        data: Any = types.ModuleType("torch.utils.data")
        torch.from_numpy = lambda array: array
        data.IterableDataset, data.get_worker_info = IterableDataset, self.get_worker_info
        for name, module in (("torch", torch), ("torch.utils", types.ModuleType("torch.utils")), ("torch.utils.data", data)):
            patch.setitem(sys.modules, name, module)
        patch.delitem(sys.modules, "dataprep_reader.torch", raising=False)
        import dataprep_reader.torch as made

        return made
