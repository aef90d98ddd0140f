"""Tests tables that are joined by key: matches, duplicate and missing keys, and an order that depends only on the keys."""

# ruff: noqa: S608 - the converter refuses these SQL statements

import shutil
import struct
import tempfile
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc
from pydantic import ValidationError
from tests.builders.jobs import run_job
from tests.builders.sql_engines import DuckDBEngine
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, plan, rows

from dataprep_api.dataset.messages import CommitResult, PlanResult
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData, BadSpec, StoreFull
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Reader
from dataprep_converter.readers.joins import join, joined_tables, out_of_core
from dataprep_converter.readers.joins.join import JoinReader
from dataprep_converter.readers.joins.joining_by_sql import JoinBySql
from dataprep_converter.records.batch import SAMPLE
from dataprep_converter.runtime import limits
from dataprep_converter.steps import plan_step, pool
from dataprep_converter.tools.verification import verify

_orc: Any = orc  # the type stubs lack some options

FIRST = "a,1,2\nb,3,4\nc,5,6\n"
SECOND = "a,7,8\nb,9,10\nd,11,12\n"


def a_table(folder: Path, name: str, text: str, *, header: bool = False, **options: Any) -> dict[str, Any]:
    """A table that consists of one CSV file. Without a header, the key is the first column, and the prefix is the table's name."""
    (folder / f"{name}.csv").write_text(text)
    known: dict[str, Any] = {} if header else {"keys": ["0"], "prefix": name}
    return {"name": name, "source": {"csv": {"uris": [str(folder / f"{name}.csv")], "header": header}}, **known, **options}


def a_join(*tables: dict[str, Any], keys: tuple[str, ...] = ("id",), **options: Any) -> Source:
    return Source.model_validate({"join": {"keys": list(keys), "tables": list(tables), **options}})


def two(folder: Path, **options: Any) -> Source:
    return a_join(a_table(folder, "in", FIRST), a_table(folder, "out", SECOND), **options)


def found(source: Source) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != SAMPLE} for row in rows(batches(JoinReader, source))]


@pytest.fixture(params=["in memory", "out of core", "by an engine"])
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test three times. The tables are joined in memory if they fit, always out of core, and by an SQL engine."""
    if request.param == "out of core":
        monkeypatch.setattr(joined_tables, "_MOST", 0)
    elif request.param == "by an engine":
        monkeypatch.setattr(join._Planner, "_joining", lambda self, tables: JoinBySql(tables, DuckDBEngine(), self._access))


every_way = pytest.mark.usefixtures("each_way")


@every_way
class TestContract(ReaderContract):
    reader: ClassVar[type[Reader]] = JoinReader

    @pytest.fixture(autouse=True)
    def small_units(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(join, "UNIT_RECORDS", 8)
        monkeypatch.setattr(joined_tables, "PIECE_RECORDS", 4)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def a_source(self, folder: Path) -> Source:
        count = 30
        left = "".join(f"k{n:05d},{n / 7},x {n}\n" for n in reversed(range(count)))
        right = "".join(f"k{n:05d},{n}\n" for n in range(count))
        return a_join(a_table(folder, "left", left), a_table(folder, "right", right))

    def an_empty_source(self, folder: Path) -> Source:
        return a_join(a_table(folder, "left", ""), a_table(folder, "right", "\n\n"))

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        source = two(folder)
        (folder / "out.csv").unlink()
        return source, str(folder / "out.csv")

    def test_planning_again_finds_the_same(self, tmp_path: Path) -> None:
        source = self.a_source(tmp_path)
        (first, state), (again, other_state) = plan(self.reader, source), plan(self.reader, source)
        # The URIs differ, because each plan stores its rows in a temporary folder until the run has its output folder.
        assert first.table.drop_columns("uri").equals(again.table.drop_columns("uri"))
        assert state == other_state

    def change(self, folder: Path) -> Path:
        file = next(folder.glob("dataprep-made-*/00000.arrow"))
        file.write_bytes(bytes(file.stat().st_size))
        return file


@every_way
def test_the_two_keys_of_both_tables_are_joined(tmp_path: Path) -> None:
    assert found(two(tmp_path, missing="Drop")) == [
        {"id": "a", "in1": 1, "in2": 2, "out1": 7, "out2": 8},
        {"id": "b", "in1": 3, "in2": 4, "out1": 9, "out2": 10},
    ]


@every_way
def test_keys_that_are_left_out_are_counted_and_named(tmp_path: Path) -> None:
    _, state = plan(JoinReader, two(tmp_path, missing="Drop"))
    assert state["ignored"] == 2
    assert state["warnings"] == [
        f"join: left out because 1 key is missing in the table in: 'd', which is in out ({tmp_path}/out.csv, record 2)",
        f"join: left out because 1 key is missing in the table out: 'c', which is in in ({tmp_path}/in.csv, record 2)",
    ]


@every_way
def test_a_missing_key_is_refused_with_its_table_and_its_row(tmp_path: Path) -> None:
    source = a_join(a_table(tmp_path, "in", FIRST), a_table(tmp_path, "out", "a,7,8\n"))
    with pytest.raises(BadData) as caught:
        plan(JoinReader, source)
    assert str(caught.value) == (
        f"source.join: 2 keys are missing in the table out: the first is 'b', which is in in ({tmp_path}/in.csv, record 1). "
        "Set missing: Drop to leave such keys out."
    )


@every_way
def test_a_doubled_key_is_refused_with_both_rows(tmp_path: Path) -> None:
    source = a_join(a_table(tmp_path, "in", "a,1\nb,2\na,3\n"), a_table(tmp_path, "out", "a,1\nb,2\n"))
    with pytest.raises(BadData) as caught:
        plan(JoinReader, source)
    assert str(caught.value) == (
        f"source.join: 1 key of the table in is duplicated: 'a' in {tmp_path}/in.csv, record 0, and in {tmp_path}/in.csv, record 2. "
        "Set duplicates: First or Last to use one of the rows, or orderBy to make sequences of them."
    )


@every_way
def test_a_missing_key_whose_row_is_bad_is_told_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "in.parquet"
    pq.write_table(pa.table({"id": ["a", "b", "c"], "x": [[1], [None], [2]]}), file)
    inputs = {"name": "in", "source": {"parquet": {"uris": [str(file)]}}}
    with pytest.raises(BadData) as caught:
        plan(JoinReader, a_join(inputs, a_table(tmp_path, "out", "id,y\na,7\nb,8\nc,9\n", header=True)))
    assert str(caught.value) == (
        f"source.join: 1 key is missing in the table in: 'b', which is in out ({tmp_path}/out.csv, record 1). Set missing: Drop to leave such keys "
        f"out. Bad rows have no key, such as {file}, record 1 of the table in: column 'x' has a null among its values; add nested: "
        '["x"] to source.parquet to keep such lists.'
    )


@every_way
@pytest.mark.parametrize(("rule", "expected"), [("First", 1), ("Last", 4)])
def test_of_doubled_keys_the_first_or_the_last_is_taken(tmp_path: Path, rule: str, expected: int) -> None:
    source = a_join(a_table(tmp_path, "in", "a,1\nb,2\na,3\na,4\n", duplicates=rule), a_table(tmp_path, "out", "b,5\na,6\n"))
    assert found(source) == [{"id": "a", "in1": expected, "out1": 6}, {"id": "b", "in1": 2, "out1": 5}]


@every_way
def test_several_key_columns_are_compared_together(tmp_path: Path) -> None:
    left = a_table(tmp_path, "left", "site,day,x\ns,2,20\ns,10,100\nr,2,7\n", header=True)
    right = a_table(tmp_path, "right", "day,site,y\n2,r,1\n2,s,2\n10,s,3\n", header=True)
    assert found(a_join(left, right, keys=("site", "day"))) == [
        {"site": "r", "day": 2, "x": 7, "y": 1},
        {"site": "s", "day": 2, "x": 20, "y": 2},
        {"site": "s", "day": 10, "x": 100, "y": 3},
    ]
    with pytest.raises(BadData, match=r"1 key is missing in the table right: site='t', day=2, which is in left \(.*left\.csv, record 0\)"):
        plan(
            JoinReader,
            a_join(a_table(tmp_path, "left", "site,day,x\nt,2,1\n", header=True), right | {"duplicates": "First"}, keys=("site", "day")),
        )


@every_way
def test_three_tables_have_their_columns_in_their_order(tmp_path: Path) -> None:
    tables = [a_table(tmp_path, name, f"id,{name}\n1,{name}1\n2,{name}2\n", header=True) for name in "xyz"]
    assert found(a_join(*tables)) == [{"id": 1, "x": "x1", "y": "y1", "z": "z1"}, {"id": 2, "x": "x2", "y": "y2", "z": "z2"}]


@every_way
def test_text_is_ordered_by_its_bytes_and_numbers_by_their_value(tmp_path: Path) -> None:
    words = ["é", "z", "Z", "a", "", "ä", "€", "😀"]
    left = a_table(tmp_path, "left", "".join(f'"{word}",1\n' for word in words))
    assert [
        row["id"] for row in found(a_join(left, a_table(tmp_path, "right", "".join(f'"{word}",2\n' for word in reversed(words)))))
    ] == sorted(words, key=str.encode)
    left = a_table(tmp_path, "left", "10,1\n-3,1\n9,1\n")
    assert [row["id"] for row in found(a_join(left, a_table(tmp_path, "right", "9,1\n-3,1\n10,1\n")))] == [-3, 9, 10]


@every_way
def test_rows_with_one_key_become_a_sequence_in_their_order(tmp_path: Path) -> None:
    static = a_table(tmp_path, "static", "id,age\n2,40\n1,30\n", header=True)
    visits = a_table(tmp_path, "visits", "id,day,value\n1,3,.3\n2,1,.1\n1,1,.5\n1,1,.4\n", header=True, orderBy=["day"])
    assert found(a_join(static, visits)) == [
        {"id": 1, "age": 30, "day": [1, 1, 3], "value": [0.5, pytest.approx(0.4), pytest.approx(0.3)]},
        {"id": 2, "age": 40, "day": [1], "value": [pytest.approx(0.1)]},
    ]


@every_way
def test_long_sequences_are_cut_into_small_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_tables, "_PIECE_ROWS", 5)
    lengths = [1, 7, 2, 3, 5, 6, 1]
    static = a_table(tmp_path, "static", "".join(f"{n},{n}\n" for n in range(7)))
    steps = a_table(tmp_path, "steps", "".join(f"{n},{step}\n" for n in range(7) for step in range(lengths[n])), orderBy=["1"])
    assert [row["steps1"] for row in found(a_join(static, steps))] == [list(range(length)) for length in lengths]


@every_way
def test_a_key_without_a_sequence_is_missing(tmp_path: Path) -> None:
    static = a_table(tmp_path, "static", "id,age\n1,30\n2,40\n", header=True)
    visits = a_table(tmp_path, "visits", "id,day\n1,3\n", header=True, orderBy=["day"])
    with pytest.raises(BadData, match=r"1 key is missing in the table visits: 2, which is in static"):
        plan(JoinReader, a_join(static, visits))


def avro_and_orc(folder: Path, **options: Any) -> Source:
    """A table of each source, with keys of different widths, a text, a null and a decimal."""
    fastavro = pytest.importorskip("fastavro")
    kinds = {"id": "long", "word": ["null", "string"], "price": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}}
    schema = {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in kinds.items()]}
    lines = [{"id": 3, "word": "c", "price": Decimal("1.25")}, {"id": 1, "word": None, "price": Decimal("0.5")}]
    with (folder / "left.avro").open("wb") as file:
        fastavro.writer(file, schema, lines)
    table = pa.table({"key": pa.array([1, 3, 1], pa.int32()), "day": [2, 1, 1], "x": [0.5, 1.5, 2.5]})
    _orc.write_table(table, str(folder / "right.orc"))
    return a_join(
        {"name": "left", "source": {"avro": {"uris": [str(folder / "left.avro")]}}},
        {"name": "right", "source": {"orc": {"uris": [str(folder / "right.orc")]}}, "keys": ["key"], **options},
    )


@every_way
def test_tables_of_avro_and_orc_are_joined(tmp_path: Path) -> None:
    assert found(avro_and_orc(tmp_path, duplicates="First")) == [
        {"id": 1, "word": None, "price": 0.5, "day": 2, "x": 0.5},
        {"id": 3, "word": "c", "price": 1.25, "day": 1, "x": 1.5},
    ]


@every_way
def test_rows_of_orc_become_sequences(tmp_path: Path) -> None:
    assert found(avro_and_orc(tmp_path, orderBy=["day"])) == [
        {"id": 1, "word": None, "price": 0.5, "day": [1, 2], "x": [2.5, 0.5]},
        {"id": 3, "word": "c", "price": 1.25, "day": [1], "x": [1.5]},
    ]


@every_way
def test_lists_and_tensors_come_through(tmp_path: Path) -> None:
    tensors: Any = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12, dtype=np.float32).reshape(2, 2, 3))
    table = pa.table({"id": [7, 5], "list": [[1, 2], [3]], "tensor": tensors, "raw": [b"\xff", b""], "flag": [True, False]})
    pq.write_table(table, tmp_path / "left.parquet")
    left = {"name": "left", "source": {"parquet": {"uris": [str(tmp_path / "left.parquet")]}}}
    source = a_join(left, a_table(tmp_path, "right", "id,y\n5,1\n7,2\n", header=True))
    rows_found = found(source)
    assert [(row["id"], row["list"], row["raw"], row["flag"], row["y"]) for row in rows_found] == [
        (5, [3], b"", False, 1),
        (7, [1, 2], b"\xff", True, 2),
    ]
    assert [np.ravel(row["tensor"]).tolist() for row in rows_found] == [[6, 7, 8, 9, 10, 11], [0, 1, 2, 3, 4, 5]]
    units, state = plan(JoinReader, source)
    assert JoinReader(source.member, state, Access()).schema().field("tensor").type == pa.fixed_shape_tensor(pa.float32(), (2, 3))
    assert units.samples == 2


@every_way
def test_rows_that_cannot_be_read_are_bad_records_of_the_job(tmp_path: Path) -> None:
    columns = [{"name": "id", "type": "Int64"}, {"name": "x", "type": "Int64"}]
    left = a_table(tmp_path, "left", "id,x\n1,1\n2,wrong\nnone,3\n4,4\n", header=True)
    left["source"]["csv"]["columns"] = columns
    source = a_join(left, a_table(tmp_path, "right", "id,y\n1,1\n4,4\n", header=True))
    read = batches(JoinReader, source)
    assert [row["id"] for row in rows(read)] == [1, 4]
    assert faults(read) == {
        2: "left: line 3: 'wrong' is not a Int64 (column 'x')",
        3: "left: line 4: 'none' is not a Int64 (column 'id')",
    }
    units, _ = plan(JoinReader, source)
    assert [units.origin(sample) for sample in (2, 3)] == [(str(tmp_path / "left.csv"), 1), (str(tmp_path / "left.csv"), 2)]


def test_columns_of_one_name_need_a_prefix(tmp_path: Path) -> None:
    left, right = (a_table(tmp_path, name, "id,x\n1,1\n", header=True) for name in ("left", "right"))
    with pytest.raises(BadSpec, match="the column 'x' is in the table left and in the table right; give one of the tables a prefix"):
        plan(JoinReader, a_join(left, right))
    assert found(a_join(left, right | {"prefix": "r_"})) == [{"id": 1, "x": 1, "r_x": 1}]


def test_keys_of_different_types_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match="the key id is int64 in the table left and string in the table right; give both the same type"):
        plan(JoinReader, a_join(a_table(tmp_path, "left", "1,1\n"), a_table(tmp_path, "right", "x,1\n")))
    with pytest.raises(
        BadSpec, match=r"the table right: the column '0' is float, which can't be a key; make it a column of whole numbers or text"
    ):
        plan(JoinReader, a_join(a_table(tmp_path, "left", "1,1\n"), a_table(tmp_path, "right", "1.5,1\n")))


def test_a_column_with_a_reserved_name_is_refused(tmp_path: Path) -> None:
    source = a_join(
        a_table(tmp_path, "a", "id,_sample\n1,2\n", header=True), a_table(tmp_path, "b", "id,x\n1,2\n", header=True, prefix="b_")
    )
    with pytest.raises(BadSpec) as refused:
        plan(JoinReader, source)
    assert str(refused.value) == (
        "source.join: the table a: the column '_sample' has a reserved name; leave it out of the table's source, or give it another name."
    )


def test_a_key_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match=r"source\.join: the table left: there is no column 'id'. The columns are 0, 1"):
        plan(JoinReader, a_join(a_table(tmp_path, "left", "1,1\n", keys=None), a_table(tmp_path, "right", "1,1\n")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keys": ["a", "b"]}, "the table 'in' has 1 key columns \\(0\\), but join.keys has 2 \\(a, b\\)"),
        ({"keys": ["a", "a"]}, "join.keys has 2|the key 'a' is listed twice"),
        ({"tables": [0, 0]}, "two tables have the name 'in'"),
        ({"tables": [0]}, "at least 2 items"),
        ({"order": True}, "the table 'in' has orderBy, so all rows with the same key are used; remove the field 'duplicates'"),
    ],
    ids=["too few keys", "a key twice", "a name twice", "one table", "order and rule"],
)
def test_a_join_that_makes_no_sense_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    tables = [a_table(tmp_path, "in", FIRST), a_table(tmp_path, "out", SECOND)]
    if change.pop("order", False):
        tables[0] |= {"orderBy": ["1"], "duplicates": "Last"}
    chosen = [tables[place] for place in change.get("tables", [0, 1])]
    with pytest.raises(ValidationError, match=message):
        Source.model_validate({"join": {"keys": ["id"], **change, "tables": chosen}})


def test_the_bytes_depend_neither_on_threads_nor_on_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    order = [rng.permutation(20_000) for _ in range(2)]
    text = [pa.array(numbers).cast(pa.string()) for numbers in order]
    for name, numbers, words in zip(("left", "right"), order, text, strict=True):
        pq.write_table(pa.table({"id": words, f"{name}_x": numbers}), tmp_path / f"{name}.parquet")
    tables = [{"name": name, "source": {"parquet": {"uris": [str(tmp_path / f"{name}.parquet")]}}} for name in ("left", "right")]
    made = []
    for threads, memory in ((1, 1 << 30), (2, 1 << 30), (2, 0)):
        monkeypatch.setattr(limits, "processors", lambda threads=threads: threads)
        monkeypatch.setattr(limits, "memory_bytes", lambda memory=memory: memory)
        made.append(plan(JoinReader, a_join(*tables))[0].table.drop_columns("uri"))
    assert made[0].equals(made[1])
    assert made[0].equals(made[2])


def test_the_database_reaches_nothing_and_loads_nothing(tmp_path: Path) -> None:
    import duckdb

    (tmp_path / "secret.csv").write_text("1,2\n")
    opened = out_of_core.OutOfCore([joined_tables.Columns(pa.schema([("k", pa.string())]), pa.schema([]))], 1 << 30)
    try:
        for statement in (
            f"SELECT * FROM read_csv('{tmp_path}/secret.csv')",
            f"SELECT * FROM '{tmp_path}/secret.csv'",
            f"ATTACH '{tmp_path}/other.db'",
            f"COPY (SELECT 1) TO '{tmp_path}/copy.csv'",
            "INSTALL httpfs",
            "LOAD httpfs",
            "SET enable_external_access = true",
            "SET autoload_known_extensions = true",
        ):
            with pytest.raises(duckdb.Error):
                opened._database.execute(statement)
    finally:
        opened.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["secret.csv"]


# --- whole jobs ---------------------------------------------------------------------------------------------------


def a_job(folder: Path, name: str, *, missing: str = "Drop", **spec: Any) -> DataPrepJob:
    source = two(folder, missing=missing).model_dump(by_alias=True, exclude_none=True)
    document = {
        "apiVersion": "dataprep.io/v1alpha1",
        "kind": "DataPrepJob",
        "metadata": {"name": "join"},
        "spec": {
            "source": source,
            "features": [{"name": "input", "columns": ["in1", "in2"], "dtype": "float32"}],
            "labels": [{"name": "output", "columns": ["out1", "out2"], "dtype": "float32"}],
            "output": {"uri": str(folder / name)},
            **spec,
        },
    }
    return DataPrepJob.parse(document)


def made(job: DataPrepJob) -> tuple[PlanResult, CommitResult]:
    return run_job(job)


def done(job: DataPrepJob) -> CommitResult:
    return made(job)[1]


def examples(folder: Path) -> list[dict[str, list[Any]]]:
    return [
        records.parse_example(payload) for file in sorted(folder.glob("*.tfrecords")) for _, payload in records.read([file.read_bytes()])
    ]


def test_a_joined_job_has_the_bytes_of_the_format(tmp_path: Path) -> None:
    planned, result = made(a_job(tmp_path, "out"))
    expected = b"".join(framed(example(i, o)) for i, o in (([1, 2], [7, 8]), ([3, 4], [9, 10])))
    assert (tmp_path / "out/train.tfrecords").read_bytes() == expected
    assert result.records.out == 2
    assert len(planned.warnings) == 2


def example(inputs: list[int], outputs: list[int]) -> bytes:
    """A tf.train.Example of two float lists in protobuf's wire format, with keys in the order of their bytes and packed floats."""

    def entry(name: bytes, values: list[int]) -> bytes:
        floats = np.array(values, "<f4").tobytes()
        feature = b"\x12" + bytes([len(floats) + 2]) + b"\x0a" + bytes([len(floats)]) + floats
        pair = b"\x0a" + bytes([len(name)]) + name + b"\x12" + bytes([len(feature)]) + feature
        return b"\x0a" + bytes([len(pair)]) + pair

    features = entry(b"input", inputs) + entry(b"output", outputs)
    return b"\x0a" + bytes([len(features)]) + features


def framed(payload: bytes) -> bytes:
    """A TFRecord: the length, the masked CRC of the length, the payload, and the masked CRC of the payload."""
    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def masked(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def test_a_job_of_two_inputs_and_one_output_has_exactly_these_keys(tmp_path: Path) -> None:
    features = [{"name": "first", "columns": ["in1"]}, {"name": "second", "columns": ["in2", "out1"]}]
    done(a_job(tmp_path, "out", features=features, labels=[{"name": "target", "columns": ["out2"]}]))
    assert examples(tmp_path / "out") == [
        {"first": [1], "second": [2, 7], "target": [8]},
        {"first": [3], "second": [4, 9], "target": [10]},
    ]


@pytest.mark.parametrize(("format_", "options"), [("npz", {}), ("dl4jDataset", {"dl4jDataset": {"holds": "MultiDataSet"}})])
def test_several_groups_of_a_join_are_saved_in_minibatches(tmp_path: Path, format_: str, options: dict[str, Any]) -> None:
    rows = "".join(f"k{n:03},{n},{2 * n}\n" for n in range(70))
    source = a_join(a_table(tmp_path, "left", rows), a_table(tmp_path, "right", rows)).model_dump(by_alias=True, exclude_none=True)
    groups: dict[str, Any] = {
        "features": [{"name": "first", "columns": ["left1"]}, {"name": "second", "columns": ["left2", "right1"]}],
        "labels": [{"name": "target", "columns": ["right2"]}],
    }
    output = {"uri": str(tmp_path / "set"), "format": format_, "granularity": "Minibatch", "minibatchSize": 32, **options}
    result = done(a_job(tmp_path, "any", source=source, output=output, **groups))
    assert result.records.out == 70
    manifest = verify(str(tmp_path / "set"), Access(), every_record=True)
    assert [file.records for file in manifest.files] == [32, 32, 6]
    assert [(feature["name"], feature["label"]) for feature in manifest.features] == [("first", False), ("second", False), ("target", True)]
    if format_ == "npz":
        arrays = [np.load(file) for file in sorted((tmp_path / "set").glob("*.npz"))]
        assert {tuple(sorted(each.files)) for each in arrays} == {("features/first", "features/second", "labels/target")}
        second = np.concatenate([each["features/second"] for each in arrays])
        assert second.tolist() == [[2 * n, n] for n in range(70)]


def test_keys_are_written_only_when_they_are_named(tmp_path: Path) -> None:
    done(a_job(tmp_path, "without", features=None, labels=None))
    assert [sorted(example) for example in examples(tmp_path / "without")] == [["in1", "in2", "out1", "out2"]] * 2
    done(a_job(tmp_path, "with", features=[{"name": "id"}], labels=None))
    assert examples(tmp_path / "with") == [{"id": [b"a"]}, {"id": [b"b"]}]


@every_way
def test_static_columns_are_the_context_of_a_sequence(tmp_path: Path) -> None:
    static = a_table(tmp_path, "static", "id,age\n2,40\n1,30\n", header=True)
    visits = a_table(tmp_path, "visits", "id,day,value\n1,3,7\n2,1,5\n1,1,6\n", header=True, orderBy=["day"])
    source = a_join(static, visits).model_dump(by_alias=True, exclude_none=True)
    done(a_job(tmp_path, "out", source=source, features=[{"name": "age"}, {"name": "value"}], labels=None))
    assert examples(tmp_path / "out") == [{"age": [30], "value": [[6], [7]]}, {"age": [40], "value": [[5]]}]


@every_way
def test_files_of_sequences_are_joined_with_a_table(tmp_path: Path) -> None:
    (tmp_path / "steps").mkdir()
    for name, text in (("x", "b,1,10\nb,2,20\n"), ("y", "a,3,30\n"), ("z", "c,4,40\n")):
        (tmp_path / f"steps/{name}.csv").write_text(text)
    static = a_table(tmp_path, "static", "a,7\nb,8\n")
    steps = {
        "name": "steps",
        "source": {"csvSequences": {"uris": [str(tmp_path / "steps")], "perSequence": ["0"]}},
        "keys": ["0"],
        "prefix": "step",
    }
    source = a_join(static, steps, missing="Drop").model_dump(by_alias=True, exclude_none=True)
    done(a_job(tmp_path, "out", source=source, features=[{"name": "static1"}, {"name": "step1"}], labels=[{"name": "step2"}]))
    assert examples(tmp_path / "out") == [
        {"static1": [7], "step1": [[3]], "step2": [[30]]},
        {"static1": [8], "step1": [[1], [2]], "step2": [[10], [20]]},
    ]


@every_way
def test_a_file_without_steps_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps/x.csv").write_text("a,1\n")
    (tmp_path / "steps/y.csv").write_text("")
    steps = {"name": "steps", "source": {"csvSequences": {"uris": [str(tmp_path / "steps")], "perSequence": ["0"]}}, "keys": ["0"]}
    source = a_join(a_table(tmp_path, "static", "a,7\n"), steps | {"prefix": "step"}).model_dump(by_alias=True, exclude_none=True)
    with pytest.raises(BadData, match=r"steps/y\.csv, record 0: steps: "):
        done(a_job(tmp_path, "out", source=source, features=[{"name": "static1"}], labels=None))


@every_way
def test_several_processes_make_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "UNIT_RECORDS", 50)
    text = "".join(f"k{n % 997:03d},{n},{n}\n" for n in range(997))
    source = a_join(a_table(tmp_path, "left", text), a_table(tmp_path, "right", text)).model_dump(by_alias=True, exclude_none=True)
    for workers, threshold in ((1, pool.INLINE_BYTES), (2, 0)):
        monkeypatch.setattr(pool, "INLINE_BYTES", threshold)
        output = {"uri": str(tmp_path / f"by{workers}"), "shards": {"count": 3}}
        run_job(a_job(tmp_path, "any", source=source, output=output, shuffle={"seed": 4}, features=None, labels=None), workers=workers)
    assert [file.read_bytes() for file in sorted((tmp_path / "by1").glob("*.tfrecords"))] == [
        file.read_bytes() for file in sorted((tmp_path / "by2").glob("*.tfrecords"))
    ]


@pytest.mark.slow
def test_a_full_disk_is_told_from_too_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.random.default_rng(1).permutation(400_000)
    wide = {f"x{place}": numbers + place for place in range(8)}
    pq.write_table(pa.table({"id": numbers, **wide}), tmp_path / "left.parquet")
    left = {"name": "left", "source": {"parquet": {"uris": [str(tmp_path / "left.parquet")]}}}
    monkeypatch.setattr(out_of_core, "_LEAST", 16 << 20)
    monkeypatch.setattr(limits, "memory_bytes", lambda: 0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2 << 20))
    with pytest.raises(StoreFull, match=r"The join needs more space for temporary files than .* has"):
        plan(JoinReader, a_join(left, left | {"name": "right", "prefix": "r"}))


def test_the_joined_rows_are_gone_when_the_job_is_done(tmp_path: Path) -> None:
    done(a_job(tmp_path, "out"))
    assert not list((tmp_path / "out").rglob("*.arrow"))


def test_a_finished_join_is_reused_and_a_changed_table_makes_another(tmp_path: Path) -> None:
    first = made(a_job(tmp_path, "out", output={"uri": str(tmp_path / "out"), "overwrite": "IfChanged"}))
    job = a_job(tmp_path, "out", output={"uri": str(tmp_path / "out"), "overwrite": "IfChanged"})
    assert made(job)[0].reused
    (tmp_path / "out.csv").write_text("a,7,8\nb,9,99\n")
    planned, result = made(job)
    assert not planned.reused
    assert planned.run_id != first[0].run_id
    assert examples(tmp_path / "out")[1]["output"] == [9, 99]
    assert result.records.out == 2


def test_a_lost_shard_is_made_again_after_the_joined_rows_were_removed(tmp_path: Path) -> None:
    output = {"uri": str(tmp_path / "out"), "overwrite": "IfChanged"}
    done(a_job(tmp_path, "out", output=output))
    before = (tmp_path / "out/train.tfrecords").read_bytes()
    (tmp_path / "out/train.tfrecords").unlink()
    done(a_job(tmp_path, "out", output=output))
    assert (tmp_path / "out/train.tfrecords").read_bytes() == before


def test_a_dry_run_writes_nothing_to_the_output(tmp_path: Path) -> None:
    assert plan_step.dry_run(a_job(tmp_path, "out"), Access()).records == 2
    assert not (tmp_path / "out").exists()


KEYS = st.lists(st.integers(-3, 12), max_size=25)


@pytest.mark.slow
@settings(max_examples=20)
@given(left=KEYS, right=KEYS, rules=st.tuples(*[st.sampled_from(["First", "Last"])] * 2), shards=st.integers(1, 5), piece=st.integers(1, 9))
def test_any_tables_are_joined_like_dictionaries(
    left: list[int], right: list[int], rules: tuple[str, str], shards: int, piece: int
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(joined_tables, "PIECE_RECORDS", piece)
        patch.setattr(join, "UNIT_RECORDS", 2 * piece)
        folder = Path(name)
        tables = []
        expected: list[dict[int, int]] = []
        for table, keys, rule in zip(("left", "right"), (left, right), rules, strict=True):
            tables.append(
                a_table(
                    folder, table, f"id,{table}\n" + "".join(f"{key},{row}\n" for row, key in enumerate(keys)), header=True, duplicates=rule
                )
            )
            tables[-1]["source"]["csv"]["columns"] = [{"name": "id", "type": "Int64"}, {"name": table, "type": "Int64"}]
            numbered = list(enumerate(keys))
            expected.append({key: row for row, key in (numbered if rule == "Last" else numbered[::-1])})
        source = a_join(*tables, missing="Drop").model_dump(by_alias=True, exclude_none=True)
        output = {"uri": str(folder / "out"), "shards": {"count": shards}}
        features = [{"name": column} for column in ("id", "left", "right")]
        planned, result = made(a_job(folder, "out", source=source, features=features, labels=None, output=output, allowEmpty=True))
        both = sorted(expected[0].keys() & expected[1].keys())
        assert examples(folder / "out") == [{"id": [key], "left": [expected[0][key]], "right": [expected[1][key]]} for key in both]
        assert result.records.out == planned.records == len(both)
        assert sum("left out" in warning for warning in planned.warnings) == bool(expected[0].keys() - expected[1].keys()) + bool(
            expected[1].keys() - expected[0].keys()
        )
