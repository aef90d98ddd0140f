"""Tests plain and gzip IDX files of every type, and the errors for broken files."""

import gzip
import hashlib
import struct
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.converter.readers.reader_contract import ReaderContract, batches, plan, rows

from dataprep_api.spec import Output, Source
from dataprep_converter.core.errors import BadData, BadSpec, ConvertError
from dataprep_converter.core.tensors import to_numpy
from dataprep_converter.formats.tfrecord.tfrecord_encoder import TfrecordEncoder
from dataprep_converter.readers import Reader
from dataprep_converter.readers.arrays.idx import TYPES, IdxReader
from dataprep_converter.records.feature import FeatureSpec

CODES = {name: code for code, name in TYPES.items()}


def idx(values: np.ndarray[Any, Any]) -> bytes:
    """The bytes of an IDX file: magic number, sizes, and big-endian values."""
    big = values.astype(values.dtype.newbyteorder(">"))
    return bytes([0, 0, CODES[values.dtype.name], values.ndim]) + struct.pack(f">{values.ndim}i", *values.shape) + big.tobytes()


def write(path: Path, values: np.ndarray[Any, Any]) -> str:
    data = idx(values)
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return str(path)


def images(count: int, *shape: int, dtype: str = "uint8", start: int = 0) -> np.ndarray[Any, Any]:
    return (np.arange(count * int(np.prod(shape))).reshape(count, *shape) * 7 + start).astype(dtype)


def a_source(**subsets: tuple[str, str | None]) -> Source:
    written = [{"name": name, "images": i} | ({"labels": labels} if labels else {}) for name, (i, labels) in subsets.items()]
    return Source.model_validate({"idx": {"subsets": written}})


class IdxContract(ReaderContract):
    reader: ClassVar[type[Reader]] = IdxReader
    suffix: ClassVar[str]

    def a_source(self, folder: Path) -> Source:
        pairs = {}
        for name, count in (("train", 40), ("test", 13)):
            stored = write(folder / f"{name}-images{self.suffix}", images(count, 28, 28, start=count))
            pairs[name] = (stored, write(folder / f"{name}-labels{self.suffix}", (np.arange(count) % 10).astype(np.uint8)))
        return a_source(**pairs)

    def an_empty_source(self, folder: Path) -> Source:
        nothing = write(folder / f"i{self.suffix}", np.empty((0, 28, 28), np.uint8))
        return a_source(train=(nothing, write(folder / f"l{self.suffix}", np.empty(0, np.uint8))))

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        there = write(folder / f"i{self.suffix}", images(3, 2, 2))
        return a_source(train=(there, str(folder / "absent"))), str(folder / "absent")

    def change(self, folder: Path) -> Path:
        path = folder / f"test-labels{self.suffix}"
        write(path, (np.arange(13) % 9).astype(np.uint8))
        return path


class TestPlainFiles(IdxContract):
    suffix = ""


class TestGzipFiles(IdxContract):
    suffix = ".gz"


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_every_type_is_read_in_native_order(tmp_path: Path, dtype: str, suffix: str) -> None:
    values = images(50, 4, 3, dtype=dtype, start=-100 if dtype != "uint8" else 0)
    source = a_source(all=(write(tmp_path / f"i{suffix}", values), None))
    found = np.concatenate([to_numpy(batch.records.column("image")) for batch in batches(IdxReader, source, size=7)])
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize(("shape", "expected"), [((28, 28), (28, 28, 1)), ((8, 6, 3), (8, 6, 3))])
def test_height_width_and_depth_come_from_the_header(tmp_path: Path, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    source = a_source(all=(write(tmp_path / "i", images(3, *shape)), None))
    assert [(row["height"], row["width"], row["depth"]) for row in rows(batches(IdxReader, source))] == [expected] * 3


def test_samples_of_one_dimension_have_no_height(tmp_path: Path) -> None:
    source = a_source(all=(write(tmp_path / "i", images(3, 5, dtype="float32")), None))
    assert list(rows(batches(IdxReader, source))[0]) == ["image", "_sample"]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32"])
def test_labels_of_any_whole_type_are_int64(tmp_path: Path, dtype: str) -> None:
    labels = np.array([5, 0, 100], dtype)
    source = a_source(all=(write(tmp_path / "i", images(3, 2, 2)), write(tmp_path / "l", labels)))
    assert [row["label"] for row in rows(batches(IdxReader, source))] == [5, 0, 100]


def test_a_unit_is_a_subset_by_name_and_not_by_place(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    here, _ = plan(IdxReader, a_source(train=(write(tmp_path / "i", images(3, 2, 2)), None)))
    there, _ = plan(IdxReader, a_source(train=(write(tmp_path / "elsewhere" / "i", images(3, 2, 2)), None)))
    assert here.unit(0).subset == here.unit(0).path == "train"
    assert here.keys().tolist() == there.keys().tolist()


def test_synthetic_mnist_becomes_the_golden_test_file(tmp_path: Path) -> None:
    numbers = np.arange(60_000, 70_000)
    pixels = (31 * numbers[:, None] + 7 * np.arange(784)).astype(np.uint8).reshape(-1, 28, 28)
    labels = (numbers % 10).astype(np.uint8)
    source = a_source(test=(write(tmp_path / "i.gz", pixels), write(tmp_path / "l.gz", labels)))
    whole = [FeatureSpec(name, "int64", "int64", ()) for name in ("height", "width", "depth", "label")]
    encoder = TfrecordEncoder(Output(uri="x"), [*whole, FeatureSpec("image_raw", "bytes", "uint8", (28, 28), raw=True)])
    digest = hashlib.sha256()
    for batch in batches(IdxReader, source, size=999):
        digest.update(encoder.encode(batch.records.rename_columns({"image": "image_raw"})))
    # The digest of 10,000 records, each with sorted keys and 891 bytes long, computed from hand-written wire bytes.
    assert digest.hexdigest() == "61caa6da3a1d08944a2b7b41380bba17b992fe56e3f23c453302d5fbb511b9c5"


def broken(tmp_path: Path, image_bytes: bytes, label_bytes: bytes) -> ConvertError:
    """The message of the error that planning or reading these files raises."""
    (tmp_path / "images").write_bytes(image_bytes)
    (tmp_path / "labels").write_bytes(label_bytes)
    with pytest.raises(ConvertError) as caught:
        batches(IdxReader, a_source(train=(str(tmp_path / "images"), str(tmp_path / "labels"))))
    return caught.value


IMAGES = idx(images(10, 4, 4))
LABELS = idx(np.arange(10, dtype=np.uint8))
BROKEN: dict[str, tuple[bytes, bytes, str]] = {
    "no IDX file": (b"\x89PNG\r\n\x1a\n", LABELS, "is not an IDX file: expected 00 00, a type (08 uint8"),
    "empty": (b"", LABELS, "got an empty file"),
    "unknown type": (b"\0\0\x0f\x03" + IMAGES[4:], LABELS, "got 00 00 0f 03"),
    "header cut": (IMAGES[:10], LABELS, "its header has 3 dimensions, but the file ends after 10 bytes"),
    "values cut": (IMAGES[:-1], LABELS, "is truncated: its header says 10 x uint8[4, 4], which needs 176 bytes, got 175"),
    "too long": (IMAGES + b"x", LABELS, "is too long"),
    "more values than a record can hold": (
        b"\0\0\x08\x03\0\0\0\0" + b"\x7f\xff\xff\xff" * 2,
        LABELS,
        "no record can hold its rows: a tensor has at most 2,147,483,647 values, got 4,611,686,014,132,420,609",
    ),
    "more dimensions than numpy has": (b"\0\0\x08\x41" + b"\0\0\0\1" * 65, LABELS, "a tensor has at most 63 dimensions, got 64"),
    "negative size": (b"\0\0\x08\x03\xff\xff\xff\xff" + IMAGES[8:], LABELS, "dimensions [-1, 4, 4] can't be right"),
    "gzip values cut": (
        gzip.compress(IMAGES[:-1]),
        LABELS,
        "is truncated: its header says 10 x uint8[4, 4], which needs 176 bytes, got 175",
    ),
    "gzip too long": (gzip.compress(IMAGES + b"x"), LABELS, "is too long"),
    "gzip stream cut": (gzip.compress(IMAGES)[:-9], LABELS, "the gzip stream ends early"),
    "gzip damaged": (gzip.compress(IMAGES)[:-8] + bytes(8), LABELS, "not valid gzip"),
    "fewer labels": (IMAGES, idx(np.arange(9, dtype=np.uint8)), "has 10 images"),
    "labels are images": (IMAGES, IMAGES, "labels must be one whole number per record, got uint8[4, 4] in 3 dimensions"),
    "labels are floats": (IMAGES, idx(np.arange(10, dtype=np.float32)), "labels must be one whole number per record"),
}


@pytest.mark.parametrize(("image_bytes", "label_bytes", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_named_with_what_was_expected_and_what_came(
    tmp_path: Path, image_bytes: bytes, label_bytes: bytes, message: str
) -> None:
    error = broken(tmp_path, image_bytes, label_bytes)
    assert isinstance(error, BadData)
    assert message in str(error)
    assert error.uri in (str(tmp_path / "images"), str(tmp_path / "labels"))


def test_subsets_of_different_shapes_are_refused(tmp_path: Path) -> None:
    source = a_source(a=(write(tmp_path / "a", images(3, 4, 4)), None), b=(write(tmp_path / "b", images(3, 4, 5)), None))
    with pytest.raises(BadSpec, match=r"a has uint8\[4, 4\], .*b has uint8\[4, 5\]"):
        plan(IdxReader, source)


def test_labels_for_one_subset_only_are_refused(tmp_path: Path) -> None:
    labels = write(tmp_path / "l", np.zeros(3, np.uint8))
    source = a_source(a=(write(tmp_path / "a", images(3, 4, 4)), labels), b=(write(tmp_path / "b", images(3, 4, 4)), None))
    with pytest.raises(BadSpec, match="the subset 'b' has no labels, but another subset has labels"):
        plan(IdxReader, source)
