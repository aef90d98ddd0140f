"""Hugging Face's `datasets` decodes the images and class names of `parquet` files that were written with the option `huggingFace`."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from tests.builders.jobs import run_spec
from tests.interop.comparisons import compared

import environments
from workbench import photos

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

_pq: Any = pq  # the module has no type stubs
READER = Path(__file__).parents[1] / "readers" / "datasets_sets.py"


def test_images_are_decoded_and_classes_have_names(tmp_path: Path) -> None:
    folder = photos.write(tmp_path / "photos")
    features = [{"name": name, "columns": [f"image/{name}"]} for name in ("height", "width")]
    spec = {
        "source": {"images": {"uris": [str(folder)]}},
        "features": [{"name": "image", "columns": ["image/encoded"]}, *features, {"name": "word", "columns": ["image/class/text"]}],
        "labels": [{"name": "label", "columns": ["image/class/label"]}],
        "output": {"uri": str(tmp_path / "set"), "format": "parquet", "shards": {"count": 2}, "parquet": {"huggingFace": {}}},
    }
    run_spec(spec)
    said = json.loads(environments.run("datasets", READER, sorted((tmp_path / "set").glob("*.parquet"))))
    assert said["features"] == {
        "image": ["Image", None],
        "height": ["Value", None],
        "width": ["Value", None],
        "word": ["Value", None],
        "label": ["ClassLabel", ["admiral", "flower", "temple"]],
    }
    files = sorted(folder.glob("*/*.jpg"))
    assert len(said["records"]) == len(files)
    for record, file in zip(said["records"], files, strict=True):
        with Image.open(io.BytesIO(file.read_bytes())) as photo:
            assert record["image"] == {"size": list(photo.size), "first": np.array(photo)[0, 0].tolist()}
            assert [record["width"], record["height"]] == list(photo.size)
        assert (record["word"], said["features"]["label"][1][record["label"]]) == (file.parent.name, file.parent.name)
    compared(
        format="parquet",
        reader="Hugging Face's datasets, `load_dataset`",
        versions=said["versions"],
        source="images",
        records=len(files),
        fields=["image", "height", "width", "word", "label"],
    )


def test_tensors_and_vectors_are_lists(tmp_path: Path) -> None:
    (tmp_path / "images").write_bytes(bytes.fromhex("00000803000000010000000200000003") + bytes(range(6)))
    run_spec(
        {
            "source": {"idx": {"subsets": [{"name": "train", "images": str(tmp_path / "images")}]}},
            "features": [{"name": "pixels", "columns": ["image"]}],
            "output": {"uri": str(tmp_path / "set"), "format": "parquet", "parquet": {"huggingFace": {}}},
        }
    )
    said = json.loads(environments.run("datasets", READER, [tmp_path / "set" / "train.parquet"]))
    assert said["records"] == [{"pixels": [[0, 1, 2], [3, 4, 5]]}]


def test_nulls_of_images_classes_numbers_and_tensors_are_none(tmp_path: Path) -> None:
    with io.BytesIO() as content:
        Image.new("RGB", (4, 3), (9, 8, 7)).save(content, "PNG")
        picture = content.getvalue()
    columns: dict[str, Any] = {
        "image": pa.array([picture, None, picture], pa.binary()),
        "kind": pa.array(["cat", "dog", None]),
        "n": pa.array([None, 2, 3], pa.int64()),
        "v": pa.array([[1, 2], None, [5, 6]], pa.list_(pa.float32(), 2)),
    }
    _pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    run_spec(
        {
            "source": {"parquet": {"uris": [str(tmp_path / "rows.parquet")]}},
            "transforms": [{"vocabulary": {"columns": ["kind"]}}],
            "features": [{"name": name} for name in ("image", "n", "v")],
            "labels": [{"name": "kind"}],
            "output": {"uri": str(tmp_path / "set"), "format": "parquet", "parquet": {"huggingFace": {}}},
        }
    )
    said = json.loads(environments.run("datasets", READER, [tmp_path / "set" / "train.parquet"]))
    assert (said["features"]["image"], said["features"]["kind"]) == (["Image", None], ["ClassLabel", ["cat", "dog"]])
    pixels = {"size": [4, 3], "first": [9, 8, 7]}
    assert said["records"] == [
        {"image": pixels, "n": None, "v": [1, 2], "kind": 0},
        {"image": None, "n": 2, "v": None, "kind": 1},
        {"image": pixels, "n": 3, "v": [5, 6], "kind": None},
    ]
