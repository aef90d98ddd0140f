"""Joins in memory and joins on the disk (out of core) have the same results: the same records and pieces, or the same error message."""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples
from tests.builders.joins import COLUMNS, KEYS, a_table, random_join, with_nulls
from tests.builders.sql_engines import DuckDBEngine

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.joins import in_memory, join, joined_tables, open_table, out_of_core, part_reader, ranges
from dataprep_converter.readers.joins.join import JoinReader
from dataprep_converter.runtime import limits
from dataprep_converter.runtime.sql_engine import SqlEngine

_arrow: Any = pa  # the type stubs lack some functions


@dataclass(frozen=True)
class Planned:
    """The complete result of planning, or the message of its error."""

    refused: str = ""
    units: Any = None
    state: str = ""
    files: tuple[bytes, ...] = ()


def planned(source: Source, engine: SqlEngine | None = None) -> Planned:
    access = Access()
    access.sql_engine = engine
    try:
        discovery = JoinReader.discover(source.member, access)
        units, state = discovery.collect()
    except (BadData, BadSpec) as exc:
        return Planned(refused=str(exc))
    assert discovery.intermediate is not None
    files = tuple(file.read_bytes() for file in sorted(discovery.intermediate.folder.iterdir()))
    discovery.intermediate.remove()
    return Planned(units=units.table.drop_columns("uri").to_pylist(), state=json.dumps(state), files=files)


class Watched:
    """Counts the calls of `InMemory.fits`, and makes it return False after a given number of calls."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        self.most: int | None = None
        self.moved = 0
        fits, move = in_memory.InMemory.fits, joined_tables.Join._move

        def asked(rows: in_memory.InMemory) -> bool:
            self.asked += 1
            return fits(rows) if self.most is None else self.asked <= self.most

        def moved(opened: joined_tables.Join) -> None:
            self.moved += 1
            move(opened)

        patch.setattr(in_memory.InMemory, "fits", asked)
        patch.setattr(joined_tables.Join, "_move", moved)


def each_way(source: Source, patch: pytest.MonkeyPatch) -> Iterator[Planned]:
    """Plans the join in five ways.

    They are: in memory, on the disk, on the disk with rows that count as wide, moved from memory to the disk after half of the rows, and
    by an SQL engine.
    """
    patch.setattr(open_table, "_READ_RECORDS", 7)
    watched = Watched(patch)
    yield planned(source)
    assert not watched.moved
    watched.most, watched.asked = watched.asked // 2, 0
    patch.setattr(joined_tables, "_MOST", 0)
    yield planned(source)
    with pytest.MonkeyPatch.context() as wide:
        wide.setattr(out_of_core, "_SORTED_AT_ONCE", 1 << 50)
        wide.setattr(out_of_core, "_LEAST_SORTED_BYTES", 1)
        wide.setattr(out_of_core, "_MOST_SORTED_BYTES", 100)
        yield planned(source)
    patch.setattr(joined_tables, "_MOST", 8 << 30)
    yield planned(source)
    assert watched.moved == (watched.asked > 0)
    engine = DuckDBEngine()
    yield planned(source, engine)
    assert engine.parts_read >= (watched.asked > 0)
    assert not engine.views()


NUMBERS = st.lists(st.integers(0, 30), max_size=60)
UNIQUE = st.lists(st.integers(0, 30), max_size=31, unique=True)
RULES = st.sampled_from(["First", "Last", "Refuse"])


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(
    numbers=st.lists(NUMBERS | UNIQUE | st.permutations(range(31)), min_size=2, max_size=3),
    rules=st.tuples(RULES, RULES, RULES),
    missing=st.sampled_from(["Drop", "Refuse"]),
    keys=st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=2, unique=True),
    columns=st.lists(st.sampled_from(sorted(COLUMNS)), max_size=4, unique=True),
    piece=st.integers(1, 9),
    size=st.integers(1, 2000),
    nulls=st.sampled_from([0, 2, 3, 20]),
)
def test_all_ways_make_the_same_of_any_tables(
    numbers: list[list[int]], rules: tuple[str, ...], missing: str, keys: list[str], columns: list[str], piece: int, size: int, nulls: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(joined_tables, "PIECE_RECORDS", piece)
        patch.setattr(joined_tables, "_PIECE_BYTES", size)
        patch.setattr(join, "UNIT_RECORDS", 3 * piece)
        patch.setattr(join, "UNIT_BYTES", 2 * size)
        patch.setattr(in_memory, "_SPAN_BYTES", size)
        tables = []
        for number, values in enumerate(numbers):
            of = np.array(values, np.int64)
            found = {f"key {kind}": KEYS[kind](of) for kind in keys}
            # Rows with the same key have different values in other columns.
            found |= {kind: with_nulls(COLUMNS[kind](of + np.arange(len(of))), nulls + place) for place, kind in enumerate(columns)}
            tables.append(a_table(Path(folder), f"t{number}", pa.table(found), duplicates=rules[number]))
        source = Source.model_validate({"join": {"keys": [f"key {kind}" for kind in keys], "tables": tables, "missing": missing}})
        patch.setattr(ranges, "RANGE_RECORDS", piece)
        patch.setattr(part_reader, "PART_BYTES", 1)
        kept, apart, wide, moved, by_engine = each_way(source, patch)
        assert kept == apart
        assert wide == apart
        assert moved == apart
        assert by_engine == apart


@pytest.mark.parametrize("seed", range(12))
def test_an_engine_joins_random_tables_like_duckdb(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "RANGE_RECORDS", 7)
    monkeypatch.setattr(part_reader, "PART_BYTES", 1)
    monkeypatch.setattr(join, "UNIT_RECORDS", 10)
    monkeypatch.setattr(joined_tables, "PIECE_RECORDS", 4)
    source = Source.model_validate({"join": random_join(seed, tmp_path)})
    by_engine = planned(source, DuckDBEngine())
    monkeypatch.setattr(joined_tables, "_MOST", 0)
    assert by_engine == planned(source)


def test_rows_that_cannot_be_read_are_not_taken_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = []
    for name in ("left", "right"):
        text = "id,x\n" + "".join(f"{'none' if n % 7 == 3 else n * 5 % 100},{n}\n" for n in range(100))
        (tmp_path / f"{name}.csv").write_text(text)
        columns = [{"name": "id", "type": "Int64"}, {"name": "x", "type": "Int64"}]
        csv = {"uris": [str(tmp_path / f"{name}.csv")], "header": True, "columns": columns}
        tables.append({"name": name, "prefix": name, "source": {"csv": csv}, "duplicates": "Last"})
    source = Source.model_validate({"join": {"keys": ["id"], "tables": tables, "missing": "Drop"}})
    kept, apart, wide, moved, by_engine = each_way(source, monkeypatch)
    assert len(kept.units) > 1
    assert kept == apart == wide == moved == by_engine


def test_rows_move_out_of_core_when_they_need_more_than_their_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    tables = [
        a_table(tmp_path, name, pa.table({"id": rng.permutation(3000), "x": rng.random(3000)}), keys=["id"]) for name in ("left", "right")
    ]
    source = Source.model_validate({"join": {"keys": ["id"], "tables": tables}})
    expected = planned(source)
    added: list[int] = []
    add = out_of_core.OutOfCore.add

    def watched(database: out_of_core.OutOfCore, table: int, rows: pa.RecordBatch) -> None:
        added.append(rows.num_rows)
        add(database, table, rows)

    monkeypatch.setattr(open_table, "_READ_RECORDS", 500)
    monkeypatch.setattr(out_of_core.OutOfCore, "add", watched)
    each_row = 8 + 8 + 8 + in_memory._MATCHING_BYTES
    for share, ways in ((6100 * each_row, 0), (6000 * each_row - 1, 12), (2200 * each_row, 12), (0, 12)):
        added.clear()
        monkeypatch.setattr(joined_tables, "_MOST", share)
        assert planned(source) == expected
        assert len(added) == ways


def test_a_column_too_long_for_arrow_is_not_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = joined_tables.Columns(pa.schema([("id", pa.int64())]), pa.schema([("text", pa.string())]))
    monkeypatch.setattr(in_memory, "_MOST_OF_A_COLUMN", 30_000)
    with joined_tables.Join([columns, columns]) as opened:
        for table in range(2):
            for first in range(0, 4000, 1000):
                rows = pa.array(np.arange(first, first + 1000))
                opened.add(table, rows, [rows], [rows.cast(pa.string())])
        assert isinstance(opened._matching, out_of_core.OutOfCore)
        keys = opened.match()
        assert keys.keys_in_all() == 4000
        assert _arrow.concat_batches(list(opened.records())).column(1).to_pylist() == [str(number) for number in range(4000)]


def test_a_join_out_of_core_has_its_share_of_memory_and_the_disk_for_the_rest(tmp_path: Path) -> None:
    database = out_of_core._connect(str(tmp_path), 64 << 20)
    asked = ", ".join(f"current_setting('{name}')" for name in ("memory_limit", "temp_directory"))
    assert database.execute(f"SELECT {asked}").fetchone() == ("64.0 MiB", str(tmp_path))
    rows = "SELECT range AS key, hash(range) AS value FROM range(4_000_000) ORDER BY value"
    database.execute(f"CREATE TABLE sorted AS {rows}")
    assert list(tmp_path.iterdir()) != [], "64 MB of rows don't fit in the memory"
    database.close()


@pytest.mark.parametrize(
    ("kind", "is_kept"),
    [
        (pa.float16(), True),
        (pa.timestamp("ns"), True),
        (pa.list_(pa.list_(pa.float64())), True),
        (pa.timestamp("us", "UTC"), False),
        (pa.list_(pa.bool_()), False),
        (pa.struct([("a", pa.int64())]), False),
        (pa.decimal128(5, 2), False),
    ],
    ids=str,
)
def test_only_columns_that_come_back_as_they_were_are_held_in_memory(kind: pa.DataType, is_kept: bool) -> None:
    one = joined_tables.Columns(pa.schema([("id", pa.int64())]), pa.schema([("x", kind)]))
    other = joined_tables.Columns(pa.schema([("id", pa.int64())]), pa.schema([]))
    assert in_memory.is_for_memory([other, one]) == is_kept


def test_tables_of_sequences_and_keys_of_two_types_are_not_held_in_memory() -> None:
    numbers = joined_tables.Columns(pa.schema([("id", pa.int64())]), pa.schema([("x", pa.int64())]))
    texts = joined_tables.Columns(pa.schema([("id", pa.string())]), pa.schema([]))
    sequences = joined_tables.Columns(numbers.keys, numbers.others, order_by=[0])
    assert in_memory.is_for_memory([numbers, numbers])
    assert not in_memory.is_for_memory([numbers, texts])
    assert not in_memory.is_for_memory([numbers, sequences])


def test_a_join_without_duckdb_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = joined_tables.Columns(pa.schema([("id", pa.int64())]), pa.schema([]))
    monkeypatch.setattr(out_of_core, "find_spec", lambda _: None)
    with pytest.raises(BadSpec, match=r"source\.join needs DuckDB: pip install 'dataprep-operator\[join\]'\."):
        joined_tables.Join([columns, columns])


def two_csv_tables(folder: Path, left: str, right: str) -> Source:
    tables = []
    for name, text in (("left", left), ("right", right)):
        (folder / f"{name}.csv").write_text(f"id,x\n{text}")
        columns = [{"name": "id", "type": "Int64"}, {"name": "x", "type": "Int64"}]
        csv = {"uris": [str(folder / f"{name}.csv")], "header": True, "columns": columns}
        tables.append({"name": name, "prefix": name, "source": {"csv": csv}})
    return Source.model_validate({"join": {"keys": ["id"], "tables": tables, "missing": "Drop"}})


@pytest.mark.parametrize("at_once", [1, 2])
def test_too_many_bad_rows_are_refused_at_the_first_too_many_in_the_order_of_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(open_table, "MOST_BAD", 3)
    monkeypatch.setattr(open_table, "_READ_RECORDS", 2)
    monkeypatch.setattr(limits, "processors", lambda: at_once)
    source = two_csv_tables(tmp_path, "1,1\nnone,2\n3,none\n" + "4,4\n" * 50, "none,1\n" * 3 + "2,2\n" + "none,2\n" * 9)
    expected = (
        f"source.join: the tables have more than 3 bad rows; {tmp_path}/right.csv, record 1: line 3: 'none' is not a Int64 (column 'id')"
    )
    assert planned(source).refused == expected
    assert planned(source, DuckDBEngine()).refused == expected


@pytest.mark.parametrize("at_once", [1, 2])
def test_of_two_broken_tables_the_first_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(limits, "processors", lambda: at_once)
    rows = np.arange(200_000)
    tables = [a_table(tmp_path, name, pa.table({"id": rows, "x": rows[::-1]}), keys=["id"]) for name in ("left", "right")]
    for name, place in (("left", 0.9), ("right", 0.1)):
        file = tmp_path / f"{name}.parquet"
        data = bytearray(file.read_bytes())
        first = int(len(data) * place / 2)
        data[first : first + 64] = bytes(64)
        file.write_bytes(data)
    source = Source.model_validate({"join": {"keys": ["id"], "tables": tables}})
    assert str(tmp_path / "left.parquet") in planned(source).refused
    assert planned(source, DuckDBEngine()) == planned(source)


def test_an_engine_counts_decimals_that_lose_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_reader, "PART_BYTES", 1)
    digits = pa.array([Decimal(10**20 + row) for row in range(40)], pa.decimal128(25, 0))
    tables = [a_table(tmp_path, name, pa.table({"id": range(40), "x": digits}), keys=["id"]) for name in ("left", "right")]
    source = Source.model_validate({"join": {"keys": ["id"], "tables": tables}})
    by_engine = planned(source, DuckDBEngine())
    assert "decimals of 39 rows of the column 'x' have more digits than float64 holds, such as 100000000000000000001" in by_engine.state
    assert by_engine == planned(source)


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_an_engine_sorts_sequences_like_duckdb(kind: Any, tmp_path: Path) -> None:
    values = np.array([np.nan, -0.0, 1, 0.0, np.inf, -np.nan, -np.inf, -1, 0.0, -0.0, np.nan], np.float64)
    visits = pa.table({"id": np.ones(11, int), "x": _arrow.array(values.astype(kind.to_pandas_dtype()), kind), "row": np.arange(11)})
    tables = [
        a_table(tmp_path, "static", pa.table({"id": [1]}), keys=["id"]),
        a_table(tmp_path, "visits", visits, keys=["id"], orderBy=["x"]),
    ]
    source = Source.model_validate({"join": {"keys": ["id"], "tables": tables}})
    by_engine = planned(source, DuckDBEngine())
    assert by_engine.files
    assert by_engine == planned(source)


def test_tables_that_an_engine_cannot_join_are_joined_here(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    static = a_table(tmp_path, "static", pa.table({"id": [1, 2]}), keys=["id"])
    visits = a_table(tmp_path, "visits", pa.table({"id": [2, 1], "days": [[3], [4]]}), keys=["id"], orderBy=["days"])
    source = Source.model_validate({"join": {"keys": ["id"], "tables": [static, visits]}})
    engine = DuckDBEngine()
    assert planned(source, engine) == planned(source)
    assert not engine.parts_read
    assert "source.join: the tables are joined in this process, because the table visits is ordered by 'days', a list." in caplog.text


def test_a_table_without_files_joins_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    full = a_table(tmp_path, "full", pa.table({"id": [1, 2]}), keys=["id"])
    empty = {"name": "empty", "source": {"csv": {"uris": [str(tmp_path / "empty.csv")]}}}
    source = Source.model_validate({"join": {"keys": ["id"], "tables": [full, empty], "missing": "Drop"}})
    by_engine = planned(source, DuckDBEngine())
    assert "2 keys are missing in the table empty: the first is 1" in by_engine.state
    assert by_engine == planned(source)
