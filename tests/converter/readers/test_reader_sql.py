"""Tests queries as sources with SQLite: parts, order, types, NULL, and changes to the data. test_reader_postgres.py tests PostgreSQL."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from adbc_driver_manager import AdbcStatusCode, OperationalError
from pydantic import ValidationError
from tests.converter.readers.reader_contract import ReaderContract, batches, chunks, faults, opened, plan, read_all, rows
from tests.converter.readers.sql_sources import EVERYTHING, a_source, job_of, parts

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadSpec, InputChanged, StoreFull
from dataprep_converter.readers import Reader
from dataprep_converter.readers.databases import databases, sql
from dataprep_converter.readers.databases.sql import SqlReader
from dataprep_converter.records.batch import SAMPLE


def filled(file: Path, columns: str, values: list[tuple[Any, ...]]) -> Path:
    """An SQLite database with the table `t`."""
    with sqlite3.connect(file) as database:
        database.execute(f"CREATE TABLE t ({columns})")
        for row in values:
            database.execute(f"INSERT INTO t VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 - the test's own
    database.close()
    return file


def changed(file: Path, statement: str) -> None:
    with sqlite3.connect(file) as database:
        database.execute(statement)
    database.close()


def numbers(file: Path, count: int = 100) -> Path:
    """A table of rows in random order. `x` is twice the id."""
    ids = np.random.default_rng(1).permutation(count).tolist()
    return filled(file, "id INTEGER, x INTEGER", [(number, 2 * number) for number in ids])


def values(source: Source) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != SAMPLE} for row in rows(batches(SqlReader, source))]


class SqlContract(ReaderContract):
    reader: ClassVar[type[Reader]] = SqlReader
    options: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def small_blocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sql, "BLOCK_ROWS", 25)

    def a_source(self, folder: Path) -> Source:
        if not (folder / "a.db").exists():
            filled(folder / "a.db", "id INTEGER, x REAL, s TEXT", [(number, number / 7, f"x {number}") for number in range(60)])
        return a_source(folder / "a.db", **self.options)

    def an_empty_source(self, folder: Path) -> Source:
        return a_source(filled(folder / "a.db", "id INTEGER", []), **self.options)

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        return a_source(folder / "absent.db", **self.options), str(folder / "absent.db")

    def change(self, folder: Path) -> Path:
        changed(folder / "a.db", "INSERT INTO t VALUES (15, 1, 'new')")
        changed(folder / "a.db", "UPDATE t SET id = rowid")
        return folder / "a.db"


class TestOnePart(SqlContract):
    pass


class TestParts(SqlContract):
    options: ClassVar[dict[str, Any]] = {"partitionBy": {"column": "id", "count": 4}}


class TestCountedParts(SqlContract):
    options: ClassVar[dict[str, Any]] = {"partitionBy": {"column": "id", "count": 4}, "pin": "Count"}

    def test_the_bytes_read_are_about_those_of_the_input(self, tmp_path: Path) -> None:
        # The planner doesn't know how large this source's rows are, because it doesn't read them.
        units, _ = plan(self.reader, self.a_source(tmp_path))
        assert units.table["size"].to_pylist() == [0] * 4


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100, 1000])
def test_the_number_of_parts_changes_no_row(tmp_path: Path, count: int) -> None:
    file = numbers(tmp_path / "a.db")
    source = a_source(file, partitionBy={"column": "id", "count": count})
    assert values(source) == [{"id": number, "x": 2 * number} for number in range(100)]
    units, _ = plan(SqlReader, source)
    assert len(units) == min(count, 100)
    assert max(parts(units)) - min(parts(units)) <= 1
    assert units.hash_inputs(np.arange(100))[1].tolist() == list(range(100))
    assert len(set(units.hash_inputs(np.arange(100))[0].tolist())) == 1


def test_parts_without_rows_are_no_units_and_null_is_in_the_first(tmp_path: Path) -> None:
    file = filled(tmp_path / "a.db", "id INTEGER, part INTEGER", [(1, 0), (2, 0), (3, 90), (4, None), (5, -9)])
    for pin in ("Content", "Count"):
        source = a_source(file, partitionBy={"column": "part", "count": 10}, defaults={"part": "-1"}, pin=pin)
        assert parts(plan(SqlReader, source)[0]) == [4, 1]
        assert [row["id"] for row in values(source)] == [1, 2, 4, 5, 3]


def test_a_column_of_parts_that_are_no_whole_numbers_is_refused(tmp_path: Path) -> None:
    file = filled(tmp_path / "a.db", "id INTEGER, x REAL", [(1, 0.5)])
    with pytest.raises(BadSpec, match=r"source\.sql\.partitionBy\.column: 'x' is double; use a column of whole numbers"):
        plan(SqlReader, a_source(file, partitionBy={"column": "x", "count": 2}))


def test_columns_that_are_not_there_are_named(tmp_path: Path) -> None:
    file = numbers(tmp_path / "a.db")
    with pytest.raises(BadSpec, match=r"source\.sql\.orderBy: the query has no column 'idd'. Did you mean 'id'\? It has id, x"):
        plan(SqlReader, a_source(file, order=("idd",)))
    with pytest.raises(BadSpec, match=r"source\.sql\.defaults: the query has no column 'z'"):
        plan(SqlReader, a_source(file, defaults={"z": "1"}))
    with pytest.raises(BadSpec, match="no such table: nowhere"):
        plan(SqlReader, a_source(file, "SELECT * FROM nowhere"))


def test_rows_that_the_order_does_not_tell_apart_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "BLOCK_ROWS", 2)
    file = filled(tmp_path / "a.db", "id INTEGER, s TEXT", [(1, "a"), (2, "b"), (2, "c"), (3, "d")])
    with pytest.raises(BadSpec, match=r"orderBy doesn't distinguish all rows: two rows have id=2. Add a column in which the rows differ"):
        plan(SqlReader, a_source(file))
    assert [row["s"] for row in values(a_source(file, order=("id", "s")))] == ["a", "b", "c", "d"]


def test_values_have_their_types_and_null_its_default(tmp_path: Path) -> None:
    made = [(1, 1, 2.5, "é", b"\x00", None, 7), (2, 2.5, None, None, b"", None, 8)]
    file = filled(tmp_path / "a.db", "id, mixed, x, s, b, none, i", made)
    source = a_source(file, defaults={"x": "-1", "s": "no text", "none": "4"})
    assert values(source) == [
        {"id": 1, "mixed": 1.0, "x": 2.5, "s": "é", "b": b"\x00", "none": 4, "i": 7},
        {"id": 2, "mixed": 2.5, "x": -1.0, "s": "no text", "b": b"", "none": 4, "i": 8},
    ]


@pytest.mark.parametrize("value", ["text", b"bytes", 1.5, 7], ids=["text", "blob", "real", "integer"])
def test_a_column_may_begin_with_any_number_of_nulls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: object) -> None:
    monkeypatch.setattr(databases, "_SQLITE_ROWS", 4)
    file = filled(tmp_path / "a.db", "id INTEGER, x", [(number, None if number < 9 else value) for number in range(12)])
    default = {"text": "-", "bytes": "-", "float": "0", "int": "0"}[type(value).__name__.replace("str", "text")]
    read = batches(SqlReader, a_source(file), nulls="Bad")
    assert [(row["id"], row["x"]) for row in rows(read)] == [(number, value) for number in range(9, 12)]
    assert faults(read) == dict.fromkeys(range(9), "column 'x' has no value and no default")
    assert [row["id"] for row in values(a_source(file, defaults={"x": default}))] == list(range(12))


def test_nulls_of_many_columns_are_where_they_were(tmp_path: Path) -> None:
    made = [(row, *(f"{row} {column}" if (row + column) % 3 else None for column in range(130))) for row in range(3)]
    source = a_source(filled(tmp_path / "a.db", "id, " + ", ".join(f"s{column}" for column in range(130)), made))
    filler = a_source(tmp_path / "a.db", defaults={f"s{column}": "" for column in range(130)})
    assert faults(batches(SqlReader, source, nulls="Bad")).keys() == {0, 1, 2}
    assert [tuple(row.values()) for row in values(filler)] == [tuple("" if value is None else value for value in row) for row in made]


def test_a_disk_too_small_for_a_sort_is_told(tmp_path: Path) -> None:
    with (
        pytest.raises(StoreFull, match=r"database or disk is full\. SQLite sorts in temporary files"),
        databases._translate_errors(str(tmp_path)),
    ):
        raise OperationalError("IO: Failed to step query: database or disk is full", status_code=AdbcStatusCode.IO)


def test_nulls_come_first_in_the_order(tmp_path: Path) -> None:
    made = [("b", 1), (None, 2), ("", 3), ("a", 4)]
    source = a_source(filled(tmp_path / "a.db", "s TEXT, n INTEGER", made), order=("s",), defaults={"s": "none"})
    assert [row["n"] for row in values(source)] == [2, 3, 4, 1]


def test_null_without_a_default_is_a_bad_record(tmp_path: Path) -> None:
    source = a_source(filled(tmp_path / "a.db", "id INTEGER, x REAL", [(1, 0.5), (2, None), (3, 1.5)]))
    read = batches(SqlReader, source, nulls="Bad")
    assert [row["id"] for row in rows(read)] == [1, 3]
    assert faults(read) == {1: "column 'x' has no value and no default"}
    units, _ = plan(SqlReader, source)
    assert units.origin(1) == (str(tmp_path / "a.db"), 1)


def test_a_column_of_text_and_numbers_is_refused(tmp_path: Path) -> None:
    file = filled(tmp_path / "a.db", "id, x", [(1, "one"), (2, 2)])
    with pytest.raises(BadSpec, match="the column 'x' has values of the types integer and text; CAST it to a single type"):
        plan(SqlReader, a_source(file))
    assert [row["x"] for row in values(a_source(file, "SELECT id, CAST(x AS TEXT) AS x FROM t;"))] == ["one", "2"]


def test_a_whole_number_among_others_that_float64_does_not_hold_is_refused(tmp_path: Path) -> None:
    file = filled(tmp_path / "a.db", "id, x", [(1, 0.5), (2, 2**53 + 1)])
    with pytest.raises(
        BadSpec, match=r"the column 'x' has numbers with a fraction and whole numbers that float64 can't represent exactly; CAST it"
    ):
        plan(SqlReader, a_source(file))
    kept = filled(tmp_path / "b.db", "id, x", [(1, 0.5), (2, 2**53)])
    assert [row["x"] for row in values(a_source(kept))] == [0.5, 2.0**53]


def test_names_of_columns_may_be_anything(tmp_path: Path) -> None:
    file = filled(tmp_path / "a.db", '"order by" INTEGER, "a""b" INTEGER', [(2, 20), (1, 10)])
    source = a_source(file, "SELECT * FROM t -- all of it", order=("order by",), partitionBy={"column": 'a"b', "count": 2})
    assert values(source) == [{"order by": 1, 'a"b': 10}, {"order by": 2, 'a"b': 20}]


@pytest.mark.parametrize(("pin", "statement", "message"), [
    ("Content", "UPDATE t SET x = 0 WHERE id = 30", r"the part 25 <= id < 50: the rows have changed since they were planned"),
    ("Content", "DELETE FROM t WHERE id = 30", r"the part 25 <= id < 50: 25 rows were planned, but now there are 24\. Plan again"),
    ("Count", "INSERT INTO t VALUES (1000, 1)", r"the part 75 <= id: 25 rows were planned, but now there are 26\. Plan again"),
    ("Count", "INSERT INTO t VALUES (-5, 1)", r"the part id < 25: 25 rows were planned, but now there are 26\. Plan again"),
], ids=["updated", "deleted", "added", "added below"])  # fmt: skip
def test_a_change_is_noticed_and_its_part_named(tmp_path: Path, pin: str, statement: str, message: str) -> None:
    file = numbers(tmp_path / "a.db")
    source = a_source(file, partitionBy={"column": "id", "count": 4}, pin=pin)
    units, state = plan(SqlReader, source)
    changed(file, statement)
    with pytest.raises(InputChanged, match=message):
        read_all(opened(SqlReader, source, state), units, chunks(np.arange(units.samples), 10))


def test_an_update_is_not_noticed_when_only_rows_are_counted(tmp_path: Path) -> None:
    file = numbers(tmp_path / "a.db", 3)
    source = a_source(file, pin="Count")
    units, state = plan(SqlReader, source)
    changed(file, "UPDATE t SET x = 9")
    assert [row["x"] for row in rows(read_all(opened(SqlReader, source, state), units, iter([np.arange(3)])))] == [9, 9, 9]


def test_only_the_parts_that_hold_the_rows_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    before = databases.Sqlite.batches

    def batches_of(self: databases.Sqlite, statement: str, schema: Any, **named: Any) -> Iterator[Any]:
        asked.append(statement.partition("WHERE ")[2])
        return before(self, statement, schema, **named)

    source = a_source(numbers(tmp_path / "a.db"), partitionBy={"column": "id", "count": 4}, pin="Count")
    units, state = plan(SqlReader, source)
    monkeypatch.setattr(databases.Sqlite, "batches", batches_of)
    read_all(opened(SqlReader, source, state), units, chunks(np.arange(30, 70), 5))
    assert asked == ['"id" >= 25 AND "id" < 50 ORDER BY "id"', '"id" >= 50 AND "id" < 75 ORDER BY "id"']


def test_a_query_cannot_change_the_database(tmp_path: Path) -> None:
    file = numbers(tmp_path / "a.db")
    with pytest.raises(BadSpec):
        plan(SqlReader, a_source(file, "DELETE FROM t RETURNING id, x"))
    with pytest.raises(ValidationError, match="contains a semicolon; write a single SELECT"):
        a_source(file, "SELECT 1 AS id; DROP TABLE t")
    assert len(values(a_source(file))) == 100


@pytest.mark.parametrize("url", ["postgresql://me:secret@db/x", "mysql://db/x", "sqlite:///", "a.db"])
def test_a_url_with_a_password_or_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="url"):
        a_source(url)


def test_a_query_without_an_order_is_refused() -> None:
    with pytest.raises(ValidationError, match="orderBy"):
        Source.model_validate({"sql": {"url": "postgresql://db/x", "query": "SELECT 1"}})


def test_a_query_becomes_records(tmp_path: Path) -> None:
    file = filled(tmp_path / "a.db", "id INTEGER, s TEXT", [(2, "b"), (1, "a")])
    assert job_of(a_source(file), tmp_path / "out") == [{"id": [1], "s": [b"a"]}, {"id": [2], "s": [b"b"]}]


def test_a_table_of_a_join_may_be_a_query(tmp_path: Path) -> None:
    file = numbers(tmp_path / "a.db", 3)
    (tmp_path / "b.csv").write_text("id,y\n1,10\n2,20\n0,0\n")
    tables = [
        {"name": "queried", "source": {"sql": {"url": f"sqlite:///{file}", "query": EVERYTHING, "orderBy": ["id"]}}},
        {"name": "file", "source": {"csv": {"uris": [str(tmp_path / "b.csv")], "header": True}}},
    ]
    source = Source.model_validate({"join": {"keys": ["id"], "tables": tables}})
    assert job_of(source, tmp_path / "out") == [{"x": [2 * number], "y": [10 * number]} for number in range(3)]
