"""Tests the inference of CSV column types.

The tests cover words for missing values, bad cells among numbers, digits beyond float32, and versions of the inference rule.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.jobs import run_job, verified_run
from tests.builders.specs import parse_job
from tests.converter.readers.reader_contract import batches, faults, opened, plan, rows

from dataprep_api.dataset import run_id
from dataprep_api.dataset.report import Manifest
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.joins.join import JoinReader
from dataprep_converter.readers.text.csv_inference import MISSING
from dataprep_converter.readers.text.csv_sequences import CsvSequencesReader
from dataprep_converter.readers.text.delimited import CsvReader
from dataprep_converter.readers.text.jsonl import JsonlReader
from dataprep_converter.tools import repair
from dataprep_converter.tools.verification import verify
from dataprep_reader import open as open_data_set


def column(*cells: str) -> str:
    return "".join(f"{cell}\n" for cell in cells)


def numbers(count: int) -> list[str]:
    return [f"{number}.5" for number in range(count)]


def of_text(folder: Path, text: str, **options: Any) -> Source:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in/a.csv").write_text(text)
    return Source.model_validate({"csv": {"uris": [str(folder / "in")], **options}})


def types(source: Source) -> list[str]:
    return [found["type"] for found in plan(CsvReader, source)[1]["columns"]]


def a_job(folder: Path, *, policy: str = "Fail", **spec: Any) -> DataPrepJob:
    source = {"csv": {"uris": [str(folder / "in")]}}
    output = {"uri": str(folder / "out"), "overwrite": "IfChanged"}
    written = {"source": source, "onBadRecord": {"policy": policy}, "output": output, **spec}
    return parse_job(written, name="csv")


# --- one bad cell -------------------------------------------------------------------------------------------------


def test_one_bad_cell_among_numbers_is_a_bad_record_and_the_others_are_floats(tmp_path: Path) -> None:
    of_text(tmp_path, column(*numbers(10), "oops", *numbers(10)))
    manifest = verified_run(a_job(tmp_path, policy="Skip"))
    assert (manifest.records_out, manifest.bad) == (20, 1)
    assert [(feature["name"], feature["dtype"]) for feature in manifest.features] == [("0", "float32")]
    assert [(each.uri, each.reason) for each in manifest.bad_examples] == [
        (f"{tmp_path}/in/a.csv", "line 11: 'oops' is not a Float32 (column '0')")
    ]
    (values,) = [batch["0"].tolist() for batch in open_data_set(str(tmp_path / "out"), batch_size=20)]
    assert values == [float(number) for number in numbers(10) * 2]


def test_one_bad_cell_fails_a_job_with_file_line_and_cell_also_where_columns_are_a_vector(tmp_path: Path) -> None:
    of_text(tmp_path, "".join(f"{number},{'oops' if number == 3 else number / 2}\n" for number in range(21)))
    with pytest.raises(BadData) as caught:
        verified_run(a_job(tmp_path, features=[{"name": "features", "columns": ["0", "1"]}]))
    assert f"{tmp_path}/in/a.csv, record 3: line 4: 'oops' is not a Float32 (column '1')" in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        (
            {"features": [{"name": "x", "columns": ["0", "1"]}]},
            "The feature 'x': text and numbers can't share a vector: 0 (bytes), 1 (int64); turn the text into numbers with the transform vocabulary.",
        ),
        (
            {"features": [{"name": "0", "dtype": "float32"}]},
            "The feature '0': 0 can't become float32; turn the text into numbers with the transform vocabulary, or give the column a type of numbers in the source.",
        ),
        (
            {"labels": [{"name": "0", "numClasses": 2}]},
            "The feature '0': numClasses needs whole numbers, but the label's type is bytes; turn the text into numbers with the transform vocabulary.",
        ),
        ({"transforms": [{"scale": {"columns": ["0"], "toMax": 2}}]}, "The transform scale takes numbers, but the column '0' is string."),
        (
            {"transforms": [{"cast": {"columns": ["0"], "dtype": "float32"}}]},
            "The transform cast takes numbers, but the column '0' is string.",
        ),
    ],
)
def test_where_too_few_cells_are_numbers_the_first_other_one_is_named(tmp_path: Path, spec: dict[str, Any], what: str) -> None:
    of_text(tmp_path, column("1.5,1", "", "NA,2", "x,1,1", '"2\n",1', "2.5,1", "oops,2"))
    with pytest.raises(BadSpec) as caught:
        verified_run(a_job(tmp_path, **spec))
    assert str(caught.value) == (
        f"{what} In the first rows of {tmp_path}/in/a.csv 2 of 4 cells of the column '0' are not numbers; the first of these cells is in line 5, '2\\n', so the "
        "column is text. If such cells are bad or missing values, give the column a numeric type in source.csv.columns and set "
        "onBadRecord.policy: Skip, or name the words for missing values in source.csv.nullWords."
    )


def test_why_a_column_is_text_is_told_of_joins_and_stays_out_of_plans(tmp_path: Path) -> None:
    of_text(tmp_path, "id,a\n1,x\n2,1\n", header=True)
    table = {"source": {"csv": {"uris": [str(tmp_path / "in")], "header": True}}}
    source = {"join": {"keys": ["id"], "tables": [{"name": "t", **table}, {"name": "u", "prefix": "u_", **table}]}}
    with pytest.raises(BadSpec, match=r"the column 'a' are not numbers; the first of these cells is in line 2, 'x'"):
        verified_run(a_job(tmp_path, source=source, features=[{"name": "u_a", "dtype": "int64"}]))
    verified_run(a_job(tmp_path, source=source, features=[{"name": "u_a"}]))
    (stored,) = (tmp_path / "out/_dataprep").glob("*/plan.json")
    assert b"no numbers" not in stored.read_bytes()


def test_hexadecimal_digits_among_other_numbers_are_cells_that_do_not_fit(tmp_path: Path) -> None:
    source = of_text(tmp_path, column(*numbers(99), "0x1F"))
    assert types(source) == ["Float32"]
    assert types(of_text(tmp_path, column(*map(str, range(50)), *["0x1F"] * 50))) == ["Int64"]
    assert types(of_text(tmp_path, column(*numbers(50), *["0x1F"] * 50))) == ["String"]


def test_the_plan_warns_of_cells_that_do_not_fit(tmp_path: Path) -> None:
    source = of_text(tmp_path, "x,y\n" + "".join(f"{number},{'oops' if number == 3 else number}\n" for number in range(21)), header=True)
    assert plan(CsvReader, source)[1]["warnings"] == [
        f"{tmp_path}/in/a.csv: among 21 cells of the column 'y' in the first rows, 1 is not a Int64, such as 'oops'; give source.csv.columns if the column is text"
    ]
    source = of_text(tmp_path, (tmp_path / "in/a.csv").read_text(), header=True, select=["x"])
    assert "warnings" not in plan(CsvReader, source)[1]


def test_the_plan_warns_of_a_header_that_nobody_told_of(tmp_path: Path) -> None:
    rows = "".join(f"{number},{number},{'cat' if number % 2 else 'dog'}\n" for number in range(30))
    told = [
        f"{tmp_path}/in/a.csv: among 31 cells of the column '{column}' in the first rows, 1 is not a Int64, such as '{name}'; set source.csv.header: true if the first line is a header"
        for column, name in enumerate("xy")
    ]
    assert plan(CsvReader, of_text(tmp_path, "x,y,kind\n" + rows))[1]["warnings"] == told
    others = plan(CsvReader, of_text(tmp_path, "x,0,kind\n1,oops,kind\n" + rows))[1]["warnings"]
    assert ["header: true" in warning for warning in others] == [False, False]


def test_a_join_warns_of_cells_of_its_tables(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,x\n" + "".join(f"{number},{'oops' if number == 3 else number}\n" for number in range(21)))
    (tmp_path / "b.csv").write_text("k,y\n" + "".join(f"{number},{number}\n" for number in range(21)))
    tables = [{"name": name, "source": {"csv": {"uris": [str(tmp_path / f"{name}.csv")], "header": True}}} for name in "ab"]
    source = Source.model_validate({"join": {"keys": ["k"], "tables": tables, "missing": "Drop"}})
    first, *_ = plan(JoinReader, source)[1]["warnings"]
    assert first.startswith(
        f"join, table a: {tmp_path}/a.csv: among 21 cells of the column 'x' in the first rows, 1 is not a Int64, such as 'oops'"
    )


@pytest.mark.parametrize(("others", "expected"), [(19, "Float32"), (18, "String")])
def test_a_column_is_numeric_when_95_of_100_filled_cells_are_numbers(tmp_path: Path, others: int, expected: str) -> None:
    assert types(of_text(tmp_path, "".join(f"{cell},1\n" for cell in [*numbers(others), "oops", "", "", "NA"]))) == [expected, "Int64"]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1"] * 40 + ["oops"], "Int64"),
        (["1"] * 40 + ["1.5", "oops"], "Float32"),
        (["1"] * 40 + ["2020-01-01"], "Int64"),
        (["true"] * 40 + ["oops"], "Bool"),
        (["true"] * 20 + ["1"] * 20, "Bool"),
        (["1"] * 40 + ["true"], "Bool"),
        (["1"] * 40 + ["true", "oops"], "Int64"),
        (["0x1F"] * 40 + ["oops"], "Int64"),
        (["12345678901234567890"] * 40 + ["oops"], "Float64"),
        (["nan", "inf"] * 20 + ["oops"], "Float32"),
        (['"1"', '" 2 "'] * 20 + ["oops"], "Int64"),
        (["2020-01-01"] * 40 + ["oops"], "String"),
        (["NA"] * 40, "String"),
        ([""] * 3 + ["x"], "String"),
    ],
    ids=str,
)
def test_types_with_cells_that_do_not_fit(tmp_path: Path, cells: list[str], expected: str) -> None:
    assert types(of_text(tmp_path, "".join(f"{cell},1\n" for cell in cells))) == [expected, "Int64"]


@pytest.mark.slow
@given(
    st.lists(
        st.sampled_from(
            ["1", "-2", "+3", "0.5", ".5", "5.", "1e5", "nan", "-INF", "0x10", "true", "x", "1_0", "", " 7 ", "NA", "e5", "2e", "+-1"]
        ),
        min_size=20,
        max_size=60,
    )
)
def test_what_makes_a_column_numeric_are_cells_that_are_read_as_numbers(tmp_path_factory: pytest.TempPathFactory, cells: list[str]) -> None:
    """For any cells: if a column isn't text, at least 95% of its filled cells can be read. A column of only numbers is never text."""
    source = of_text(tmp_path_factory.mktemp("csv"), "".join(f"{cell},1\n" for cell in cells))
    found = batches(CsvReader, source)
    filled = [cell for cell in cells if cell not in ("", "NA")]
    (kind, _) = types(source)
    if kind != "String":
        assert len(rows(found)) >= 0.95 * len(filled)
    bad = [cell for cell in filled if cell in ("x", "1_0", "true", "0x10", "e5", "2e", "+-1")]
    if filled and len(bad) <= 0.05 * len(filled):
        assert kind != "String"


# --- words for missing values -------------------------------------------------------------------------------------


def test_words_for_missing_values_are_empty_cells_in_columns_of_numbers_and_text_in_others(tmp_path: Path) -> None:
    source = of_text(tmp_path, "1,0.5,a\nNA,n/a,NA\n3,null,null\n4,1.5,b\n")
    assert types(source) == ["Int64", "Float32", "String"]
    found = batches(CsvReader, source, nulls="Bad")
    assert faults(found) == {
        1: "line 2: column '0' is empty or a word such as NA, and has no default",
        2: "line 3: column '1' is empty or a word such as NA, and has no default",
    }
    source = of_text(tmp_path, "1,0.5,a\nNA,n/a,NA\n3,null,null\n4,1.5,b\n", select=["2"])
    assert [row["2"] for row in rows(batches(CsvReader, source))] == ["a", "NA", "null", "b"]


@pytest.mark.parametrize("word", MISSING)
def test_each_word_may_be_most_of_a_column(tmp_path: Path, word: str) -> None:
    assert types(of_text(tmp_path, column("1.5", *[word] * 9))) == ["Float32"]


def test_words_that_the_spec_names_are_the_only_ones(tmp_path: Path) -> None:
    source = of_text(tmp_path, "1,a\n-,NA\nNA,-\n", nullWords=["-"])
    assert types(source) == ["String", "String"]
    assert [list(row.values())[:2] for row in rows(batches(CsvReader, source))] == [["1", "a"], ["", "NA"], ["NA", ""]]


def test_the_words_are_frozen_in_the_state(tmp_path: Path) -> None:
    source = of_text(tmp_path, "1\nNA\n")
    units, state = plan(CsvReader, source)
    assert state["nullWords"] == list(MISSING)
    with opened(CsvReader, source, state | {"nullWords": ["?"]}) as reader:
        (batch,) = reader.read(units, iter([pa.array([0, 1]).to_numpy()]))
        assert [bad.reason for bad in batch.bad] == ["line 2: 'NA' is not a Int64 (column '0')"]
        assert "nullWords" not in plan(CsvReader, of_text(tmp_path, "1\n", columns=[{"name": "x", "type": "Int64"}]))[1]


# --- digits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("123.456", "Float32"),
        ("1234.567", "Float64"),
        ("1700000100.25", "Float64"),
        ("0.000123456", "Float32"),
        ("0.0001234567", "Float64"),
        ("-12.34500000", "Float32"),
        ("123456000.0", "Float32"),
        ("1.25e10", "Float32"),
        ("1.2345678e-5", "Float64"),
        ("1e39", "Float64"),
        ("1e-40", "Float64"),
        ("0.0", "Float32"),
        ("inf", "Float32"),
        ("100000000000000000000", "Float32"),
        ("123456789012345678901", "Float64"),
    ],
)
@pytest.mark.parametrize("bad", ["", "oops"])
def test_text_with_more_digits_than_float32_guarantees_is_float64(tmp_path: Path, cell: str, expected: str, bad: str) -> None:
    assert types(of_text(tmp_path, "".join(f"{each},1\n" for each in ["0.5"] * 20 + [cell, bad]))) == [expected, "Int64"]


def test_an_epoch_time_is_read_as_it_is_and_a_format_of_float32_says_so(tmp_path: Path) -> None:
    source = of_text(tmp_path, "1700000100.25\n1700000101.5\n")
    assert [row["0"] for row in rows(batches(CsvReader, source))] == [1700000100.25, 1700000101.5]
    planned, _ = run_job(a_job(tmp_path))
    assert any("the feature '0' is stored as float32" in warning for warning in planned.warnings)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "2.5"], "Float32"),
        (["1", "16777217"], "Int64"),
        (["1.5", "16777217"], "Float64"),
        (["1700000100.25"], "Float64"),
        (["1e-40"], "Float64"),
        (["12.3400000", "NaN"], "Float32"),
        (["1e39", "1.5"], "Float64"),
        (["123456789012345678901"], "Float64"),
        (["100000000000000000000"], "Float32"),
    ],
    ids=str,
)
def test_numbers_of_json_are_float64_where_they_have_more_digits_too(tmp_path: Path, values: list[str], expected: str) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"x": {value}, "l": [0, {value}]}}\n' for value in values))
    source = Source.model_validate({"jsonl": {"uris": [str(tmp_path / "a.jsonl")]}})
    access = Access()
    assert [column["type"] for column, _ in plan(JsonlReader, source)[1]["columns"]] == [expected, expected]
    access.parts = {}
    _, state = JsonlReader.discover(source.member, access).collect()
    assert {column["type"] for column, _ in state["columns"]} == {expected.replace("Float64", "Float32")}


# --- sequences ----------------------------------------------------------------------------------------------------


def of_sequences(folder: Path, files: dict[str, str], **options: Any) -> Source:
    (folder / "in").mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / "in" / name).write_text(text)
    return Source.model_validate({"csvSequences": {"uris": [str(folder / "in")], **options}})


@pytest.mark.parametrize(("number", "kind"), [("%s", "Int64"), ("[%s]", "list of Int64")])
def test_values_of_several_types_are_called_as_columns_are(tmp_path: Path, number: str, kind: str) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"x": {value}}}\n' for value in (number % 1, number % 16777217, '"word"')))
    with pytest.raises(BadSpec, match=rf"'x' has values of several types: {kind} \(line 1\), String \(line 3\);"):
        plan(JsonlReader, Source.model_validate({"jsonl": {"uris": [str(tmp_path)]}}))


def test_a_bad_cell_of_a_sequence_is_told_with_its_line_and_the_others_are_numbers(tmp_path: Path) -> None:
    source = of_sequences(tmp_path, {"a.csv": column(*numbers(12)), "b.csv": column("1.5", "oops"), "c.csv": column(*numbers(12), "n/a")})
    _, state = plan(CsvSequencesReader, source)
    assert [found["type"] for found in state["columns"]] == ["Float32"]
    assert state["nullWords"] == list(MISSING)
    assert faults(batches(CsvSequencesReader, source)) == {
        1: "line 2: 'oops' is not a Float32 (column '0')",
        2: "line 13: column '0' is empty or a word such as NA, and has no default",
    }


def test_words_for_missing_values_are_those_of_the_files_whose_columns_are_inferred(tmp_path: Path) -> None:
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels/a.csv").write_text("1\nNA\n")
    labels = {"uris": [str(tmp_path / "labels")]}
    given = [{"name": "x", "type": "Float32"}]
    source = of_sequences(tmp_path, {"a.csv": "1.5\nNA\n"}, labels=labels, columns=given)
    _, state = plan(CsvSequencesReader, source)
    assert "nullWords" not in state
    assert (state["labelNullWords"], state["labels"]) == (list(MISSING), [{"name": "label", "type": "Int64", "required": False}])
    assert faults(batches(CsvSequencesReader, source)) == {0: "line 2: 'NA' is not a Float32 (column 'x')"}


@pytest.mark.parametrize("header", ["time,what", "time,n/a"])
def test_a_header_above_many_rows_of_numbers_is_still_noticed(tmp_path: Path, header: str) -> None:
    body = "".join(f"{number},{number / 2}\n" for number in range(100))
    with pytest.raises(BadSpec, match=r"a\.csv, line 1: this row looks like a header above rows of numbers\."):
        plan(CsvSequencesReader, of_sequences(tmp_path, {"a.csv": f"{header}\n{body}", "b.csv": f"{header}\n{body}"}))


def test_a_first_row_of_missing_values_is_no_header(tmp_path: Path) -> None:
    body = "".join(f"{number},{number / 2}\n" for number in range(100))
    _, state = plan(CsvSequencesReader, of_sequences(tmp_path, {"a.csv": f"NA,\n{body}"}))
    assert [found["type"] for found in state["columns"]] == ["Int64", "Float32"]


# --- versions of the rule -----------------------------------------------------------------------------------------

TEXT = column(*numbers(25), "oops", "NA", "1700000100.25")


def version_of(source: dict[str, Any]) -> int | None:
    job = parse_job({"source": source, "output": {"uri": "out"}}, name="csv")
    return run_id.versions(job.spec).get("inference")


GIVEN = [{"name": "x", "type": "Int64"}]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"csv": {"uris": ["in"]}}, 2),
        ({"csv": {"uris": ["in"], "columns": GIVEN}}, None),
        ({"csvSequences": {"uris": ["in"]}}, 2),
        ({"csvSequences": {"uris": ["in"], "columns": GIVEN}}, None),
        ({"csvSequences": {"uris": ["in"], "columns": GIVEN, "labels": {"uris": ["l"]}}}, 2),
        ({"csvSequences": {"uris": ["in"], "columns": GIVEN, "labels": {"uris": ["l"], "columns": GIVEN}}}, None),
        ({"jsonl": {"uris": ["in"]}}, 2),
        ({"jsonl": {"uris": ["in"], "columns": GIVEN}}, None),
        ({"parquet": {"uris": ["in"]}}, None),
        (
            {"join": {"keys": ["x"], "tables": [{"name": "a", "source": {"parquet": {"uris": ["a"]}}}, {"name": "b", "source": {"csv": {"uris": ["b"]}}}]}},
            2,
        ),
    ],
    ids=str,
)  # fmt: skip
def test_only_jobs_that_infer_have_the_part(source: dict[str, Any], expected: int | None) -> None:
    assert version_of(source) == expected


def made_by_the_first_rule(job: DataPrepJob, monkeypatch: pytest.MonkeyPatch) -> Manifest:
    with monkeypatch.context() as then:
        then.setattr(run_id, "versions", lambda _spec: {})
        return verified_run(job)


def test_a_data_set_of_the_first_rule_is_extended_and_repaired_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_text(tmp_path, TEXT)
    job = a_job(tmp_path, output={"uri": str(tmp_path / "out"), "format": "parquet", "overwrite": "Extend"})
    before = made_by_the_first_rule(job, monkeypatch)
    assert [(feature["name"], feature["dtype"]) for feature in before.features] == [("0", "bytes")]
    (tmp_path / "in/b.csv").write_text("text\n")
    after = verified_run(job)
    assert (after.records_out, after.parts) == (29, {})
    assert after.files[0] == before.files[0]
    (tmp_path / "out" / after.files[1].file).unlink()
    repair.repair(str(tmp_path / "out"), Access())
    assert verify(str(tmp_path / "out"), Access(), every_record=True) == after


def test_a_lost_plan_of_the_first_rule_is_made_again_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_text(tmp_path, TEXT)
    before = made_by_the_first_rule(a_job(tmp_path), monkeypatch)
    for lost in (tmp_path / "out" / before.files[0].file, tmp_path / "out/_dataprep" / before.run_id / "plan.json"):
        lost.unlink()
    repair.repair(str(tmp_path / "out"), Access())
    assert verify(str(tmp_path / "out"), Access(), every_record=True) == before


def test_a_finished_data_set_of_the_first_rule_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_text(tmp_path, TEXT)
    job = a_job(tmp_path, policy="Skip")
    before = made_by_the_first_rule(job, monkeypatch)
    after = verified_run(job)
    assert (before.records_out, after.records_out, after.parts) == (28, 27, {"inference": 2, "nulls": 2})


def test_an_unfinished_run_of_the_first_rule_goes_on_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_text(tmp_path, TEXT)
    job = a_job(tmp_path)
    before = made_by_the_first_rule(job, monkeypatch)
    (tmp_path / "out/_SUCCESS").unlink()
    (tmp_path / "out" / before.files[0].file).unlink()
    assert verified_run(job).files == before.files
    plan_of_old = OutputFolder(str(tmp_path / "out"), Access()).of_run(before.run_id).plan()
    assert plan_of_old is not None
    assert plan_of_old.head.reader_state["columns"] == [{"name": "0", "type": "String", "required": False}]
