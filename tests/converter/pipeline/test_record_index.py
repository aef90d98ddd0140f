"""A shard's index has the offset of each record, however the records are divided into batches."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.builders.jobs import output_of
from tests.builders.scores import scores_job

from dataprep_api.spec import HdfsOptions
from dataprep_converter.formats.format import IndexLine
from dataprep_converter.formats.recordio.recordio_decoder import RecordioDecoder
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline import record_index, shard_samples
from dataprep_converter.pipeline.record_index import RecordIndex
from dataprep_converter.tools.verification import verify

NO_MANIFEST: Any = None
LINE = IndexLine("offset", " ", "size")
MAGIC = struct.unpack("<f", struct.pack("<I", 0xCED7230A))[0]
"""A number with the same bytes as the magic number that precedes every RecordIO record."""


def index_of(out: Path, file: str) -> list[list[int]]:
    return [[int(number) for number in line.split()] for line in (out / f"_dataprep/index/{file}.idx").read_text().splitlines()]


def frames(data: bytes) -> list[list[int]]:
    """Returns the (offset, size) of each TFRecord frame, computed only from the lengths in the frames."""
    found, offset = [], 0
    while offset < len(data):
        size = struct.unpack_from("<Q", data, offset)[0] + 16
        found.append([offset, size])
        offset += size
    return found


@pytest.mark.parametrize(
    ("batch", "together"), [(8192, 4096), (2, 4096), (2, 3), (1, 1)], ids=["one batch", "batches of 2", "lines of 4", "batches of 1"]
)
@pytest.mark.parametrize("features", [[{"name": "id", "encoding": "Raw"}], None], ids=["equal records", "records of different sizes"])
def test_a_tfrecord_index_has_offset_and_size(
    tmp_path: Path, features: Any, batch: int, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_samples, "MOST_RECORDS", batch)
    monkeypatch.setattr(record_index, "_TOGETHER", together)
    out = output_of(scores_job(tmp_path, features=features, output={"shards": {"count": 2}}))
    for file in sorted(out.glob("*.tfrecords")):
        assert index_of(out, file.name) == frames(file.read_bytes())
    assert len(list(out.glob("*.tfrecords"))) == 4


@pytest.mark.parametrize("batch", [8192, 1])
def test_a_recordio_index_has_number_and_offset_of_the_first_frame(tmp_path: Path, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_samples, "MOST_RECORDS", batch)
    rows = [{"x": [1.0] * n + [MAGIC] * (n % 4)} for n in range(12)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {"jsonl": {"uris": [str(tmp_path / "in.jsonl")]}}
    out = output_of(scores_job(tmp_path, source=source, splits=None, labels=None, output={"format": "recordioProtobuf"}))
    data = (out / "train.rec").read_bytes()
    assert data.count(struct.pack("<I", 0xCED7230A)) > len(rows)
    offsets = [offset for offset, _ in RecordioDecoder(NO_MANIFEST).read([data])]
    assert index_of(out, "train.rec") == [[number, offset] for number, offset in enumerate(offsets)]


@pytest.mark.parametrize(
    "output",
    [{"index": False}, {"tfrecord": {"compression": "Gzip"}}, {"format": "parquet"}],
    ids=["not wanted", "gzip", "another format"],
)
def test_there_is_none_where_nobody_would_use_it(tmp_path: Path, output: dict[str, Any]) -> None:
    out = output_of(scores_job(tmp_path, output=output))
    assert not (out / "_dataprep/index").exists()
    assert verify(str(out), Access()).records_out == 9


def test_a_shard_without_records_has_an_empty_index(tmp_path: Path) -> None:
    out = output_of(scores_job(tmp_path, transforms=[{"filter": {"where": "id < 5"}}]))
    assert (out / "_dataprep/index/validation.tfrecords.idx").read_bytes() == b""
    assert (out / "validation.tfrecords").read_bytes() == b""


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_text("0 1\n")], ids=["gone", "changed"])
def test_a_shard_whose_index_is_not_as_it_was_written_is_made_again(tmp_path: Path, damage: Any) -> None:
    job = scores_job(tmp_path, output={"overwrite": "IfChanged"})
    index = output_of(job) / "_dataprep/index/train.tfrecords.idx"
    written = index.read_bytes()
    damage(index)
    (index.parents[2] / "_SUCCESS").unlink()
    output_of(job)
    assert index.read_bytes() == written


def test_a_long_index_is_written_as_it_comes(tmp_path: Path) -> None:
    uri = str(tmp_path / "long.idx")
    index = RecordIndex(LINE, Access().store(uri), uri, hdfs=HdfsOptions())
    for _ in range(30):
        index.add(np.full(10_000, 33))
    assert not Path(uri).exists()
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) > 1 << 20
    written = index.publish("long.idx")
    index.abort()
    lines = Path(uri).read_text().splitlines()
    assert (len(lines), lines[0], lines[-1]) == (300_000, "0 33", f"{33 * 299_999} 33")
    assert written.size == Path(uri).stat().st_size > 1 << 20


def test_offsets_may_be_beyond_32_bits(tmp_path: Path) -> None:
    uri = str(tmp_path / "large.idx")
    index = RecordIndex(LINE, Access().store(uri), uri, hdfs=HdfsOptions())
    sizes = [1 << 32, 9, 10, 1 << 40, 99, 100]
    index.add(np.array(sizes[:1]))
    index.add(np.array(sizes[1:]))
    index.publish("large.idx")
    expected = [f"{sum(sizes[:number])} {size}\n" for number, size in enumerate(sizes)]
    assert Path(uri).read_text() == "".join(expected)


def test_nothing_is_left_of_an_index_that_was_dropped(tmp_path: Path) -> None:
    uri = str(tmp_path / "dropped.idx")
    index = RecordIndex(LINE, Access().store(uri), uri, hdfs=HdfsOptions())
    index.add(np.full(100_000, 33))
    index.abort()
    assert list(tmp_path.iterdir()) == []
