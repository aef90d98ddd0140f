"""`source.csv.nullWordsOf`: the words that mean a missing value in one particular column."""

from pathlib import Path
from typing import Any

import pytest
from tests.converter.readers.reader_contract import batches, faults, plan, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.readers.text.delimited import CsvReader

TABLE = "n,x,s\n1,1.5,NA\n-,NA,-\n3,2.5,\n"
TYPES = [{"name": "n", "type": "Int64"}, {"name": "x", "type": "Float64"}, {"name": "s", "type": "String"}]


def a_source(folder: Path, text: str = TABLE, **options: Any) -> Source:
    (folder / "a.csv").write_text(text)
    return Source.model_validate({"csv": {"uris": [str(folder / "a.csv")], "header": True} | options})


def cells(source: Source) -> list[list[Any]]:
    found = batches(CsvReader, source)
    assert not faults(found)
    return [[cell for name, cell in row.items() if name != "_sample"] for row in rows(found)]


@pytest.mark.parametrize("options", [{}, {"columns": TYPES}], ids=["inferred types", "given types"])
def test_each_column_has_its_own_words(options: dict[str, Any], tmp_path: Path) -> None:
    source = a_source(tmp_path, nullWordsOf={"n": ["-"], "x": ["NA"], "s": ["NA"]}, **options)
    assert cells(source) == [[1, 1.5, None], [None, None, "-"], [3, 2.5, ""]]


def test_the_word_of_another_column_is_no_number(tmp_path: Path) -> None:
    source = a_source(tmp_path, "n,x\n1,NA\n-,-\n3,2.5\n", nullWordsOf={"n": ["-"], "x": ["NA"]}, columns=TYPES[:2])
    found = batches(CsvReader, source)
    assert faults(found) == {1: "line 3: '-' is not a Float64 (column 'x')"}
    assert [(row["n"], row["x"]) for row in rows(found)] == [(1, None), (3, 2.5)]


def test_the_word_of_another_column_may_be_a_number(tmp_path: Path) -> None:
    source = a_source(tmp_path, "n,x\n-999,-999\n0,0\n", nullWordsOf={"n": ["-999"], "x": ["0"]})
    assert cells(source) == [[None, -999], [0, None]]


def test_the_words_are_added_to_those_of_every_column(tmp_path: Path) -> None:
    source = a_source(tmp_path, nullWords=["NA"], nullWordsOf={"n": ["-"], "s": ["-"]})
    assert cells(source) == [[1, 1.5, ""], [None, None, None], [3, 2.5, ""]]


def test_an_empty_text_may_be_a_missing_value(tmp_path: Path) -> None:
    source = a_source(tmp_path, nullWordsOf={"n": ["-"], "s": ["", "NA"]})
    assert [row[2] for row in cells(source)] == [None, "-", None]


def test_a_default_takes_the_place_of_a_word(tmp_path: Path) -> None:
    source = a_source(tmp_path, nullWordsOf={"n": ["-"], "s": ["NA"]}, defaults={"n": "-1", "s": "none"})
    assert [[row[0], row[2]] for row in cells(source)] == [[1, "none"], [-1, "-"], [3, "none"]]


def test_without_nulls_a_word_makes_its_row_bad(tmp_path: Path) -> None:
    found = batches(CsvReader, a_source(tmp_path, nullWordsOf={"n": ["-"], "x": ["NA"], "s": ["NA"]}), nulls="Bad")
    assert faults(found) == {
        0: "line 2: column 's' is empty or one of NA and has no default",
        1: "line 3: column 'n' is empty or one of - and has no default",
    }


def test_a_required_text_has_none_of_its_words(tmp_path: Path) -> None:
    columns = [{**column, "required": column["name"] == "s"} for column in TYPES]
    found = batches(CsvReader, a_source(tmp_path, nullWordsOf={"n": ["-"], "x": ["NA"], "s": ["NA"]}, columns=columns))
    assert faults(found) == {
        0: "line 2: column 's' is empty or one of NA and has no default",
        2: "line 4: column 's' is empty or one of NA and has no default",
    }


def test_a_word_of_a_column_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSpec) as refused:
        plan(CsvReader, a_source(tmp_path, nullWordsOf={"nn": ["-"]}))
    assert str(refused.value) == "source.csv.nullWordsOf: there is no column 'nn'. Did you mean 'n'? The columns are n, x, s."
