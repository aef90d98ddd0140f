"""The generated loaders for PyTorch, DALI, SageMaker and Spark load their data sets, and mlcroissant reads the description."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from tests.interop import loader_sets
from tests.interop.loader_sets import NULL_TYPES, NULLS, WHOLE

import environments
import javareaders
from dataprep_converter.dataset import manifest_table

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

READER = Path(__file__).parents[1] / "readers" / "loaded_by.py"
COUNTED = "train: 5 of 5 records\nvalidation: 2 of 2 records\n"
CROISSANT = """
import json, sys
import mlcroissant
found = []
for file in sys.argv[1:]:
    described = mlcroissant.Dataset(file)
    sets = [record_set.uuid for record_set in described.metadata.record_sets]
    found.append({name: [{key: value.decode() if isinstance(value, bytes) else value for key, value in record.items()}
                         for record in described.records(name)] for name in sets})
json.dump(found, sys.stdout)
"""


def loaded(environment: str, framework: str, *outs: Path, needed: str = "-") -> list[Any]:
    files = [loader_sets.loader(out, framework) for out in outs]
    said: list[Any] = json.loads(environments.run(environment, READER, [framework, needed, *files]))
    return said


def packages(environment: str) -> str:
    """The folder with an environment's packages."""
    return str(next(environments.python(environment).parents[1].glob("lib/python*/site-packages")))


def as_rows(found: dict[str, list[Any]]) -> list[Any]:
    return [record for split in found.values() for record in split]


def test_pytorch_loads_every_kind_of_feature_by_the_index_and_without(tmp_path: Path) -> None:
    outs = [
        loader_sets.table(tmp_path / "indexed"),
        loader_sets.table(tmp_path / "plain", index=False),
        loader_sets.table(tmp_path / "gzip", tfrecord={"compression": "Gzip"}),
    ]
    said = loaded("mds", "torch", *outs, loader_sets.sequences(tmp_path / "sequences"), needed=packages("tfrecord"))
    for each in said[:3]:
        assert each["said"] == COUNTED
        for record, row in zip(as_rows(each["loaded"]), WHOLE, strict=True):
            assert record["text"].encode("latin-1").decode() == row["text"]
            assert (record["n"], record["flag"], record["vector"], record["raw"]) == (
                row["n"],
                row["flag"],
                [row["x"], row["n"]],
                [row["n"], row["x"]],
            )
            assert (record["ints"], record["texts"]) == (row["ints"], row["texts"])
    assert [(r["n"], r["ints"], r["texts"]) for r in as_rows(said[3]["loaded"])] == [(row["n"], row["ints"], row["texts"]) for row in WHOLE]


def test_pytorch_loads_nulls_of_examples_as_nan_and_none(tmp_path: Path) -> None:
    outs = [loader_sets.nulls(tmp_path / f"index {index}", format="tfrecord", index=index) for index in (True, False)]
    for said in loaded("mds", "torch", *outs, needed=packages("tfrecord")):
        assert said["said"] == "train: 3 of 3 records\n"
        records = as_rows(said["loaded"])
        assert [str(record.pop("f")) for record in records] == ["0.5", "nan", "2.5"]
        assert [str(record.pop("v")) for record in records] == ["[1.0, 2.0]", "[3.0, 4.0]", "[nan, nan]"]
        assert records == [{"i": None, "s": "x", "b": 1}, {"i": 2, "s": "", "b": None}, {"i": 3, "s": None, "b": 0}]


@pytest.mark.parametrize(
    ("environment", "formats"), [("datasets", ["parquet", "arrow", "jsonl"]), ("webdataset", ["webdataset"])], ids=["tables", "samples"]
)
def test_pytorch_loads_other_nulls_as_none(tmp_path: Path, environment: str, formats: list[str]) -> None:
    outs = [loader_sets.nulls(tmp_path / format_, format=format_) for format_ in formats]
    for said in loaded("mds", "torch", *outs, needed=packages(environment)):
        assert said["said"] == "train: 3 of 3 records\n"
        assert [{name: record[name] for name in NULL_TYPES} for record in as_rows(said["loaded"])] == NULLS


def test_pytorch_loads_formats_that_have_their_own_library(tmp_path: Path) -> None:
    formats = ("webdataset", "mds", "npz")
    outs = [loader_sets.numbers(tmp_path / format_, format=format_) for format_ in formats]
    said = dict(zip(formats, loaded("mds", "torch", *outs, needed=packages("webdataset")), strict=True))
    for format_ in formats:
        assert said[format_]["said"] == COUNTED
        found = as_rows(said[format_]["loaded"])
        before = "features/" if format_ == "npz" else ""
        assert [(record[f"{before}n"], record[f"{before}x"]) for record in found] == [(row["n"], row["x"]) for row in WHOLE]
    (images,) = loaded("mds", "torch", loader_sets.images(tmp_path, format="webdataset"), needed=packages("webdataset"))
    pictures = images["loaded"]["train"]
    assert len(pictures) == 39
    assert {record["image/class/label"] for record in pictures} == {0, 1, 2}


@pytest.mark.parametrize("compression", ["Zstd", "Gzip"])
def test_streaming_decompresses_shards(tmp_path: Path, compression: str) -> None:
    out = loader_sets.numbers(tmp_path, format="mds", mds={"compression": compression})
    files = sorted(out.rglob("*"))
    (said,) = loaded("mds", "torch", out)
    assert said["said"] == COUNTED
    assert [(record["n"], record["x"]) for record in as_rows(said["loaded"])] == [(row["n"], row["x"]) for row in WHOLE]
    assert sorted(out.rglob("*")) == files


def test_dali_loads_tar_files(tmp_path: Path) -> None:
    numbers, images = loaded(
        "dali", "dali", loader_sets.numbers(tmp_path / "numbers", format="webdataset"), loader_sets.images(tmp_path, format="webdataset")
    )
    assert numbers["said"] == COUNTED
    found = {name: [bytes(value) for split in numbers["loaded"].values() for value in split[name]] for name in ("n", "x")}
    assert found["n"] == [str(row["n"]).encode() for row in WHOLE]
    assert [float(value) for value in found["x"]] == [row["x"] for row in WHOLE]
    assert len(images["loaded"]["train"]["image/encoded"]) == 39
    assert all(shape[2] == 3 for shape in images["loaded"]["train"]["image/encoded"])


def test_spark_loads_hadoops_files(tmp_path: Path) -> None:
    outs = [
        loader_sets.numbers(tmp_path / "records", format="sequenceFile"),
        loader_sets.texts(tmp_path / "texts", format="sequenceFile", sequenceFile={"key": "n", "value": "Feature"}),
        loader_sets.numbers(tmp_path / "map", format="mapFile", mapFile={"value": "Example"}),
    ]
    records, texts, maps = loaded("spark", "spark", *outs, needed=javareaders.classpath("tensorflowhadoop"))
    assert records["said"] == texts["said"] == maps["said"] == COUNTED
    assert [list(pair) for pair in texts["loaded"]["train"]] == [[row["n"], row["text"]] for row in WHOLE[:5]]
    assert [key for key, _ in maps["loaded"]["train"]] == [0, 1, 2, 3, 4]


def test_dali_loads_numbers_tensors_lists_texts_and_images(tmp_path: Path) -> None:
    table, images = loaded("dali", "dali", loader_sets.table(tmp_path / "table"), loader_sets.images(tmp_path / "images"))
    assert table["said"] == COUNTED
    found = {name: [value for split in table["loaded"].values() for value in split[name]] for name in table["loaded"]["train"]}
    for name in ("n", "flag"):
        assert found[name] == [row[name] for row in WHOLE]
    assert found["vector"] == [[row["x"], row["n"]] for row in WHOLE]
    assert found["raw"] == [[row["n"], row["x"]] for row in WHOLE]
    assert [[value for value in row if value] for row in found["ints"]] == [[value for value in row["ints"] if value] for row in WHOLE]
    assert [bytes(row).decode() for row in found["text"]] == [row["text"] for row in WHOLE]
    assert "texts" not in found
    pictures = images["loaded"]["train"]
    sizes = zip(pictures["image/height"], pictures["image/width"], strict=True)
    assert pictures["image/encoded"] == [[height, width, 3] for height, width in sizes]
    assert len(pictures["image/encoded"]) == 39


def test_sagemakers_reader_counts_and_boto_accepts_the_configuration(tmp_path: Path) -> None:
    (said,) = loaded("sagemaker", "sagemaker", loader_sets.numbers(tmp_path, format="recordioProtobuf"))
    assert said["said"] == COUNTED
    records = as_rows(said["loaded"]["records"])
    values = [record["features"] for record in records]
    assert len(values) == len(WHOLE)
    assert [channel["ChannelName"] for channel in said["loaded"]["config"]] == ["train", "validation"]
    assert said["loaded"]["config"][0]["DataSource"]["S3DataSource"]["S3Uri"] == "s3://bucket/folder/train-"


def test_spark_loads_records_and_tables(tmp_path: Path) -> None:
    formats = ("tfrecord", "parquet", "jsonl", "csv")
    outs = [loader_sets.numbers(tmp_path / format_, format=format_) for format_ in formats]
    said = dict(zip(formats, loaded("spark", "spark", *outs, needed=javareaders.classpath("tensorflowhadoop")), strict=True))
    assert {each["said"] for each in said.values()} == {COUNTED}
    for format_ in formats[1:]:
        rows = said[format_]["loaded"]["train"] + said[format_]["loaded"]["validation"]
        assert sorted((row["n"], row["x"]) for row in rows) == [(row["n"], row["x"]) for row in WHOLE]
    records = said["tfrecord"]["loaded"]
    assert records["partitions"] == 2
    expected = b"".join((file.read_bytes()) for file in sorted(outs[0].glob("*.tfrecords")))
    for record in records["train"] + records["validation"]:
        payload = record.encode("latin-1")
        assert struct.pack("<Q", len(payload)) in expected
        assert payload in expected


def test_spark_loads_nulls_as_none(tf: Any, tmp_path: Path) -> None:
    outs = {format_: loader_sets.nulls(tmp_path / format_, format=format_) for format_ in ("parquet", "jsonl", "csv", "tfrecord")}
    outs["sequenceFile"] = loader_sets.nulls(tmp_path / "sequenceFile", format="sequenceFile", sequenceFile={"value": "Example"})
    texts: list[dict[str, Any]] = [{"s": "x"}, {"s": ""}, {"s": None}]
    outs["one column"] = loader_sets.nulls(tmp_path / "one column", format="csv", rows=texts, columns=["s"])
    said = dict(zip(outs, loaded("spark", "spark", *outs.values(), needed=javareaders.classpath("tensorflowhadoop")), strict=True))
    assert {each["said"] for each in said.values()} == {"train: 3 of 3 records\n"}
    assert said["parquet"]["loaded"]["train"] == said["jsonl"]["loaded"]["train"] == NULLS
    cells = [{"v_0": (row["v"] or [None, None])[0], "v_1": (row["v"] or [None, None])[1]} for row in NULLS]
    expected = [{name: row[name] for name in "ifsb"} | more for row, more in zip(NULLS, cells, strict=True)]
    assert said["csv"]["loaded"]["train"] == expected
    assert said["one column"]["loaded"]["train"] == [{"s": "x"}, {"s": None}, {"s": None}]
    for messages in (said["tfrecord"]["loaded"]["train"], [value for _, value in said["sequenceFile"]["loaded"]["train"]]):
        examples = [tf.train.Example.FromString(message.encode("latin-1")).features.feature for message in messages]
        lacking = [{name for name in "ifsvb" if example[name].WhichOneof("kind") is None} for example in examples]
        assert lacking == [{name for name, value in row.items() if value is None} for row in NULLS]


def test_mlcroissant_reads_splits_classes_and_the_columns_of_tables(tmp_path: Path) -> None:
    outs = [
        loader_sets.numbers(tmp_path / "csv", format="csv"),
        loader_sets.numbers(tmp_path / "jsonl", format="jsonl"),
        loader_sets.images(tmp_path),
    ]
    described = [out / "_dataprep/croissant.json" for out in outs]
    csv, jsonl, images = json.loads(environments.run("mlcroissant", CROISSANT, described))
    for found, kind in ((csv, "csv"), (jsonl, "jsonl")):
        assert found.pop("splits") == [{"splits/name": "train", "splits/records": 5}, {"splits/name": "validation", "splits/records": 2}]
        assert sorted(found) == sorted(f"records/{split}-0000{n}-of-00002.{kind}" for split in ("train", "validation") for n in range(2))
        rows = [{key.rsplit("/", 1)[1]: value for key, value in record.items()} for name in sorted(found) for record in found[name]]
        assert rows == [{"n": row["n"], "x": row["x"]} for row in WHOLE]
    assert [each["classes/image/class/label/name"] for each in images["classes/image/class/label"]] == ["admiral", "flower", "temple"]


@pytest.mark.parametrize(("template", "sets"), [(None, 2), ("{split}[x]-{shard}.{ext}", 2), ("{shard}-{split}.{ext}", 0)])
def test_mlcroissant_accepts_a_set_of_files_for_each_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, template: str | None, sets: int
) -> None:
    monkeypatch.setattr(manifest_table, "MOST_LISTED_FILES", 3)
    named = {"fileName": template} if template else {}
    described = loader_sets.numbers(tmp_path, format="csv", **named) / "_dataprep/croissant.json"
    assert [each["@type"] for each in json.loads(described.read_bytes())["distribution"]] == ["cr:FileSet"] * sets
    (found,) = json.loads(environments.run("mlcroissant", CROISSANT, [described]))
    assert found == {"splits": [{"splits/name": "train", "splits/records": 5}, {"splits/name": "validation", "splits/records": 2}]}
