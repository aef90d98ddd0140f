"""A data set's metadata files.

They are hidden, and don't depend on the data set's location. Metadata files of earlier runs are removed.
"""

import ast
import hashlib
import json
import runpy
import tracemalloc
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.builders import pairs
from tests.builders.jobs import output_of, run_job
from tests.builders.scores import scores_job
from tests.builders.specs import parse_job

from dataprep_api.dataset.report import Manifest, ManifestFile, ManifestSplit
from dataprep_converter.cli.display import Display
from dataprep_converter.dataset import sidecars
from dataprep_converter.dataset.sidecars import FinishedDataSet, Made, croissant, loaders, paths, sagemaker, tfds
from dataprep_converter.inputs.access import Access
from dataprep_converter.records.feature import FeatureSpec
from dataprep_converter.steps.run import run
from dataprep_converter.tools.verification import verify
from workbench import photos

FRAMEWORKS = ("tensorflow", "torch", "dali", "sagemaker", "spark", "numpy")


def hidden(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every hidden metadata file, except those in run folders."""
    run_folders = [each.parent for each in folder.glob("_dataprep/*/manifest.json")]
    found = [file for top in ("_dataprep", "_tfds") for file in folder.glob(f"{top}/**/*") if file.is_file() and file.name != "OWNER"]
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(found)
        if not any(run_folder in file.parents for run_folder in run_folders)
    }


PLACED = {"_dataprep/paths/train.txt", "_dataprep/paths/validation.txt", "_dataprep/input_data_config.json"}


def unplaced(folder: Path) -> dict[str, str]:
    """Return the hidden files that don't contain the folder's location."""
    return {file: sha256 for file, sha256 in hidden(folder).items() if file not in PLACED}


def a_finished(
    files: Sequence[ManifestFile],
    *features: FeatureSpec,
    format_: str = "tfrecord",
    compression: str = "none",
    labels: dict[str, list[str]] | None = None,
    indexed: bool = True,
    **output: Any,
) -> FinishedDataSet:
    splits = list(dict.fromkeys(file.split for file in files))
    records = {split: sum(file.records for file in files if file.split == split) for split in splits}
    shards = Counter(file.split for file in files)
    spec = parse_job(
        {"source": {"csv": {"uris": ["/in.csv"]}}, "output": {"uri": "/out", "format": format_} | output}, name="metadata"
    ).spec
    total = sum(records.values())
    manifest = Manifest(
        run_id="0",
        encoding_version=1,
        inputs_sha256="0",
        content={},
        format=format_,
        compression=compression,
        features=[],
        labels=labels or {},
        records_in=total,
        records_out=total,
        bad=0,
        filtered=0,
        size=0,
        splits=[ManifestSplit(name=split, records=records[split], size=10, shards=shards[split]) for split in splits],
        files=list(files),
        digest="0",
        raw_digest="0",
    )
    return FinishedDataSet(
        spec=spec,
        uri="/out",
        manifest=manifest,
        features=list(features),
        raw_sizes=[1] * len(files),
        unindexed=0 if indexed else len(files),
    )


def a_file(name: str, split: str = "train", records: int = 3) -> ManifestFile:
    return ManifestFile(file=name, split=split, records=records, size=10, sha256="00", raw_sha256="00")


SCALAR = FeatureSpec("n", "int64", "int64", ())
LABEL = FeatureSpec("label", "int64", "int64", (), label=True)
FEATURES = [
    SCALAR,
    LABEL,
    FeatureSpec("image", "bytes", "uint8", (2, 3), raw=True),
    FeatureSpec("wide", "bytes", "uint32", (2,), raw=True),
    FeatureSpec("image/encoded", "bytes", "bytes", ()),
    FeatureSpec("vector", "float", "float32", (4,)),
    FeatureSpec('ragged "texts"\n', "bytes", "bytes", (-1,)),
]
STEPS = FeatureSpec("steps", "float", "float32", (-1, 2), sequence=True)
WHOLE = FeatureSpec("record", "bytes", "bytes", (), record=True)


def contents(finished: FinishedDataSet, module: Any) -> dict[str, str]:
    return {path: content.decode() for path, content in module.make(finished)}


def test_nothing_but_data_has_a_visible_name(tmp_path: Path) -> None:
    folder = photos.write(tmp_path / "photos")
    job = scores_job(tmp_path, source={"images": {"uris": [str(folder)]}}, labels=None, splits=None, output={"shards": {"count": 2}})
    out = output_of(job)
    visible = [file.relative_to(out).as_posix() for file in out.rglob("*") if file.is_file()]
    visible = [path for path in visible if not any(part[0] in "_." for part in path.split("/"))]
    assert sorted(visible) == ["train-00000-of-00002.tfrecords", "train-00001-of-00002.tfrecords"]
    assert {
        *(f"_dataprep/loaders/load_{framework}.py" for framework in FRAMEWORKS),
        *(f"_dataprep/index/{path}.idx" for path in visible),
    } < set(hidden(out))


def test_the_manifest_has_the_digest_of_every_file_around_the_data(tmp_path: Path) -> None:
    out = output_of(scores_job(tmp_path))
    manifest = verify(str(out), Access())
    assert {file.file: file.sha256 for file in manifest.metadata} == unplaced(out)
    assert all((out / file.file).stat().st_size == file.size for file in manifest.metadata)


@pytest.mark.parametrize("format_", ["tfrecord", "parquet"])
def test_equal_data_sets_have_equal_files_around_them_wherever_they_lie(tmp_path: Path, format_: str) -> None:
    one, other = (output_of(scores_job(tmp_path, name, output={"format": format_})) for name in ("one", "other"))
    assert unplaced(one) == unplaced(other)
    assert len(unplaced(one)) >= 9
    for file in unplaced(one):
        assert str(tmp_path / "one") not in (one / file).read_text()


def test_a_copy_has_the_files_of_its_own_place(tmp_path: Path) -> None:
    one = output_of(scores_job(tmp_path, "one"))
    run(
        parse_job({"source": {"dataset": {"uri": str(one)}}, "output": {"uri": str(tmp_path / "two"), "format": "copy"}}, name="copy"),
        access=Access(),
        workers=1,
        display=Display(quiet=True),
    )
    two = tmp_path / "two"
    assert unplaced(two) == unplaced(one)
    assert set(hidden(two)) >= PLACED
    for file in PLACED:
        assert f"file://{two}/" in (two / file).read_text()
        assert (two / file).read_text() == (one / file).read_text().replace(str(one), str(two))


def test_nothing_is_left_of_an_earlier_run(tmp_path: Path) -> None:
    output_of(scores_job(tmp_path, output={"shards": {"count": 2}}))
    out = output_of(scores_job(tmp_path, splits={"into": [{"name": "all"}]}, output={"format": "parquet", "overwrite": "Always"}))
    found = hidden(out)
    assert not [file for file in found if file.startswith(("_tfds", "_dataprep/index"))]
    assert [file for file in found if "files/" in file] == ["_dataprep/files/all.txt"]
    assert "_dataprep/input_data_config.json" not in found
    assert len(list(out.glob("_dataprep/*/manifest.json"))) == 1


def test_path_lists_have_a_shard_a_line_in_their_order(tmp_path: Path) -> None:
    out = output_of(scores_job(tmp_path, output={"shards": {"count": 2}, "fileName": "{split}/{shard}.{ext}"}))
    for split in ("train", "validation"):
        files = [f"{split}/00000.tfrecords", f"{split}/00001.tfrecords"]
        assert (out / f"_dataprep/files/{split}.txt").read_text() == "".join(f"{file}\n" for file in files)
        assert (out / f"_dataprep/paths/{split}.txt").read_text() == "".join(f"file://{out}/{file}\n" for file in files)


BESIDE_THE_DATA = ("_dataprep/index/train.tfrecords.idx", "_dataprep/statistics.json", "_tfds/dataset/1.0.0/features.json")
DAMAGES = ("missing", "cut")


@pytest.mark.parametrize(
    "make", [paths.make, lambda finished: sidecars.location_files("/out", finished.manifest)], ids=["relative", "absolute"]
)
def test_only_one_splits_path_list_is_in_memory(make: Callable[[FinishedDataSet], Made]) -> None:
    size = 1 << 20
    finished = a_finished([a_file(f"{split}/{'x' * (size // 64)}{n}", split) for split in ("train", "validation") for n in range(64)])
    tracemalloc.start()
    deque(make(finished), maxlen=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < peak < 1.5 * size


@pytest.mark.parametrize(
    ("lost", "damage"),
    pairs.chosen(
        ((lost, damage) for lost in BESIDE_THE_DATA for damage in DAMAGES),
        lambda lost, damage: pairs.has_turn(lost, damage, BESIDE_THE_DATA, DAMAGES),
    ),
)
def test_a_data_set_is_not_reused_without_the_files_around_it(tmp_path: Path, lost: str, damage: str) -> None:
    job = scores_job(tmp_path, output={"overwrite": "IfChanged"})
    out = output_of(job)
    before = hidden(out)
    if damage == "missing":
        (out / lost).unlink()
    else:
        (out / lost).write_bytes((out / lost).read_bytes()[:-1])
    planned, _ = run_job(job)
    assert planned.reused is False
    assert hidden(out) == before
    assert run_job(job)[0].reused is True


# --- TensorFlow Datasets ------------------------------------------------------------------------------------------


def test_tfds_files_have_the_form_that_tfds_writes() -> None:
    files = [a_file("train-00000-of-00002.tfrecords", records=3), a_file("train-00001-of-00002.tfrecords", records=4)]
    encoded = FeatureSpec("image/encoded", "bytes", "bytes", ())
    found = contents(a_finished(files, encoded, LABEL, SCALAR, labels={"label": ["cat", "dog"]}), tfds)
    assert sorted(found) == [f"_tfds/dataset/1.0.0/{name}" for name in ("dataset_info.json", "features.json", "label.labels.txt")]
    assert found["_tfds/dataset/1.0.0/label.labels.txt"] == "cat\ndog\n"
    assert json.loads(found["_tfds/dataset/1.0.0/dataset_info.json"])["splits"] == [
        {
            "filepathTemplate": "../../../train-{SHARD_INDEX}-of-{NUM_SHARDS}.tfrecords",
            "name": "train",
            "numBytes": "10",
            "shardLengths": ["3", "4"],
        }
    ]
    features = json.loads(found["_tfds/dataset/1.0.0/features.json"])["featuresDict"]["features"]
    assert features["label"]["classLabel"] == {"numClasses": "2"}
    assert features["image/encoded"]["image"] == {"dtype": "uint8", "shape": {"dimensions": ["-1", "-1", "3"]}}
    assert features["n"]["tensor"] == {"dtype": "int64", "encoding": "none", "shape": {}}


@pytest.mark.parametrize(
    "finished",
    [
        a_finished([a_file("train.tfrecords.gz")], SCALAR, compression="gzip"),
        a_finished([a_file("train.rec")], SCALAR, format_="recordioProtobuf"),
        a_finished([a_file("train.tfrecords")], SCALAR, STEPS),
        a_finished([a_file("train.tfrecords")], WHOLE),
        a_finished([a_file(f"{n:06}.tfrecords") for n in range(2)], SCALAR, fileName="{shard:06}.{ext}"),
    ],
    ids=["gzip", "another format", "sequences", "whole records", "six digits"],
)
def test_there_are_none_where_tfds_could_not_read_the_shards(finished: FinishedDataSet) -> None:
    assert contents(finished, tfds) == {}


@pytest.mark.parametrize("names", [["a", "a"], ["a", ""], ["a", " b"], ["a", "b\nc"]], ids=["doubled", "empty", "blanks", "two lines"])
def test_class_names_that_tfds_would_change_are_no_classes_there(names: list[str]) -> None:
    found = contents(a_finished([a_file("train.tfrecords")], LABEL, labels={"label": names}), tfds)
    assert "_tfds/dataset/1.0.0/label.labels.txt" not in found
    assert "tensor" in json.loads(found["_tfds/dataset/1.0.0/features.json"])["featuresDict"]["features"]["label"]


# --- SageMaker ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "beginning"),
    [
        ([a_file("train.rec"), a_file("validation.rec", "validation")], "train.rec"),
        ([a_file("train-00000-of-00002.rec"), a_file("train-00001-of-00002.rec"), a_file("validation.rec", "validation")], "train-"),
        ([a_file("train/00000.rec"), a_file("train/00001.rec"), a_file("validation/00000.rec", "validation")], "train/"),
    ],
    ids=["a file", "shards", "folders"],
)
def test_channels_are_named_by_the_beginning_of_their_files(files: list[ManifestFile], beginning: str) -> None:
    manifest = a_finished(files, SCALAR, format_="recordioProtobuf").manifest
    found = json.loads(dict(sagemaker.place("s3://bucket/set/", manifest))["_dataprep/input_data_config.json"])
    assert [channel["ChannelName"] for channel in found] == ["train", "validation"]
    assert found[0] == {
        "ChannelName": "train",
        "ContentType": "application/x-recordio-protobuf",
        "CompressionType": "None",
        "DataSource": {
            "S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": f"s3://bucket/set/{beginning}", "S3DataDistributionType": "FullyReplicated"}
        },
    }


def test_the_loader_says_the_same_of_any_place(tmp_path: Path) -> None:
    out = output_of(scores_job(tmp_path, output={"format": "recordioProtobuf"}, features=[{"name": "id"}, {"name": "score"}]))
    loader = out / "_dataprep/loaders/load_sagemaker.py"
    loaded: dict[str, Any] = {"__file__": str(loader), "__name__": "loaded"}
    exec(compile(loader.read_text(), loader, "exec"), loaded)  # noqa: S102 - what a user does with the file
    written = json.loads((out / "_dataprep/input_data_config.json").read_text())
    assert [channel["DataSource"]["S3DataSource"]["S3Uri"] for channel in written] == [
        f"file://{out}/train.rec",
        f"file://{out}/validation.rec",
    ]
    (placed,) = dict(sagemaker.place("s3://bucket/folder", verify(str(out), Access()))).values()
    assert loaded["input_data_config"]("s3://bucket/folder/") == json.loads(placed)
    with pytest.raises(ValueError, match=r"reads its channels from s3://, got /here"):
        loaded["input_data_config"]("/here")


@pytest.mark.parametrize(
    ("finished", "reason"),
    [
        (
            a_finished([a_file("a.rec", "a"), a_file("b.rec", "b")], SCALAR, format_="recordioProtobuf"),
            "SageMaker needs a channel named train, and the splits are a, b. Name one of spec.splits.into so.",
        ),
        (
            a_finished([a_file("train.rec"), a_file("train.rec2", "train2")], SCALAR, format_="recordioProtobuf"),
            "train.rec2 has the prefix of the files of train; begin output.fileName with {split}/.",
        ),
        (
            a_finished([a_file("0-train.rec"), a_file("1-train.rec")], SCALAR, format_="recordioProtobuf"),
            "the files of train have no prefix of their own; begin output.fileName with {split}.",
        ),
        (a_finished([a_file("train.npz")], SCALAR, format_="npz"), "SageMaker has no content type for npz"),
    ],
    ids=["no train", "same beginning", "no beginning", "another format"],
)
def test_what_sagemaker_can_not_use_is_said_by_its_loader_alone(finished: FinishedDataSet, reason: str) -> None:
    assert dict(sagemaker.place("s3://bucket/set", finished.manifest)) == {}
    assert reason in said(contents(finished, loaders)["_dataprep/loaders/load_sagemaker.py"])


# --- loaders ------------------------------------------------------------------------------------------------------


def said(loader: str) -> str:
    """Return the message from a loader that can't load the data set."""
    with pytest.raises(SystemExit) as stopped:
        exec(loader, {})  # noqa: S102 - what a user does with the file
    return str(stopped.value)


@pytest.mark.parametrize(
    "finished",
    [
        a_finished([a_file("train.tfrecords")], *FEATURES, labels={"label": ['"', "\\", "日本\n"]}),
        a_finished([a_file("train.tfrecords")], *FEATURES, indexed=False),
        a_finished([a_file("train.tfrecords.gz")], *FEATURES, compression="gzip"),
        a_finished([a_file("train.tfrecords")], SCALAR, STEPS),
        a_finished([a_file("train.tfrecords")], WHOLE),
        *(
            a_finished([a_file("train.x")], SCALAR, format_=format_)
            for format_ in ("recordioProtobuf", "csv", "jsonl", "parquet", "arrow", "npz", "webdataset", "mds", "arrayRecord")
        ),
    ],
    ids=[
        "examples", "no index", "gzip", "sequences", "whole records", "recordioProtobuf", "csv", "jsonl", "parquet", "arrow", "npz", "webdataset",
        "mds", "arrayRecord",
    ],
)  # fmt: skip
def test_every_loader_is_python_and_short(finished: FinishedDataSet) -> None:
    found = contents(finished, loaders)
    assert sorted(found) == sorted(f"_dataprep/loaders/load_{framework}.py" for framework in FRAMEWORKS)
    for text in found.values():
        ast.parse(text)
        assert len([line for line in text.splitlines() if line.strip()]) <= 85
        assert "$" not in text


@pytest.mark.parametrize(
    ("framework", "finished", "reason"),
    [
        ("dali", a_finished([a_file("train.gz")], SCALAR, compression="gzip"), "NVIDIA DALI reads no compressed TFRecord"),
        ("dali", a_finished([a_file("train.x")], SCALAR, indexed=False), "NVIDIA DALI needs an index of the records"),
        ("dali", a_finished([a_file("train.x")], SCALAR, STEPS), "reads the features of tf.train.Example"),
        ("tensorflow", a_finished([a_file("train.x")], SCALAR, format_="parquet"), "tf.data reads tfrecord, and this data set is parquet"),
        ("torch", a_finished([a_file("train.x")], SCALAR, format_="recordioProtobuf"), "this data set is recordioProtobuf"),
        ("spark", a_finished([a_file("train.x")], SCALAR, format_="recordioProtobuf"), "this data set is recordioProtobuf"),
    ],
)
def test_a_loader_that_can_not_load_says_why(framework: str, finished: FinishedDataSet, reason: str) -> None:
    text = said(contents(finished, loaders)[f"_dataprep/loaders/load_{framework}.py"])
    assert text.startswith(f"load_{framework}.py: ")
    assert reason in text


@pytest.mark.parametrize(
    ("format_", "options", "file", "parts"),
    [
        ("sequenceFile", {}, "LoadHadoop.java", ["SequenceFile.Reader", "a BytesWritable with a tf.train.Example", '{"train", "3"}']),
        ("mapFile", {}, "LoadHadoop.java", ["DL4J's RecordWritable"]),
        ("fileBatch", {}, "LoadDl4j.java", ["FileBatch.readFromZip"]),
        ("dl4jDataset", {}, "LoadDl4j.java", ["new DataSet()", "getFeatures()"]),
        ("dl4jDataset", {"dl4jDataset": {"holds": "MultiDataSet"}}, "LoadDl4j.java", ["new MultiDataSet()", "getFeatures(0)"]),
        ("npz", {}, None, []),
    ],
)
def test_hadoop_and_dl4j_have_programs_of_their_own(format_: str, options: dict[str, Any], file: str | None, parts: list[str]) -> None:
    found = contents(a_finished([a_file("train.x")], SCALAR, format_=format_, **options), loaders)
    programs = {name.rpartition("/")[2]: text for name, text in found.items() if name.endswith(".java")}
    assert list(programs) == ([file] if file else [])
    for part in parts:
        assert part in programs[file or ""]


def test_numpys_loader_loads_what_it_lies_in(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    out = output_of(scores_job(tmp_path, output={"format": "npz", "shards": {"count": 2}}, features=[{"name": "id"}, {"name": "score"}]))
    loader = out / "_dataprep/loaders/load_numpy.py"
    monkeypatch.setattr("sys.argv", [str(loader)])
    runpy.run_path(str(loader), run_name="__main__")
    assert capsys.readouterr().out == "train: 5 of 5 records\nvalidation: 4 of 4 records\n"
    loaded = runpy.run_path(str(loader))
    arrays = list(loaded["load"]("train"))
    assert [each["features/id"].tolist() for each in arrays] == [[0, 1], [2, 3, 4]]
    assert loaded["ARRAYS"] == {"features/id": ("int64", ()), "features/score": ("float32", ()), "labels/label": ("int64", ())}


def test_dali_is_given_what_it_can_read() -> None:
    text = contents(a_finished([a_file("train.tfrecords")], *FEATURES), loaders)["_dataprep/loaders/load_dali.py"]
    assert "so these are left out" in text
    assert 'fn.reinterpret(record["image"], dtype=types.UINT8, shape=[2, 3])' in text


# --- Croissant, and many shards -----------------------------------------------------------------------------------


def test_croissant_has_every_shard_relative_to_itself(tmp_path: Path) -> None:
    out = output_of(scores_job(tmp_path, output={"format": "csv", "shards": {"count": 2}}))
    described = json.loads((out / "_dataprep/croissant.json").read_text())
    for file in described["distribution"]:
        data = (out / "_dataprep" / file["contentUrl"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == file["sha256"]
        assert file["contentSize"] == f"{len(data)} B"
    assert len(described["distribution"]) == 4
    assert [field["name"] for field in described["recordSet"][1]["field"]] == ["id", "label", "score", "text"]


def test_croissant_names_the_columns_that_the_files_have(tmp_path: Path) -> None:
    """A vector becomes several columns in a CSV file. Without a header, these columns have no names."""
    features = [{"name": "v", "columns": ["id", "score"], "dtype": "float32"}]
    for number, (options, columns) in enumerate([({}, ["label", "v_0", "v_1"]), ({"header": False}, None), ({"delimiter": ";"}, None)]):
        out = output_of(scores_job(tmp_path, out=str(number), features=features, output={"format": "csv", "csv": options}))
        described = json.loads((out / "_dataprep/croissant.json").read_text())
        records = [each for each in described["recordSet"] if each["@id"].startswith("records/")]
        assert ([field["name"] for field in records[0]["field"]] if records else None) == columns


@pytest.mark.slow
@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_many_shards_are_no_obstacle(count: int) -> None:
    digits = len(str(count))
    files = [a_file(f"train-{n:0{digits}}-of-{count}.tfrecords") for n in range(count)]
    finished = a_finished(files, SCALAR, LABEL)
    sizes = {path: len(content) for module in (paths, tfds, loaders, croissant) for path, content in module.make(finished)}
    assert sizes["_dataprep/files/train.txt"] == count * len(f"train-{count}-of-{count}.tfrecords\n")
    assert "_tfds/dataset/1.0.0/dataset_info.json" in sizes
    assert max(sizes.values()) < count * 671


def test_every_kind_of_metadata_can_be_made() -> None:
    for place in sidecars.METADATA.values():
        module, _, name = place.partition(":")
        assert callable(getattr(__import__(module, fromlist=[name]), name))
