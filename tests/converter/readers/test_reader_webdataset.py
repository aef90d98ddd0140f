"""Tests tar files that the library webdataset, tarfile and GNU tar have written: groups, columns, types, compression, and damaged members."""

import gzip
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
import webdataset  # type: ignore[import-untyped]  # it has no types
from tests.builders.files import put
from tests.builders.images import an_image
from tests.builders.packed import PACKERS
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, opened, plan, rows
from webdataset import autodecode, tariterators

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.readers import Reader
from dataprep_converter.readers.foreign import webdataset as reader_module
from dataprep_converter.readers.foreign.webdataset import WebdatasetReader


def a_source(*uris: Path, **options: Any) -> Source:
    return Source.model_validate({"webdataset": {"uris": [str(uri) for uri in uris], **options}})


def written(samples: Sequence[Mapping[str, Any]]) -> bytes:
    """The tar file that the library writes."""
    file = io.BytesIO()
    with webdataset.TarWriter(file) as writer:
        for sample in samples:
            writer.write(dict(sample))
    return file.getvalue()


def a_tar(members: Sequence[tuple[str, bytes]], **options: Any) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", **options) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def found(source: Source) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "_sample"} for row in rows(batches(WebdatasetReader, source))]


def read_by_the_library(path: Path) -> list[dict[str, Any]]:
    decode = autodecode.Decoder([autodecode.basichandlers])
    with path.open("rb") as file:
        samples = tariterators.group_by_keys(tariterators.tar_file_expander([{"url": str(path), "stream": file}]))
        return [decode(sample) for sample in samples]


def pictures(count: int, *, first: int = 0, width: int = 20) -> list[dict[str, Any]]:
    return [
        {"__key__": f"{n:06}", "jpg": an_image(seed=n, width=width), "cls": n % 3, "txt": f"the picture {n}", "json": {"n": n}}
        for n in range(first, first + count)
    ]


class Contract(ReaderContract):
    reader: ClassVar[type[Reader]] = WebdatasetReader
    pack: ClassVar[str | None] = None

    @pytest.fixture(autouse=True)
    def small_units(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reader_module, "_UNIT_BYTES", 12_000)

    def _packed(self, content: bytes) -> bytes:
        return content if self.pack is None else PACKERS[self.pack](content)

    def a_source(self, folder: Path) -> Source:
        count = 12
        put(folder, {f"{n:05}.tar": self._packed(written(pictures(count, first=n * count))) for n in range(2)})
        return a_source(folder)

    def an_empty_source(self, folder: Path) -> Source:
        put(folder, {"00000.tar": self._packed(written([]))})
        return a_source(folder)

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        return a_source(folder / "absent"), str(folder / "absent")

    def change(self, folder: Path) -> Path:
        put(folder, {"00001.tar": self._packed(written(pictures(12, first=50)))})
        return folder / "00001.tar"


class TestWebdataset(Contract):
    pass


class TestZippedWebdataset(Contract):
    pack = "gz"


def test_the_samples_are_those_that_the_library_reads(tmp_path: Path) -> None:
    samples = [
        {**sample, "npy": np.full((2, 3), n, np.float32), "seg.png": an_image("PNG", seed=n), "bin": bytes([n])}
        for n, sample in enumerate(pictures(30))
    ]
    put(tmp_path, {"a-000.tar": written(samples[:20]), "a-001.tar": written(samples[20:])})
    theirs = [sample for shard in ("a-000.tar", "a-001.tar") for sample in read_by_the_library(tmp_path / shard)]
    ours = found(a_source(tmp_path))
    assert len(ours) == len(theirs) == 30
    for mine, other in zip(ours, theirs, strict=True):
        assert mine["__key__"] == other["__key__"]
        assert (mine["cls"], mine["txt"], mine["bin"]) == (other["cls"], other["txt"], other["bin"])
        assert json.loads(mine["json"]) == other["json"]
        assert mine["npy"] == other["npy"].reshape(-1).tolist()
        assert mine["jpg"] == other["jpg"]
        assert mine["seg.png"] == other["seg.png"]


def test_the_columns_have_types(tmp_path: Path) -> None:
    sample = {"__key__": "a", "jpg": b"x", "cls": 7, "txt": "é", "json": {}, "npy": np.zeros((2, 2), np.int16), "len.npy": np.zeros(3)}
    put(tmp_path, {"a.tar": written([sample, sample | {"__key__": "b", "len.npy": np.zeros(4)}])})
    _, state = plan(WebdatasetReader, a_source(tmp_path))
    schema = opened(WebdatasetReader, a_source(tmp_path), state).schema()
    assert {field.name: str(field.type) for field in schema} == {
        "jpg": "large_binary",
        "cls": "int64",
        "txt": "string",
        "json": "string",
        "npy": str(pa.fixed_shape_tensor(pa.int16(), (2, 2))),
        "len.npy": "large_list<item: double>",
        "__key__": "string",
    }
    assert found(a_source(tmp_path))[1]["len.npy"] == [0.0] * 4


def test_a_class_that_is_a_word_is_text_and_text_in_another_encoding_is_bytes(tmp_path: Path) -> None:
    put(tmp_path, {"a.tar": a_tar([("1.cls", b"cat"), ("1.txt", b"\xe9")])})
    assert found(a_source(tmp_path)) == [{"cls": "cat", "txt": b"\xe9", "__key__": "1"}]


def test_samples_without_a_member_have_a_null_or_are_bad(tmp_path: Path) -> None:
    put(tmp_path, {"a.tar": a_tar([("1.jpg", b"x"), ("1.cls", b"1"), ("2.jpg", b"y"), ("3.cls", b"3"), ("3.npy", npy([1.5]))])})
    assert found(a_source(tmp_path)) == [
        {"jpg": b"x", "cls": 1, "npy": None, "__key__": "1"},
        {"jpg": b"y", "cls": None, "npy": None, "__key__": "2"},
        {"jpg": None, "cls": 3, "npy": [1.5], "__key__": "3"},
    ]
    refused = batches(WebdatasetReader, a_source(tmp_path, columns=["jpg", "cls"]), nulls="Bad")
    assert faults(refused) == {1: "2 has no member with the extension 'cls'", 2: "3 has no member with the extension 'jpg'"}


def npy(values: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array(values))
    return file.getvalue()


def test_names_are_grouped_as_the_library_groups_them(tmp_path: Path) -> None:
    members = [
        ("d.ir/a.JPG", b"1"),
        ("d.ir/a.seg.png", b"2"),
        ("d.ir/b.jpg", b"3"),
        ("README", b"no extension"),
        ("__meta__/x.jpg", b"metadata"),
        ("__index__", b"metadata"),
        ("d.ir/.hidden.jpg", b"no key"),
        ("long/" + "x" * 200 + ".jpg", b"4"),
        ("d.ir/a.jpg", b"5"),
    ]
    put(tmp_path, {"a.tar": a_tar(members)})
    theirs = read_by_the_library(tmp_path / "a.tar")
    ours = found(a_source(tmp_path))
    assert (
        [row["__key__"] for row in ours] == [sample["__key__"] for sample in theirs] == ["d.ir/a", "d.ir/b", "long/" + "x" * 200, "d.ir/a"]
    )
    assert [row["jpg"] for row in ours] == [sample["jpg"] for sample in theirs] == [b"1", b"3", b"4", b"5"]
    assert ours[0]["seg.png"] == b"2"


def test_gnu_tar_with_folders_is_read(tmp_path: Path) -> None:
    put(
        tmp_path / "in",
        {f"{folder}/{n}.{extension}": f"{folder}{n}".encode() for folder in "ab" for n in range(3) for extension in ("txt", "bin")},
    )
    (tmp_path / "out").mkdir()
    subprocess.run(["/usr/bin/env", "tar", "-C", tmp_path / "in", "--sort=name", "-cf", tmp_path / "out/x.tar", "."], check=True)
    assert [(row["__key__"], row["txt"], row["bin"]) for row in found(a_source(tmp_path / "out"))] == [
        (f"./{folder}/{n}", f"{folder}{n}", f"{folder}{n}".encode()) for folder in "ab" for n in range(3)
    ]


def test_files_beside_the_shards_are_ignored(tmp_path: Path) -> None:
    put(tmp_path, {"0.tar": written(pictures(1)), "1.tgz": gzip.compress(written(pictures(1))), "0.parquet": b"PAR1", "stats.json": b"{}"})
    units, state = plan(WebdatasetReader, a_source(tmp_path))
    assert units.table["path"].to_pylist() == ["0.tar", "1.tgz"]
    assert state["ignored"] == 2


def test_only_the_columns_that_are_named_are_read(tmp_path: Path) -> None:
    put(tmp_path, {"0.tar": written(pictures(2))})
    assert [list(row) for row in found(a_source(tmp_path, columns=["txt", "cls"]))] == [["txt", "cls", "__key__"]] * 2
    with pytest.raises(BadSpec) as caught:
        plan(WebdatasetReader, a_source(tmp_path, columns=["jpeg"]))
    assert str(caught.value) == (
        "source.webdataset.columns: no member has the extension 'jpeg'. Did you mean 'jpg'? The extensions are cls, jpg, json, txt."
    )


def test_a_member_that_does_not_fit_is_a_bad_record(tmp_path: Path) -> None:
    members = [(f"{n:02}.{extension}", content) for n in range(20) for extension, content in (("cls", b"1"), ("npy", npy([1.0, 2.0])))]
    wrong = [
        ("20.cls", b"one"),
        ("21.cls", str(2**63).encode()),
        ("22.npy", npy([1, 2])),
        ("23.npy", npy([1.0])),
        ("24.npy", b"\x93NUMPY"),
        ("25.npy", npy(np.array([None]))),
    ]
    put(tmp_path, {"a.tar": a_tar(members + wrong)})
    assert faults(batches(WebdatasetReader, a_source(tmp_path))) == {
        20: "the member '20.cls': 'one' is not a whole number",
        21: f"the member '21.cls': {2**63} doesn't fit into int64",
        22: "the member '22.npy': it is int64, expected float64",
        23: "the member '23.npy': it has the shape [1], expected [2]",
        24: "the member '24.npy': it is not a .npy file of numbers: EOF: reading magic string, expected 8 bytes got 6",
        25: "the member '25.npy': it is not a .npy file of numbers: Object arrays cannot be loaded when allow_pickle=False",
    }


WRONG: dict[str, tuple[bytes, str]] = {
    "an extension twice": (a_tar([("1.jpg", b""), ("1.JPG", b"")]), "the sample '1' has two members with the extension 'jpg'."),
    "a member twice": (a_tar([("1.jpg", b""), ("1.jpg", b"")]), "has two members '1.jpg'."),
    "no tar file": (b"x" * 2000, "is not a complete tar file"),
    "cut": (written([{"__key__": "1", "bin": bytes(3000)}])[:2000], "is not a complete tar file: unexpected end of data"),
}


@pytest.mark.parametrize(("content", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_broken_shard_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    put(tmp_path, {"a.tar": content})
    with pytest.raises(BadData) as caught:
        plan(WebdatasetReader, a_source(tmp_path))
    assert str(caught.value).startswith(f"{tmp_path}/a.tar")
    assert message in str(caught.value)


@pytest.mark.parametrize("extension", ["__key__", "_sample"])
def test_an_extension_that_is_the_name_of_another_column_is_refused_unless_it_is_left_out(tmp_path: Path, extension: str) -> None:
    put(tmp_path, {"a.tar": a_tar([("1.txt", b"x"), (f"1.{extension}", b"y")])})
    with pytest.raises(BadSpec, match=f"^{tmp_path}: the column '{extension}' "):
        plan(WebdatasetReader, a_source(tmp_path))
    assert found(a_source(tmp_path, columns=["txt"])) == [{"txt": "x", "__key__": "1"}]


def test_a_name_that_ends_in_a_dot_has_no_extension(tmp_path: Path) -> None:
    put(tmp_path, {"a.tar": a_tar([("1.", b"x"), ("1.txt", b"y")])})
    assert found(a_source(tmp_path)) == [{"txt": "y", "__key__": "1"}]


def test_an_extension_that_is_not_utf8_is_a_column(tmp_path: Path) -> None:
    put(tmp_path, {"a.tar": a_tar([("1.t\udcff", b"x")])})
    assert found(a_source(tmp_path)) == [{"t\ufffd": b"x", "__key__": "1"}]


def test_arrays_of_either_byte_order_are_one_list(tmp_path: Path) -> None:
    arrays = [np.array([1.5], ">f8"), np.array([2.5, 3.5], "<f8")]
    put(tmp_path, {"a.tar": a_tar([(f"{n}.npy", npy(array)) for n, array in enumerate(arrays)])})
    assert [row["npy"] for row in found(a_source(tmp_path))] == [[1.5], [2.5, 3.5]]


@pytest.mark.parametrize(
    "content",
    [
        npy(np.zeros((0, 3))),
        npy(np.zeros(2, np.uint64)),
        b"PK\3\4 not a zip file",
        *(
            b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header
            for header in (
                b"{'descr': '<f8', 'shape': (3,\n",
                b"{[]: 1}\n",
                b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d,), }\n" % 10**30,
            )
        ),
    ],
    ids=["no values", "uint64", "zip", "cut header", "key of the header", "huge shape"],
)
def test_arrays_that_records_can_not_hold_are_bytes_or_bad_records(tmp_path: Path, content: bytes) -> None:
    put(
        tmp_path,
        {
            "a/0.tar": a_tar([("1.npy", content)]),
            "b/0.tar": a_tar([("1.npy", npy([1.5])), *[(f"{n:02}.npy", npy([2.5])) for n in range(2, 20)], ("99.npy", content)]),
        },
    )
    assert found(a_source(tmp_path / "a")) == [{"npy": content, "__key__": "1"}]
    assert list(faults(batches(WebdatasetReader, a_source(tmp_path / "b")))) == [19]
