"""For sources other than text and Parquet files, a shuffle in two rounds makes the same data set as a shuffle in one round."""

import io
import json
import sqlite3
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from tests.builders.columnar import write_table
from tests.builders.data_sets import data_set, lines
from tests.builders.tfrecords import example, put_records
from tests.converter.steps.shuffle_jobs import a_job, plan_small_rounds, remove
from tests.converter.steps.two_rounds import contents, run_in_one_round, run_in_two_rounds

from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime import plugins

pytestmark = pytest.mark.slow

ROWS = 60


@pytest.fixture(autouse=True)
def small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    plan_small_rounds(monkeypatch)


def a_table(first: int = 0, *, rows: int = ROWS) -> pa.Table:
    return pa.table({"id": range(first, first + rows), "s": [f"text {n}" if n % 7 else None for n in range(first, first + rows)]})


def as_table(folder: Path, kind: str) -> dict[str, Any]:
    for number in range(3):
        write_table(folder, a_table(number * ROWS), kind, name=f"rows-{number}")
    return {kind: {"uris": [str(folder)]}}


def as_partitions(folder: Path) -> dict[str, Any]:
    for key in ("1", "2", "__HIVE_DEFAULT_PARTITION__"):
        write_table(folder / f"key={key}", a_table(rows=20), "parquet")
    return {"parquet": {"uris": [str(folder)]}}


def as_tfrecord(folder: Path) -> dict[str, Any]:
    put_records(folder / "a.tfrecord", [example(s=b"text", **({} if n == 20 else {"id": n})) for n in range(ROWS)])
    return {"tfrecord": {"uris": [str(folder / "a.tfrecord")]}}


def as_webdataset(folder: Path) -> dict[str, Any]:
    with tarfile.open(folder / "a.tar", "w") as archive:
        for number in range(ROWS):
            for suffix, content in (("txt", b"text"), ("json", b"{broken" if number == 20 else json.dumps({"n": number}).encode())):
                info = tarfile.TarInfo(f"{number:03}.{suffix}")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return {"webdataset": {"uris": [str(folder / "a.tar")]}}


def as_mds(folder: Path) -> dict[str, Any]:
    return {"mds": {"uris": [str(data_set(folder, lines(ROWS), format="mds"))]}}


def as_avro(folder: Path) -> dict[str, Any]:
    schema = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}, {"name": "s", "type": "string"}]}
    with (folder / "a.avro").open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), [{"id": n, "s": f"text {n}"} for n in range(ROWS)], sync_interval=200)
    return {"avro": {"uris": [str(folder / "a.avro")]}}


def as_data_set(folder: Path) -> dict[str, Any]:
    return {"dataset": {"uri": str(data_set(folder, lines(ROWS), format="parquet"))}}


def as_join(folder: Path) -> dict[str, Any]:
    for name in ("left", "right"):
        (folder / f"{name}.csv").write_text("\n".join([f"id,{name}", *(f"{n},{n * n}" for n in range(ROWS))]) + "\n")
    tables = [{"name": name, "source": {"csv": {"uris": [str(folder / f"{name}.csv")], "header": True}}} for name in ("left", "right")]
    return {"join": {"keys": ["id"], "missing": "Drop", "tables": tables}}


def as_sql(folder: Path) -> dict[str, Any]:
    database = sqlite3.connect(folder / "a.db")
    database.execute("CREATE TABLE t (id INTEGER, x REAL)")
    database.executemany("INSERT INTO t VALUES (?, ?)", [(number, number / 7) for number in range(ROWS)])
    database.commit()
    database.close()
    return {"sql": {"url": f"sqlite:///{folder / 'a.db'}", "query": "SELECT * FROM t", "orderBy": ["id"]}}


def as_plugin(folder: Path) -> dict[str, Any]:
    (folder / "a.bin").write_bytes(b"".join(struct.pack("<if", number, number / 2) for number in range(ROWS)))
    return {"plugin": {"uris": [str(folder / "a.bin")], "callable": "mine:pairs"}}


CODE = """
import struct

def pairs(stream, name):
    while data := stream.read(8):
        key, number = struct.unpack("<if", data)
        yield {"key": key, "number": number}
"""
SOURCES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "arrow": lambda folder: as_table(folder, "arrow"),
    "orc": lambda folder: as_table(folder, "orc"),
    "partitions": as_partitions,
    "tfrecord": as_tfrecord,
    "webdataset": as_webdataset,
    "mds": as_mds,
    "avro": as_avro,
    "dataset": as_data_set,
    "join": as_join,
    "sql": as_sql,
    "plugin": as_plugin,
}


def _without_units(files: dict[str, Any]) -> dict[str, Any]:
    """Returns the files without the list of units.

    For a join, this list names files below the output, so it depends on the output's folder.
    """
    return {name: content for name, content in files.items() if not name.endswith("/units.parquet")}


@pytest.mark.parametrize("source", SOURCES)
def test_two_rounds_make_the_same_data_set_as_one(tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "mine.py").write_text(CODE)
    monkeypatch.setenv(plugins.CODE_VARIABLE, str(tmp_path / "code"))
    written = SOURCES[source](tmp_path / "in")
    spec = {"nulls": "Bad"} if source == "partitions" else {}
    one = run_in_one_round(a_job(written, tmp_path / "one", **spec), Access())
    two = run_in_two_rounds(a_job(written, tmp_path / "two", **spec), Access(), between=lambda: remove(tmp_path / "in"))
    first, second = (_without_units(contents(tmp_path / name)) for name in ("one", "two"))
    assert second == first
    assert one.records == two.records
