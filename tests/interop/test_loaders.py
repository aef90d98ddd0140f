"""`_dataprep/loaders/load_tensorflow.py` loads its data set. The other loaders are in `heavy/test_loaders.py`."""

import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.interop import loader_sets
from tests.interop.loader_sets import WHOLE

pytestmark = pytest.mark.interop


def loaded(out: Path) -> dict[str, Any]:
    return runpy.run_path(str(loader_sets.loader(out, "tensorflow")))


def as_numpy(records: Any) -> list[dict[str, Any]]:
    return [{name: value.numpy() for name, value in record.items()} for record in records]


@pytest.mark.parametrize("compression", ["None", "Gzip"])
def test_every_kind_of_feature_is_equal(tf: Any, tmp_path: Path, compression: str) -> None:
    del tf
    shutil.move(loader_sets.table(tmp_path, tfrecord={"compression": compression}), tmp_path / "moved")
    loader = loaded(tmp_path / "moved")
    found = [*as_numpy(loader["load"]("train")), *as_numpy(loader["load"]("validation"))]
    assert len(found) == len(WHOLE)
    for record, row in zip(found, WHOLE, strict=True):
        assert (record["n"], record["flag"], record["text"].decode()) == (row["n"], row["flag"], row["text"])
        assert record["vector"].tolist() == [row["x"], row["n"]]
        assert (record["raw"].dtype, record["raw"].tolist()) == (np.uint8, [row["n"], row["x"]])
        assert (record["ints"].tolist(), [text.decode() for text in record["texts"]]) == (row["ints"], row["texts"])


def test_sequences_are_equal(tf: Any, tmp_path: Path) -> None:
    del tf
    found = as_numpy(loaded(loader_sets.sequences(tmp_path))["load"]("train"))
    assert [(int(r["n"]), r["ints"].tolist(), [text.decode() for text in r["texts"]]) for r in found] == [
        (row["n"], row["ints"], row["texts"]) for row in WHOLE
    ]


def test_images_are_decoded(tf: Any, tmp_path: Path) -> None:
    del tf
    loader = loaded(loader_sets.images(tmp_path))
    for record in as_numpy(loader["load"]("train").take(5)):
        assert record["image/encoded"].shape == (record["image/height"], record["image/width"], 3)
        assert loader["CLASSES"]["image/class/label"][record["image/class/label"]] == record["image/class/text"].decode()


def test_it_counts_the_records_of_the_folder_that_it_is_given(
    tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    del tf
    out = loader_sets.table(tmp_path)
    moved = str(shutil.move(loader_sets.loader(out, "tensorflow"), tmp_path))
    monkeypatch.setattr(sys, "argv", ["load_tensorflow.py", str(out)])
    runpy.run_path(moved, run_name="__main__")
    assert capsys.readouterr().out == "train: 5 of 5 records\nvalidation: 2 of 2 records\n"
    monkeypatch.setattr(sys, "argv", ["load_tensorflow.py", "hdfs://nn/here"])
    with pytest.raises(ValueError, match=r"hdfs://nn/here: TensorFlow opens no hdfs://, s3:// or oss:// here. Mount the folder or copy it"):
        runpy.run_path(moved, run_name="__main__")
