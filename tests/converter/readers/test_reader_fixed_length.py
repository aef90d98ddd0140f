"""Tests records of fixed length: the layout of CIFAR-10, fields at any offset and of any type, and files that end within a record."""

import struct
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError
from tests.converter.readers.reader_contract import ReaderContract, batches, open_files, plan, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.core.tensors import to_numpy
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Reader
from dataprep_converter.readers.arrays import rows as row_files
from dataprep_converter.readers.arrays.fixed_length import FixedLengthReader
from dataprep_converter.readers.arrays.rows import RowFiles

CIFAR = [{"name": "label", "dtype": "uint8"}, {"name": "image", "dtype": "uint8", "shape": [3, 32, 32]}]


def cifar(count: int, *, first: int = 0) -> bytes:
    """Records `<1 x label><3072 x pixel>` as in https://www.cs.toronto.edu/~kriz/cifar.html: red, green and blue, each row-major."""
    out = b""
    for number in range(first, first + count):
        planes = [bytes((number + 7 * at + 50 * colour) % 256 for at in range(1024)) for colour in range(3)]
        out += bytes([number % 10]) + b"".join(planes)
    return out


def a_source(*uris: Path | str, **options: Any) -> Source:
    return Source.model_validate({"fixedLength": {"uris": [str(uri) for uri in uris], **options}})


def of_bytes(folder: Path, data: bytes, **options: Any) -> Source:
    (folder / "a.bin").write_bytes(data)
    return a_source(folder / "a.bin", **options)


class TestContract(ReaderContract):
    reader: ClassVar[type[Reader]] = FixedLengthReader

    def a_source(self, folder: Path) -> Source:
        for name, first in (("a.bin", 0), ("b.bin", 1000)):
            data = b"".join(struct.pack("<i3f", first + n, n, n / 2, n / 3) for n in range(30))
            (folder / name).write_bytes(b"head" + data + b"!")
        fields = [{"name": "label", "dtype": "int32"}, {"name": "values", "dtype": "float32", "shape": [3]}]
        return a_source(folder, recordBytes=16, headerBytes=4, footerBytes=1, fields=fields)

    def an_empty_source(self, folder: Path) -> Source:
        (folder / "a.bin").write_bytes(b"head!")
        return a_source(folder, recordBytes=16, headerBytes=4, footerBytes=1)

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        (folder / "a.bin").write_bytes(b"x" * 4)
        return a_source(folder / "a.bin", folder / "absent.bin", recordBytes=4), str(folder / "absent.bin")

    def change(self, folder: Path) -> Path:
        (folder / "b.bin").write_bytes(b"head" + b"x" * 16 + b"!")
        return folder / "b.bin"


def test_cifar_10_is_label_and_planes(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1.bin").write_bytes(cifar(20))
    (tmp_path / "data_batch_2.bin").write_bytes(cifar(5, first=20))
    source = a_source(tmp_path / "data_batch_*.bin", recordBytes=3073, fields=CIFAR)
    found = batches(FixedLengthReader, source, size=8)
    assert np.concatenate([to_numpy(batch.records.column("label")) for batch in found]).tolist() == [n % 10 for n in range(25)]
    images = np.concatenate([to_numpy(batch.records.column("image")) for batch in found])
    assert images.shape == (25, 3, 32, 32)
    assert images.dtype == np.uint8
    assert images[7, 2, 1, 3] == (7 + 7 * 35 + 100) % 256
    assert images[21].tobytes() == cifar(25)[21 * 3073 + 1 : 22 * 3073]


@pytest.mark.parametrize("order", ["<", ">"], ids=["little", "big"])
@pytest.mark.parametrize("code", ["B", "b", "H", "h", "I", "i", "q", "e", "f", "d"])
def test_every_type_is_read_in_either_order(tmp_path: Path, order: str, code: str) -> None:
    dtype = np.dtype(code).name
    given = [[n + 0.5 * (code in "efd"), 100.0 + n] if code in "efd" else [n, 100 + n] for n in range(4)]
    data = b"".join(b"." + struct.pack(f"{order}2{code}", *pair) for pair in given)
    fields = [{"name": "v", "dtype": dtype, "shape": [2], "offset": 1, "byteOrder": {"<": "Little", ">": "Big"}[order]}]
    source = of_bytes(tmp_path, data, recordBytes=1 + 2 * np.dtype(code).itemsize, fields=fields)
    (batch,) = batches(FixedLengthReader, source)
    values = to_numpy(batch.records.column("v"))
    assert values.dtype == np.dtype(dtype)
    assert values.tolist() == given


def test_a_bool_is_true_unless_it_is_zero(tmp_path: Path) -> None:
    source = of_bytes(tmp_path, b"\x00\x01\x02\xff", recordBytes=1, fields=[{"name": "b", "dtype": "bool"}])
    assert [row["b"] for row in rows(batches(FixedLengthReader, source))] == [False, True, True, True]


def test_fields_stand_anywhere_and_may_overlap(tmp_path: Path) -> None:
    fields = [
        {"name": "tail", "dtype": "bytes", "length": 2, "offset": 4},
        {"name": "all", "dtype": "bytes", "length": 6, "offset": 0},
        {"name": "second", "dtype": "uint8", "offset": 1},
        {"name": "third", "dtype": "uint8"},
    ]
    source = of_bytes(tmp_path, b"abcdefABCDEF", recordBytes=6, fields=fields)
    found = rows(batches(FixedLengthReader, source))
    assert found == [
        {"tail": b"ef", "all": b"abcdef", "second": ord("b"), "third": ord("c"), "_sample": 0},
        {"tail": b"EF", "all": b"ABCDEF", "second": ord("B"), "third": ord("C"), "_sample": 1},
    ]


def test_without_fields_the_record_is_one_column(tmp_path: Path) -> None:
    source = of_bytes(tmp_path, b"headabcABCxyz", recordBytes=3, headerBytes=4)
    assert [row["record"] for row in rows(batches(FixedLengthReader, source))] == [b"abc", b"ABC", b"xyz"]


def test_a_whole_record_of_numbers_is_not_copied(tmp_path: Path) -> None:
    source = of_bytes(tmp_path, bytes(1 << 20), recordBytes=1024, fields=[{"name": "v", "dtype": "uint8", "shape": [1024]}])
    units, state = plan(FixedLengthReader, source)
    before = pa.total_allocated_bytes()
    with FixedLengthReader(source.member, state, Access()) as reader:
        (batch,) = reader.read(units, iter([np.arange(1024)]))
    assert batch.records.num_rows == 1024
    assert pa.total_allocated_bytes() - before < 100_000


def test_a_wrong_size_names_file_size_and_record_length(tmp_path: Path) -> None:
    source = of_bytes(tmp_path, cifar(2) + b"x" * 10, recordBytes=3073, fields=CIFAR)
    with pytest.raises(BadData) as caught:
        plan(FixedLengthReader, source)
    assert str(caught.value) == (
        f"{tmp_path}/a.bin: expected a whole number of records of 3,073 bytes, got a file of 6,156 bytes: "
        "it has 2 records, and 10 bytes are left over."
    )
    assert caught.value.uri == f"{tmp_path}/a.bin"


def test_a_file_shorter_than_its_frame_is_refused(tmp_path: Path) -> None:
    source = of_bytes(tmp_path, b"abc", recordBytes=2, headerBytes=4, footerBytes=1)
    with pytest.raises(BadData, match="records of 2 bytes after 4 bytes of header and 1 of footer, got a file of 3 bytes: it is shorter"):
        plan(FixedLengthReader, source)


def test_a_field_outside_the_record_is_refused(tmp_path: Path) -> None:
    source = of_bytes(tmp_path, b"abcd", recordBytes=4, fields=[{"name": "x", "dtype": "int32", "offset": 1}])
    with pytest.raises(BadSpec) as caught:
        plan(FixedLengthReader, source)
    assert str(caught.value) == "source.fixedLength: the field 'x' begins at offset 1 and has 4 bytes, but recordBytes is 4."


WRONG: dict[str, tuple[list[dict[str, Any]], str]] = {
    "twice": ([{"name": "x", "dtype": "int8"}, {"name": "x", "dtype": "int8"}], "the field 'x' is listed twice"),
    "bytes without length": ([{"name": "x", "dtype": "bytes"}], "the field 'x': bytes need a length, and other types can't have one"),
    "numbers with length": (
        [{"name": "x", "dtype": "int8", "length": 1}],
        "the field 'x': bytes need a length, and other types can't have one",
    ),
    "bytes with shape": (
        [{"name": "x", "dtype": "bytes", "length": 1, "shape": [1]}],
        "the field 'x': bytes can't have a shape, only a length",
    ),
}


@pytest.mark.parametrize(("fields", "message"), WRONG.values(), ids=WRONG.keys())
def test_fields_that_make_no_sense_are_refused(fields: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        a_source("a.bin", recordBytes=4, fields=fields)


def test_scattered_small_rows_of_a_remote_file_come_from_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "scheme_of", lambda _: "s3")
    (tmp_path / "a").write_bytes(np.arange(100_000, dtype="<i4").tobytes())
    entry = Access().store(str(tmp_path / "a")).stat(str(tmp_path / "a"))
    assert entry is not None
    order = np.random.default_rng(1).permutation(100_000)[:50]
    before = open_files()
    with RowFiles(Access()) as files:
        rows = files.rows(entry.uri, entry.pin, start=0, row_bytes=4)
        assert rows.take(order).view("<i4").ravel().tolist() == order.tolist()
        assert files.taken() == 400_000
        assert rows.take(order[::-1]).view("<i4").ravel().tolist() == order[::-1].tolist()
        assert files.taken() == 0
    assert open_files() - before == Counter()
