"""Record batches in a temporary file. They are read in any order, and the file is removed when their list is no longer used."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dataprep_converter.core.errors import StoreFull
from dataprep_converter.runtime import stored_batches
from dataprep_converter.runtime.stored_batches import StoredBatches

MODES = pytest.mark.parametrize("in_memory", [1, 1 << 20], ids=["on disk", "in memory"])


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def a_batch(number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": [number, None], "name": ["x" * number, "y"]})


@MODES
def test_batches_are_read_in_any_order_while_others_are_appended(monkeypatch: pytest.MonkeyPatch, in_memory: int) -> None:
    monkeypatch.setattr(stored_batches, "IN_MEMORY", in_memory)
    before = descriptors()
    batches = StoredBatches(a_batch(0).schema, "numbers")
    assert list(batches) == []
    for number in range(5):
        batches.append(a_batch(number))
        assert len(batches) == number + 1
        assert batches[number // 2].equals(a_batch(number // 2))
    assert [batch.to_pydict() for batch in batches] == [a_batch(number).to_pydict() for number in range(5)]
    assert descriptors() == before + (in_memory == 1)
    last = batches[4]
    del batches
    assert descriptors() == before
    assert last.equals(a_batch(4))


def test_a_full_disk_is_named_when_a_batch_is_still_buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> Any:
        return os.fdopen(os.open("/dev/full", os.O_RDWR), "r+b", buffering=1 << 20)

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    monkeypatch.setattr(stored_batches, "IN_MEMORY", 0)
    batches = StoredBatches(a_batch(0).schema, "numbers")
    batches.append(a_batch(0))  # these bytes stay in the buffer and aren't written to the disk
    with pytest.raises(StoreFull, match="has no room for numbers: No space left on device"):
        batches[0]
    with pytest.raises(StoreFull, match="has no room for numbers: No space left on device"):
        batches.append(a_batch(1))
