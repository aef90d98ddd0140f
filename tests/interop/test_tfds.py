"""With the folder `_tfds`, TensorFlow Datasets can read every finished data set of tf.train.Examples without copying it."""

import io
import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.builders.jobs import output_of
from tests.builders.specs import job_into, parse_job
from tests.interop.comparisons import compared

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.cli.convert_to_records import mnist_job
from workbench import mnist, photos

pytestmark = pytest.mark.interop

PLACE = Path("_tfds/dataset/1.0.0")


def read(tfds: Any, output: Path, split: str = "train") -> list[dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        builder = tfds.builder_from_directory(output / PLACE)
        in_order = tfds.ReadConfig(interleave_cycle_length=1)
        return list(builder.as_dataset(split, read_config=in_order).as_numpy_iterator())


def agree(tfds: Any, source: str, records: int, fields: list[str]) -> None:
    compared(
        format="tfrecord",
        reader="TensorFlow Datasets' `builder_from_directory`",
        versions={"tensorflow-datasets": tfds.__version__},
        source=source,
        records=records,
        fields=fields,
    )


@pytest.mark.parametrize(
    ("shards", "file_name"),
    [(1, None), (3, None), (3, "{split}/{shard}.{ext}")],
    ids=["one shard", "default names", "a folder for each split"],
)
def test_digits_have_their_shape_label_and_split(tfds: Any, tmp_path: Path, shards: int, file_name: str | None) -> None:
    source = mnist.write(tmp_path / "in", train=300, test=40)
    document = mnist_job(source=str(source), output=str(tmp_path / "out"), validation=50, suffix=".gz").model_dump(
        by_alias=True, exclude_none=True
    )
    document["spec"]["output"] |= {"shards": {"count": shards}, "fileName": file_name}
    shutil.move(output_of(DataPrepJob.parse(document)), tmp_path / "moved")

    for split, first, count in (("train", 50, 250), ("validation", 0, 50), ("train[:10]", 50, 10)):
        numbers = np.arange(first, first + count)
        found = read(tfds, tmp_path / "moved", split)
        assert [int(record["label"]) for record in found] == (numbers % 10).tolist()
        pixels = np.stack([record["image_raw"].reshape(784) for record in found])
        assert pixels.dtype == np.uint8
        assert (pixels == (31 * numbers[:, None] + 7 * np.arange(784)) % 256).all()
    assert len(read(tfds, tmp_path / "moved", "test")) == 40
    agree(tfds, "idx", 340, ["image_raw", "label"])


def test_photographs_are_decoded_and_have_the_names_of_their_classes(tfds: Any, tmp_path: Path) -> None:
    folder = photos.write(tmp_path / "photos")
    output = output_of(job_into(tmp_path / "out", source={"images": {"uris": [str(folder)]}}, output={"shards": {"count": 2}}))

    found = read(tfds, output)

    builder = tfds.builder_from_directory(output / PLACE)
    assert builder.info.features["image/class/label"].names == ["admiral", "flower", "temple"]
    files = sorted(folder.glob("*/*.jpg"))
    assert len(found) == len(files)
    for record, file in zip(found, files, strict=True):
        assert builder.info.features["image/class/label"].int2str(int(record["image/class/label"])) == file.parent.name
        with Image.open(io.BytesIO(file.read_bytes())) as picture:
            assert record["image/encoded"].shape == (picture.height, picture.width, 3)
    agree(tfds, "images", len(found), ["image/class/label", "image/encoded"])


def test_a_table_has_numbers_texts_and_vectors(tfds: Any, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b,c,d,label\n1.5,2,true,x,0\n-0.5,3,false,,1\n")
    output = output_of(
        job_into(
            tmp_path / "out",
            source={"csv": {"uris": [str(tmp_path / "in.csv")], "header": True}},
            features=[*({"name": name} for name in "abcd"), {"name": "both", "columns": ["a", "b"], "dtype": "float32"}],
            labels=[{"name": "label", "numClasses": 3}],
        )
    )

    found = read(tfds, output)

    assert [(r["a"], r["b"], bool(r["c"]), r["d"], r["both"].tolist(), r["label"]) for r in found] == [
        (1.5, 2, True, b"x", [1.5, 2], 0), (-0.5, 3, False, b"", [-0.5, 3], 1),
    ]  # fmt: skip
    assert tfds.builder_from_directory(output / PLACE).info.features["label"].num_classes == 3
    agree(tfds, "csv", len(found), ["a", "b", "c", "d", "both", "label"])


def test_lists_of_any_length_are_equal(tfds: Any, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"ints": [1, -2, 3], "floats": [], "texts": ["a", ""]}, {"ints": [], "floats": [0.5], "texts": []}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    output = output_of(job_into(tmp_path / "out", source={"jsonl": {"uris": [str(tmp_path / "in.jsonl")]}}))

    found = read(tfds, output)

    assert [{name: values.tolist() for name, values in record.items()} for record in found] == [
        {**row, "texts": [text.encode() for text in row["texts"]]} for row in rows
    ]
    agree(tfds, "jsonl", len(found), ["ints", "floats", "texts"])


def test_an_extended_data_set_is_read_as_one(tfds: Any, tmp_path: Path) -> None:
    def job() -> DataPrepJob:
        spec = {
            "source": {"csv": {"uris": [str(tmp_path / "in")], "columns": [{"name": "x", "type": "Int64"}]}},
            "output": {"uri": str(tmp_path / "out"), "overwrite": "Extend", "shards": {"records": 10}},
        }
        return parse_job(spec, name="days")

    (tmp_path / "in").mkdir()
    for day in (2, 1):
        (tmp_path / f"in/{day}.csv").write_text("".join(f"{day * 100 + row}\n" for row in range(25)))
        output_of(job())
    assert [int(np.squeeze(record["x"])) for record in read(tfds, tmp_path / "out")] == [*range(200, 225), *range(100, 125)]
