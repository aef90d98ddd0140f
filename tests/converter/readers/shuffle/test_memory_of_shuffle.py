"""The memory that the rounds of a shuffle need doesn't grow with the number of records or of bad samples."""

import tracemalloc
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.shuffle import divider as divider_module
from dataprep_converter.readers.shuffle import shuffle_file, task_records
from dataprep_converter.readers.shuffle.divider import Divider
from dataprep_converter.readers.shuffle.stored_rows import RowForm, bad_rows, no_rows
from dataprep_converter.readers.shuffle.task_records import gather
from dataprep_converter.records.batch import SAMPLE, Raw, RejectedSample
from dataprep_converter.runtime import limits
from dataprep_converter.runtime.mapped_table import MappedTable
from dataprep_converter.runtime.temporary import TemporaryFile

FORM = RowForm(pa.schema([("text", pa.string())]), [], has_lines=False)
NONE = np.empty(0, np.int64)


def test_one_row_does_not_keep_its_block_in_memory() -> None:
    before = pa.total_allocated_bytes()
    with Divider(FORM.schema, 1) as divider:
        for number in range(50):
            texts, samples = pa.array(["x" * 1000] * 1000), pa.array(np.full(1000, number))
            block = pa.RecordBatch.from_arrays([texts, samples], schema=FORM.schema)
            divider.add(block.slice(7, 1), np.zeros(1, np.int64), bad_rows([]), NONE)
        del texts, samples, block
        assert pa.total_allocated_bytes() - before <= 1 << 20


def test_bad_samples_are_gathered_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = shuffle_file.Identity.of("ab" * 32, FORM.schema, number=0, tasks=1)
    count, size = 1500, 1 << 16
    with Divider(FORM.schema, 1, most_bytes=1) as divider:
        for first in range(0, count, 100):
            bad = [RejectedSample(sample, "r", Raw(b"x" * size, size)) for sample in range(first, first + 100)]
            divider.add(no_rows(FORM.schema), NONE, bad_rows(bad), np.zeros(100, np.int64))
        (tmp_path / "file").write_bytes(b"".join(divider.pieces(identity)))
    uri = str(tmp_path / "file")
    held: list[int] = []

    def stored(schema: pa.Schema, batches: Iterator[pa.RecordBatch], **more: Any) -> MappedTable:
        def watched() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                held.append(pa.total_allocated_bytes())
                yield batch

        return MappedTable(schema, watched(), **more)

    monkeypatch.setattr(task_records, "MappedTable", stored)
    before = pa.total_allocated_bytes()
    with Access().store(uri).open(uri) as source:
        records = gather(FORM, lambda _: shuffle_file.read_range(source, identity, 0, uri=uri), [0], samples=count)
    assert max(held) - before <= 64 << 20
    found = records.stored(np.array([3, count - 1]))
    assert [(each.sample, each.raw) for each in found.bad] == [(3, Raw(b"x" * size, size)), (count - 1, Raw(b"x" * size, size))]
    assert found.records.schema.names[-1] == SAMPLE


def test_a_piece_takes_few_bytes_of_memory() -> None:
    tasks, sorts = 500, 40
    rows = pa.RecordBatch.from_arrays([pa.array(["x"] * tasks), pa.array(range(tasks))], schema=FORM.schema)
    with Divider(FORM.schema, tasks, most_bytes=1) as divider:
        add = partial(divider.add, rows, np.arange(tasks), bad_rows([]), NONE)
        add()
        tracemalloc.start()
        try:
            for _ in range(sorts):
                add()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert held / (tasks * sorts) <= 40


def test_the_pieces_of_a_wide_table_are_not_in_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divider_module, "_AT_ONCE", 1 << 18)
    columns, tasks = 200, 200
    form = RowForm(pa.schema([(f"c{number}", pa.int64()) for number in range(columns)]), [], has_lines=False)
    rows = pa.RecordBatch.from_arrays([pa.array(range(tasks))] * (columns + 1), schema=form.schema)
    peaks: list[int] = []
    write = TemporaryFile.write

    def watched(file: TemporaryFile, data: bytes | bytearray | memoryview) -> None:
        peaks.append(pa.total_allocated_bytes())
        write(file, data)

    monkeypatch.setattr(TemporaryFile, "write", watched)
    with Divider(form.schema, tasks, most_bytes=1) as divider:
        before = pa.total_allocated_bytes()
        divider.add(rows, np.arange(tasks), bad_rows([]), NONE)
        identity = shuffle_file.Identity.of("ab" * 32, form.schema, number=0, tasks=tasks)
        assert sum(map(len, divider.pieces(identity))) > 5 << 19
    assert max(peaks) - before <= 3 << 19


@pytest.mark.parametrize(("memory", "sorts"), [(1 << 30, 2), (1 << 34, 1)])
def test_more_records_are_sorted_at_once_if_there_are_many_columns_and_tasks(
    memory: int, sorts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "memory_bytes", lambda: memory)
    columns, tasks, rows = 500, 4000, 8500
    form = RowForm(pa.schema([(f"c{number}", pa.int64()) for number in range(columns)]), [], has_lines=False)
    batch = pa.RecordBatch.from_arrays([pa.array(range(rows))] * (columns + 1), schema=form.schema)
    identity = shuffle_file.Identity.of("ab" * 32, form.schema, number=0, tasks=tasks)
    written: list[int] = []
    monkeypatch.setattr(TemporaryFile, "write", lambda _, data: written.append(len(data)))
    with Divider(form.schema, tasks) as divider:
        for _ in range(3):
            divider.add(batch, np.zeros(rows, np.int64), bad_rows([]), NONE)
        monkeypatch.setattr(divider._file, "read_at", lambda *_: b"")
        list(divider.pieces(identity))
    assert len(written) == sorts
