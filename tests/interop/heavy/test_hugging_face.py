"""Hugging Face's `datasets` decodes the images and class names of `parquet` with `huggingFace`."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.builders.jobs import run_spec
from tests.interop.comparisons import compared

import environments
from workbench import photos

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

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
