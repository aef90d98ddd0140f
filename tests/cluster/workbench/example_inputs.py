"""Generates a small input for each job in `examples/`."""

import importlib.util
import io
import json
import shutil
import sqlite3
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather, orc

from dataprep_api import API_VERSION, KIND
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.cli.display import Display
from dataprep_converter.core.framing import frame
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps.run import run
from workbench import mnist, photos


def scikit_learn_data() -> Path:
    """The folder of the data sets that scikit-learn ships. scikit-learn isn't imported, because the import takes a second and a half."""
    package = importlib.util.find_spec("sklearn")
    assert package is not None
    assert package.submodule_search_locations
    return Path(package.submodule_search_locations[0], "datasets")


def iris(folder: Path) -> Path:
    """The 150 flowers of scikit-learn's iris.csv: a header with counts and names, then rows of four measurements and a class."""
    file = folder / "iris.csv"
    file.write_bytes((scikit_learn_data() / "data/iris.csv").read_bytes())
    return file


def iris_table(folder: Path) -> pa.Table:
    """The same flowers, with the petals' measurements in a struct and with the species as text."""
    rows = [line.split(",") for line in iris(folder).read_text().splitlines()[1:]]
    petals = [{"length": float(row[2]), "width": float(row[3])} for row in rows]
    species = ["setosa", "versicolor", "virginica"]
    sepals = [[float(cell) for cell in row[:2]] for row in rows]
    return pa.table({"sepal": sepals, "petal": petals, "species": [species[int(row[4])] for row in rows]})


def finished_flowers(folder: Path) -> Path:
    """The same flowers as a finished data set of TFRecord files."""
    source = {"parquet": {"uris": [str(iris_parquet(folder))]}}
    spec = {"source": source, "output": {"uri": str(folder / "flowers")}}
    job = DataPrepJob.parse({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "flowers"}, "spec": spec})
    run(job, access=Access(), workers=1, display=Display(quiet=True))
    return folder / "flowers"


def iris_parquet(folder: Path) -> Path:
    pq.write_table(iris_table(folder), folder / "iris.parquet", row_group_size=64)
    return folder / "iris.parquet"


def iris_arrow(folder: Path) -> Path:
    feather.write_feather(iris_table(folder), str(folder / "iris.arrow"), chunksize=64)
    return folder / "iris.arrow"


def iris_avro(folder: Path) -> Path:
    lengths = [{"name": name, "type": "double"} for name in ("length", "width")]
    fields = [
        {"name": "sepal", "type": {"type": "array", "items": "double"}},
        {"name": "petal", "type": {"type": "record", "name": "Petal", "fields": lengths}},
        {"name": "species", "type": ["null", "string"]},
    ]
    schema = fastavro.parse_schema({"type": "record", "name": "Iris", "fields": fields})
    with (folder / "iris.avro").open("wb") as out:
        fastavro.writer(out, schema, iris_table(folder).to_pylist(), codec="deflate", sync_interval=2000, sync_marker=b"0123456789abcdef")
    return folder / "iris.avro"


def iris_orc(folder: Path) -> Path:
    orc.write_table(iris_table(folder), str(folder / "iris.orc"))
    return folder / "iris.orc"


def documents(folder: Path) -> Path:
    """Four documents, one of which has neither tags nor stars."""
    made = [{"text": f"Document {n}", "tags": ["a", "b"][: n % 3], "scores": [n / 2] * n, "meta": {"stars": n}} for n in range(3)]
    file = folder / "documents.jsonl"
    file.write_text("".join(json.dumps(document) + "\n" for document in [*made, {"text": "The last", "scores": []}]))
    return file


def few_lines(folder: Path) -> Path:
    (folder / "lines.txt").write_text("one\n\ntwo\r\n  \nthree")
    return folder / "lines.txt"


def numbers(folder: Path) -> Path:
    (folder / "numbers.txt").write_text("".join(f"{number}\n" for number in range(12)))
    return folder / "numbers.txt"


def few_digits(folder: Path) -> Path:
    return mnist.write(folder / "digits", train=6000, test=100)


def trips(folder: Path) -> Path:
    """Five trips in the format that the example invents; one has a single point, and one doesn't move."""
    made = folder / "trips"
    made.mkdir()
    for number, points in enumerate((["0;1;2", "1;2;3"], ["0;1;2"], ["0;1;2", "1;1;2"], ["0;1;2", "9;1;3"], ["0;0;0", "1;3;4", "2;6;8"])):
        (made / f"t{number}.gps").write_text("\n".join(["seconds;latitude;longitude", *points]) + "\n")
    return made


def patients(folder: Path) -> Path:
    """Three patients, their visits in random order, and the outcomes of two of them."""
    made = folder / "patients"
    made.mkdir()
    (made / "patients.csv").write_text("id,age\np2,40\np1,30\np3,50\n")
    (made / "visits.csv").write_text("id,day,pulse\np1,9,80\np2,1,70\np1,2,60\np3,4,90\n")
    (made / "outcomes.csv").write_text("patient,outcome\np1,0\np2,1\n")
    return made


def walks(folder: Path) -> Path:
    """Four walks of two to five steps, with the class in the last column of every row."""
    made = folder / "walks"
    made.mkdir()
    for number in range(4):
        steps = [f"{step / 2},{number * step},{number % 2}" for step in range(2 + number)]
        (made / f"{number}.csv").write_text("\n".join(["speed,height,kind", *steps]) + "\n")
    return made


def shop(folder: Path) -> Path:
    """A database of 200 customers, one in ten of whom has no order."""
    made = folder / "shop.db"
    with sqlite3.connect(made) as database:
        database.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, age INTEGER, churned INTEGER)")
        database.execute("CREATE TABLE orders (customer INTEGER, amount REAL)")
        database.executemany("INSERT INTO customers VALUES (?, ?, ?)", [(n, 20 + n % 50, n % 2) for n in range(200)])
        database.executemany("INSERT INTO orders VALUES (?, ?)", [(n % 200, n / 4) for n in range(1000) if n % 10])
    database.close()
    return made


def photos_in_a_zip(folder: Path) -> Path:
    return Path(shutil.make_archive(str(folder / "photos"), "zip", photos.write(folder / "photos")))


def cifar(folder: Path) -> Path:
    """Forty records in CIFAR-10's format, in two files. Each record is a label and 3 x 1,024 pixels."""
    made = folder / "cifar"
    made.mkdir()
    for number in (1, 2):
        (made / f"data_batch_{number}.bin").write_bytes(b"".join(bytes([n % 10]) + bytes([n]) * 3072 for n in range(20)))
    return made


def arrays(folder: Path) -> Path:
    made = folder / "arrays"
    made.mkdir()
    np.save(made / "images.npy", np.arange(60 * 8 * 8, dtype=np.uint8).reshape(60, 8, 8))
    np.save(made / "labels.npy", np.arange(60) % 10)
    return made


def few_records(folder: Path) -> Path:
    """Three files of five examples: {n: <number>}."""
    made = folder / "records"
    made.mkdir()
    for number in range(3):
        payloads = [b"\x0a\x0c\x0a\x0a\x0a\x01n\x12\x05\x1a\x03\x0a\x01" + bytes([5 * number + n]) for n in range(5)]
        (made / f"{number}.tfrecords").write_bytes(b"".join(map(frame, payloads)))
    return made


def word_counts(folder: Path) -> Path:
    """Nine words with their counts, as written by a Hadoop job: Text and IntWritable."""
    made = folder / "word-counts"
    made.mkdir()
    classes = b"".join(bytes([len(name)]) + name for name in (b"org.apache.hadoop.io.Text", b"org.apache.hadoop.io.IntWritable"))
    words = [f"word{number}".encode() for number in range(9)]
    records = [struct.pack(">iib", len(word) + 5, len(word) + 1, len(word)) + word + struct.pack(">i", at) for at, word in enumerate(words)]
    (made / "part-r-00000").write_bytes(b"SEQ\x06" + classes + bytes(6) + bytes(range(16)) + b"".join(records))
    return made


def web_shards(folder: Path) -> Path:
    """Two tar files in WebDataset's layout, with six samples each. A sample is a text and its class."""
    made = folder / "shards"
    made.mkdir()
    for shard in range(2):
        with tarfile.open(made / f"{shard:05}.tar", "w") as archive:
            for number in range(6 * shard, 6 * shard + 6):
                for extension, content in (("txt", f"sample {number}"), ("cls", str(number % 3))):
                    info = tarfile.TarInfo(f"{number:06}.{extension}")
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content.encode()))
    return made


def streaming_set(folder: Path) -> Path:
    """A data set of MosaicML Streaming, with two subsets, of eight and four samples. A sample is a word and its class."""
    made = folder / "streaming"
    for subset, count in (("train", 8), ("val", 4)):
        (made / subset).mkdir(parents=True)
        columns = {"column_encodings": ["int", "str"], "column_names": ["label", "word"], "column_sizes": [8, None]}
        config = json.dumps(columns).encode()
        words = [f"{subset} word {number}".encode() for number in range(count)]
        samples = [struct.pack("<Iq", len(word), number % 3) + word for number, word in enumerate(words)]
        first = 4 + 4 * (count + 1) + len(config)
        offsets = [first + sum(map(len, samples[:number])) for number in range(count + 1)]
        shard = struct.pack(f"<{count + 2}I", count, *offsets) + config + b"".join(samples)
        (made / subset / "shard.00000.mds").write_bytes(shard)
        raw = {"basename": "shard.00000.mds", "bytes": len(shard), "hashes": {}}
        entry = {**columns, "compression": None, "format": "mds", "raw_data": raw, "samples": count, "version": 2, "zip_data": None}
        (made / subset / "index.json").write_text(json.dumps({"shards": [entry], "version": 2}))
    return made


def iris_libsvm(folder: Path) -> Path:
    rows = [line.split(",") for line in iris(folder).read_text().splitlines()[1:]]
    lines = [f"{row[4]} " + " ".join(f"{index}:{cell}" for index, cell in enumerate(row[:4], start=1)) for row in rows]
    (folder / "iris.svm").write_text("\n".join(lines))
    return folder / "iris.svm"


def readings(folder: Path) -> Path:
    """Readings for three days, 40 a day."""
    found = folder / "readings"
    found.mkdir()
    for day in range(3):
        lines = [f"{day + row / 40},{row % 2}" for row in range(40)]
        (found / f"day-{day}.csv").write_text("x,label\n" + "\n".join(lines) + "\n")
    return found


INPUTS: dict[str, tuple[Callable[[Path], Path], int]] = {
    "webdataset-source-local.yaml": (web_shards, 12),
    "mds-source-local.yaml": (streaming_set, 12),
    "archive-local.yaml": (photos_in_a_zip, 39),
    "fixed-length-local.yaml": (cifar, 40),
    "libsvm-local.yaml": (iris_libsvm, 150),
    "numpy-local.yaml": (arrays, 60),
    "tfrecord-local.yaml": (few_records, 15),
    "sequence-file-source-local.yaml": (word_counts, 9),
    "copy-local.yaml": (finished_flowers, 150),
    "dataset-local.yaml": (finished_flowers, 150),
    "whole-file-local.yaml": (lambda folder: photos.write(folder / "photos"), 39),
    "arrow-local.yaml": (iris_arrow, 150),
    "avro-local.yaml": (iris_avro, 150),
    "orc-local.yaml": (iris_orc, 150),
    "annotated-images-local.yaml": (lambda folder: photos.write_annotated(folder / "annotated"), 39),
    "extend-local.yaml": (readings, 120),
    "csv-local.yaml": (iris, 150),
    "csv-xgboost-local.yaml": (iris, 150),
    "csv-sequences-arrow-local.yaml": (walks, 4),
    "images-parquet-local.yaml": (lambda folder: photos.write(folder / "photos"), 39),
    "images-webdataset-local.yaml": (lambda folder: photos.write(folder / "photos"), 39),
    "images-mds-local.yaml": (lambda folder: photos.write(folder / "photos"), 39),
    "parquet-array-record-local.yaml": (iris_parquet, 150),
    "jsonl-jsonl-local.yaml": (documents, 4),
    "dl4j-dataset-local.yaml": (iris, 150),
    "file-batch-local.yaml": (lambda folder: photos.write(folder / "photos"), 39),
    "npz-local.yaml": (iris, 150),
    "csv-sequences-local.yaml": (walks, 4),
    "images-decoded-local.yaml": (lambda folder: photos.write(folder / "photos"), 39),
    "images-local.yaml": (lambda folder: photos.write(folder / "photos"), 39),
    "join-local.yaml": (patients, 2),
    "jsonl-local.yaml": (documents, 4),
    "map-file-local.yaml": (iris, 150),
    "masks-local.yaml": (lambda folder: photos.write_masked(folder / "masked"), 12),
    "mnist-local.yaml": (few_digits, 6100),
    "parquet-local.yaml": (iris_parquet, 150),
    "plugin-local.yaml": (trips, 3),
    "script-local.yaml": (numbers, 12),
    "sequence-file-local.yaml": (lambda folder: photos.write(folder / "photos"), 39),
    "sql-local.yaml": (shop, 200),
    "text-local.yaml": (few_lines, 3),
}
"""Each example's input and number of records."""
