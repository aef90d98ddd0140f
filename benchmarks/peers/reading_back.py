"""Reads outputs back with third-party libraries. Prints the number of records, and a digest of the first N records for each requested N.

    reading_back.py '[[KIND, OUTPUT, [COUNT, …]], …]'

The kinds are the keys of READERS and BATCHES. Equal digests mean that the records have equal keys, types, values and order. For `shuffled`,
the order has a separate digest. JPEG decoders differ in the last bits of a pixel, so for decoded images some values of each image are
printed instead of a digest. Some kinds read a workload's input, with third-party libraries only, to check that the output has the same
digest.
"""

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_EVERY = 4999
_BATCH = 128
"""The number of records in each batch that TensorFlow returns. Reading a record takes 2.5 µs in such batches, and 127 µs one by one."""
_ROWS = 16_384
_FRAME = 16
"""The number of bytes around each record in a TFRecord file."""

Piece = tuple[int, bytes]
"""A number of records, and bytes that identify them."""


def files(output: Path, ending: str) -> list[Path]:
    """Returns the visible files, in order."""
    return sorted(path for path in output.glob(f"*.{ending}") if path.name[0] not in "_.")


def _tensorflow() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    return tf


def _records(output: Path) -> Iterator[bytes]:
    tf = _tensorflow()
    found = tf.data.TFRecordDataset(list(map(str, files(output, "tfrecords"))))
    for batch in found.batch(_BATCH).prefetch(2).as_numpy_iterator():
        yield from batch


def _webdataset(output: Path) -> Iterator[bytes]:
    import webdataset

    shards = list(map(str, files(output, "tar")))
    for sample in webdataset.WebDataset(shards, shardshuffle=False):
        yield b"".join(key.encode() + value for key, value in sorted(sample.items()) if not key.startswith("__"))


def _recordio(output: Path) -> Iterator[bytes]:
    from sagemaker_recordio import serializer_utils

    for path in files(output, "rec"):
        with path.open("rb") as file:
            yield from serializer_utils.read_recordio(file)


def _arrayrecord(output: Path) -> Iterator[bytes]:
    from array_record.python.array_record_module import ArrayRecordReader

    for path in files(output, "array_record"):
        yield from ArrayRecordReader(str(path)).read_all()


def _npz(output: Path) -> Iterator[bytes]:
    (path,) = files(output, "npz")
    with np.load(path) as held:
        matrices = [held[name].reshape(len(held[name]), -1).view(np.uint8) for name in sorted(held)]
    for rows in zip(*matrices, strict=True):
        yield b"".join(row.tobytes() for row in rows)


def _sequencefile(output: Path) -> Iterator[bytes]:
    """Reads the files with Hadoop's reader, and yields the digests of each key and value."""
    program = Path(__file__).with_name("SequenceFiles.java")
    command = ["java", "-Xmx512m", "-cp", os.environ["BENCH_HADOOP_CLASSES"], str(program), *map(str, sorted(output.glob("part-*")))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as java:
        assert java.stdout is not None  # noqa: S101 - it is a pipe
        for line in java.stdout:
            yield line.strip()
    if java.returncode != 0:
        raise RuntimeError(f"Hadoop's reader ended with {java.returncode}")


def _named(source: Path) -> Iterator[bytes]:
    """Yields the expected lines of `_sequencefile` for a folder of files: the digests of their names and contents."""
    for path in _found(source):
        name = path.relative_to(source).as_posix()
        yield f"{hashlib.sha256(name.encode()).hexdigest()} {hashlib.sha256(path.read_bytes()).hexdigest()}".encode()


def _contents(output: Path) -> Iterator[bytes]:
    """Yields the file that each Example contains."""
    example = _tensorflow().train.Example
    for record in _records(output):
        feature = example.FromString(record).features.feature
        yield feature["content" if "content" in feature else "image/encoded"].bytes_list.value[0]


def _files(source: Path) -> Iterator[bytes]:
    """Yields the expected results of `_contents`: the files of a folder."""
    for path in _found(source):
        yield path.read_bytes()


def _found(source: Path) -> list[Path]:
    return sorted(path for path in source.rglob("*") if path.is_file())


def _uploaded(output: Path) -> Iterator[bytes]:
    """Yields the uploaded object in pieces of 1 MiB, from the server's disk or through its REST API. The folder's name is the object's
    name."""
    server = json.loads((output.parent / "server.json").read_text())
    if "url" in server:
        address = server["url"].replace("OBJECT", output.name)
    elif "path" in server:
        address = (Path(server["path"]) / output.name).as_uri()
    else:
        address = _oss_file(server, output.name)
    with urllib.request.urlopen(address) as found:  # noqa: S310 - of our own server
        while piece := found.read(1 << 20):
            yield piece


def _object(source: Path) -> Iterator[bytes]:
    """Yields the expected result of `_uploaded`: the file's pieces."""
    with (source / "object").open("rb") as file:
        while piece := file.read(1 << 20):
            yield piece


def _oss_file(server: Mapping[str, str], key: str) -> str:
    with urllib.request.urlopen(server["objects"]) as answer:  # noqa: S310 - see above
        (name,) = [each["content"]["name"] for each in json.load(answer) if each["key"] == key]
    return Path(f"{server['data']}/{server['bucket']}/content/{name}").as_uri()


READERS: Mapping[str, Callable[[Path], Iterable[bytes]]] = {
    "tfrecord": _records,
    "sequences": _records,
    "decoded": _records,
    "shuffled": _records,
    "contents": _contents,
    "files": _files,
    "webdataset": _webdataset,
    "resized": _webdataset,
    "arrayrecord": _arrayrecord,
    "recordio": _recordio,
    "npz": _npz,
    "sequencefile": _sequencefile,
    "named": _named,
    "uploaded": _uploaded,
    "object": _object,
}
"""Maps a kind to the function that reads outputs of this kind record by record."""


def _message(name: str) -> Callable[[bytes], bytes]:
    kind = getattr(_tensorflow().train, name)
    return lambda record: kind.FromString(record).SerializeToString(deterministic=True)  # type: ignore[no-any-return]


def _sagemaker_record() -> Callable[[bytes], bytes]:
    from sagemaker_recordio import serializer_utils

    return lambda record: serializer_utils.Record.FromString(record).SerializeToString(deterministic=True)


FORMS: Mapping[str, Callable[[], Callable[[bytes], bytes]]] = {
    "tfrecord": lambda: _message("Example"),
    "arrayrecord": lambda: _message("Example"),
    "sequences": lambda: _message("SequenceExample"),
    "recordio": _sagemaker_record,
}
"""Maps a kind to a function that converts a record to a canonical form, because libraries write a record's keys in any order."""


def _raw(output: Path) -> Iterator[Piece]:
    """Yields the bytes of our own records, file by file. Raises ValueError if the offsets in an index are wrong."""
    tf = _tensorflow()
    for path in files(output, "tfrecords"):
        sizes = []
        for batch in tf.data.TFRecordDataset(str(path)).batch(_BATCH).prefetch(2).as_numpy_iterator():
            sizes.append(np.fromiter(map(len, batch), np.int64, len(batch)))
            yield len(batch), sizes[-1].tobytes() + b"".join(batch)
        index = _index(output, path)
        if index.exists():
            framed = np.concatenate(sizes) + _FRAME
            if not np.array_equal(np.loadtxt(index, np.int64, ndmin=2), np.stack([np.cumsum(framed) - framed, framed], axis=1)):
                raise ValueError(f"{index.name} has wrong record offsets")


def _index(output: Path, path: Path) -> Path:
    return output / "_dataprep" / "index" / f"{path.name}.idx"


def _columns(folder: Path) -> Iterator[Piece]:
    """Yields the values in rows of numbers. Arrow reads Parquet, CSV and Arrow files, and TensorFlow reads TFRecord. The key of a join is
    left out."""
    import pyarrow.csv
    import pyarrow.parquet

    if (folder / "in any order.parquet").exists():
        table = pyarrow.parquet.read_table(folder / "in any order.parquet")
        yield _rows({name: column.to_numpy() for name, column in zip(table.column_names, table.sort_by("id").columns, strict=True)})
    elif found := files(folder, "parquet"):
        for path in found:
            yield from map(_of_batch, pyarrow.parquet.ParquetFile(path).iter_batches(_ROWS))
    elif found := files(folder, "csv"):
        yield from map(_of_batch, pyarrow.csv.open_csv(found[0]))
    elif found := files(folder, "arrow"):
        yield from map(_of_batch, pyarrow.ipc.open_file(str(found[0])).read_all().to_batches())
    else:
        yield from map(_rows, _parsed(folder))


def _of_batch(batch: Any) -> Piece:
    return _rows({name: batch[name].to_numpy() for name in batch.schema.names})


def _parsed(output: Path) -> Iterator[Mapping[str, npt.NDArray[Any]]]:
    tf = _tensorflow()
    found = tf.data.TFRecordDataset(list(map(str, files(output, "tfrecords"))))
    kinds = {"float_list": tf.float32, "int64_list": tf.int64}
    first = tf.train.Example.FromString(next(found.as_numpy_iterator())).features.feature
    features = {name: tf.io.FixedLenFeature([], kinds[feature.WhichOneof("kind")]) for name, feature in first.items()}
    yield from found.batch(_ROWS).map(lambda batch: tf.io.parse_example(batch, features)).prefetch(2).as_numpy_iterator()


def _rows(columns: Mapping[str, npt.NDArray[Any]]) -> Piece:
    names = sorted(name for name in columns if name != "id")
    rows = np.empty(len(columns[names[0]]), [(name, "<i8" if columns[name].dtype.kind == "i" else "<f4") for name in names])
    for name in names:
        rows[name] = columns[name]
    return len(rows), rows.tobytes()


def _digits(output: Path) -> Iterator[Piece]:
    """Yields the pixels and the label of each Example."""
    tf = _tensorflow()
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    found = tf.data.TFRecordDataset(list(map(str, files(output, "tfrecords")))).batch(_ROWS)
    for batch in found.map(lambda some: tf.io.parse_example(some, features)).prefetch(2).as_numpy_iterator():
        yield len(batch["label"]), b"".join(image + bytes([label]) for image, label in zip(batch["image"], batch["label"], strict=True))


def _idx(source: Path) -> Iterator[Piece]:
    """Yields the expected results of `_digits` from IDX files, plain or gzipped."""
    images, labels = (_plain(next(source.glob(f"{name}.idx*"))) for name in ("images", "labels"))
    rows = np.concatenate([images[16:].reshape(-1, 28 * 28), labels[8:].reshape(-1, 1)], axis=1)
    yield len(rows), rows.tobytes()


def _plain(path: Path) -> npt.NDArray[np.uint8]:
    content = path.read_bytes()
    return np.frombuffer(gzip.decompress(content) if path.suffix == ".gz" else content, np.uint8)


BATCHES: Mapping[str, Callable[[Path], Iterable[Piece]]] = {"raw": _raw, "columns": _columns, "digits": _digits, "idx": _idx}
"""Maps a kind to the function that reads outputs of this kind in batches, so that reading millions of records takes only seconds."""


def told(record: bytes) -> list[float]:
    """Returns a few values of a decoded image. The float16 values at the end of a record are the image."""
    values = np.frombuffer(record[-(len(record) // 2 * 2) :], np.float16).astype(np.float64)
    return [round(float(value), 2) for value in values[-_EVERY::-_EVERY]]


def pictured(record: bytes) -> list[float]:
    """Returns the size of a JPEG and the mean of each of its 64 parts, in units of 64 levels. The size is scaled so that a difference of
    one pixel counts as a fault."""
    from PIL import Image

    with Image.open(io.BytesIO(record[record.index(b"\xff\xd8\xff") :])) as picture:
        small = np.asarray(picture.convert("RGB").resize((8, 8), Image.Resampling.BOX))
        return [*(100.0 * side for side in picture.size), *(round(float(value) / 64, 2) for value in small.mean(axis=2).reshape(-1))]


TELLERS: Mapping[str, Callable[[bytes], list[float]]] = {"decoded": told, "resized": pictured}
"""Maps a kind of decoded image to the function that returns some of its values. Digests can't be used, because JPEG decoders differ in the
last bits."""


class Found:
    """The findings about an output, collected while it is read."""

    def __init__(self) -> None:
        self.records = 0
        self.digests: dict[int, str] = {}
        self.values: list[list[float]] = []
        self.order = ""

    def tell(self, kind: str, output: Path) -> None:
        """Collects a few values of each record."""
        self.values = [TELLERS[kind](record) for record in READERS[kind](output)]
        self.records = len(self.values)

    def collect(self, kind: str, output: Path) -> None:
        """Computes a digest of the set of records (the sum of the records' digests) and a digest of the records' order."""
        order = hashlib.sha256()
        total = 0
        for self.records, record in enumerate(READERS[kind](output), start=1):
            digest = hashlib.sha256(record).digest()
            order.update(digest)
            total += int.from_bytes(digest)
        self.digests[self.records] = f"{total:x}"
        self.order = order.hexdigest()

    def digest(self, kind: str, output: Path, counts: list[int]) -> None:
        """Computes the digests of the first records, for each number in `counts`. The records after the largest number are only counted."""
        form = FORMS[kind]() if kind in FORMS else bytes
        pieces = BATCHES[kind](output) if kind in BATCHES else ((1, record) for record in READERS[kind](output))
        digest = hashlib.sha256()
        for records, piece in pieces:
            before = self.records
            self.records += records
            if kind in BATCHES:
                self._digest_within(digest, before, piece, counts)
                digest.update(piece)
            elif self.records <= counts[-1]:
                record = form(piece)
                digest.update(len(record).to_bytes(8, "little") + record)
            if self.records in counts:
                self.digests[self.records] = digest.hexdigest()

    def _digest_within(self, digest: Any, before: int, piece: bytes, counts: list[int]) -> None:
        """For each number in `counts` that is reached within a batch, computes the digest of the first records up to this number.

        The batch's records have equal sizes.
        """
        for count in counts:
            if before < count < self.records:
                some = digest.copy()
                some.update(piece[: (count - before) * len(piece) // (self.records - before)])
                self.digests[count] = some.hexdigest()


def checked(kind: str, output: Path, counts: list[int]) -> dict[str, Any]:
    found = Found()
    error = ""
    try:
        if kind in TELLERS:
            found.tell(kind, output)
        elif kind == "shuffled":
            found.collect(kind, output)
        else:
            found.digest(kind, output, counts)
    except Exception as exc:  # the library can raise any exception, and the other outputs must still be read
        error = f"{type(exc).__name__}: {exc}"
    indexes = sum(_index(output, path).exists() for path in files(output, "tfrecords")) if kind == "raw" else 0
    return vars(found) | {"indexes": indexes, "error": error}


def main(asked: list[tuple[str, str, list[int]]]) -> None:
    json.dump([checked(kind, Path(output), counts) for kind, output, counts in asked], sys.stdout)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
