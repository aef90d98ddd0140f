"""With a fake Ray, a Dataset becomes a data set like any other, even if tasks fail or are repeated, or their workers are killed."""

import threading
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.builders.dataframes import files_of, numbers, rows_of, write_frame
from tests.builders.played_ray import DataContext, TaskContext, Tensors, WriteResult, tensors, write_datasink

from dataprep_converter.core.errors import BadData, BadSpec, NoInput, NotWhole, OutputExists, OutputLost
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools import repair
from dataprep_converter.tools.verification import verify

_any: Any = pa
EMPTY = pa.table({"n": pa.array([], pa.int64()), "word": pa.array([], pa.string())})


def block(first: int, count: int, **columns: Any) -> pa.Table:
    """Return a block with consecutive numbers and texts."""
    return pa.Table.from_batches([numbers(first, count, **columns)])


TASKS = [[block(0, 4), block(4, 3)], [EMPTY], [], [EMPTY, block(7, 3)]]


def checked(folder: Path, split: str = "train") -> list[int]:
    """Verify every record of the data set. Return the values of `n` in a split's records."""
    verify(str(folder), Access(), every_record=True)
    return [row["n"] for row in rows_of(folder, split=split)]


def hidden(folder: Path) -> list[str]:
    return [path for path in files_of(folder) if "/made/" in path or ".dataprep-tmp-" in path]


# --- what is written ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", ["tfrecord", "parquet", "webdataset", "sequenceFile", "mds"])
def test_each_task_with_rows_makes_a_file(played: Any, tmp_path: Path, format_: str) -> None:
    write_datasink(played.DataprepDatasink(str(tmp_path / "out"), format=format_), TASKS)
    manifest = verify(str(tmp_path / "out"), Access())
    assert [file.records for file in manifest.files] == [7, 3]
    assert checked(tmp_path / "out") == list(range(10))
    assert hidden(tmp_path / "out") == []


def test_options_are_the_fields_of_the_output(played: Any, tmp_path: Path) -> None:
    sink = played.DataprepDatasink(
        str(tmp_path / "out"), tfrecord={"compression": "Gzip"}, shards={"records": 2}, fileName="{split}/{shard}.{ext}", split="test"
    )
    write_datasink(sink, [[block(0, 5)]])
    manifest = verify(str(tmp_path / "out"), Access())
    assert [file.records for file in manifest.files] == [2, 2, 1]
    assert all(file.file.startswith("test/") and file.file.endswith(".gz") for file in manifest.files)
    assert checked(tmp_path / "out", "test") == list(range(5))


def test_a_column_names_the_splits(played: Any, tmp_path: Path) -> None:
    sink = played.DataprepDatasink(str(tmp_path / "out"), split_column="part")
    write_datasink(sink, [[block(0, 3, part=["test", "train", "train"])], [block(3, 1, part=["test"])]])
    assert (checked(tmp_path / "out"), checked(tmp_path / "out", "test")) == ([1, 2], [0, 3])
    with pytest.raises(
        BadSpec, match=r"A task has rows of the split 'a' after rows of another split. Sort the rows first: ds.sort\('part'\)."
    ):
        write_datasink(
            played.DataprepDatasink(str(tmp_path / "new"), split_column="part"), [[block(0, 2, part=["a", "b"]), block(2, 1, part=["a"])]]
        )


def test_blocks_may_be_tables_of_pandas(played: Any, tmp_path: Path) -> None:
    write_datasink(played.DataprepDatasink(str(tmp_path / "out")), [[{"n": [0, 1], "word": ["a", "b"]}, block(2, 1)]])
    assert checked(tmp_path / "out") == [0, 1, 2]


def test_blocks_are_read_in_the_thread_that_calls_write(played: Any, tmp_path: Path) -> None:
    """While the sink reads the blocks, Ray runs earlier operators, which may depend on the thread."""
    threads = set()

    def attempts(write: Callable[[Iterable[Any]], Any], blocks: list[Any]) -> Any:
        return write(threads.add(threading.get_ident()) or each for each in blocks)  # type: ignore[func-returns-value]  # it returns None

    write_datasink(played.DataprepDatasink(str(tmp_path / "out")), TASKS, attempts=attempts)
    assert threads == {threading.get_ident()}


def test_rays_tensors_are_tensors(played: Any, tmp_path: Path) -> None:
    column = tensors(Tensors((2, 2), pa.int16()), [[1, 2, 3, 4], [5, 6, 7, 8]])
    write_datasink(played.DataprepDatasink(str(tmp_path / "out")), [[_any.table({"x": column})]])
    manifest = verify(str(tmp_path / "out"), Access(), every_record=True)
    assert [(feature["name"], feature["shape"]) for feature in manifest.features] == [("x", [2, 2])]


def test_ray_passes_as_many_rows_to_a_task_as_the_user_wants(played: Any, tmp_path: Path) -> None:
    sink = played.DataprepDatasink(str(tmp_path / "out"), min_rows_per_file=1000)
    assert (sink.min_rows_per_write, sink.get_name()) == (1000, "Dataprep")
    assert played.DataprepDatasink(str(tmp_path / "out")).min_rows_per_write is None


# --- columns ------------------------------------------------------------------------------------------------------


def test_the_columns_of_all_tasks_must_be_the_same(played: Any, tmp_path: Path) -> None:
    with pytest.raises(
        BadSpec, match="The column 'n' is int64 in the rows of task 0, but double in those of task 1. Set schema to the columns"
    ):
        write_datasink(played.DataprepDatasink(str(tmp_path / "out")), [[pa.table({"n": [1]})], [pa.table({"n": [1.5]})]])
    assert not (tmp_path / "out/_SUCCESS").exists()
    assert hidden(tmp_path / "out") == []


def test_with_a_schema_blocks_get_its_types_and_nulls(played: Any, tmp_path: Path) -> None:
    fields: list[Any] = [pa.field("n", pa.float64()), pa.field("word", pa.string())]
    schema = pa.schema(fields)
    tasks = [[pa.table({"n": [1], "word": pa.nulls(1)})], [pa.table({"n": [1.5]})], [pa.table({"word": ["x"], "n": [2.5]})]]

    class OfRay:
        """Stands in for `ray.data.Schema`."""

        base_schema = schema

    for name, given in (("a", schema), ("b", OfRay())):
        write_datasink(played.DataprepDatasink(str(tmp_path / name), format="parquet", schema=given), tasks)
        assert [(row["n"], row["word"]) for row in rows_of(tmp_path / name)] == [(1.0, None), (1.5, None), (2.5, "x")]


def test_a_schema_is_checked_before_any_task_begins(played: Any, tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match="The feature 'word' holds bytes or text, but npz holds only arrays of numbers"):
        played.DataprepDatasink(str(tmp_path / "out"), format="npz", schema=pa.schema([("word", pa.string())]))
    with pytest.raises(BadSpec, match="The option schema must be a pyarrow.Schema, or the schema of a Dataset with Arrow blocks; got dict"):
        played.DataprepDatasink(str(tmp_path / "out"), schema={"n": "int64"})


def test_a_null_that_the_format_lacks_names_the_row_and_rays_remedy(played: Any, tmp_path: Path) -> None:
    with pytest.raises(BadData) as caught:
        write_datasink(played.DataprepDatasink(str(tmp_path / "out"), format="mds"), [[pa.table({"n": [1, None]})]])
    assert "ray:task-0, record 1: n has no value" in str(caught.value)
    assert "replace the nulls of n in the Dataset, with ds.map_batches()" in str(caught.value)


# --- save modes ---------------------------------------------------------------------------------------------------


class SaveMode(Enum):
    """Stands in for Ray's `SaveMode`."""

    ERROR = "error"
    APPEND = "append"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"


def test_save_modes(played: Any, tmp_path: Path) -> None:
    def write(rows: pa.Table, mode: Any) -> None:
        write_datasink(played.DataprepDatasink(str(tmp_path / "out"), mode=mode), [[rows]])

    write(block(0, 2), "errorifexists")
    for mode in ("errorifexists", "error", SaveMode.ERROR):
        with pytest.raises(OutputExists, match="and the save mode is errorifexists. Use the mode overwrite, append or ignore"):
            write(block(2, 2), mode)
    write(block(2, 2), SaveMode.IGNORE)
    write(block(2, 2), "append")
    assert checked(tmp_path / "out") == [0, 1, 2, 3]
    write(block(4, 1), SaveMode.APPEND)
    assert checked(tmp_path / "out") == [0, 1, 2, 3, 4]
    write(block(9, 1), SaveMode.OVERWRITE)
    assert checked(tmp_path / "out") == [9]


def test_the_output_is_checked_when_the_sink_is_made_and_when_the_write_begins(played: Any, tmp_path: Path) -> None:
    sink = played.DataprepDatasink(str(tmp_path / "out"))
    write_datasink(played.DataprepDatasink(str(tmp_path / "out")), [[block(0, 2)]])
    with pytest.raises(OutputExists, match="and the save mode is errorifexists"):
        played.DataprepDatasink(str(tmp_path / "out"))
    with pytest.raises(OutputExists, match="and the save mode is errorifexists"):
        sink.on_write_start(None)
    assert checked(tmp_path / "out") == [0, 1]


def test_rows_are_appended_to_the_data_set_of_spark_and_the_other_way(played: Any, tmp_path: Path) -> None:
    write_frame(tmp_path / "out", [[numbers(0, 2)]])
    write_datasink(played.DataprepDatasink(str(tmp_path / "out"), mode="append"), [[block(2, 2).select(["word", "n"])]])
    write_frame(tmp_path / "out", [[numbers(4, 1)]])
    assert checked(tmp_path / "out") == [0, 1, 2, 3, 4]
    with pytest.raises(BadSpec) as caught:
        write_datasink(played.DataprepDatasink(str(tmp_path / "out"), mode="append"), [[pa.table({"n": [1]})]])
    assert 'but those of the Dataset are n: int64. Use mode="overwrite", or write to another URI.' in str(caught.value)


def test_without_rows_nothing_is_replaced(played: Any, tmp_path: Path) -> None:
    write_datasink(played.DataprepDatasink(str(tmp_path / "out")), TASKS)
    before = files_of(tmp_path / "out")
    for tasks in ([], [[EMPTY]]):  # without blocks, Ray never calls on_write_start
        with pytest.raises(NoInput, match="The Dataset has no rows"):
            write_datasink(played.DataprepDatasink(str(tmp_path / "out"), mode="overwrite"), tasks)
        write_datasink(played.DataprepDatasink(str(tmp_path / "out"), mode="append"), tasks)
        assert files_of(tmp_path / "out") == before


def test_a_sink_can_be_used_again(played: Any, tmp_path: Path) -> None:
    sink = played.DataprepDatasink(str(tmp_path / "out"), mode="append")
    write_datasink(sink, [[block(0, 2)]])
    with pytest.raises(BadSpec):
        write_datasink(sink, [[pa.table({"other": [1]})]])
    write_datasink(sink, [[block(2, 2)]])
    assert checked(tmp_path / "out") == [0, 1, 2, 3]


# --- attempts -----------------------------------------------------------------------------------------------------


def broken(blocks: Iterable[Any]) -> Iterator[Any]:
    """Yield the first block only, and then fail as if an input were lost."""
    yield next(iter(blocks))
    raise ConnectionError("an object was lost")


def test_each_row_is_there_once_although_attempts_fail_or_are_repeated(played: Any, tmp_path: Path) -> None:
    def attempts(write: Callable[[Iterable[Any]], Any], blocks: list[Any]) -> Any:
        if blocks:
            with pytest.raises(ConnectionError):
                write(broken(blocks))  # like a killed worker, but a killed worker would also leave hidden files
        write(iter(blocks))  # Ray treats this result as lost, and runs the task again
        return write(iter(blocks))

    write_datasink(played.DataprepDatasink(str(tmp_path / "out"), shards={"records": 2}), TASKS, attempts=attempts)
    assert checked(tmp_path / "out") == list(range(10))
    assert hidden(tmp_path / "out") == []


def test_nothing_is_visible_before_the_write_is_complete(played: Any, tmp_path: Path) -> None:
    sink = played.DataprepDatasink(str(tmp_path / "out"))
    sink.on_write_start(None)
    returns = [sink.write(iter(blocks), TaskContext(number)) for number, blocks in enumerate(TASKS)]
    assert files_of(tmp_path / "out")
    assert all(path.startswith("_dataprep/") for path in files_of(tmp_path / "out"))
    sink.on_write_complete(WriteResult(10, 0, returns))
    assert checked(tmp_path / "out") == list(range(10))


def test_the_numbers_of_tasks_may_have_gaps(played: Any, tmp_path: Path) -> None:
    write_datasink(played.DataprepDatasink(str(tmp_path / "out")), TASKS, numbers=[0, 2, 7, 9])
    assert checked(tmp_path / "out") == list(range(10))


def test_a_failed_write_leaves_the_earlier_data_set_and_no_file(played: Any, tmp_path: Path) -> None:
    write_datasink(played.DataprepDatasink(str(tmp_path / "out")), TASKS)
    before = files_of(tmp_path / "out")

    def attempts(write: Callable[[Iterable[Any]], Any], blocks: list[Any]) -> Any:
        return write(broken(blocks)) if len(blocks) > 1 else write(iter(blocks))

    with pytest.raises(ConnectionError):
        write_datasink(played.DataprepDatasink(str(tmp_path / "out"), mode="overwrite"), [[block(0, 3)], [EMPTY, EMPTY]], attempts=attempts)
    assert files_of(tmp_path / "out") == before


@pytest.mark.parametrize(
    ("rows", "numbers_", "message"),
    [
        (11, [0, 1], "Ray has passed 11 rows to the tasks, but the files that they wrote contain 10 rows."),
        (10, [0, 0], "Ray has named two successful attempts for task 0, so its rows would be in the data set twice."),
    ],
)
def test_rows_are_neither_left_out_nor_written_twice(played: Any, tmp_path: Path, rows: int, numbers_: list[int], message: str) -> None:
    sink = played.DataprepDatasink(str(tmp_path / "out"))
    sink.on_write_start(None)
    returns = [sink.write([block(5 * place, 5)], TaskContext(number)) for place, number in enumerate(numbers_)]
    with pytest.raises(NotWhole) as caught:
        sink.on_write_complete(WriteResult(rows, 0, returns))
    assert str(caught.value) == message
    sink.on_write_failed(caught.value)
    assert hidden(tmp_path / "out") == []


def test_a_write_that_may_leave_out_rows_is_refused(played: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DataContext, "max_errored_blocks", -1)
    with pytest.raises(
        BadSpec, match="DataContext.max_errored_blocks is -1, so Ray would leave out the rows of tasks that fail. Set it to 0"
    ):
        write_datasink(played.DataprepDatasink(str(tmp_path / "out")), TASKS)
    assert files_of(tmp_path / "out") == {}


def test_an_attempt_after_the_commit_publishes_nothing(played: Any, tmp_path: Path) -> None:
    import pickle

    sink = played.DataprepDatasink(str(tmp_path / "out"))
    sink.on_write_start(None)
    late = pickle.loads(pickle.dumps(sink))  # noqa: S301 - it was pickled just now
    sink.on_write_complete(WriteResult(3, 0, [sink.write([block(0, 3)], TaskContext(0))]))
    with pytest.raises(OutputLost, match="this attempt comes too late"):
        late.write([block(0, 3)], TaskContext(0))
    assert checked(tmp_path / "out") == [0, 1, 2]


def test_repair_refuses_by_name(played: Any, tmp_path: Path) -> None:
    write_datasink(played.DataprepDatasink(str(tmp_path / "out")), TASKS)
    (tmp_path / "out/train-00000.tfrecords").unlink()
    with pytest.raises(BadSpec) as caught:
        repair.repair(str(tmp_path / "out"), Access())
    assert "was written by Ray. The rows of the Dataset can't be read again" in str(caught.value)
    assert 'Write the Dataset again with mode="overwrite".' in str(caught.value)


def test_a_write_outside_of_a_task_is_refused(played: Any, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="write must run in a task of Ray"):
        played.DataprepDatasink(str(tmp_path / "out")).write([], TaskContext(0))
