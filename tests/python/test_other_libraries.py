"""Data sets of libraries that aren't installed here, played by classes with the libraries' names and methods."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dataprep_io as dp
from dataprep_converter.core.errors import BadData


def rows_of(result: dp.Result, **options: Any) -> list[dict[str, Any]]:
    """Return the records of a data set in order."""
    return [row for batch in result.open(as_="arrow", batch_size=1000, **options) for row in batch.to_pylist()]


def of_library(module: str) -> Any:
    """Return a decorator that moves a class into a module."""

    def move(moved: type) -> type:
        moved.__module__ = module
        return moved

    return move


@of_library("torch.utils.data.dataset")
class Dataset:
    """The base class of torch's data sets."""


@of_library("torch")
class Tensor:
    """A tensor, which NumPy can read only after it was taken from its device and its graph."""

    def __init__(self, values: Any, *, is_ready: bool = False) -> None:
        self._values = np.asarray(values, dtype=np.float32)
        self._is_ready = is_ready

    def detach(self) -> "Tensor":
        return self

    def cpu(self) -> "Tensor":
        return Tensor(self._values, is_ready=True)

    def __array__(self, dtype: object = None, copy: object = None) -> Any:
        assert self._is_ready
        return self._values


class Squares(Dataset):
    """A user's data set with tuples."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        assert number < 3
        return Tensor([number, number**2]), number


class Stream(Dataset):
    """A user's data set that can only be iterated."""

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        yield from ({"x": Tensor([n])} for n in range(2))


def test_samples_of_torch_are_records(tmp_path: Path) -> None:
    result = dp.write(Squares(), tmp_path / "set", columns=["x", "label"])
    assert rows_of(result) == [{"label": n, "x": [n, n**2]} for n in range(3)]
    assert [row["x"] for row in rows_of(dp.write(Stream(), tmp_path / "other"))] == [[0], [1]]


class Image:
    """The feature of Hugging Face's columns of images."""


class HuggingFace:
    """A data set of Hugging Face."""

    def __init__(self, table: pa.Table, features: dict[str, Any] | None = None) -> None:
        self.features = features
        self._table = table

    def with_format(self, name: str) -> "HuggingFace":
        assert name == "arrow"
        return self

    def iter(self, batch_size: int) -> Iterator[pa.Table]:
        assert batch_size > 0
        return iter([self._table.slice(0, 1), self._table.slice(1)])


@of_library("datasets.arrow_dataset")
class HuggingFaceDataset(HuggingFace):
    """A data set."""


HuggingFaceDataset.__name__ = "Dataset"


@of_library("datasets.dataset_dict")
class DatasetDict(dict[str, Any]):
    """A data set for each split."""


def images(content: list[bytes | None]) -> pa.Table:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    return pa.table({"image": pa.array([{"bytes": each, "path": "a.jpg"} for each in content], kind), "label": [0, 1]})


def test_a_data_set_of_hugging_face_has_the_bytes_of_its_images(tmp_path: Path) -> None:
    data = HuggingFaceDataset(images([b"one", b"two"]), {"image": Image(), "label": None})
    result = dp.write(data, tmp_path / "set")
    assert rows_of(result) == [{"image": b"one", "label": 0}, {"image": b"two", "label": 1}]


def test_an_image_that_is_only_named_is_refused(tmp_path: Path) -> None:
    data = HuggingFaceDataset(images([b"one", None]), {"image": Image()})
    with pytest.raises(BadData, match="The column 'image' has paths of files instead of their contents"):
        dp.write(data, tmp_path / "set")


def test_a_dictionary_of_hugging_face_has_splits(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2]})
    data = DatasetDict(train=HuggingFaceDataset(table), test=HuggingFaceDataset(table.slice(1)))
    result = dp.write(data, tmp_path / "set")
    assert dict(result.splits) == {"train": 2, "test": 1}


@of_library("polars.lazyframe.frame")
class LazyFrame:
    """A query of Polars."""

    def collect(self, *, engine: str) -> Any:
        assert engine == "streaming"
        return pa.table({"word": pa.array(["a", "b"], pa.string_view())})


def test_a_query_of_polars_is_computed(tmp_path: Path) -> None:
    assert rows_of(dp.write(LazyFrame(), tmp_path / "set")) == [{"word": "a"}, {"word": "b"}]


@pytest.mark.parametrize("name", ["pandas", "polars", "torch", "datasets", "duckdb"])
def test_no_library_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    assert isinstance(dp, ModuleType)
    assert dp.write([{"n": 1}], tmp_path / "set").records == 1
