"""`source.jsonl` reads a file that is one JSON array of objects, whatever its layout. Errors say what is wrong with a malformed array."""

import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples
from tests.converter.readers.reader_contract import batches, faults, opened, plan, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.readers.text import stretches
from dataprep_converter.readers.text.jsonl import JsonlReader

RECORDS: list[dict[str, Any]] = [
    {"n": number, "text": f'a "{number}" in [brackets], {{braces}} and \\backslashes\\', "list": [number, 7]} for number in range(60)
]
LAYOUTS = {
    "one line": json.dumps(RECORDS),
    "compact": json.dumps(RECORDS, separators=(",", ":")),
    "indented": json.dumps(RECORDS, indent=4) + "\n",
    "one element per line": "[\n" + ",\n".join(map(json.dumps, RECORDS)) + "\n]\n",
    "commas first": "[ " + "\r\n, ".join(map(json.dumps, RECORDS)) + "\r\n]",
    "as vega-datasets has it": "[" + ",\n".join(map(json.dumps, RECORDS)) + "]\n\n",
}


def a_source(folder: Path, content: str | bytes, **options: Any) -> Source:
    (folder / "a.json").write_bytes(content.encode() if isinstance(content, str) else content)
    return Source.model_validate({"jsonl": {"uris": [str(folder / "a.json")]} | options})


def read(source: Source, order: list[int] | None = None) -> list[dict[str, Any]]:
    found = batches(JsonlReader, source, order=None if order is None else np.array(order, np.int64))
    assert not faults(found)
    return [{name: value for name, value in row.items() if name != "_sample"} for row in rows(found)]


@pytest.fixture(params=["one unit", "several units"])
def units(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    if request.param == "several units":
        monkeypatch.setattr(stretches, "UNIT_BYTES", 300)
    return 1 if request.param == "one unit" else 2


@pytest.mark.parametrize("content", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_an_array_has_a_record_for_each_element(content: str, units: int, tmp_path: Path) -> None:
    source = a_source(tmp_path, content)
    assert read(source) == RECORDS
    assert read(source, order=[5, 59, 0, 31]) == [RECORDS[number] for number in (5, 59, 0, 31)]
    planned, _ = plan(JsonlReader, source)
    assert len(planned) >= 10 if units > 1 else len(planned) == 1


@pytest.mark.parametrize("layout", ["indented", "compact"])
@pytest.mark.parametrize("form", ["gzip", "UTF-8 with a mark", "UTF-16", "Latin-1"])
@pytest.mark.usefixtures("units")
def test_compressed_and_encoded_arrays(form: str, layout: str, tmp_path: Path) -> None:
    records = [record | {"text": "Köln"} for record in RECORDS]
    made = json.dumps(records, indent=2 if layout == "indented" else None, ensure_ascii=False)
    content = {
        "gzip": gzip.compress(made.encode()), "UTF-8 with a mark": made.encode("utf-8-sig"), "UTF-16": made.encode("utf-16"),
        "Latin-1": made.encode("latin-1"),
    }[form]  # fmt: skip
    assert read(a_source(tmp_path, content, **({"encoding": "Latin1"} if form == "Latin-1" else {}))) == records


@pytest.mark.usefixtures("units")
def test_a_faulty_element_is_named_with_its_line(tmp_path: Path) -> None:
    elements = [json.dumps({"n": number}, indent=1) for number in range(60)]
    elements[40] = '{\n "n": "x"\n}'
    elements[50] = "7"
    source = a_source(tmp_path, "[" + ",\n".join(elements) + "]", columns=[{"name": "n", "type": "Int64"}])
    found = batches(JsonlReader, source)
    assert faults(found) == {40: "line 121: '\"x\"' is not a Int64 (column 'n')", 50: "line 151: expect an object but have '7'"}
    assert [row["n"] for row in rows(found)] == [number for number in range(60) if number not in (40, 50)]
    planned, state = plan(JsonlReader, source)
    reader = opened(JsonlReader, source, state)
    assert isinstance(reader, JsonlReader)
    assert reader.lines(planned, np.array([0, 1, 59])).tolist() == [1, 4, 176]
    [bad] = [bad for batch in found for bad in batch.bad if bad.sample == 40]
    assert bad.raw is not None
    assert bad.raw.content == b'{\n "n": "x"\n}'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"n": 1}, {"n": 2}', "a.json: the array is never closed, so the file may be incomplete."),
        ('[{"n": 1}, {"n": 2', "a.json: the array is never closed, so the file may be incomplete."),
        ('[\n{"n": 1}]\n[{"n": 2}]\n', "a.json: there is more text after the end of the array: '[{\"n\": 2}]'."),
        ('[{"n": 1}}', "a.json: the array is closed by a brace."),
        ('[{"n": 1}, {"n": 2}, ]', "a.json: an element of the array is empty: ', ]'."),
        ('[{"n": 1},\n\n, {"n": 2}]', "a.json: an element of the array is empty: ',\\n\\n, {\"n\": 2}]'."),
        ('[{"n": 1},,{"n": 2}]', "a.json: an element of the array is empty: ',,{\"n\": 2}]'."),
    ],
)
@pytest.mark.usefixtures("units")
def test_what_is_no_array_is_named(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadData) as refused:
        plan(JsonlReader, a_source(tmp_path, content))
    assert str(refused.value).endswith(message)


@pytest.mark.parametrize("blanks", ["", "\n  \n", "\n" * 5000], ids=["next line", "blank lines", "far below"])
@pytest.mark.parametrize("line", ['[{"n": 7}]', '[{"n": 7}, {"n": 8}]', "[]", '[{"n": "]}"}]', '[{"n": 7}}', '[{"n": 7}] 8', " [ {} ]"])
def test_an_array_in_the_first_of_several_lines_is_a_bad_record(line: str, blanks: str, tmp_path: Path) -> None:
    found = batches(JsonlReader, a_source(tmp_path, f'{line}\n{blanks}{{"n": 1}}\n[{{"n": 2}}]\n{{"n": 3}}\n'))
    assert [row["n"] for row in rows(found)] == [1, 3]
    assert list(faults(found)) == [0, 2]
    assert faults(found)[2].endswith("""expect an object but have '[{"n": 2}]'""")


LONG = json.dumps([{"n": number, "s": "x" * 5000} for number in range(300)])


@pytest.mark.parametrize("first", [LONG, " " + LONG, LONG[:-1] + "}", LONG + " 8", json.dumps([{"s": "]}" * (1 << 20)}])], ids=range(5))
@pytest.mark.parametrize("form", ["plain", "gzip", "UTF-16"])
def test_a_long_array_in_the_first_of_several_lines_is_a_bad_record(first: str, form: str, tmp_path: Path) -> None:
    text = f'{first}\n\n{{"m": 1, "t": "a"}}\n[{{"n": 2}}]\n{{"m": 3, "t": "b"}}\n'
    content = {"plain": text.encode(), "gzip": gzip.compress(text.encode()), "UTF-16": text.encode("utf-16")}[form]
    found = batches(JsonlReader, a_source(tmp_path, content))
    assert [(row["m"], row["t"]) for row in rows(found)] == [(1, "a"), (3, "b")]
    assert list(faults(found)) == [0, 2]
    assert faults(found)[0].startswith("line 1: ")


@pytest.mark.parametrize("size", [1 << 20, 4 << 20])
def test_where_a_long_array_ends_does_not_matter(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "UNIT_BYTES", size)
    for longer in (-1, 0, 1, 2):
        element = json.dumps({"n": 7, "s": ""})
        line = "[" + element[:-2] + "x" * (size - len(element) - 2 + longer) + element[-2:] + "]"
        found = batches(JsonlReader, a_source(tmp_path, line + '\n{"n": 8}\n'))
        assert [row["n"] for row in rows(found)] == [8]
        assert list(faults(found)) == [0]


def test_an_array_of_several_long_lines_with_more_text_is_named(tmp_path: Path) -> None:
    long = LONG[:-1] + ",\n" + LONG[1:]
    with pytest.raises(BadData, match=r"a\.json: there is more text after the end of the array: '\{\"n\": 2\}'\."):
        plan(JsonlReader, a_source(tmp_path, long + '\n{"n": 2}\n'))


def test_a_long_array_in_one_line_is_an_array(tmp_path: Path) -> None:
    records = [{"n": number, "s": "x" * 5000} for number in range(1000)]
    assert read(a_source(tmp_path, "\n" + json.dumps(records) + "\n\n \n")) == records


def test_many_blanks_between_elements_take_no_longer_than_text(tmp_path: Path) -> None:
    source = a_source(tmp_path, '[{"n": 1},' + " " * 2_000_000 + '{"n": 2}]')
    before = time.process_time()
    assert read(source) == [{"n": 1}, {"n": 2}]
    assert time.process_time() - before < 5


@pytest.mark.parametrize("content", ["[]", " [ \n ] \n"])
def test_an_empty_array_has_no_records(content: str, tmp_path: Path) -> None:
    planned, _ = plan(JsonlReader, a_source(tmp_path, content))
    assert planned.samples == 0


EXPECTED = 'source.jsonl reads an object in each line, such as {"a": 1}, or a file that is one array of objects.'
IN_CSV = "makes a CSV file of them, which source.csv reads."


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '["a", 1]\n["b", 2]\n',
            f""": its records are arrays, such as '["a", 1]'. {EXPECTED} If the arrays have numbers and text, jq -r '@csv' {IN_CSV}""",
        ),
        (
            "[[1, 2], [3, 4]]",
            f": it is an array of arrays, such as '[[1, 2], [3, 4]]'. {EXPECTED} If the inner arrays have numbers and text, jq -r '.[] | @csv' {IN_CSV}",
        ),
        ('"a"\n"b"\n', f""": its records aren't objects, such as '"a"'. {EXPECTED}"""),
        ("[1]\n7\n", f": its records aren't objects, such as '7'. {EXPECTED}"),
        ("\na,b\n1,2\n", f", line 2: not JSON: Expecting value at character 1. {EXPECTED}"),
        ('{"a": {}}\n[1]\n', ": there is no key in the first records; give source.jsonl.columns."),
    ],
    ids=["arrays", "an array of arrays", "texts", "arrays and numbers", "CSV", "an object without keys"],
)
def test_records_that_are_no_objects_are_named(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadSpec) as refused:
        plan(JsonlReader, a_source(tmp_path, content))
    assert str(refused.value) == f"{tmp_path / 'a.json'}{message}"


TEXTS = st.text(st.sampled_from('ab"\\[]{},: \n\t\u00e9'), max_size=12)
VALUES = st.fixed_dictionaries({"s": TEXTS, "l": st.lists(TEXTS, min_size=1, max_size=3), "n": st.integers(-9, 9)})


@settings(max_examples=examples(60), deadline=None)
@given(records=st.lists(VALUES, min_size=1, max_size=8), indent=st.sampled_from([None, 0, 3]), size=st.sampled_from([16, 50, 4 << 20]))
def test_any_text_may_be_in_an_element(
    records: list[dict[str, Any]], indent: int | None, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretches, "UNIT_BYTES", size)
        assert read(a_source(tmp_path_factory.mktemp("array"), json.dumps(records, indent=indent, ensure_ascii=False))) == records
