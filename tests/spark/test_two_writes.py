"""Two writes to one folder: the one that commits second changes nothing and names the other."""

from pathlib import Path
from typing import Any

import pytest
from tests.builders.dataframes import begin, files_of, numbers, rows_of, run_tasks, write_frame

from dataprep_converter.core.errors import NotWhole
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify
from dataprep_spark import publishing

SCHEMA = numbers(0, 1).schema


def checked(folder: Path) -> list[int]:
    """Verify every record of the data set. Return the numbers in its records."""
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
    options = {"format": "mapFile", "fileName": "{split}-{shard}"}
    write = begin(out, SCHEMA, overwrite=True, **options)
    written = run_tasks(write, [[numbers(50, 2)], [numbers(52, 2)]])
    spoil(next(path for path in sorted((out / "_dataprep").rglob(file)) if f"/made/{written[1].attempt}/" in str(path)))
    with pytest.raises(NotWhole, match=message):
        publishing.commit(write, written)
    publishing.abort(write)
    assert checked(out) == [0, 1]
