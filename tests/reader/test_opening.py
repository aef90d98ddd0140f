"""Tests of the sources that can be opened (a folder, its shards, a list of paths, a manifest), and of the errors for all other sources."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.reader.sets import exactly, flat, halves, numbers, opened

from dataprep_converter.core.errors import BadData, NotFound

TRAIN = list(range(30))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return halves(tmp_path_factory.mktemp("reader"))


def manifest(folder: Path) -> Path:
    found: str = json.loads((folder / "_SUCCESS").read_text())["manifest"]
    return folder / found


WAYS: dict[str, Callable[[Path], Any]] = {
    "a folder": lambda folder: folder,
    "a folder as text": lambda folder: f"{folder}/",
    "a file URI": lambda folder: f"file://{folder}",
    "its shards": lambda folder: sorted(folder.glob("train-*")),
    "a list of paths": lambda folder: folder / "_dataprep/paths/train.txt",
    "its manifest": manifest,
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_open_gives_the_same_records(folder: Path, way: str) -> None:
    reader = opened(WAYS[way](folder), split="train", batch_size=7)
    assert (reader.records, reader.batches, len(reader)) == (30, 5, 5)
    assert flat(reader) == TRAIN


@pytest.mark.parametrize("way", ["a folder", "its manifest"])
def test_one_of_several_splits_must_be_named(folder: Path, way: str) -> None:
    with pytest.raises(ValueError, match=exactly(f"{folder} has the splits train, test: select one, for example split='train'.")):
        opened(WAYS[way](folder))


def test_a_split_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=exactly(f"{folder} has no split 'validation': it has train, test.")):
        opened(folder, split="validation")
    with pytest.raises(ValueError, match=exactly(f"None of these 3 files of {folder} belongs to the split 'test'.")):
        opened(sorted(folder.glob("train-*")), split="test")


def test_several_splits_are_read_one_after_another(folder: Path) -> None:
    assert flat(opened(folder, split=["test", "train"])) == [*range(30, 40), *TRAIN]


def test_the_only_split_need_not_be_named(tmp_path: Path) -> None:
    assert flat(opened(numbers(tmp_path, count=5))) == list(range(5))


def test_lists_are_read_in_their_order_without_hidden_files(folder: Path) -> None:
    shards = sorted(folder.iterdir(), reverse=True)
    assert {path.name for path in shards} >= {"_SUCCESS", "_dataprep"}
    assert sorted(flat(opened(shards))) == list(range(40))
    first, second, third = sorted(folder.glob("train-*"))
    assert flat(opened([third, first, second])) == [*range(20, 30), *range(20)]
    assert flat(opened(first)) == list(range(10))


def test_a_list_of_paths_of_ones_own(folder: Path, tmp_path: Path) -> None:
    paths = tmp_path / "mine.txt"
    paths.write_text("\n".join(str(path) for path in sorted(folder.glob("train-*"))) + "\n\n")
    assert flat(opened(paths)) == TRAIN
    beside = shutil.copytree(folder, tmp_path / "copy")
    (beside / "few.txt").write_text("train-00001-of-00003.tfrecords\n")
    assert flat(opened(beside / "few.txt")) == list(range(10, 20))


def test_the_list_of_a_folder_that_was_moved_names_the_files_of_that_folder(folder: Path, tmp_path: Path) -> None:
    gone = shutil.copytree(folder, tmp_path / "gone")
    paths = gone / "_dataprep/paths/train.txt"
    paths.write_text(paths.read_text().replace(str(folder), str(gone)))
    moved = gone.rename(tmp_path / "moved")
    assert str(gone) in (moved / "_dataprep/paths/train.txt").read_text()
    assert flat(opened(moved / "_dataprep/paths/train.txt")) == TRAIN


def test_relative_lists_name_the_files_of_their_folder(folder: Path, tmp_path: Path) -> None:
    assert flat(opened(folder / "_dataprep/files/train.txt")) == TRAIN
    older = shutil.copytree(folder, tmp_path / "older")
    (older / "_dataprep/paths/train.txt").write_text((folder / "_dataprep/files/train.txt").read_text())
    assert flat(opened(older / "_dataprep/paths/train.txt")) == TRAIN


def test_relative_paths(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for source in (
        ".",
        ["train-00000-of-00003.tfrecords", "./train-00001-of-00003.tfrecords"],
        "_dataprep/paths/train.txt",
        manifest(Path()),
    ):
        assert flat(opened(source, split="train"))[:20] == list(range(20)), source
    monkeypatch.chdir(folder.parent)
    for source in ("set", ["set/train-00000-of-00003.tfrecords"], "set/_dataprep/paths/train.txt", manifest(Path("set"))):
        assert flat(opened(source, split="train"))[:10] == list(range(10)), source


def test_a_folder_without_success_is_refused(folder: Path, tmp_path: Path) -> None:
    unfinished = shutil.copytree(folder, tmp_path / "copy")
    (unfinished / "_SUCCESS").unlink()
    with pytest.raises(NotFound, match=exactly(f"{unfinished} has no _SUCCESS: there is no finished data set.")):
        opened(unfinished, split="train")
    shard = unfinished / "train-00000-of-00003.tfrecords"
    for source in (shard, [shard]):
        with pytest.raises(NotFound, match=exactly(f"{shard} doesn't belong to a finished data set: no folder above it has a _SUCCESS.")):
            opened(source)
    with pytest.raises(NotFound, match=exactly(f"{unfinished} has no _SUCCESS")):
        opened(unfinished / "_dataprep/paths/train.txt")
    with pytest.raises(NotFound, match=exactly(f"{unfinished} has no _SUCCESS")):
        opened(unfinished / manifest(folder).relative_to(folder), split="train")


def test_a_manifest_that_is_not_the_data_sets_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=exactly("isn't a data set's manifest: its path must be <folder>/_dataprep/<run>/manifest.json.")):
        opened(folder / "_tfds/dataset_info.json")
    copy = shutil.copytree(folder, tmp_path / "copy")
    shutil.copytree(manifest(copy).parent, copy / "_dataprep/0123456789abcdef")
    with pytest.raises(NotFound, match="is not the current manifest: _SUCCESS names the manifest of run "):
        opened(copy / "_dataprep/0123456789abcdef/manifest.json", split="train")
    manifest(copy).write_bytes(manifest(copy).read_bytes() + b" ")
    with pytest.raises(BadData, match=r"manifest.json was changed: .* See dataprep verify\."):
        opened(copy, split="train")


def test_files_of_something_else_are_refused(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    shard, other = copy / "train-00000-of-00003.tfrecords", copy / "other.tfrecords"
    other.write_bytes(b"")
    with pytest.raises(ValueError, match=exactly(f"{other} isn't a shard of the data set {copy}, whose manifest has 6 files.")):
        opened([shard, other])
    with pytest.raises(ValueError, match=exactly(f"{shard} is in the list twice.")):
        opened([shard, shard])
    with pytest.raises(NotFound, match="The list contains no visible files"):
        opened([copy / "_SUCCESS"])


def test_what_stands_beside_shards_is_passed_by(tmp_path: Path) -> None:
    folder = numbers(tmp_path, format="mds")
    found = sorted(
        str(path) for path in folder.rglob("*") if path.is_file() and "_dataprep" not in path.parts and "_tfds" not in path.parts
    )
    assert any(path.endswith("index.json") for path in found)
    assert sorted(flat(opened(found))) == list(range(40))


def test_map_files_are_listed_by_their_folders(tmp_path: Path) -> None:
    folder = numbers(tmp_path, format="mapFile")
    parts = sorted(path for path in folder.iterdir() if path.name.startswith("part-"))
    assert all(path.is_dir() for path in parts)
    assert flat(opened(parts)) == list(range(40))
    assert flat(opened([file for part in parts for file in sorted(part.iterdir())])) == list(range(40))


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1; got 0."),
        ({"epochs": 0}, "epochs must be at least 1; got 0."),
        ({"rank": 2, "world_size": 2}, "rank must be less than world_size (2); got 2."),
        ({"threads": 0}, "threads must be at least 1; got 0."),
        ({"prefetch": -1}, "prefetch must be at least 0; got -1."),
        ({"shuffle": True}, "shuffle must be a whole number (the seed) or None; got True."),
        ({"as_": "list"}, "as_ must be 'numpy' or 'arrow'; got 'list'."),
        ({"columns": ["m"]}, "has no feature 'm': it has n."),
    ],
)
def test_arguments_that_do_not_fit_are_refused(folder: Path, options: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=exactly(fault)):
        opened(folder, split="train", **options)


def test_stores_may_be_set_up_by_a_job(folder: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(
        "apiVersion: dataprep.io/v1alpha1\nkind: DataPrepJob\nmetadata: {name: x}\nspec:\n  source: {text: {uris: [in]}}\n  output: {uri: out}\n"
        "  stores: [{uriPrefix: 's3://', endpoint: 'http://127.0.0.1:9'}]\n"
    )
    assert flat(opened(folder, split="train", job=job)) == TRAIN
