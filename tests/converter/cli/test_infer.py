"""`dataprep infer`: the printed job runs unchanged, for every kind of source that can be recognised from its files."""

import contextlib
import datetime as dt
import gzip
import json
import pickle
import sqlite3
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import webdataset  # type: ignore[import-untyped] # it has no types
import yaml
from PIL import Image
from tests.builders.archives import a_tar, a_zip
from tests.builders.files import put, visible
from tests.builders.packed import PACKERS
from tests.converter.cli.commandline import code_of
from tests.converter.stores.site import serving

from dataprep_api.spec.sources.images import IMAGE_EXTENSIONS
from dataprep_converter.core import framing
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import READERS
from dataprep_converter.tools.verification import verify
from workbench import example_inputs, mnist

_arrow: Any = pa
_feather: Any = pyarrow.feather
_parquet: Any = pyarrow.parquet
TABLE = _arrow.table({"width": [0.5, 1.5, 2.5], "label": [0, 1, 0], "name": ["a", "b", "c"]})


def pictures(folder: Path, *paths: str) -> Path:
    for number, path in enumerate(paths):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 3), (number, 0, 0)).save(folder / path)
    return folder


def text(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def idx(folder: Path) -> Path:
    return mnist.write(folder / "digits", train=30, test=10)


def photos(folder: Path) -> Path:
    names = [f"{split}/{kind}/{n}.png" for split in ("train", "val") for kind in ("cat", "dog") for n in range(2)]
    return pictures(folder / "photos", *names)


def voc(folder: Path) -> Path:
    root = pictures(folder / "voc", "JPEGImages/1.jpg", "JPEGImages/2.jpg")
    box = "<object><name>cat</name><bndbox><xmin>0</xmin><ymin>0</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></object>"
    for number in (1, 2):
        text(root / f"Annotations/{number}.xml", f"<annotation><size><width>4</width><height>3</height></size>{box}</annotation>")
    return root


def csv_with_header(folder: Path) -> Path:
    return text(folder / "flowers.csv", "length,width,species\n" + "1.5,2,setosa\n2.5,3,virginica\n" * 5)


def jsonl(folder: Path) -> Path:
    return text(folder / "rows.jsonl", "".join(json.dumps({"x": n, "label": n % 2, "words": "ab"}) + "\n" for n in range(9)))


def lines(folder: Path) -> Path:
    return text(folder / "book.txt", "Call me Ishmael.\nSome years ago, never mind how long.\n")


def parquet(folder: Path) -> Path:
    (folder / "table").mkdir()
    for number in range(2):
        _parquet.write_table(TABLE, folder / "table" / f"part-{number}.parquet")
    return folder / "table"


def arrow(folder: Path) -> Path:
    _feather.write_feather(TABLE, folder / "a.feather", compression="uncompressed")
    return folder / "a.feather"


def example() -> bytes:
    # Example{features{feature{key: "x" value{int64_list{value: 7}}}}}, in protobuf's wire format.
    return bytes.fromhex("0a0c0a0a0a017812051a030a0107")


def tfrecord(folder: Path) -> Path:
    path = folder / "old.tfrecords"
    path.write_bytes(framing.frame(example()) * 4)
    return path


def arrays(folder: Path) -> Path:
    (folder / "arrays").mkdir()
    np.save(folder / "arrays" / "image.npy", np.zeros((6, 2, 2), np.uint8))
    np.save(folder / "arrays" / "label.npy", np.arange(6) % 2)
    return folder / "arrays"


def sequence_file(folder: Path) -> Path:
    return example_inputs.word_counts(folder)


def web_shards(folder: Path) -> Path:
    (folder / "shards").mkdir()
    for shard in range(2):
        with webdataset.TarWriter(str(folder / "shards" / f"{shard:05}.tar")) as writer:
            for n in range(4):
                writer.write({"__key__": f"{shard}{n}", "txt": "a text", "cls": n % 2})
    return folder / "shards"


def mds(folder: Path) -> Path:
    with tarfile.open(Path(__file__).parents[1] / "readers/written_by_mds_writer.tar.xz") as archive:
        archive.extractall(folder / "mds", filter="data")
    return folder / "mds"


def libsvm(folder: Path) -> Path:
    return text(folder / "a.libsvm", "+1 1:0.5 3:2\n-1 2:1\n" * 3)


def data_set(folder: Path) -> Path:
    assert code_of("infer", idx(folder), "--output", folder / "made.yaml", "--to", folder / "made") == 0
    assert code_of("run", folder / "made.yaml", "--quiet") == 0
    return folder / "made"


INPUTS: dict[str, tuple[Callable[[Path], Path], int]] = {
    "idx": (idx, 40),
    "images": (photos, 8),
    "webdataset": (web_shards, 8),
    "mds": (mds, 20),
    "annotated_images": (voc, 2),
    "csv": (csv_with_header, 10),
    "jsonl": (jsonl, 9),
    "text": (lines, 2),
    "parquet": (parquet, 6),
    "arrow": (arrow, 3),
    "avro": (example_inputs.iris_avro, 150),
    "orc": (example_inputs.iris_orc, 150),
    "tfrecord": (tfrecord, 4),
    "sequence_file": (sequence_file, 9),
    "numpy": (arrays, 6),
    "libsvm": (libsvm, 6),
    "dataset": (data_set, 40),
}
"""For each source, an input and its number of records."""

ASKED_FOR = {"whole_file", "masks", "csv_sequences", "fixed_length", "join", "sql", "table", "plugin"}
"""Sources that can't be recognised from files.

For these, users have to say how the files belong together, how to read them, that each file is a record, or that the source is a database.
"""


def inferred(source: Path | str, folder: Path, *more: str) -> tuple[str, dict[str, Any]]:
    assert code_of("infer", source, "--output", folder / "job.yaml", "--to", folder / "out", *more) == 0
    written = (folder / "job.yaml").read_text()
    spec: dict[str, Any] = yaml.safe_load(written)["spec"]
    return written, spec


def features(data_set: Path) -> list[str]:
    (manifest,) = (data_set / "_dataprep").glob("*/manifest.json")
    return sorted(feature["name"] for feature in json.loads(manifest.read_text())["features"])


@pytest.mark.parametrize("kind", [kind for kind in INPUTS if kind in READERS])
def test_what_is_inferred_runs_as_it_is(kind: str, tmp_path: Path) -> None:
    make, expected = INPUTS[kind]
    _, spec = inferred(make(tmp_path), tmp_path)
    (member,) = spec["source"]
    assert member.lower() == kind.replace("_", "")
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert verify(str(tmp_path / "out"), Access()).records_out == expected


def test_every_source_is_inferred_or_must_be_asked_for() -> None:
    assert set(INPUTS) & ASKED_FOR == set()
    assert set(READERS) <= set(INPUTS) | ASKED_FOR


def test_the_job_is_printed_with_what_was_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = csv_with_header(tmp_path)
    assert code_of("infer", source) == 0
    modeline, _, job = capsys.readouterr().out.partition("\n")
    assert modeline.startswith("# yaml-language-server: $schema=file:///")
    assert job == (
        f"# {source}: 1 file for source.csv, {source.stat().st_size} bytes\n"
        f"# looked at the first 10 records of {source}\n"
        "# column length: float, 2 different values, such as 1.5, 2.5\n"
        "# column width: int64, 2 different values, such as 2, 3\n"
        "# column species: string, 2 different values, such as setosa, virginica\n"
        "# guessed label: column species (2 values in the first records: setosa, virginica)\n"
        "apiVersion: dataprep.io/v1alpha1\n"
        "kind: DataPrepJob\n"
        "metadata:\n"
        "  name: flowers\n"
        "spec:\n"
        "  source:\n"
        "    csv:\n"
        "      uris:\n"
        f"      - {source}\n"
        "      header: true\n"
        "  labels:\n"
        "  - name: species\n"
        "  output:\n"
        f"    uri: {tmp_path}/flowers-dataset\n"
    )


def test_folders_named_like_splits_are_subsets(tmp_path: Path) -> None:
    written, spec = inferred(photos(tmp_path), tmp_path)
    assert spec["source"] == {"images": {"uris": [str(tmp_path / "photos")], "subsetFrom": "FirstFolder"}}
    assert "# classes of image/class/label: 2 (cat, dog)\n" in written
    assert "# 8 records: train 4, val 4\n" in written
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert visible(tmp_path / "out") == ["train.tfrecords", "val.tfrecords"]


def test_pictures_in_avif_are_read_by_their_extension(tmp_path: Path) -> None:
    _, spec = inferred(pictures(tmp_path / "photos", "cat/1.avif", "dog/2.png"), tmp_path)
    assert spec["source"]["images"]["extensions"] == [*IMAGE_EXTENSIONS, "avif"]


IMAGE_TABLES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "metadata of an image folder": (
        "metadata.jsonl",
        '{"file_name": "in/1.png", "caption": "one"}\n{"file_name": "in/2.png", "caption": "two"}\n',
        {"pathColumn": "file_name", "columns": ["caption"]},
    ),
    "paths with a label": (
        "train.csv",
        "id,image,label,score\n1,in/1.png,cat,0.5\n2,in/2.png,dog,1.5\n",
        {"pathColumn": "image", "labelColumn": "label", "columns": ["id", "score"]},
    ),
    "names": (
        "lists/train.csv",
        "name;score\n1.png;0.5\n2.png;1.5\n",
        {"delimiter": ";", "pathColumn": "name", "match": "FileName", "columns": ["score"]},
    ),
    "keys": ("scores.tsv", "score\tid\n0.5\t1\n1.5\t2\n", {"pathColumn": "id", "match": "Key", "columns": ["score"]}),
}


@pytest.mark.parametrize(("name", "content", "listed"), IMAGE_TABLES.values(), ids=IMAGE_TABLES.keys())
def test_a_table_of_the_images_is_read_with_them(tmp_path: Path, name: str, content: str, listed: dict[str, Any]) -> None:
    folder = pictures(tmp_path / "photos", "in/1.png", "in/2.png")
    table = text(folder / name, content)
    root = {"root": str(folder)} if "match" in listed else {}
    _, spec = inferred(folder, tmp_path)
    assert spec["source"] == {
        "images": {"labelFrom": "List" if "labelColumn" in listed else "None", "list": {"uri": str(table), **listed, **root}}
    }
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert verify(str(tmp_path / "out"), Access()).records_out == 2
    assert set(listed["columns"]) <= set(features(tmp_path / "out"))


def test_a_parquet_table_of_the_images_is_read_without_its_bytes(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "photos", "1.png", "2.png")
    _parquet.write_table(_arrow.table({"file": ["1.png", "2.png"], "boxes": [[1.5], []], "thumb": [b"1", b"2"]}), folder / "meta.parquet")
    _, spec = inferred(folder, tmp_path)
    assert spec["source"]["images"]["list"] == {"uri": str(folder / "meta.parquet"), "pathColumn": "file", "columns": ["boxes"]}


def test_a_table_that_names_no_image_is_left_alone(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "photos", "cat/1.png", "dog/2.png", "dog/3.png")
    text(folder / "scores.csv", "player,score\na,1\nb,2\n")
    _, spec = inferred(folder, tmp_path)
    assert spec["source"]["images"] == {"uris": [str(folder)]}


def test_a_table_of_images_in_folders_of_splits_keeps_the_splits(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "photos", "train/1.png", "train/2.png", "val/3.png")
    text(folder / "scores.csv", "file,score\n1.png,0.5\n2.png,1.5\n3.png,2.5\n")
    _, spec = inferred(folder, tmp_path)
    assert spec["source"]["images"]["subsetFrom"] == "FirstFolder"
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert visible(tmp_path / "out") == ["train.tfrecords", "val.tfrecords"]


def test_half_of_the_rows_of_a_table_are_enough(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "photos", "1.png")
    text(folder / "scores.csv", "file,score\n1.png,0.5\n2.png,1.5\n")
    written, spec = inferred(folder, tmp_path)
    assert "list" in spec["source"]["images"]
    assert f"# 1 of the first 2 records don't fit, the first: {folder}/scores.csv, row 2: {folder}/2.png does not exist" in written


def test_records_of_another_program_are_read_whatever_their_files_are_called(tmp_path: Path) -> None:
    content = framing.frame(example())
    root = tmp_path / "theirs"
    files = {"train/day=1/part-00000": content * 3, "train/a.tfrecord.gz": gzip.compress(content * 4), "val/b.tfrecord": content * 2}
    put(root, {**files, "dataset_info.json": b'{"splits": []}', "_SUCCESS": b""})
    _, spec = inferred(root, tmp_path)
    assert spec["source"] == {"tfrecord": {"uris": [f"{root}/**/*.tfrecord", f"{root}/**/*.tfrecord.gz", f"{root}/train/day=1/part-00000"]}}
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert verify(str(tmp_path / "out"), Access()).records_out == 9


def test_images_without_class_folders_have_no_label(tmp_path: Path) -> None:
    _, spec = inferred(pictures(tmp_path / "flat", "a.png", "b.png"), tmp_path)
    assert spec["source"]["images"]["labelFrom"] == "None"


def test_idx_files_are_paired_and_named(tmp_path: Path) -> None:
    root = idx(tmp_path)
    _, spec = inferred(root, tmp_path)
    assert spec["source"]["idx"]["subsets"] == [
        {"name": name, "images": str(root / f"{stem}-images-idx3-ubyte.gz"), "labels": str(root / f"{stem}-labels-idx1-ubyte.gz")}
        for name, stem in (("train", "train"), ("test", "t10k"))
    ]


def test_idx_files_may_be_called_anything(tmp_path: Path) -> None:
    root = idx(tmp_path)
    for file in root.iterdir():
        file.rename(root / file.name.replace("t10k", "pr\u00fcfung").replace("train", "\u8bad\u7ec3"))
    _, spec = inferred(root, tmp_path)
    assert sorted(subset["name"] for subset in spec["source"]["idx"]["subsets"]) == ["part", "prufung"]


def test_an_idx_file_that_is_cut_in_its_header_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = idx(tmp_path)
    (root / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(b"\0\0\x08"))
    assert code_of("infer", root) == 3
    assert "t10k-labels-idx1-ubyte.gz is not a complete IDX file: it holds 3 bytes, and the header alone has 8" in capsys.readouterr().err


def test_more_idx_files_than_a_source_takes_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = idx(tmp_path)
    for number in range(16):
        (root / f"fold{number}-images.gz").write_bytes((root / "t10k-images-idx3-ubyte.gz").read_bytes())
    assert code_of("infer", root) == 2
    assert "holds 18 IDX files of records, and source.idx takes at most 16: select fewer with a glob" in capsys.readouterr().err


CSVS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "numbers without a header": (
        "a.csv", "1.0,3.2,0\n1.6,2.4,1\n2,3,1\n", {},
        {"labels": [{"name": "label", "columns": ["-1"]}], "features": [{"name": "features", "columns": ["0..-2"]}]},
    ),
    "a first line of another kind": ("a.csv", "4,x,y\n1.5,2,0\n1.5,2,0\n2.5,3,1\n", {"skipLines": 1}, {}),
    "tabs": ("a.tsv", "x\ty\n1\t2\n3\t4\n", {"delimiter": "\t", "header": True}, {"labels": [{"name": "y"}]}),
    "semicolons and decimals with commas": ("a.csv", "x;z\n1,5;2\n3,5;4\n", {"delimiter": ";", "header": True}, {}),
    "a name that tells nothing": ("data", "x,z\n1,2\n3,4\n", {"header": True}, {}),
    "pandas' index": ("a.csv", ",x,z\n0,1.5,a\n1,2.5,b\n", {"header": True}, {}),
    "pandas' index and columns without names": ("a.csv", ",0,1\n0,1.5,a\n1,0,1\n", {"header": True}, {}),
    "pandas' index of two levels": ("a.csv", ",,x\na,0,1.5\na,1,2.5\nb,0,3.5\n", {"header": True}, {}),
    "pandas' columns without an index": ("a.csv", "0,1,2,3\n5,1,7,8\n5,0,7,9\n", {"header": True}, {}),
    "R's row names": ("a.csv", '"","mpg","gear"\n"Mazda RX4",21,"4"\n"Fiat 128",32.4,"4"\n', {"header": True}, {}),
    "R's numbered rows of text": ("a.csv", '"","name","city"\n"1","Ann","Rome"\n"2","Bob","Oslo"\n', {"header": True}, {}),
    "a delimiter at the end of each line": ("a.csv", "x,z,\n1,a,\n3,b,\n", {"header": True}, {}),
    "a name that is also a value": ("a.csv", "kind,z\nkind,1\nsort,2\n", {"header": True}, {}),
    "years as names": ("a.csv", "land,1990,1995,2000\nA,1.5,2,3\nB,1,2,3\n", {"header": True}, {}),
    "a missing value in the first row": ("a.csv", ",a,x\nb,a,x\nb,c,z\n", {"nullWordsOf": {"0": [""]}}, {}),
    "a row that counts up": ("a.csv", "1,2,3,4\n2,2,3,9\n7,1,3,4\n", {}, {}),
    "a title": ("a.csv", "Flowers of 1936\n\nx,z\n1,a\n3,b\n4,c\n", {"skipLines": 1, "header": True}, {}),
    "a count of rows and columns": ("a.csv", "3,2,no,yes\n1,2,0\n4,5,1\n2,2,1\n", {"skipLines": 1}, {}),
    "a name that two columns have": ("a.csv", "x,x\n1,2\n3,4\n", {"skipLines": 1}, {}),
    "semicolons and many decimals with commas": ("a.csv", "x;z\n" + "1,5;2\n" * 9, {"delimiter": ";", "header": True}, {}),
    "semicolons and only decimals with commas": ("a.csv", "1,5;2,5\n3,5;4,5\n", {"delimiter": ";"}, {}),
    "lists within cells": ("a.csv", "x,z\n1,a;b\n2,c;d\n", {"header": True}, {}),
    "numbers with spaces": ("a.csv", "Chins Jumps\n5 162\n2 110\n", {"delimiter": " ", "header": True}, {}),
    "a class in a named column": ("a.csv", "Label,z\n1,2\n0,4\n", {"header": True}, {"labels": [{"name": "Label"}]}),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "source", "more"), CSVS.values(), ids=CSVS.keys())
def test_csv_files_of_many_kinds(name: str, content: str, source: dict[str, Any], more: dict[str, Any], tmp_path: Path) -> None:
    _, spec = inferred(text(tmp_path / name, content), tmp_path)
    assert spec["source"]["csv"] == {"uris": [str(tmp_path / name)]} | source
    for field, value in more.items():
        assert spec[field] == value
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0


def test_a_column_without_a_name_gets_one_and_is_told(tmp_path: Path) -> None:
    written, _ = inferred(text(tmp_path / "a.csv", ",length,kind\n0,1.5,a\n1,2.5,b\n"), tmp_path)
    assert "# the header has no name for column 0, which is called '0'\n" in written
    assert "# column 0: int64, 2 different values, such as 0, 1\n# column length: float, 2 different values, such as 1.5, 2.5\n" in written
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert features(tmp_path / "out") == ["0", "kind", "length"]


def test_a_name_is_never_given_twice(tmp_path: Path) -> None:
    written, _ = inferred(text(tmp_path / "a.csv", ",0,1\n7,1.5,a\n8,2.5,b\n"), tmp_path)
    assert "# the header has no name for column 0, which is called 'unnamed_0'\n" in written
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert features(tmp_path / "out") == ["0", "1", "unnamed_0"]


def test_lines_above_the_rows_are_told(tmp_path: Path) -> None:
    written, _ = inferred(text(tmp_path / "a.csv", "3,2,no,yes\n1,2,0\n4,5,1\n2,2,1\n"), tmp_path)
    assert "# the first line is skipped, because the rows have a different number of cells: 3,2,no,yes\n" in written
    written, _ = inferred(text(tmp_path / "b.csv", "x,x\n1,2\n3,4\n"), tmp_path)
    assert (
        "# the first line has the name 'x' twice, so it can't be the header and is skipped; source.csv.columns can name the columns\n"
        in written
    )


def test_numbers_with_commas_are_told(tmp_path: Path) -> None:
    written, _ = inferred(text(tmp_path / "a.csv", "x;z\n1,5;2\n3,5;4\n"), tmp_path)
    assert "# column 0 has numbers with a comma (3,5), which are read as text\n" in written


SCIKIT_LEARN = example_inputs.scikit_learn_data() / "data"


@pytest.mark.parametrize(
    ("name", "records", "source"),
    [
        ("breast_cancer.csv", 569, {"skipLines": 1}),
        ("wine_data.csv", 178, {"skipLines": 1}),
        ("iris.csv", 150, {"skipLines": 1}),
        ("diabetes_data_raw.csv.gz", 442, {"delimiter": " "}),
        ("linnerud_exercise.csv", 20, {"delimiter": " ", "header": True}),
    ],
)
def test_tables_of_scikit_learn(name: str, records: int, source: dict[str, Any], tmp_path: Path) -> None:
    _, spec = inferred(SCIKIT_LEARN / name, tmp_path)
    assert spec["source"]["csv"] == {"uris": [str(SCIKIT_LEARN / name)]} | source
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert verify(str(tmp_path / "out"), Access()).records_out == records


@pytest.mark.parametrize("form", ["pandas", "pandas and semicolons", "R"])
def test_real_tables_keep_their_names_in_the_forms_of_pandas_and_r(form: str, tmp_path: Path) -> None:
    names, *rows = [line.split(" ") for line in (SCIKIT_LEARN / "linnerud_exercise.csv").read_text().splitlines()]
    mark = ";" if "semicolons" in form else ","
    quote = '"' if form == "R" else ""
    content = mark.join(f"{quote}{name}{quote}" for name in ["", *names]) + "\n"
    content += "".join(mark.join([f"{quote}{number}{quote}", *row]) + "\n" for number, row in enumerate(rows))
    inferred(text(tmp_path / "a.csv", content), tmp_path)
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert features(tmp_path / "out") == ["0", "Chins", "Jumps", "Situps"]


ENCODED: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "Latin-1": ("name,n\nKöln,1\nBonn,2\n".encode("latin-1"), {"encoding": "Latin1"}, "is read as Latin1, so the text has words such as Köln,1;"),
    "Windows-1252": ("name,n\n5 €,1\nBonn,2\n".encode("cp1252"), {"encoding": "Windows1252"}, "is read as Windows1252, so the text has words such as €,1;"),
    "UTF-16 without a mark": ("name,n\nKöln,1\nBonn,2\n".encode("utf-16-be"), {"encoding": "Utf16Be"}, "is read as Utf16Be, so"),
    "UTF-16 with a mark": ("name,n\nKöln,1\nBonn,2\n".encode("utf-16"), {}, ""),
    "UTF-8 with a mark": ("name,n\nKöln,1\nBonn,2\n".encode("utf-8-sig"), {}, ""),
    "ASCII in UTF-16": ("name,n\nUlm,1\nBonn,2\n".encode("utf-16-le"), {"encoding": "Utf16Le"}, "the text isn't UTF-8 and is read as Utf16Le; correct"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "source", "note"), ENCODED.values(), ids=ENCODED.keys())
def test_text_in_other_encodings_is_text(content: bytes, source: dict[str, Any], note: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    written, spec = inferred(tmp_path / "a.csv", tmp_path)
    assert spec["source"]["csv"] == {"uris": [str(tmp_path / "a.csv")], "header": True} | source
    assert note in written
    assert ("read as" in written) == bool(source)
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert features(tmp_path / "out") == ["n", "name"]


@pytest.mark.parametrize("ending", ["txt", "jsonl"])
def test_large_text_in_utf16_is_cut_between_lines(ending: str, tmp_path: Path) -> None:
    line = '{"name": "Köln"}\n' if ending == "jsonl" else "Köln am Rhein.\n"
    (tmp_path / f"a.{ending}").write_bytes((line * 20_000).encode("utf-16-le"))
    _, spec = inferred(tmp_path / f"a.{ending}", tmp_path)
    (member,) = spec["source"]
    assert spec["source"][member]["encoding"] == "Utf16Le"
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert verify(str(tmp_path / "out"), Access()).records_out == 20_000


def test_files_in_different_encodings_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_bytes("x,z\n1,é\n".encode())
    (tmp_path / "in/b.csv").write_bytes("x,z\n1,é\n".encode("latin-1"))
    assert code_of("infer", tmp_path / "in") == 2
    said = capsys.readouterr().err
    assert (
        f"{tmp_path}/in/a.csv seems to be Utf8, {tmp_path}/in/b.csv seems to be Latin1. Convert the files, or give each encoding its own job."
        in said
    )
    (tmp_path / "in/a.csv").write_bytes(b"x,z\n1,e\n")
    _, spec = inferred(tmp_path / "in", tmp_path)
    assert spec["source"]["csv"]["encoding"] == "Latin1"


def a_workbook() -> bytes:
    return a_zip({"[Content_Types].xml": b"<Types/>", "_rels/.rels": b"<R/>", "xl/workbook.xml": b"<workbook/>"})


def a_database(folder: Path) -> bytes:
    with contextlib.closing(sqlite3.connect(folder / "made.db")) as database:
        database.execute("create table a (b)")
    return (folder / "made.db").read_bytes()


def a_picture_of_torch() -> bytes:
    return a_zip({"archive/data.pkl": b"\x80\2."})


UNKNOWN: dict[str, tuple[str, Callable[[Path], bytes], str]] = {
    "Excel": ("a.xlsx", lambda _: a_workbook(), "is an Excel workbook, so infer can't choose a source for it: save each sheet as CSV"),
    "old Excel": ("a.xls", lambda _: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99), "is an old Excel or Office file, so infer"),
    "PDF": ("a.pdf", lambda _: b"%PDF-1.4\n1 0 obj\n<< >>\nendobj\n", "is a PDF document, so infer can't choose a source for it: extract its text"),
    "7z": ("a.7z", lambda _: b"7z\xbc\xaf\x27\x1c\0\4" + bytes(24), "is a 7z archive, so infer can't choose a source for it: unpack it"),
    "zip": ("a.zip", lambda _: a_zip({"a.csv": b"x\n"}), "is a zip archive, so infer can't choose a source for it: end its URI with !/ to read"),
    "tar": ("a.tar.bz2", lambda _: PACKERS["bz2"](a_tar({"a.csv": b"x\n"})), "is a tar archive, so infer can't choose a source for it: end its URI with !/"),
    "SQLite": ("a.db", a_database, "is a SQLite database, so infer can't choose a source for it: read it by source.sql"),
    "PyTorch": ("a.pt", lambda _: a_picture_of_torch(), "is a PyTorch file, so infer can't choose a source for it: save its tensors as .npy files"),
    "pickle": ("a.pkl", lambda _: pickle.dumps([1]), "is a Python pickle, so infer can't choose a source for it"),
    "a JSON array of arrays": ("a.json", lambda _: b'[[1, 2],\n [3, 4]]\n', "is a JSON document, so infer can't choose a source for it: source.jsonl reads one object per line, or an array of objects"),
    "a JSON object with records": ("a.json", lambda _: b'{"n": 2, "rows": [{"x": 1}, {"x": 2}]}\n', "is a JSON document, so infer can't choose a source for it: source.jsonl reads one object per line, or an array of objects; extract the objects in 'rows', for example with jq -c '.rows[]'"),
    "a JSON object": ("a.json", lambda _: b'{\n  "x": 1\n}\n', "is a JSON document, so infer"),
    "HTML": ("a.html", lambda _: b"<!DOCTYPE html>\n<p>Text\n", "is an HTML page, so infer"),
    "other text": ("a.md2", lambda _: b"Call me Ishmael.\n", "is text, but neither its name nor its content shows what its records are, so infer can't choose a source for it: source.text"),
    "anything": ("a.bin", lambda _: bytes([0, 1, 2, 255]), "is of a type that infer doesn't know (its first bytes are 00 01 02 ff), so infer can't choose a source for it"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "said"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_what_no_source_reads_is_named(
    name: str, content: Callable[[Path], bytes], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(content(tmp_path))
    assert code_of("infer", tmp_path / "in", "--output", tmp_path / "job.yaml") == 2
    assert f"{tmp_path}/in/{name} {said}" in capsys.readouterr().err
    assert not (tmp_path / "job.yaml").exists()


MISTAKES: dict[str, tuple[str, str]] = {
    "a constant": (
        "x,z\n" + "".join(f"{n % 3},a\n" for n in range(30)),
        "column z has the same value in the first 30 records, so it carries no information",
    ),
    "an index": (
        ",x\n" + "".join(f"{n},{n % 3}\n" for n in range(30)),
        "column 0 has a different value in each of the first 30 records, like a row number or a key: drop it if it isn't a feature",
    ),
    "a key": (
        "user_id,x\n" + "".join(f"u{n * 7 % 31},{n % 3}\n" for n in range(30)),
        "column user_id has a different value in each of the first 30 records, like a row number or a key: drop it if it isn't a feature",
    ),
    "a label with many classes": (
        "x,label\n" + "".join(f"{n % 3},c{n}\n" for n in range(200)),
        "the label label has 200 different values in the first 200 records: is it a class?",
    ),
    "a copy of the label": (
        "x,code,label\n" + "".join(f"{n % 7},{'ab'[n % 2]},{n % 2}\n" for n in range(30)),
        "column code and the label label determine each other in the first 30 records: drop the column if it is made from the label",
    ),
}


@pytest.mark.parametrize(("content", "said"), MISTAKES.values(), ids=MISTAKES.keys())
def test_likely_mistakes_are_told(content: str, said: str, tmp_path: Path) -> None:
    written, _ = inferred(text(tmp_path / "a.csv", content), tmp_path)
    assert [line for line in written.splitlines() if line.startswith("# check: ")] == [f"# check: {said}"]


def test_an_ordinary_table_has_no_likely_mistake(tmp_path: Path) -> None:
    content = "length,solid,kind\n" + "".join(f"{n / 7:.3f},{n % 5},{'abc'[n * n % 3]}\n" for n in range(60))
    written, _ = inferred(text(tmp_path / "a.csv", content), tmp_path)
    assert "check:" not in written
    assert "# column kind: string, 2 different values, such as a, b\n" in written


def test_examples_have_the_digits_of_the_file(tmp_path: Path) -> None:
    written, _ = inferred(text(tmp_path / "a.csv", "x,z\n5.1,a\n0.2,b\n"), tmp_path)
    assert "# column x: float, 2 different values, such as 5.1, 0.2\n" in written


def test_empty_cells_are_counted(tmp_path: Path) -> None:
    written, _ = inferred(text(tmp_path / "a.csv", "x,z\n1,a\n2,\n3,b\n4,\n"), tmp_path)
    assert "# looked at the first 4 records of" in written
    assert "# column z: string, 2 of 4 empty, 2 different values, such as a, b\n" in written


@pytest.mark.parametrize("ending", PACKERS)
def test_compressed_files_are_looked_into(ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"a.csv.{ending}"
    file.write_bytes(PACKERS[ending](b"x,z\n1,2\n3,4\n"))
    _, spec = inferred(file, tmp_path)
    assert spec["source"] == {"csv": {"uris": [str(file)], "header": True}}
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert verify(str(tmp_path / "out"), Access()).records_out == 2


@pytest.mark.parametrize("ending", PACKERS)
def test_a_damaged_compressed_file_is_named(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / f"a.csv.{ending}"
    file.write_bytes(PACKERS[ending](b"x,z\n1,2\n3,4\n" * 9)[:-3])
    assert code_of("infer", file) == 3
    assert f"{file}: " in capsys.readouterr().err


def test_other_files_in_the_folder_are_left_out_and_named(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for number in range(3):
        text(folder / f"sub/{number}.csv", "x,z\n1,2\n")
    text(folder / "make.sh", "#!/bin/sh\n")
    text(folder / "README.md", "# About\n")
    written, spec = inferred(folder, tmp_path)
    assert spec["source"]["csv"]["uris"] == [f"{folder}/**/*.csv"]
    assert "# not included: 1 file with sh\n" in written
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_folders_named_by_keys_are_columns(ending: str, tmp_path: Path) -> None:
    for country in ("at", "de"):
        name = f"country={country}/sub/year=2024/part-0.{ending}"
        if ending == "csv":
            text(tmp_path / "in" / name, "x,z\n1,2\n")
        else:
            (tmp_path / "in" / name).parent.mkdir(parents=True)
            _parquet.write_table(TABLE, tmp_path / "in" / name)
    written, spec = inferred(tmp_path / "in", tmp_path)
    assert spec["source"][ending]["hivePartitions"] == "Infer"
    assert "# column country: " in written
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert {"country", "year"} <= set(features(tmp_path / "out"))


@pytest.mark.parametrize("other", ["year=2024", "a=%FF", "plain"], ids=["other keys", "not UTF-8", "no keys"])
def test_folders_that_make_no_columns_are_folders(other: str, tmp_path: Path) -> None:
    text(tmp_path / "in/a=1/x.csv", "x,z\n1,2\n")
    text(tmp_path / f"in/{other}/x.csv", "x,z\n1,2\n")
    _, spec = inferred(tmp_path / "in", tmp_path)
    assert spec["source"] == {"csv": {"uris": [str(tmp_path / "in")], "header": True}}


def test_a_column_that_records_can_not_hold_is_left_out(tmp_path: Path) -> None:
    table = TABLE.append_column("when", _arrow.array([dt.date(2024, 1, 1)] * 3))
    _parquet.write_table(table, tmp_path / "a.parquet")
    written, spec = inferred(tmp_path / "a.parquet", tmp_path)
    if "left out, because records can't contain them: when" in written:
        assert spec["features"] == [{"name": "width"}, {"name": "name"}]
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0


def test_a_nested_column_is_told_with_its_type(tmp_path: Path) -> None:
    source = text(tmp_path / "a.jsonl", '{"messages": [{"role": "user", "content": "Hello"}], "n": 1}\n' * 30)
    written, _ = inferred(source, tmp_path)
    kind = "list<item: struct<role: string, content: string>>"
    assert f"# column messages: {kind}, which parquet, arrow and jsonl keep, and other formats write as JSON\n" in written
    assert "column messages has the same value" not in written
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0


def test_records_that_do_not_fit_are_told(tmp_path: Path) -> None:
    source = text(tmp_path / "a.csv", "x,z\n" + "1,2\n" * 5 + "1,2,3\n")
    written, _ = inferred(source, tmp_path)
    assert "# 1 of the first 6 records don't fit, the first: line 7: expect 2 fields but have 3; see onBadRecord\n" in written


def test_the_mark_of_another_program_is_none_of_ours(tmp_path: Path) -> None:
    text(tmp_path / "in/part-00000.csv", "x,z\n1,2\n")
    text(tmp_path / "in/_SUCCESS", "")
    _, spec = inferred(tmp_path / "in", tmp_path)
    assert spec["source"] == {"csv": {"uris": [str(tmp_path / "in")], "header": True}}
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0


def test_a_signed_address_of_the_web_is_a_file(tmp_path: Path) -> None:
    signed = "/rows.csv?X-Amz-Expires=60&X-Amz-Signature=0123"
    with serving({signed: b"x,z\n1,2\n"}) as site:
        # Like a real server, the site refuses any path except the signed one.
        site.refusals[f"{signed}/_SUCCESS"] = 403
        _, spec = inferred(site.at(signed), tmp_path)
        assert spec["source"] == {"csv": {"uris": [site.at(signed)], "header": True}}
        assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0


def test_a_uri_without_anything_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("infer", tmp_path / "absent") == 5
    assert f"{tmp_path}/absent names no file" in capsys.readouterr().err
    (tmp_path / "empty.csv").touch()
    assert code_of("infer", tmp_path / "empty.csv") == 5
    assert "has only empty files" in capsys.readouterr().err


def test_a_table_of_one_blank_line_has_no_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("\n")
    assert code_of("infer", tmp_path / "a.csv") == 2
    assert "the source has the columns no columns" in capsys.readouterr().err
