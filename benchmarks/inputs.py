"""Makes the workloads' data from a seed, in any size: files in a folder, the same for every contender."""

import gzip
import shutil
import struct
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import Image
from pyarrow import csv
from pyarrow import parquet as pq

from workbench import photos

_ROWS = 50_000
_PHOTO = (500, 375)
_SMALL_FILE = 600

arrow: Any = pa
"""pyarrow without types, because its stubs don't support arrays with numpy's types."""

Make = Callable[[Path, int, np.random.Generator], None]


def images(folder: Path, records: int, rng: np.random.Generator) -> None:
    """Makes JPEG files of 500 x 375 pixels and about 110 kB from photographs, in one folder for each of three classes."""
    encoded: dict[str, list[bytes]] = {}
    for file in sorted(photos.write(folder.with_name(f"{folder.name}-photos")).glob("*/*.jpg"))[::3]:
        with Image.open(file) as photo:
            grain = rng.normal(0, 6, (_PHOTO[1], _PHOTO[0], 3))
            pixels = np.clip(np.asarray(photo.convert("RGB").resize(_PHOTO)) + grain, 0, 255).astype(np.uint8)
        file.unlink()
        Image.fromarray(pixels).save(file, quality=95)
        encoded.setdefault(file.parent.name, []).append(file.read_bytes())
    for number in range(records):
        name = sorted(encoded)[number % len(encoded)]
        target = folder / name / f"{number:07d}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(encoded[name][number // len(encoded) % len(encoded[name])])


def pictures(folder: Path, records: int, rng: np.random.Generator) -> None:
    """Makes a table of JPEG files like those of `images`, each with a class and the class's name."""
    images(folder / "files", records, rng)
    files = sorted((folder / "files").glob("*/*.jpg"))
    names = [file.parent.name for file in files]
    labels = np.searchsorted(sorted(set(names)), names)
    _put(folder, arrow.table({"image": [file.read_bytes() for file in files], "label": labels, "name": names}))
    shutil.rmtree(folder / "files")
    shutil.rmtree(folder / "files-photos")


def small_samples(folder: Path, records: int, rng: np.random.Generator) -> None:
    """Makes 600-byte pictures, each with a class label. Because they are small, a library spends most of its time on the work per
    sample."""
    pictures = rng.integers(0, 256, (records, _SMALL_FILE), np.uint8)
    classes = rng.integers(0, 10, records)
    column = arrow.FixedSizeBinaryArray.from_buffers(pa.binary(_SMALL_FILE), records, [None, arrow.py_buffer(pictures.tobytes())])
    _put(folder, arrow.table({"jpg": column.cast(pa.binary()), "cls": classes}))
    np.savez(folder / "table.npz", jpg=pictures, cls=classes)


def idx(folder: Path, records: int, rng: np.random.Generator) -> None:
    """Makes IDX files like MNIST's, with 28 x 28 pixels and a label for each record."""
    pixels = rng.integers(0, 256, (records, 28, 28), np.uint8) * (rng.random((records, 28, 28)) < 0.2)
    labels = rng.integers(0, 10, records, np.uint8)
    for name, values in (("images", pixels.astype(np.uint8)), ("labels", labels)):
        head = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
        (folder / f"{name}.idx").write_bytes(head + values.tobytes())


def idx_gzip(folder: Path, records: int, rng: np.random.Generator) -> None:
    """Makes the same files as `idx`, but compressed with gzip."""
    idx(folder, records, rng)
    for file in sorted(folder.glob("*.idx")):
        file.with_suffix(".idx.gz").write_bytes(gzip.compress(file.read_bytes(), 1))
        file.unlink()


def _columns(records: int, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    numbers: dict[str, npt.NDArray[Any]] = {f"n{place:02d}": rng.integers(0, 120, records) for place in range(10)}
    return numbers | {f"x{place:02d}": rng.random(records, np.float32) for place in range(12)}


def table(folder: Path, records: int, rng: np.random.Generator) -> None:
    """Makes a table of 22 columns: 10 with small whole numbers and 12 with floats."""
    columns = _columns(records, rng)
    _put(folder, arrow.table(columns))
    np.savez(folder / "table.npz", **columns)  # type: ignore[arg-type]  # its stub takes no mapping of arrays


def csv_table(folder: Path, records: int, rng: np.random.Generator) -> None:
    """Makes a CSV file with the 22 columns of `table`."""
    with csv.CSVWriter(folder / "table.csv", arrow.table(_columns(0, rng)).schema) as out:
        for first in range(0, records, _ROWS):
            out.write_table(arrow.table(_columns(min(_ROWS, records - first), rng)))


def parquet_table(folder: Path, records: int, rng: np.random.Generator) -> None:
    """Makes a Parquet file with the 22 columns of `table`, compressed with snappy, with 50,000 rows in each row group."""
    pq.write_table(arrow.table(_columns(records, rng)), folder / "table.parquet", row_group_size=_ROWS, compression="snappy")


def parquet_files(folder: Path, records: int, rng: np.random.Generator) -> None:
    """Makes Parquet files of 100 rows with the 22 columns of `table`."""
    rows = arrow.table(_columns(100, rng))
    for number in range(records // 100):
        pq.write_table(rows, folder / f"{number:05}.parquet")


def tables_with_nulls(folder: Path, records: int, rng: np.random.Generator) -> None:
    """Makes a Parquet file of 22 columns (10 with small whole numbers, 4 with booleans, 8 with floats), and a second file in which a tenth
    of all values are null."""
    columns: dict[str, npt.NDArray[Any]] = {f"n{place}": rng.integers(0, 120, records) for place in range(10)}
    columns |= {f"b{place}": rng.random(records) < 0.5 for place in range(4)} | {
        f"x{place}": rng.random(records, np.float32) for place in range(8)
    }
    nullable = {name: arrow.array(values, mask=rng.random(records) < 0.1) for name, values in columns.items()}
    for name, table_columns in (("full", columns), ("nulls", nullable)):
        pq.write_table(arrow.table(table_columns), folder / f"{name}.parquet", row_group_size=_ROWS, compression="snappy")


def two_tables(folder: Path, records: int, rng: np.random.Generator) -> None:
    """Makes two Parquet files with the same keys in different orders, and four floats in each row. A third file has the joined rows without
    the keys."""
    joined: dict[str, Any] = {}
    for name in ("left", "right"):
        keys = rng.permutation(records)
        columns = {f"{name}{place}": rng.random(records, np.float32) for place in range(4)}
        pq.write_table(arrow.table({"id": keys} | columns), folder / f"{name}.parquet", row_group_size=_ROWS, compression="snappy")
        order = np.argsort(keys)
        joined |= {column: values[order] for column, values in columns.items()}
    pq.write_table(arrow.table(joined), folder / "joined.parquet", row_group_size=_ROWS, compression="snappy")


def ragged(folder: Path, records: int, rng: np.random.Generator) -> None:
    """Makes a table in which each row has two texts and a list of integers, all of variable length, and a small or large integer."""

    def texts(longest: int) -> Any:
        ends = np.concatenate(([0], np.cumsum(rng.integers(1, longest, records)))).astype(np.int32)
        letters = rng.integers(97, 123, int(ends[-1]), np.uint8)
        return arrow.StringArray.from_buffers(records, arrow.py_buffer(ends), arrow.py_buffer(letters))

    ends = np.concatenate(([0], np.cumsum(rng.integers(0, 12, records)))).astype(np.int32)
    words = rng.integers(0, 50_000, int(ends[-1]))
    _put(
        folder,
        arrow.table(
            {
                "title": texts(30),
                "text": texts(120),
                "words": arrow.ListArray.from_arrays(arrow.array(ends), arrow.array(words)),
                "user": 2 ** rng.integers(0, 40, records),
            }
        ),
    )


def sequences(folder: Path, records: int, rng: np.random.Generator) -> None:
    """Makes a table with sequences of 50 steps of 20 floats, and a label."""
    values = arrow.array(rng.random(records * 50 * 20, np.float32))
    steps = arrow.FixedSizeListArray.from_arrays(values, 20)
    rows = arrow.ListArray.from_arrays(arrow.array(np.arange(records + 1, dtype=np.int32) * 50), steps)
    schema = pa.schema([pa.field("steps", rows.type, metadata={"sequence": "yes"}), pa.field("label", pa.int64())])
    _put(folder, pa.Table.from_arrays([rows, arrow.array(rng.integers(0, 10, records))], schema=schema))


def dense(folder: Path, records: int, rng: np.random.Generator) -> None:
    """Makes a table with 784 floats and a label in each row."""
    values = rng.random((records, 784), np.float32)
    labels = rng.integers(0, 10, records).astype(np.float32)
    _put(folder, arrow.table({"values": arrow.FixedSizeListArray.from_arrays(arrow.array(values.reshape(-1)), 784), "label": labels}))
    np.savez(folder / "table.npz", values=values, label=labels)


def sparse(folder: Path, records: int, rng: np.random.Generator) -> None:
    """Makes a table of sparse rows. Each row has floats at 50 of 10,000 positions, and a label."""
    keys = np.sort(rng.integers(0, 200, (records, 50)) + np.arange(50) * 200, axis=1)
    values = rng.random((records, 50), np.float32)
    labels = rng.integers(0, 2, records).astype(np.float32)
    ends = arrow.array(np.arange(records + 1, dtype=np.int32) * 50)
    lists = {name: arrow.ListArray.from_arrays(ends, arrow.array(of.reshape(-1))) for name, of in (("keys", keys), ("values", values))}
    _put(folder, arrow.table({**lists, "label": labels}))
    np.savez(folder / "table.npz", keys=keys, values=values, label=labels)


def one_object(folder: Path, records: int, rng: np.random.Generator) -> None:
    """Makes a file of `records` MiB of incompressible bytes."""
    with (folder / "object").open("wb") as out:
        for _ in range(records):
            out.write(rng.bytes(1 << 20))


def nothing(folder: Path, records: int, rng: np.random.Generator) -> None:
    """Makes no files, because the workload needs none or makes them itself."""
    del folder, records, rng


def _put(folder: Path, data: pa.Table) -> None:
    with pa.ipc.new_file(str(folder / "table.arrow"), data.schema) as out:
        out.write_table(data)


MAKERS: Mapping[str, Make] = {
    made.__name__: made
    for made in (
        images,
        pictures,
        small_samples,
        idx,
        idx_gzip,
        table,
        csv_table,
        parquet_table,
        parquet_files,
        ragged,
        sequences,
        dense,
        sparse,
        tables_with_nulls,
        two_tables,
        one_object,
        nothing,
    )
}
"""Maps the names that the workloads use to these functions."""


def kept(folder: Path, name: str, records: int, seed: int) -> Path:
    """Returns the folder with the data that a function of MAKERS makes from a seed. The data is kept in `folder` for the next workload that
    uses the same data."""
    place = folder / f"{name}-{records}-{seed}"
    if not place.exists():
        with tempfile.TemporaryDirectory(dir=folder) as making:
            made = Path(making) / "input"
            made.mkdir()
            MAKERS[name](made, records, np.random.default_rng(seed))
            # Two concurrent workloads might both have made this folder. The first folder is kept.
            with suppress(OSError):
                made.rename(place)
    return place
