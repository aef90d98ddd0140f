"""`dataprep infer` on tables like those found in practice: tables with missing values, and JSON files that contain a single array."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.converter.cli.commandline import code_of
from tests.converter.cli.inference import inferred

from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify


def records(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Runs the job with JSON Lines as its output format, which keeps nulls. Returns the records."""
    assert code_of("run", folder / "job.yaml", "--quiet", "--set", "output.format=jsonl") == 0
    capsys.readouterr()
    (shard,) = (folder / "out").glob("*.jsonl")
    return [json.loads(line) for line in shard.read_text().splitlines()]


def test_missing_values_are_found_and_written_into_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("price,city,note\n1.5,Rome,\n-,?,none\n2.5,,x\nNA,Oslo,x\n")
    written, spec = inferred(tmp_path / "a.csv", tmp_path)
    assert spec["source"]["csv"]["nullWordsOf"] == {"price": ["-", "NA"], "city": ["", "?"], "note": [""]}
    assert "# missing values: price (- and NA), city (empty and ?), note (empty); remove words that are values from " in written
    assert "# column price: float, 2 of 4 empty, 2 different values, such as 1.5, 2.5\n" in written
    assert records(tmp_path, capsys) == [
        {"price": 1.5, "city": "Rome", "note": None},
        {"price": None, "city": None, "note": "none"},
        {"price": 2.5, "city": None, "note": "x"},
        {"price": None, "city": "Oslo", "note": "x"},
    ]


@pytest.mark.slow
def test_a_word_far_below_the_first_rows_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("n,text\n" + "1,some words that fill the first MiB of the file\n" * 30_000 + "nil,end\n")
    _, spec = inferred(tmp_path / "a.csv", tmp_path)
    assert spec["source"]["csv"]["nullWordsOf"] == {"n": ["nil"]}
    assert [record["n"] for record in records(tmp_path, capsys)[-2:]] == [1, None]


@pytest.mark.slow
def test_a_row_that_the_end_of_the_first_bytes_cuts_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,text\nNA,x\n" + '1,"two\n\n\n\nlines"\n' * 250_000)
    assert (tmp_path / "a.csv").stat().st_size > 4 << 20
    _, spec = inferred(tmp_path / "a.csv", tmp_path)
    assert spec["source"]["csv"]["nullWordsOf"] == {"n": ["NA"]}


def test_a_missing_label_is_no_class(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,label\n1,a\n2,NA\n3,b\n")
    written, _ = inferred(tmp_path / "a.csv", tmp_path)
    assert "# guessed label: column label (2 values in the first records: a, b)\n" in written


def test_a_column_of_numbers_with_other_cells_is_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cylinders = ["4"] * 56 + ["rotary"] + ["6"] * 36
    (tmp_path / "a.csv").write_text("cylinders,price\n" + "".join(f"{each},{number}\n" for number, each in enumerate(cylinders)))
    written, spec = inferred(tmp_path / "a.csv", tmp_path)
    assert spec["source"]["csv"]["columns"] == [{"name": "cylinders", "type": "String"}, {"name": "price", "type": "Int64"}]
    assert (
        "# column cylinders is text, because of 93 cells, 1 is not a Int64, such as 'rotary'; if such cells are wrong, "
        "give the column the type Int64 and set onBadRecord.policy: Skip\n"
    ) in written
    assert [record["cylinders"] for record in records(tmp_path, capsys)] == cylinders


@pytest.mark.slow
def test_a_number_of_another_type_far_below_the_first_rows_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("n,text\n" + "1,some words that fill the first MiB of the file\n" * 30_000 + "1.5,end\n")
    _, spec = inferred(tmp_path / "a.csv", tmp_path)
    assert spec["source"]["csv"]["columns"] == [{"name": "n", "type": "Float32"}, {"name": "text", "type": "String"}]
    assert [record["n"] for record in records(tmp_path, capsys)[-2:]] == [1, 1.5]


def test_the_first_files_of_a_folder_are_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("n,x\n1,2\n3,4\n")
    (tmp_path / "in/b.csv").write_text("n,x\n1.5,-\n")
    _, spec = inferred(tmp_path / "in", tmp_path)
    assert spec["source"]["csv"]["nullWordsOf"] == {"x": ["-"]}
    assert spec["source"]["csv"]["columns"] == [{"name": "n", "type": "Float32"}, {"name": "x", "type": "Int64"}]
    assert records(tmp_path, capsys) == [{"n": 1, "x": 2}, {"n": 3, "x": 4}, {"n": 1.5, "x": None}]


@pytest.mark.parametrize("header", ["x,n", "n,y", "n,x,y"], ids=["another order", "another name", "one more"])
def test_files_with_other_headers_are_named_and_not_looked_at(header: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("n,x\n1,2\n3,4\n")
    (tmp_path / "in/b.csv").write_text(f"{header}\n-,1.5{',a' if header.count(',') > 1 else ''}\n")
    (tmp_path / "in/c.csv").write_text("n,x\n5,?\n")
    written, spec = inferred(tmp_path / "in", tmp_path)
    assert spec["source"]["csv"] == {"uris": [str(tmp_path / "in")], "header": True, "nullWordsOf": {"x": ["?"]}}
    notes = [line for line in written.splitlines() if "the header of" in line]
    assert notes == [
        f"# check: the header of {tmp_path}/in/b.csv has different columns from {tmp_path}/in/a.csv, or a different column order"
    ]


def test_a_first_file_with_only_a_header_has_the_columns_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("n,x\n")
    (tmp_path / "in/b.csv").write_text("n,x\n1,2\n3,NA\n")
    (tmp_path / "in/c.csv").write_text("x,n\n")
    written, spec = inferred(tmp_path / "in", tmp_path)
    assert spec["source"]["csv"]["nullWordsOf"] == {"x": ["NA"]}
    notes = [line for line in written.splitlines() if "the header of" in line]
    assert notes == [
        f"# check: the header of {tmp_path}/in/c.csv has different columns from {tmp_path}/in/a.csv, or a different column order"
    ]


# The output of write.table(head(d), "a.txt") in R 4.3, with and without sep.
WRITTEN_BY_R = '"mpg" "gear" "kind"\n"Mazda RX4" 21 4 "a b"\n"Fiat 128" NA 4 "c"\n"Toyota Corolla" 33.9 5 NA\n'


@pytest.mark.parametrize("delimiter", [" ", ","])
def test_tables_of_r_without_a_name_for_their_rows(delimiter: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quoted = re.split(r' (?=(?:[^"]*"[^"]*")*[^"]*$)', WRITTEN_BY_R)
    (tmp_path / "a.csv").write_text(delimiter.join(quoted))
    written, _ = inferred(tmp_path / "a.csv", tmp_path)
    assert "# the header has no name for the first column, which is called '0'\n" in written
    assert records(tmp_path, capsys) == [
        {"0": "Mazda RX4", "mpg": 21.0, "gear": 4, "kind": "a b"},
        {"0": "Fiat 128", "mpg": None, "gear": 4, "kind": "c"},
        {"0": "Toyota Corolla", "mpg": 33.9, "gear": 5, "kind": None},
    ]


def test_a_name_that_is_too_long_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("x,a" + "b" * 300 + "\n1,2\n")
    assert code_of("infer", tmp_path / "a.csv") == 2
    said = capsys.readouterr().err
    assert (
        "a.csv: the header's name for column 1 has 301 characters, but column names have 1 to 256. Check source.csv.delimiter. If it is right,"
        in said
    )


def test_errors_name_the_file_and_not_the_copy_of_its_beginning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1/a b.jsonl.gz").write_bytes(gzip.compress(b'{"x": 1}\n{"x": "a"}\n'))
    assert code_of("infer", tmp_path) == 2
    said = capsys.readouterr().err
    assert f"dataprep: error: {tmp_path}/day=1/a b.jsonl.gz: 'x' has values of several types: Int64 (line 1), String (line 2); " in said


@pytest.mark.parametrize("layout", ["indented", "one line", "beyond the first bytes"])
def test_an_array_of_objects_is_read_as_jsonl(layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"n": number, "x": None if number % 3 else number / 4, "s": "é" * 50} for number in range(3000 if "beyond" in layout else 30)]
    (tmp_path / "a.json").write_text(json.dumps(rows, indent=2 if layout == "indented" else None, ensure_ascii=False))
    written, spec = inferred(tmp_path / "a.json", tmp_path)
    assert spec["source"] == {"jsonl": {"uris": [str(tmp_path / "a.json")]}}
    assert "# column n: int64, " in written
    assert records(tmp_path, capsys) == rows
    assert verify(str(tmp_path / "out"), Access()).records_out == len(rows)
