"""A library's message is never shown alone. It follows a text of our own, which says what is wrong and with which file or address."""

import bz2
import gzip
import io
import json
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from tests.converter.cli.commandline import code_of

ROWS = b"a,b\n" + b"1,2\n" * 5000
Source = dict[str, Any]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def damaged(content: bytes, at: int, count: int) -> bytes:
    return content[:at] + bytes(255 - byte for byte in content[at : at + count]) + content[at + count :]


def a_parquet(compression: Literal["snappy", "gzip"], at: int) -> Source:
    file = io.BytesIO()
    pq.write_table(pa.table({"a": list(range(5000)), "s": [f"text {number}" for number in range(5000)]}), file, compression=compression)
    content = file.getvalue()
    Path("a.parquet").write_bytes(damaged(content, at % len(content), 300))
    return {"parquet": {"uris": ["a.parquet"]}}


def a_csv(name: str, content: bytes) -> Source:
    Path(name).write_bytes(content)
    return {"csv": {"uris": [name], "header": True}}


def a_zip_member() -> Source:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", ROWS)
    Path("a.zip").write_bytes(damaged(file.getvalue(), 50, 20))
    return {"csv": {"uris": ["a.zip!/a.csv"], "header": True}}


def an_object_array() -> Source:
    np.save("a.npy", np.array([{}], object), allow_pickle=True)
    return {"numpy": {"uris": ["a.npy"]}}


def a_picture() -> Source:
    file = io.BytesIO()
    Image.effect_noise((64, 64), 50).save(file, "PNG")
    Path("a/x").mkdir(parents=True)
    Path("a/x/1.png").write_bytes(damaged(file.getvalue(), 100, 500))
    return {"images": {"uris": ["a"]}}


def a_database(query: str) -> Source:
    sqlite3.connect("a.db").execute("CREATE TABLE t (a INTEGER)").connection.close()
    return {"sql": {"url": "sqlite:///a.db", "query": query, "orderBy": ["a"]}}


def no_database() -> Source:
    Path("a.db").write_text("no database " * 100)
    return {"sql": {"url": "sqlite:///a.db", "query": "SELECT a FROM t", "orderBy": ["a"]}}


def at_address(kind: str, **fields: Any) -> Source:
    return {kind: fields}


REFUSES = "a.db refuses the statement of source.sql.query: "


@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        (lambda: a_parquet("snappy", 2000), 3, "a.parquet is damaged in row group 0: "),
        (lambda: a_parquet("gzip", 2000), 3, "a.parquet is damaged in row group 0: "),
        (lambda: a_parquet("snappy", -300), 3, "a.parquet is not a readable Parquet file: "),
        (lambda: a_csv("a.csv.gz", gzip.compress(ROWS)[:60]), 3, "a.csv.gz: the gzip stream ends early."),
        (lambda: a_csv("a.csv.bz2", bz2.compress(ROWS)[:-20]), 3, "a.csv.bz2: the bzip2 stream ends early."),
        (a_zip_member, 3, "a.zip: the member 'a.csv' is not valid Deflate: "),
        (an_object_array, 3, "a.npy holds Python objects (dtype object), which are pickles and are never loaded."),
        (a_picture, 3, "a/x/1.png, record 0: damaged png: "),
        (lambda: a_database("SELEC a FROM t"), 2, REFUSES),
        (lambda: a_database("SELECT a FROM nowhere"), 2, REFUSES),
        (no_database, 2, REFUSES),
        (
            lambda: at_address("sql", url="postgresql://127.0.0.1:1/x", query="SELECT a FROM t", orderBy=["a"]), 4,
            "postgresql://127.0.0.1:1/x: can't connect: ",
        ),
        (lambda: at_address("csv", uris=["http://127.0.0.1:1/a.csv"]), 4, "HTTP: cannot connect to 127.0.0.1:1, or the connection broke at "),
    ],
    ids=[
        "pages", "gzip pages", "footer", "gzip", "bzip2", "zip", "pickle", "picture", "statement", "table", "no database", "postgres", "http",
    ],
)  # fmt: skip
def test_a_library_s_message_follows_ours(make: Callable[[], Source], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = make()
    spec: dict[str, Any] = {"source": source, "output": {"uri": "out"}}
    if "images" in source:
        spec["transforms"] = [{"decode": {}}, {"resize": {"height": 8, "width": 8}}]
    document = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "j"}, "spec": spec}
    Path("job.yaml").write_text(json.dumps(document))
    assert code_of("run", "job.yaml", "--workers", "1", "--quiet") == code
    [line] = capsys.readouterr().err.splitlines()
    place = "" if not line.startswith("dataprep: error: job.yaml:") else line.removeprefix("dataprep: error: ").split(" ")[0] + " "
    assert line.startswith(f"dataprep: error: {place}{said}")
