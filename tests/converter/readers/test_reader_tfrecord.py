"""Tests TFRecord files from this project and from protobuf, plain and gzip, with all kinds of features, and the errors for broken files."""

import gzip
import struct
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.builders.examples import examples
from tests.builders.jobs import run_job
from tests.builders.tfrecords import example, put_records, tfrecord_source, values
from tests.converter.formats.columns import all_same
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, plan, rows

from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.core.framing import frame
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Reader
from dataprep_converter.readers.tfrecord import tfrecord
from dataprep_converter.readers.tfrecord.tfrecord import TfrecordReader


def hand_written(*entries: tuple[str, bytes]) -> bytes:
    """An Example with the given entries (key, feature), in exactly this order."""

    def field(tag: int, content: bytes) -> bytes:
        assert len(content) < 128
        return bytes([tag, len(content)]) + content

    return field(0x0A, b"".join(field(0x0A, field(0x0A, key.encode()) + field(0x12, feature)) for key, feature in entries))


class TfrecordContract(ReaderContract):
    reader: ClassVar[type[Reader]] = TfrecordReader
    suffix: ClassVar[str]

    @pytest.fixture(autouse=True)
    def small_units(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tfrecord, "_UNIT_BYTES", 2000)

    def a_source(self, folder: Path) -> Source:
        for name, first in (("a", 0), ("b", 1000)):
            payloads = [example(n=first + n, x=[n / 2, n / 4], t=b"x" * (n % 30), r=[*range(n % 5)] or [0]) for n in range(30)]
            put_records(folder / f"{name}.tfrecords{self.suffix}", payloads)
        features = [
            {"name": "n", "type": "Int64"},
            {"name": "x", "type": "Float32", "shape": [2]},
            {"name": "t", "type": "Bytes"},
            {"name": "r", "type": "Int64", "ragged": True},
        ]
        return tfrecord_source(folder, features=features)

    def an_empty_source(self, folder: Path) -> Source:
        put_records(folder / f"a{self.suffix}", [])
        return tfrecord_source(folder)

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        put_records(folder / "a", [example(n=1)])
        return tfrecord_source(folder / "a", folder / "absent"), str(folder / "absent")

    def change(self, folder: Path) -> Path:
        return put_records(folder / f"b.tfrecords{self.suffix}", [example(n=7)])


class TestPlainFiles(TfrecordContract):
    suffix = ""


class TestGzipFiles(TfrecordContract):
    suffix = ".gz"


FEATURES: list[dict[str, Any]] = [
    {"i": -1, "f": 0.5, "b": b"\xff\x00", "v": [1.0, 2.0], "l": [1, 2], "many": [b"a", b""]},
    {"i": 2**63 - 1, "f": -0.0, "b": b"", "v": [3.0, 4.0], "l": [-(2**63)], "many": []},
    {"i": 300, "f": 2.0**100, "b": b"x" * 5000, "v": [5.0, 6.0], "l": [0] * 200, "many": [b"z" * 300]},
]


def test_types_and_shapes_are_inferred_from_the_first_records(tmp_path: Path) -> None:
    source = tfrecord_source(put_records(tmp_path / "a", [example(**features) for features in FEATURES]))
    _, state = plan(TfrecordReader, source)
    assert state["features"] == [
        {"name": "b", "type": "Bytes"},
        {"name": "f", "type": "Float32"},
        {"name": "i", "type": "Int64"},
        {"name": "l", "type": "Int64", "ragged": True},
        {"name": "many", "type": "Bytes", "ragged": True},
        {"name": "v", "type": "Float32", "shape": [2]},
    ]
    assert values(source) == FEATURES


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data(), kinds=st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=3), order=st.randoms(use_true_random=False))
def test_any_records_are_read_as_protobuf_reads_them(tmp_path: Path, data: st.DataObject, kinds: list[int], order: Any) -> None:
    strategies = [
        st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
        st.lists(st.floats(width=32), max_size=4),
        st.lists(st.binary(max_size=200), max_size=3),
    ]
    names = [f"f{number}" for number in range(len(kinds))]
    one = st.fixed_dictionaries({}, optional={name: strategies[kind] for name, kind in zip(names, kinds, strict=True)})
    given_features = data.draw(st.lists(one, min_size=1, max_size=12))
    payloads = []
    for features in given_features:
        shuffled = list(features.items())
        order.shuffle(shuffled)
        payloads.append(example(**dict(shuffled)))
    types = ["Int64", "Float32", "Bytes"]
    wanted = [{"name": name, "type": types[kind], "ragged": True} for name, kind in zip(names, kinds, strict=True)]
    source = tfrecord_source(put_records(tmp_path / "a", payloads), features=wanted)
    assert all_same(values(source), [{name: features.get(name, []) for name in names} for features in given_features])


def test_unusual_ways_to_write_a_record_are_read_too(tmp_path: Path) -> None:
    ints = {
        "packed": b"\x1a\x04\x0a\x02\x05\x06",
        "not packed": b"\x1a\x04\x08\x05\x08\x06",
        "in two lists": b"\x1a\x03\x0a\x01\x05\x1a\x03\x0a\x01\x06",
        "with a long length": b"\x1a\x85\x00\x0a\x82\x00\x05\x06",
        "another list before": b"\x12\x00\x1a\x04\x0a\x02\x05\x06",
    }
    payloads = [hand_written(("x", feature), ("y", b"\x1a\x03\x0a\x01\x07")) for feature in ints.values()]
    payloads.append(hand_written(("x", ints["packed"]), ("y", b"\x12\x00"), ("y", b"\x1a\x03\x0a\x01\x07")))
    source = tfrecord_source(put_records(tmp_path / "a", payloads), features=[{"name": n, "type": "Int64", "ragged": True} for n in "xy"])
    assert values(source) == [{"x": [5, 6], "y": [7]}] * 6


def test_more_orders_of_keys_than_leaders_are_read(tmp_path: Path) -> None:
    entries = [(name, bytes([0x1A, 3, 0x0A, 1, number])) for number, name in enumerate("abcde")]
    payloads = [hand_written(*entries[n % 5 :], *entries[: n % 5]) for n in range(20)]
    payloads += [hand_written(*reversed([*entries[n % 5 :], *entries[: n % 5]])) for n in range(20)]
    assert values(tfrecord_source(put_records(tmp_path / "a", payloads))) == [{"a": 0, "b": 1, "c": 2, "d": 3, "e": 4}] * 40


def test_a_raw_tensor_gets_its_type_and_shape_back(tmp_path: Path) -> None:
    tensors = [np.arange(6, dtype="<i2").reshape(2, 3) - n for n in range(3)]
    source = tfrecord_source(
        put_records(tmp_path / "a", [example(t=tensor.tobytes()) for tensor in tensors]),
        features=[{"name": "t", "type": "Bytes", "raw": "int16", "shape": [2, 3]}],
    )
    (batch,) = batches(TfrecordReader, source)
    column: Any = batch.records.column("t")
    assert column.to_numpy_ndarray().tolist() == [tensor.tolist() for tensor in tensors]


WRONG: dict[str, tuple[bytes, str]] = {
    "missing": (example(x=[1.0, 2.0]), "the feature 'n' is missing"),
    "without a value": (hand_written(("n", b""), ("x", b"\x12\x0a\x0a\x08" + bytes(8))), "the feature 'n' is missing"),
    "another kind": (example(n=b"1", x=[1.0, 2.0]), "the feature 'n' holds bytes, expected integers"),
    "too many": (example(n=[1, 2], x=[1.0, 2.0]), "the feature 'n' has 2 values, expected 1"),
    "too few": (example(n=1, x=[1.0]), "the feature 'x' has 1 values, expected 2"),
    "another feature": (example(n=1, x=[1.0, 2.0], z=3), "the feature 'z' wasn't found when the job was planned"),
    "another one, unusual": (
        hand_written(("n", b"\x1a\x02\x08\x05"), ("x", b"\x12\x0a\x0a\x08" + bytes(8)), ("z", b"")),
        "the feature 'z' wasn't found when the job was planned",
    ),
    "half a float": (
        hand_written(("n", b"\x1a\x03\x0a\x01\x05"), ("x", b"\x12\x09\x0a\x07" + bytes(7))),
        "has a size that isn't a multiple of 4 bytes, the size of a float",
    ),
    "a number that goes on": (
        hand_written(("n", b"\x1a\x03\x0a\x01\x85"), ("x", b"\x12\x0a\x0a\x08" + bytes(8))),
        "the feature 'n' ends within a number",
    ),
    "a number too long": (
        hand_written(("n", b"\x1a\x0d\x0a\x0b" + b"\xff" * 10 + b"\x01"), ("x", b"\x12\x0a\x0a\x08" + bytes(8))),
        "the feature 'n' holds a number of more than 64 bits",
    ),
    "no Example": (b"\x0a\xff\xff\xff\xff\x0f", "The record holds no tf.train.Example"),
    "a SequenceExample": (
        example(n=1, x=[1.0, 2.0]) + b"\x12\x00",
        "holds a tf.train.SequenceExample, but no feature of source.tfrecord.features is a sequence",
    ),
}


@pytest.mark.parametrize(("payload", "reason"), WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("place", [0, 150, 299])
def test_a_record_that_does_not_fit_is_bad_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, payload: bytes, reason: str, place: int
) -> None:
    monkeypatch.setattr(tfrecord, "_SAMPLED_RECORDS", 5)
    good = [example(n=n, x=[n / 2, 1.0]) for n in range(300)]
    put_records(tmp_path / "a", good[:5])
    put_records(tmp_path / "b", [*good[:place], payload, *good[place:]])
    monkeypatch.setattr(tfrecord, "_SAMPLED_FILES", 1)
    source = tfrecord_source(tmp_path / "a", tmp_path / "b")
    found = batches(TfrecordReader, source)
    assert list(faults(found)) == [5 + place]
    assert reason in faults(found)[5 + place]
    assert [row["n"] for row in rows(found)] == [*range(5), *range(300)]
    (bad,) = [bad for batch in found for bad in batch.bad]
    assert bad.raw is not None
    assert bad.raw.content == payload


def test_listed_features_pass_over_all_others(tmp_path: Path) -> None:
    source = tfrecord_source(put_records(tmp_path / "a", [example(n=1, z=3), example(n=2)]), features=[{"name": "n", "type": "Int64"}])
    assert values(source) == [{"n": 1}, {"n": 2}]


def test_a_raw_tensor_of_another_size_is_bad(tmp_path: Path) -> None:
    file = put_records(tmp_path / "a", [example(t=bytes(4)), example(t=bytes(5)), example(t=[bytes(2), bytes(2)])])
    source = tfrecord_source(file, features=[{"name": "t", "type": "Bytes", "raw": "uint8", "shape": [2, 2]}])
    assert faults(batches(TfrecordReader, source)) == {
        1: "the feature 't' has 5 bytes, a tensor uint8[2, 2] has 4",
        2: "the feature 't' has 2 bytes, a tensor uint8[2, 2] has 4",
    }


def of_bytes(folder: Path, data: bytes) -> Source:
    (folder / "a").write_bytes(data)
    return tfrecord_source(folder / "a", raw=True)


FILE = b"".join(frame(b"x" * size) for size in (5, 70_000, 3, 3, 8))
BROKEN: dict[str, tuple[bytes, str]] = {
    "length CRC": (FILE[:70_037] + b"?" + FILE[70_038:], "bad length CRC at offset 70037."),
    "data CRC": (FILE[:70_049] + b"?" + FILE[70_050:], "bad data CRC at offset 70037."),
    "data CRC of the first": (FILE[:12] + b"?" + FILE[13:], "bad data CRC at offset 0."),
    "no TFRecord": (b"\x89PNG\r\n\x1a\n" + bytes(20), "bad length CRC (is it a TFRecord file?) at offset 0."),
    "data cut": (FILE[:-1], "truncated record at offset 70075: it has 8 bytes of data, but the file ends before that."),
    "large data cut": (FILE[:60_000], "truncated record at offset 21: it has 70,000 bytes of data, but the file ends before that."),
    "header cut": (FILE[:70_080], "truncated length (5 of 12 bytes) at offset 70075."),
}


@pytest.mark.parametrize(("data", "message"), BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize("compress", [bytes, lambda data: gzip.compress(data, mtime=0)], ids=["plain", "gzip"])
def test_a_broken_file_is_named_with_the_offset(tmp_path: Path, data: bytes, message: str, compress: Any) -> None:
    with pytest.raises(BadData) as caught:
        batches(TfrecordReader, of_bytes(tmp_path, compress(data)))
    assert str(caught.value) == f"{tmp_path}/a: {message}"
    assert caught.value.uri == f"{tmp_path}/a"


def test_a_gzip_file_that_ends_early_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"a: the gzip stream ends early\."):
        batches(TfrecordReader, of_bytes(tmp_path, gzip.compress(FILE)[:-9]))


def test_large_records_are_passed_over_while_planning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = of_bytes(tmp_path, b"".join(frame(bytes(1 << 20)) for _ in range(8)))
    read: list[int] = []
    store = Access().store("x")
    whole = type(store.open(str(tmp_path / "a"))).read_at

    def counted(self: Any, offset: int, length: int) -> bytes:
        read.append(min(length, self.size - offset))
        return whole(self, offset, length)

    monkeypatch.setattr(type(store.open(str(tmp_path / "a"))), "read_at", counted)
    units, _ = plan(TfrecordReader, source)
    assert units.samples == 8
    assert sum(read) < 1 << 20


def test_a_file_that_holds_no_examples_is_refused_while_planning(tmp_path: Path) -> None:
    with pytest.raises(BadData) as caught:
        plan(TfrecordReader, tfrecord_source(put_records(tmp_path / "a", [example(n=1), b"\xff\xff"])))
    assert str(caught.value) == (
        f"{tmp_path}/a, offset 30: the record holds no tf.train.Example. Set source.tfrecord.raw to keep records unparsed."
    )


def test_a_feature_of_two_kinds_is_refused(tmp_path: Path) -> None:
    put_records(tmp_path / "a", [example(n=1)])
    put_records(tmp_path / "b", [example(n=1.0)])
    with pytest.raises(BadSpec, match=r"The feature 'n' is Int64 in .*/a and Float32 in .*/b\."):
        plan(TfrecordReader, tfrecord_source(tmp_path))


def test_a_feature_that_never_has_a_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        BadSpec, match="The feature 'n' has no value in the first 2 records, so its type can't be determined; list the features"
    ):
        plan(TfrecordReader, tfrecord_source(put_records(tmp_path / "a", [example(n=[]), example()])))


def test_options_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(ValidationError, match="raw can't be combined with features"):
        tfrecord_source("a", raw=True, features=[{"name": "n", "type": "Int64"}])
    with pytest.raises(ValidationError, match="the feature 'n': ragged can't be combined with shape or raw"):
        tfrecord_source("a", features=[{"name": "n", "type": "Int64", "ragged": True, "shape": [2]}])
    with pytest.raises(ValidationError, match="the feature 'n': raw needs type: Bytes, got Int64"):
        tfrecord_source("a", features=[{"name": "n", "type": "Int64", "raw": "uint8"}])


def convert(folder: Path, name: str, source: dict[str, Any], **spec: Any) -> Path:
    """Runs a job that writes to `folder/name`."""
    output = {"uri": str(folder / name), "shards": {"count": 3}, **spec.pop("output", {})}
    document = {
        "apiVersion": "dataprep.io/v1alpha1",
        "kind": "DataPrepJob",
        "metadata": {"name": "x"},
        "spec": {"source": source, "output": output, **spec},
    }
    run_job(DataPrepJob.parse(document))
    return folder / name


def payloads_of(folder: Path) -> list[bytes]:
    return [payload for file in sorted(folder.glob("[!_]*")) for _, payload in records.read([file.read_bytes()])]


def made_from_bytes(folder: Path, **spec: Any) -> Path:
    """A data set of this project, with raw tensors and labels, in two splits."""
    (folder / "in.bin").write_bytes(b"".join(struct.pack("<B6B", n % 3, *range(n, n + 6)) for n in range(50)))
    fields = [{"name": "label", "dtype": "uint8"}, {"name": "image", "dtype": "uint8", "shape": [2, 3]}]
    splits = {"into": [{"name": "test", "first": 10}, {"name": "train"}]}
    source = {"fixedLength": {"uris": [str(folder / "in.bin")], "recordBytes": 7, "fields": fields}}
    return convert(folder, "made", source, splits=splits, **spec)


def test_a_folder_of_ours_is_read_by_its_manifest(tmp_path: Path) -> None:
    made = made_from_bytes(tmp_path)
    source = tfrecord_source(made)
    units, _ = plan(TfrecordReader, source)
    assert set(units.table["subset"].to_pylist()) == {"test", "train"}
    (batch,) = batches(TfrecordReader, source)
    image: Any = batch.records.column("image")
    assert image.type.value_type == "uint8"
    assert image.to_numpy_ndarray().tolist() == [[[n, n + 1, n + 2], [n + 3, n + 4, n + 5]] for n in range(50)]
    assert batch.records.column("label").to_pylist() == [n % 3 for n in range(50)]


def test_a_data_set_of_ours_becomes_the_same_again(tmp_path: Path) -> None:
    made = made_from_bytes(tmp_path)
    splits = {"into": [{"name": "test", "subset": "test"}, {"name": "train", "subset": "train"}]}
    again = convert(tmp_path, "again", {"tfrecord": {"uris": [str(made)]}}, splits=splits)
    for file in made.glob("*tfrecords"):
        assert (again / file.name).read_bytes() == file.read_bytes()


def test_raw_records_are_written_unchanged(tmp_path: Path) -> None:
    given_payloads = [b"no Example at all", b"", *(example(n=n) for n in range(30))]
    source = {"tfrecord": {"uris": [str(put_records(tmp_path / "in.gz", given_payloads))], "raw": True}}
    made = convert(tmp_path, "made", source)
    assert payloads_of(made) == given_payloads
    shuffled = convert(tmp_path, "shuffled", source, shuffle={"seed": 1})
    assert payloads_of(shuffled) != given_payloads
    assert sorted(payloads_of(shuffled)) == sorted(given_payloads)
