"""Tests the conditions of `partitions`: they choose the right folders, and no file in any other folder is opened or counted."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job
from tests.converter.readers.reader_contract import batches, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadSpec, NotFound
from dataprep_converter.inputs.access import Access, SkippedFiles
from dataprep_converter.readers import reader_class

_pads: Any = pads  # these modules have no type stubs
_pq: Any = pq
_feather: Any = feather
_NO_DATA = b"\x00not a file of any source\xff"
FOLDERS = [f"country={country}/day=2026-01-0{day}" for country in ("at", "de", "fr") for day in (1, 2, 3)]


def put(file: Path, values: list[int]) -> None:
    """Writes a file with a column `x`, in the format that its extension names."""
    file.parent.mkdir(parents=True, exist_ok=True)
    match file.suffix:
        case ".parquet":
            _pq.write_table(pa.table({"x": values}), file)
        case ".arrow":
            _feather.write_feather(pa.table({"x": values}), str(file), compression="uncompressed")
        case ".csv":
            file.write_text("x\n" + "".join(f"{value}\n" for value in values))
        case ".jsonl":
            file.write_text("".join(json.dumps({"x": value}) + "\n" for value in values))
        case _:
            file.write_text("".join(f"{value}\n" for value in values))


def tree(folder: Path, *names: str, ending: str = "parquet") -> Path:
    for number, name in enumerate(names):
        put(folder / name / f"part-0.{ending}", [number])
    return folder


def a_source(*uris: Path | str, kind: str = "parquet", partitions: dict[str, str], types: str = "Infer", **options: Any) -> Source:
    header = {"header": True} if kind == "csv" and "columns" not in options else {}
    spec = {"uris": [str(uri) for uri in uris], "hivePartitions": types, "partitions": partitions, **header, **options}
    return Source.model_validate({kind: spec})


def chosen(source: Source) -> list[str]:
    """The first value of each record that the source reads."""
    return [str(next(iter(row.values()))) for row in rows(batches(reader_class(source.kind), source))]


def skipped(source: Source) -> SkippedFiles:
    """The files that planning counts as skipped."""
    access = Access()
    reader_class(source.kind).discover(source.member, access).collect()
    return access.skipped


CHOICES: dict[str, tuple[list[str], str, list[int]]] = {
    "dates": (["d=2025-12-31", "d=2026-01-01", "d=2026-02-01"], ">= 2026-01-01", [1, 2]),
    "a range": (["d=2025-12-31", "d=2026-01-01", "d=2026-02-01"], ">= 2026-01-01 and < 2026-02-01", [1]),
    "numbers": (["d=9", "d=10", "d=-1"], "> 9", [1]),
    "numbers with zeros": (["d=01", "d=02", "d=12"], "<= 2", [0, 1]),
    "fractions": (["d=1.5", "d=10", "d=2"], ">= 2", [1, 2]),
    "text in quotes": (["d=9", "d=10"], "< '9'", [1]),
    "equal": (["d=at", "d=de"], "== de", [1]),
    "equal with one sign": (["d=at", "d=de"], "= de", [1]),
    "unequal": (["d=at", "d=de", "d=fr"], "!= de", [0, 2]),
    "some": (["d=at", "d=de", "d=fr"], "in at, fr", [0, 2]),
    "some numbers": (["d=01", "d=02", "d=03"], "in 1, 3", [0, 2]),
    "all but some": (["d=at", "d=de", "d=fr"], "not in at, fr", [1]),
    "spaces and commas": (["d=a, b", "d=a"], 'in "a, b"', [0]),
    "escaped": (["d=S%C3%A3o%20Paulo", "d=Rio"], "== 'São Paulo'", [0]),
    "a null": (["d=__HIVE_DEFAULT_PARTITION__", "d=1"], "is null", [0]),
    "no null": (["d=__HIVE_DEFAULT_PARTITION__", "d=1"], "is not null", [1]),
    "a null satisfies nothing else": (["d=__HIVE_DEFAULT_PARTITION__", "d=1", "d=2"], "!= 1", [2]),
    "the word and": (["d=and", "d=or"], "== 'and'", [0]),
}


@pytest.mark.parametrize(("folders", "condition", "expected"), CHOICES.values(), ids=CHOICES.keys())
def test_a_condition_chooses_folders(folders: list[str], condition: str, expected: list[int], tmp_path: Path) -> None:
    source = a_source(tree(tmp_path, *folders), partitions={"d": condition})
    assert sorted(chosen(source)) == [str(number) for number in expected]


@pytest.mark.parametrize("condition", [">= 2026-01-02", "!= 2026-01-02", "== 2026-01-03", "in 2026-01-01, 2026-01-03"])
def test_they_choose_what_a_filter_of_pyarrow_chooses(condition: str, tmp_path: Path) -> None:
    day = _pads.field("day")
    filters = {
        ">= 2026-01-02": day >= "2026-01-02",
        "!= 2026-01-02": day != "2026-01-02",
        "== 2026-01-03": day == "2026-01-03",
        "in 2026-01-01, 2026-01-03": day.isin(["2026-01-01", "2026-01-03"]),
    }
    tree(tmp_path, *FOLDERS)
    expected = _pads.dataset(str(tmp_path), partitioning="hive").to_table(filter=filters[condition]).to_pylist()
    found = rows(batches(reader_class("parquet"), a_source(tmp_path, partitions={"day": condition})))
    assert [{name: row[name] for name in ("x", "country", "day")} for row in found] == expected


@pytest.mark.parametrize(
    ("kind", "ending"), [("csv", "csv"), ("jsonl", "jsonl"), ("text", "txt"), ("parquet", "parquet"), ("arrow", "arrow")]
)
def test_nothing_in_other_folders_is_opened_or_counted(kind: str, ending: str, tmp_path: Path) -> None:
    tree(tmp_path, *FOLDERS, ending=ending)
    for name in FOLDERS:
        if name != "country=de/day=2026-01-02":
            (tmp_path / name / f"part-0.{ending}").write_bytes(_NO_DATA)
            (tmp_path / name / "_started").write_bytes(b"")
    (tmp_path / "country=de/day=2026-01-02/_committed").write_bytes(b"")
    source = a_source(tmp_path, kind=kind, partitions={"country": "== de", "day": "> 2026-01-01 and < 2026-01-03"})
    assert chosen(source) == ["4"]
    assert skipped(source).count() == 1


def test_a_data_set_in_another_folder_is_not_counted(tmp_path: Path) -> None:
    tree(tmp_path, "d=1", "d=2", "d=2/set")
    (tmp_path / "d=2/set/_dataprep").mkdir()
    (tmp_path / "d=2/set/_dataprep/OWNER").write_text("{}")
    assert skipped(a_source(tmp_path, partitions={"d": "> 0"})).in_data_sets == {f"{tmp_path}/d=2/set": 1}
    assert skipped(a_source(tmp_path, partitions={"d": "== 1"})).in_data_sets == {}


def test_types_are_those_of_the_folders_that_are_read(tmp_path: Path) -> None:
    tree(tmp_path, "d=1", "d=x")
    (row,) = rows(batches(reader_class("parquet"), a_source(tmp_path, partitions={"d": "== '1'"})))
    assert row["d"] == 1


def test_with_string_types_values_are_compared_as_text(tmp_path: Path) -> None:
    tree(tmp_path, "zip=01067", "zip=80331", "zip=9")
    assert chosen(a_source(tmp_path, partitions={"zip": "< 2"}, types="String")) == ["0"]


def test_columns_of_the_spec_give_types(tmp_path: Path) -> None:
    tree(tmp_path, "ok=true/n=9", "ok=False/n=10", ending="csv")
    columns = [{"name": "x", "type": "Int64"}, {"name": "ok", "type": "Bool"}, {"name": "n", "type": "String"}]
    options: dict[str, Any] = {"kind": "csv", "header": True, "columns": columns}
    assert chosen(a_source(tmp_path, partitions={"ok": "== false"}, **options)) == ["1"]
    assert chosen(a_source(tmp_path, partitions={"n": "< 9"}, **options)) == ["1"]


def test_globs_and_files_are_chosen_too(tmp_path: Path) -> None:
    tree(tmp_path, *FOLDERS)
    assert chosen(a_source(f"{tmp_path}/country=*/*/*.parquet", partitions={"day": "== 2026-01-02"})) == ["1", "4", "7"]
    files = [tmp_path / name / "part-0.parquet" for name in FOLDERS]
    assert chosen(a_source(*files, partitions={"country": "in at, fr", "day": "== 2026-01-02"})) == ["1", "7"]


def test_a_uri_may_have_no_file_left_if_another_has(tmp_path: Path) -> None:
    tree(tmp_path / "old", "d=2025-01-01")
    tree(tmp_path / "new", "d=2026-01-01", "d=2026-01-02")
    assert chosen(a_source(tmp_path / "old", tmp_path / "new", partitions={"d": ">= 2026-01-01"})) == ["0", "1"]


def test_no_file_left_is_an_error_with_the_conditions(tmp_path: Path) -> None:
    tree(tmp_path, "d=2025-01-01")
    with pytest.raises(NotFound) as caught:
        chosen(a_source(tmp_path, partitions={"d": ">= 2026-01-01"}))
    assert str(caught.value) == f"source.parquet.partitions (d >= 2026-01-01) leaves out every file of {tmp_path}."


def test_a_missing_folder_is_still_an_error(tmp_path: Path) -> None:
    tree(tmp_path, "d=1")
    with pytest.raises(NotFound, match="absent"):
        chosen(a_source(tmp_path, tmp_path / "absent", partitions={"d": "== 1"}))


REFUSED: dict[str, tuple[str, dict[str, str], dict[str, Any], str]] = {
    "another key": (
        "d=1",
        {"date": "== 1"},
        {},
        "source.csv.partitions: {0}/d=1/part-0.csv is in no folder that is named date=VALUE; its folders have the keys d.",
    ),
    "text beside a number": (
        "d=2026-01-01",
        {"d": ">= 2026"},
        {},
        (
            "{0}/d=2026-01-01/: '2026-01-01' in the name of its folder is not a number, so source.csv.partitions can't compare it with 2026 "
            "(column 'd'). To compare text, write the value in quotes."
        ),
    ),
    "a folder of another type": (
        "d=x",
        {"d": ">= 1"},
        {"columns": [{"name": "x", "type": "Int64"}, {"name": "d", "type": "Int64"}]},
        "{0}/d=x/: 'x' in the name of its folder is not of the type Int64, so source.csv.partitions can't compare it with 1 (column 'd').",
    ),
    "a value of another type": (
        "d=1",
        {"d": ">= x"},
        {"columns": [{"name": "x", "type": "Int64"}, {"name": "d", "type": "Int64"}]},
        "source.csv.partitions: 'x' is not of the type Int64, which the column 'd' has.",
    ),
}


@pytest.mark.parametrize(("folder", "partitions", "options", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_conditions_that_can_not_be_tested_are_refused(
    folder: str, partitions: dict[str, str], options: dict[str, Any], text: str, tmp_path: Path
) -> None:
    tree(tmp_path, folder, ending="csv")
    with pytest.raises(BadSpec) as caught:
        chosen(a_source(tmp_path, kind="csv", partitions=partitions, **options))
    assert str(caught.value) == text.format(tmp_path)


@pytest.mark.parametrize("text", ["", "de", ">=", ">= 1 or < 2", "in", "not 1", "is 1", "> 1 and", "=> 1", "in at,", "== a b", "between 1"])
def test_text_that_is_no_condition_is_refused_in_the_spec(text: str) -> None:
    with pytest.raises(ValidationError, match="is not a condition; expected tests such as `>= 2026-01-01 and < 2026-02-01`"):
        a_source("in", partitions={"d": text})


def test_a_quote_that_is_never_closed_is_refused() -> None:
    with pytest.raises(ValidationError, match="d: .* is not a condition: \"'de\" can't be read; expected tests"):
        a_source("in", partitions={"d": "== 'de"})


def test_conditions_need_the_columns_of_folder_names() -> None:
    with pytest.raises(ValidationError, match="partitions needs hivePartitions: Infer or String"):
        Source.model_validate({"csv": {"uris": ["in"], "partitions": {"d": "== 1"}}})


def test_the_run_id_changes_with_them_and_with_the_files_that_are_read_only(tmp_path: Path) -> None:
    tree(tmp_path / "in", "d=1", "d=2", ending="csv")

    def run(condition: str | None) -> str:
        source = {"uris": [str(tmp_path / "in")], "header": True, "hivePartitions": "Infer"}
        source |= {} if condition is None else {"partitions": {"d": condition}}
        output = tmp_path / "out"
        shutil.rmtree(output, ignore_errors=True)
        run_job(parse_job({"source": {"csv": source}, "features": [{"name": "x"}], "output": {"uri": str(output), "format": "jsonl"}}))
        run_id: str = json.loads((output / "_SUCCESS").read_text())["runId"]
        return run_id

    first = run("== 2")
    assert len({first, run(None), run("== 1"), run(">= 1")}) == 4
    put(tmp_path / "in/d=1/part-0.csv", [77, 78])
    assert run("== 2") == first
