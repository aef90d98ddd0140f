"""`inspect` and `head` show the records of files that other programs wrote, with the values that these programs wrote."""

import io
import json
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import webdataset  # type: ignore[import-untyped]  # it has no types
from tests.builders.int96 import FAR, write_int96
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job
from tests.builders.tfrecords import example, put_records
from tests.converter.cli.commandline import code_of

TABLE = pa.table(
    {
        "id": [1, 2, None],
        "chat": [[{"role": "user", "content": "hi"}], None, []],
        "when": pa.array([0, 1000, None], pa.timestamp("ms")),
    }
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def parquet() -> str:
    pq.write_table(TABLE, "a.parquet")
    return "a.parquet"


def arrow(kind: Callable[..., Any]) -> str:
    with pa.OSFile("a.arrow", "wb") as file, kind(file, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return "a.arrow"


def tfrecord() -> str:
    put_records(Path("a.tfrecord"), [example(id=[1], name=[b"x"]), example(id=[2], name=[b"y"])])
    return "a.tfrecord"


def tar() -> str:
    with webdataset.TarWriter("a.tar") as writer:
        for number, image in enumerate((b"\xff\xd8\xffone", b"\xff\xd8\xff" + bytes(100_000))):
            writer.write({"__key__": f"d/{number}", "jpg": image, "cls": number, "json": {"a": [1]}, "npy": np.arange(3)})
    return "a.tar"


def an_mds_folder() -> str:
    """Makes a folder of MDS shards without our metadata. Tests in `tests/interop` show that the library can read the same bytes."""
    Path("in.jsonl").write_text('{"n": 1, "x": [0.5, 1.5], "t": "one"}\n{"n": 2, "x": [2.5, 3.5], "t": "two"}\n')
    run_job(parse_job({"source": {"jsonl": {"uris": ["in.jsonl"]}}, "output": {"uri": "mds", "format": "mds"}}))
    shutil.rmtree("mds/_dataprep")
    Path("mds/_SUCCESS").unlink()
    return "mds"


def jsonl() -> str:
    Path("a.jsonl").write_text('{"id": 1, "m": [{"role": "user"}]}\n{"id": null, "x": NaN}\n')
    return "a.jsonl"


def a_json_array() -> str:
    Path("a.json").write_text('[\n  {"id": 1, "t": "a]"},\n  {"id": 2, "t": "b"}\n]\n')
    return "a.json"


def delimited() -> str:
    Path("in").mkdir()
    for number in range(2):
        Path(f"in/{number}.csv").write_text("id;name\n1;Jörg\n2;\n", encoding="latin-1")
    Path("in/README.md").write_text("what this is\n")
    return "in"


ROWS = [
    {"id": 1, "chat": [{"role": "user", "content": "hi"}], "when": "1970-01-01 00:00:00"},
    {"id": 2, "chat": None, "when": "1970-01-01 00:00:01"},
]
JPEG = "\xff\xd8\xff"


@pytest.mark.parametrize(
    ("make", "form", "total", "columns", "records"),
    [
        (parquet, "Parquet", 3, {"id": "int64", "when": "timestamp[ms]"}, ROWS),
        (lambda: arrow(pa.ipc.new_file), "Arrow", None, {"id": "int64"}, ROWS),
        (lambda: arrow(pa.ipc.new_stream), "Arrow", None, {"id": "int64"}, ROWS),
        (tfrecord, "TFRecord", None, {"id": "list of int", "name": "list of bytes"}, [{"id": [1], "name": ["x"]}, {"id": [2], "name": ["y"]}]),
        (
            tar, "WebDataset", None, {"__key__": "text", "jpg": "bytes", "json": "text"},
            [
                {"__key__": "d/0", "cls": "0", "jpg": JPEG + "one", "json": '{"a": [1]}', "npy": [0, 1, 2]},
                {"__key__": "d/1", "cls": "1", "jpg": JPEG + "\0" * (65_536 - 3), "json": '{"a": [1]}', "npy": [0, 1, 2]},
            ],
        ),
        (
            an_mds_folder, "MDS", 2, {"n": "int", "t": "str", "x": "ndarray:float32"},
            [{"n": 1, "t": "one", "x": [0.5, 1.5]}, {"n": 2, "t": "two", "x": [2.5, 3.5]}],
        ),
        (jsonl, "JSON", None, {"id": "int", "m": "list of object", "x": "float"}, [{"id": 1, "m": [{"role": "user"}]}, {"id": None, "x": "NaN"}]),
        (a_json_array, "JSON", None, {"id": "int", "t": "text"}, [{"id": 1, "t": "a]"}, {"id": 2, "t": "b"}]),
        (delimited, "CSV", None, {"id": "text", "name": "text"}, [{"id": "1", "name": "Jörg"}, {"id": "2", "name": ""}]),
    ],
    ids=["parquet", "arrow file", "arrow stream", "tfrecord", "webdataset", "mds", "jsonl", "json array", "csv"],
)  # fmt: skip
def test_foreign_files_are_shown_with_their_values(
    make: Callable[[], str], form: str, total: int | None, columns: dict[str, str], records: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    uri = make()
    assert code_of("inspect", uri, "--records", "2", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["form"], shown["recordsOfFirst"], shown["records"]) == (form, total, records)
    types = {column["name"]: column["type"] for column in shown["columns"]}
    assert {name: types[name] for name in columns} == columns
    assert code_of("head", uri, "--records", "2", "--json") == 0
    assert json.loads(capsys.readouterr().out) == records
    assert code_of("head", uri, "--records", "0", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_folder_says_how_many_files_it_has_and_shows_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("inspect", delimited()) == 0
    assert capsys.readouterr().out.splitlines() == [
        "in: 2 files of CSV, 36 bytes; the first: in/0.csv",
        "┏━━━━━━━━┳━━━━━━┓",
        "┃ column ┃ type ┃",
        "┡━━━━━━━━╇━━━━━━┩",
        "│ id     │ text │",
        "│ name   │ text │",
        "└────────┴──────┘",
        "id: 1",
        "name: Jörg",
    ]


MICRO = pa.timestamp("us")
TIMES: dict[str, tuple[Any, list[str]]] = {
    "beyond the years of Python": (
        pa.array([[1, 2**62], None], pa.list_(MICRO)), ["t: 1970-01-01 00:00:00.000001, 4611686018427387904", "t: null"],
    ),
    "a struct": (pa.array([{"u": 2**62, "v": None}], pa.struct([("u", MICRO), ("v", MICRO)])), ["t: {u: 4611686018427387904, v: null}"]),
    "a map": (pa.array([[("a", 2**62)]], pa.map_(pa.string(), MICRO)), ["t: ('a', '4611686018427387904')"]),
}  # fmt: skip


@pytest.mark.parametrize(("times", "shown"), TIMES.values(), ids=TIMES.keys())
def test_every_time_is_shown(times: Any, shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"t": times}), "a.parquet")
    assert code_of("head", "a.parquet") == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line] == shown


def test_times_of_int96_are_shown_as_a_job_reads_them(capsys: pytest.CaptureFixture[str]) -> None:
    write_int96(Path("a.parquet"), {"t": pa.array([FAR, None], MICRO), "l": pa.array([[FAR], []], pa.list_(MICRO))})
    assert code_of("head", "a.parquet", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [
        {"t": "9999-12-31 23:59:59.999999", "l": ["9999-12-31 23:59:59.999999"]},
        {"t": None, "l": []},
    ]
    assert code_of("inspect", "a.parquet", "--json") == 0
    assert [column["type"] for column in json.loads(capsys.readouterr().out)["columns"]] == [
        "timestamp[us]",
        "list<element: timestamp[us]>",
    ]


def test_long_values_are_shortened(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("head", tar(), "--records", "2") == 0
    said = capsys.readouterr().out.splitlines()
    assert "jpg: b'\\xff\\xd8\\xffone'" in said
    assert said[-3].endswith("\\x00'… (100,003 bytes)")
    assert "npy: 0, 1, 2" in said


def test_head_of_our_own_data_set_shows_its_records(capsys: pytest.CaptureFixture[str]) -> None:
    Path("in.jsonl").write_text('{"n": 1, "t": "one"}\n{"n": 2, "t": "two"}\n')
    run_job(parse_job({"source": {"jsonl": {"uris": ["in.jsonl"]}}, "output": {"uri": "out", "format": "parquet"}}))
    assert code_of("head", "out") == 0
    assert capsys.readouterr().out == "n: 1\nt: b'one'\n\nn: 2\nt: b'two'\n"
    assert code_of("head", "out", "--records", "1", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [{"n": [1], "t": ["one"]}]


def test_an_unfinished_data_set_is_not_shown_as_foreign_files(capsys: pytest.CaptureFixture[str]) -> None:
    Path("out/_dataprep").mkdir(parents=True)
    Path("out/_dataprep/OWNER").write_text('{"epoch":1,"runId":"r"}')
    shutil.copy(parquet(), "out/train.parquet")
    assert code_of("inspect", "out") == 5
    assert "out has no _SUCCESS: there is no finished data set" in capsys.readouterr().err


def a_picture() -> str:
    Path("a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
    return "a.png"


def a_workbook() -> str:
    import zipfile

    with zipfile.ZipFile("a.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return "a.xlsx"


def a_truncated_parquet() -> str:
    data = Path(parquet()).read_bytes()
    Path("a.parquet").write_bytes(data[:-20])
    return "a.parquet"


def a_truncated_tar() -> str:
    data = Path(tar()).read_bytes()
    Path("a.tar").write_bytes(data[:700])
    return "a.tar"


def a_broken_mds() -> str:
    Path("a.mds").write_bytes(np.array([1, 20, 24], "<u4").tobytes() + b"{}      " + bytes(4))
    return "a.mds"


def mds_with(layout: Mapping[str, Any], *, size: int = 8) -> str:
    """Makes an MDS shard with one record of 8 bytes. According to the offsets, the record has `size` bytes."""
    config = json.dumps({"column_names": ["a"], "column_encodings": ["int"], "column_sizes": [8]} | dict(layout)).encode()
    begin = 12 + len(config)
    Path("a.mds").write_bytes(np.array([1, begin, begin + size], "<u4").tobytes() + config + bytes(8))
    return "a.mds"


def json_of(text: str) -> str:
    Path("a.json").write_text(text)
    return "a.json"


def a_broken_line() -> str:
    Path("a.jsonl").write_text('{"a": 1}\n{"a": \n')
    return "a.jsonl"


SHOWN = "Only finished data sets and files in these formats can be shown: Parquet, Arrow, TFRecord, WebDataset, MDS, JSON and CSV."


@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        (a_picture, 2, f"a.png is data for the source images, whose records aren't shown: see dataprep infer. {SHOWN}"),
        (a_workbook, 2, f"a.xlsx is an Excel workbook. Its records can't be shown: save each sheet as CSV, or convert it to Parquet. {SHOWN}"),
        (a_truncated_parquet, 3, "a.parquet is not a readable Parquet file: Parquet magic bytes not found in footer."),
        (a_truncated_tar, 3, "a.tar is not a readable tar file: "),
        (a_broken_mds, 3, "a.mds is not a readable MDS shard: 'column_names'."),
        (partial(mds_with, {}, size=-5), 3, "a.mds is not a readable MDS shard: the offsets of its records decrease."),
        (partial(mds_with, {"column_encodings": [7]}), 3, "a.mds is not a readable MDS shard: 'int' object has no attribute 'partition'."),
        (partial(json_of, '[{"a": 1}, ]'), 3, "a.json, record 1 isn't JSON: Expecting value: line 1 column 12 (char 11)."),
        (partial(json_of, '[{"a": 1} {"a": 2}]'), 3, "a.json, record 1 isn't JSON: Expecting ',' delimiter: line 1 column 11 (char 10)."),
        (partial(json_of, '[{"a": ' + "[" * 700 + "]" * 700 + "}]"), 3, "a.json, record 0 is nested too deeply."),
        (a_broken_line, 3, "a.jsonl, record 1 isn't JSON: Expecting value: line 1 column 7 (char 6)."),
    ],
    ids=[
        "picture", "workbook", "parquet", "tar", "mds", "mds offsets", "mds encoding", "comma at the end", "no comma", "deep", "jsonl",
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_one_line(make: Callable[[], str], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("inspect", make(), "--records", "5") == code
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"dataprep: error: {said}")


def test_a_column_without_a_name_keeps_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.csv").write_text(",0\nx,2\ny,3\n")
    assert code_of("head", "a.csv", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [{"unnamed_0": "x", "0": "2"}, {"unnamed_0": "y", "0": "3"}]


def test_pickles_are_never_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    config = json.dumps({"column_names": ["p"], "column_encodings": ["pkl"], "column_sizes": [None]}).encode()
    content = b"cos\nsystem\n(S'touch loaded'\ntR."
    first = 12 + len(config)
    offsets = np.array([1, first, first + 4 + len(content)], "<u4").tobytes()
    Path("shard.00000.mds").write_bytes(offsets + config + len(content).to_bytes(4, "little") + content)
    array = io.BytesIO()
    np.save(array, np.array([{}], object), allow_pickle=True)
    with webdataset.TarWriter("a.tar", encoder=False) as writer:
        writer.write({"__key__": "k", "npy": array.getvalue(), "pyd": content})
    for uri in ("shard.00000.mds", "a.tar"):
        assert code_of("head", uri) == 0
        assert "touch loaded" in capsys.readouterr().out
    assert not Path("loaded").exists()
