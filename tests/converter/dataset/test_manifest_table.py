"""A manifest whose shards are in a table: every command gives the same results as with a manifest that lists its files."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders.digits import EIGHT, digits_job
from tests.builders.jobs import output_of, run_job
from tests.builders.specs import parse_job

import dataprep_reader
from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.errors import NotWhole
from dataprep_converter.dataset import manifest_table, shard_table
from dataprep_converter.dataset.listing import is_untouched, load_manifest
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps import remove
from dataprep_converter.tools.repair import repair
from dataprep_converter.tools.verification import Verification, verify

_parquet: Any = pq  # the type stubs lack Python's file objects


@pytest.fixture(scope="module")
def made(few: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with copies of two data sets. The manifest of `small` lists the files, and the manifest of `large` has a table."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        for name, most in (("small", manifest_table.MOST_LISTED_FILES), ("large", 3)):
            patch.setattr(manifest_table, "MOST_LISTED_FILES", most)
            shutil.copytree(output_of(digits_job(few, folder / name, output=EIGHT)), folder / "copies" / name)
    return folder


def as_made(made: Path, name: str) -> Path:
    """Return a data set's folder after undoing the changes of earlier tests."""
    shutil.rmtree(made / name)
    return Path(shutil.copytree(made / "copies" / name, made / name))


@pytest.fixture
def small(made: Path) -> Path:
    """A data set whose manifest lists its files."""
    return as_made(made, "small")


@pytest.fixture
def large(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same data set as `small`, but its manifest has a table."""
    monkeypatch.setattr(manifest_table, "MOST_LISTED_FILES", 3)
    return as_made(made, "large")


def head(folder: Path) -> dict[str, object]:
    document: dict[str, object] = json.loads(manifest_file(folder).read_bytes())
    return document


def manifest_file(folder: Path) -> Path:
    return next(folder.glob("_dataprep/*/manifest.json"))


def table(folder: Path) -> Path:
    return next(folder.glob("_dataprep/*/manifest-files.parquet"))


def alike(one: Manifest, other: Manifest) -> bool:
    """Whether two manifests are equal, except for `file_table` and `metadata`."""
    return all(getattr(one, name) == getattr(other, name) for name in Manifest.model_fields if name not in ("file_table", "metadata"))


def test_the_head_names_the_table_and_lists_no_files(large: Path) -> None:
    document = head(large)
    assert "files" not in document
    assert document["version"] == 6
    assert document["fileTable"] == {
        "file": table(large).relative_to(large).as_posix(),
        "rows": 24,
        "sha256": Verification(str(large), Access()).manifest.file_table.sha256,  # type: ignore[union-attr]
    }


def test_the_document_is_the_head_whether_the_table_was_read_or_not(large: Path) -> None:
    manifest = load_manifest(str(large), Access())
    assert "files" not in manifest.document()
    assert manifest.document() == head(large)
    assert manifest.to_bytes() == manifest_file(large).read_bytes()
    assert Manifest.model_validate_json(manifest.to_bytes()).to_bytes() == manifest.to_bytes()


def test_the_document_of_a_manifest_without_a_table_lists_all_shards(small: Path, large: Path) -> None:
    manifest = load_manifest(str(large), Access()).model_copy(update={"file_table": None})
    assert manifest.document()["files"] == head(small)["files"]


def test_the_manifest_is_the_same_with_and_without_a_table(small: Path, large: Path) -> None:
    assert alike(load_manifest(str(small), Access()), load_manifest(str(large), Access()))


def test_the_data_set_is_whole(large: Path) -> None:
    manifest = verify(str(large), Access(), every_record=True)
    assert is_untouched(manifest, OutputFolder(str(large), Access()).of_run(manifest.run_id))


def test_files_are_found_by_their_number(large: Path) -> None:
    files = load_manifest(str(large), Access()).files
    listed = list(files)
    assert [files[number] for number in range(-24, 24)] == listed * 2
    assert files[1:20:7] == listed[1:20:7]
    with pytest.raises(IndexError):
        files[24]


def test_the_files_for_readers_are_the_same(small: Path, large: Path) -> None:
    def read(folder: Path) -> dict[str, bytes]:
        files = {path.relative_to(folder).as_posix(): path for path in folder.glob("_*/**/*") if path.is_file()}
        kept = ("_dataprep/files/", "_dataprep/loaders/", "_dataprep/label", "_dataprep/statistics.json", "_tfds/")
        return {name: path.read_bytes() for name, path in files.items() if name.startswith(kept)}

    assert len(read(small)) > 5
    assert read(small) == read(large)


def test_the_reader_reads_the_same_records(small: Path, large: Path) -> None:
    one, other = (dataprep_reader.open(str(folder), split="train", batch_size=64) for folder in (small, large))
    records = [{name: column.tolist() for name, column in batch.items()} for batch in one]
    assert len(records) > 1
    assert records == [{name: column.tolist() for name, column in batch.items()} for batch in other]


def test_the_source_data_set_reads_it(small: Path, large: Path, tmp_path: Path) -> None:
    digests = []
    for folder in (small, large):
        spec = {
            "source": {"dataset": {"uri": str(folder)}},
            "output": {"uri": str(tmp_path / f"again-{folder.name}"), "format": "tfrecord"},
        }
        run_job(parse_job(spec))
        digests.append(load_manifest(str(tmp_path / f"again-{folder.name}"), Access()).digest)
    assert digests[0] == digests[1]


def test_a_copy_has_the_table(large: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    run_job(parse_job({"source": {"dataset": {"uri": str(large)}}, "output": {"uri": str(copy), "format": "copy"}}))
    assert table(copy).read_bytes() == table(large).read_bytes()
    assert verify(str(copy), Access()).digest == load_manifest(str(large), Access()).digest


def test_a_broken_shard_is_repaired(large: Path) -> None:
    before = {path: path.read_bytes() for path in (manifest_file(large), table(large))}
    manifest = load_manifest(str(large), Access())
    (large / manifest.files[5].file).write_bytes(b"broken")
    assert repair(str(large), Access()).shards == [manifest.files[5].file]
    assert {path: path.read_bytes() for path in before} == before
    assert verify(str(large), Access(), every_record=True).digest == manifest.digest


def write_tables_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes the bytes of tables, as another release of pyarrow might."""
    monkeypatch.setattr(manifest_table, "_ROW_GROUP", 5)


@pytest.mark.parametrize("rows", [5, 8, 24], ids=lambda rows: f"row groups of {rows}")
def test_the_table_has_the_bytes_of_one_that_is_written_at_once(large: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(manifest_table, "_ROW_GROUP", rows)
    columns = shard_table.batches_of(list(load_manifest(str(large), Access()).files))
    pieces = [columns[0].slice(start, 7) for start in range(0, 24, 7)]
    whole = io.BytesIO()
    _parquet.write_table(
        pa.Table.from_batches(pieces),
        whole,
        row_group_size=rows,
        compression="zstd",
        use_dictionary=["split"],
        write_statistics=False,
    )
    manifest = load_manifest(str(large), Access()).model_copy(update={"files": shard_table.files(pieces)})
    with manifest_table.table_of(manifest) as file:
        assert b"".join(file.pieces()) == whole.getvalue()


def test_an_intact_table_is_kept_although_this_release_writes_tables_differently(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: path.read_bytes() for path in (manifest_file(large), table(large))}
    write_tables_differently(monkeypatch)
    (large / load_manifest(str(large), Access()).files[5].file).unlink()
    repair(str(large), Access())
    assert {path: path.read_bytes() for path in before} == before
    verify(str(large), Access())


def test_the_table_of_a_finished_data_set_is_written_again(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = load_manifest(str(large), Access())
    folder = OutputFolder(str(large), Access()).of_run(manifest.run_id)
    path, content = table(large), table(large).read_bytes()
    for damaged in (None, content[:-1]):
        path.unlink() if damaged is None else path.write_bytes(damaged)
        assert folder.put_manifest_again(manifest) == folder.success()
        assert path.read_bytes() == content
    path.unlink()
    write_tables_differently(monkeypatch)
    with pytest.raises(NotWhole) as refused:
        folder.put_manifest_again(manifest)
    assert str(refused.value) == (
        f"{path} is missing or was changed, and this release of dataprep would write it differently from the release that made the data set. "
        "Repair it with that release, or run the job again with output.overwrite: Always."
    )


def test_a_repair_makes_no_table_for_a_manifest_that_lists_its_files(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier release might have listed files in the manifest that this release would list in the table."""
    before = manifest_file(small).read_bytes()
    monkeypatch.setattr(manifest_table, "MOST_LISTED_FILES", 3)
    (small / load_manifest(str(small), Access()).files[5].file).unlink()
    repair(str(small), Access())
    assert manifest_file(small).read_bytes() == before
    assert not list(small.glob("_dataprep/*/manifest-files.parquet"))
    verify(str(small), Access())


@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_a_damaged_table_is_named_and_repaired(large: Path, damage: str) -> None:
    path, content, uri = table(large), table(large).read_bytes(), str(table(large))
    if damage == "missing":
        path.unlink()
        expected = rf"^{uri} is missing\. The manifest names this file\.$"
    else:
        path.write_bytes(content[:-1])
        expected = rf"^{uri} was changed: its SHA-256 is [0-9a-f]{{64}}, but the manifest states [0-9a-f]{{64}}\.$"
    with pytest.raises(NotWhole, match=expected):
        verify(str(large), Access())
    repair(str(large), Access())
    assert path.read_bytes() == content
    verify(str(large), Access())


def test_a_finished_data_set_is_reused(large: Path, few: Path) -> None:
    before = manifest_file(large).stat().st_mtime_ns
    run_job(digits_job(few, large, output=EIGHT | {"overwrite": "IfChanged"}))
    assert manifest_file(large).stat().st_mtime_ns == before


def test_the_table_is_removed_with_the_data_set(large: Path) -> None:
    manifest = load_manifest(str(large), Access())
    remove.remove(str(large), Access(), runs=[manifest.run_id])
    assert [path for path in large.rglob("*") if path.is_file()] == []
