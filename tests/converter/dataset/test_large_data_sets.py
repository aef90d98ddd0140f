"""Data sets of every kind whose manifest lists the shards in a table.

All files are the same as if the manifest itself listed the shards. In these tests, a table is used for more than three shards.
"""

import hashlib
import json
import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.builders.jobs import output_of, run_job
from tests.builders.specs import parse_job

import dataprep_reader
from dataprep_api.dataset.report import Manifest, Success
from dataprep_converter.core.errors import BadData, NewerFormat, NotWhole
from dataprep_converter.dataset import manifest_table
from dataprep_converter.dataset.listing import load_manifest
from dataprep_converter.dataset.sidecars import croissant
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps import remove
from dataprep_converter.tools.repair import repair
from dataprep_converter.tools.verification import verify

HALVES = {"seed": 3, "into": [{"name": "train", "fraction": 0.5}, {"name": "test", "fraction": 0.5}]}
COLUMNS = [{"name": "x", "type": "Int64"}, {"name": "label", "type": "Int64"}]
ROWS = "".join("bad,0\n" if row == 7 else f"{row},{row % 3}\n" for row in range(40))
KINDS: dict[str, dict[str, Any]] = {
    "tfrecord": {"format": "tfrecord", "index": True},
    "tfrecord, gzip": {"format": "tfrecord", "tfrecord": {"compression": "Gzip"}, "index": False},
    "mds": {"format": "mds", "mds": {"compression": "Gzip"}},
    "mapFile": {"format": "mapFile", "mapFile": {"value": "Example"}},
    "recordioProtobuf": {"format": "recordioProtobuf"},
    "csv": {"format": "csv"},
}
WITH_LOCATION = ("_dataprep/paths/", "_dataprep/input_data_config.json")

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Runs a job with eight shards, one bad record and this output. Returns the folder."""

    def made(name: str, output: dict[str, Any], *, limit: int, rows: str = ROWS) -> Path:
        monkeypatch.setattr(manifest_table, "MOST_LISTED_FILES", limit)
        write(tmp_path / "in/rows.csv", rows)
        return output_of(job(tmp_path, name, output))

    return made


def write(path: Path, rows: str) -> None:
    """Writes a file of rows.

    The file's modification time is always the same, because inputs with different times count as different inputs.
    """
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"x,label\n{rows}")
    os.utime(path, (0, 0))


def job(root: Path, name: str, output: dict[str, Any]) -> Any:
    source = {"csv": {"uris": [str(root / "in")], "header": True, "columns": COLUMNS}}
    written = {"uri": str(root / name), "shards": {"count": 4}, "overwrite": "IfChanged", **output}
    spec = {"source": source, "splits": HALVES, "onBadRecord": {"policy": "Quarantine"}, "output": written}
    return parse_job(spec, name="large")


def files_of(folder: Path) -> dict[str, bytes]:
    """Returns all files, except those that depend on the time or on whether there is a table. The folder's name is replaced."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    passed = ("_SUCCESS", croissant.FILE, *(name for name in found if "/reports/" in name or "/manifest" in name))
    return {
        name: path.read_bytes().replace(str(folder).encode(), b"<folder>") if name.startswith(WITH_LOCATION) else path.read_bytes()
        for name, path in found.items()
        if name not in passed
    }


def content_of(manifest: Manifest) -> dict[str, Any]:
    """Returns a manifest's fields, except the reference to the table and the entry of Croissant's file."""
    found = {name: getattr(manifest, name) for name in Manifest.model_fields if name != "file_table"}
    return found | {
        "files": list(manifest.files),
        "quarantine": list(manifest.quarantine),
        "metadata": [each for each in manifest.metadata if each.file != croissant.FILE],
    }


def records_of(folder: Path) -> list[list[Any]]:
    batches = (batch for split in ("train", "test") for batch in dataprep_reader.open(str(folder), split=split))
    return [batch["x"].tolist() for batch in batches]


def table_of(folder: Path) -> Path:
    return next(folder.glob("_dataprep/*/manifest-files.parquet"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data_set_is_the_same_with_a_table(make: Make, kind: str) -> None:
    small, large = (make(f"out-{limit}", KINDS[kind], limit=limit) for limit in (100, 3))
    assert not list(small.glob("_dataprep/*/manifest-files.parquet"))
    assert table_of(large)
    assert files_of(large) == files_of(small)
    manifest = verify(str(large), Access(), every_record=True)
    assert content_of(manifest) == content_of(verify(str(small), Access(), every_record=True))
    assert len(manifest.quarantine) == 1
    assert records_of(large) == records_of(small)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_is_repaired(make: Make, kind: str) -> None:
    folder = make("out", KINDS[kind], limit=3)
    manifest = load_manifest(str(folder), Access())
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "/reports/" not in str(path)}
    shard = manifest.files[5]
    for path in [shard.file, *(each.file for each in shard.companions), *manifest.quarantine, manifest.metadata[0].file]:
        (folder / path).write_bytes(b"broken")
    repair(str(folder), Access())
    assert {path: path.read_bytes() for path in before} == before
    verify(str(folder), Access(), every_record=True)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_copied_read_and_removed(make: Make, tmp_path: Path, kind: str) -> None:
    folder = make("out", KINDS[kind], limit=3)
    source = {"dataset": {"uri": str(folder)}}
    run_job(parse_job({"source": source, "output": {"uri": str(tmp_path / "copy"), "format": "copy"}}))
    assert files_of(tmp_path / "copy") == files_of(folder)
    assert table_of(tmp_path / "copy").read_bytes() == table_of(folder).read_bytes()
    manifest = verify(str(tmp_path / "copy"), Access())
    run_job(parse_job({"source": source, "output": {"uri": str(tmp_path / "again"), "format": "jsonl"}}))
    assert verify(str(tmp_path / "again"), Access()).records_out == manifest.records_out == 39
    remove.remove(str(folder), Access(), runs=[manifest.run_id])
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_a_data_set_is_extended_beyond_the_limit(make: Make, tmp_path: Path) -> None:
    grown = []
    for limit in (100, 5):
        output = {"format": "tfrecord", "index": True, "shards": {"count": 2}, "overwrite": "Extend"}
        folder = make(f"out-{limit}", output, limit=limit)
        assert not list(folder.glob("_dataprep/*/manifest-files.parquet"))
        for name in ("more", "yet more"):
            write(tmp_path / f"in/{name}.csv", "".join(f"{row},0\n" for row in range(100, 140)))
            run_job(job(tmp_path, folder.name, output))
        for name in ("more", "yet more"):
            (tmp_path / f"in/{name}.csv").unlink()
        grown.append(folder)
    small, large = grown
    assert len(list(large.glob("_dataprep/*/manifest-files.parquet"))) == 1
    assert content_of(verify(str(large), Access(), every_record=True)) == content_of(verify(str(small), Access(), every_record=True))
    assert records_of(large) == records_of(small)


def test_a_data_set_of_a_script_has_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifests = []
    (tmp_path / "in").mkdir()
    for number in range(5):
        (tmp_path / f"in/{number}.jsonl").write_text("{}\n" * (number + 1))
    for limit in (100, 3):
        monkeypatch.setattr(manifest_table, "MOST_LISTED_FILES", limit)
        script = {"command": ["cp", "-r", "${DATAPREP_INPUT}/.", "${DATAPREP_OUTPUT}"], "input": str(tmp_path / "in"), "outputs": ["*"]}
        out = str(tmp_path / f"out-{limit}")
        run_job(parse_job({"script": script, "output": {"uri": out, "overwrite": "IfChanged"}}, name="script"))
        manifests.append(verify(out, Access(), every_record=True))
    small, large = manifests
    assert (small.file_table is None, large.file_table is not None) == (True, True)
    assert content_of(large) == content_of(small)
    (tmp_path / "out-3/2.jsonl").unlink()
    with pytest.raises(NotWhole, match=r"2\.jsonl is missing\.$"):
        verify(str(tmp_path / "out-3"), Access())


def test_croissant_has_a_set_of_files_for_each_split(make: Make) -> None:
    """mlcroissant can read file sets only in the description's folder. Shards are elsewhere, so the description omits their columns."""
    folder = make("out", KINDS["csv"], limit=3)
    described = json.loads((folder / croissant.FILE).read_bytes())
    assert [(each["@type"], each["@id"], each["includes"]) for each in described["distribution"]] == [
        ("cr:FileSet", "files/train", "../train-*"),
        ("cr:FileSet", "files/test", "../test-*"),
    ]
    for each in described["distribution"]:
        found = sorted(path.name for path in (folder / "_dataprep").resolve().glob(each["includes"]))
        assert found == sorted(path.name for path in folder.glob(f"{each['name']}-*"))
    assert [each["@id"] for each in described["recordSet"]] == ["splits"]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{split}[x]-{shard}.{ext}", [("train", "../train[[]x]-*"), ("test", "../test[[]x]-*")]),
        ("{split}/{shard}.{ext}", [("train", "../train/*"), ("test", "../test/*")]),
        ("{shard}-{split}.{ext}", []),
        ("{shard}{split}.{ext}", []),
    ],
)
def test_croissant_has_no_set_for_a_split_whose_files_share_their_prefix(
    make: Make, template: str, expected: list[tuple[str, str]]
) -> None:
    folder = make("out", KINDS["csv"] | {"fileName": template}, limit=3)
    described = json.loads((folder / croissant.FILE).read_bytes())
    assert [(each["name"], each["includes"]) for each in described["distribution"]] == expected


def test_croissant_has_only_the_sets_with_a_prefix_of_their_own(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    splits = [{"name": "train", "fraction": 0.5}, {"name": "trainer", "fraction": 0.5}]
    monkeypatch.setitem(HALVES, "into", splits)
    for template, expected in (("{split}{shard}.{ext}", ["trainer"]), ("{split}-{shard}.{ext}", ["train", "trainer"])):
        folder = make(template, KINDS["csv"] | {"fileName": template}, limit=3)
        described = json.loads((folder / croissant.FILE).read_bytes())
        assert [each["name"] for each in described["distribution"]] == expected


def test_the_loader_for_numpy_counts_every_record(make: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make("out", {"format": "npz"}, limit=3)
    monkeypatch.setattr(sys, "argv", ["load_numpy.py"])
    manifest = load_manifest(str(folder), Access())
    runpy.run_path(str(folder / "_dataprep/loaders/load_numpy.py"), run_name="__main__")
    assert capsys.readouterr().out == "".join(f"{each.name}: {each.records} of {each.records} records\n" for each in manifest.splits)


def test_a_finished_data_set_is_reused_and_replaced(make: Make) -> None:
    folder = make("out", KINDS["csv"], limit=3)
    table = table_of(folder)
    before = table.stat().st_mtime_ns
    make("out", KINDS["csv"], limit=3)
    assert table.stat().st_mtime_ns == before
    make("out", {**KINDS["csv"], "overwrite": "Always"}, limit=3, rows=ROWS + "1,1\n")
    assert not table.exists()
    assert table_of(folder)
    assert verify(str(folder), Access()).records_out == 40


@pytest.mark.parametrize("damage", ["missing", "changed", "empty"])
def test_a_damaged_table_is_named_by_all_that_read_it(make: Make, tmp_path: Path, damage: str) -> None:
    folder = make("out", KINDS["csv"], limit=3)
    table = table_of(folder)
    before = table.read_bytes()
    now = {"missing": None, "changed": before[:-1] + b"X", "empty": b""}[damage]
    if now is None:
        table.unlink()
        expected = f"{table} is missing. The manifest names this file."
    else:
        table.write_bytes(now)
        digests = [hashlib.sha256(content).hexdigest() for content in (now, before)]
        expected = f"{table} was changed: its SHA-256 is {digests[0]}, but the manifest states {digests[1]}."
    with pytest.raises(NotWhole) as refused:
        verify(str(folder), Access())
    assert str(refused.value) == expected
    for way in (
        lambda: dataprep_reader.open(str(folder), split="train"),
        lambda: run_job(parse_job({"source": {"dataset": {"uri": str(folder)}}, "output": {"uri": str(tmp_path / "again")}})),
    ):
        with pytest.raises(BadData) as named:
            way()
        assert str(named.value) == f"{expected} See dataprep verify."


def test_a_table_that_dataprep_would_not_write_is_refused(make: Make) -> None:
    folder = make("out", KINDS["csv"], limit=3)
    other = make("other", {**KINDS["csv"], "shards": {"count": 3}}, limit=3)
    for content, fault in (
        (b"no table", "was not written by dataprep: "),
        (table_of(other).read_bytes(), "was not written by dataprep: it has 6 rows, but the manifest states 8."),
    ):
        table_of(folder).write_bytes(content)
        name_in_manifest(folder, hashlib.sha256(content).hexdigest())
        with pytest.raises(NotWhole) as refused:
            verify(str(folder), Access())
        assert str(refused.value).startswith(f"{table_of(folder)} {fault}")


def name_in_manifest(folder: Path, sha256: str) -> None:
    """Edits the table's digest in the manifest, and the manifest's digest in _SUCCESS."""
    success = Success.model_validate_json((folder / "_SUCCESS").read_bytes())
    path = folder / success.manifest
    document = json.loads(path.read_bytes())
    document["fileTable"]["sha256"] = sha256
    path.write_text(json.dumps(document))
    edited = success.model_copy(update={"sha256": hashlib.sha256(path.read_bytes()).hexdigest()})
    (folder / "_SUCCESS").write_bytes(edited.to_bytes())


def test_a_release_without_tables_names_the_version(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make("out", KINDS["csv"], limit=3)
    monkeypatch.setattr(Manifest, "newest", classmethod(lambda _: 5))
    for way in (
        lambda: verify(str(folder), Access()),
        lambda: repair(str(folder), Access()),
        lambda: dataprep_reader.open(str(folder), split="train"),
    ):
        with pytest.raises(NewerFormat) as refused:
            way()
        assert str(refused.value) == (
            f"{next(folder.glob('_dataprep/*/manifest.json'))}: the manifest has the format version 6, and this release of dataprep "
            "supports versions up to 5. Use the release that wrote the file, or a later release."
        )
