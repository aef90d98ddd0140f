"""Spark writes and reads data sets with `dataprep_spark`, while task attempts fail or are slow, and while the driver is killed."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.interop.comparisons import compared
from tests.interop.frame_sets import PATHS, ROOT, files_of, numbers_in, run_until_killed

import environments
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

SCRIPT = ROOT / "tests/interop/readers/spark_source.py"
SPECULATION = ROOT / "tests/interop/readers/spark_speculation.py"
FIELDS = ["n", "word", "half", "digits", "at", "at_ntz", "day", "list", "struct", "map", "messages", "bytes", "sometimes", "flag"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sets")


@pytest.fixture(scope="module")
def left_by_a_killed_driver(folder: Path) -> list[str]:
    """The files that a driver leaves behind if it is killed while its tasks write."""
    run_until_killed("spark", SCRIPT, wanted(folder, "killed"))
    return files_of(folder / "killed")


@pytest.fixture(scope="module")
def said(folder: Path, left_by_a_killed_driver: list[str]) -> Any:
    """The results that Spark reports in a run that starts after an earlier driver was killed."""
    assert left_by_a_killed_driver
    return json.loads(environments.run("spark", SCRIPT, [wanted(folder, "all")]))


def wanted(folder: Path, scenario: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{scenario}.json"
    path.write_text(json.dumps({"paths": PATHS, "folder": str(folder), "scenario": scenario}))
    return path


def test_every_type_is_read_as_it_was_written(said: Any, folder: Path) -> None:
    assert said["refusals"]["types"] is None
    assert said["columns"][1] == [*said["columns"][0], "split"]
    assert said["schemas"][0] == said["schemas"][1]
    assert all(f"{name}:" in said["schemas"][0] for name in FIELDS)
    assert len(said["written"]) == 50
    assert said["read"] == said["written"]
    verify(str(folder / "types"), Access(), every_record=True)
    compared(
        format="parquet",
        reader="Spark with `dataprep_spark`, written and read",
        versions=said["versions"],
        source="a DataFrame",
        records=50,
        fields=FIELDS,
    )


def test_each_record_is_there_once_although_attempts_fail(said: Any, folder: Path) -> None:
    accepted = ("first", "ignored", "appended", "empty")
    assert {name: said["refusals"][name] for name in accepted} == dict.fromkeys(accepted)
    ends = [name.rpartition("-")[2] for name in said["attempts"]]
    assert {"raise", "exit", "None"} <= set(ends)
    assert numbers_in(folder / "failing") == list(range(230))


def test_a_write_that_fails_leaves_the_earlier_data_set_and_no_file(said: Any, folder: Path) -> None:
    assert "this attempt fails" in said["refusals"]["failed"]
    assert not [path for path in files_of(folder / "failing") if "/made/" in path or ".dataprep-tmp-" in path]


def test_a_killed_driver_leaves_nothing_visible_and_the_next_one_succeeds(
    said: Any, folder: Path, left_by_a_killed_driver: list[str]
) -> None:
    assert all(path.startswith("_dataprep/") for path in left_by_a_killed_driver)
    assert said["refusals"]["continued"] is None
    assert numbers_in(folder / "killed") == list(range(60))
    assert not [path for path in files_of(folder / "killed") if "/made/" in path or ".dataprep-tmp-" in path]


def test_each_record_is_there_once_with_speculation(folder: Path) -> None:
    attempts = set(json.loads(environments.run("spark", SPECULATION, [wanted(folder / "speculation", "")])))
    assert {"5-0-slow", "5-1-ends"} <= attempts
    assert "5-0-ends" not in attempts
    assert any(name.endswith("-fails") for name in attempts)
    assert numbers_in(folder / "speculation/set") == list(range(400))
    assert not [path for path in files_of(folder / "speculation/set") if "/made/" in path or ".dataprep-tmp-" in path]


def test_splits_are_a_column_and_columns_are_pruned(said: Any, folder: Path) -> None:
    assert said["refusals"]["splits"] is None
    assert said["splits"] == [[str(n), repr("train" if n % 2 else "test")] for n in range(20)]
    assert numbers_in(folder / "splits", "test") == list(range(0, 20, 2))
    assert said["pruned"] == [["'train'", str(n)] for n in range(60)]


def test_a_path_may_have_the_scheme_that_spark_gives_it(said: Any, folder: Path) -> None:
    assert said["by_path"] == [10, 10, 10]
    assert numbers_in(folder / "path") == list(range(10))


@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        ("mode", "mode('append') contradicts the option mode='overwrite': use mode('overwrite')."),
        ("exists", "and the save mode is errorifexists. Use the mode overwrite, append or ignore, or choose another URI."),
        ("format", "There is no format 'tfrecrod'. Did you mean 'tfrecord'?"),
        ("interval", "The DataFrame's column 'm' is "),
    ],
)
def test_a_refusal_has_its_sentence(said: Any, folder: Path, refusal: str, message: str) -> None:
    assert message in said["refusals"][refusal]
    assert not (folder / "none/_SUCCESS").exists()
