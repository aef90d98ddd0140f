"""Tests of writes for which only the tasks know the columns. The columns must be the same in all tasks."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.builders.dataframes import begin, files_of, numbers, rows_of, run_tasks, write_frame

from dataprep_converter.core.errors import BadSpec, NoInput, NotWhole
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify
from dataprep_frames import publishing
from dataprep_frames.writing import Write

EMPTY = numbers(0, 0)


def written(folder: Path, partitions: list[list[pa.RecordBatch]], **options: Any) -> Write:
    """Write rows whose columns the driver doesn't know."""
    write = begin(folder, None, **options)
    publishing.commit(write, run_tasks(write, partitions))
    verify(str(folder), Access(), every_record=True)
    return write


def test_the_tasks_columns_become_the_data_sets(tmp_path: Path) -> None:
    written(tmp_path / "out", [[numbers(0, 2)], [], [EMPTY], [EMPTY, numbers(2, 1), numbers(3, 1)]])
    assert rows_of(tmp_path / "out") == [{"n": n, "word": f"word {n}"} for n in range(4)]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"n": [1.5], "word": ["a"]},
            "The column 'n' is int64 in the rows of partition 0, but double in those of partition 1. Set schema to",
        ),
        ({"n": [1]}, "The rows of partition 0 have a column 'word', but those of partition 1 have none."),
        ({"n": [1], "word": ["a"], "x": [1]}, "The rows of partition 1 have a column 'x', but those of partition 0 have none."),
        ({"word": ["a"], "n": [1]}, "The columns of partition 0 and partition 1 have different orders."),
    ],
)
def test_tasks_with_different_columns_change_nothing(tmp_path: Path, other: dict[str, Any], message: str) -> None:
    write_frame(tmp_path / "out", [[numbers(0, 2)]])
    before = files_of(tmp_path / "out")
    write = begin(tmp_path / "out", None, overwrite=True)
    reports = run_tasks(write, [[numbers(0, 2)], [pa.RecordBatch.from_pydict(other)]])
    with pytest.raises(BadSpec) as caught:
        publishing.commit(write, reports)
    assert message in str(caught.value)
    publishing.abort(write)
    assert files_of(tmp_path / "out") == before


def test_a_column_that_can_not_be_written_fails_the_task(tmp_path: Path) -> None:
    write = begin(tmp_path / "out", None, format="npz")
    with pytest.raises(BadSpec, match="The feature 'word' holds bytes or text, but npz holds only arrays of numbers"):
        run_tasks(write, [[numbers(0, 2)]])
    assert not (tmp_path / "out").exists()


def test_rows_are_appended_in_the_order_of_the_existing_columns(tmp_path: Path) -> None:
    write_frame(tmp_path / "out", [[numbers(0, 2)]])
    written(tmp_path / "out", [[numbers(2, 2).select(["word", "n"])]])
    assert [row["n"] for row in rows_of(tmp_path / "out")] == [0, 1, 2, 3]
    with pytest.raises(BadSpec, match="its columns are n: int64, word: string, but those of the DataFrame are n: int64"):
        written(tmp_path / "out", [[numbers(4, 2).select(["n"])]])


def test_each_task_takes_the_splits_from_its_own_column(tmp_path: Path) -> None:
    rows = [[numbers(0, 2, part=["test", "train"])], [numbers(2, 1, Part=["train"]).rename_columns(["n", "word", "part"])]]
    written(tmp_path / "out", rows, splitColumn="PART")
    assert [row["n"] for row in rows_of(tmp_path / "out")] == [1, 2]


def test_without_rows_there_is_no_data_set_and_an_append_changes_nothing(tmp_path: Path) -> None:
    for tasks in ([], [[], [EMPTY]]):
        with pytest.raises(NoInput, match="The DataFrame has no rows"):
            written(tmp_path / "out", tasks)
    write_frame(tmp_path / "out", [[numbers(0, 2)]])
    before = files_of(tmp_path / "out")
    write = begin(tmp_path / "out", None)
    assert publishing.commit(write, run_tasks(write, [[EMPTY]])) is None
    assert files_of(tmp_path / "out") == before


def test_rows_that_the_engine_has_counted_are_not_left_out(tmp_path: Path) -> None:
    write = begin(tmp_path / "out", None)
    reports = run_tasks(write, [[numbers(0, 2)], [numbers(2, 2)]])
    with pytest.raises(NotWhole, match="Spark has passed 5 rows to the partitions, but the files that they wrote contain 4 rows."):
        publishing.commit(write, reports, rows=5)
    publishing.commit(write, reports, rows=4)
    assert len(rows_of(tmp_path / "out")) == 4
