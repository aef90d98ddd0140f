"""Files of records, such as TFRecord, are examined several at a time while planning. The plan is the same as if they were read in order."""

import gzip
import struct
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.builders.sequence_files import head, numbered, records
from tests.builders.tfrecords import example, put_records

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData, BadSpec, ConvertError
from dataprep_converter.core.framing import frame
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import reader_class
from dataprep_converter.readers.base import examined
from dataprep_converter.readers.hadoop import sequence_file
from dataprep_converter.readers.tfrecord import tfrecord
from dataprep_converter.stores import PinnedInput
from dataprep_converter.stores.files import FileStore

KINDS = ("tfrecord", "sequenceFile", "numpy")
FILES = 20


@pytest.fixture(params=KINDS)
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    """A folder of files, each with several units."""
    monkeypatch.setattr(tfrecord, "_UNIT_BYTES", 64)
    monkeypatch.setattr(sequence_file, "_UNIT_BYTES", 64)
    for number in range(FILES):
        file = tmp_path / f"{number:02}"
        if request.param == "tfrecord":
            put_records(file, [example(x=[number], y=[float(row)]) for row in range(9)])
            if number % 3 == 1:
                file.write_bytes(gzip.compress(file.read_bytes(), mtime=0))
        elif request.param == "numpy":
            np.save(file.with_suffix(".npy"), np.arange(number + 1))
        else:
            file.write_bytes(head("Text", "LongWritable") + records(numbered(40)))
    return Source.model_validate({request.param: {"uris": [str(tmp_path)]}})


def as_remote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat files on the local disk like files of a remote store."""
    monkeypatch.setattr(examined, "ReadsFiles", type("Never", (), {}))


def planned(source: Source) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    units, state = reader_class(source.kind).discover(source.member, Access()).collect()
    return [vars(units.unit(number)) for number in range(len(units))], state


def test_the_plan_of_files_that_are_examined_at_the_same_time_is_the_same(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    in_order = planned(source)
    as_remote(monkeypatch)
    assert planned(source) == in_order
    assert len(in_order[0]) >= FILES


def test_eight_files_are_examined_at_the_same_time(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    as_remote(monkeypatch)
    meeting = threading.Barrier(8, timeout=60)
    really = FileStore.open

    def opened(store: FileStore, uri: str) -> PinnedInput:
        # Other threads look up manifests, and the main thread reads the first records.
        if threading.current_thread().name.startswith("ahead") and int(uri.removesuffix(".npy")[-2:]) < 16:
            meeting.wait()
        return really(store, uri)

    monkeypatch.setattr(FileStore, "open", opened)
    assert len(planned(source)[0]) >= FILES


def test_the_first_broken_file_is_named(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_remote(monkeypatch)
    for name in ("03", "04", "11"):
        file = next(tmp_path.glob(f"{name}*"))
        file.write_bytes(b"no file of records")
    with pytest.raises(BadData, match="/03"):
        planned(source)


CUT = b"\0\1"
"""The beginning of a record. If a file ends with these bytes, its last record is incomplete."""


@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize(
    ("kind", "contents", "error", "message"),
    [
        pytest.param("tfrecord", [2 * frame(b"no Example") + CUT], BadData, "Set source.tfrecord.raw", id="no Example"),
        pytest.param("tfrecord", [frame(example(x=[1]))[:-1] + b"?" + frame(b"") + CUT], BadData, "bad data CRC", id="a wrong CRC"),
        pytest.param(
            "sequenceFile",
            [head("Text", "LongWritable") + records(numbered(2)), head("Text", "Text") + records(numbered(2)) + CUT],
            BadSpec,
            "must have the same classes",
            id="another class",
        ),
        pytest.param(
            "sequenceFile",
            [head("Text", "org.example.Foo") + records(numbered(2)) + CUT],
            BadSpec,
            "org.example.Foo",
            id="an unknown class",
        ),
    ],
)
def test_what_is_wrong_first_is_said_about_a_file_that_is_cut_off(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_remote: bool,
    kind: str,
    contents: list[bytes],
    error: type[ConvertError],
    message: str,
) -> None:
    monkeypatch.setattr(tfrecord, "_UNIT_BYTES", 1)
    monkeypatch.setattr(sequence_file, "_UNIT_BYTES", 1)
    if is_remote:
        as_remote(monkeypatch)
    for number, content in enumerate(contents):
        (tmp_path / f"{number}").write_bytes(content)
    with pytest.raises(error, match=message):
        planned(Source.model_validate({kind: {"uris": [str(tmp_path)]}}))


def test_records_that_are_not_needed_to_infer_the_features_are_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_remote(monkeypatch)
    for number in range(12):
        put_records(tmp_path / f"{number:02}", [example(x=[number]) if number < 8 else b"no Example"])
    units, _ = planned(Source.model_validate({"tfrecord": {"uris": [str(tmp_path)]}}))
    assert [unit["records"] for unit in units] == [1] * 12


def test_objects_that_are_not_needed_to_determine_the_kinds_are_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_remote(monkeypatch)
    java = "org.datavec.hadoop.records.reader.mapfile.record.RecordWritable"
    pairs = [(struct.pack(">q", row), struct.pack(">ihi", 1, 4, row)) for row in range(2)]
    (tmp_path / "0").write_bytes(head("LongWritable", java) + records(pairs))
    (tmp_path / "1").write_bytes(head("LongWritable", java) + records([(key, b"?") for key, _ in pairs]))
    units, _ = planned(Source.model_validate({"sequenceFile": {"uris": [str(tmp_path)]}}))
    assert [unit["records"] for unit in units] == [2, 2]
