"""Data sets of libraries that aren't installed in this environment.

Classes with the same names and methods stand in for the libraries' classes.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dataprep_io as dp
from dataprep_converter.core.errors import BadData, BadSpec


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
    """A tensor. NumPy can read it only after it has been detached from its graph and moved from its device to the CPU."""

    def __init__(self, values: Any, *, is_ready: bool = False) -> None:
        self._values = np.asarray(values, dtype=np.float32)
        self._is_ready = is_ready

    def detach(self) -> "Tensor":
        return self

    def cpu(self) -> "Tensor":
        return Tensor(self._values, is_ready=True)

    @property
    def dtype(self) -> str:
        return "torch.float32"

    @property
    def shape(self) -> tuple[int, ...]:
        return self._values.shape

    def __array__(self, dtype: object = None, copy: object = None) -> Any:
        assert self._is_ready
        return self._values


class Squares(Dataset):
    """A user's data set whose samples are tuples."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        assert number < 3
        return Tensor([number, number**2]), number


class Stream(Dataset):
    """A user's data set that can only be iterated over."""

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        yield from ({"x": Tensor([n])} for n in range(2))


def test_samples_of_torch_are_records(tmp_path: Path) -> None:
    result = dp.write(Squares(), tmp_path / "set", columns=["x", "label"])
    assert rows_of(result) == [{"label": n, "x": [n, n**2]} for n in range(3)]
    assert [row["x"] for row in rows_of(dp.write(Stream(), tmp_path / "other"))] == [[0], [1]]


class Image:
    """Hugging Face's feature for columns of images. Here, it finds no files."""

    def embed_storage(self, storage: Any) -> Any:
        return storage


class ClassLabel:
    """Hugging Face's feature for columns of class numbers with names."""

    def __init__(self, names: list[str]) -> None:
        self.names = names


class HuggingFace:
    """A Hugging Face data set."""

    def __init__(self, table: pa.Table, features: dict[str, Any] | None = None) -> None:
        self.features = {} if features is None else features
        self._table = table

    def with_format(self, name: str) -> "HuggingFace":
        assert name == "arrow"
        return self

    def iter(self, batch_size: int) -> Iterator[pa.Table]:
        assert batch_size > 0
        return iter([self._table.slice(0, 1), self._table.slice(1)])


@of_library("datasets.arrow_dataset")
class HuggingFaceDataset(HuggingFace):
    """A Hugging Face data set with the library's class name."""


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


def test_an_image_that_is_only_named_is_refused_beside_a_missing_one(tmp_path: Path) -> None:
    contents, paths = pa.array([None, b""]), pa.array(["a.jpg", ""])
    column = pa.StructArray.from_arrays([contents, paths], ["bytes", "path"], mask=pa.array([False, True]))
    with pytest.raises(BadData, match="The column 'image' has paths of files instead of their contents"):
        dp.write(HuggingFaceDataset(pa.table({"image": column}), {"image": Image()}), tmp_path / "set")


def test_an_image_that_is_only_named_is_refused(tmp_path: Path) -> None:
    data = HuggingFaceDataset(images([b"one", None]), {"image": Image()})
    with pytest.raises(BadData, match="The column 'image' has paths of files instead of their contents, and the files can't be found"):
        dp.write(data, tmp_path / "set")


class Array2D:
    """Hugging Face's feature for columns of tensors."""

    def __init__(self, *shape: int | None) -> None:
        self.shape = shape


def test_arrays_of_hugging_face_are_tensors_if_their_shape_is_known(tmp_path: Path) -> None:
    table = pa.table({"fixed": [[[1, 2], [3, 4]], None], "free": [[[1, 2]], [[3, 4], [5, 6]]]})
    data = HuggingFaceDataset(table, {"fixed": Array2D(2, 2), "free": Array2D(None, 2)})
    result = dp.write(data, tmp_path / "set", format="parquet")
    assert rows_of(result) == [{"fixed": [1, 2, 3, 4], "free": "[[1,2]]"}, {"fixed": None, "free": "[[3,4],[5,6]]"}]
    assert next(each["shape"] for each in result.open().manifest.features if each["name"] == "fixed") == [2, 2]


@of_library("datasets.iterable_dataset")
class Mapped:
    """A Hugging Face data set whose columns are unknown until its rows are made."""

    features = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter([{"n": None}, {"n": 2}])


Mapped.__name__ = "IterableDataset"


def test_rows_of_hugging_face_without_features_are_records(tmp_path: Path) -> None:
    assert rows_of(dp.write(Mapped(), tmp_path / "set")) == [{"n": None}, {"n": 2}]


def test_a_dictionary_of_hugging_face_has_splits(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2]})
    data = DatasetDict(train=HuggingFaceDataset(table), test=HuggingFaceDataset(table.slice(1)))
    result = dp.write(data, tmp_path / "set")
    assert dict(result.splits) == {"train": 2, "test": 1}


def test_a_class_label_has_class_names(tmp_path: Path) -> None:
    table = pa.table({"label": [1, -1, None]})
    data = HuggingFaceDataset(table, {"label": ClassLabel(["cat", "dog"])})
    result = dp.write(data, tmp_path / "set")
    assert dict(result.classes) == {"label": ("cat", "dog")}
    assert rows_of(result) == [{"label": 1}, {"label": -1}, {"label": None}]


def test_names_that_differ_from_those_of_a_class_label_are_refused(tmp_path: Path) -> None:
    data = HuggingFaceDataset(pa.table({"label": [1]}), {"label": ClassLabel(["cat", "dog"])})
    assert dict(dp.write(data, tmp_path / "set", classes=["label"]).classes) == {"label": ("cat", "dog")}
    with pytest.raises(BadSpec, match="the classes of 'label' are dog, cat, but the data has the classes cat, dog"):
        dp.write(data, tmp_path / "other", classes={"label": ["dog", "cat"]})


def test_splits_with_other_class_labels_are_refused(tmp_path: Path) -> None:
    table = pa.table({"label": [0]})
    named = {name: HuggingFaceDataset(table, {"label": ClassLabel([name, "b"])}) for name in ("train", "test")}
    with pytest.raises(BadSpec, match="the classes of 'label' are train, b, but the data has the classes test, b"):
        dp.write(DatasetDict(named), tmp_path / "set")


def test_a_tensor_needs_a_name(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="An array needs a name for its column"):
        dp.write(Tensor([1]), tmp_path / "set")


@of_library("torch")
class Bfloat16(Tensor):
    """A tensor of a type that NumPy doesn't have."""

    @property
    def dtype(self) -> str:
        return "torch.bfloat16"

    def detach(self) -> "Bfloat16":
        return self

    def cpu(self) -> "Bfloat16":
        return self

    def float(self) -> Tensor:
        return Tensor(self._values, is_ready=True)


def test_bfloat16_is_written_as_float32(tmp_path: Path) -> None:
    assert rows_of(dp.write({"x": Bfloat16([0.5, 2])}, tmp_path / "set")) == [{"x": 0.5}, {"x": 2}]
    assert rows_of(dp.write([{"x": Bfloat16([0.5, 2])}], tmp_path / "records")) == [{"x": [0.5, 2]}]


class WithoutLength(Dataset):
    """A user's data set without a length."""

    def __getitem__(self, number: int) -> dict[str, int]:
        return {"n": number}


def test_a_data_set_of_torch_needs_a_length(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="WithoutLength has no __len__. Define it"):
        dp.write(WithoutLength(), tmp_path / "set")


def test_a_class_label_that_the_first_split_lacks_is_refused(tmp_path: Path) -> None:
    table = pa.table({"label": [0]})
    splits = DatasetDict(train=HuggingFaceDataset(table), test=HuggingFaceDataset(table, {"label": ClassLabel(["a"])}))
    with pytest.raises(BadSpec, match="Split test: the data has classes for label, but the data of the first split has no such classes"):
        dp.write(splits, tmp_path / "set")


@of_library("torch.utils.data.dataloader")
class DataLoader:
    """torch's DataLoader, which yields batches."""

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        yield {"x": Tensor([1, 2])}


def test_batches_of_torch_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="yields batches. Pass its data set, loader.dataset"):
        dp.write(DataLoader(), tmp_path / "set")


@of_library("polars.lazyframe.frame")
class LazyFrame:
    """A Polars query."""

    def collect(self, *, engine: str) -> "DataFrame":
        assert engine == "streaming"
        return DataFrame(pa.table({"word": pa.array(["a", "b"], pa.string_view())}))


@of_library("polars.dataframe.frame")
class DataFrame:
    """A Polars table."""

    def __init__(self, table: pa.Table, schema: dict[str, str] | None = None) -> None:
        self.schema = {} if schema is None else schema
        self._table: Any = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        stream: object = self._table.__arrow_c_stream__(requested_schema)
        return stream


def test_a_query_of_polars_is_computed(tmp_path: Path) -> None:
    assert rows_of(dp.write(LazyFrame(), tmp_path / "set")) == [{"word": "a"}, {"word": "b"}]


def test_categories_of_polars_are_texts_or_classes(tmp_path: Path) -> None:
    indices, categories = pa.array([1, None, 0], pa.uint32()), pa.array(["b", "a"], pa.string_view())
    frame = DataFrame(pa.table({"kind": pa.DictionaryArray.from_arrays(indices, categories)}))
    assert [row["kind"] for row in rows_of(dp.write(frame, tmp_path / "texts"))] == ["a", None, "b"]
    result = dp.write(frame, tmp_path / "classes", classes=["kind"])
    assert ([row["kind"] for row in rows_of(result)], dict(result.classes)) == ([1, None, 0], {"kind": ("b", "a")})


def test_arrays_of_arrays_of_polars_are_tensors(tmp_path: Path) -> None:
    arrays = pa.array([[[1, 2], [3, 4]], None], pa.list_(pa.list_(pa.uint8(), 2), 2))
    result = dp.write(DataFrame(pa.table({"image": arrays})), tmp_path / "set", format="parquet")
    assert (result.open().manifest.features[0]["shape"], rows_of(result)) == ([2, 2], [{"image": [1, 2, 3, 4]}, {"image": None}])
    with pytest.raises(BadData, match="'image' has a null within an array"):
        dp.write(DataFrame(pa.table({"image": pa.array([[[1, None]]], pa.list_(pa.list_(pa.uint8(), 2), 1))})), tmp_path / "other")


def test_views_in_nested_values_of_polars_are_written(tmp_path: Path) -> None:
    values = pa.array([{"word": "a", "parts": [b"b"]}], pa.struct([("word", pa.string_view()), ("parts", pa.large_list(pa.binary_view()))]))
    result = dp.write(DataFrame(pa.table({"value": values})), tmp_path / "set", format="parquet")
    assert rows_of(result) == [{"value": '{"word":"a","parts":["Yg=="]}'}]


def test_objects_of_polars_are_refused(tmp_path: Path) -> None:
    frame = DataFrame(pa.table({"n": [1], "thing": [b"an address"]}), {"n": "Int64", "thing": "Object"})
    with pytest.raises(BadSpec, match="column 'thing' is Object, which records can't contain"):
        dp.write(frame, tmp_path / "set")


@pytest.mark.parametrize("name", ["pandas", "polars", "torch", "datasets", "duckdb"])
def test_no_library_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    assert isinstance(dp, ModuleType)
    assert dp.write([{"n": 1}], tmp_path / "set").records == 1
