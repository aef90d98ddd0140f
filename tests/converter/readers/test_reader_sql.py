"""Tests queries as sources: parts, order, types, NULL, and changes to the data. Most tests use SQLite; some run a PostgreSQL server."""

import sqlite3
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
import pytest
from adbc_driver_manager import AdbcStatusCode, OperationalError
from pydantic import ValidationError
from tests.availability import unavailable
from tests.builders.specs import parse_job
from tests.converter.readers import postgres_server
from tests.converter.readers.postgres_server import PASSWORD, USER, Server
from tests.converter.readers.reader_contract import ReaderContract, batches, chunks, faults, opened, plan, read_all, rows

from dataprep_api.spec import Source
from dataprep_converter.cli.display import Display
from dataprep_converter.core.errors import BadCredentials, BadData, BadSpec, InputChanged, NotFound, StoreFull, Unreachable
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Reader
from dataprep_converter.readers.databases import databases, sql
from dataprep_converter.readers.databases.sql import SqlReader
from dataprep_converter.records.batch import SAMPLE
from dataprep_converter.sampling.units import UnitTable
from dataprep_converter.steps.run import run
from dataprep_converter.stores import StoreSettings
from dataprep_converter.tools.verification import verify

EVERYTHING = "SELECT * FROM t"


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


def a_source(file: Path | str, query: str = EVERYTHING, *, order: tuple[str, ...] = ("id",), **options: Any) -> Source:
    url = file if isinstance(file, str) else f"sqlite:///{file}"
    return Source.model_validate({"sql": {"url": url, "query": query, "orderBy": list(order), **options}})


def numbers(file: Path, count: int = 100) -> Path:
    """Rows with an id and, as `x`, twice the id, in no particular order."""
    ids = np.random.default_rng(1).permutation(count).tolist()
    return filled(file, "id INTEGER, x INTEGER", [(number, 2 * number) for number in ids])


def values(source: Source) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != SAMPLE} for row in rows(batches(SqlReader, source))]


def parts(units: UnitTable) -> list[int]:
    return [int(count) for count in units.table["records"].to_numpy()]


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
        pytest.raises(StoreFull, match="database or disk is full: SQLite sorts in temporary files"),
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


def job_of(source: Source, output: Path, access: Access | None = None) -> list[dict[str, Any]]:
    """Returns the records of a job that sets only its source."""
    spec = {"source": source.model_dump(by_alias=True, exclude_none=True), "output": {"uri": str(output)}}
    job = parse_job(spec, name="sql")
    run(job, access=access or Access(), workers=1, display=Display(quiet=True))
    (file,) = output.glob("*.tfrecords")
    return [records.parse_example(payload) for _, payload in records.read([file.read_bytes()])]


# --- PostgreSQL ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    programs = postgres_server.programs()
    if programs is None:
        unavailable("a PostgreSQL server: pip install -r requirements/dev.txt has one")
    with postgres_server.running(programs) as found:
        statements(
            found,
            "CREATE TABLE t (id integer, big bigint, x real, y double precision, n numeric(10, 2), s text, b bytea, flag boolean, d date, a integer[])",
            "INSERT INTO t SELECT g, g * 10000000000, g / 2.0, g / 4.0, g / 4.0, 's' || g, '\\x00ff', g % 2 = 0, date '1970-01-01' + g, array[g, g + 1]"
            " FROM generate_series(1, 20000) AS g",
            "CREATE DOMAIN cash AS money",
            "CREATE TYPE priced AS (price money)",
        )
        yield found


def statements(server: Server, *texts: str) -> None:
    """Executes the statements in a transaction that is allowed to write."""
    with databases.Postgres.connect(server.url, SECRET) as database, database._connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ WRITE")
        for text in texts:
            cursor.execute(text)
        database._connection.commit()


SECRET = {"accessKeyId": USER, "accessKeySecret": PASSWORD}


def access_to(server: Server) -> Access:
    return Access([StoreSettings(uri_prefix=f"postgresql://{USER}@127.0.0.1:{server.port}/", credentials=SECRET)])


def planned(source: Source, access: Access) -> tuple[UnitTable, dict[str, Any]]:
    return SqlReader.discover(source.member, access).collect()


@pytest.mark.slow
def test_postgres_rows_are_read_with_their_types(server: Server) -> None:
    source = a_source(server.url, partitionBy={"column": "id", "count": 3})
    access = access_to(server)
    units, state = planned(source, access)
    assert parts(units) == [6666, 6667, 6667]
    order = np.random.default_rng(2).permutation(20_000)[:500].astype(np.int64)
    found = rows(read_all(SqlReader(source.member, state, access), units, chunks(order, 100)))
    assert found == [
        {
            "id": number, "big": number * 10**10, "x": number / 2, "y": number / 4, "n": number / 4, "s": f"s{number}", "b": b"\x00\xff",
            "flag": number % 2 == 0, "d": number, "a": [number, number + 1], SAMPLE: number - 1,
        }
        for number in (order + 1).tolist()
    ]  # fmt: skip


@pytest.mark.slow
def test_postgres_plans_are_equal_each_time_and_for_both_pins(server: Server) -> None:
    access = access_to(server)
    (first, state), (again, _) = (planned(a_source(server.url, partitionBy={"column": "id", "count": 5}), access) for _ in range(2))
    assert first.table.equals(again.table)
    counted, counted_state = planned(a_source(server.url, partitionBy={"column": "id", "count": 5}, pin="Count"), access)
    assert parts(counted) == parts(first)
    assert counted_state == state


def test_postgres_becomes_records(server: Server, tmp_path: Path) -> None:
    source = a_source(server.url, "SELECT id, s FROM t WHERE id <= 2")
    assert job_of(source, tmp_path / "out", access_to(server)) == [{"id": [1], "s": [b"s1"]}, {"id": [2], "s": [b"s2"]}]


def test_parquet_keeps_the_times_of_postgres(server: Server, tmp_path: Path) -> None:
    query = """
        SELECT id, CASE id WHEN 2 THEN timestamptz '2026-01-31 12:30:00.5+01' END AS at,
            date '2026-01-31' AS day, time '12:30:00.5' AS of_day, 1.50::numeric AS n
        FROM t WHERE id <= 2
    """
    spec = {
        "source": a_source(server.url, query).model_dump(by_alias=True, exclude_unset=True, mode="json"),
        "output": {"uri": str(tmp_path / "out"), "format": "parquet"},
    }
    run(parse_job(spec), access=access_to(server), workers=1, display=Display(quiet=True))
    (file,) = (tmp_path / "out").glob("*.parquet")
    table = pq.read_table(file)
    kinds = {"id": "int32", "at": "timestamp[us, tz=UTC]", "day": "date32[day]", "of_day": "time64[us]", "n": "double"}
    assert {field.name: str(field.type) for field in table.schema} == kinds
    moment, day, of_day = datetime(2026, 1, 31, 11, 30, 0, 500_000, UTC), date(2026, 1, 31), time(12, 30, 0, 500_000)
    assert [list(row.values())[1:] for row in table.to_pylist()] == [[None, day, of_day, 1.5], [moment, day, of_day, 1.5]]


def test_postgres_says_what_is_wrong_without_the_password(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadCredentials, match="Give user and password in the Secret of an entry of `stores`"):
        planned(a_source(server.url), Access())
    wrong = Access([StoreSettings(uri_prefix=server.url, credentials=SECRET | {"accessKeySecret": "wr0ng"})])
    with pytest.raises(BadCredentials, match=f'password authentication failed for user "{USER}"') as caught:
        planned(a_source(server.url), wrong)
    assert "wr0ng" not in str(caught.value)
    with pytest.raises(NotFound, match='database "nowhere" does not exist'):
        planned(a_source(server.url.replace("/postgres", "/nowhere")), access_to(server))
    with pytest.raises(BadSpec, match='column "nope" does not exist'):
        planned(a_source(server.url, "SELECT nope FROM t"), access_to(server))
    with pytest.raises(BadSpec):
        planned(a_source(server.url, "WITH gone AS (DELETE FROM t RETURNING id) SELECT * FROM gone"), access_to(server))
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert planned(a_source(server.url, "SELECT 1 AS id"), Access())[0].samples == 1


def test_a_server_that_does_not_answer_is_named() -> None:
    with pytest.raises(Unreachable, match=r"postgresql://127\.0\.0\.1:1/x: .*Connection refused"):
        planned(a_source("postgresql://127.0.0.1:1/x"), Access())


def test_a_change_in_postgres_is_noticed(server: Server) -> None:
    access = access_to(server)
    statements(server, "CREATE TABLE changing AS SELECT id, s FROM t WHERE id <= 100")
    source = a_source(server.url, "SELECT * FROM changing", partitionBy={"column": "id", "count": 2})
    units, state = planned(source, access)
    statements(server, "UPDATE changing SET s = 'other' WHERE id = 77")
    with SqlReader(source.member, state, access) as reader:
        assert len(rows(list(reader.read(units, iter([np.arange(50)]))))) == 50
        with pytest.raises(InputChanged, match=r"the part 51 <= id: the rows have changed since they were planned\. Plan again"):
            list(reader.read(units, iter([np.arange(50, 60)])))


POSTGRES_TYPES: dict[str, tuple[str, Any]] = {
    "bool": ("true", True),
    "int2": ("-3", -3),
    "int4": ("4", 4),
    "int8": ("9007199254740993", 9007199254740993),
    "float4": ("1.5", 1.5),
    "float8": ("'-Infinity'", float("-inf")),
    "numeric": ("1.5", 1.5),
    "text": ("'é'", "é"),
    "varchar": ("'v'", "v"),
    "bpchar": ("'b'", "b"),
    "name": ("'n'", "n"),
    "refcursor": ("'r'", "r"),
    "bytea": ("'\\x00ff'", b"\x00\xff"),
    "json": ("'[1]'", "[1]"),
    "jsonb": ("'[1]'", "[1]"),
    "uuid": ("'00000000-0000-0000-0000-000000000001'", b"\0" * 15 + b"\1"),
    "date": ("'1970-01-02'", 1),
    "time": ("'00:00:01'", 1_000_000),
    "timestamp": ("'1969-12-31 23:59:59'", -1_000_000),
    "timestamptz": ("'1970-01-01 01:00:00+01'", 0),
    "int2vector": ("'1 2'", [1, 2]),
}
"""The PostgreSQL types that can be read: an SQL expression, and the value that is read from it."""


def test_each_postgres_type_is_read_or_refused_by_name(server: Server) -> None:
    with databases.connect(server.url, access_to(server)) as database:
        # Leave out arrays of a table's row type, because these types depend on the table's columns.
        catalogue = (
            "SELECT string_agg(typname, ' ' ORDER BY typname) FROM pg_type t WHERE typtype IN ('b', 'r', 'm') AND typnamespace = 11"
            " AND NOT EXISTS (SELECT FROM pg_type e WHERE e.oid = t.typelem AND e.typrelid <> 0)"
        )
        (found,) = database.row(catalogue)
        (of_arrays,) = database.row(
            "SELECT string_agg(a.typname || ' ' || e.typname, ' ') FROM pg_type a JOIN pg_type e ON a.oid = e.typarray WHERE a.typnamespace = 11"
        )
        pairs = of_arrays.split()
        inner = dict(zip(pairs[::2], pairs[1::2], strict=True))
        assert {"money", "_money", "date", "_date", "point", "int4range", "aclitem"} <= set(found.split())
        wrong = []
        for name in found.split():
            read = inner.get(name, name) in POSTGRES_TYPES
            try:
                database.columns(f'SELECT 1 AS id, NULL::pg_catalog."{name}" AS x')
            except BadSpec as exc:
                database._connection.rollback()
                said = str(exc)
                named = (
                    (name in ("aclitem", "gtsvector") and "no binary form" in said)
                    or f"the column 'x' is {name}, " in said
                    or f"the column 'x' is {inner.get(name)}[], " in said
                    or "bit varying" in said
                )
                if read or not named or "to text in source.sql.query" not in said:
                    wrong.append((name, said))
            else:
                if not read:
                    wrong.append((name, "read"))
    assert not wrong, "\n".join(map(str, wrong))


def test_postgres_values_are_those_of_the_server(server: Server) -> None:
    columns = ", ".join(f'CAST({literal} AS pg_catalog."{kind}") AS "a {kind}"' for kind, (literal, _) in POSTGRES_TYPES.items())
    source = a_source(server.url, f"SELECT 1 AS id, {columns}")
    units, state = planned(source, access_to(server))
    (row,) = rows(read_all(SqlReader(source.member, state, access_to(server)), units, iter([np.arange(1)])))
    assert {kind: row[f"a {kind}"] for kind in POSTGRES_TYPES} == {kind: expected for kind, (_, expected) in POSTGRES_TYPES.items()}


@pytest.mark.parametrize(("kind", "expected"), [
    ("money", r"the column 'x' is money, which can't be read\. CAST it to numeric or to text in source\.sql\.query"),
    ("money[]", r"the column 'x' is money\[\], which can't be read\. CAST it to numeric\[\] or to text"),
    ("cash", r"the column 'x' is money, "),
    ("oid", r"the column 'x' is oid, which can't be read\. CAST it to bigint or to text"),
    ("interval", r"the column 'x' is interval, which can't be read\. CAST it to text"),
    ("priced", r"the column 'x/price' is money, "),
])  # fmt: skip
def test_a_postgres_type_that_would_be_another_value_is_refused(server: Server, kind: str, expected: str) -> None:
    with pytest.raises(BadSpec, match=expected):
        planned(a_source(server.url, f"SELECT 1 AS id, NULL::{kind} AS x"), access_to(server))


def test_a_postgres_enum_is_text(server: Server) -> None:
    statements(server, "CREATE TYPE mood AS ENUM ('glad', 'sad')")
    source = a_source(server.url, "SELECT 1 AS id, 'sad'::mood AS x")
    assert planned(source, access_to(server))[0].samples == 1


@pytest.mark.parametrize(("kind", "earliest", "latest", "days_or_microseconds"), [
    ("date", "4714-11-24 BC", "5874897-12-31", (-2440588, 2145042905)),
    ("timestamp", "4714-11-24 BC", "294247-01-10 04:00:54.775807", (-210866803200000000, 2**63 - 1)),
    ("timestamptz", "4714-11-24 00:00:00+00 BC", "294247-01-10 04:00:54.775807+00", (-210866803200000000, 2**63 - 1)),
])  # fmt: skip
def test_infinite_postgres_times_are_bad_records(
    server: Server, kind: str, earliest: str, latest: str, days_or_microseconds: tuple[int, int]
) -> None:
    made = [earliest, "infinity", latest, "-infinity"]
    query = " UNION ALL ".join(
        f"SELECT {place} AS id, '{text}'::{kind} AS x, array['{text}'::{kind}] AS a" for place, text in enumerate(made)
    )
    source = a_source(server.url, query)
    units, state = planned(source, access_to(server))
    read = read_all(SqlReader(source.member, state, access_to(server)), units, iter([np.arange(4)]))
    assert [(row["x"], row["a"]) for row in rows(read)] == [(value, [value]) for value in days_or_microseconds]
    assert faults(read) == {1: "column 'x' is infinity", 3: "column 'x' is -infinity"}


def test_an_infinite_time_in_a_postgres_array_is_a_bad_record(server: Server) -> None:
    source = a_source(server.url, "SELECT 1 AS id, array[NULL, 'infinity'::date] AS a UNION ALL SELECT 2, array['1970-01-02'::date]")
    units, state = planned(source, access_to(server))
    read = read_all(SqlReader(source.member, state, access_to(server)), units, iter([np.arange(2)]))
    assert [row["a"] for row in rows(read)] == [[1]]
    assert list(faults(read)) == [0]


def test_a_postgres_timestamp_that_64_bits_do_not_hold_is_a_bad_record(server: Server) -> None:
    source = a_source(server.url, "SELECT 1 AS id, '294276-01-01'::timestamp AS x")
    units, state = planned(source, access_to(server))
    read = read_all(SqlReader(source.member, state, access_to(server)), units, iter([np.arange(1)]))
    assert faults(read) == {0: "column 'x' is later than 64 bits of microseconds hold"}


def test_numerics_of_more_digits_than_float64_and_times_are_told(server: Server, tmp_path: Path) -> None:
    query = (
        "SELECT id, CASE WHEN id % 2 = 0 THEN 12345678901234567.89 ELSE 1.50 END::numeric(20, 2) AS n, 0.1::double precision AS x, "
        "timestamp '2024-01-01 00:00:01' AS t, 16777217 AS i FROM generate_series(1, 5) AS id"
    )
    for pin in ("Content", "Count"):
        source = a_source(server.url, query, pin=pin)
        job = parse_job(
            {
                "source": source.model_dump(mode="json", by_alias=True, exclude_none=True),
                "features": [{"name": name} for name in "nxti"],
                "output": {"uri": str(tmp_path / pin), "format": "recordioProtobuf"},
            },
            name="lossy",
        )
        planned, _ = run(job, access=access_to(server), workers=1, display=Display(quiet=True))
        manifest = verify(str(tmp_path / pin), Access())
        assert [(each.column, each.kind, each.records, each.value) for each in manifest.lossy] == [
            ("i", "Integer", 5, "16777217"),
            ("n", "Decimal", 2, "12345678901234567.89"),
            ("t", "Integer", 5, "1704067201000000"),
            ("t", "Time", 5, "2024-01-01 00:00:01.000000"),
        ]
        assert any("the features 'n', 'x' are stored as float32" in warning for warning in planned.warnings)


def test_a_statement_that_fails_on_the_way_is_bad_data_and_a_connection_that_ends_is_tried_again(server: Server) -> None:
    query = "SELECT id, 1 / (id - 200000) AS x, repeat('x', 100) AS s FROM generate_series(1, 300000) AS id"
    with databases.connect(server.url, access_to(server)) as database:
        schema = database.columns(query)
        with pytest.raises(BadData, match="ERROR: division by zero"):
            list(database.batches(query, schema, lost_of=[]))
    whole = query.replace("200000", "400000")
    with databases.connect(server.url, access_to(server)) as database:
        (number,) = database.row("SELECT pg_backend_pid()")
        read = database.batches(whole, schema, lost_of=[])
        next(read)
        statements(server, f"SELECT pg_terminate_backend({number})")
        with pytest.raises(Unreachable, match="terminating connection|server closed the connection"):
            list(read)


def test_a_numeric_that_float64_does_not_hold_is_a_bad_record(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "BLOCK_ROWS", 2)
    large = a_source(server.url, "SELECT id, CASE id WHEN 3 THEN -1e400 ELSE id END::numeric AS x FROM generate_series(1, 5) AS id")
    units, state = planned(large, access_to(server))
    found = read_all(SqlReader(large.member, state, access_to(server)), units, iter([np.arange(5)]))
    assert [row["x"] for row in rows(found)] == [1.0, 2.0, 4.0, 5.0]
    told = f"column 'x' is too large for float64: -1{'0' * 18}… (402 characters); CAST it to text in source.sql.query"
    assert faults(found) == {2: told}
    source = a_source(server.url, "SELECT 1 AS id, 'Infinity'::numeric AS x")
    units, state = planned(source, access_to(server))
    found = read_all(SqlReader(source.member, state, access_to(server)), units, iter([np.arange(1)]))
    assert [row["x"] for row in rows(found)] == [float("inf")]
