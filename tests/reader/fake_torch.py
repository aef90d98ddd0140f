"""FakeTorch: the parts of PyTorch that `dataprep_reader.torch` uses, for tests without PyTorch. A tensor is the array itself.

tests/interop/heavy/test_reader_torch.py has the same tests with PyTorch.
"""

import sys
import types
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
    """The modules `torch` and `torch.utils.data`. They tell this process which worker it is."""

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


def _module(name: str) -> Any:
    return types.ModuleType(name)
