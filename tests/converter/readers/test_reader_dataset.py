"""Tests `dataprep convert`, and the source `dataset`, which reads a finished data set of any format and keeps its splits."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from tests.builders.data_sets import data_set, dataset_source, expected, lines
from tests.builders.jobs import run_spec
from tests.converter.cli.commandline import code_of
from tests.converter.formats.cases import OF_ROWS
from tests.converter.readers.dataset_contract import DatasetReaderContract
from tests.converter.readers.reader_contract import batches, faults, opened, plan, rows

from dataprep_api.dataset.report import Manifest
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadData, BadSpec, NotFound
from dataprep_converter.core.framing import frame
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.dataset import DatasetReader
from dataprep_converter.tools.verification import verify


class TestDatasetReader(DatasetReaderContract):
    pass


def without_numbers(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "_sample"} for row in found]


@pytest.mark.parametrize("format_", OF_ROWS)
def test_the_columns_are_the_features_whatever_the_format(format_: str, tmp_path: Path) -> None:
    folder = data_set(tmp_path, lines(30), format=format_)
    units, state = plan(DatasetReader, dataset_source(folder))
    assert units.table["subset"].to_pylist() == ["train"] * 3
    kinds = {field.name: field.type for field in opened(DatasetReader, dataset_source(folder), state).schema()}
    assert (kinds["n"], kinds["label"], kinds["word"]) == (pa.int64(), pa.int64(), pa.large_string())
    found = without_numbers(rows(batches(DatasetReader, dataset_source(folder))))
    assert found == expected(30)


def test_recordio_keeps_the_types_that_it_stored(tmp_path: Path) -> None:
    folder = data_set(tmp_path, lines(30), format="recordioProtobuf")
    found = without_numbers(rows(batches(DatasetReader, dataset_source(folder))))
    assert found == expected(30)


def test_minibatches_of_arrays_are_records_again(tmp_path: Path) -> None:
    numbers = [{"name": "v", "columns": ["a", "b"]}]
    for format_ in ("npz", "dl4jDataset"):
        folder = data_set(tmp_path / format_, lines(30), features=numbers, format=format_, granularity="Minibatch", minibatchSize=8)
        found = without_numbers(rows(batches(DatasetReader, dataset_source(folder))))
        assert [(row["v"], int(np.ravel(row["label"])[0])) for row in found] == [([n / 8, -float(n)], n % 3) for n in range(30)]


def test_batches_of_files_are_files_again(tmp_path: Path) -> None:
    contents = {f"{n:02}.bin": bytes([n]) * n for n in range(1, 21)}
    (tmp_path / "files").mkdir()
    for name, content in contents.items():
        (tmp_path / "files" / name).write_bytes(content)
    run_spec(
        {
            "source": {"wholeFile": {"uris": [str(tmp_path / "files")]}},
            "features": [{"name": "content"}, {"name": "path"}],
            "output": {"uri": str(tmp_path / "set"), "format": "fileBatch", "granularity": "Minibatch", "minibatchSize": 8},
        }
    )
    found = rows(batches(DatasetReader, dataset_source(tmp_path / "set")))
    assert {row["path"].rpartition("/")[2]: row["content"] for row in found} == contents


def test_a_data_set_without_success_is_refused(tmp_path: Path) -> None:
    folder = data_set(tmp_path, lines(5))
    (folder / "_SUCCESS").unlink()
    with pytest.raises(NotFound, match="has no _SUCCESS: there is no finished data set"):
        plan(DatasetReader, dataset_source(folder))


def test_another_digest_is_refused(tmp_path: Path) -> None:
    folder = data_set(tmp_path, lines(5))
    digest = verify(str(folder), Access()).digest
    plan(DatasetReader, dataset_source(folder, digest=digest))
    with pytest.raises(BadSpec, match=f"has the digest {digest}, but source.dataset.digest is {'0' * 64}"):
        plan(DatasetReader, dataset_source(folder, digest="0" * 64))


def test_a_folder_that_is_not_as_its_manifest_says_is_refused(tmp_path: Path) -> None:
    folder = data_set(tmp_path, lines(5))
    (folder / "train-00002-of-00003.tfrecords").unlink()
    with pytest.raises(BadData, match=r"1 file is missing: train-00002-of-00003\.tfrecords\. See dataprep verify"):
        plan(DatasetReader, dataset_source(folder))


def test_a_broken_record_is_named_with_file_and_offset(tmp_path: Path) -> None:
    folder = data_set(tmp_path, lines(9))
    file = folder / "train-00001-of-00003.tfrecords"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    source = dataset_source(folder)
    file.write_bytes(content)
    with pytest.raises(BadData, match=rf"{file}: bad data CRC at offset \d+"):
        batches(DatasetReader, source)


def test_a_record_that_is_not_as_the_manifest_says_is_bad(tmp_path: Path) -> None:
    folder = data_set(tmp_path, lines(9))
    file = folder / "train-00001-of-00003.tfrecords"
    size = file.stat().st_size
    file.write_bytes(frame(b"") * 2 + frame(bytes(size - 48)))
    found = faults(batches(DatasetReader, dataset_source(folder)))
    assert found[3] == "the feature 'label' is missing"
    assert sorted(found) == [3, 4, 5]


# --- convert ---------------------------------------------------------------------------------------------------------


SPLITS = {"into": [{"name": "train", "fraction": 0.7}, {"name": "test", "fraction": 0.3}]}


@pytest.fixture(scope="module")
def split_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("split-set")
    (folder / "rows.csv").write_text("".join(f"{line}\n" for line in lines(60)))
    columns = [
        {"name": name, "type": kind}
        for name, kind in (("n", "Int64"), ("a", "Float32"), ("b", "Float32"), ("word", "String"), ("label", "Int64"))
    ]
    run_spec(
        {
            "source": {"csv": {"uris": [str(folder / "rows.csv")], "columns": columns}},
            "features": [{"name": "n"}, {"name": "v", "columns": ["a", "b"]}, {"name": "word"}],
            "labels": [{"name": "label"}],
            "splits": SPLITS,
            "shuffle": {"seed": 4},
            "output": {"shards": {"count": 2}, "uri": str(folder / "set")},
        }
    )
    return folder / "set"


def records_of(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The records of each split, in order."""
    units, _ = plan(DatasetReader, dataset_source(folder))
    found = without_numbers(rows(batches(DatasetReader, dataset_source(folder))))
    splits = [
        split for split, count in zip(*(units.table[name].to_pylist() for name in ("subset", "records")), strict=True) for _ in range(count)
    ]
    return {
        split: [dict(sorted(row.items())) for row, of in zip(found, splits, strict=True) if of == split] for split in sorted(set(splits))
    }


@pytest.mark.slow
@pytest.mark.parametrize("format_", [*OF_ROWS, "recordioProtobuf"])
def test_convert_keeps_splits_order_values_and_labels(format_: str, split_set: Path, tmp_path: Path) -> None:
    before = split_set
    after = tmp_path / "b"
    assert code_of("convert", before, after, "--format", format_, "--set", "output.shards.count=3", "--quiet") == 0
    assert records_of(after) == records_of(before)
    manifest = verify(str(after), Access(), every_record=True)
    old = verify(str(before), Access())
    assert [(split.name, split.records) for split in manifest.splits] == [(split.name, split.records) for split in old.splits]
    assert manifest.content["source"]["dataset"]["digest"] == old.digest
    assert [feature["name"] for feature in manifest.features if feature["label"]] == ["label"]
    assert (manifest.records_in, manifest.records_out, manifest.bad) == (60, 60, 0)


def test_there_and_back_are_the_same_bytes(split_set: Path, tmp_path: Path) -> None:
    before = split_set
    shards = ("--set", "output.shards.count=2", "--quiet")
    assert code_of("convert", before, tmp_path / "b", "--format", "parquet", *shards) == 0
    assert code_of("convert", tmp_path / "b", tmp_path / "c", "--format", "tfrecord", *shards) == 0
    assert verify(str(tmp_path / "c"), Access()).digest == verify(str(before), Access()).digest


def test_class_names_come_along(tmp_path: Path) -> None:
    for kind in ("cat", "dog"):
        (tmp_path / "photos" / kind).mkdir(parents=True)
        for number in range(3):
            (tmp_path / "photos" / kind / f"{number}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes([number]))
    run_spec({"source": {"wholeFile": {"uris": [str(tmp_path / "photos")]}}, "output": {"uri": str(tmp_path / "a")}})
    assert code_of("convert", tmp_path / "a", tmp_path / "b", "--format", "arrow", "--quiet") == 0
    assert records_of(tmp_path / "b") == records_of(tmp_path / "a")


def test_a_damaged_data_set_is_not_converted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = data_set(tmp_path, lines(9), format="recordioProtobuf")
    file = next(folder.glob("train-00001*"))
    content = bytearray(file.read_bytes())
    content[-8] ^= 1
    file.write_bytes(content)
    assert code_of("convert", folder, tmp_path / "b", "--format", "tfrecord", "--quiet") == 5
    assert f"{file.name} has SHA-256" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


def test_the_job_of_a_conversion_can_be_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = data_set(tmp_path, lines(9))
    assert code_of("convert", folder, tmp_path / "b", "--format", "jsonl", "--print-job") == 0
    job = DataPrepJob.parse(yaml.safe_load(capsys.readouterr().out))
    assert job.spec.source is not None
    assert job.spec.source.dataset is not None
    assert (job.spec.source.dataset.uri, job.spec.output.uri, job.spec.output.format) == (str(folder), str(tmp_path / "b"), "jsonl")
    manifest = Manifest.model_validate_json(next(folder.glob("_dataprep/*/manifest.json")).read_bytes())
    assert job.spec.source.dataset.digest == manifest.digest
    assert json.loads(job.model_dump_json())["spec"]["labels"][0]["name"] == "label"
