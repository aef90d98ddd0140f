"""Large inputs, the jobs that convert them, and checks that compare every record of the output with its input."""

import gzip
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from dataprep_api.spec import Source
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.dataset import DatasetReader
from workbench import photos

Numbers = npt.NDArray[np.int64]
_NUMBERS = 32
_ROW_BYTES = 8 * _NUMBERS + 60
"""The size in bytes of a row in Parquet."""
_JOIN_ROW_BYTES = 20
"""The size in bytes of a row of each table in CSV."""
_CHECKED_AT_ONCE = 10_000
_pc: Any = pc  # the stubs lack some functions


@dataclass(frozen=True)
class Made:
    """An input of `size` bytes."""

    spec: dict[str, Any]
    records: int
    size: int
    check: Callable[[pa.RecordBatch], Numbers]
    """Returns the numbers, from 0 to `records` - 1, of the records in a batch. Raises AssertionError if a record is wrong."""


def _table(first: int, count: int) -> pa.Table:
    """Rows of about 400 bytes: a number, other numbers that are computed from it, and a text."""
    ids = np.arange(first, first + count)
    numbers = {f"x{n}": ids * 0.125 + n for n in range(_NUMBERS)}
    return pa.table({"id": ids, **numbers, "text": _texts(ids)})


def _texts(ids: Numbers) -> "pa.Array[Any]":
    digits = _pc.utf8_lpad(pa.array(ids).cast(pa.string()), 12, "0")
    texts: pa.Array[Any] = _pc.binary_join_element_wise("text of the row ", digits, ", with a comma", "")
    return texts


def _check_rows(found: pa.RecordBatch) -> Numbers:
    ids = _integers(found, "id")
    vectors = np.asarray(_flat(found, "x"), np.float32).reshape(len(ids), _NUMBERS)
    assert np.array_equal(vectors, (ids[:, None] * 0.125 + np.arange(_NUMBERS)).astype(np.float32))
    assert found.column("text").cast(pa.binary()).equals(_texts(ids).cast(pa.binary()))
    return ids


def _integers(found: pa.RecordBatch, name: str) -> Numbers:
    return np.asarray(found.column(name), np.int64)


def _flat(found: pa.RecordBatch, name: str) -> Any:
    """The flattened values of a column of lists or tensors."""
    column: Any = found.column(name)
    return (column.storage if isinstance(column, pa.ExtensionArray) else column).flatten()


def _write_rows(out: BinaryIO, size: int) -> tuple[int, int]:
    """Writes rows until there are `size` bytes, and returns the numbers of rows and bytes."""
    options = csv.WriteOptions(include_header=False)
    rows = written = 0
    while written < size:
        piece = pa.BufferOutputStream()
        csv.write_csv(_table(rows, 20_000), piece, options)
        data = memoryview(piece.getvalue())
        out.write(data)
        rows, written = rows + 20_000, written + len(data)
    return rows, written


def _rows_spec(file: Path) -> dict[str, Any]:
    features = [
        {"name": "id", "columns": ["0"]},
        {"name": "x", "columns": [f"1..{_NUMBERS}"]},
        {"name": "text", "columns": [f"{_NUMBERS + 1}"]},
    ]
    return {"source": {"csv": {"uris": [str(file)]}}, "features": features}


def a_csv(folder: Path, size: int) -> Made:
    """One CSV file."""
    file = folder / "rows.csv"
    with file.open("wb") as out:
        rows, written = _write_rows(out, size)
    return Made(_rows_spec(file), rows, written, _check_rows)


def a_shuffled_csv(folder: Path, size: int) -> Made:
    """One CSV file whose rows are shuffled, so that each worker gathers its rows in several passes over the file."""
    made = a_csv(folder, size)
    return replace(made, spec={**made.spec, "shuffle": {"seed": 1}})


def a_jsonl(folder: Path, size: int) -> Made:
    """One file of JSON Lines with the same rows."""
    file = folder / "rows.jsonl"
    rows = written = 0
    with file.open("wb") as out:
        while written < size:
            table = _table(rows, 20_000)
            numbers = [table[f"x{n}"].cast(pa.string()) for n in range(_NUMBERS)]
            vectors = _pc.binary_join_element_wise(*numbers, ",")
            parts = ['{"id":', table["id"].cast(pa.string()), ',"x":[', vectors, '],"text":"', table["text"], '"}\n', ""]
            written += out.write("".join(_pc.binary_join_element_wise(*parts).to_pylist()).encode())
            rows += 20_000
    features = [{"name": "id"}, {"name": "x"}, {"name": "text"}]
    return Made({"source": {"jsonl": {"uris": [str(file)]}}, "features": features}, rows, written, _check_rows)


def a_parquet(folder: Path, size: int) -> Made:
    """One Parquet file with the same rows, in uncompressed row groups of a few MiB."""
    file = folder / "rows.parquet"
    rows = 0
    with parquet.ParquetWriter(file, _table(0, 1).schema, compression="none", use_dictionary=False) as out:
        while rows * _ROW_BYTES < size:
            out.write_table(_table(rows, 20_000))
            rows += 20_000
    features = [{"name": "id"}, {"name": "x", "columns": [f"x{n}" for n in range(_NUMBERS)]}, {"name": "text"}]
    return Made({"source": {"parquet": {"uris": [str(file)]}}, "features": features}, rows, file.stat().st_size, _check_rows)


def a_gzip(folder: Path, size: int) -> Made:
    """One gzip file with `size` bytes of CSV."""
    file = folder / "rows.csv.gz"
    with file.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=1, mtime=0) as out:
        rows, written = _write_rows(out, size)  # type: ignore[arg-type]  # a GzipFile has all methods that are needed
    return Made(_rows_spec(file), rows, written, _check_rows)


def images(folder: Path, size: int) -> Made:
    """Many copies of some photographs under different names."""
    originals = sorted(photos.write(folder / "photos").glob("*/*.jpg"))
    count = written = 0
    for count in range(1 << 30):
        if written >= size:
            break
        original = originals[count % len(originals)]
        target = folder / "images" / original.parent.name / f"{count:08d}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(original, target)
        written += original.stat().st_size

    contents = [original.read_bytes() for original in originals]

    def check(found: pa.RecordBatch) -> Numbers:
        numbers = [int(Path(str(name)).stem) for name in found.column("image/filename").to_pylist()]
        images, classes = (found.column(f"image/{name}") for name in ("encoded", "class/text"))
        for row, number in enumerate(numbers):
            assert images[row].as_py() == contents[number % len(contents)], number
            assert classes[row].as_py() == originals[number % len(originals)].parent.name, number
        return np.array(numbers, np.int64)

    source = {"images": {"uris": [str(folder / "images")]}}
    features = [{"name": f"image/{name}"} for name in ("encoded", "filename", "class/text")]
    return Made({"source": source, "features": features}, count, written, check)


def a_tar(folder: Path, size: int) -> Made:
    """The same photographs in one tar file."""
    made = images(folder, size)
    with tarfile.open(folder / "images.tar", "w") as archive:
        archive.add(folder / "images", "images")
    shutil.rmtree(folder / "images")
    source = {"images": {"uris": [f"{folder}/images.tar!/images"]}}
    return Made({**made.spec, "source": source}, made.records, made.size, made.check)


def a_join(folder: Path, size: int) -> Made:
    """Two unsorted tables. Nine out of ten keys are in both tables."""
    rows = size // (2 * _JOIN_ROW_BYTES)
    apart = rows // 10
    tables = []
    written = 0
    for name, first, seed in (("left", 0, 1), ("right", apart, 2)):
        ids = np.random.default_rng(seed).permutation(rows) + first
        file = folder / f"{name}.csv"
        csv.write_csv(pa.table({"id": ids, name: ids * 2, f"{name}_text": pa.array(ids).cast(pa.string())}), file)
        written += file.stat().st_size
        tables.append({"name": name, "source": {"csv": {"uris": [str(file)], "header": True}}})

    def check(found: pa.RecordBatch) -> Numbers:
        ids = _integers(found, "id")
        assert np.array_equal(_integers(found, "left"), 2 * ids)
        assert np.array_equal(_integers(found, "right"), 2 * ids)
        return ids - apart

    spec = {
        "source": {"join": {"keys": ["id"], "missing": "Drop", "tables": tables}},
        "features": [{"name": "id"}, {"name": "left"}, {"name": "right"}],
    }
    return Made(spec, rows - apart, written, check)


KINDS: Mapping[str, Callable[[Path, int], Made]] = {
    "csv": a_csv,
    "csv-shuffled": a_shuffled_csv,
    "gzip": a_gzip,
    "jsonl": a_jsonl,
    "parquet": a_parquet,
    "images": images,
    "tar": a_tar,
    "join": a_join,
}


def check(output: Path, made: Made) -> None:
    """Raises AssertionError unless each record occurs exactly once and is correct."""
    seen = np.zeros(made.records, np.bool_)
    for found in _records(output):
        numbers = made.check(found)
        assert len(np.unique(numbers)) == len(numbers), "a record occurs twice"
        assert not seen[numbers].any(), f"record {numbers[seen[numbers]][0]} occurs twice"
        seen[numbers] = True
    assert seen.all(), f"{int((~seen).sum()):,} of {made.records:,} records are missing"


def _records(output: Path) -> Iterator[pa.RecordBatch]:
    """All records of the data set, with their features as columns."""
    source = Source.model_validate({"dataset": {"uri": str(output)}})
    units, state = DatasetReader.discover(source.member, Access()).collect()
    samples = np.arange(units.samples, dtype=np.int64)
    pieces = (samples[start : start + _CHECKED_AT_ONCE] for start in range(0, len(samples), _CHECKED_AT_ONCE))
    with DatasetReader(source.member, state, Access()) as reader:
        for batch in reader.read(units, pieces):
            assert not batch.bad, batch.bad[0].reason
            yield batch.records
