"""Ray Data writes and reads data sets with `dataprep_ray`, while tasks fail, and while workers and the driver are killed."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.builders.data_sets import data_set, lines
from tests.builders.pages import python_code
from tests.interop.comparisons import compared
from tests.interop.frame_sets import PATHS, ROOT, files_of, numbers_in, run_until_killed

import environments
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

SCRIPT = ROOT / "tests/interop/readers/ray_data.py"
FIELDS = ["n", "half", "digits", "at", "day", "list", "struct", "bytes", "sometimes", "flag"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sets")


@pytest.fixture(scope="module")
def left_by_a_killed_driver(folder: Path) -> list[str]:
    """The files that a driver leaves behind if it is killed while its tasks write."""
    run_until_killed("ray", SCRIPT, wanted(folder, "killed"))
    return files_of(folder / "killed")


@pytest.fixture(scope="module")
def said(folder: Path, left_by_a_killed_driver: list[str]) -> Any:
    """The results that Ray reports in a run that starts after an earlier driver was killed."""
    assert left_by_a_killed_driver
    data_set(folder / "documented", lines(200), [{"name": "image_raw", "columns": ["a", "b"]}])
    environments.run("ray", SCRIPT, [wanted(folder, "all")])
    return json.loads((folder / "said.json").read_text())


def wanted(folder: Path, scenario: str) -> Path:
    path = folder / f"{scenario}.json"
    code = {"code": python_code("docs/reading.md", "## Ray Data"), "uri": str(folder / "documented" / "set")}
    path.write_text(json.dumps({"paths": PATHS, "folder": str(folder), "scenario": scenario} | code))
    return path


def hidden(folder: Path) -> list[str]:
    return [path for path in files_of(folder) if "/made/" in path or ".dataprep-tmp-" in path]


def test_every_type_is_read_as_it_was_written(said: Any, folder: Path) -> None:
    assert said["refusals"]["types"] is None
    assert len(said["written"]) == 20
    assert said["read"] == said["written"]
    verify(str(folder / "types"), Access(), every_record=True)
    compared(
        format="parquet",
        reader="Ray Data with `dataprep_ray`, written and read",
        versions=said["versions"],
        source="a Dataset",
        records=20,
        fields=FIELDS,
    )


def test_tensors_are_numpy_arrays_of_their_shape(said: Any, folder: Path) -> None:
    assert said["refusals"]["tensors"] is None
    assert said["images"] == {"data": [[10, 4, 3, 2], "uint8", sum(range(240))]}
    manifest = verify(str(folder / "tensors"), Access(), every_record=True)
    assert [feature["shape"] for feature in manifest.features] == [[4, 3, 2]]


def test_each_record_is_there_once_although_attempts_fail_and_workers_are_killed(said: Any, folder: Path) -> None:
    accepted = ("first", "ignored", "appended", "empty")
    assert {name: said["refusals"][name] for name in accepted} == dict.fromkeys(accepted)
    ends = {name.rpartition("-")[2] for name in said["attempts"] if name.startswith("30-200-10/")}
    assert {"raise", "exit", "None"} <= ends
    assert numbers_in(folder / "failing") == list(range(230))


def test_a_write_that_fails_leaves_the_earlier_data_set_and_no_file(said: Any, folder: Path) -> None:
    assert "this attempt fails" in said["refusals"]["failed"]
    assert hidden(folder / "failing") == []


def test_a_killed_driver_leaves_nothing_visible_and_the_next_one_succeeds(
    said: Any, folder: Path, left_by_a_killed_driver: list[str]
) -> None:
    assert all(path.startswith("_dataprep/") for path in left_by_a_killed_driver)
    assert said["refusals"]["continued"] is None
    assert numbers_in(folder / "killed") == list(range(60))
    assert hidden(folder / "killed") == []


def test_splits_are_a_column_and_columns_are_pruned(said: Any, folder: Path) -> None:
    assert said["refusals"]["splits"] is None
    assert said["splits"] == [{"n": str(n), "part": repr("train" if n % 2 else "test")} for n in range(20)]
    assert numbers_in(folder / "splits", "test") == list(range(0, 20, 2))
    assert said["pruned"] == [{"n": str(n)} for n in range(60)]
    assert said["limited"] == 7


def test_a_read_goes_on_after_its_worker_was_killed(said: Any) -> None:
    assert "read" in said["attempts"]
    assert said["read_after_a_kill"] == list(range(230))


def test_columns_that_differ_between_tasks_need_a_schema(said: Any, folder: Path) -> None:
    assert "The column 'n' is int64 in the rows of task 0, but double in those of task 1. Set schema" in said["refusals"]["mixed"]
    assert said["refusals"]["schema"] is None
    assert numbers_in(folder / "mixed") == sorted([*range(10), *(n / 2 for n in range(10, 20))])


def test_operators_that_are_fused_with_the_write_run_as_usual(said: Any, folder: Path) -> None:
    assert said["refusals"]["sampled"] is None
    verify(str(folder / "sampled"), Access(), every_record=True)


def test_the_code_in_the_docs_works(said: Any) -> None:
    assert sorted(pair for images in said["documented"] for pair in images) == sorted([n / 8, -float(n)] for n in range(200))


def test_blocks_of_pandas_are_written(said: Any, folder: Path) -> None:
    assert said["refusals"]["pandas"] is None
    assert numbers_in(folder / "pandas") == list(range(20))


@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        ("exists", "and the save mode is errorifexists. Use the mode overwrite, append or ignore, or choose another URI."),
        ("format", "There is no format 'tfrecrod'. Did you mean 'tfrecord'?"),
    ],
)
def test_a_refusal_has_its_sentence(said: Any, folder: Path, refusal: str, message: str) -> None:
    assert message in said["refusals"][refusal]
    assert not (folder / "none/_SUCCESS").exists()
