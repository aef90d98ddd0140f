"""Finished data sets as read tasks, tested with a fake Ray."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.data_sets import data_set, expected, lines
from tests.builders.dataframes import numbers, write_frame
from tests.builders.jobs import run_spec
from tests.builders.played_ray import Objects, ReadTask, Tensors

from dataprep_converter.core.errors import BadData, BadSpec, NotFound
from dataprep_frames import reading
from dataprep_ray.ray_types import as_ray_type, ray_type

_any: Any = pa


def tasks_of(source: Any, parallelism: int = 1, limit: int | None = None) -> list[ReadTask]:
    """Return the read tasks, after checking that the objects in their closures can be sent to other processes."""
    tasks: list[ReadTask] = source.get_read_tasks(parallelism, per_task_row_limit=limit)
    for task in tasks:
        assert task.read_fn.__name__ == "read"  # Ray names a failing task after this function
        pickle.dumps([cell.cell_contents for cell in task.read_fn.__closure__ or ()])
    return tasks


def rows_of(source: Any, parallelism: int = 1) -> list[dict[str, Any]]:
    """Return all rows, after checking that each block has the schema and the number of rows that its task has declared."""
    rows = []
    for task in tasks_of(source, parallelism):
        blocks: list[Any] = list(task())
        assert all(block.schema.equals(task.schema) for block in blocks)
        assert sum(block.num_rows for block in blocks) == task.metadata.num_rows
        rows += [row for block in blocks for row in block.to_pylist()]
    return rows


@pytest.mark.parametrize("format_", ["tfrecord", "sequenceFile", "parquet", "arrow", "jsonl", "csv", "webdataset", "mds"])
def test_every_format_is_read(played: Any, tmp_path: Path, format_: str) -> None:
    folder = data_set(tmp_path, lines(50), [{"name": "n"}, {"name": "word"}], format=format_)
    rows = sorted(rows_of(played.DataprepDatasource(str(folder))), key=lambda row: int(row["n"]))
    assert rows == [{name: row[name] for name in ("label", "n", "word")} for row in expected(50)]


def test_columns_and_splits_can_be_chosen(played: Any, tmp_path: Path) -> None:
    for split, first in (("train", 0), ("test", 90)):
        write_frame(tmp_path / "out", [[numbers(first, 2)]], split=split)
    open_ = played.DataprepDatasource
    assert rows_of(open_(str(tmp_path / "out"), columns=["word"], split="test")) == [{"word": "word 90"}, {"word": "word 91"}]
    assert rows_of(open_(str(tmp_path / "out"), columns=["n"], split=["test", "train"], split_column="part")) == [
        {"n": 0, "part": "train"},
        {"n": 1, "part": "train"},
        {"n": 90, "part": "test"},
        {"n": 91, "part": "test"},
    ]
    with pytest.raises(BadSpec, match=r"has no split 'tset'. Did you mean 'test'\?"):
        open_(str(tmp_path / "out"), split="tset")
    with pytest.raises(BadSpec, match=r"has no column 'wrod'. Did you mean 'word'\?"):
        open_(str(tmp_path / "out"), columns=["wrod"])
    with pytest.raises(BadSpec, match="which is also the name of the column with the splits. Set the option split_column to another name."):
        open_(str(tmp_path / "out"), split_column="n")


def test_there_are_as_many_tasks_as_ray_asks_for_if_there_are_as_many_shards(played: Any, tmp_path: Path) -> None:
    write_frame(tmp_path / "out", [[numbers(10 * part, 10)] for part in range(6)])
    source = played.DataprepDatasource(str(tmp_path / "out"))
    assert [len(tasks_of(source, parallelism)) for parallelism in (1, 2, 3, 6, 200)] == [1, 2, 3, 6, 6]
    assert [row["n"] for row in rows_of(source, 3)] == list(range(60))
    task = tasks_of(source, 3)[1]
    files = [tmp_path / f"out/train-{number:05}.tfrecords" for number in (2, 3)]
    assert task.metadata.input_files == [str(file) for file in files]
    assert task.metadata.size_bytes == sum(file.stat().st_size for file in files)
    assert source.estimate_inmemory_data_size() == sum(file.stat().st_size for file in (tmp_path / "out").glob("*.tfrecords"))


def test_a_group_of_shards_has_a_largest_size(played: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_frame(tmp_path / "out", [[numbers(10 * part, 10)] for part in range(6)])
    monkeypatch.setattr(reading, "PARTITION_BYTES", 1)
    assert len(tasks_of(played.DataprepDatasource(str(tmp_path / "out")))) == 6


def test_a_limit_of_rows_is_passed_on(played: Any, tmp_path: Path) -> None:
    write_frame(tmp_path / "out", [[numbers(0, 10)]])
    (task,) = tasks_of(played.DataprepDatasource(str(tmp_path / "out")), limit=3)
    assert sum(block.num_rows for block in task()) == 3


def test_tensors_are_rays_and_keep_nulls(played: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "pixels.npy", np.arange(24, dtype=np.uint8).reshape(4, 2, 3))
    run_spec({"source": {"numpy": {"uris": [str(tmp_path / "pixels.npy")]}}, "output": {"uri": str(tmp_path / "out")}})
    (task,) = tasks_of(played.DataprepDatasource(str(tmp_path / "out")))
    block: Any = next(iter(task()))
    (column,) = block.columns
    assert isinstance(column.type, Tensors)
    assert (column.type.shape, column.chunk(0).storage.to_pylist()[1]) == ((2, 3), [6, 7, 8, 9, 10, 11])
    from dataprep_ray.interface import tensors_of_ray

    storage = pa.array([[1, 2], None, [3, 4]], _any.list_(pa.int16(), 2))
    tensors = _any.ExtensionArray.from_storage(_any.fixed_shape_tensor(pa.int16(), (2,)), storage)
    assert tensors_of_ray(tensors.slice(1)).storage.to_pylist() == [None, [3, 4]]


def test_objects_of_a_file_are_never_unpickled() -> None:
    """Ray registers an extension type for Python objects, which would unpickle the values when they are read."""
    objects = _any.ExtensionArray.from_storage(Objects(), pa.array([b"code"], pa.large_binary()))
    kind = ray_type(objects.type, "x")
    assert (kind, as_ray_type(objects, kind).type) == (pa.large_binary(), pa.large_binary())


def test_times_decimals_and_nested_values_keep_their_types(played: Any, tmp_path: Path) -> None:
    rows: Any = pa.RecordBatch.from_arrays(
        [
            pa.array([1, None], pa.timestamp("ns", "Asia/Tokyo")),
            pa.array([20_000, None], pa.date32()),
            pa.array([{"x": [1, None]}, None], pa.struct([("x", pa.list_(pa.int8()))])),
            pa.array(["a", None]).dictionary_encode(),
        ],
        names=["at", "day", "nested", "word"],
    )
    write_frame(tmp_path / "out", [[rows]], format="parquet")
    source = played.DataprepDatasource(str(tmp_path / "out"))
    assert rows_of(source) == rows.to_pylist()


def test_a_split_without_records_has_columns(played: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_frame(tmp_path / "out", [[numbers(0, 2)]])
    source = played.DataprepDatasource(str(tmp_path / "out"), columns=["n"])
    monkeypatch.setattr(reading.Source, "partitions", lambda *_: [])
    (task,) = tasks_of(source)
    assert [(block.schema.names, block.num_rows) for block in task()] == [(["n"], 0)]


def test_a_copy_in_another_process_reads_the_manifest_again(played: Any, tmp_path: Path) -> None:
    write_frame(tmp_path / "out", [[numbers(0, 2)]])
    content = pickle.dumps(played.DataprepDatasource(str(tmp_path / "out")))
    assert b"train-00000" not in content
    assert [row["n"] for row in rows_of(pickle.loads(content))] == [0, 1]  # noqa: S301 - it was pickled just now


def test_a_data_set_that_is_replaced_while_it_is_read_is_not_mixed(played: Any, tmp_path: Path) -> None:
    write_frame(tmp_path / "out", [[numbers(0, 2)], [numbers(2, 2)]])
    first, second = tasks_of(played.DataprepDatasource(str(tmp_path / "out")), 2)
    assert len(list(first())) == 1
    write_frame(tmp_path / "out", [[numbers(50, 2)]], overwrite=True)
    with pytest.raises(BadData, match="out was replaced while it was read. Read it again."):
        list(second())


def test_an_unfinished_data_set_is_refused(played: Any, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="doesn't exist"):
        played.DataprepDatasource(str(tmp_path / "out"))
