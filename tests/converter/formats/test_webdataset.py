"""webdataset: bytes equal those of the library's own writer, all values are read back, and bad keys, names and files are refused."""

import io
import tarfile
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import webdataset  # type: ignore[import-untyped]  # it has no types
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples
from tests.converter.formats.columns import all_same, any_columns, expected, tensors, written

from dataprep_api.dataset.plan import Shard
from dataprep_api.spec import Output
from dataprep_converter.core.errors import BadData, BadSpec, BrokenRecord
from dataprep_converter.formats import values
from dataprep_converter.formats.archives.webdataset_encoder import WebdatasetEncoder, key_of
from dataprep_converter.formats.registry import by_feature, decoder
from dataprep_converter.records.feature import FeatureSpec

pytestmark = pytest.mark.usefixtures("native_and_python")

JPEG, PNG = b"\xff\xd8\xff\xe0 a JPEG file", b"\x89PNG\r\n\x1a\n a PNG file"
COUNT = 40


def theirs(samples: list[dict[str, Any]]) -> bytes:
    """Return the file that the webdataset library writes."""
    file = io.BytesIO()
    # The library's writer encodes arrays with its numpy encoder, and our bytes must equal the result. It writes bytes unchanged.
    with webdataset.TarWriter(file, mtime=0) as writer:
        for sample in samples:
            writer.write(sample)
    return file.getvalue()


def names(data: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return archive.getnames()


def contents(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]  # all are files


# --- bytes ----------------------------------------------------------------------------------------------------------


def test_bytes_are_those_of_the_librarys_writer() -> None:
    noise = np.random.default_rng(3)
    images = [(JPEG if row % 3 else PNG) + noise.bytes(row * 29) for row in range(COUNT)]
    pixels = noise.random((COUNT, 2, 3)).astype(np.float32)
    columns = {
        "image/encoded": pa.array(images, pa.large_binary()),
        "caption": pa.array([f"number {row} ☃" for row in range(COUNT)]),
        "tags": pa.array([["a"] * (row % 3) for row in range(COUNT)], pa.list_(pa.string())),
        "pixels": tensors(*pixels),
        "label": pa.array([row % 10 for row in range(COUNT)]),
    }
    made = written("webdataset", columns, labels=["label"], cuts=[7, 8, 30])
    samples = []
    for row, image in enumerate(images):
        tags = b'["a","a"]'[:] if row % 3 == 2 else b'["a"]' if row % 3 else b"[]"
        sample = {"cls": row % 10, "json": tags, "npy": pixels[row], "txt": f"number {row} ☃"}
        samples.append({"__key__": f"000000{row:06d}", **sample, ("jpg" if row % 3 else "png"): image})
    assert made.data == theirs(samples)


def test_tar_reads_names_in_order_and_other_readers_meet_no_extended_header() -> None:
    made = written("webdataset", {"a": pa.array([1, 2]), "b": pa.array(["x", "y"])})
    with tarfile.open(fileobj=io.BytesIO(made.data)) as archive:
        found = list(archive)
    assert [member.name for member in found] == ["000000000000.cls", "000000000000.txt", "000000000001.cls", "000000000001.txt"]
    assert {(member.type, member.mtime, member.mode, member.uname, member.uid) for member in found} == {(b"0", 0, 0o444, "bigdata", 0)}
    assert len(made.data) == 10_240
    assert made.data.endswith(bytes(1024))


def test_a_file_without_samples_is_an_empty_archive() -> None:
    made = written("webdataset", {"a": pa.array([], pa.int64())})
    assert made.data == theirs([]) == bytes(10_240)
    assert made.records() == []


# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "labels", "extensions", "expected_names"),
    [
        pytest.param({"a": pa.array([1])}, [], {}, ["cls"], id="an integer"),
        pytest.param({"a": pa.array([1]), "b": pa.array([2])}, [], {}, ["a.cls", "b.cls"], id="two"),
        pytest.param({"a": pa.array([1]), "b": pa.array([2])}, ["b"], {}, ["a.cls", "cls"], id="a number and the label"),
        pytest.param({"a": pa.array([1]), "b": pa.array([2])}, ["a", "b"], {}, ["a.cls", "b.cls"], id="two labels"),
        pytest.param({"image/Text": pa.array(["a"]), "B": pa.array(["b"])}, [], {}, ["b.txt", "image_text.txt"], id="two texts"),
        pytest.param({"x": pa.array([b"a"]), "t": tensors([1, 2])}, [], {}, ["bin", "npy"], id="bytes and a tensor"),
        pytest.param({"f": pa.array([1.5]), "l": pa.array([[1]])}, [], {"l": "npy"}, ["json", "npy"], id="a list as npy"),
        pytest.param({"a": pa.array([1]), "b": pa.array([2])}, [], {"a": "index"}, ["cls", "index"], id="the other is alone then"),
        pytest.param({"x/encoded": pa.array([JPEG]), "y": pa.array(["{}"])}, [], {"y": "json"}, ["jpg", "json"], id="JSON as it is"),
        pytest.param({"i/encoded": pa.array([JPEG]), "m/encoded": pa.array([PNG])}, [], {}, ["i_encoded.jpg", "m_encoded.png"], id="images"),
        pytest.param({"i/encoded": pa.array([PNG])}, [], {"i/encoded": "seg.png"}, ["seg.png"], id="an image's own"),
        pytest.param({"i/encoded": pa.array([b"?"])}, [], {}, ["bin"], id="an image of no known kind"),
    ],
)  # fmt: skip
def test_extensions(columns: dict[str, Any], labels: list[str], extensions: dict[str, str], expected_names: list[str]) -> None:
    made = written("webdataset", columns, labels=labels, options={"extensions": extensions})
    assert [name.partition(".")[2] for name in names(made.data)] == expected_names
    assert all_same(made.records(), expected({name: columns[name] for name in sorted(columns)}, []))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "z"}, "output.webdataset: there is no feature 'z'; the features are a, b, t."),
        ({"extensions": {"z": "txt"}}, "output.webdataset: there is no feature 'z'; the features are a, b, t."),
        ({"key": "t"}, "output.webdataset.key: 't' isn't a feature of text or integers."),
        (
            {"extensions": {"t": "txt"}},
            "output.webdataset.extensions: 't' has several values, so its extension must end with npy or json, not with txt.",
        ),
        ({"extensions": {"b": "npy"}}, "output.webdataset.extensions: 'b' isn't a tensor of numbers, so it can't be stored as npy."),
        (
            {"extensions": {"a": "x", "b": "x"}},
            (
                "The features 'a' and 'b' would both have the extension 'x';"
                " give one of them another extension in output.webdataset.extensions."
            ),
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSpec) as caught:
        written("webdataset", {"a": pa.array([1]), "b": pa.array(["x"]), "t": tensors([1, 2])}, options=options)
    assert str(caught.value) == message


def test_keys_are_numbered_within_their_shard() -> None:
    encoder = WebdatasetEncoder(Output(uri="o", format="webdataset"), [FeatureSpec("a", "int64", "int64", ())])
    encoder.begin(Shard(number=9, split="test", index=4, file="x", first=80, records=2), seed=0)
    data = bytes(encoder.encode(pa.record_batch({"a": [1]}))) + bytes(encoder.encode(pa.record_batch({"a": [2]}))) + encoder.close()
    assert names(data) == ["000004000000.cls", "000004000001.cls"]


@pytest.mark.parametrize(
    ("value", "key"),
    [(b"a", b"a"), (b"n01/x_1.JPEG", b"n01/x_1_JPEG"), (b"a.b/c.d.e", b"a.b/c_d_e"), (b"/etc/./../x//y", b"etc/x/y"), ("é".encode(), "é".encode())],
)  # fmt: skip
def test_values_become_keys(value: bytes, key: bytes) -> None:
    assert key_of(value) == key


@pytest.mark.parametrize("value", [b"", b"/", b"..", b"a\0b"])
def test_a_value_that_names_no_file_is_no_key(value: bytes) -> None:
    with pytest.raises(BadData, match="can't be a sample's key: it isn't the name of a file"):
        key_of(value)


def test_a_feature_gives_the_keys_and_is_no_member() -> None:
    columns = {"id": pa.array(["x/1.a", "x/2"]), "v": pa.array([5, 6])}
    made = written("webdataset", columns, options={"key": "id"})
    assert names(made.data) == ["x/1_a.cls", "x/2.cls"]
    assert made.records() == [{"v": [5], "id": [b"x/1_a"]}, {"v": [6], "id": [b"x/2"]}]
    whole = written("webdataset", columns, options={"key": "id", "extensions": {"id": "txt"}})
    assert names(whole.data)[:2] == ["x/1_a.cls", "x/1_a.txt"]
    numbered = written("webdataset", columns, options={"key": "v"})
    assert names(numbered.data) == ["5.txt", "6.txt"]


def test_a_key_that_comes_twice_or_not_at_all_is_refused() -> None:
    with pytest.raises(BadData, match=r"The key 'a' \(feature 'id'\) occurs twice in a shard, but keys must be unique."):
        written("webdataset", {"id": pa.array(["a", "b", "a"]), "v": pa.array([1, 2, 3])}, cuts=[1, 2], options={"key": "id"})
    with pytest.raises(BadData, match="The feature 'id' has no value in some records, so these records have no key"):
        written("webdataset", {"id": pa.array(["a", None]), "v": pa.array([1, 2])}, options={"key": "id"}, nulls="Dropped")


@pytest.mark.parametrize("folders", ["x" * 90, "y" * 80 + "/" + "x" * 70, "é" * 70, "a/" * 70 + "b"])
def test_a_long_name_uses_the_prefix_as_tar_does(folders: str) -> None:
    keys = [f"{folders}/{row:06d}" for row in range(3)]
    made = written("webdataset", {"id": pa.array(keys), "v": pa.array([0, 1, 2])}, options={"key": "id"})
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for row, key in enumerate(keys):
            member = tarfile.TarInfo(f"{key}.cls")
            member.size, member.mode, member.uname, member.gname = 1, 0o444, "bigdata", "bigdata"
            archive.addfile(member, io.BytesIO(str(row).encode()))
    assert made.data == file.getvalue()
    assert [record["id"] for record in made.records()] == [[key.encode()] for key in keys]


def test_a_name_that_does_not_fit_is_refused() -> None:
    message = "is too long for tar's USTAR headers, which hold at most 100 bytes for the name and 155 bytes for the folders"
    with pytest.raises(BadData, match=message):
        written("webdataset", {"id": pa.array(["x" * 97]), "v": pa.array([1])}, options={"key": "id"})


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(any_columns())
def test_every_value_comes_back_and_bytes_are_the_same_however_batches_are_cut(made: tuple[dict[str, Any], list[str], list[int]]) -> None:
    columns, sequences, cuts = made
    shard = written("webdataset", columns, sequences=sequences, cuts=cuts)
    assert shard.data == written("webdataset", columns, sequences=sequences).data
    in_order = {name: columns[name] for name in sorted(columns)}
    found = shard.records(size=1000)
    assert all_same(found, expected(in_order, sequences))
    reader = decoder(shard.manifest())
    assert [values.fault(shard.manifest().features, by_feature(reader, each, [])) for _, each in reader.read([shard.data])] == [None] * len(
        found
    )


@settings(max_examples=examples(30))
@given(
    lists=st.lists(st.lists(st.floats(), max_size=4), min_size=1, max_size=5),
    numbers=st.sampled_from(["int32", "float32", "bool"]),
)  # fmt: skip
def test_every_value_comes_back_from_npy(lists: list[list[float]], numbers: str) -> None:
    steps = pa.array([[[value, 1.0] for value in row] for row in lists], pa.list_(pa.list_(pa.float64(), 2)))
    columns = {"lists": pa.array(lists, pa.list_(pa.float64())), "one": pa.array(np.arange(len(lists)).astype(numbers)), "steps": steps}
    extensions = {"lists": "lists.npy", "one": "one.npy", "steps": "steps.npy"}
    made = written("webdataset", columns, sequences=["steps"], options={"extensions": extensions})
    assert all_same(made.records(), expected(columns, ["steps"]))
    (first, *_) = [np.load(io.BytesIO(content)) for name, content in contents(made.data).items() if name.endswith("lists.npy")]
    assert first.dtype == np.float64
    assert first.shape == (len(lists[0]),)


def test_numbers_are_written_as_json_readers_and_the_library_take_them() -> None:
    columns = {"f": pa.array([1.0, -0.0, 1e20, float("nan"), float("-inf")]), "n": pa.array([1, -2, 3, 4, 5])}
    found = list(contents(written("webdataset", columns).data).values())
    assert found == [b"1", b"1.0", b"-2", b"-0.0", b"3", b"1e+20", b"4", b"NaN", b"5", b"-Infinity"]


def test_a_missing_value_has_no_member() -> None:
    columns = {"a": pa.array([1, 2]), "b": pa.array(["x", None])}
    made = written("webdataset", columns)
    assert names(made.data) == ["000000000000.cls", "000000000000.txt", "000000000001.cls"]
    assert made.records() == [{"a": [1], "b": [b"x"]}, {"a": [2], "b": []}]
    with pytest.raises(BadData, match="A record has no value for any feature, but a webdataset sample needs at least one value"):
        written("webdataset", {"b": pa.array([None], pa.string())}, nulls="Dropped")


def test_bytes_that_are_no_text_are_no_json() -> None:
    with pytest.raises(BadData, match="The feature 'b' is stored as JSON, which can hold only text, but it has bytes that aren't UTF-8"):
        written("webdataset", {"b": pa.array([[b"\xff"]], pa.list_(pa.binary()))})


# --- damaged files ------------------------------------------------------------------------------------------------------

WHOLE = written("webdataset", {"a": pa.array([1, 22]), "b": pa.array(["x", "y" * 600])})


def damaged(place: int, new: bytes) -> bytes:
    return WHOLE.data[:place] + new + WHOLE.data[place + len(new) :]


def header_with(place: int, new: bytes) -> bytes:
    """Return the first header with other bytes and a matching checksum."""
    header = bytearray(WHOLE.data[:512])
    header[place : place + len(new)] = new
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (damaged(3, b"x"), "the checksum of a header is wrong at offset 0"),
        (damaged(1024, b"\xff" * 512), "not the header of a tar file at offset 1024"),
        (damaged(600, b"\1"), "bytes other than zero after the member '000000000000.cls' at offset 0"),
        (damaged(6000, b"\1"), "bytes other than zero after the end at offset 4608"),
        (WHOLE.data[:512], "the member '000000000000.cls' is truncated: 0 of 1 bytes at offset 0"),
        (
            WHOLE.data[:1024],
            "expected a member, or two empty blocks and padding to a multiple of 10,240 bytes, got 0 bytes at offset 1024",
        ),
        (
            WHOLE.data[:1030],
            "expected a member, or two empty blocks and padding to a multiple of 10,240 bytes, got 6 bytes at offset 1024",
        ),
        (
            WHOLE.data[:5120],
            "expected a member, or two empty blocks and padding to a multiple of 10,240 bytes, got 512 bytes at offset 4608",
        ),
        (
            WHOLE.data[:-512],
            "expected a member, or two empty blocks and padding to a multiple of 10,240 bytes, got 5120 bytes at offset 4608",
        ),
        (header_with(156, b"5"), "a header that isn't the USTAR header of a file at offset 0"),
        (header_with(257, b"ustar  \0"), "a header that isn't the USTAR header of a file at offset 0"),
        (header_with(0, b"\0" * 100) + WHOLE.data[512:], "the name '' doesn't consist of a key and an extension at offset 0"),
        (WHOLE.data[:1024] * 2 + WHOLE.data[1024:], "the member '000000000000.cls' occurs twice at offset 1024"),
        (WHOLE.data[:4608] + WHOLE.data, "a second sample has the key '000000000000' at offset 4608"),
        (b"", "expected a member, or two empty blocks and padding to a multiple of 10,240 bytes, got 0 bytes at offset 0"),
    ],
)
def test_what_is_broken_is_named_with_its_offset(data: bytes, fault: str) -> None:
    with pytest.raises(BrokenRecord) as caught:
        WHOLE.records(data=data, size=100)
    assert str(caught.value) == fault


@pytest.mark.parametrize(
    ("extension", "content"),
    [("cls", b"1.5"), ("cls", b""), ("json", b"{"), ("json", b"[" * 100_000), ("npy", b"\x93NUMPY\x01\0\x02\0{}"), ("npy", b"abc")],
)
def test_a_member_that_does_not_hold_its_feature_is_named(extension: str, content: bytes) -> None:
    columns = {"a": pa.array([1]), "b": pa.array([[1.5]]), "c": tensors([1.0, 2.0])}
    reader = decoder(written("webdataset", columns).manifest())
    with pytest.raises(BrokenRecord, match="the member of '[abc]' isn't valid (text|json|npy): "):
        reader.parse({"__key__": b"x", extension: content})
