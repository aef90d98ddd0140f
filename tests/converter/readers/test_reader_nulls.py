"""Every table source returns nulls, at any position and for any reading order. Defaults replace nulls."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather
from tests.converter.readers.reader_contract import batches, faults, plan, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.readers import reader_class

_pq: Any = pq  # these modules have no type stubs
_feather: Any = feather

COUNT = 9
PLACES = {"first": [0], "middle": [4], "last": [8], "several": [0, 1, 4, 8], "all but one": [0, 1, 2, 3, 4, 5, 6, 8]}
TYPES = {"i": "Int64", "f": "Float64", "b": "Bool"}


def table(places: list[int]) -> pa.Table:
    values: dict[str, list[Any]] = {
        "n": list(range(COUNT)),
        "i": [10 * row for row in range(COUNT)],
        "f": [row / 2 for row in range(COUNT)],
        "b": [row % 2 == 0 for row in range(COUNT)],
    }
    for name in TYPES:
        values[name] = [None if row in places else value for row, value in enumerate(values[name])]
    return pa.table({"n": values["n"], "i": pa.array(values["i"], pa.int64()), "f": pa.array(values["f"], pa.float64()), "b": values["b"]})


def as_csv(folder: Path, made: pa.Table) -> dict[str, Any]:
    lines = [",".join("" if value is None else str(value) for value in row.values()) for row in made.to_pylist()]
    (folder / "a.csv").write_text("".join(f"{line}\n" for line in ["n,i,f,b", *lines]))
    columns = [{"name": name, "type": kind} for name, kind in {"n": "Int64", **TYPES}.items()]
    return {"csv": {"uris": [str(folder)], "header": True, "columns": columns}}


def as_inferred_csv(folder: Path, made: pa.Table) -> dict[str, Any]:
    as_csv(folder, made)
    return {"csv": {"uris": [str(folder)], "header": True}}


def as_jsonl(folder: Path, made: pa.Table) -> dict[str, Any]:
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made.to_pylist()))
    columns = [{"name": name, "type": kind} for name, kind in {"n": "Int64", **TYPES}.items()]
    return {"jsonl": {"uris": [str(folder)], "columns": columns}}


def as_jsonl_without_keys(folder: Path, made: pa.Table) -> dict[str, Any]:
    lines = [{name: value for name, value in row.items() if value is not None} for row in made.to_pylist()]
    (folder / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"jsonl": {"uris": [str(folder)]}}


def as_parquet(folder: Path, made: pa.Table) -> dict[str, Any]:
    _pq.write_table(made, folder / "a.parquet", row_group_size=4)
    return {"parquet": {"uris": [str(folder)]}}


def as_arrow(folder: Path, made: pa.Table) -> dict[str, Any]:
    _feather.write_feather(made, str(folder / "a.arrow"), chunksize=4)
    return {"arrow": {"uris": [str(folder)]}}


def filled(file: Path, columns: str, values: list[tuple[Any, ...]]) -> Path:
    """An SQLite database with the table `t`."""
    with sqlite3.connect(file) as database:
        database.execute(f"CREATE TABLE t ({columns})")
        for row in values:
            database.execute(f"INSERT INTO t VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 - the test's own
    database.close()
    return file


def as_sql(folder: Path, made: pa.Table) -> dict[str, Any]:
    file = filled(folder / "a.db", "n INTEGER, i INTEGER, f REAL, b INTEGER", [tuple(row.values()) for row in made.to_pylist()])
    return {"sql": {"url": f"sqlite:///{file}", "query": "SELECT * FROM t", "orderBy": ["n"]}}


SOURCES: dict[str, Callable[[Path, pa.Table], dict[str, Any]]] = {
    "csv": as_csv,
    "inferred csv": as_inferred_csv,
    "jsonl": as_jsonl,
    "jsonl without keys": as_jsonl_without_keys,
    "parquet": as_parquet,
    "arrow": as_arrow,
    "sql": as_sql,
}


def read(source: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    parsed = Source.model_validate(source)
    found = batches(reader_class(parsed.kind), parsed, size=4, **options)
    assert not faults(found)
    return [{name: value for name, value in row.items() if name != "_sample"} for row in rows(found)]


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES.keys())
@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES.keys())
def test_nulls_are_where_they_were(tmp_path: Path, make: Callable[[Path, pa.Table], dict[str, Any]], places: list[int]) -> None:
    made = table(places)
    source = make(tmp_path, made)
    assert read(source) == made.to_pylist()
    order = np.random.default_rng(1).permutation(COUNT).astype(np.int64)
    assert read(source, order=order) == [made.to_pylist()[row] for row in order]


DEFAULTS = {"i": "-1", "f": "NaN", "b": "true"}


@pytest.mark.parametrize("kind", ["inferred csv", "csv", "jsonl", "jsonl without keys", "parquet", "arrow"])
def test_defaults_take_the_place_of_nulls(tmp_path: Path, kind: str) -> None:
    source = SOURCES[kind](tmp_path, table([0, 4]))
    (member,) = source.values()
    found = read({next(iter(source)): member | {"defaults": DEFAULTS}})
    assert [(row["i"], str(row["f"]), row["b"]) for row in found][:5:2] == [(-1, "nan", True), (20, "1.0", True), (-1, "nan", True)]
    assert [row["n"] for row in found] == list(range(COUNT))


def test_lists_tensors_and_members_of_structs_may_be_null(tmp_path: Path) -> None:
    made = pa.table(
        {
            "l": pa.array([[1], None, []], pa.list_(pa.int64())),
            "v": pa.array([None, [1, 2], [3, 4]], pa.list_(pa.float32(), 2)),
            "o": pa.array([{"s": "x"}, {"s": None}, None], pa.struct([("s", pa.string())])),
            "d": pa.array(["a", None, "a"]).dictionary_encode(),
            "t": pa.array([None, 1, 2], pa.timestamp("ms")),
        }
    )
    found = read(as_parquet(tmp_path, made))
    assert [list(row.values()) for row in found] == [[[1], None, "x", "a", None], [None, [1, 2], None, None, 1], [[], [3, 4], None, "a", 2]]


def test_a_text_of_csv_is_empty_and_never_null(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('1,x,y\n2,,""\n3,NA,z\n')
    columns = [{"name": "n", "type": "Int64"}, {"name": "s", "type": "String"}, {"name": "q", "type": "String"}]
    found = read({"csv": {"uris": [str(tmp_path)], "columns": columns, "nullWords": ["NA"]}})
    assert [(row["s"], row["q"]) for row in found] == [("x", "y"), ("", ""), ("", "z")]


def test_words_for_missing_values_are_nulls(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,NA\nn/a,2.5\n")
    assert read({"csv": {"uris": [str(tmp_path)], "header": True}}) == [{"a": 1, "b": None}, {"a": None, "b": 2.5}]


def test_a_null_among_the_values_of_a_list_is_bad(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"l": [1, 2]}\n{"l": null}\n{"l": [1, null]}\n')
    source = Source.model_validate({"jsonl": {"uris": [str(tmp_path)], "columns": [{"name": "l", "type": "Float32", "list": True}]}})
    found = batches(reader_class("jsonl"), source)
    assert [row["l"] for row in rows(found)] == [[1.0, 2.0], None]
    assert faults(found) == {2: "line 3: column 'l' has a null among its values; add nested: [\"l\"] to source.jsonl to keep such lists"}


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_folder_without_a_value_gives_nulls(tmp_path: Path, kind: str) -> None:
    for folder in ("c=__HIVE_DEFAULT_PARTITION__", "c=4"):
        (tmp_path / folder).mkdir()
        if kind == "csv":
            (tmp_path / folder / "a.csv").write_text("x\n1\n")
        else:
            _pq.write_table(pa.table({"x": [1]}), tmp_path / folder / "a.parquet")
    source = {"uris": [str(tmp_path)], "hivePartitions": "Infer"} | ({"header": True} if kind == "csv" else {})
    assert read({kind: source}) == [{"x": 1, "c": 4}, {"x": 1, "c": None}]
    assert read({kind: source | {"defaults": {"c": "7"}}}) == [{"x": 1, "c": 4}, {"x": 1, "c": 7}]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_default_needs_its_column_and_is_given_once(tmp_path: Path, kind: str) -> None:
    source = SOURCES[kind](tmp_path, table([0]))
    options = source[kind]

    def refusal(**changes: Any) -> str:
        with pytest.raises(BadSpec) as refused:
            plan(reader_class(kind), Source.model_validate({kind: options | changes}))
        return str(refused.value)

    assert (
        refusal(defaults={"ii": "0"}) == f"source.{kind}.defaults: there is no column 'ii'. Did you mean 'i'? The columns are n, i, f, b."
    )
    assert refusal(defaults={"i": "x"}) == f"source.{kind}.columns: the default 'x' of 'i' is not an Int64."
    columns = [column | ({"default": "1"} if column["name"] == "i" else {}) for column in options["columns"]]
    assert refusal(columns=columns, defaults={"i": "0"}) == (
        f"source.{kind}: the column 'i' has a default in columns and in defaults; leave one of them out."
    )


def test_the_default_of_an_inferred_column_may_be_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,s\n1,x\n2,\n")
    source = {"csv": {"uris": [str(tmp_path)], "header": True, "defaults": {"s": "none"}}}
    assert [row["s"] for row in read(source)] == ["x", "none"]


def test_a_changed_value_beside_nulls_changes_the_pin_of_a_query(tmp_path: Path) -> None:
    pins = []
    for name, values in {"a": [(1, None), (2, 5)], "b": [(1, None), (2, 6)], "c": [(1, 5), (2, None)], "d": [(1, None), (2, 5)]}.items():
        (tmp_path / name).mkdir()
        file = filled(tmp_path / name / "a.db", "n INTEGER, x INTEGER", values)
        source = Source.model_validate({"sql": {"url": f"sqlite:///{file}", "query": "SELECT * FROM t", "orderBy": ["n"]}})
        pins.append(plan(reader_class("sql"), source)[0].unit(0).pin)
    assert pins[0] == pins[3]
    assert len(set(pins)) == 3
