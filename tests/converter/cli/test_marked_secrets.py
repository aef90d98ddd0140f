"""No command prints or stores a secret that is in any field of a job, whether the job succeeds or fails."""

import copy
import io
import json
import shutil
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.converter.cli.commandline import code_of, dataprep
from tests.converter.stores.site import serving
from tests.spec_places import FORMS, MARK, document, leaks, places
from tests.spec_places import Path as Place

from dataprep_api.errors import SpecError
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.runtime import plugins
from dataprep_converter.steps import pool

CODE = """
import os, pathlib

def read(stream, name, **options):
    yield {"n": 1}

def same(record, **options):
    return record

def looks(record, place, **options):
    for process in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes()
        except OSError:
            continue
        with open(place, "ab") as found:
            found.write(words.replace(b"\\0", b" ") + b"\\n")
    return record
"""
OUT: dict[str, Any] = {"uri": "out", "overwrite": "Always"}
CSV: dict[str, Any] = {"csv": {"uris": ["in.csv"], "header": True}}
MAP = {"map": {"callable": "mine:same", "options": {"k": "v"}}}
SCRIPT = {"command": ["sh", "-c", "echo 1 > $DATAPREP_OUTPUT/a.bin"], "outputs": ["*.bin"]}
PLUGIN = {"uris": ["in.csv"], "callable": "mine:read", "columns": [{"name": "n", "type": "Int64"}]}
BATCH = [{"name": "content"}, {"name": "path"}]
JOBS: dict[str, dict[str, Any]] = {
    "csv": {"source": CSV, "output": OUT | {"provenance": True}},
    "jsonl": {"source": {"jsonl": {"uris": ["in.jsonl"]}}, "output": OUT},
    "text": {"source": {"text": {"uris": ["in.txt"]}}, "output": OUT},
    "parquet": {"source": {"parquet": {"uris": ["in.parquet"]}}, "output": OUT},
    "sql": {"source": {"sql": {"url": "sqlite:///x.db", "query": "SELECT n, w FROM t", "orderBy": ["n"]}}, "output": OUT},
    "wholeFile": {"source": {"wholeFile": {"uris": ["in.txt"]}}, "features": BATCH, "output": OUT | {"format": "fileBatch"}},
    "plugin": {"source": {"plugin": PLUGIN}, "code": {"configMapRef": {"name": "c"}}, "output": OUT},
    "map": {"source": CSV, "code": {"configMapRef": {"name": "c"}}, "transforms": [MAP], "output": OUT},
    "script": {"script": SCRIPT, "output": OUT},
}
OF_ONE_JOB = {"map": "transforms", "script": "script"}
"""Jobs, each with a field of the spec. In each job, the fields below this field are tested. All other fields, except the source's, are
tested only in the first job.
"""
OF_THE_CLUSTER = ("workers", "stores", "cleanup", "retry", "stepDeadlines")
"""Fields that are hardly used by commands on this machine. They are tested together."""


@pytest.fixture(autouse=True)
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("n,w\n1,a\n2,b\n")
    Path("in.jsonl").write_text('{"n": 1, "w": "a"}\n{"n": 2, "w": "b"}\n')
    Path("in.txt").write_text("a\nb\n")
    pq.write_table(pa.table({"n": [1, 2], "w": ["a", "b"]}), "in.parquet")
    with sqlite3.connect("x.db") as database:
        database.execute("CREATE TABLE t (n INTEGER, w TEXT)")
        database.executemany("INSERT INTO t VALUES (?, ?)", [(1, "a"), (2, "b")])
    database.close()
    Path("code").mkdir()
    Path("code/mine.py").write_text(CODE)
    monkeypatch.setenv(plugins.CODE_VARIABLE, str(tmp_path / "code"))
    monkeypatch.setattr("dataprep_converter.stores.http.retrying", lambda call, **_: call())
    return tmp_path


def put(whole: Any, place: Place, value: Any) -> Any:  # Any: JSON
    """Returns the document with a value at the given path."""
    if not place:
        return value
    first, rest = place[0], place[1:]
    if isinstance(first, int):
        items = list(whole) if isinstance(whole, list) and whole else [{}]
        return [put(items[0], rest, value), *items[1:]]
    members = dict(whole) if isinstance(whole, dict) else {}
    return members | {str(first): put(members.get(str(first), {}), rest, value)}


def a_job(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "j"}, "spec": spec}


def accepted(spec: dict[str, Any]) -> bool:
    try:
        DataPrepJob.parse(a_job(spec))
    except SpecError:
        return False  # tests/operator/reconcilers/test_marked_secrets.py checks the message
    return True


def tried(name: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    """For each field, yields its path and a job with a secret in it. The secret has the first form that the spec accepts."""
    base = JOBS[name]
    for place in places():
        if place == ("output", "uri") or place[0] in OF_THE_CLUSTER:
            continue
        is_own = place[:2] == ("source", name) or place[0] == OF_ONE_JOB.get(name) or place[:2] == ("output", "fileBatch")
        if not is_own and (name != "csv" or place[0] in ("source", "script")):
            continue
        for form in FORMS[1:]:
            spec = put(copy.deepcopy(base), place, form)
            if accepted(spec):
                yield place, spec
                break


def stored(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yields the content of every file. Tables are yielded as values, and archives as members."""
    for file in folder.rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        if file.suffix == ".parquet":
            content = json.dumps(pq.read_table(file).to_pylist()).encode()
        if file.suffix == ".zip":
            archive = zipfile.ZipFile(io.BytesIO(content))
            content = b"".join(archive.read(member) for member in archive.namelist())
        yield file.name, content


Said = Callable[..., tuple[int, str]]


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]) -> Said:
    """Runs a command in this process. Returns its exit code and output."""

    def run(*arguments: str) -> tuple[int, str]:
        code = code_of(*arguments)
        written = capfd.readouterr()
        return code, written.out + written.err

    return run


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_no_command_says_or_stores_a_secret_of_a_job(name: str, said: Said) -> None:
    found: list[Any] = []
    made = 0
    for place, spec in tried(name):
        shutil.rmtree("out", ignore_errors=True)
        Path("job.json").write_text(json.dumps(a_job(spec)))
        commands: list[list[str]] = [["--debug", "run", "job.json", "--workers", "1"], ["validate", "job.json"]]
        for arguments in commands:
            code, words = said(*arguments)
            assert code != 70, (place, words)
            made += code == 0 and "run" in arguments
            if leaks(words):
                found.append((place, arguments, code))
            if code == 0 and arguments[1] == "run" and place[0] in ("source", "transforms", "script"):
                commands += [
                    ["inspect", "out", "--html", "page.html"],
                    ["inspect", "out", "--json"],
                    ["remove", "job.json", "--run", "0" * 16],
                ]
        # Format options only name columns and files, and these names are stored in the data set anyway.
        if place[0] != "output":
            found += [(place, file) for file, content in [*stored(Path("out")), *stored(Path())] if file != "job.json" and leaks(content)]
    assert found == []
    assert made, "none of them ran to its end"


def test_what_is_for_the_cluster_is_said_by_no_command(said: Said) -> None:
    spec = copy.deepcopy(JOBS["csv"])
    count = 0
    for place in places():
        if place[0] in OF_THE_CLUSTER and place[0] != "stores":
            better = put(copy.deepcopy(spec), place, FORMS[1])
            if accepted(better):
                spec, count = better, count + 1
    assert count > 20
    Path("job.json").write_text(json.dumps(a_job(spec)))
    code, words = said("--debug", "run", "job.json", "--workers", "1")
    assert (code, leaks(words)) == (0, False)
    assert [file for file, content in stored(Path("out")) if leaks(content)] == []


@pytest.mark.parametrize("place", [place for place in places() if place[0] == "stores"], ids=lambda place: str(place[-1]))
def test_what_a_store_is_told_is_said_by_no_command(place: Place, said: Said) -> None:
    for form in FORMS[1:]:
        store = document(place, form)["stores"][0] | ({} if place[-1] == "uriPrefix" else {"uriPrefix": "s3://b/"})
        spec = {"source": {"csv": {"uris": ["s3://b/in.csv"]}}, "output": OUT, "stores": [{"endpoint": "http://127.0.0.1:1"} | store]}
        Path("job.json").write_text(json.dumps(a_job(spec)))
        # The store doesn't exist, but these commands don't wait for it.
        for arguments in (("validate", "job.json"), ("ls", "nowhere", "--job", "job.json")):
            code, words = said(*arguments)
            assert code in (0, 2, 5)
            assert not leaks(words)


@pytest.mark.slow
@pytest.mark.parametrize("place", [("source", "csv", "uris", 0), ("output", "uri")], ids=["input", "output"])
def test_a_pod_says_it_neither_in_its_log_nor_in_its_last_words(place: Place, tmp_path: Path) -> None:
    said = tmp_path / "said"
    with serving({}) as site:
        form = FORMS[2].replace("https://127.0.0.1:1", site.at(""))
        (tmp_path / "job.json").write_text(json.dumps(a_job(put(copy.deepcopy(JOBS["csv"]), place, form))))
        more = {
            "DATAPREP_MOUNTS": str(tmp_path),
            "DATAPREP_TERMINATION_LOG": str(said),
            "DATAPREP_LOG_FORMAT": "json",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        done = dataprep("--debug", "plan", "--job", "job.json", more=more, where=tmp_path)
        assert done.returncode != 0
        assert not leaks(done.stdout + done.stderr + said.read_text())
        assert "message" in json.loads(said.read_text())


COMMANDS = ["infer", "inspect", "ls", "verify", "repair", "copy", "convert"]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_says_a_secret_of_its_arguments(command: str, said: Said) -> None:
    for form in FORMS:
        more = ["out"] if command in ("copy", "convert") else []
        code, words = said(command, form, *more)
        assert code in (2, 4, 5)
        assert not leaks(words)


def test_the_process_list_has_none_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Said) -> None:
    monkeypatch.setattr(pool, "INLINE_BYTES", 0)
    options = {"place": str(tmp_path / "processes"), "k": FORMS[1]}
    spec = put(copy.deepcopy(JOBS["map"]), ("transforms", 0, "map"), {"callable": "mine:looks", "options": options})
    spec |= {"params": {"k": FORMS[1]}, "workers": {"parallelism": 2}, "output": OUT | {"shards": {"count": 2}}}
    Path("job.json").write_text(json.dumps(a_job(spec)))
    assert said("run", "job.json", "--workers", "2")[0] == 0

    processes = Path("processes").read_bytes()
    assert b"forkserver" in processes
    assert not leaks(processes)


def test_the_mark_is_found_where_it_is(said: Said) -> None:
    Path("in.txt").write_text(MARK)
    Path("job.json").write_text(json.dumps(a_job(JOBS["wholeFile"])))
    assert said("run", "job.json", "--workers", "1")[0] == 0
    assert [file for file, content in stored(Path("out")) if leaks(content)]
