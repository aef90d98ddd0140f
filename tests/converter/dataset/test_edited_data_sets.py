"""Manifests and tables that were edited so that their digests still match.

Before any file is written, an error names the invalid path or the null.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders.jobs import output_of, run_job
from tests.builders.specs import parse_job

from dataprep_api.dataset.report import ShardReport, Success
from dataprep_converter.core.errors import BadData, NotWhole
from dataprep_converter.dataset import manifest_table
from dataprep_converter.dataset.listing import load_manifest
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify

_parquet: Any = pq  # the type stubs lack some arguments

Rows = list[dict[str, Any]]
Edit = Callable[[Rows], object]


def made(folder: Path) -> Path:
    """Makes a data set with one bad record. Its format is MapFile, because MapFiles have companion files."""
    (folder / "rows.csv").write_text("x,label\n" + "".join("bad,0\n" if row == 7 else f"{row},{row % 3}\n" for row in range(40)))
    columns = [{"name": "x", "type": "Int64"}, {"name": "label", "type": "Int64"}]
    source = {"csv": {"uris": [str(folder / "rows.csv")], "header": True, "columns": columns}}
    output = {"uri": str(folder / "out"), "format": "mapFile", "mapFile": {"value": "Example"}, "shards": {"count": 5}}
    return output_of(parse_job({"source": source, "onBadRecord": {"policy": "Quarantine"}, "output": output}, name="edited"))


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("small"))


@pytest.fixture
def small(made_once: Path, tmp_path: Path) -> Path:
    """A copy of a data set whose files are listed in the manifest."""
    return shutil.copytree(made_once, tmp_path / "out")


@pytest.fixture(scope="module")
def large_made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_table, "MOST_LISTED_FILES", 3)
        return made(tmp_path_factory.mktemp("large"))


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_table, "MOST_LISTED_FILES", 3)


@pytest.fixture
def large(limit: None, large_made_once: Path, tmp_path: Path) -> Path:
    """A copy of the same data set with a table."""
    del limit
    return shutil.copytree(large_made_once, tmp_path / "out")


def edit_manifest(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Edits the manifest, and its digest in _SUCCESS. Returns the manifest's path."""
    success = Success.model_validate_json((folder / "_SUCCESS").read_bytes())
    path = folder / success.manifest
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document))
    edited = success.model_copy(update={"sha256": hashlib.sha256(path.read_bytes()).hexdigest()})
    (folder / "_SUCCESS").write_bytes(edited.to_bytes())
    return path


def edit_table(folder: Path, edit: Edit) -> Path:
    """Edits the rows of the table, and its digest in the manifest. Returns the table's path."""
    path = next(folder.glob("_dataprep/*/manifest-files.parquet"))
    table = _parquet.read_table(path)
    rows = table.to_pylist()
    edit(rows)
    _parquet.write_table(pa.Table.from_pylist(rows, table.schema), path)
    edit_manifest(folder, lambda document: document["fileTable"].update(sha256=hashlib.sha256(path.read_bytes()).hexdigest()))
    return path


def copy_job(folder: Path) -> Any:
    return parse_job({"source": {"dataset": {"uri": str(folder)}}, "output": {"uri": str(folder.parent / "to/copy"), "format": "copy"}})


def assert_refused(folder: Path, message: str) -> None:
    """Asserts that the data set is neither verified nor copied, and that no file is written."""
    with pytest.raises(NotWhole) as refused:
        verify(str(folder), Access())
    assert str(refused.value) == message
    with pytest.raises(BadData) as not_copied:
        run_job(copy_job(folder))
    assert str(not_copied.value) == f"{message} See dataprep verify."
    assert not [path for path in (folder.parent / "to").rglob("*") if path.is_file()]


IN_FOLDER = "expected a path in the folder, in which no part begins with _ or a dot"
PATHS = ["../x", "/x", "a/../../x", "a//x", "", "./x", "_SUCCESS", "_dataprep/OWNER"]


@pytest.mark.parametrize("path", PATHS)
def test_an_impossible_path_of_a_shard_is_refused(small: Path, path: str) -> None:
    manifest = edit_manifest(small, lambda document: document["files"][1].update(file=path))
    assert_refused(small, f"{manifest}: files has the file {path!r}, {IN_FOLDER}.")


def test_an_impossible_path_of_a_companion_is_refused(small: Path) -> None:
    manifest = edit_manifest(small, lambda document: document["files"][1]["companions"][0].update(file="../x"))
    assert_refused(small, f"{manifest}: companions has the file '../x', {IN_FOLDER}.")


@pytest.mark.parametrize("path", [*PATHS, "_dataprep/../../x", "_tfds/../x", "_dataprep/0123456789abcdef/plan.json", "_dataprep/", "x"])
def test_an_impossible_path_of_a_metadata_file_is_refused(small: Path, path: str) -> None:
    manifest = edit_manifest(small, lambda document: document["metadata"][0].update(file=path))
    assert_refused(small, f"{manifest}: metadata has the file {path!r}, expected a file in _dataprep or _tfds.")


@pytest.mark.parametrize("path", ["../x", "_dataprep/quarantine/train-00000.jsonl"])
def test_an_impossible_path_of_bad_records_is_refused(small: Path, path: str) -> None:
    manifest = edit_manifest(small, lambda document: document.update(quarantine=[path]))
    folder = manifest.parent.relative_to(small)
    assert_refused(small, f"{manifest}: quarantine has the file {path!r}, expected a file in {folder}/quarantine.")


def test_an_impossible_run_is_refused(small: Path) -> None:
    manifest = edit_manifest(small, lambda document: document.update(runId="../../x"))
    assert_refused(small, f"{manifest}: runId is '../../x', expected 16 hex digits.")


def test_an_impossible_path_of_the_table_is_refused(large: Path) -> None:
    manifest = edit_manifest(large, lambda document: document["fileTable"].update(file="../x"))
    expected = manifest.parent.relative_to(large) / "manifest-files.parquet"
    assert_refused(large, f"{manifest}: fileTable has the file '../x', expected {expected}.")


@pytest.mark.parametrize("field", ["index", "quarantine"])
def test_a_report_with_an_impossible_path_is_not_copied(small: Path, field: str) -> None:
    number = next(number for number, file in enumerate(load_manifest(str(small), Access()).files) if file.records == 7)
    path = next(small.glob(f"_dataprep/*/reports/{number:08d}.json"))
    report = ShardReport.model_validate_json(path.read_bytes())
    outside = {"file": "../x", "size": 1, "sha256": "0" * 64, "pin": ""}
    path.write_bytes(ShardReport.model_validate({**report.model_dump(), field: outside if field == "index" else "../x"}).to_bytes())
    message = re.escape(f"{path}, the report of {report.file}, is missing or was changed. See dataprep verify.")
    with pytest.raises(NotWhole, match=message):
        run_job(copy_job(small))
    assert not (small.parent / "to/x").exists()
    with pytest.raises(NotWhole, match=f"and the manifest differ in {field} of {report.file}"):
        verify(str(small), Access())


@pytest.mark.parametrize("column", ["file", "split", "records", "size", "sha256", "rawSha256", "companions"])
def test_a_null_in_the_table_is_refused(large: Path, column: str) -> None:
    table = edit_table(large, lambda rows: rows[2].update({column: None}))
    assert_refused(large, f"{table} was not written by dataprep: the column {column} has a null that dataprep doesn't write.")


@pytest.mark.parametrize("field", ["file", "size", "sha256"])
def test_a_null_in_a_companion_is_refused(large: Path, field: str) -> None:
    table = edit_table(large, lambda rows: rows[2]["companions"][0].update({field: None}))
    assert_refused(large, f"{table} was not written by dataprep: the column companions has a null that dataprep doesn't write.")


def test_a_companion_that_is_null_is_refused(large: Path) -> None:
    table = edit_table(large, lambda rows: rows[2]["companions"].append(None))
    assert_refused(large, f"{table} was not written by dataprep: the column companions has a null that dataprep doesn't write.")


def test_an_index_with_only_a_size_is_refused(large: Path) -> None:
    table = edit_table(large, lambda rows: rows[2].update(indexSize=7))
    assert_refused(
        large, f"{table} was not written by dataprep: the column indexSize or indexSha256 has a null that dataprep doesn't write."
    )


@pytest.mark.parametrize("path", PATHS)
def test_an_impossible_path_in_the_table_is_refused(large: Path, path: str) -> None:
    table = edit_table(large, lambda rows: rows[2].update(file=path))
    assert_refused(large, f"{table} was not written by dataprep: the column file has {path!r}, {IN_FOLDER}.")


def test_an_impossible_path_of_a_companion_or_of_bad_records_in_the_table_is_refused(large: Path) -> None:
    table = edit_table(large, lambda rows: rows[1].update(quarantine="../x"))
    quarantine = table.parent.relative_to(large) / "quarantine"
    assert_refused(large, f"{table} was not written by dataprep: the column quarantine has '../x', expected a file in {quarantine}.")
    edit_table(large, lambda rows: rows[2]["companions"][0].update(file="../x"))
    assert_refused(large, f"{table} was not written by dataprep: the column companions has '../x', {IN_FOLDER}.")


def test_a_damaged_table_is_refused_wherever_the_damage_is(large: Path) -> None:
    path = next(large.glob("_dataprep/*/manifest-files.parquet"))
    content, faults = path.read_bytes(), list[str]()
    for place in range(0, len(content), len(content) // 100):
        path.write_bytes(content[:place] + bytes(4) + content[place + 4 :])
        edit_manifest(large, lambda document: document["fileTable"].update(sha256=hashlib.sha256(path.read_bytes()).hexdigest()))
        try:
            list(load_manifest(str(large), Access()).files)
        except BadData as exc:
            faults.append(str(exc))
    assert faults
    assert [fault for fault in faults if not fault.startswith(f"{path} was not written by dataprep: ")] == []
