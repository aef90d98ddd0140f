"""A DataFrame becomes a data set like any other.

Even if attempts fail or drivers die, the data set is complete and contains each record once.
"""

from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.builders.dataframes import begin, files_of, numbers, rows_of, run_tasks, write_frame
from tests.builders.jobs import run_spec

from dataprep_api.dataset.plan import Owner
from dataprep_api.formats import RULES
from dataprep_converter.core.errors import BadData, BadSpec, ConvertError, NoInput, NotWhole, OutputExists, OutputLost, Unreachable
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime import makers
from dataprep_converter.stores.files import FileStore
from dataprep_converter.stores.publish import stage_copy
from dataprep_converter.tools import repair
from dataprep_converter.tools.verification import verify
from dataprep_frames import moving, publishing, writing
from dataprep_frames.attempts import write_partition
from dataprep_frames.rows import Rows
from dataprep_frames.writing import Write

PARTITIONS = [[numbers(0, 7), numbers(7, 3)], [], [numbers(10, 5)]]


def checked(folder: Path) -> list[int]:
    """Verify every record of the data set. Return the values of `n` in its records."""
    verify(str(folder), Access(), every_record=True)
    return [row["n"] for row in rows_of(folder)]


def shards_of(folder: Path) -> list[str]:
    return sorted(path for path in files_of(folder) if path[0] not in "_.")


# --- what is written ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", [*RULES])
def test_each_partition_with_rows_becomes_a_file_in_every_format(tmp_path: Path, format_: str) -> None:
    partitions = PARTITIONS
    options: dict[str, Any] = {"format": format_}
    if format_ in ("npz", "recordioProtobuf", "dl4jDataset"):  # formats without text
        partitions = [[batch.select(["n"]) for batch in batches] for batches in PARTITIONS]
    if format_ == "fileBatch":  # this format stores files with their names
        partitions = [[batch.select(["word"]) for batch in batches] for batches in PARTITIONS]
        options["fileBatch_content"] = options["fileBatch_uri"] = "word"
    write_frame(tmp_path / "out", partitions, **options)
    manifest = verify(str(tmp_path / "out"), Access(), every_record=True)
    assert [file.records for file in manifest.files] == [10, 5]
    if format_ == "fileBatch":
        assert [row["word"] for row in rows_of(tmp_path / "out")] == [f"word%20{n}" for n in range(15)]  # in URIs
    else:
        assert [row["n"] for row in rows_of(tmp_path / "out")] == list(range(15))


def test_the_names_have_no_number_of_files(tmp_path: Path) -> None:
    write_frame(tmp_path / "out", PARTITIONS)
    assert shards_of(tmp_path / "out") == ["train-00000.tfrecords", "train-00001.tfrecords"]


def test_a_large_partition_is_divided_at_a_number_of_records(tmp_path: Path) -> None:
    write_frame(tmp_path / "out", PARTITIONS, shards_records="4")
    manifest = verify(str(tmp_path / "out"), Access())
    assert [file.records for file in manifest.files] == [4, 4, 2, 4, 1]
    assert checked(tmp_path / "out") == list(range(15))


def test_a_column_names_the_splits(tmp_path: Path) -> None:
    partitions = [[numbers(0, 4, part=["test", "train", "train", "train"])], [numbers(4, 2, part=["test", "train"])]]
    write_frame(tmp_path / "out", partitions, splitColumn="part")
    manifest = verify(str(tmp_path / "out"), Access(), every_record=True)
    assert {split.name: split.records for split in manifest.splits} == {"test": 2, "train": 4}
    assert [feature["name"] for feature in manifest.features] == ["n", "word"]
    assert [row["n"] for row in rows_of(tmp_path / "out", split="test")] == [0, 4]


def test_a_split_that_comes_back_is_refused(tmp_path: Path) -> None:
    rows = numbers(0, 3, part=["a", "b", "a"])
    write = begin(tmp_path / "out", rows.schema, splitColumn="part")
    with pytest.raises(BadSpec, match=r"df.sortWithinPartitions\('part'\)"):
        run_tasks(write, [[rows]])


def test_too_many_splits_are_refused_before_the_earlier_data_set_is_touched(tmp_path: Path) -> None:
    write_frame(tmp_path / "out", PARTITIONS)
    rows = numbers(0, 17, part=[f"s{n:02}" for n in range(17)])
    write = begin(tmp_path / "out", rows.schema, overwrite=True, splitColumn="part")
    with pytest.raises(BadSpec, match=r"The DataFrame has 17 splits \(s00, s01, s02, …\), but a data set can have at most 16"):
        publishing.commit(write, run_tasks(write, [[rows]]))
    assert checked(tmp_path / "out") == list(range(15))


def test_keys_and_row_numbers_are_unique_over_partitions_and_appends(tmp_path: Path) -> None:
    write_frame(tmp_path / "out", PARTITIONS, format="sequenceFile", shards_records="4")
    write_frame(tmp_path / "out", PARTITIONS, format="sequenceFile", shards_records="4")
    write_frame(tmp_path / "web", PARTITIONS, format="webdataset", shards_records="4")
    write_frame(tmp_path / "web", PARTITIONS, format="webdataset", shards_records="4")
    from dataprep_converter.formats.registry import decoder

    for name, count in (("out", 30), ("web", 30)):
        manifest = verify(str(tmp_path / name), Access())
        keys = []
        for file in manifest.files:
            content = (tmp_path / name / file.file).read_bytes()
            for _, record in decoder(manifest).read(iter([content])):
                keys.append(record[0] if isinstance(record, tuple) else record["__key__"] if "__key__" in record else repr(record))
        assert len(set(keys)) == count


def test_decimals_times_and_nested_values_keep_their_types(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([Decimal("12345678901234567890.123"), None], pa.decimal128(38, 3)),
            pa.array([1, None], pa.timestamp("us", "UTC")),
            pa.array([{"x": 1, "y": ["a"]}, None], pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])),
            pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
            pa.array([b"\0\xff", None], pa.binary()),
        ],
        names=["decimal", "time", "nested", "map", "bytes"],
    )
    write_frame(tmp_path / "out", [[rows]], format="parquet")
    verify(str(tmp_path / "out"), Access(), every_record=True)
    import pyarrow.parquet as pq

    stored: Any = pq
    assert stored.read_table(tmp_path / "out/train-00000.parquet").select(rows.schema.names).to_pylist() == rows.to_pylist()


def test_lists_with_nulls_are_kept_if_the_options_name_them(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict({"x": [[1, None]], "s": [{"y": 1}]})
    with pytest.raises(BadData, match=r"column 'x' has a null among its values; add \"x\" to the option nested to keep such lists"):
        write_frame(tmp_path / "out", [[rows]])
    write_frame(tmp_path / "out", [[rows]], nested="x,s")
    assert rows_of(tmp_path / "out") == [{"s": '{"y":1}', "x": "[1,null]"}]
    with pytest.raises(BadSpec, match="the option nested: there is no column 'z' in the DataFrame"):
        begin(tmp_path / "out", rows.schema, nested="z", overwrite=True)


def test_the_sessions_time_zone_does_not_matter(tmp_path: Path) -> None:
    here = pa.RecordBatch.from_arrays([pa.array([1, 2], pa.timestamp("us", "Asia/Tokyo"))], names=["t"])
    write = begin(tmp_path / "out", pa.schema([("t", pa.timestamp("us", "UTC"))]), format="parquet")
    publishing.commit(write, run_tasks(write, [[here]]))
    assert [row["t"] for row in rows_of(tmp_path / "out")] == [1, 2]


def test_statistics_count_every_record(tmp_path: Path) -> None:
    write_frame(tmp_path / "out", PARTITIONS)
    assert b'"records": 15' in files_of(tmp_path / "out")["_dataprep/statistics.json"].replace(b'"records":15', b'"records": 15')


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"x": pa.null()}, {}, "The DataFrame's column 'x' is null, which records can't contain. Drop the column, or cast it"),
        ({"x": pa.struct([("y", pa.null())])}, {"format": "parquet"}, "The DataFrame's column 'x' is struct<y: null>, which records can't"),
        ({"x": pa.list_(pa.null())}, {}, "The DataFrame's column 'x' is list<item: null>, which records can't contain."),
        ({"x": pa.map_(pa.string(), pa.null())}, {"format": "arrow"}, "The DataFrame's column 'x' is map<string, null>, which records"),
        ({}, {}, "The DataFrame has no columns to write."),
        ({"": pa.int64()}, {}, "The DataFrame has a column whose name is empty. Rename the column."),
        ({"x": pa.int64()}, {"format": "fileBatch", "fileName": "{split}/{shard}"}, "fileBatch.content: there is no feature named"),
        ({"x": pa.string()}, {"format": "npz"}, "The feature 'x' holds bytes or text, but npz holds only arrays of numbers"),
        ({"x": pa.string()}, {"splitColumn": "y"}, "The DataFrame has no column 'y', which the option splitColumn names: it has x."),
        (
            {"x": pa.int64()},
            {"splitColumn": "x"},
            "The column 'x' (splitColumn) has the names of splits, so it must be text, but it is int64.",
        ),
        ({"x": pa.int64()}, {"format": "recordioProtobuf", "split": "test"}, "needs a channel named train"),
        ({"x": pa.int64()}, {"fileName": "_{shard}"}, "no part of the file name may begin with _"),
    ],
)
def test_what_can_not_be_written_is_refused_before_a_task_begins(
    tmp_path: Path, columns: dict[str, pa.DataType], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadSpec) as caught:
        begin(tmp_path / "out", pa.schema(list(columns.items())), **options)
    assert message in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_null_that_the_format_lacks_names_the_row_and_sparks_remedy(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict({"n": [1, None]})
    write = begin(tmp_path / "out", rows.schema, format="mds")
    with pytest.raises(BadData) as caught:
        run_tasks(write, [[numbers(0, 0)], [rows]][1:])
    assert "spark:partition-0, record 1: n has no value" in str(caught.value)
    assert "replace the nulls of n in the DataFrame, with fillna or coalesce" in str(caught.value)
    assert "source" not in str(caught.value)


def test_partitions_whose_keys_would_repeat_are_refused(tmp_path: Path) -> None:
    write = begin(tmp_path / "out", numbers(0, 1).schema, format="sequenceFile")
    with pytest.raises(BadSpec, match=r"at most 1,048,576 partitions, including those of earlier appends. Use df.coalesce\(\)"):
        write_partition(write, [numbers(0, 1)], partition=1 << 20, attempt="1")


def test_a_row_without_a_split_is_refused(tmp_path: Path) -> None:
    rows = numbers(0, 2, part=["a", None])
    write = begin(tmp_path / "out", rows.schema, splitColumn="part")
    with pytest.raises(BadData, match="The column 'part' has no value in some rows"):
        run_tasks(write, [[rows]])


def test_no_rows_are_no_data_set_and_replace_none(tmp_path: Path) -> None:
    write_frame(tmp_path / "out", PARTITIONS)
    before = files_of(tmp_path / "out")
    write = begin(tmp_path / "out", numbers(0, 1).schema, overwrite=True)
    with pytest.raises(NoInput, match="The DataFrame has no rows"):
        publishing.commit(write, run_tasks(write, [[], []]))
    publishing.abort(write)
    assert files_of(tmp_path / "out") == before


# --- save modes ---------------------------------------------------------------------------------------------------


def test_errorifexists_names_the_run_that_is_there(tmp_path: Path) -> None:
    first = write_frame(tmp_path / "out", PARTITIONS, mode="errorifexists")
    with pytest.raises(OutputExists, match=f"the finished data set of run {first.run_id}, and the save mode is errorifexists"):
        begin(tmp_path / "out", numbers(0, 1).schema, mode="errorifexists")


@pytest.mark.parametrize("mode", ["errorifexists", "ignore"])
def test_an_unfinished_run_is_not_replaced_by_other_modes(tmp_path: Path, mode: str) -> None:
    OutputFolder(str(tmp_path / "out"), Access()).of_run("0123456789abcdef").claim()
    with pytest.raises(OutputExists) as caught:
        begin(tmp_path / "out", numbers(0, 1).schema, mode=mode)
    assert str(caught.value).endswith(
        "belongs to the unfinished run 0123456789abcdef, and the save mode is errorifexists or ignore. "
        'Use mode("overwrite"), or choose another URI.'
    )


def test_overwrite_replaces_the_data_set_in_the_commit(tmp_path: Path) -> None:
    write_frame(tmp_path / "out", [[numbers(0, 3)], [numbers(3, 3)]], format="parquet")
    before = files_of(tmp_path / "out")
    write = begin(tmp_path / "out", numbers(0, 1).schema, overwrite=True)
    written = run_tasks(write, [[numbers(50, 2)]])
    assert {path: files_of(tmp_path / "out")[path] for path in before} == before
    publishing.commit(write, written)
    assert checked(tmp_path / "out") == [50, 51]
    assert shards_of(tmp_path / "out") == ["train-00000.tfrecords"]


def test_overwrite_replaces_the_data_set_of_a_job(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("n\n1\n2\n")
    source = {"csv": {"uris": [str(tmp_path / "rows.csv")], "header": True, "columns": [{"name": "n", "type": "Int64"}]}}
    run_spec({"source": source, "output": {"uri": str(tmp_path / "out"), "fileName": "{split}-{shard}.{ext}"}})
    with pytest.raises(BadSpec, match="The options of df.write are not those of the data set"):
        begin(tmp_path / "out", numbers(0, 1).schema)
    write_frame(tmp_path / "out", PARTITIONS, overwrite=True)
    assert checked(tmp_path / "out") == list(range(15))


def test_append_adds_files_and_keeps_the_earlier_ones(tmp_path: Path) -> None:
    write_frame(tmp_path / "out", PARTITIONS, overwrite=True)
    before = {path: content for path, content in files_of(tmp_path / "out").items() if path.startswith("train")}
    write_frame(tmp_path / "out", [[numbers(15, 2)], [numbers(17, 1)]])
    write_frame(tmp_path / "out", [[numbers(18, 1)]], split="test")
    after = files_of(tmp_path / "out")
    assert {path: after[path] for path in before} == before
    assert checked(tmp_path / "out") == list(range(18))
    assert rows_of(tmp_path / "out", split="test") == [{"n": 18, "word": "word 18"}]
    assert shards_of(tmp_path / "out") == ["test-00000.tfrecords", *(f"train-{number:05}.tfrecords" for number in range(4))]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (pa.RecordBatch.from_pydict({"n": [1]}), {}, "its columns are n: int64, word: string, but those of the DataFrame are n: int64"),
        (numbers(0, 1), {"format": "parquet"}, "so the rows can't be appended: format differs"),
        (numbers(0, 1), {"tfrecord_compression": "Gzip"}, 'so the rows can\'t be appended: tfrecord differs. Or use mode("overwrite")'),
    ],
)
def test_other_columns_and_other_options_can_not_be_appended(
    tmp_path: Path, rows: pa.RecordBatch, options: dict[str, Any], message: str
) -> None:
    write_frame(tmp_path / "out", PARTITIONS)
    with pytest.raises(BadSpec) as caught:
        begin(tmp_path / "out", rows.schema, **options)
    assert message in str(caught.value)


def test_a_data_set_that_was_changed_is_not_appended_to(tmp_path: Path) -> None:
    write_frame(tmp_path / "out", PARTITIONS)
    write = begin(tmp_path / "out", numbers(0, 1).schema)
    written = run_tasks(write, [[numbers(15, 1)]])
    (tmp_path / "out/train-00000.tfrecords").write_bytes(b"")
    with pytest.raises(NotWhole, match="has changed since it was written, so it isn't extended"):
        publishing.commit(write, written)
    assert (tmp_path / "out/_SUCCESS").exists()


def test_ignore_writes_nothing_if_there_is_a_data_set(tmp_path: Path) -> None:
    write_frame(tmp_path / "out", PARTITIONS, mode="ignore")
    before = files_of(tmp_path / "out")
    write = begin(tmp_path / "out", pa.schema([("other", pa.int64())]), mode="ignore")
    assert publishing.commit(write, run_tasks(write, [[numbers(50, 2)]])) is None
    publishing.abort(write)
    assert files_of(tmp_path / "out") == before
    assert checked(tmp_path / "out") == list(range(15))


def test_files_of_others_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("x")
    with pytest.raises(OutputExists, match=r"contains mine.txt, which no dataprep run planned there"):
        begin(tmp_path / "out", numbers(0, 1).schema, overwrite=True)


# --- attempts, speculation, killed drivers --------------------------------------------------------------------------


def test_nothing_is_visible_before_the_commit(tmp_path: Path) -> None:
    write = begin(tmp_path / "out", numbers(0, 1).schema)
    run_tasks(write, PARTITIONS)
    assert shards_of(tmp_path / "out") == []
    assert all(path.startswith("_dataprep/") for path in files_of(tmp_path / "out"))


def test_only_the_winners_records_are_published_and_the_losers_files_are_removed(tmp_path: Path) -> None:
    write = begin(tmp_path / "out", numbers(0, 1).schema)
    run_tasks(write, PARTITIONS, first_attempt=100)  # this is a speculative attempt of each task, which also finished
    broken = iter([numbers(0, 4)])

    def failing() -> Any:
        yield next(broken)
        raise ConnectionError("a fetch failed")

    with pytest.raises(ConnectionError):
        write_partition(write, failing(), partition=0, attempt="7")
    publishing.commit(write, run_tasks(write, PARTITIONS, first_attempt=200))
    assert checked(tmp_path / "out") == list(range(15))
    assert sorted({path.split("/")[2] for path in files_of(tmp_path / "out") if path.startswith(f"_dataprep/{write.run_id}/")}) == [
        "manifest.json",
        "plan.json",
        "reports",
        "units.parquet",
    ]
    assert not (tmp_path / f"out/_dataprep/{write.run_id}/made").exists()


def test_an_attempt_that_goes_on_after_the_commit_publishes_nothing(tmp_path: Path) -> None:
    write = begin(tmp_path / "out", numbers(0, 1).schema)

    def slow() -> Any:
        yield numbers(0, 4)
        publishing.commit(write, run_tasks(write, PARTITIONS, first_attempt=200))
        yield numbers(4, 6)

    with pytest.raises((OutputLost, ConvertError)):
        write_partition(write, slow(), partition=0, attempt="7")
    assert checked(tmp_path / "out") == list(range(15))
    assert not [path for path in files_of(tmp_path / "out") if "/made/" in path]


@pytest.fixture
def copying_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes commits copy local files, as on a store that can't move files."""

    class MovesNothing:
        """A class of which no store is an instance."""

    for module in (moving, writing):
        monkeypatch.setattr(module, "MovesFiles", MovesNothing)


@pytest.mark.usefixtures("copying_store")
@pytest.mark.parametrize("format_", ["tfrecord", "mapFile"])
def test_files_are_copied_on_a_store_that_can_not_move_them(tmp_path: Path, format_: str) -> None:
    out = tmp_path / "out"
    write_frame(out, [[numbers(0, 3)], [numbers(3, 3)]], format=format_)
    write_frame(out, PARTITIONS, overwrite=True, format=format_)
    write_frame(out, [[numbers(15, 2)]], format=format_)
    assert checked(out) == list(range(17))
    assert not [path for path in files_of(out) if "/made/" in path or ".dataprep-tmp-" in path]


@pytest.mark.usefixtures("copying_store")
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_the_earlier_data_set_is_there_while_files_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool, fails: bool
) -> None:
    out = tmp_path / "out"
    write_frame(out, [[numbers(0, 3)], [numbers(3, 3)]])
    found = []

    def watched(*args: Any, original: Any = stage_copy, **kwargs: Any) -> Any:
        upload = original(*args, **kwargs)
        found.append([row["n"] for row in rows_of(out)])
        if fails and len(found) > 1:
            raise Unreachable("the store doesn't respond")
        return upload

    write = begin(out, numbers(0, 1).schema, overwrite=overwrite)
    written = run_tasks(write, [[numbers(6, 2)], [numbers(8, 2)]])
    with monkeypatch.context() as patched, pytest.raises(Unreachable) if fails else nullcontext():
        patched.setattr(moving, "stage_copy", watched)
        publishing.commit(write, written)
    publishing.abort(write)
    assert found
    assert all(rows == list(range(6)) for rows in found)
    assert checked(out) == (list(range(6)) if fails else list(range(6, 10)) if overwrite else list(range(10)))
    assert not [path for path in files_of(out) if "/made/" in path or ".dataprep-tmp-" in path]
    before = checked(out)
    write_frame(out, [[numbers(20, 1)]])
    assert checked(out) == [*before, 20]


def test_two_attempts_of_a_partition_are_not_published_together(tmp_path: Path) -> None:
    write = begin(tmp_path / "out", numbers(0, 1).schema)
    written = run_tasks(write, [[numbers(0, 1)]]) + run_tasks(write, [[numbers(0, 1)]], first_attempt=9)
    with pytest.raises(NotWhole, match="two successful attempts for partition 0"):
        publishing.commit(write, written)


@pytest.mark.parametrize("lost", [[0], [1], [2], [0, 1, 2]])
def test_a_partition_without_a_message_is_never_left_out(tmp_path: Path, lost: list[int]) -> None:
    write = begin(tmp_path / "out", numbers(0, 1).schema)
    messages = [None if number in lost else each for number, each in enumerate(run_tasks(write, PARTITIONS))]
    with pytest.raises(NotWhole, match=f"no successful attempt for partition {lost[0]}, so its rows would be missing"):
        publishing.commit(write, messages)
    assert shards_of(tmp_path / "out") == []


def test_an_aborted_write_leaves_no_file(tmp_path: Path) -> None:
    write_frame(tmp_path / "out", PARTITIONS)
    before = files_of(tmp_path / "out")
    write = begin(tmp_path / "out", numbers(0, 1).schema, overwrite=True)
    run_tasks(write, PARTITIONS)
    publishing.abort(write)
    assert files_of(tmp_path / "out") == before
    assert checked(tmp_path / "out") == list(range(15))


def test_a_driver_that_was_killed_before_the_commit_leaves_nothing_that_stops_the_next(tmp_path: Path) -> None:
    run_tasks(begin(tmp_path / "out", numbers(0, 1).schema, mode="errorifexists"), PARTITIONS)
    write_frame(tmp_path / "out", PARTITIONS, mode="errorifexists")
    assert checked(tmp_path / "out") == list(range(15))
    assert not [path for path in files_of(tmp_path / "out") if "/made/" in path]


class Killed(BaseException):
    """Simulates the death of the process."""


def kill_commit(monkeypatch: pytest.MonkeyPatch, write: Write, partitions: list[list[pa.RecordBatch]], *, after: int) -> bool:
    """Commit a write, and die before store operation number `after` + 1. Return whether the commit reached this operation."""
    written = run_tasks(write, partitions)
    done = 0
    with monkeypatch.context() as patched:
        for name in ("put", "create", "move", "remove_folder", "delete"):

            def counted(*args: Any, original: Any = getattr(FileStore, name), **kwargs: Any) -> Any:  # noqa: B008 - of this name
                nonlocal done
                done += 1
                if done > after:
                    raise Killed
                return original(*args, **kwargs)

            patched.setattr(FileStore, name, counted)
        try:
            publishing.commit(write, written)
        except Killed:
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("store", ["renames", "copies"])
@pytest.mark.parametrize("mode", ["overwrite", "append", "errorifexists"])
@pytest.mark.parametrize("every", [10, pytest.param(5, marks=pytest.mark.nightly)])
def test_a_driver_that_was_killed_in_its_commit_is_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, mode: str, store: str, every: int
) -> None:
    if store == "copies":
        request.getfixturevalue("copying_store")
    # Treat the killed process as a process that has ended.
    monkeypatch.setattr(makers, "has_ended", lambda _: True)
    options: dict[str, Any] = {"overwrite": True} if mode == "overwrite" else {"mode": mode}
    earlier = [] if mode == "errorifexists" else list(range(6))
    added = [[numbers(6, 2)], [numbers(8, 2)]]
    finished = [*(earlier if mode == "append" else []), *range(6, 10)]
    # By day, each point is tested on only one of the two stores, in turn.
    was_killed, after = True, 5 if every == 10 and store == "copies" else 0
    while was_killed:
        out = tmp_path / str(after)
        if earlier:
            write_frame(out, [[numbers(0, 3)], [numbers(3, 3)]])
        was_killed = kill_commit(monkeypatch, begin(out, added[0][0].schema, **options), added, after=after)
        has_finished = False
        if (out / "_SUCCESS").exists():
            found = [row["n"] for row in rows_of(out)]
            has_finished = found == finished
            assert has_finished or (was_killed and found == earlier)
        if not has_finished:
            write_frame(out, added, **options)
        assert checked(out) == finished
        assert not [path for path in files_of(out) if (not has_finished and "/made/" in path) or ".dataprep-tmp-" in path]
        after += every
    assert after > 20


def test_warnings_of_the_plan_are_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = begin(tmp_path / "out", numbers(0, 1).schema, mode="errorifexists")
    assert kill_commit(monkeypatch, killed, [[numbers(0, 1)]], after=6)
    monkeypatch.setattr(makers, "has_ended", lambda _: True)
    write = begin(tmp_path / "out", numbers(0, 1).schema, mode="errorifexists")
    result = publishing.commit(write, run_tasks(write, PARTITIONS))
    assert result is not None
    assert [warning for warning in result.warnings if f"the unfinished run {killed.run_id} of this job is replaced" in warning]


# --- afterwards ---------------------------------------------------------------------------------------------------


def test_repair_refuses_by_name(tmp_path: Path) -> None:
    write_frame(tmp_path / "out", PARTITIONS)
    (tmp_path / "out/train-00000.tfrecords").unlink()
    with pytest.raises(BadSpec, match="was written by Spark. The rows of the DataFrame can't be read again"):
        repair.repair(str(tmp_path / "out"), Access())


def test_two_writes_have_different_runs_and_equal_records(tmp_path: Path) -> None:
    first, second = (write_frame(tmp_path / name, PARTITIONS) for name in ("a", "b"))
    assert first.run_id != second.run_id
    assert rows_of(tmp_path / "a") == rows_of(tmp_path / "b")


def test_the_finished_data_set_names_no_process(tmp_path: Path) -> None:
    write = write_frame(tmp_path / "out", PARTITIONS)
    owner = OutputFolder(str(tmp_path / "out"), Access()).owner()
    assert owner == Owner(run_id=write.run_id)


def test_tensors_are_lists_of_any_length(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict({"v": [[0.5, 1.5], [], [2.5]]})
    write_frame(tmp_path / "out", [[rows]])
    assert [row["v"] for row in rows_of(tmp_path / "out")] == [[0.5, 1.5], [], [2.5]]


def test_a_large_batch_is_cut_into_batches_of_the_pipeline(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict({"n": list(range(40_000))})
    write = begin(tmp_path / "out", rows.schema)
    cut = Rows([rows], write.known_schema, write.options, most_in_batch=16_384)
    assert [[batch.num_rows for batch in batches] for _, batches in cut.files(None)] == [[16_384, 16_384, 7_232]]
    wide = pa.RecordBatch.from_pydict({"n": ["x" * 1000] * 20_000})
    cut = Rows([wide], wide.schema, write.options, most_in_batch=16_384)
    assert [[batch.num_rows for batch in batches] for _, batches in cut.files(None)] == [[8_355, 8_355, 3_290]]
