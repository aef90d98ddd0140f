"""Files of records, such as TFRecord, are examined several at a time while planning. The plan is the same as if they were read in order."""

import gzip
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.builders.sequence_files import head, numbered, records
from tests.builders.tfrecords import example, put_records

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import reader_class
from dataprep_converter.readers.base import examined
from dataprep_converter.readers.hadoop import sequence_file
from dataprep_converter.readers.tfrecord import tfrecord
from dataprep_converter.stores import PinnedInput
from dataprep_converter.stores.files import FileStore

KINDS = ("tfrecord", "sequenceFile")
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
        else:
            file.write_bytes(head("Text", "LongWritable") + records(numbered(40)))
    return Source.model_validate({request.param: {"uris": [str(tmp_path)]}})


def as_remote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read files on this disk like those of a remote store."""
    monkeypatch.setattr(examined, "ReadsFiles", type("Never", (), {}))


def planned(source: Source) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    units, state = reader_class(source.kind).discover(source.member, Access()).collect()
    return [vars(units.unit(number)) for number in range(len(units))], state


def test_the_plan_of_files_that_are_examined_at_the_same_time_is_the_same(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    in_order = planned(source)
    as_remote(monkeypatch)
    assert planned(source) == in_order
    assert len(in_order[0]) > 2 * FILES


def test_eight_files_are_examined_at_the_same_time(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    as_remote(monkeypatch)
    meeting = threading.Barrier(8, timeout=60)
    really = FileStore.open

    def opened(store: FileStore, uri: str) -> PinnedInput:
        # Other threads look up manifests, and the main thread reads the first records.
        if threading.current_thread().name.startswith("ahead") and int(uri[-2:]) < 16:
            meeting.wait()
        return really(store, uri)

    monkeypatch.setattr(FileStore, "open", opened)
    assert len(planned(source)[0]) > 2 * FILES


def test_the_first_broken_file_is_named(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_remote(monkeypatch)
    for name in ("03", "04", "11"):
        (tmp_path / name).write_bytes(b"neither TFRecord nor a sequence file")
    with pytest.raises(BadData, match="/03"):
        planned(source)
