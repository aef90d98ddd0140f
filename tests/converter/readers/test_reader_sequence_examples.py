"""Tests tf.train.SequenceExample as a source: TensorFlow's bytes become columns, which are written as the same bytes again."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.builders.jobs import run_spec
from tests.builders.tfrecords import KINDS, put_records, tfrecord_source, values
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, plan

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.readers import Reader
from dataprep_converter.readers.tfrecord import tfrecord
from dataprep_converter.readers.tfrecord.tfrecord import TfrecordReader

# Written by TensorFlow 2.21. The context is id=7. The sequence t has two steps, each with two floats: (1, 2) and (3, 4).
GOLDEN = bytes.fromhex("0a0d0a0b0a02696412051a030a010712230a210a0174121c0a0c120a0a080000803f000000400a0c120a0a080000404000008040")


def sequence(context: Mapping[str, Any], **lists: Sequence[Any]) -> bytes:
    """A SequenceExample, serialised by protobuf."""
    built = records._record_class()()
    for name, value in context.items():
        found = value if isinstance(value, list) else [value]
        getattr(built.context.feature[name], KINDS[type(found[0])]).value.extend(found)
    for name, steps in lists.items():
        listed = built.feature_lists.feature_list[name]
        for step in steps:
            added = listed.feature.add()
            found = step if isinstance(step, list) else [step]
            if found:
                getattr(added, KINDS[type(found[0])]).value.extend(found)
    written: bytes = built.SerializeToString()
    return written


class TestSequenceExamples(ReaderContract):
    reader: ClassVar[type[Reader]] = TfrecordReader

    @pytest.fixture(autouse=True)
    def small_units(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tfrecord, "_UNIT_BYTES", 2000)

    def a_source(self, folder: Path) -> Source:
        for file in range(2):
            rows = [sequence({"id": file + n}, t=[[n / 2, 1.0]] * (n % 4), w=[b"a", b"bc"][: n % 3]) for n in range(30)]
            put_records(folder / f"{file}.tfrecords", rows)
        return tfrecord_source(folder)

    def an_empty_source(self, folder: Path) -> Source:
        put_records(folder / "a", [])
        return tfrecord_source(folder)

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        put_records(folder / "a", [GOLDEN])
        return tfrecord_source(folder / "a", folder / "absent"), str(folder / "absent")

    def change(self, folder: Path) -> Path:
        return put_records(folder / "1.tfrecords", [GOLDEN])


def test_tensorflows_bytes_become_columns(tmp_path: Path) -> None:
    file = put_records(tmp_path / "a", [GOLDEN])
    assert values(tfrecord_source(file)) == [{"id": 7, "t": [[1.0, 2.0], [3.0, 4.0]]}]
    assert plan(TfrecordReader, tfrecord_source(file))[1]["features"] == [
        {"name": "id", "type": "Int64"},
        {"name": "t", "type": "Float32", "shape": [2], "sequence": True},
    ]


@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_they_are_written_again_as_they_were(tmp_path: Path, name: str) -> None:
    payloads = [GOLDEN, sequence({"id": -(2**63)}, t=[]), sequence({"id": 3}, t=[[0.5, -0.5]])]
    run_spec({"source": {"tfrecord": {"uris": [str(put_records(tmp_path / name, payloads))]}}, "output": {"uri": str(tmp_path / "out")}})
    found = [payload for _, payload in records.read([(tmp_path / "out" / "train.tfrecords").read_bytes()])]
    assert found[0] == GOLDEN
    assert [records.parse_example(each) for each in found] == [records.parse_example(each) for each in payloads]


def test_every_form_of_step(tmp_path: Path) -> None:
    rows = [
        sequence({}, one=[1, 2, 3], words=[b"a", b""], two=[[1.5, 2.5]], some=[[1, 2], [], [3]], raw=[b"\x01\x02", b"\x03\x04"]),
        sequence({}, one=[], words=[b"c"], two=[], some=[[4]], raw=[]),
    ]
    features = [
        {"name": "one", "type": "Int64", "sequence": True},
        {"name": "words", "type": "Bytes", "sequence": True},
        {"name": "two", "type": "Float32", "shape": [2], "sequence": True},
        {"name": "some", "type": "Int64", "ragged": True, "sequence": True},
        {"name": "raw", "type": "Bytes", "raw": "uint8", "shape": [2], "sequence": True},
    ]
    assert values(tfrecord_source(put_records(tmp_path / "a", rows), features=features)) == [
        {"one": [1, 2, 3], "words": [b"a", b""], "two": [[1.5, 2.5]], "some": [[1, 2], [], [3]], "raw": [[1, 2], [3, 4]]},
        {"one": [], "words": [b"c"], "two": [], "some": [[4]], "raw": []},
    ]
    told = {each["name"]: each for each in plan(TfrecordReader, tfrecord_source(tmp_path / "a"))[1]["features"]}
    assert told["some"] == {"name": "some", "type": "Int64", "ragged": True, "sequence": True}
    assert told["words"] == {"name": "words", "type": "Bytes", "sequence": True}


def test_a_folder_that_a_job_wrote_keeps_its_sequences(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.csv").write_text("".join(f"{step},{step / 2},{number}\n" for step in range(number + 1)))
    columns = [{"name": "a", "type": "Int64"}, {"name": "b", "type": "Float32"}, {"name": "label", "type": "Int64"}]
    source = {"csvSequences": {"uris": [str(tmp_path / "in")], "columns": columns, "perSequence": ["label"]}}
    run_spec({"source": source, "output": {"uri": str(tmp_path / "one")}})
    run_spec({"source": {"tfrecord": {"uris": [str(tmp_path / "one")]}}, "output": {"uri": str(tmp_path / "two")}})
    assert (tmp_path / "one" / "train.tfrecords").read_bytes() == (tmp_path / "two" / "train.tfrecords").read_bytes()


WRONG = {
    "another count": (sequence({"id": 1}, t=[[1.0]]), "the feature 't' has 1 values, expected 2 in step 1"),
    "another type": (sequence({"id": 1}, t=[[b"a", b"b"]]), "the feature 't' holds bytes, expected float32 in step 1"),
    "no context": (sequence({}, t=[]), "the feature 'id' is missing"),
    "a stranger": (
        sequence({"id": 1, "x": 2}, t=[]),
        "the feature 'x' wasn't found when the job was planned; list the features in source.tfrecord.features",
    ),
    "a list as context": (
        sequence({"id": 1, "t": 1.0}),
        "the feature 't' is in the record's context, but it is a sequence in source.tfrecord.features",
    ),
    "no message": (b"\x0a\xff\xff\xff\xff\x0f", "the record is not a tf.train.SequenceExample"),
}


@pytest.mark.parametrize(("payload", "reason"), WRONG.values(), ids=WRONG.keys())
def test_a_record_that_does_not_fit_is_bad_with_its_reason(
    tmp_path: Path, payload: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dataprep_converter.readers.tfrecord.tfrecord._SAMPLED_RECORDS", 1)
    assert faults(batches(TfrecordReader, tfrecord_source(put_records(tmp_path / "a", [GOLDEN, payload, GOLDEN])))) == {1: reason}


def test_a_sequence_without_a_value_in_the_first_records_must_be_listed(tmp_path: Path) -> None:
    with pytest.raises(
        BadSpec, match="The sequence 't' is without a value in the first records; list the features in source.tfrecord.features"
    ):
        plan(TfrecordReader, tfrecord_source(put_records(tmp_path / "a", [sequence({"id": 1}, t=[])])))
