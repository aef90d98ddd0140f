"""Files of a shuffle: each task gets its records in the order of the samples, and damage to a file is noticed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dataprep_converter.core.errors import NotWhole
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.shuffle import shuffle_file, task_records
from dataprep_converter.readers.shuffle.divider import Divider
from dataprep_converter.readers.shuffle.shuffle_file import BAD, Identity
from dataprep_converter.readers.shuffle.stored_rows import RowForm, bad_rows, bad_samples
from dataprep_converter.readers.shuffle.task_records import TaskRecords
from dataprep_converter.records.batch import SAMPLE, Batch, LostDigits, Raw, RejectedSample
from dataprep_converter.stores import Input

COLUMNS = pa.schema([pa.field("text", pa.string(), metadata={"key": "value"}), pa.field("v", pa.list_(pa.int32()))])
FORM = RowForm(COLUMNS, [], has_lines=False)
ROWS, TASKS = 100, 7
IDENTITY = Identity.of("ab" * 32, FORM.schema, number=3, tasks=TASKS)


def task_of(sample: int) -> int:
    """Returns the task of a sample. Task 5 has none, and task 6 has only bad samples."""
    return 6 if is_bad(sample) and sample > 50 else sample % 5


def is_bad(sample: int) -> bool:
    return sample % 9 == 4


def rows(samples: list[int]) -> pa.RecordBatch:
    columns = [
        pa.array([f"text {n}" for n in samples]),
        pa.array([[n] * (n % 3) for n in samples], pa.list_(pa.int32())),
        pa.array(samples),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=FORM.schema)


def bad(samples: list[int]) -> list[RejectedSample]:
    return [RejectedSample(n, f"reason \udcff {n}", Raw(b"\xff" * (n % 4), 1000) if n % 2 else None) for n in samples]


def divided(*, batch: int, most_bytes: int) -> bytes:
    """Returns the file that a divider makes of batches of this size."""
    with Divider(FORM.schema, TASKS, most_bytes=most_bytes) as divider:
        for first in range(0, ROWS, batch):
            samples = range(first, min(first + batch, ROWS))
            good, wrong = [n for n in samples if not is_bad(n)], [n for n in samples if is_bad(n)]
            tasks = [np.array([task_of(n) for n in numbers], np.int64) for numbers in (good, wrong)]
            divider.add(rows(good), tasks[0], bad_rows(bad(wrong)), tasks[1])
        return b"".join(divider.pieces(IDENTITY))


def opened(folder: Path, content: bytes) -> Input:
    (folder / "file").write_bytes(content)
    return Access().store(str(folder)).open(str(folder / "file"))


@pytest.mark.parametrize("most_bytes", [1, 1000, 1 << 20])
@pytest.mark.parametrize("batch", [1, 13, ROWS])
@pytest.mark.parametrize("in_memory", [0, 1 << 20])
def test_each_task_gets_its_samples_in_order(
    tmp_path: Path, batch: int, most_bytes: int, in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shuffle_file, "IN_MEMORY", in_memory)
    with opened(tmp_path, divided(batch=batch, most_bytes=most_bytes)) as file:
        assert shuffle_file.is_whole(file, IDENTITY)
        for task in range(TASKS):
            found = shuffle_file.read_range(file, IDENTITY, task, uri="x")
            good = pa.Table.from_batches(shuffle_file.batches(found.records, FORM.schema), FORM.schema)
            wrong = pa.Table.from_batches(shuffle_file.batches(found.bad, BAD), BAD)
            expected = [n for n in range(ROWS) if task_of(n) == task]
            assert good.to_pylist() == rows([n for n in expected if not is_bad(n)]).to_pylist()
            assert [each for batch in wrong.to_batches() for each in bad_samples(batch)] == bad([n for n in expected if is_bad(n)])
            assert found.samples == len(expected)


def test_any_damaged_byte_of_a_task_is_noticed(tmp_path: Path) -> None:
    content = divided(batch=13, most_bytes=1000)
    with opened(tmp_path, content) as file:
        whole = [shuffle_file.read_range(file, IDENTITY, task, uri="x") for task in range(TASKS)]
    for place in range(0, len(content), 11):
        damaged = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        with opened(tmp_path, damaged) as file:
            for task in range(TASKS):
                try:
                    found = shuffle_file.read_range(file, IDENTITY, task, uri="x")
                except NotWhole:
                    continue
                assert (found.records, found.bad) == (whole[task].records, whole[task].bad)


def test_a_cut_file_and_the_file_of_another_plan_are_refused(tmp_path: Path) -> None:
    content = divided(batch=13, most_bytes=1000)
    for length in (0, 10, 150, 600, len(content) - 1):
        with opened(tmp_path, content[:length]) as file:
            assert not shuffle_file.is_whole(file, IDENTITY)
            with pytest.raises(NotWhole):
                shuffle_file.read_range(file, IDENTITY, TASKS - 1, uri="x")
    others = [replace(IDENTITY, plan_sha256="cd" * 32), replace(IDENTITY, number=4), replace(IDENTITY, tasks=8)]
    others.append(Identity.of("ab" * 32, COLUMNS, number=3, tasks=TASKS))
    with opened(tmp_path, content) as file:
        for other in others:
            assert not shuffle_file.is_whole(file, other)
            with pytest.raises(NotWhole, match=r"file doesn't contain the expected records of this plan's shuffle"):
                shuffle_file.read_range(file, other, 2, uri="file")


def gathered(tmp_path: Path, task: int, *, samples: int) -> TaskRecords:
    with opened(tmp_path, divided(batch=13, most_bytes=1000)) as file:
        return task_records.gather(FORM, lambda _: shuffle_file.read_range(file, IDENTITY, task, uri="x"), [0], samples=samples)


@pytest.mark.parametrize("piece_bytes", [1, 1 << 20])
def test_a_tasks_samples_are_found_in_any_order(tmp_path: Path, piece_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_records, "_PIECE_BYTES", piece_bytes)
    mine = [n for n in range(ROWS) if task_of(n) == 2]
    records = gathered(tmp_path, 2, samples=len(mine))
    asked = np.random.default_rng(1).permutation(np.array(mine, np.int64))
    batch = FORM.batch(records.stored(asked))
    assert batch.records.to_pylist() == rows([n for n in asked.tolist() if not is_bad(n)]).to_pylist()
    assert batch.records.schema == FORM.schema
    assert batch.bad == bad([n for n in asked.tolist() if is_bad(n)])


@pytest.mark.parametrize(("task", "count"), [(5, 0), (6, 5)])
def test_a_task_may_have_no_samples_or_only_bad_ones(tmp_path: Path, task: int, count: int) -> None:
    mine = np.array([n for n in range(ROWS) if task_of(n) == task], np.int64)
    assert len(mine) == count
    found = gathered(tmp_path, task, samples=count).stored(mine)
    assert (found.records.num_rows, len(found.bad)) == (0, count)


def test_missing_samples_are_noticed(tmp_path: Path) -> None:
    mine = np.array([n for n in range(ROWS) if task_of(n) == 2], np.int64)
    with pytest.raises(NotWhole, match=f"have {len(mine)} of the {len(mine) + 1} samples of a task"):
        gathered(tmp_path, 2, samples=len(mine) + 1)
    with pytest.raises(NotWhole, match="lack a sample"):
        gathered(tmp_path, 2, samples=len(mine)).stored(np.array([mine[0], 3], np.int64))


def test_lost_digits_come_back_with_any_of_the_rows() -> None:
    form = RowForm(pa.schema([("x", pa.float64())]), ["x"], has_lines=False)
    records = pa.record_batch({"x": [0.5, 1.5, 2.5, 3.5], SAMPLE: pa.array([4, 5, 6, 7], pa.int64())})
    lost = LostDigits("x", np.array([7, 5], np.int64), ["3.50000000000000000001", "1.50000000000000000001"])
    stored = form.rows(Batch(records=records, bad=[], bytes_in=9, lost=[lost]))
    batch = form.batch(Batch(records=stored.take(pa.array([3, 0])), bad=[], bytes_in=0))
    assert batch.records.to_pylist() == [{"x": 3.5, SAMPLE: 7}, {"x": 0.5, SAMPLE: 4}]
    assert [(each.column, each.samples.tolist(), each.texts) for each in batch.lost] == [("x", [7], ["3.50000000000000000001"])]
    assert form.batch(Batch(records=stored.slice(0, 1), bad=[], bytes_in=0)).lost == []
