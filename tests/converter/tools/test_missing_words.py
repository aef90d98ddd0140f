"""The words that `infer` regards as missing values depend on the column's other cells: numbers, text, codes or signs."""

import pytest

from dataprep_converter.tools.infer.missing_words import missing_words, notes_on


def found(column: list[str]) -> list[str]:
    """Returns the words found in a column with these cells. The file also has a column without missing values."""
    text = "c,other\n" + "".join(f"{cell},x\n" for cell in column)
    return missing_words(text.encode(), delimiter=",", skip_lines=0, header=True).get("c", [])


CASES: dict[str, tuple[list[str], list[str]]] = {
    "numbers": (["1", "2.5", "NA", "3"], ["NA"]),
    "numbers and several words": (["1", "-", "?", ".", "nil", "NaN", "2"], ["-", ".", "?", "NaN", "nil"]),
    "numbers and empty cells": (["1", "", "2"], []),
    "numbers and blanks": (["1", "  ", "2"], ["  "]),
    "numbers and a minus sign before them": (["-1", "-2"], []),
    "truth values": (["true", "N/A", "false"], ["N/A"]),
    "text": (["red", "NA", "", "n/a", "?", "blue"], ["", "?", "NA", "n/a"]),
    "answers": (["none", "some", "unknown", "all"], []),
    "names of people": (["Nan", "Null", "Ann"], []),
    "codes of countries": (["DE", "NA", "FR"], []),
    "codes and an empty cell": (["DE", "", "FR"], [""]),
    "signs": (["+", "-", "+"], []),
    "words and a sign": (["plus", "-", "minus"], ["-"]),
    "only missing values": (["NA", "NA"], ["NA"]),
    "only empty cells": (["", ""], []),
    "text among which are few numbers": (["1", "a", "b", "NA"], ["NA"]),
}


@pytest.mark.parametrize(("column", "words"), CASES.values(), ids=CASES.keys())
def test_words_of_a_column(column: list[str], words: list[str]) -> None:
    assert found(column) == words


def test_each_column_has_its_own_words() -> None:
    text = b"# a title\nn;s;t\n1;-;a\n-;NA;b\nNA;x;c\n"
    assert missing_words(text, delimiter=";", skip_lines=1, header=True) == {"n": ["-", "NA"], "s": ["-", "NA"]}


def test_columns_without_names_are_numbered() -> None:
    assert missing_words(b"1,a\nNA,b\n", delimiter=",", skip_lines=0, header=False) == {"0": ["NA"]}


@pytest.mark.parametrize("text", [b"", b"x\n", b"\n\n", b'"x\n'], ids=["empty", "only a header", "blank", "an open quote"])
def test_text_without_rows_has_no_words(text: bytes) -> None:
    assert missing_words(text, delimiter=",", skip_lines=0, header=True) == {}


def test_the_note_names_the_columns_and_the_words() -> None:
    assert list(notes_on({"price": ["-", "NA"], "city": [""]})) == [
        "missing values: price (- and NA), city (empty); remove words that are values from source.csv.nullWordsOf"
    ]
    assert list(notes_on({})) == []
    assert next(iter(notes_on({str(number): ["NA"] for number in range(25)}))).count("(NA)") == 20
    assert next(iter(notes_on({"n": ["", "  ", "-"]}))).startswith("missing values: n (empty and '  ' and -)")


def test_a_table_may_have_more_columns_than_may_be_named() -> None:
    def words(cells: str) -> dict[str, list[str]]:
        text = f"{','.join(f'c{number}' for number in range(1500))}\n{','.join([cells] * 1500)}\n{','.join(['1'] * 1500)}\n"
        return missing_words(text.encode(), delimiter=",", skip_lines=0, header=True)

    assert words("NA") == {}
    assert words("?") == {f"c{number}": ["?"] for number in range(1024)}
    assert "look for words in the other columns" in next(iter(notes_on(words("?"))))
