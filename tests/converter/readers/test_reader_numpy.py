"""Tests arrays that NumPy saves, in one file or many, stored or deflated, and the errors for arrays that can't be read."""

import io
import zipfile
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import ValidationError
from tests.converter.readers.reader_contract import ReaderContract, batches, plan, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.core.tensors import to_numpy
from dataprep_converter.readers import Reader
from dataprep_converter.readers.arrays.npy import NumpyReader

Array = npt.NDArray[Any]


def of_uris(*uris: Path | str, **options: Any) -> Source:
    return Source.model_validate({"numpy": {"uris": [str(uri) for uri in uris], **options}})


def of_arrays(**arrays: Path | str) -> Source:
    return Source.model_validate({"numpy": {"arrays": {name: str(uri) for name, uri in arrays.items()}}})


def save(path: Path, array: Array) -> Path:
    np.save(path, array)
    return path


def column(source: Source, name: str = "values", **options: Any) -> Array:
    return np.concatenate([to_numpy(batch.records.column(name)) for batch in batches(NumpyReader, source, **options)])


def ramp(count: int, *shape: int, dtype: str = "float32", first: int = 0) -> Array:
    return (np.arange(count * int(np.prod(shape))).reshape(count, *shape) + first).astype(dtype)


class NumpyContract(ReaderContract):
    reader: ClassVar[type[Reader]] = NumpyReader

    def an_empty_source(self, folder: Path) -> Source:
        return of_uris(save(folder / "a.npy", np.empty((0, 3))))

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        return of_uris(save(folder / "a.npy", ramp(3)), folder / "absent.npy"), str(folder / "absent.npy")


class TestNpy(NumpyContract):
    def a_source(self, folder: Path) -> Source:
        for number in range(2):
            save(folder / f"{number}.npy", ramp(30, 4, 5, first=number))
        return of_uris(folder)

    def change(self, folder: Path) -> Path:
        return save(folder / "1.npy", ramp(3, 4, 5))


class TestPairs(NumpyContract):
    def a_source(self, folder: Path) -> Source:
        save(folder / "x0.npy", ramp(20, 8))
        save(folder / "x1.npy", ramp(30, 8))
        save(folder / "y0.npy", ramp(20, dtype="uint8"))
        save(folder / "y1.npy", ramp(30, dtype="uint8"))
        return of_arrays(label=f"{folder}/y*.npy", image=f"{folder}/x*.npy")

    def change(self, folder: Path) -> Path:
        return save(folder / "y1.npy", ramp(31, dtype="uint8"))


class NpzContract(NumpyContract):
    save: ClassVar[Any]

    def a_source(self, folder: Path) -> Source:
        noise = np.random.default_rng(1)
        for number in range(2):
            count = 30
            type(self).save(folder / f"{number}.npz", x=noise.integers(0, 256, (count, 50)).astype("uint8"), y=ramp(count, dtype="int16"))
        return of_uris(folder)

    def change(self, folder: Path) -> Path:
        np.savez(folder / "1.npz", x=np.zeros((2, 50), np.uint8), y=np.zeros(2, np.int16))
        return folder / "1.npz"


class TestStoredNpz(NpzContract):
    save: ClassVar[Any] = staticmethod(np.savez)


class TestDeflatedNpz(NpzContract):
    save: ClassVar[Any] = staticmethod(np.savez_compressed)


TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float16", "float32", "float64", "bool"]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("order", ["<", ">"], ids=["little", "big"])
def test_every_type_is_read_in_native_order(tmp_path: Path, dtype: str, order: Literal["<", ">"]) -> None:
    given = ramp(6, 2, 3, dtype=dtype)
    found = column(of_uris(save(tmp_path / "a.npy", given.astype(given.dtype.newbyteorder(order)))), size=4)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, given)


@pytest.mark.parametrize(("given", "expected"), [(["a", "bcd", ""], ["a", "bcd", ""]), ([b"a", b"bcd", b""], [b"a", b"bcd", b""])])
def test_text_is_a_column_too(tmp_path: Path, given: list[Any], expected: list[Any]) -> None:
    assert [row["values"] for row in rows(batches(NumpyReader, of_uris(save(tmp_path / "a.npy", np.array(given)))))] == expected


def test_a_header_of_the_second_version_is_read(tmp_path: Path) -> None:
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array(file, ramp(3, 2), version=(2, 0))
    np.testing.assert_array_equal(column(of_uris(tmp_path / "a.npy")), ramp(3, 2))


def test_files_are_read_one_after_another(tmp_path: Path) -> None:
    for number in range(3):
        save(tmp_path / f"{number}.npy", ramp(4, 2, first=100 * number))
    found = column(of_uris(tmp_path / "*.npy"), size=5)
    np.testing.assert_array_equal(found, np.concatenate([ramp(4, 2, first=100 * number) for number in range(3)]))


def test_features_and_labels_of_different_files_go_together(tmp_path: Path) -> None:
    source = of_arrays(image=save(tmp_path / "x.npy", ramp(3, 2, dtype="uint8")), label=save(tmp_path / "y.npy", ramp(3, dtype="int64")))
    assert rows(batches(NumpyReader, source)) == [
        {"image": [0, 1], "label": 0, "_sample": 0},
        {"image": [2, 3], "label": 1, "_sample": 1},
        {"image": [4, 5], "label": 2, "_sample": 2},
    ]


@pytest.mark.parametrize("save_npz", [np.savez, np.savez_compressed])
def test_members_choose_arrays_of_one_length(tmp_path: Path, save_npz: Any) -> None:
    save_npz(tmp_path / "mnist.npz", x_train=ramp(5, 2), y_train=ramp(5, dtype="int64"), x_test=ramp(2, 2), y_test=ramp(2))
    source = of_uris(tmp_path / "mnist.npz", members={"image": "x_train", "label": "y_train"})
    np.testing.assert_array_equal(column(source, "image"), ramp(5, 2))
    np.testing.assert_array_equal(column(source, "label"), ramp(5, dtype="int64"))


def test_arrays_of_different_lengths_are_refused(tmp_path: Path) -> None:
    source = of_arrays(image=save(tmp_path / "x.npy", ramp(1000, 2)), label=save(tmp_path / "y.npy", ramp(999)))
    with pytest.raises(BadSpec) as caught:
        plan(NumpyReader, source)
    assert str(caught.value) == (
        f"{tmp_path}/x.npy has 1,000 records of 'image', {tmp_path}/y.npy has 999 of 'label': they don't belong together."
    )


def test_groups_of_different_numbers_of_files_are_refused(tmp_path: Path) -> None:
    for number in range(3):
        save(tmp_path / f"x{number}.npy", ramp(2))
    with pytest.raises(BadSpec, match="image has 3 files and label has 1; they need the same number of files"):
        plan(NumpyReader, of_arrays(image=f"{tmp_path}/x*.npy", label=tmp_path / "x0.npy"))


@pytest.mark.parametrize("other", [ramp(3, 2, dtype="float64"), ramp(3, 3)], ids=["type", "shape"])
def test_files_of_another_kind_are_refused_by_both_names(tmp_path: Path, other: Array) -> None:
    save(tmp_path / "a.npy", ramp(3, 2))
    save(tmp_path / "b.npy", other)
    with pytest.raises(BadSpec) as caught:
        plan(NumpyReader, of_uris(tmp_path))
    assert str(caught.value) == (
        f"The arrays of 'values' need one type and shape: {tmp_path}/a.npy has float32[3, 2], "
        f"{tmp_path}/b.npy has {other.dtype}{list(other.shape)}."
    )


def test_files_with_other_arrays_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=ramp(3))
    np.savez(tmp_path / "b.npz", z=ramp(3))
    with pytest.raises(BadSpec, match=r"All files need the same arrays: .*a\.npz has x, .*b\.npz has z\."):
        plan(NumpyReader, of_uris(tmp_path))


def npy(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def with_shape(shape: str, size: int) -> bytes:
    """A .npy file with `size` bytes of values, and with the text `shape` as the shape in its header."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(size)


GOOD = npy(ramp(4, 3))
BROKEN: dict[str, tuple[bytes, str]] = {
    "no array": (b"P6 320 240", "a.npy is not a complete .npy file: "),
    "empty": (b"", "a.npy is not a complete .npy file: "),
    "header cut": (GOOD[:60], "a.npy is not a complete .npy file: "),
    "header is code": (GOOD[:10] + b"__import__('os')".ljust(117) + b"\n" + GOOD[128:], "a.npy is not a complete .npy file: "),
    "values cut": (GOOD[:-1], "a.npy is truncated: its header says float32[4, 3], which needs 176 bytes, got 175."),
    "too long": (GOOD + b"x", "a.npy is too long: its header says float32[4, 3], which needs 176 bytes, got 177."),
    "objects": (npy(np.array([{"a": 1}], object)), "a.npy holds Python objects (dtype object), which are pickles and are never loaded."),
    "Fortran": (
        npy(np.asfortranarray(ramp(4, 3))),
        "a.npy is in Fortran order, so the values of a record are not contiguous; save np.ascontiguousarray",
    ),
    "one value": (npy(np.array(3.0)), "a.npy is a single value; its first dimension must count the records."),
    "no columns": (npy(np.empty((3, 0))), "a.npy: the dimensions [3, 0] can't be right."),
    "a length that is a truth value": (with_shape("(True,)", 4), "a.npy: the dimensions [True] can't be right."),
    "an inner length that is a truth value": (with_shape("(3, True)", 12), "a.npy: the dimensions [3, True] can't be right."),
    "more values than a record can hold": (
        with_shape("(0, 18446744073709551616)", 0),
        "a.npy: no record can hold its rows: a tensor has at most 2,147,483,647 values, got 18,446,744,073,709,551,616 of shape [18446744073709551616]",
    ),
    "too many values in total": (with_shape("(0, 2147483647, 2)", 0), "a.npy: no record can hold its rows: a tensor has at most"),
    "more dimensions than numpy has": (
        with_shape(f"({'1,' * 65})", 1),
        "a.npy: no record can hold its rows: a tensor has at most 63 dimensions, got 64",
    ),
    "a negative length": (with_shape("(-3,)", 4), "a.npy: the dimensions [-3] can't be right."),
    "a length that is a float": (with_shape("(3.0,)", 12), "a.npy is not a complete .npy file: "),
    "a length that is a tuple": (with_shape("((3,),)", 12), "a.npy is not a complete .npy file: "),
    "a huge length": (with_shape("(18446744073709551616,)", 4), "a.npy is truncated: its header says float32[18446744073709551616]"),
    "complex": (npy(np.zeros(3, "complex64")), "a.npy is an array of complex64, which records can't contain."),
    "uint64": (npy(np.zeros(3, "uint64")), "a.npy is an array of uint64, which records can't contain."),
    "records": (npy(np.zeros(3, [("a", "i4")])), "a.npy is an array of [('a', '<i4')], which records can't contain."),
}


@pytest.mark.parametrize(("data", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_named_with_what_was_expected_and_what_came(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(BadData) as caught:
        plan(NumpyReader, of_uris(tmp_path / "a.npy"))
    assert message in str(caught.value)
    assert caught.value.uri == f"{tmp_path}/a.npy"


def a_zip(path: Path, *, method: int, content: bytes = GOOD) -> bytes:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("x.npy", content)
    return path.read_bytes()


def test_a_member_is_named_with_its_file(tmp_path: Path) -> None:
    a_zip(tmp_path / "a.npz", method=zipfile.ZIP_STORED, content=npy(np.array([None], object)))
    with pytest.raises(BadData, match=r"a\.npz, x\.npy holds Python objects"):
        plan(NumpyReader, of_uris(tmp_path))


@pytest.mark.parametrize("end", [-30, 10, 2])
def test_a_npz_file_that_is_cut_is_named(tmp_path: Path, end: int) -> None:
    data = a_zip(tmp_path / "a.npz", method=zipfile.ZIP_STORED)
    (tmp_path / "a.npz").write_bytes(data[:end])
    with pytest.raises(BadData, match=r"a\.npz is not a complete zip file: File is not a zip file\."):
        plan(NumpyReader, of_uris(tmp_path))


def test_damage_in_a_deflated_array_is_found(tmp_path: Path) -> None:
    content = npy(np.random.default_rng(1).integers(0, 256, 100_000).astype(np.uint8))
    data = bytearray(a_zip(tmp_path / "a.npz", method=zipfile.ZIP_DEFLATED, content=content))
    data[50_000] ^= 1
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(BadData, match=r"a\.npz: the member 'x\.npy' (has a wrong checksum|is not valid Deflate|has )"):
        batches(NumpyReader, of_uris(tmp_path))


def test_other_compressions_are_refused(tmp_path: Path) -> None:
    a_zip(tmp_path / "a.npz", method=zipfile.ZIP_LZMA)
    with pytest.raises(BadData, match=r"a\.npz: the member 'x\.npy' is compressed by LZMA; only Deflate is read\."):
        plan(NumpyReader, of_uris(tmp_path))


def test_a_member_that_is_not_there_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=ramp(3), y=ramp(3))
    with pytest.raises(BadSpec, match=r"a\.npz has no array 'z' for the column 'label'; it has x, y\."):
        plan(NumpyReader, of_uris(tmp_path, members={"label": "z"}))


def test_members_of_a_npy_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match=r"a\.npy is not a \.npz file, but source\.numpy\.members selects arrays of \.npz files\."):
        plan(NumpyReader, of_uris(save(tmp_path / "a.npy", ramp(3)), members={"x": "x"}))


def test_options_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(ValidationError, match="set exactly one of uris and arrays"):
        Source.model_validate({"numpy": {}})
    with pytest.raises(ValidationError, match="set exactly one of uris and arrays"):
        Source.model_validate({"numpy": {"uris": ["a"], "arrays": {"x": "b"}}})
    with pytest.raises(ValidationError, match=r"members needs uris of \.npz files"):
        Source.model_validate({"numpy": {"arrays": {"x": "b"}, "members": {"x": "y"}}})


def test_a_flipped_bit_in_a_stored_array_is_an_error_that_names_it(tmp_path: Path) -> None:
    values = np.arange(40_000, dtype=np.int64)
    np.savez(tmp_path / "a.npz", x=values)
    data = (tmp_path / "a.npz").read_bytes()
    at = data.index(values[20_000:20_010].tobytes())
    (tmp_path / "a.npz").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(BadData, match=r"a\.npz: the member 'x\.npy' has a wrong checksum\."):
        batches(NumpyReader, of_uris(tmp_path / "a.npz"), size=5_000)
