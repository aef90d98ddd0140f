"""DL4J's own classes (ND4J and DataVec 1.0.0-M2.1) read `dl4jDataset` and `fileBatch`: every value, shape and type, every byte and URI."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from tests.availability import unavailable
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job
from tests.interop import comparisons

import javareaders
from dataprep_api.dataset.report import Manifest
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify
from storeservers.cache import BuildFailed
from workbench import mnist

pytestmark = pytest.mark.interop

BATCH = 8


@dataclass(frozen=True)
class Case:
    """A data set, and what DL4J must find in its files."""

    kind: str
    spec: dict[str, Any]
    expected: list[dict[str, str]]
    files: str
    are_files: bool = False
    """Whether the URIs refer to files on this machine."""


def job(folder: Path, name: str, spec: dict[str, Any], **output: Any) -> Path:
    """A finished data set with a minibatch of 8 samples in each file."""
    written = {
        **spec,
        "params": {"here": str(folder)},
        "output": {"uri": str(folder / name), "granularity": "Minibatch", "minibatchSize": BATCH, **output},
    }
    parsed = parse_job(written)
    run_job(parsed)
    return folder / name


def shown(values: Any, kind: str) -> str:
    """An array in the notation of ReadDl4j."""
    array = np.asarray(values)
    if kind in ("FLOAT", "DOUBLE", "HALF"):
        flat = ",".join(f"{bits:x}" for bits in array.astype(np.float64).view(np.uint64).ravel().tolist())
    else:
        flat = ",".join(map(str, array.ravel().tolist()))
    return f"{kind} {json.dumps(array.shape).replace(' ', '')} {flat}"


def cut(rows: int) -> Iterator[slice]:
    for first in range(0, rows, BATCH):
        yield slice(first, min(rows, first + BATCH))


def table(folder: Path) -> Case:
    """csv → DataSet: floats, and a class as a one-hot vector."""
    values = np.random.default_rng(1).normal(size=(20, 3)).round(3)
    classes = np.arange(20) % 3
    (folder / "table.csv").write_text("".join(f"{a},{b},{c},{kind}\n" for (a, b, c), kind in zip(values, classes, strict=True)))
    spec = {
        "source": {"csv": {"uris": [str(folder / "table.csv")]}},
        "transforms": [{"oneHot": {"columns": ["3"], "numClasses": 3}}],
        "features": [{"name": "x", "columns": ["0..2"]}],
        "labels": [{"name": "y", "columns": ["3"]}],
    }
    wide, hot = values.astype(np.float32), np.eye(3)[classes]
    expected = [{"features": shown(wide[rows], "FLOAT"), "labels": shown(hot[rows], "FLOAT")} for rows in cut(20)]
    return Case("DataSet", spec, expected, "train/dataset_{:05}.bin")


def walks(folder: Path) -> Case:
    """csvSequences → DataSet: padded steps with their mask."""
    lengths = [1 + number * 5 % 7 for number in range(11)]
    steps = [[[number + step / 2, number * step] for step in range(length)] for number, length in enumerate(lengths)]
    (folder / "walks").mkdir()
    for number, walk in enumerate(steps):
        lines = [f"{speed},{height},{number % 2}" for speed, height in walk]
        (folder / "walks" / f"{number}.csv").write_text("\n".join(["speed,height,kind", *lines]) + "\n")
    spec = {
        "source": {"csvSequences": {"uris": [str(folder / "walks")], "order": "Numbers", "header": True, "perSequence": ["kind"]}},
        "features": [{"name": "x", "columns": ["speed", "height"]}],
        "labels": [{"name": "y", "columns": ["kind"]}],
    }
    expected = []
    for rows in cut(11):
        longest = max(lengths[rows])
        features = np.zeros((len(lengths[rows]), 2, longest))
        mask = np.zeros((len(lengths[rows]), longest))
        for place, walk in enumerate(steps[rows]):
            features[place, :, : len(walk)] = np.transpose(walk)
            mask[place, : len(walk)] = 1
        labels = [[number % 2] for number in range(11)][rows]
        expected.append({"features": shown(features, "FLOAT"), "labels": shown(labels, "FLOAT"), "featuresMask": shown(mask, "FLOAT")})
    return Case("DataSet", spec, expected, "train/dataset_{:05}.bin")


def digits(folder: Path) -> Case:
    """idx → MultiDataSet: tensors of bytes, and a label as int64 and again as a float."""
    made = mnist.write(folder / "digits", train=10, test=10)
    subset = {"name": "train", "images": str(made / "train-images-idx3-ubyte.gz"), "labels": str(made / "train-labels-idx1-ubyte.gz")}
    spec = {
        "source": {"idx": {"subsets": [subset]}},
        "features": [{"name": "image", "dtype": "uint8"}],
        "labels": [{"name": "label", "dtype": "int64"}, {"name": "again", "columns": ["label"]}],
    }
    images = (31 * np.arange(10)[:, None] + 7 * np.arange(784)) % 256
    labels = np.arange(10)[:, None] % 10
    expected = [
        {
            "features0": shown(images[rows].reshape(-1, 28, 28), "UBYTE"),
            "labels0": shown(labels[rows], "LONG"),
            "labels1": shown(labels[rows], "FLOAT"),
        }
        for rows in cut(10)
    ]
    return Case("MultiDataSet", spec, expected, "train/dataset_{:05}.bin")


def numbers(folder: Path) -> Case:
    """parquet → MultiDataSet: all ND4J types, with the least and greatest values of each, and a list of steps as the label."""
    types = {"float16": "HALF", "float32": "FLOAT", "float64": "DOUBLE", "int8": "BYTE", "int16": "SHORT", "int32": "INT", "int64": "LONG"}
    types["uint8"] = "UBYTE"
    columns: dict[str, Any] = {}
    for name in types:
        limits: Any = np.finfo(name) if name.startswith("float") else np.iinfo(name)
        columns[name] = np.array([limits.min, limits.max, 0, 1, 7], name)
    lists = [[1.5], [], [2.0, -3.0], [4.0], [5.0, 6.0, 7.0]]
    pq.write_table(pa.table({**columns, "steps": pa.array(lists, pa.list_(pa.float64()))}), folder / "numbers.parquet")
    spec = {
        "source": {"parquet": {"uris": [str(folder / "numbers.parquet")]}},
        "features": [{"name": name, "dtype": name} for name in types],
        "labels": [{"name": "steps", "sequence": True}],
    }
    labels = np.zeros((5, 1, 3))
    mask = np.zeros((5, 3))
    for place, values in enumerate(lists):
        labels[place, 0, : len(values)] = values
        mask[place, : len(values)] = 1
    expected = {f"features{place}": shown(columns[name].reshape(5, 1), kind) for place, (name, kind) in enumerate(types.items())}
    return Case(
        "MultiDataSet",
        spec,
        [{**expected, "labels0": shown(labels, "FLOAT"), "labelsMask0": shown(mask, "FLOAT")}],
        "train/dataset_{:05}.bin",
    )


def files(folder: Path) -> Case:
    """wholeFile → FileBatch: names that have to be escaped in a URI, an empty file, and a file without an extension."""
    names = [f"cat/{number} %#?&.txt" for number in range(8)] + ["dog/empty.bin", "dog/README", "dog/a.tar.gz"]
    contents = {name: f"{name}\n".encode() * (number % 4) for number, name in enumerate(names)}
    for name, content in contents.items():
        (folder / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "files" / name).write_bytes(content)
    spec = {
        "source": {"wholeFile": {"uris": [str(folder / "files")]}},
        "features": [{"name": "content"}, {"name": "path"}],
    }
    in_order = sorted(contents)
    expected = [{f"file:{folder}/files/{quote(name)}": contents[name].hex() for name in in_order[rows]} for rows in cut(len(in_order))]
    return Case("FileBatch", spec, expected, "train/batch_{:05}.zip", are_files=True)


def photos(folder: Path) -> Case:
    """images → FileBatch: the original bytes, and a class that DL4J infers from the URI."""
    for number in range(10):
        path = folder / "photos" / ("cat" if number < 4 else "dog") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (5, 4), (number, 20, 30)).save(path)
    spec = {
        "source": {"images": {"uris": [str(folder / "photos")]}},
        "features": [{"name": "image/encoded"}, {"name": "image/filename"}],
    }
    paths = sorted((folder / "photos").rglob("*.png"))
    expected = [{f"file:{path}": path.read_bytes().hex() for path in paths[rows]} for rows in cut(10)]
    return Case("FileBatch", spec, expected, "train/batch_{:05}.zip", are_files=True)


def linked(folder: Path) -> Case:
    """parquet → FileBatch: URIs of another store, unchanged."""
    uris = [f"https://host/a%20b/{number}.jpg?size=3" for number in range(9)]
    contents = [bytes(range(number)) for number in range(9)]
    pq.write_table(pa.table({"url": uris, "photo": pa.array(contents, pa.binary())}), folder / "linked.parquet")
    spec = {
        "source": {"parquet": {"uris": [str(folder / "linked.parquet")]}},
        "features": [{"name": "url"}, {"name": "photo"}],
    }
    expected = [{uri: content.hex() for uri, content in zip(uris[rows], contents[rows], strict=True)} for rows in cut(9)]
    return Case("FileBatch", spec, expected, "train/batch_{:05}.zip")


CASES: tuple[tuple[Callable[[Path], Case], dict[str, Any]], ...] = (
    (table, {"format": "dl4jDataset"}),
    (walks, {"format": "dl4jDataset"}),
    (digits, {"format": "dl4jDataset", "dl4jDataset": {"holds": "MultiDataSet"}}),
    (numbers, {"format": "dl4jDataset", "dl4jDataset": {"holds": "MultiDataSet"}}),
    (files, {"format": "fileBatch", "fileBatch": {"base": "${here}/files"}}),
    (photos, {"format": "fileBatch", "fileBatch": {"base": "${here}/photos", "compression": "Deflate"}}),
    (linked, {"format": "fileBatch", "fileBatch": {"content": "photo", "uri": "url"}}),
)


_VERSIONS = {"nd4j-native": "1.0.0-M2.1", "datavec-api": "1.0.0-M2.1"}


def test_dl4js_loaders_of_folders_find_the_minibatches_of_a_split_alone(tmp_path: Path) -> None:
    """DL4J's readers read every file in a folder, including hidden files and subfolders."""
    try:
        jars = javareaders.classpath("dl4j")
    except BuildFailed as exc:
        unavailable(f"the jars of DL4J: {exc}")
    folders: dict[str, Path] = {}
    arguments: list[str] = []
    for make, output in CASES:
        case = make(tmp_path)
        data_set = job(tmp_path, f"{make.__name__}-folder", case.spec, **output)
        listed = Path(verify(str(data_set), Access()).files[0].file).parent
        folder = folders[make.__name__] = data_set / listed
        assert sorted(path.relative_to(data_set).as_posix() for path in folder.rglob("*")) == [
            case.files.format(number) for number in range(len(case.expected))
        ]
        arguments += [f"{case.kind}Folder", str(folder)]
    read = javareaders.run([Path(__file__).parent / "ReadDl4j.java"], "ReadDl4j", jars, arguments)
    found: dict[str, list[str]] = {}
    for line in read.splitlines():
        folder_read, what, value = line.split("\t")
        found.setdefault(folder_read, []).append(f"{what} {value}")
    assert {name: found[str(folder)] for name, folder in folders.items()} == {
        "table": ["minibatches 3", "records 20"],
        "walks": ["minibatches 2", "records 11"],
        "digits": ["minibatches 2", "records 10"],
        "numbers": ["minibatches 1", "records 5"],
        "files": ["minibatches 2", "records 11"],
        "photos": ["minibatches 2", "records 10"],
        "linked": ["minibatches 2", "records 9"],
    }


def test_dl4j_reads_every_value(tmp_path: Path) -> None:
    try:
        jars = javareaders.classpath("dl4j")
    except BuildFailed as exc:
        unavailable(f"the jars of DL4J: {exc}")
    expected: dict[str, list[tuple[str, str]]] = {}
    whole: dict[str, Manifest] = {}
    kinds: dict[str, str] = {}
    arguments: list[str] = []
    for make, output in CASES:
        case = make(tmp_path)
        folder = job(tmp_path, f"{make.__name__}-out", case.spec, **output)
        kinds[make.__name__] = case.kind
        whole[make.__name__] = verify(str(folder), Access())
        for number, contents in enumerate(case.expected):
            file = str(folder / case.files.format(number))
            expected[file] = [(unquote(what), value) for what, value in contents.items()]
            arguments += [case.kind, file]
            if case.are_files:
                # DL4J's label maker derives the class and the file from the URI.
                expected[file] += [(Path(unquote(uri)).parent.name, str(len(content) // 2)) for uri, content in contents.items()]
                arguments += ["Labels", file]
    read = javareaders.run([Path(__file__).parent / "ReadDl4j.java"], "ReadDl4j", jars, arguments)
    found: dict[str, list[tuple[str, str]]] = {}
    for line in read.splitlines():
        file, what, value = line.split("\t")
        found.setdefault(file, []).append((unquote(what), value))
    for file, contents_of_file in expected.items():
        assert found[file] == contents_of_file, file
    for name, manifest in whole.items():
        fields = [feature["name"] for feature in manifest.features if manifest.format != "fileBatch" or not feature["label"]]
        reader = kinds[name] + (".readFromZip" if manifest.format == "fileBatch" else ".load")
        comparisons.compared(
            format=manifest.format, reader=reader, versions=_VERSIONS, source=name, records=manifest.records_out, fields=fields
        )
