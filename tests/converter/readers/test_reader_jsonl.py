"""Tests JSON Lines: the columns, and the errors for faulty lines."""

import gzip
import json
import math
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, opened, plan, rows

from dataprep_api.spec import Output, Source
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.formats.tfrecord.records import parse_example, read
from dataprep_converter.formats.tfrecord.tfrecord_encoder import TfrecordEncoder
from dataprep_converter.pipeline.features import resolve
from dataprep_converter.readers import Reader
from dataprep_converter.readers.text import stretches
from dataprep_converter.readers.text.json_arrays import is_array
from dataprep_converter.readers.text.jsonl import JsonlReader


def put(folder: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def a_source(*uris: Path, **options: Any) -> Source:
    return Source.model_validate({"jsonl": {"uris": [str(uri) for uri in uris], **options}})


def of_text(folder: Path, text: str | bytes, **options: Any) -> Source:
    put(folder, {"a.jsonl": text})
    return a_source(folder / "a.jsonl", **options)


def columns(**types: str) -> list[dict[str, Any]]:
    """The columns of a spec, from arguments such as `x="Int64"`, or `x="[Int64]"` for lists."""
    return [{"name": name.replace("__", "/"), "type": kind.strip("[]"), "list": kind.startswith("[")} for name, kind in types.items()]


def records(source: Source) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "_sample"} for row in rows(batches(JsonlReader, source))]


class JsonlContract(ReaderContract):
    reader: ClassVar[type[Reader]] = JsonlReader
    zipped: ClassVar[bool]

    @pytest.fixture(autouse=True)
    def small_units(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(stretches, "UNIT_BYTES", 1024)

    def a_source(self, folder: Path) -> Source:
        for name, first in (("a", 0), ("b", 1_000)):
            made = [{"n": n, "x": n / 7, "o": {"t": f"é {n}"}, "l": list(range(n % 3))} for n in range(first, first + 30)]
            text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in made).encode()
            put(folder, {f"{name}.jsonl": gzip.compress(text, mtime=0) if self.zipped else text})
        return a_source(folder)

    def an_empty_source(self, folder: Path) -> Source:
        put(folder, {"a.jsonl": "", "b.jsonl": "\n \r\n\n"})
        return a_source(folder)

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        put(folder, {"a.jsonl": '{"a": 1}\n'})
        return a_source(folder / "a.jsonl", folder / "absent.jsonl"), str(folder / "absent.jsonl")

    def change(self, folder: Path) -> Path:
        put(folder, {"b.jsonl": '{"a": 1}\n'})
        return folder / "b.jsonl"


class TestPlainFiles(JsonlContract):
    zipped = False


class TestGzipFiles(JsonlContract):
    zipped = True


# --- columns ------------------------------------------------------------------------------------------------------


def test_columns_are_inferred_from_the_first_file_and_frozen(tmp_path: Path) -> None:
    text = '{"i": 1, "f": 2, "s": "2020-01-01", "o": {"b": true, "p": {"q": "x"}}, "l": []}\n\n{"f": 0.5, "l": [1, 2]}\n{"l": [0.5]}\n'
    put(tmp_path, {"a.jsonl": text, "b.jsonl": '{"i": 1.5, "f": 1, "s": "", "o": {"b": false, "p": {"q": ""}}, "l": []}\n'})
    _, state = plan(JsonlReader, a_source(tmp_path))
    with opened(JsonlReader, a_source(tmp_path), state) as reader:
        assert dict(zip(reader.schema().names, reader.schema().types, strict=True)) == {
            "i": pa.int64(), "f": pa.float32(), "s": pa.string(), "o/b": pa.bool_(), "o/p/q": pa.string(), "l": pa.list_(pa.float32()),
        }  # fmt: skip
        found = batches(JsonlReader, a_source(tmp_path), nulls="Bad")
        assert faults(found) == {
            1: "line 3: column 'i' has no value and no default",
            2: "line 4: column 'i' has no value and no default",
            3: "line 1: '1.5' is not a Int64 (column 'i')",
        }


def test_every_type_is_read(tmp_path: Path) -> None:
    text = (
        '{"i": -9223372036854775808, "f": 0.1, "d": 0.1, "s": "é\\n\\ud83d\\ude00", "b": true, "li": [1, 2], "lf": [0.1], "ls": ["a", ""], "lb": []}\n'
        '  {"lb":[false],"ls":[],"lf":[],"li":[],"b":false,"s":"","d":NaN,"f":1e-50,"i":7}  \r\n'
    )
    types = columns(i="Int64", f="Float32", d="Float64", s="String", b="Bool", li="[Int64]", lf="[Float32]", ls="[String]", lb="[Bool]")
    first, second = records(of_text(tmp_path, text, columns=types))
    narrow = float(np.float32(0.1))
    assert list(first.values()) == [-(2**63), narrow, 0.1, "é\n😀", True, [1, 2], [narrow], ["a", ""], []]
    assert math.isnan(second.pop("d"))
    assert list(second.values()) == [7, 0.0, "", False, [], [], [], [False]]


def test_columns_of_the_spec_are_a_choice_in_their_own_order(tmp_path: Path) -> None:
    text = '{"a": 1, "b": {"c": 2, "z": [{}]}, "d": "x", "e": null}\n{"new": 1, "d": "y", "b": {"c": 3}, "a": 4}\n'
    assert records(of_text(tmp_path, text, columns=columns(d="String", b__c="Float64"))) == [{"d": "x", "b/c": 2.0}, {"d": "y", "b/c": 3.0}]


def test_an_object_may_be_null_or_empty_in_some_records(tmp_path: Path) -> None:
    text = '{"o": null}\n{"o": {}}\n{"o": {"x": 1}}\n'
    assert records(of_text(tmp_path, text)) == [{"o/x": None}, {"o/x": None}, {"o/x": 1}]


def test_a_key_with_a_slash_goes_before_an_object(tmp_path: Path) -> None:
    text = '{"image/width": 1, "image": {"width": 2, "height": 3}}\n'
    assert records(of_text(tmp_path, text, columns=columns(image__height="Int64", image__width="Int64"))) == [
        {"image/height": 3, "image/width": 1}
    ]
    with pytest.raises(BadSpec, match=r"a\.jsonl: the column 'image/width' occurs twice"):
        plan(JsonlReader, of_text(tmp_path, text))


def test_the_names_of_the_spec_hold_without_any_record(tmp_path: Path) -> None:
    source = of_text(tmp_path, "", columns=columns(a__b="Int64"))
    _, state = plan(JsonlReader, source)
    assert opened(JsonlReader, source, state).schema().names == ["a/b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": null}\n{"b": 1}\n', "the type of 'a' can't be determined, because it is null in the first records; give source.jsonl.columns, with or without this key"),
        ('{"a": []}\n{}\n', "the type of 'a' can't be determined, because it is only empty lists in the first records"),
        ('{"a": 1}\n\n{"a": "x"}\n', "'a' has values of several types: Int64 (line 1), String (line 3); give source.jsonl.columns"),
        ('{"a": []}\n{"a": 1}\n', "'a' has values of several types: empty list (line 1), Int64 (line 2)"),
        ('{"a": 1}\n{"a": {"b": 2}}\n', "'a/b' is inside a column that is not an object"),
        ('{"a": [[1, "x"]]}\n', "line 1: 'a' can't be read: it has values of several types: Int64, String; give source.jsonl.columns without it"),
        ('{"a": [{"b": 1}, 2]}\n', "line 1: 'a' is a list of several types, which records can't contain"),
        ('{"a": [{}]}\n', "line 1: 'a' has only empty objects in the first records; give source.jsonl.columns without it"),
        ('{"a": [[1]]}\n{"a": 2}\n', "'a' has values of several types: list (line 1), Int64 (line 2)"),
        ('{"a": [1, "x"]}\n', "line 1: 'a' is a list of several types, which records can't contain"),
        ("{}\n{}\n", "there is no key in the first records"),
        ('{"": 1}\n', "line 1: a key has 0 characters; columns have 1 to 256"),
        ("[1]\n", "its records are arrays, such as '[1]'"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_told_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadSpec) as caught:
        plan(JsonlReader, of_text(tmp_path, text))
    assert str(caught.value).startswith(f"{tmp_path / 'a.jsonl'}")
    assert message in str(caught.value)


def test_a_column_named_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match="source.jsonl.columns: the column 'x' occurs twice"):
        plan(JsonlReader, of_text(tmp_path, "", columns=[*columns(x="Int64"), *columns(x="String")]))


def test_a_column_within_another_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match="source.jsonl.columns: 'x/y' is inside a column that is not an object"):
        plan(JsonlReader, of_text(tmp_path, "", columns=columns(x="Int64", x__y="String")))


# --- defaults -----------------------------------------------------------------------------------------------------

DEFAULTS = [
    {"name": "i", "type": "Int64", "default": "-1"},
    {"name": "f", "type": "Float32", "default": "0.1"},
    {"name": "s", "type": "String", "default": '"none"'},
    {"name": "b", "type": "Bool", "default": "true"},
    {"name": "l", "type": "Float32", "list": True, "default": "[0.1, 2]"},
    {"name": "o/t", "type": "String", "list": True, "default": "[]"},
]


def test_a_missing_or_null_value_has_the_default(tmp_path: Path) -> None:
    narrow = float(np.float32(0.1))
    made = {"i": -1, "f": narrow, "s": '"none"', "b": True, "l": [narrow, 2.0], "o/t": []}
    text = '{}\n{"i": null, "f": null, "s": null, "b": null, "l": null, "o": null}\n{"o": {}}\n{"o": {"t": null}, "i": 5}\n'
    assert records(of_text(tmp_path, text, columns=DEFAULTS)) == [made, made, made, {**made, "i": 5}]


@pytest.mark.parametrize(
    ("kind", "default"),
    [("Int64", "x"), ("Int64", "1.5"), ("Bool", "1"), ("Float32", "null"), ("[Int64]", "1"), ("[Int64]", "[null]"), ("Int64", "9223372036854775808"), ("Int64", "[" * 99999)],
)  # fmt: skip
def test_a_default_of_another_type_is_refused(tmp_path: Path, kind: str, default: str) -> None:
    column = columns(c=kind)[0] | {"default": default[:1024]}
    called = kind if kind[0] != "[" else f"list of {kind.strip('[]')}"
    with pytest.raises(BadSpec, match=rf"source\.jsonl\.columns: the default '.*' of 'c' is not an? {called}\."):
        plan(JsonlReader, of_text(tmp_path, "", columns=[column]))


# --- bad records --------------------------------------------------------------------------------------------------

TYPED = columns(a="Int64", o__b="Float32", c="String", d="[Float32]", e="Bool")
GOOD = '{"a": 1, "o": {"b": 2}, "c": "x", "d": [3], "e": true}'


def changed(**values: Any) -> str:
    return json.dumps(json.loads(GOOD) | values, ensure_ascii=False)


FAULTS: dict[str, tuple[str | bytes, str]] = {
    "broken": ('{"a": 1, ', "not JSON: Expecting property name enclosed in double quotes at character "),
    "no JSON": ("hello", "not JSON: Expecting value at character 1"),
    "an array": ("[1]", "expect an object but have '[1]'"),
    "a number": ("5", "expect an object but have '5'"),
    "two objects": (GOOD + GOOD, "not JSON: Extra data at character 55"),
    "two objects apart": ("{} " + GOOD, "not JSON: Extra data at character 4"),
    "a brace too many": (GOOD + "}", "not JSON: Extra data at character 55"),
    "a key twice": ('{"a": 1, "a": 2}', "the key 'a' is there twice"),
    "a control character": ('{"c": "\x01"}', "not JSON: Invalid control character at at character 8"),
    "not UTF-8": (b'{"c": "\xff"}', "not UTF-8 (byte 0xff after 7 others)"),
    "text for a number": (changed(a="1"), "'\"1\"' is not a Int64 (column 'a')"),
    "a fraction for a whole number": (changed(a=1.5), "'1.5' is not a Int64 (column 'a')"),
    "too large": (changed(a=2**63), "'9223372036854775808' is not a Int64 (column 'a')"),
    "a number for an object": (changed(o=1), "'1' is not a Float32 (column 'o/b')"),
    "an object for a number": (changed(o={"b": {"z": 1}}), "'{\"z\": 1}' is not a Float32 (column 'o/b')"),
    "too large for a float": (changed(o={"b": 1e39}), "1e+39 is not a Float32 (column 'o/b')"),
    "too large for any float": (GOOD.replace('"a": 1', '"a": 1e400'), "'Infinity' is not a Int64 (column 'a')"),
    "thousands of digits": (GOOD.replace('"a": 1', f'"a": {"9" * 4301}'), "not a record: it has an integer of more than 4,300 digits"),
    "too large in a list": (changed(d=[1, -1e39]), "-1e+39 is not a Float32 (column 'd')"),
    "a number for a list": (changed(d=1), "'1' is not a list of Float32 (column 'd')"),
    "text in a list": (changed(d=[1, "é"]), "'[1, \"é\"]' is not a list of Float32 (column 'd')"),
    "null in a list": (
        changed(d=[1, None]),
        "column 'd' has a null among its values; add nested: [\"d\"] to source.jsonl to keep such lists",
    ),
    "a number for truth": (changed(e=0), "'0' is not a Bool (column 'e')"),
    "long": (changed(e="z" * 99), f"'\"{'z' * 63}…' is not a Bool (column 'e')"),
    "missing": (GOOD.replace('"c": "x", ', ""), "column 'c' has no value and no default"),
    "null": (changed(a=None), "column 'a' has no value and no default"),
    "null around it": (changed(o=None), "column 'o/b' has no value and no default"),
}


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(("line", "reason"), FAULTS.values(), ids=FAULTS.keys())
def test_a_line_that_does_not_fit_is_bad_with_its_number(tmp_path: Path, line: str | bytes, reason: str, zipped: bool) -> None:
    bad = line.encode() if isinstance(line, str) else line
    good = GOOD.encode() + b"\n"
    text = b"\xef\xbb\xbf\n" + good * 3 + b"  \n" + bad + b"\n" + good * 5
    found = batches(JsonlReader, of_text(tmp_path, gzip.compress(text) if zipped else text, columns=TYPED), nulls="Bad")
    (sample, told), = faults(found).items()  # fmt: skip
    assert sample == 3
    assert told.startswith(f"line 6: {reason}")
    assert [row["_sample"] for row in rows(found)] == [0, 1, 2, 4, 5, 6, 7, 8]


def test_many_kinds_of_bad_lines_in_one_unit_are_each_found(tmp_path: Path) -> None:
    lines = [GOOD.encode(), *(line.encode() if isinstance(line, str) else line for line, _ in FAULTS.values())] * 10
    source = of_text(tmp_path, b"\n".join(lines), columns=TYPED)
    expected = dict(enumerate([None, *(reason for _, reason in FAULTS.values())] * 10))
    order = np.random.default_rng(1).permutation(len(lines)).astype(np.int64)
    for found in (batches(JsonlReader, source, size=97, nulls="Bad"), batches(JsonlReader, source, size=97, order=order, nulls="Bad")):
        told = faults(found)
        assert sorted(told) == [row for row, reason in expected.items() if reason]
        assert all(told[row].startswith(f"line {row + 1}: {reason}") for row, reason in expected.items() if reason)
        assert sorted(row["_sample"] for row in rows(found)) == [row for row, reason in expected.items() if reason is None]


def test_one_object_on_two_lines_is_two_bad_records_and_moves_no_other(tmp_path: Path) -> None:
    found = batches(JsonlReader, of_text(tmp_path, '{"a": 1} {"a": 2}\n{"a":\n3}\n{"a": 4}\n', columns=columns(a="Int64")))
    assert sorted(faults(found)) == [0, 1, 2]
    assert [row["a"] for row in rows(found)] == [4]


def test_an_unknown_key_is_bad_when_the_columns_were_inferred(tmp_path: Path) -> None:
    put(
        tmp_path, {"a.jsonl": '{"a": 1, "o": {"b": 1}}\n', "b.jsonl": '{"a": 1, "o": {"b": 1, "c": 2}}\n{"z": [], "a": 2, "o": {"b": 2}}\n'}
    )
    advice = "is no column; give source.jsonl.columns to pass over such keys"
    assert faults(batches(JsonlReader, a_source(tmp_path))) == {1: f"line 1: the key 'o/c' {advice}", 2: f"line 2: the key 'z' {advice}"}


@pytest.mark.parametrize("key", ["a", "z"], ids=["a column", "passed over"])
@pytest.mark.parametrize("opening", ['{"q":', "["], ids=["objects", "lists"])
def test_deep_nesting_crashes_nothing(tmp_path: Path, key: str, opening: str) -> None:
    deep = opening * 100_000 + "1" + {"[": "]"}.get(opening, "}") * 100_000
    source = of_text(tmp_path, f'{{"a": 1}}\n{{"{key}": {deep}}}\n{{"a": 3}}\n', columns=[{"name": "a", "type": "Int64", "default": "7"}])
    found = batches(JsonlReader, source)
    assert [row["a"] for row in rows(found)] == ([1, 3] if key == "a" else [1, 7, 3])
    assert faults(found) == ({1: "line 2: not a record: it is nested too deeply"} if key == "a" else {})


def test_a_line_beyond_all_bounds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "UNIT_BYTES", 64)
    monkeypatch.setattr(stretches, "LONGEST_RECORD", 512)
    with pytest.raises(BadData, match=r"a\.jsonl, line 2: a line of more than"):
        plan(JsonlReader, of_text(tmp_path, '{"a": "x"}\n{"a": "' + "x" * 2000 + '"}\n', columns=columns(a="String")))


VALUES = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.text(), st.booleans())


@pytest.mark.slow
@given(st.lists(st.dictionaries(st.sampled_from(["i", "s", "x"]), VALUES | st.lists(VALUES, max_size=3)), max_size=12), st.integers(20, 90))
def test_every_line_is_a_record_or_a_bad_one(tmp_path_factory: pytest.TempPathFactory, made: list[dict[str, Any]], size: int) -> None:
    text = "".join(json.dumps(record) + "\n" for record in made)
    source = of_text(tmp_path_factory.mktemp("jsonl"), text, columns=columns(i="Int64", s="String"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretches, "UNIT_BYTES", size)
        found = batches(JsonlReader, source)
    fits = {
        number: {"i": record.get("i"), "s": record.get("s"), "_sample": number}
        for number, record in enumerate(made)
        if type(record.get("i", 0)) in (int, type(None)) and type(record.get("s", "")) in (str, type(None))
    }
    assert rows(found) == list(fits.values())
    assert sorted([*fits, *faults(found)]) == list(range(len(made)))


def has_number(line: bytes) -> bool:
    """Whether Python parses the line as an object with a whole number `a` and without duplicate keys."""
    try:
        pairs = json.loads(line, object_pairs_hook=list)
    except ValueError:
        return False
    return isinstance(pairs, list) and [type(pair) for pair in pairs] == [tuple] and pairs[0][0] == "a" and type(pairs[0][1]) is int


@pytest.mark.slow
@given(
    st.lists(
        st.sampled_from(
            [b'{"a":1}', b'{"a":', b"1", b"}", b"{", b'"', b"\n", b"\n", b" ", b"\r", b",", b"[", b"]", b"\\", b"\xff", b"null"]
        ),
        max_size=24,
    )
)
def test_any_bytes_are_as_many_records_as_lines_with_text(tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]) -> None:
    content = b"".join(parts)
    assume(not is_array(content, at_end=True))
    lines = [line.strip(b" \t\r") for line in content.split(b"\n") if line.strip(b" \t\r")]
    found = batches(JsonlReader, of_text(tmp_path_factory.mktemp("jsonl"), content, columns=columns(a="Int64")), nulls="Bad")
    good = {row["_sample"] for row in rows(found)}
    assert sorted([*good, *faults(found)]) == list(range(len(lines)))
    assert good == {number for number, line in enumerate(lines) if has_number(line)}


# --- end to end ---------------------------------------------------------------------------------------------------


def test_lists_become_ragged_features_that_protobuf_reads(tmp_path: Path) -> None:
    source = of_text(tmp_path, '{"w": ["a", "bc"], "n": [1, 300], "o": {"x": [0.5]}}\n{"w": [], "n": [], "o": {"x": []}}\n')
    units, state = plan(JsonlReader, source)
    with opened(JsonlReader, source, state) as reader:
        projector = resolve(None, None, schema=reader.schema(), default_label="label")
        encoder = TfrecordEncoder(Output(uri="x"), projector.features)
        (batch,) = reader.read(units, iter([np.arange(2)]))
        made = [parse_example(payload) for _, payload in read([bytes(encoder.encode(projector.project(batch).records))])]
        assert made == [{"w": [b"a", b"bc"], "n": [1, 300], "o/x": [0.5]}, {"w": [], "n": [], "o/x": []}]
