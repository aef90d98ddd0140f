"""For JAX: turns a reader into a dataset of Grain, JAX's library for input data. This is the only module here that imports Grain.

reader = dataprep_reader.open(uri, split="train", batch_size=100, shuffle=7, epochs=None, rank=rank, world_size=world_size)
batches = iter(Batches(reader))
batch = next(batches)
batch["image_raw"], batch["label"]   # numpy: uint8 (100, 28, 28), int64 (100,)
"""

from collections.abc import Iterator
from typing import Any

from dataprep_reader.arrays import check_for_tensors
from dataprep_reader.reader import Reader

try:
    import grain
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError("dataprep_reader.grain needs Grain: pip install grain") from exc


class Batches(grain.IterDataset):  # type: ignore[misc]  # Grain isn't installed when types are checked
    """A dataset of complete batches. Its iterators save and restore their position. `mp_prefetch` divides the records of each epoch among
    the worker processes, so that each record is read once.

    The elements are the reader's dictionaries of numpy arrays. Nulls of whole numbers and booleans need a mask (`masks=` of `open`), because
    JAX has no masked arrays. To continue with another number of ranks or processes, pass the states of all ranks' iterators to
    `Reader.restore`.
    """

    def __init__(self, reader: Reader) -> None:
        if not reader.yields_numpy:
            raise ValueError("A reader for Grain must yield numpy arrays: open it without as_='arrow'.")
        super().__init__()
        self._reader = reader

    def __iter__(self) -> "_BatchIterator":
        return _BatchIterator(self._reader.part(0, 1))

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Limits the dataset to part number `sl.start` of `sl.step` parts. Grain calls this method in each process."""
        del sequential_slice
        self._reader = self._reader.part(sl.start, sl.step)


class _BatchIterator(grain.DatasetIterator):  # type: ignore[misc]  # see above
    """One pass through the batches, with a separate reader."""

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self._reader = reader
        self._batches: Iterator[dict[str, Any]] | None = None
        self._state = reader.state()

    def __next__(self) -> dict[str, Any]:
        if self._batches is None:
            self._batches = iter(self._reader)
        batch = next(self._batches)
        check_for_tensors(batch, masks=self._reader.masks, holds_none=True)
        self._state = self._reader.state()
        return batch

    def get_state(self) -> dict[str, Any]:
        """Returns the position after the last batch."""
        return self._state

    def set_state(self, state: dict[str, Any]) -> None:
        """Makes the batch that follows this position the next batch."""
        self._batches = None
        self._reader.restore(state)
        self._state = state
