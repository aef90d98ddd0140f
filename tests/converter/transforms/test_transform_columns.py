"""The transforms of complete columns: select, drop, rename, filter, hash, tokenizeSplit."""

import hashlib
from typing import Any

import pyarrow as pa
import pytest

from dataprep_api.spec import Transform
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.transforms import Step, step_class

RECORDS: dict[str, Any] = {
    "id": pa.array([1, 2, 3, None], pa.int64()),
    "name": pa.array(["ada", "bob", "ada", None], pa.string()),
    "image/width": pa.array([10, 20, 30, 40], pa.int64()),
    "weight": pa.array([0.5, float("nan"), 2.5, None], pa.float64()),
    "tags": pa.array([[1], [], [1, 2], None], pa.list_(pa.int64())),
}


def a_batch(columns: dict[str, Any] | None = None) -> Batch:
    found = RECORDS if columns is None else columns
    rows = len(next(iter(found.values())))
    return Batch(records=pa.record_batch({**found, SAMPLE: pa.array(list(range(100, 100 + rows)), pa.int64())}), bad=[], bytes_in=7)


def schema_of(batch: Batch) -> pa.Schema:
    return pa.schema([field for field in batch.records.schema if field.name != SAMPLE])


def a_step(batch: Batch, **spec: Any) -> Step:
    transform = Transform.model_validate(spec)
    return step_class(transform.kind)(transform.member, schema_of(batch))


def applied(columns: dict[str, Any] | None = None, **spec: Any) -> Batch:
    """Applies the step, checks that the batch's columns match the step's schema, and returns the batch."""
    batch = a_batch(columns)
    step = a_step(batch, **spec)
    done = step.apply(batch)
    assert done.records.schema.names == [*step.schema().names, SAMPLE]
    assert [field.type for field in done.records.schema][:-1] == [field.type for field in step.schema()]
    assert done.bytes_in == batch.bytes_in
    return done


def refusal(**spec: Any) -> str:
    with pytest.raises(BadSpec) as caught:
        a_step(a_batch(), **spec)
    return str(caught.value)


def kept(where: str) -> list[int]:
    """Returns the rows that a filter keeps, counted from 0."""
    done = applied(filter={"where": where})
    assert done.filtered == 4 - done.records.num_rows
    samples: list[Any] = done.records.column(SAMPLE).to_pylist()
    return [sample - 100 for sample in samples]


# --- which columns ------------------------------------------------------------------------------------------------


def test_select_keeps_columns_in_the_order_asked_for() -> None:
    done = applied(select={"columns": ["tags", "0..1"]})
    assert done.records.schema.names == ["tags", "id", "name", SAMPLE]
    assert done.records.column("name").equals(RECORDS["name"])


def test_drop_leaves_out_columns() -> None:
    assert applied(drop={"columns": ["name", "-1"]}).records.schema.names == ["id", "image/width", "weight", SAMPLE]


def test_rename_keeps_place_and_values() -> None:
    done = applied(rename={"columns": {"id": "key", "-1": "labels"}})
    assert done.records.schema.names == ["key", "name", "image/width", "weight", "labels", SAMPLE]
    assert done.records.column("key").equals(RECORDS["id"])


def test_two_names_may_change_places() -> None:
    done = applied(rename={"columns": {"id": "name", "name": "id"}})
    assert done.records.column("name").equals(RECORDS["id"])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"select": {"columns": ["nmae"]}}, "The transform select: there is no column 'nmae'. Did you mean 'name'? The columns are id, name, image/width, weight, tags."),
        ({"select": {"columns": ["id", "0"]}}, "The transform select names the column 'id' twice."),
        ({"drop": {"columns": ["0..4"]}}, "The transform drop leaves no column."),
        ({"rename": {"columns": {"id": "name"}}}, "The transform rename makes two columns named 'name'."),
    ],
)  # fmt: skip
def test_columns_that_can_not_be_are_named(spec: dict[str, Any], message: str) -> None:
    assert refusal(**spec) == message


# --- filter -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("id >= 2", [1, 2]),
        ("not (id >= 2)", [0]),
        ("1 < id <= 3", [1, 2]),
        ("name == 'ada' and id != 3", [0]),
        ("name == 'bob' or id == 3", [1, 2]),
        ("name in ['ada', 'eve']", [0, 2]),
        ("name not in ['ada']", [1, 3]),
        ("is_null(name)", [3]),
        ("not is_null(id)", [0, 1, 2]),
        ("is_nan(weight)", [1]),
        ('col("image/width") * 2 - 5 > 40', [2, 3]),
        ("weight / 2 == 0.25", [0]),
        ("-id == -1", [0]),
        ("abs(id - 3) > 1", [0]),
        ("length(tags) == 0", [1]),
        ("length(name) == 3", [0, 1, 2]),
        ("starts_with(upper(name), 'A')", [0, 2]),
        ("ends_with(name, 'b')", [1]),
        ("contains(name, 'd')", [0, 2]),
        ("matches(name, '^[ab]{1}o')", [1]),
        ("id in [-1, 2]", [1]),
        ("id in [1, 2.0]", [0, 1]),
        ("weight in [0.5, 2]", [0]),
        ("id in {1, True}", [0]),
        ("name in [None]", [3]),
        ("'ada' in ['ada', 'eve']", [0, 1, 2, 3]),
        ("length('abc') == id", [2]),
        ("True", [0, 1, 2, 3]),
    ],
)
def test_a_filter_keeps_the_records_for_which_it_is_true(where: str, rows: list[int]) -> None:
    assert kept(where) == rows


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("id >", "The transform filter: 'id >' isn't a valid expression: invalid syntax."),
        ("id + 1", "The transform filter needs an expression that is true or false, but 'id + 1' is int64."),
        ("idd > 1", "The transform filter: there is no column 'idd'. Did you mean 'id'?"),
        ("name.upper() == 'A'", "The transform filter: 'name.upper()' is not understood; expressions can contain columns, numbers,"),
        ("__import__('os').system('x')", "is not understood"),
        ("id if id else 1", "is not understood"),
        ("[x for x in id]", "is not understood"),
        ("id is None", "The transform filter: 'id is None': to test for a missing value, write is_null(column)."),
        ("name in 'ada'", "`in` must be followed by a list of values"),
        ("name in [id]", "`in` must be followed by a list of values"),
        ("id in [not 1]", "`in` must be followed by a list of values"),
        ("id in [1j]", "`in` must be followed by a list of values"),
        ("id in [{[1]}]", "`in` must be followed by a list of values"),
        (r"name == '\ud800'", r"the text '\ud800' contains half of a surrogate pair, which isn't a Unicode character."),
        (r"name in ['a', '\ud800']", r"the text '\ud800' contains half of a surrogate pair, which isn't a Unicode character."),
        (r"contains(name, '\ud800')", r"the text '\ud800' contains half of a surrogate pair, which isn't a Unicode character."),
        ("name in [1, 'a']", "The transform filter: \"name in [1, 'a']\": the values of a list must be all numbers, all texts or all booleans, but 1 is a number and 'a' is a text."),
        ("name in ['a', 'b', b'c']", "but 'a' is a text and b'c' is bytes."),
        ("id in [1, True]", "but 1 is a number and True is a boolean."),
        ("id in [1, None]", "but 1 is a number and None is a missing value. To test for a missing value, write is_null(column)."),
        ("id in ['a']", "The transform filter: \"id in ['a']\": the list's values must be int64, like the value before `in`: Failed to parse string: 'a'"),
        ("id in [1, 99999999999999999999]", "a whole number must be from -9223372036854775808 to 18446744073709551615, got 99999999999999999999."),
        ("id > -99999999999999999999", "a whole number must be from -9223372036854775808 to 18446744073709551615, got -99999999999999999999."),
        ("weight in [9007199254740993, 1.5]", "no numeric type can hold all values of the list: Integer value 9007199254740993 is outside"),
        ("length(name, 1) > 1", "The transform filter: length takes 1 value, got 2"),
        ("contains(name, id)", "The transform filter: the second value of contains must be a text in quotes"),
        ("name > 1", "The transform filter: 'name > 1' can't be computed: Function 'greater' has no kernel matching input types (string, int64)"),
        ("matches(name, '(')", "The transform filter: '(' isn't a valid regular expression: Invalid regular expression: missing )"),
        ("not " * 60 + "is_null(id)", "is nested more than 50 levels deep."),
    ],
)  # fmt: skip
def test_an_expression_that_can_not_be_is_refused_while_planning(where: str, message: str) -> None:
    assert message in refusal(filter={"where": where})


def test_the_largest_uint64_can_be_compared() -> None:
    done = applied({"id": pa.array([2**64 - 2, 2**64 - 1], pa.uint64())}, filter={"where": "id == 18446744073709551615"})
    assert done.records.column("id").to_pylist() == [2**64 - 1]


def test_an_overflow_is_an_error_and_no_wrong_number() -> None:
    batch = a_batch({"id": pa.array([2**62], pa.int64())})
    step = a_step(batch, filter={"where": "id * 4 > 0"})
    with pytest.raises(BadData, match="The transform filter: 'id [*] 4 > 0' can't be computed: overflow"):
        step.apply(batch)


# --- hash ---------------------------------------------------------------------------------------------------------


def test_equal_values_have_equal_digests_and_a_missing_one_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEPPER", "s3cret")
    done = applied(hash={"columns": ["id", "name"], "keyEnv": "PEPPER", "bits": 64})
    expected = {name: hashlib.blake2b(name.encode(), digest_size=8, key=b"s3cret").hexdigest() for name in ("ada", "bob", "1")}
    assert done.records.column("name").to_pylist() == [expected["ada"], expected["bob"], expected["ada"], None]
    assert done.records.column("id").to_pylist()[0] == expected["1"]
    assert done.records.column("id").to_pylist()[3] is None


def test_without_a_key_the_digest_is_that_of_rfc_7693() -> None:
    # Appendix A of the RFC only has BLAKE2b-512("abc"). This digest has 256 bits, so it was computed with `b2sum -l 256`.
    done = applied({"text": pa.array([b"abc"], pa.binary())}, hash={"columns": ["text"], "bits": 256})
    assert done.records.column("text").to_pylist() == ["bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319"]


def test_a_key_that_is_not_there_and_a_column_of_fractions_are_refused() -> None:
    message = "The transform hash needs a key of 1 to 64 bytes in the environment variable ABSENT; it has 0 bytes."
    assert refusal(hash={"columns": ["name"], "keyEnv": "ABSENT"}) == message
    assert (
        refusal(hash={"columns": ["weight"]}) == "The transform hash takes text, bytes or whole numbers, but the column 'weight' is double."
    )


# --- tokenizeSplit ------------------------------------------------------------------------------------------------

TEXT = {"text": pa.array(["The  quick\tfox ", "", None, "a,b,,c"], pa.string())}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, [["The", "quick", "fox"], [], None, ["a,b,,c"]]),
        ({"lower": True, "maxWords": 2}, [["the", "quick"], [], None, ["a,b,,c"]]),
        ({"separator": ","}, [["The  quick\tfox "], [""], None, ["a", "b", "", "c"]]),
    ],
)
def test_text_becomes_words(options: dict[str, Any], words: list[Any]) -> None:
    assert applied(TEXT, tokenizeSplit={"columns": ["text"], **options}).records.column("text").to_pylist() == words


def test_numbers_have_no_words() -> None:
    assert refusal(tokenizeSplit={"columns": ["id"]}) == "The transform tokenizeSplit takes text, but the column 'id' is int64."
