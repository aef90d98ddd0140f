"""Rows are appended to a data set. For any split and format, the existing files and records remain unchanged."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.builders.dataframes import begin, files_of, numbers, rows_of, run_tasks, write_frame
from tests.builders.jobs import run_spec

from dataprep_converter.core.errors import BadSpec, NoInput, NotWhole, OutputExists
from dataprep_converter.dataset.output_folder import RunFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify
from dataprep_frames import publishing, reading
from dataprep_spark.options import read_options
from dataprep_spark.spark_types import TYPES

ROWS = [[numbers(0, 2)]]


def checked(folder: Path, split: str = "train") -> list[int]:
    """Verify every record of the data set. Return the values of `n` in a split's records."""
    verify(str(folder), Access(), every_record=True)
    return [row["n"] for row in rows_of(folder, split=split)]


# --- other splits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ({"format": "sequenceFile"}, {"split": "test"}),
        ({"format": "sequenceFile"}, {"splitColumn": "word"}),
        ({"format": "mapFile"}, {"split": "test"}),
        ({"format": "mapFile"}, {"splitColumn": "word"}),
        ({"fileName": "part-{shard}.{ext}"}, {"split": "test"}),
    ],
)
def test_a_split_whose_files_would_have_the_names_of_others_is_refused(
    tmp_path: Path, options: dict[str, Any], more: dict[str, Any]
) -> None:
    rows = numbers(0, 2).drop_columns(["word"])
    write_frame(tmp_path / "out", [[rows]], **options)
    before = files_of(tmp_path / "out")
    columns = numbers(0, 1).schema if "splitColumn" in more else rows.schema
    with pytest.raises(BadSpec, match=r"Rows of other splits than train can't be appended to .*part-.*must contain \{split\}"):
        begin(tmp_path / "out", columns, **options, **more)
    assert files_of(tmp_path / "out") == before
    assert checked(tmp_path / "out") == [0, 1]


@pytest.mark.parametrize("format_", ["sequenceFile", "mapFile"])
def test_a_data_set_with_a_folder_for_each_split_takes_other_splits(tmp_path: Path, format_: str) -> None:
    write_frame(tmp_path / "out", [[numbers(0, 2, part=["a", "a"])]], splitColumn="part", format=format_)
    write_frame(tmp_path / "out", [[numbers(2, 2)]], split="b", format=format_)
    write_frame(tmp_path / "out", [[numbers(4, 2)]], split="a", format=format_)
    assert (checked(tmp_path / "out", "a"), checked(tmp_path / "out", "b")) == ([0, 1, 4, 5], [2, 3])


def test_a_format_that_needs_a_split_named_train_takes_others_beside_it(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict({"x": [1.0, 2.0]})
    write_frame(tmp_path / "out", [[rows]], format="recordioProtobuf")
    write_frame(tmp_path / "out", [[rows]], format="recordioProtobuf", split="test")
    manifest = verify(str(tmp_path / "out"), Access(), every_record=True)
    assert [(split.name, split.records) for split in manifest.splits] == [("train", 2), ("test", 2)]
    with pytest.raises(BadSpec, match="needs a channel named train, but none of the splits has that name: test"):
        begin(tmp_path / "new", rows.schema, format="recordioProtobuf", split="test")


def test_a_commit_never_replaces_a_file_of_the_data_set_that_it_extends(tmp_path: Path) -> None:
    options: dict[str, Any] = {"fileName": "part-{shard}.{ext}"}
    write_frame(tmp_path / "out", ROWS, **options)
    write = begin(tmp_path / "out", numbers(0, 1).schema, **options)
    write = replace(write, options=replace(write.options, split="test"))  # begin_write refuses this split
    written = run_tasks(write, [[numbers(5, 2)]])
    with pytest.raises(NotWhole, match="would have the name part-00000.tfrecords, so nothing was changed"):
        publishing.commit(write, written)
    publishing.abort(write)
    assert checked(tmp_path / "out") == [0, 1]


def test_rows_are_appended_to_the_data_set_of_a_job_with_the_same_columns_and_options(tmp_path: Path) -> None:
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, numbers(0, 1).schema) as writer:
        writer.write_batch(numbers(0, 3))
    output = {"uri": str(tmp_path / "out"), "overwrite": "Extend", "fileName": "{split}-{shard}.{ext}"}
    run_spec({"source": {"arrow": {"uris": [str(tmp_path / "a.arrow")]}}, "output": output})
    write_frame(tmp_path / "out", [[numbers(3, 2)]])
    assert sorted(checked(tmp_path / "out")) == [0, 1, 2, 3, 4]


# --- no rows ------------------------------------------------------------------------------------------------------


def test_an_append_without_rows_changes_nothing(tmp_path: Path) -> None:
    write_frame(tmp_path / "out", ROWS)
    before = files_of(tmp_path / "out")
    write = begin(tmp_path / "out", numbers(0, 1).schema)
    assert publishing.commit(write, run_tasks(write, [[], []])) is None
    assert files_of(tmp_path / "out") == before


def test_an_append_without_rows_makes_no_data_set(tmp_path: Path) -> None:
    write = begin(tmp_path / "out", numbers(0, 1).schema)
    with pytest.raises(NoInput, match="The DataFrame has no rows"):
        publishing.commit(write, [])
    assert not (tmp_path / "out/_SUCCESS").exists()


# --- unfinished data sets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", ["claim", "place"])
def test_rows_are_not_appended_to_a_data_set_whose_overwrite_was_not_finished(
    tmp_path: Path, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_frame(tmp_path / "out", [[numbers(0, 2)], [numbers(2, 2)]])
    write = begin(tmp_path / "out", numbers(0, 1).schema, overwrite=True)
    written = run_tasks(write, [[numbers(50, 2)]])

    class Killed(BaseException):
        """Simulates the death of the driver."""

    def killed(*_: object, **__: object) -> None:
        raise Killed

    where: tuple[Any, str] = (RunFolder, "put_plan") if after == "claim" else (publishing, "place")
    with monkeypatch.context() as patched:
        patched.setattr(*where, killed)
        with pytest.raises(Killed):
            publishing.commit(write, written)
    before = files_of(tmp_path / "out")
    with pytest.raises(NotWhole, match=r'has no _SUCCESS, but has train-00000.tfrecords of an unfinished run.*mode\("overwrite"\)'):
        begin(tmp_path / "out", numbers(0, 1).schema)
    assert files_of(tmp_path / "out") == before
    write_frame(tmp_path / "out", [[numbers(50, 2)]], overwrite=True)
    assert checked(tmp_path / "out") == [50, 51]


def test_files_of_others_are_named_when_rows_are_appended(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("x")
    with pytest.raises(OutputExists, match="contains mine.txt, which no dataprep run planned there"):
        begin(tmp_path / "out", numbers(0, 1).schema)


# --- the order of columns -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", ["tfrecord", "parquet", "jsonl"])
def test_columns_are_read_in_their_order_and_appended_by_name(tmp_path: Path, format_: str) -> None:
    rows = pa.RecordBatch.from_pydict({"z": [1], "a": [2], "s": [{"y": 3, "x": 4}]})
    write_frame(tmp_path / "out", [[rows]], format=format_)
    source, _ = reading.open_source(read_options({"path": str(tmp_path / "out")}), TYPES)
    columns = ["z", "a", "s/y", "s/x"] if format_ == "tfrecord" else ["z", "a", "s"]
    assert source.schema.names == [*columns, "split"]
    write_frame(tmp_path / "out", [[rows.select(["s", "a", "z"])]], format=format_)
    verify(str(tmp_path / "out"), Access(), every_record=True)
    source, manifest = reading.open_source(read_options({"path": str(tmp_path / "out")}), TYPES)
    assert source.schema.names == [*columns, "split"]
    found = [row for part in source.partitions(manifest) for batch in source.batches(part) for row in batch.to_pylist()]
    assert (len(found), found[0]) == (2, found[1])
    assert (found[0]["z"], found[0]["a"]) == (1, 2)


def test_without_the_plan_columns_are_in_the_order_of_the_records(tmp_path: Path) -> None:
    write = write_frame(tmp_path / "out", [[pa.RecordBatch.from_pydict({"z": [1], "a": [2]})]])
    (tmp_path / f"out/_dataprep/{write.run_id}/plan.json").write_text("{}")
    source, _ = reading.open_source(read_options({"path": str(tmp_path / "out")}), TYPES)
    assert source.schema.names == ["a", "z", "split"]
