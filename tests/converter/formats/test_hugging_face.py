"""Parquet for Hugging Face's `datasets`: images are structs, and class names are in the metadata. Tests with `datasets`
itself are in tests/interop/heavy."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders.jobs import run_spec
from tests.converter.formats.columns import table_of, tensors, written
from tests.reader.sets import rows

import dataprep_reader
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify

PICTURES = {"cat/1.png": b"\x89PNG one", "cat/2.png": b"\x89PNG two", "dog/3.png": b"\x89PNG three"}
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def images(folder: Path, **parquet: Any) -> Path:
    """Write three files. They needn't be real images, because these tests don't decode them."""
    for name, content in PICTURES.items():
        (folder / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "in" / name).write_bytes(content)
    source = {"images": {"uris": [str(folder / "in")], "check": "None"}}
    output = {"uri": str(folder / "set"), "format": "parquet", "shards": {"count": 2}, "parquet": {"huggingFace": {}} | parquet}
    features = [{"name": "image", "columns": ["image/encoded"]}, {"name": "word", "columns": ["image/class/text"]}]
    labels = [{"name": "label", "columns": ["image/class/label"]}]
    run_spec({"source": source, "features": features, "labels": labels, "output": output})
    return folder / "set"


def test_images_are_structs_and_classes_have_names(tmp_path: Path) -> None:
    out = images(tmp_path)
    files = sorted(out.glob("*.parquet"))
    schema = pq.read_schema(files[0])
    assert (schema.field("image").type, schema.field("label").type, schema.field("word").type) == (IMAGE, pa.int64(), pa.string())
    assert json.loads((schema.metadata or {})[b"huggingface"]) == {
        "info": {"features": {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}
    }
    found = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    assert [(row["image"], row["label"], row["word"]) for row in found] == [
        ({"bytes": content, "path": None}, int(name.startswith("dog")), name[:3]) for name, content in PICTURES.items()
    ]


def test_they_are_verified_and_read_back_as_bytes(tmp_path: Path) -> None:
    out = images(tmp_path)
    assert verify(str(out), Access(), every_record=True).records_out == 3
    assert [row["image"] for row in rows(dataprep_reader.open(str(out), as_="arrow"))] == list(PICTURES.values())
    run_spec({"source": {"dataset": {"uri": str(out)}}, "output": {"uri": str(tmp_path / "again"), "format": "jsonl"}})
    assert len((tmp_path / "again" / "train.jsonl").read_text().splitlines()) == 3


def test_without_the_option_nothing_is_different(tmp_path: Path) -> None:
    (file,) = images(tmp_path, huggingFace=None, rowGroupRecords=2).glob("train-00000*")
    schema = pq.read_schema(file)
    assert schema.field("image").type == pa.binary()
    assert b"huggingface" not in (schema.metadata or {})


def test_tensors_are_lists_of_lists_and_come_back_as_tensors() -> None:
    columns = {"x": tensors([[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]]), "image": pa.array([b"a", None], pa.binary())}
    made = written("parquet", columns, options={"huggingFace": {}})
    found = table_of(made)
    assert found.schema.field("x").type == pa.list_(pa.list_(pa.float32(), 3), 2)
    assert found["x"].to_pylist() == [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]]]
    assert found["image"].to_pylist() == [{"bytes": b"a", "path": None}, None]
    assert made.records() == [{"x": [1, 2, 3, 4, 5, 6], "image": [b"a"]}, {"x": [7, 8, 9, 10, 11, 12], "image": []}]
    assert made.data == written("parquet", columns, cuts=[1], options={"huggingFace": {}}).data


def test_images_that_are_named() -> None:
    columns = {"left": pa.array([b"a"], pa.binary()), "image": pa.array([b"b"], pa.binary())}
    found = table_of(written("parquet", columns, options={"huggingFace": {"images": ["left"]}}))
    assert found.to_pylist() == [{"left": {"bytes": b"a", "path": None}, "image": b"b"}]


def test_an_image_that_is_no_bytes_is_refused() -> None:
    columns = {"word": pa.array(["a"]), "left": pa.array([b"a"], pa.binary())}
    with pytest.raises(
        BadSpec, match="output.parquet.huggingFace.images: 'word' isn't a feature of bytes; the features of bytes are left."
    ):
        written("parquet", columns, options={"huggingFace": {"images": ["word"]}})
