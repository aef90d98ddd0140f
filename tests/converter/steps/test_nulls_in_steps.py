"""What transforms, splits, joins and sequences do with nulls."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders.jobs import output_of, run_job
from tests.builders.specs import parse_job
from tests.converter.steps.null_columns import SKIP, a_job, the_file

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadData

_pq: Any = pq  # the module has no type stubs


def after(folder: Path, columns: str, *transforms: dict[str, Any], **spec: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _pq.read_table(
        the_file(a_job(folder, "parquet", columns, transforms=list(transforms), **spec))
    ).to_pylist()
    return rows


def test_a_filter_that_compares_a_null_leaves_the_record_out(tmp_path: Path) -> None:
    assert [row["n"] for row in after(tmp_path, "in", {"filter": {"where": "i < 4"}})] == [1, 2]


def test_a_filter_can_test_for_nulls(tmp_path: Path) -> None:
    assert [row["n"] for row in after(tmp_path, "in", {"filter": {"where": "is_null(i) or i > 4"}})] == [0, 4]


def test_text_steps_keep_nulls(tmp_path: Path) -> None:
    steps = [{"hash": {"columns": ["i"]}}, {"vocabulary": {"columns": ["s"], "terms": ["", "x", "y", "z"]}}]
    found = after(tmp_path, "isn", *steps)
    assert [row["i"] is None for row in found] == [True, False, False, False, False]
    assert [row["s"] for row in found] == [1, 0, None, 2, 3]


def test_words_of_a_null_are_null(tmp_path: Path) -> None:
    assert [row["s"] for row in after(tmp_path, "sn", {"tokenizeSplit": {"columns": ["s"]}})] == [["x"], [], None, ["y"], ["z"]]


def test_a_null_is_the_background_class(tmp_path: Path) -> None:
    found = after(tmp_path, "in", {"oneHot": {"columns": ["i"], "numClasses": 6, "background": True}})
    assert found[0]["i"] == [0, 0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    "step",
    [
        {"cast": {"columns": ["i"], "dtype": "float32"}},
        {"scale": {"columns": ["i"]}},
        {"oneHot": {"columns": ["i"], "numClasses": 6}},
    ],
    ids=lambda step: next(iter(step)),
)
def test_steps_that_compute_refuse_a_null_by_name(tmp_path: Path, step: dict[str, Any]) -> None:
    with pytest.raises(BadData, match=r"rows\.parquet, record 0: i has no value\. Set"):
        after(tmp_path, "in", step)


def test_a_null_within_a_list_is_refused_by_name(tmp_path: Path) -> None:
    _pq.write_table(pa.table({"l": [[1], [2, None]]}), tmp_path / "a.parquet")
    spec = {"source": {"parquet": {"uris": [str(tmp_path / "a.parquet")]}}, "output": {"uri": str(tmp_path / "out"), "format": "parquet"}}
    message = r"record 1: column 'l' has a null among its values; add nested: \[\"l\"\] to source\.parquet to keep such lists\."
    with pytest.raises(BadData, match=message):
        run_job(parse_job(spec))


def test_nulls_are_equal_when_records_are_compared(tmp_path: Path) -> None:
    _pq.write_table(
        pa.table({"i": [None, 1, None, 1], "v": pa.array([None, [1], None, [2]], pa.list_(pa.int64(), 1))}), tmp_path / "a.parquet"
    )
    spec = {"source": {"parquet": {"uris": [str(tmp_path / "a.parquet")]}}, "output": {"uri": str(tmp_path / "out"), "format": "jsonl"}}
    job = parse_job(spec | {"deduplicate": {"columns": ["i", "v"]}})
    assert the_file(job).read_text() == '{"i":null,"v":null}\n{"i":1,"v":[1]}\n{"i":1,"v":[2]}\n'


@pytest.mark.parametrize(
    ("splits", "expected"),
    [
        ({"column": "g", "into": [{"name": "a", "values": ["1"]}, {"name": "rest"}]}, {"a": [1, 4], "rest": [0, 2, 3, 5]}),
        ({"column": "g", "into": [{"name": "a", "since": "0"}, {"name": "rest"}]}, {"a": [1, 2, 4, 5], "rest": [0, 3]}),
    ],
    ids=["values", "range"],
)
def test_a_null_is_in_no_value_and_in_no_range(tmp_path: Path, splits: dict[str, Any], expected: dict[str, list[int]]) -> None:
    assert split_by(tmp_path, splits) == expected


def test_nulls_are_one_group(tmp_path: Path) -> None:
    splits = {"groupBy": "g", "into": [{"name": "a", "fraction": 0.5}, {"name": "b", "fraction": 0.5}]}
    found = split_by(tmp_path, splits)
    assert sorted(found["a"] + found["b"]) == [0, 1, 2, 3, 4, 5]
    for group in ([0, 3], [1, 4], [2, 5]):
        assert any(set(group) <= set(records) for records in found.values())


def split_by(folder: Path, splits: dict[str, Any]) -> dict[str, list[int]]:
    """The records of each split of a table whose column `g` has the values null, 1 and 2 in turn."""
    _pq.write_table(pa.table({"n": range(6), "g": [None, 1, 2] * 2}), folder / "a.parquet")
    source = {"parquet": {"uris": [str(folder / "a.parquet")]}}
    output = {"uri": str(folder / "out"), "format": "jsonl", "shards": {"count": 1}}
    out = output_of(parse_job({"source": source, "splits": splits, "output": output}))
    return {
        split["name"]: [json.loads(line)["n"] for file in sorted(out.glob(f"{split['name']}*.jsonl")) for line in file.read_text().splitlines()]
        for split in splits["into"]
    }  # fmt: skip


def a_join(folder: Path, left: pa.Table, right: pa.Table, spec: dict[str, Any] | None = None, **right_table: Any) -> list[dict[str, Any]]:
    """The records of two tables joined by `n`."""
    tables = [{"name": name, "source": {"parquet": {"uris": [str(folder / f"{name}.parquet")]}}} for name in ("a", "b")]
    for name, table in (("a", left), ("b", right)):
        _pq.write_table(table, folder / f"{name}.parquet")
    join = {"keys": ["n"], "missing": "Drop", "tables": [tables[0], tables[1] | right_table]}
    output = {"uri": str(folder / "out"), "format": "jsonl", "shards": {"count": 1}}
    out = output_of(parse_job({"source": {"join": join}, "output": output} | (spec or {})))
    return [json.loads(line) for line in next(out.glob("*.jsonl")).read_text().splitlines()]


LEFT = pa.table({"n": [1, 2, None], "i": pa.array([None, 5, 6], pa.int64()), "s": ["x", None, "z"]})
RIGHT = pa.table({"n": [2, 1, 1], "f": pa.array([0.5, None, 1.5], pa.float32())})


def test_a_join_keeps_nulls_of_its_tables(tmp_path: Path) -> None:
    records = a_join(tmp_path, LEFT.slice(0, 2), RIGHT.slice(0, 2))
    assert records == [{"i": None, "s": "x", "f": None}, {"i": 5, "s": None, "f": 0.5}]


def test_a_join_refuses_a_null_key(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"record 2: a: n has no value, and a null is no key of a join\."):
        a_join(tmp_path, LEFT, RIGHT.slice(0, 2))


def test_a_join_leaves_out_the_rows_with_null_keys_if_bad_records_are_skipped(tmp_path: Path) -> None:
    assert a_join(tmp_path, LEFT, RIGHT.slice(0, 2), SKIP) == [{"i": None, "s": "x", "f": None}, {"i": 5, "s": None, "f": 0.5}]


def test_a_join_refuses_a_null_within_a_sequence(tmp_path: Path) -> None:
    with pytest.raises(BadData) as refused:
        a_join(tmp_path, LEFT.slice(0, 2), RIGHT, orderBy=["f"])
    assert str(refused.value) == (
        f"{tmp_path}/b.parquet, record 1: b: column 'f' has no value and no default. The steps of a sequence can't be null; "
        'add defaults: {"f": "0"}, or another value of its type, to source.join.tables[1].source.parquet. '
        "Otherwise, set onBadRecord.policy: Skip to leave such records out."
    )


def test_a_default_in_the_source_of_the_table_makes_the_sequence(tmp_path: Path) -> None:
    source = {"parquet": {"uris": [str(tmp_path / "b.parquet")], "defaults": {"f": "9"}}}
    made = a_join(tmp_path, LEFT.slice(0, 2), RIGHT, orderBy=["f"], source=source)
    assert [record["f"] for record in made] == [[1.5, 9.0], [0.5]]


INFERRED = 'list the columns in source.csvSequences.{}columns, with {{name: "{}", type: Float32, default: "NaN"}}'
CELLS = [{"name": "x", "type": "Float32"}, {"name": "y", "type": "Int64"}]
SEQUENCES: dict[str, tuple[dict[str, Any], str, str]] = {
    "inferred": ({}, "line 2: column '1' is empty or a word such as NA, and has no default", INFERRED.format("", "1")),
    "listed": (
        {"columns": CELLS},
        "line 2: column 'y' is empty and has no default",
        "add default: \"0\" to the column 'y' in source.csvSequences.columns",
    ),
    "labels": (
        {"labels": {"uris": ["{}/labels"]}, "select": ["0"]},
        "its labels, line 2: column 'label' is empty or a word such as NA, and has no default",
        INFERRED.format("labels.", "label"),
    ),
    "listed labels": (
        {"labels": {"uris": ["{}/labels"], "columns": [{"name": "z", "type": "Float32"}]}, "select": ["0"]},
        "its labels, line 2: column 'z' is empty and has no default",
        "add default: \"NaN\" to the column 'z' in source.csvSequences.labels.columns",
    ),
}


def a_sequence(folder: Path, options: dict[str, Any], **spec: Any) -> DataPrepJob:
    for name, text in {"in": "1,2\n3,\n", "labels": '1\n""\n'}.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "a.csv").write_text(text)
    source: Any = json.loads(json.dumps({"uris": [str(folder / "in")], **options}).replace("{}", str(folder)))
    return parse_job({"source": {"csvSequences": source}, "output": {"uri": str(folder / "out"), "format": "jsonl"}, **spec})


@pytest.mark.parametrize(("options", "reason", "advice"), SEQUENCES.values(), ids=SEQUENCES.keys())
def test_a_sequence_of_a_csv_file_refuses_an_empty_number(options: dict[str, Any], reason: str, advice: str, tmp_path: Path) -> None:
    with pytest.raises(BadData) as refused:
        run_job(a_sequence(tmp_path, options))
    assert str(refused.value) == (
        f"{tmp_path}/in/a.csv, record 0: {reason}. The steps of a sequence can't be null; {advice}. "
        "Otherwise, set onBadRecord.policy: Skip to leave such records out."
    )


@pytest.mark.parametrize(
    ("columns", "steps"),
    [
        ([{"name": "0", "type": "Float32"}, {"name": "1", "type": "Float32", "default": "NaN"}], [2.0, None]),
        ([CELLS[0], CELLS[1] | {"default": "0"}], [2, 0]),
    ],
    ids=["inferred", "listed"],
)
def test_the_advised_default_makes_the_sequence(columns: list[Any], steps: list[Any], tmp_path: Path) -> None:
    output = {"uri": str(tmp_path / "out"), "format": "jsonl", "jsonl": {"nonFinite": "Null"}}
    out = output_of(a_sequence(tmp_path, {"columns": columns}, output=output))
    (made,) = [json.loads(line) for line in next(out.glob("*.jsonl")).read_text().splitlines()]
    assert made[columns[1]["name"]] == steps


def test_a_join_refuses_nulls_if_the_job_does(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"record 0: a: column 'i' has no value and no default\."):
        a_join(tmp_path, LEFT.slice(0, 2), RIGHT.slice(0, 2), {"nulls": "Bad"})


def test_a_function_gets_and_returns_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "def swap(record):\n    return record | {'i': record['n'] if record['i'] is None else None, 'n': record['v'] is None}\n"
    (tmp_path / "steps_for_nulls.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)  # type: ignore[no-untyped-call,unused-ignore]  # pytest has no type for it
    made = [{"name": "i", "type": "Int64"}, {"name": "n", "type": "Bool"}]
    swap = {"transforms": [{"map": {"callable": "steps_for_nulls:swap", "columns": made}}]}
    lines = the_file(a_job(tmp_path, "jsonl", "ivn", **swap, **SKIP)).read_text().splitlines()
    assert [(row["i"], row["v"], row["n"]) for row in map(json.loads, lines)] == [
        (0, [1.0, 2.0], False), (None, [3.0, 4.0], False), (None, [5.0, 6.0], False), (None, [7.0, 8.0], False),
    ]  # fmt: skip
    with pytest.raises(
        BadData, match=r"record 3: the plug-in 'steps_for_nulls:swap' returned a value that doesn't fit: record 0: v is None; expected"
    ):
        run_job(a_job(tmp_path, "jsonl", "ivn", **swap))
