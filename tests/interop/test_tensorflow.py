"""TensorFlow reads every shard, record and field of the output. `verify` detects the damage that TensorFlow can't detect."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.jobs import output_of
from tests.builders.specs import job_into

from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import Output
from dataprep_converter.cli.convert_to_records import mnist_job
from dataprep_converter.core.errors import NotWhole
from dataprep_converter.formats.tfrecord.tfrecord_encoder import TfrecordEncoder
from dataprep_converter.inputs.access import Access
from dataprep_converter.records.feature import FeatureSpec
from dataprep_converter.tools.verification import verify
from workbench import mnist, photos

pytestmark = pytest.mark.interop

RECORD = 891


def digits_job(source: Path, output: Path, **options: Any) -> DataPrepJob:
    document = mnist_job(source=str(source), output=str(output), validation=5000, suffix=".gz").model_dump(by_alias=True, exclude_none=True)
    document["spec"]["output"] |= options
    return DataPrepJob.parse(document)


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mnist.copy_to(tmp_path_factory.mktemp("mnist"))


@pytest.fixture(scope="session")
def fewer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files with 11,000 training images and 100 test images."""
    return mnist.write(tmp_path_factory.mktemp("fewer"), train=11_000, test=100)


@pytest.fixture(scope="session")
def digits(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Synthetic MNIST, 70,000 images in three files."""
    return output_of(digits_job(source, tmp_path_factory.mktemp("digits")))


@pytest.fixture
def broken(digits: Path, tmp_path: Path) -> Path:
    """A copy of the data set to damage."""
    for file in digits.rglob("*"):
        target = tmp_path / file.relative_to(digits)
        if file.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    return tmp_path


def digit_features(tf: Any) -> dict[str, Any]:
    scalars = {name: tf.io.FixedLenFeature([], tf.int64) for name in ("height", "width", "depth", "label")}
    return scalars | {"image_raw": tf.io.FixedLenFeature([], tf.string)}


def assert_digits(tf: Any, records: Any, *, first: int, count: int) -> None:
    """Checks every field of every record in a dataset against the formula."""
    number = first
    for batch in records.batch(1000).map(lambda serialized: tf.io.parse_example(serialized, digit_features(tf))):
        numbers = np.arange(number, number + len(batch["label"]))
        pixels = ((31 * numbers[:, None] + 7 * np.arange(784)[None, :]) % 256).astype(np.uint8)
        assert b"".join(batch["image_raw"].numpy()) == pixels.tobytes()
        assert (batch["label"].numpy() == numbers % 10).all()
        assert [set(batch[name].numpy()) for name in ("height", "width", "depth")] == [{28}, {28}, {1}]
        number += len(numbers)
    assert number - first == count


def parsed(tf: Any, files: list[Path], features: dict[str, Any], *, compression: str = "") -> list[dict[str, Any]]:
    """All records, one by one."""
    found = []
    for serialized in tf.data.TFRecordDataset([str(file) for file in files], compression_type=compression):
        record = tf.io.parse_single_example(serialized, features)
        found.append(
            {name: (tf.sparse.to_dense(value) if hasattr(value, "dense_shape") else value).numpy() for name, value in record.items()}
        )
    return found


def test_every_field_of_every_digit_is_equal(tf: Any, digits: Path) -> None:
    for name, first in (("train", 5000), ("validation", 0), ("test", 60_000)):
        dataset = tf.data.TFRecordDataset(str(digits / f"{name}.tfrecords"))
        assert_digits(tf, dataset, first=first, count=mnist.FILES[f"{name}.tfrecords"].records)


def test_a_single_example_has_the_image_in_its_shape(tf: Any, digits: Path) -> None:
    for number, serialized in enumerate(tf.data.TFRecordDataset(str(digits / "validation.tfrecords")).take(20)):
        record = tf.io.parse_single_example(serialized, digit_features(tf))
        image = tf.reshape(tf.io.decode_raw(record["image_raw"], tf.uint8), [record["height"], record["width"], record["depth"]])
        assert image.shape == (28, 28, 1)
        assert image[3, 5, 0] == (31 * number + 7 * (3 * 28 + 5)) % 256


def test_shards_read_in_sequence_are_the_whole_data_set(tf: Any, fewer: Path, tmp_path: Path) -> None:
    output = output_of(digits_job(fewer, tmp_path, shards={"count": 8}, fileName="{split}-{shard}-of-{shards}.{ext}"))
    files = sorted(str(file) for file in output.glob("train-*"))
    assert len(files) == 8
    assert_digits(tf, tf.data.TFRecordDataset(files), first=5000, count=6000)
    in_parallel = tf.data.Dataset.from_tensor_slices(files).interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=4)
    assert in_parallel.reduce(np.int64(0), lambda count, _: count + 1).numpy() == 6000


@pytest.mark.parametrize(
    ("size", "epochs", "drop_remainder", "batches", "last"),
    [(100, 2, False, 1100, 100), (32, 1, False, 1719, 24), (32, 1, True, 1718, 32), (128, 1, False, 430, 88), (128, 1, True, 429, 128)],
)
def test_batches_and_epochs(tf: Any, digits: Path, size: int, epochs: int, drop_remainder: bool, batches: int, last: int) -> None:
    dataset = tf.data.TFRecordDataset(str(digits / "train.tfrecords")).repeat(epochs).batch(size, drop_remainder=drop_remainder)
    sizes = [int(length) for length in dataset.map(tf.size).as_numpy_iterator()]
    assert (len(sizes), sizes[-1], set(sizes[:-1])) == (batches, last, {size})


def test_gzip_shards_are_read_with_the_gzip_option(tf: Any, fewer: Path, tmp_path: Path) -> None:
    output = output_of(digits_job(fewer, tmp_path, fileName="{split}.{ext}", tfrecord={"compression": "Gzip"}))
    dataset = tf.data.TFRecordDataset(str(output / "validation.tfrecords.gz"), compression_type="GZIP")
    assert_digits(tf, dataset, first=0, count=5000)


def test_photographs_keep_their_bytes_and_have_their_class(tf: Any, tmp_path: Path) -> None:
    folder = photos.write(tmp_path / "photos")
    output = output_of(
        job_into(tmp_path / "out", source={"images": {"uris": [str(folder)]}}, shuffle={"seed": 7}, output={"shards": {"count": 3}})
    )
    features = {name: tf.io.FixedLenFeature([], tf.string) for name in ("image/encoded", "image/format", "image/class/text")}
    features |= {name: tf.io.FixedLenFeature([], tf.int64) for name in ("image/height", "image/width", "image/class/label")}

    records = parsed(tf, sorted(output.glob("*.tfrecords")), features)

    classes = sorted(each.name for each in folder.iterdir())
    expected = {(file.parent.name, classes.index(file.parent.name), file.read_bytes()) for file in folder.glob("*/*")}
    assert len(records) == len(expected) == 39
    assert {(r["image/class/text"].decode(), int(r["image/class/label"]), r["image/encoded"]) for r in records} == expected
    for record in records[:5]:
        assert tf.io.decode_jpeg(record["image/encoded"]).shape[:2] == (record["image/height"], record["image/width"])


COLUMNS = [("float", "Float32"), ("double", "Float64"), ("integer", "Int64"), ("text", "String"), ("flag", "Bool")]
ROWS = [
    ["1.5", "3.25", "-1", "plain", "true"],
    ["-0.1", "1e-3", "9223372036854775807", 'with "quotes", and a comma', "false"],
    ["3.4e38", "-2.5", "-9223372036854775808", "ünïcödé 日本", "true"],
    ["0", "0", "0", "", "false"],
]


def test_numbers_and_texts_of_a_csv_are_equal(tf: Any, tmp_path: Path) -> None:
    with (tmp_path / "in.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(ROWS)
    columns = [{"name": name, "type": kind} for name, kind in COLUMNS]
    output = output_of(
        job_into(
            tmp_path / "out",
            source={"csv": {"uris": [str(tmp_path / "in.csv")], "columns": columns}},
            features=[*({"name": name} for name, _ in COLUMNS), {"name": "both", "columns": ["float", "double"], "dtype": "float32"}],
        )
    )
    kinds = {"float": tf.float32, "double": tf.float32, "integer": tf.int64, "text": tf.string, "flag": tf.int64}
    features = {name: tf.io.FixedLenFeature([], kind) for name, kind in kinds.items()} | {"both": tf.io.FixedLenFeature([2], tf.float32)}

    records = parsed(tf, sorted(output.glob("*.tfrecords")), features)

    assert len(records) == len(ROWS)
    for record, (real, double, integer, text, flag) in zip(records, ROWS, strict=True):
        assert (record["integer"], record["text"].decode(), record["flag"]) == (int(integer), text, flag == "true")
        assert record["float"] == np.float32(real)
        assert record["double"] == np.float32(double)
        assert record["both"].tolist() == [np.float32(real), np.float32(double)]


def test_lists_of_any_length_are_equal(tf: Any, tmp_path: Path) -> None:
    """The encoder accepts lists of different lengths, although no reader yields them yet."""
    lists: dict[str, list[list[Any]]] = {
        "ints": [[1, -1, 2**63 - 1], [], [-(2**63)], [127, 128, 300, -300]],
        "floats": [[], [0.5, -0.25], [1e-45, float("inf")], [0.0]],
        "texts": [[b"a", b""], [b"\x00\xff"], [], [b"x" * 300]],
    }
    types = {"ints": pa.list_(pa.int64()), "floats": pa.list_(pa.float32()), "texts": pa.list_(pa.binary())}
    features = [
        FeatureSpec(name=name, kind=kind, dtype=dtype, shape=())
        for name, kind, dtype in (("ints", "int64", "int64"), ("floats", "float", "float32"), ("texts", "bytes", "bytes"))
    ]
    batch = pa.record_batch({name: pa.array(values, types[name]) for name, values in lists.items()})
    file = tmp_path / "lists.tfrecords"
    file.write_bytes(TfrecordEncoder(Output(uri="out"), features).encode(batch))
    kinds = {"ints": tf.int64, "floats": tf.float32, "texts": tf.string}

    records = parsed(tf, [file], {name: tf.io.VarLenFeature(kind) for name, kind in kinds.items()})

    for name, values in lists.items():
        expected = [np.array(row, np.float32).tolist() for row in values] if name == "floats" else values
        assert [record[name].tolist() for record in records] == expected


SEQUENCES: dict[str, tuple[str, pa.DataType, list[list[Any]]]] = {
    "vector": ("float", pa.list_(pa.float32(), 2), [[[0.5, -0.25], [1e-45, 3.0]], [], [[0.0, 1.0]]]),
    "ints": ("int64", pa.int64(), [[1, -1, 2**63 - 1], [-(2**63)], []]),
    "texts": ("bytes", pa.binary(), [[b"a", b"\x00\xff", b""], [b"x" * 300], [b"b"]]),
    "ragged": ("int64", pa.list_(pa.int64()), [[[1, -2], [], [3]], [[300]], []]),
}


def test_sequences_and_their_context_are_equal(tf: Any, tmp_path: Path) -> None:
    features = [FeatureSpec(name, kind, kind, (-1,), sequence=True) for name, (kind, _, _) in SEQUENCES.items()]
    features += [FeatureSpec("id", "int64", "int64", ()), FeatureSpec("name", "bytes", "bytes", ())]
    columns = {name: pa.array(rows, pa.list_(step)) for name, (_, step, rows) in SEQUENCES.items()}
    batch = pa.record_batch({**columns, "id": [7, -7, 2**40], "name": ["a", "", "é"]})
    file = tmp_path / "sequences.tfrecords"
    file.write_bytes(TfrecordEncoder(Output(uri="out"), features).encode(batch))
    steps = {
        "vector": tf.io.FixedLenSequenceFeature([2], tf.float32),
        "ints": tf.io.FixedLenSequenceFeature([], tf.int64),
        "texts": tf.io.FixedLenSequenceFeature([], tf.string),
        "ragged": tf.io.RaggedFeature(tf.int64),
    }
    alone = {"id": tf.io.FixedLenFeature([], tf.int64), "name": tf.io.FixedLenFeature([], tf.string)}

    found = [tf.io.parse_single_sequence_example(serialized, alone, steps) for serialized in tf.data.TFRecordDataset(str(file))]

    assert [(context["id"].numpy(), context["name"].numpy().decode()) for context, _ in found] == [(7, "a"), (-7, ""), (2**40, "é")]
    for name, (_, _, rows) in SEQUENCES.items():
        values = [lists[name] for _, lists in found]
        read = [value.to_list() if hasattr(value, "to_list") else value.numpy().tolist() for value in values]
        expected = [np.array(row, np.float32).tolist() for row in rows] if name == "vector" else rows
        assert read == expected, name


def read_until_an_error(tf: Any, file: Path) -> Iterator[int]:
    """Numbers of the records that TensorFlow reads before it fails."""
    with pytest.raises(tf.errors.DataLossError):
        yield from (number for number, _ in enumerate(tf.data.TFRecordDataset(str(file))))


def test_a_flipped_bit_is_detected_at_the_same_record(tf: Any, broken: Path) -> None:
    file = broken / "validation.tfrecords"
    content = bytearray(file.read_bytes())
    content[1234 * RECORD + 500] ^= 0x10
    file.write_bytes(content)

    read = list(read_until_an_error(tf, file))
    with pytest.raises(NotWhole) as found:
        verify(str(broken), Access())

    named = re.search(r"validation\.tfrecords: bad data CRC at offset (\d+)", str(found.value))
    assert named is not None, found.value
    assert len(read) == int(named[1]) // RECORD == 1234


def test_only_verify_detects_a_cut_between_records(tf: Any, broken: Path) -> None:
    file = broken / "validation.tfrecords"
    file.write_bytes(file.read_bytes()[: 4000 * RECORD])

    assert sum(1 for _ in tf.data.TFRecordDataset(str(file))) == 4000
    with pytest.raises(NotWhole, match=r"validation\.tfrecords has 3564000 bytes instead of 4455000.*has 4000 records instead of 5000"):
        verify(str(broken), Access())
