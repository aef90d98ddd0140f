"""`dataprep infer`: the printed job runs unchanged, for every kind of source that can be recognised from its files."""

import datetime as dt
import gzip
import json
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
from tests.builders.files import put
from tests.converter.cli.commandline import code_of
from tests.converter.cli.inference import data_set, features, idx, inferred, photos, pictures, text
from tests.converter.stores.site import serving

from dataprep_converter.core import framing
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import READERS
from dataprep_converter.tools.verification import verify
from workbench import example_inputs

_arrow: Any = pa
_feather: Any = pyarrow.feather
_parquet: Any = pyarrow.parquet
TABLE = _arrow.table({"width": [0.5, 1.5, 2.5], "label": [0, 1, 0], "name": ["a", "b", "c"]})


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


def test_records_of_another_program_are_read_whatever_their_files_are_called(tmp_path: Path) -> None:
    content = framing.frame(example())
    root = tmp_path / "theirs"
    files = {"train/day=1/part-00000": content * 3, "train/a.tfrecord.gz": gzip.compress(content * 4), "val/b.tfrecord": content * 2}
    put(root, {**files, "dataset_info.json": b'{"splits": []}', "_SUCCESS": b""})
    _, spec = inferred(root, tmp_path)
    assert spec["source"] == {"tfrecord": {"uris": [f"{root}/**/*.tfrecord", f"{root}/**/*.tfrecord.gz", f"{root}/train/day=1/part-00000"]}}
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
    assert verify(str(tmp_path / "out"), Access()).records_out == 9


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


def test_the_mark_of_another_program_is_none_of_ours(tmp_path: Path) -> None:
    text(tmp_path / "in/part-00000.csv", "x,z\n1,2\n")
    text(tmp_path / "in/_SUCCESS", "")
    _, spec = inferred(tmp_path / "in", tmp_path)
    assert spec["source"] == {"csv": {"uris": [str(tmp_path / "in")], "header": True}}
    assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0


def test_a_signed_address_of_the_web_is_a_file(tmp_path: Path) -> None:
    signed = "/rows.csv?X-Amz-Expires=60&X-Amz-Signature=0123"
    with serving({signed: b"x,z\n1,2\n"}) as site:
        # Like a real server, the site refuses every path that isn't signed.
        site.refusals[f"{signed}/_SUCCESS"] = 403
        _, spec = inferred(site.at(signed), tmp_path)
        assert spec["source"] == {"csv": {"uris": [site.at(signed)], "header": True}}
        assert code_of("run", tmp_path / "job.yaml", "--quiet") == 0
