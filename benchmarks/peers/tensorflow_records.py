"""Writes a tf.train.Example for each record with TensorFlow's TFRecordWriter, as shown in its guides.

tensorflow_records.py images|idx|table|csv|parquet|pictures|pictures-dropped|ragged|sequences INPUT OUTPUT RECORDS

`pictures-dropped` writes to /dev/null.
"""

import csv
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf
from clocked import clocked

_ROWS = 10_000


def ints(*values: int) -> Any:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def floats(values: Any) -> Any:
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def texts(*values: bytes) -> Any:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def example(feature: Mapping[str, Any]) -> bytes:
    found: bytes = tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
    return found


def row(values: Mapping[str, Any]) -> bytes:
    """Returns an Example with a single number for each name."""
    return example({name: floats([value]) if isinstance(value, float) else ints(value) for name, value in values.items()})


def held(source: Path, records: int) -> pa.Table:
    """Returns the first rows of the table. The file is memory-mapped, so the other rows are never loaded."""
    return pa.ipc.open_file(pa.memory_map(str(source / "table.arrow"))).read_all().slice(0, records)


def images(source: Path) -> Iterator[bytes]:
    classes = sorted(folder.name for folder in source.iterdir())
    for number, name in enumerate(classes):
        for path in sorted((source / name).iterdir()):
            content = tf.io.gfile.GFile(str(path), "rb").read()
            yield example({"image/encoded": texts(content), "image/class/label": ints(number), "image/class/text": texts(name.encode())})


def pictures(table: pa.Table) -> Callable[[Path], Iterator[bytes]]:
    rows = table.to_pylist()

    def records(_: Path) -> Iterator[bytes]:
        for found in rows:
            yield example({"image": texts(found["image"]), "label": ints(found["label"]), "name": texts(found["name"].encode())})

    return records


def idx(source: Path) -> Iterator[bytes]:
    pixels = np.fromfile(source / "images.idx", np.uint8)[16:].reshape(-1, 28, 28)
    labels = np.fromfile(source / "labels.idx", np.uint8)[8:]
    for image, label in zip(pixels, labels, strict=True):
        yield example({"image": texts(image.tobytes()), "label": ints(label)})


def numbers(table: pa.Table) -> Callable[[Path], Iterator[bytes]]:
    rows = table.to_pylist()
    return lambda _: map(row, rows)


def delimited(source: Path) -> Iterator[bytes]:
    with (source / "table.csv").open(newline="") as file:
        for found in csv.DictReader(file):
            yield row({name: float(value) if name[0] == "x" else int(value) for name, value in found.items()})


def parquet(source: Path) -> Iterator[bytes]:
    for batch in pq.ParquetFile(source / "table.parquet").iter_batches(_ROWS):
        yield from map(row, batch.to_pylist())


def ragged(table: pa.Table) -> Callable[[Path], Iterator[bytes]]:
    rows = table.to_pylist()

    def records(_: Path) -> Iterator[bytes]:
        for found in rows:
            yield example(
                {
                    "title": texts(found["title"].encode()),
                    "text": texts(found["text"].encode()),
                    "words": ints(*found["words"]),
                    "user": ints(found["user"]),
                }
            )

    return records


def sequences(table: pa.Table) -> Callable[[Path], Iterator[bytes]]:
    rows: list[tuple[Any, Any]] = list(zip(table["steps"].to_pylist(), table["label"].to_pylist(), strict=True))

    def records(_: Path) -> Iterator[bytes]:
        for steps, label in rows:
            lists = {"steps": tf.train.FeatureList(feature=[floats(step) for step in steps])}
            made = tf.train.SequenceExample(
                context=tf.train.Features(feature={"label": ints(label)}), feature_lists=tf.train.FeatureLists(feature_list=lists)
            )
            yield made.SerializeToString()

    return records


_FROM_FILES: Mapping[str, Callable[[Path], Iterator[bytes]]] = {"images": images, "idx": idx, "csv": delimited, "parquet": parquet}
_FROM_MEMORY: Mapping[str, Callable[[pa.Table], Callable[[Path], Iterator[bytes]]]] = {
    "table": numbers,
    "pictures": pictures,
    "pictures-dropped": pictures,
    "ragged": ragged,
    "sequences": sequences,
}


def main(kind: str, source: Path, output: Path, records: int) -> None:
    place = Path("/dev/null") if kind == "pictures-dropped" else output / "data.tfrecords"
    made = _FROM_MEMORY[kind](held(source, records)) if kind in _FROM_MEMORY else _FROM_FILES[kind]

    def work() -> int:
        count = 0
        with tf.io.TFRecordWriter(str(place)) as out:
            for record in itertools.islice(made(source), records):
                out.write(record)
                count += 1
        return count

    clocked(work)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
