"""`dataprep infer` on images: splits, classes, and tables beside the images."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from tests.builders.files import visible
from tests.converter.cli.commandline import code_of
from tests.converter.cli.inference import features, inferred, photos, pictures, text

from dataprep_api.spec.sources.images import IMAGE_EXTENSIONS
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify

_arrow: Any = pa
_feather: Any = pyarrow.feather
_parquet: Any = pyarrow.parquet


def test_folders_named_like_splits_are_subsets(tmp_path: Path) -> None:
    written, spec = inferred(photos(tmp_path), tmp_path)
    assert spec["source"] == {"images": {"uris": [str(tmp_path / "photos")], "subsetFrom": "FirstFolder"}}
    assert "# classes of image/class/label: 2 (cat, dog)\n" in written
    assert "# 8 records: train 4, val 4\n" in written
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert visible(tmp_path / "out") == ["train.tfrecords", "val.tfrecords"]


def test_pictures_in_avif_are_read_by_their_extension(tmp_path: Path) -> None:
    _, spec = inferred(pictures(tmp_path / "photos", "cat/1.avif", "dog/2.png"), tmp_path)
    assert spec["source"]["images"]["extensions"] == [*IMAGE_EXTENSIONS, "avif"]


IMAGE_TABLES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "metadata of an image folder": (
        "metadata.jsonl",
        '{"file_name": "in/1.png", "caption": "one"}\n{"file_name": "in/2.png", "caption": "two"}\n',
        {"pathColumn": "file_name", "columns": ["caption"]},
    ),
    "paths with a label": (
        "train.csv",
        "id,image,label,score\n1,in/1.png,cat,0.5\n2,in/2.png,dog,1.5\n",
        {"pathColumn": "image", "labelColumn": "label", "columns": ["id", "score"]},
    ),
    "names": (
        "lists/train.csv",
        "name;score\n1.png;0.5\n2.png;1.5\n",
        {"delimiter": ";", "pathColumn": "name", "match": "FileName", "columns": ["score"]},
    ),
    "keys": ("scores.tsv", "score\tid\n0.5\t1\n1.5\t2\n", {"pathColumn": "id", "match": "Key", "columns": ["score"]}),
}


@pytest.mark.parametrize(("name", "content", "listed"), IMAGE_TABLES.values(), ids=IMAGE_TABLES.keys())
def test_a_table_of_the_images_is_read_with_them(tmp_path: Path, name: str, content: str, listed: dict[str, Any]) -> None:
    folder = pictures(tmp_path / "photos", "in/1.png", "in/2.png")
    table = text(folder / name, content)
    root = {"root": str(folder)} if "match" in listed else {}
    _, spec = inferred(folder, tmp_path)
    assert spec["source"] == {
        "images": {"labelFrom": "List" if "labelColumn" in listed else "None", "list": {"uri": str(table), **listed, **root}}
    }
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert verify(str(tmp_path / "out"), Access()).records_out == 2
    assert set(listed["columns"]) <= set(features(tmp_path / "out"))


def test_a_parquet_table_of_the_images_is_read_without_its_bytes(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "photos", "1.png", "2.png")
    _parquet.write_table(_arrow.table({"file": ["1.png", "2.png"], "boxes": [[1.5], []], "thumb": [b"1", b"2"]}), folder / "meta.parquet")
    _, spec = inferred(folder, tmp_path)
    assert spec["source"]["images"]["list"] == {"uri": str(folder / "meta.parquet"), "pathColumn": "file", "columns": ["boxes"]}


def test_a_table_that_names_no_image_is_left_alone(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "photos", "cat/1.png", "dog/2.png", "dog/3.png")
    text(folder / "scores.csv", "player,score\na,1\nb,2\n")
    _, spec = inferred(folder, tmp_path)
    assert spec["source"]["images"] == {"uris": [str(folder)]}


def test_a_table_of_images_in_folders_of_splits_keeps_the_splits(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "photos", "train/1.png", "train/2.png", "val/3.png")
    text(folder / "scores.csv", "file,score\n1.png,0.5\n2.png,1.5\n3.png,2.5\n")
    _, spec = inferred(folder, tmp_path)
    assert spec["source"]["images"]["subsetFrom"] == "FirstFolder"
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert visible(tmp_path / "out") == ["train.tfrecords", "val.tfrecords"]


def test_half_of_the_rows_of_a_table_are_enough(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "photos", "1.png")
    text(folder / "scores.csv", "file,score\n1.png,0.5\n2.png,1.5\n")
    written, spec = inferred(folder, tmp_path)
    assert "list" in spec["source"]["images"]
    assert f"# 1 of the first 2 records don't fit, the first: {folder}/scores.csv, row 2: {folder}/2.png does not exist" in written


def test_images_without_class_folders_have_no_label(tmp_path: Path) -> None:
    _, spec = inferred(pictures(tmp_path / "flat", "a.png", "b.png"), tmp_path)
    assert spec["source"]["images"]["labelFrom"] == "None"
