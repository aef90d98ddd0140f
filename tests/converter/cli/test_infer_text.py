"""`dataprep infer` on text: tables in CSV files of many kinds, encodings and compressed files."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from tests.builders.packed import PACKERS
from tests.converter.cli.commandline import code_of
from tests.converter.cli.inference import features, inferred, text

from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify
from workbench import example_inputs

_arrow: Any = pa
_feather: Any = pyarrow.feather
_parquet: Any = pyarrow.parquet


CSVS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "numbers without a header": (
        "a.csv", "1.0,3.2,0\n1.6,2.4,1\n2,3,1\n", {},
        {"labels": [{"name": "label", "columns": ["-1"]}], "features": [{"name": "features", "columns": ["0..-2"]}]},
    ),
    "a first line of another kind": ("a.csv", "4,x,y\n1.5,2,0\n1.5,2,0\n2.5,3,1\n", {"skipLines": 1}, {}),
    "tabs": ("a.tsv", "x\ty\n1\t2\n3\t4\n", {"delimiter": "\t", "header": True}, {"labels": [{"name": "y"}]}),
    "semicolons and decimals with commas": ("a.csv", "x;z\n1,5;2\n3,5;4\n", {"delimiter": ";", "header": True}, {}),
    "a name that tells nothing": ("data", "x,z\n1,2\n3,4\n", {"header": True}, {}),
    "pandas' index": ("a.csv", ",x,z\n0,1.5,a\n1,2.5,b\n", {"header": True}, {}),
    "pandas' index and columns without names": ("a.csv", ",0,1\n0,1.5,a\n1,0,1\n", {"header": True}, {}),
    "pandas' index of two levels": ("a.csv", ",,x\na,0,1.5\na,1,2.5\nb,0,3.5\n", {"header": True}, {}),
    "pandas' columns without an index": ("a.csv", "0,1,2,3\n5,1,7,8\n5,0,7,9\n", {"header": True}, {}),
    "R's row names": ("a.csv", '"","mpg","gear"\n"Mazda RX4",21,"4"\n"Fiat 128",32.4,"4"\n', {"header": True}, {}),
    "R's numbered rows of text": ("a.csv", '"","name","city"\n"1","Ann","Rome"\n"2","Bob","Oslo"\n', {"header": True}, {}),
    "a delimiter at the end of each line": ("a.csv", "x,z,\n1,a,\n3,b,\n", {"header": True}, {}),
    "a name that is also a value": ("a.csv", "kind,z\nkind,1\nsort,2\n", {"header": True}, {}),
    "years as names": ("a.csv", "land,1990,1995,2000\nA,1.5,2,3\nB,1,2,3\n", {"header": True}, {}),
    "a missing value in the first row": ("a.csv", ",a,x\nb,a,x\nb,c,z\n", {"nullWordsOf": {"0": [""]}}, {}),
    "a row that counts up": ("a.csv", "1,2,3,4\n2,2,3,9\n7,1,3,4\n", {}, {}),
    "a title": ("a.csv", "Flowers of 1936\n\nx,z\n1,a\n3,b\n4,c\n", {"skipLines": 1, "header": True}, {}),
    "a count of rows and columns": ("a.csv", "3,2,no,yes\n1,2,0\n4,5,1\n2,2,1\n", {"skipLines": 1}, {}),
    "a name that two columns have": ("a.csv", "x,x\n1,2\n3,4\n", {"skipLines": 1}, {}),
    "semicolons and many decimals with commas": ("a.csv", "x;z\n" + "1,5;2\n" * 9, {"delimiter": ";", "header": True}, {}),
    "semicolons and only decimals with commas": ("a.csv", "1,5;2,5\n3,5;4,5\n", {"delimiter": ";"}, {}),
    "lists within cells": ("a.csv", "x,z\n1,a;b\n2,c;d\n", {"header": True}, {}),
    "numbers with spaces": ("a.csv", "Chins Jumps\n5 162\n2 110\n", {"delimiter": " ", "header": True}, {}),
    "a class in a named column": ("a.csv", "Label,z\n1,2\n0,4\n", {"header": True}, {"labels": [{"name": "Label"}]}),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "source", "more"), CSVS.values(), ids=CSVS.keys())
def test_csv_files_of_many_kinds(name: str, content: str, source: dict[str, Any], more: dict[str, Any], tmp_path: Path) -> None:
    _, spec = inferred(text(tmp_path / name, content), tmp_path)
    assert spec["source"]["csv"] == {"uris": [str(tmp_path / name)]} | source
    for field, value in more.items():
        assert spec[field] == value
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0


def test_a_column_without_a_name_gets_one_and_is_told(tmp_path: Path) -> None:
    written, _ = inferred(text(tmp_path / "a.csv", ",length,kind\n0,1.5,a\n1,2.5,b\n"), tmp_path)
    assert "# the header has no name for column 0, which is called '0'\n" in written
    assert "# column 0: int64, 2 different values, such as 0, 1\n# column length: float, 2 different values, such as 1.5, 2.5\n" in written
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert features(tmp_path / "out") == ["0", "kind", "length"]


def test_a_name_is_never_given_twice(tmp_path: Path) -> None:
    written, _ = inferred(text(tmp_path / "a.csv", ",0,1\n7,1.5,a\n8,2.5,b\n"), tmp_path)
    assert "# the header has no name for column 0, which is called 'unnamed_0'\n" in written
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert features(tmp_path / "out") == ["0", "1", "unnamed_0"]


def test_lines_above_the_rows_are_told(tmp_path: Path) -> None:
    written, _ = inferred(text(tmp_path / "a.csv", "3,2,no,yes\n1,2,0\n4,5,1\n2,2,1\n"), tmp_path)
    assert "# the first line is skipped, because the rows have a different number of cells: 3,2,no,yes\n" in written
    written, _ = inferred(text(tmp_path / "b.csv", "x,x\n1,2\n3,4\n"), tmp_path)
    assert (
        "# the first line has the name 'x' twice, so it can't be the header and is skipped; source.csv.columns can name the columns\n"
        in written
    )


def test_numbers_with_commas_are_told(tmp_path: Path) -> None:
    written, _ = inferred(text(tmp_path / "a.csv", "x;z\n1,5;2\n3,5;4\n"), tmp_path)
    assert "# column 0 has numbers with a comma (3,5), which are read as text\n" in written


SCIKIT_LEARN = example_inputs.scikit_learn_data() / "data"


@pytest.mark.parametrize(
    ("name", "records", "source"),
    [
        ("breast_cancer.csv", 569, {"skipLines": 1}),
        ("wine_data.csv", 178, {"skipLines": 1}),
        ("iris.csv", 150, {"skipLines": 1}),
        ("diabetes_data_raw.csv.gz", 442, {"delimiter": " "}),
        ("linnerud_exercise.csv", 20, {"delimiter": " ", "header": True}),
    ],
)
def test_tables_of_scikit_learn(name: str, records: int, source: dict[str, Any], tmp_path: Path) -> None:
    _, spec = inferred(SCIKIT_LEARN / name, tmp_path)
    assert spec["source"]["csv"] == {"uris": [str(SCIKIT_LEARN / name)]} | source
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert verify(str(tmp_path / "out"), Access()).records_out == records


@pytest.mark.parametrize("form", ["pandas", "pandas and semicolons", "R"])
def test_real_tables_keep_their_names_in_the_forms_of_pandas_and_r(form: str, tmp_path: Path) -> None:
    names, *rows = [line.split(" ") for line in (SCIKIT_LEARN / "linnerud_exercise.csv").read_text().splitlines()]
    mark = ";" if "semicolons" in form else ","
    quote = '"' if form == "R" else ""
    content = mark.join(f"{quote}{name}{quote}" for name in ["", *names]) + "\n"
    content += "".join(mark.join([f"{quote}{number}{quote}", *row]) + "\n" for number, row in enumerate(rows))
    inferred(text(tmp_path / "a.csv", content), tmp_path)
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert features(tmp_path / "out") == ["0", "Chins", "Jumps", "Situps"]


ENCODED: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "Latin-1": ("name,n\nKöln,1\nBonn,2\n".encode("latin-1"), {"encoding": "Latin1"}, "is read as Latin1, so the text has words such as Köln,1;"),
    "Windows-1252": ("name,n\n5 €,1\nBonn,2\n".encode("cp1252"), {"encoding": "Windows1252"}, "is read as Windows1252, so the text has words such as €,1;"),
    "UTF-16 without a mark": ("name,n\nKöln,1\nBonn,2\n".encode("utf-16-be"), {"encoding": "Utf16Be"}, "is read as Utf16Be, so"),
    "UTF-16 with a mark": ("name,n\nKöln,1\nBonn,2\n".encode("utf-16"), {}, ""),
    "UTF-8 with a mark": ("name,n\nKöln,1\nBonn,2\n".encode("utf-8-sig"), {}, ""),
    "ASCII in UTF-16": ("name,n\nUlm,1\nBonn,2\n".encode("utf-16-le"), {"encoding": "Utf16Le"}, "the text isn't UTF-8 and is read as Utf16Le; correct"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "source", "note"), ENCODED.values(), ids=ENCODED.keys())
def test_text_in_other_encodings_is_text(content: bytes, source: dict[str, Any], note: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    written, spec = inferred(tmp_path / "a.csv", tmp_path)
    assert spec["source"]["csv"] == {"uris": [str(tmp_path / "a.csv")], "header": True} | source
    assert note in written
    assert ("read as" in written) == bool(source)
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert features(tmp_path / "out") == ["n", "name"]


@pytest.mark.parametrize("ending", ["txt", "jsonl"])
def test_large_text_in_utf16_is_cut_between_lines(ending: str, tmp_path: Path) -> None:
    line = '{"name": "Köln"}\n' if ending == "jsonl" else "Köln am Rhein.\n"
    (tmp_path / f"a.{ending}").write_bytes((line * 20_000).encode("utf-16-le"))
    _, spec = inferred(tmp_path / f"a.{ending}", tmp_path)
    (member,) = spec["source"]
    assert spec["source"][member]["encoding"] == "Utf16Le"
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert verify(str(tmp_path / "out"), Access()).records_out == 20_000


def test_files_in_different_encodings_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_bytes("x,z\n1,é\n".encode())
    (tmp_path / "in/b.csv").write_bytes("x,z\n1,é\n".encode("latin-1"))
    assert code_of("infer", tmp_path / "in") == 2
    said = capsys.readouterr().err
    assert (
        f"{tmp_path}/in/a.csv seems to be Utf8, {tmp_path}/in/b.csv seems to be Latin1. Convert the files, or give each encoding its own job."
        in said
    )
    (tmp_path / "in/a.csv").write_bytes(b"x,z\n1,e\n")
    _, spec = inferred(tmp_path / "in", tmp_path)
    assert spec["source"]["csv"]["encoding"] == "Latin1"


def test_examples_have_the_digits_of_the_file(tmp_path: Path) -> None:
    written, _ = inferred(text(tmp_path / "a.csv", "x,z\n5.1,a\n0.2,b\n"), tmp_path)
    assert "# column x: float, 2 different values, such as 5.1, 0.2\n" in written


def test_empty_cells_are_counted(tmp_path: Path) -> None:
    written, _ = inferred(text(tmp_path / "a.csv", "x,z\n1,a\n2,\n3,b\n4,\n"), tmp_path)
    assert "# looked at the first 4 records of" in written
    assert "# column z: string, 2 of 4 empty, 2 different values, such as a, b\n" in written


@pytest.mark.parametrize("ending", PACKERS)
def test_compressed_files_are_looked_into(ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"a.csv.{ending}"
    file.write_bytes(PACKERS[ending](b"x,z\n1,2\n3,4\n"))
    _, spec = inferred(file, tmp_path)
    assert spec["source"] == {"csv": {"uris": [str(file)], "header": True}}
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert verify(str(tmp_path / "out"), Access()).records_out == 2


@pytest.mark.parametrize("ending", PACKERS)
def test_a_damaged_compressed_file_is_named(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / f"a.csv.{ending}"
    file.write_bytes(PACKERS[ending](b"x,z\n1,2\n3,4\n" * 9)[:-3])
    assert code_of("infer", file) == 3
    assert f"{file}: " in capsys.readouterr().err


def test_a_table_of_one_blank_line_has_no_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("\n")
    assert code_of("infer", tmp_path / "a.csv") == 2
    assert "the source has the columns no columns" in capsys.readouterr().err
