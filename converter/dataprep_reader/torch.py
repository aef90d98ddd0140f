"""For PyTorch: turns a reader into an IterableDataset of dictionaries of tensors. This is the only module here that imports torch.

reader = dataprep_reader.open(uri, split="train", batch_size=100, shuffle=7, rank=rank, world_size=world_size)
for batch in DataLoader(Batches(reader), batch_size=None):
    batch["image_raw"], batch["label"]   # torch.uint8 (100, 28, 28), torch.int64 (100,)
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dataprep_reader.arrays import Ragged, check_for_tensors
from dataprep_reader.reader import Reader

try:
    import torch
    from torch.utils.data import IterableDataset, get_worker_info
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError("dataprep_reader.torch needs PyTorch: pip install torch") from exc


class Batches(IterableDataset):  # type: ignore[misc]  # torch isn't installed when types are checked
    """A dataset of complete batches, so the DataLoader needs batch_size=None. The DataLoader's workers divide the records of each epoch as
    ranks do, so each record is read once.

    Numbers become tensors of their type, and lists of any length become a `Ragged` of tensors. Text becomes a list of str, and bytes become
    a list of bytes. Nulls of whole numbers and booleans need a mask (`masks=` of `open`). torchdata's StatefulDataLoader calls `state_dict`
    and `load_state_dict`. To continue with another number of ranks or workers, pass the states of all ranks' loaders to `Reader.restore`.
    """

    def __init__(self, reader: Reader, *, workers: int = 0) -> None:
        """Wraps the reader. `workers` is the DataLoader's `num_workers`, which is needed only for `len`."""
        if not reader.yields_numpy:
            raise ValueError("A reader for PyTorch must yield numpy arrays: open it without as_='arrow'.")
        self._reader = reader
        self._workers = workers
        self._own_part: Reader | None = None
        self._state: Mapping[str, Any] | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        reader = self._part()
        if self._state is not None:
            reader.restore(self._state)
            self._state = None
        for batch in reader:
            check_for_tensors(batch, masks=reader.masks, holds_none=True)
            yield {name: as_torch(column) for name, column in batch.items()}

    def __len__(self) -> int:
        return sum(len(self._reader.part(number, self._workers)) for number in range(self._workers)) or len(self._reader)

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration begin with this epoch.

        Call this before each iteration of a DataLoader whose workers are not persistent, because new workers don't know the earlier epochs.
        """
        self._reader.set_epoch(epoch)
        self._own_part = None

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of this process."""
        return dict(self._state) if self._state is not None else self._part().state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration continue at this position."""
        self._state = dict(state)

    def _part(self) -> Reader:
        """Returns the reader of this process: the given reader or, in a worker of a DataLoader, the worker's part of it."""
        worker = get_worker_info()
        if worker is None:
            return self._reader
        if self._own_part is None:
            self._own_part = self._reader.part(worker.id, worker.num_workers)
        return self._own_part


def as_torch(column: Any) -> Any:
    """Converts a column of a batch to a tensor that shares the column's memory, a Ragged of tensors, or a list of objects."""
    if isinstance(column, Ragged):
        return Ragged(as_torch(column.values), torch.from_numpy(column.offsets))
    return column.tolist() if column.dtype == np.object_ else torch.from_numpy(column)
