"""Two writes to the same folder. The write that commits second changes nothing, and its error names the other write."""

from pathlib import Path
from typing import Any

import pytest
from tests.builders.dataframes import begin, files_of, numbers, rows_of, run_tasks, write_frame

from dataprep_converter.core.errors import NotWhole, OutputLost
from dataprep_converter.dataset.output_folder import RunFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify
from dataprep_frames import publishing
from dataprep_frames.attempts import write_partition

SCHEMA = numbers(0, 1).schema


def checked(folder: Path) -> list[int]:
    """Verify every record of the data set. Return the values of `n` in its records."""
    verify(str(folder), Access(), every_record=True)
    return [row["n"] for row in rows_of(folder)]


@pytest.mark.parametrize(
    ("mode", "earlier"),
    [("overwrite", True), ("overwrite", False), ("append", True), ("append", False), ("errorifexists", False), ("ignore", False)],
)
def test_the_data_set_of_the_first_commit_stays_as_it_is(tmp_path: Path, mode: str, earlier: bool) -> None:
    out = tmp_path / "out"
    options: dict[str, Any] = {"overwrite": True} if mode == "overwrite" else {"mode": mode}
    if earlier:
        write_frame(out, [[numbers(90, 2)], [numbers(92, 2)]], overwrite=True)
    first, second = (begin(out, SCHEMA, **options) for _ in range(2))
    late = run_tasks(second, [[numbers(50, 2)], [numbers(52, 2)]])
    publishing.commit(first, run_tasks(first, [[numbers(0, 2)], [numbers(2, 2)]]))
    finished = checked(out)
    assert finished[-4:] == [0, 1, 2, 3]
    with pytest.raises(NotWhole, match=f"Another run, {first.run_id}, has finished a data set in .* Nothing was changed there."):
        publishing.commit(second, late)
    publishing.abort(second)
    assert checked(out) == finished
    assert not [path for path in files_of(out) if "/made/" in path]


def test_a_data_set_that_is_no_longer_finished_is_not_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    before = write_frame(out, [[numbers(0, 2)]])
    write = begin(out, SCHEMA, overwrite=True)
    written = run_tasks(write, [[numbers(50, 2)]])
    (out / "_SUCCESS").unlink()
    with pytest.raises(NotWhole, match=f"The data set of run {before.run_id} in .* is no longer finished"):
        publishing.commit(write, written)
    assert [row for row in files_of(out) if row.startswith("train")] == ["train-00000.tfrecords"]


@pytest.mark.parametrize("file", ["data", "index"])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (Path.unlink, "is gone, although its task has succeeded"),
        (lambda path: path.write_bytes(b"x"), "has changed since its task wrote it"),
    ],
    ids=["gone", "changed"],
)
def test_a_file_that_is_no_longer_as_its_task_wrote_it_is_noticed_before_anything_is_changed(
    tmp_path: Path, file: str, spoil: Any, message: str
) -> None:
    out = tmp_path / "out"
    write_frame(out, [[numbers(0, 2)]])
    options: dict[str, Any] = {"format": "mapFile", "fileName": "{split}-{shard}"}
    write = begin(out, SCHEMA, overwrite=True, **options)
    written = run_tasks(write, [[numbers(50, 2)], [numbers(52, 2)]])
    spoil(next(path for path in sorted((out / "_dataprep").rglob(file)) if f"/made/{written[1].attempt}/" in str(path)))
    with pytest.raises(NotWhole, match=message):
        publishing.commit(write, written)
    publishing.abort(write)
    assert checked(out) == [0, 1]


# --- attempts that come too late ------------------------------------------------------------------------------------


def test_an_attempt_that_begins_after_the_commit_leaves_no_file(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write = begin(out, SCHEMA)
    publishing.commit(write, run_tasks(write, [[numbers(0, 2)]]))
    before = files_of(out)
    with pytest.raises(OutputLost, match="the driver has begun to publish other attempts, so this attempt comes too late"):
        write_partition(write, [numbers(0, 2)], partition=0, attempt="99")
    assert files_of(out) == before


def test_an_attempt_that_claims_its_folder_after_the_commit_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    write = begin(out, SCHEMA)
    written = run_tasks(write, [[numbers(0, 2)]])
    claim = RunFolder.claim

    def late(folder: RunFolder, maker: Any = None) -> None:
        if folder.uri.endswith("/99"):
            monkeypatch.undo()
            publishing.commit(write, written)
        claim(folder, maker)

    monkeypatch.setattr(RunFolder, "claim", late)
    with pytest.raises(OutputLost, match="comes too late"):
        write_partition(write, [numbers(0, 2)], partition=0, attempt="99")
    assert not [path for path in files_of(out) if "/made/" in path]
    assert checked(out) == [0, 1]


def test_tasks_end_if_the_commit_would_be_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first, second = (begin(out, SCHEMA, overwrite=True) for _ in range(2))
    publishing.commit(first, run_tasks(first, [[numbers(0, 2)]]))
    before = files_of(out)
    with pytest.raises(NotWhole, match=f"Another run, {first.run_id}, has finished a data set"):
        write_partition(second, [numbers(5, 2)], partition=0, attempt="99")
    assert files_of(out) == before


def test_a_damaged_owner_stops_no_overwrite(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_frame(out, [[numbers(0, 2)]])
    (out / "_dataprep/OWNER").write_text("{")
    write_frame(out, [[numbers(5, 2)]], overwrite=True)
    assert checked(out) == [5, 6]
