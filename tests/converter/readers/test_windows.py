"""Tests reading in a scattered order. The batches are the same as without windows, and each unit is decoded once per window."""

import gc
import gzip
import os
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.builders.jobs import run_job, run_spec
from tests.converter.readers.reader_contract import batches, faults, plan, rows

from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import Source
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline import shard_samples
from dataprep_converter.readers.base import blocks, windows
from dataprep_converter.readers.text import stretches
from dataprep_converter.readers.text.delimited import CsvReader
from dataprep_converter.records.batch import Batch

COLUMNS = [{"name": "x", "type": "Int64"}, {"name": "s", "type": "String"}]
ROWS = 400


def a_source(folder: Path, *, zipped: bool = False) -> Source:
    text = "".join(f"{n},t{n}\n" if n % 37 else f"bad {n},t\n" for n in range(ROWS)).encode()
    (folder / "a.csv").write_bytes(gzip.compress(text, mtime=0) if zipped else text)
    return Source.model_validate({"csv": {"uris": [str(folder / "a.csv")], "columns": COLUMNS}})


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list that collects the first line number of each parsed section of text. Only the latest section is cached."""
    monkeypatch.setattr(stretches, "UNIT_BYTES", 256)
    monkeypatch.setattr(blocks, "KEPT_BYTES", 0)
    seen: list[int] = []
    parse = CsvReader.parse

    def counted(self: CsvReader, data: bytes, **more: Any) -> blocks.Block:
        seen.append(more["line"])
        return parse(self, data, **more)

    monkeypatch.setattr(CsvReader, "parse", counted)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("window", [1, 50, 10_000])
@pytest.mark.usefixtures("decoded")
def test_a_scattered_order_gives_the_same_batches(tmp_path: Path, window: int, zipped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    source = a_source(tmp_path, zipped=zipped)
    in_order = {row["_sample"]: row for row in rows(batches(CsvReader, source))}
    order = np.random.default_rng(1).permutation(ROWS).astype(np.int64)
    monkeypatch.setattr(windows, "MOST_BYTES", window * 20)
    found = batches(CsvReader, source, size=17, order=order)
    assert rows(found) == [in_order[sample] for sample in order.tolist() if sample in in_order]
    assert sorted(faults(found)) == [n for n in range(ROWS) if n % 37 == 0]
    for batch, start in zip(found, range(0, ROWS, 17), strict=True):
        asked = order[start : start + 17].tolist()
        assert [bad.sample for bad in batch.bad] == [sample for sample in asked if sample % 37 == 0]
        assert batch.records.num_rows + len(batch.bad) == len(asked)


def test_a_unit_is_decoded_once_for_a_window(tmp_path: Path, decoded: list[int]) -> None:
    source = a_source(tmp_path)
    batches(CsvReader, source)
    units = len(decoded)
    assert units > 10
    decoded.clear()
    order = np.random.default_rng(1).permutation(ROWS).astype(np.int64)
    batches(CsvReader, source, size=17, order=order)
    assert len(decoded) <= units + 1  # one additional unit is decoded to measure the size of a row


def test_what_is_kept_anyway_is_not_gathered(tmp_path: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "KEPT_BYTES", 1 << 20)
    monkeypatch.setattr(windows, "windows", lambda *_, **__: pytest.fail("gathered"))
    order = np.arange(ROWS, dtype=np.int64)[::-1]
    source = a_source(tmp_path)
    batches(CsvReader, source, size=17, order=order)
    assert len(decoded) == len(set(decoded))


def test_windows_hold_whole_batches() -> None:
    arrays = [np.arange(n, dtype=np.int64) for n in (3, 3, 5, 1)]
    found = [[len(wanted) for wanted in window] for window in windows.windows(iter(arrays), rows=6)]
    assert found == [[3, 3], [5, 1]]


# --- with known future requests ------------------------------------------------------------------------------------------------

SHARDS = 4


class Shards(Closeable):
    """A single reader reads the parts of a scattered order one after another. It knows which parts will follow."""

    def __init__(self, folder: Path) -> None:
        source = a_source(folder)
        self.units, state = plan(CsvReader, source)
        self.reader = CsvReader(source.member, state, Access())
        order = np.random.default_rng(1).permutation(ROWS).astype(np.int64)
        self.parts = [np.array_split(part, 6) for part in np.split(order, SHARDS)]

    def close(self) -> None:
        self.reader.close()

    def read(self, number: int) -> list[Batch]:
        self.reader.accept_read_plan(lambda: iter([iter(part) for part in self.parts[number:]]))
        return list(self.reader.read(self.units, iter(self.parts[number])))


def expected(folder: Path, shards: Shards, number: int) -> list[dict[str, Any]]:
    in_order = {row["_sample"]: row for row in rows(batches(CsvReader, a_source(folder)))}
    return [in_order[sample] for part in shards.parts[number] for sample in part.tolist() if sample in in_order]


@pytest.mark.usefixtures("decoded")
@pytest.mark.parametrize("asked", [[0, 1, 2, 3], [0, 0, 1, 1], [3, 2, 1, 0], [0, 2]], ids=["in turn", "again", "backwards", "left out"])
def test_shards_that_were_foreseen_are_the_same(asked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "MOST_BYTES", 50 * 20)
    with Shards(tmp_path) as shards:
        for number in asked:
            found = shards.read(number)
            assert rows(found) == expected(tmp_path, shards, number)
            bad = [sample for part in shards.parts[number] for sample in part.tolist() if sample % 37 == 0]
            assert [each.sample for batch in found for each in batch.bad] == bad
            assert [len(part) for part in shards.parts[number]] == [batch.records.num_rows + len(batch.bad) for batch in found]


def test_one_pass_is_enough_for_shards_that_are_foreseen(tmp_path: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    batches(CsvReader, a_source(tmp_path))
    units = len(decoded)
    monkeypatch.setattr(windows, "MOST_BYTES", 50 * 20)
    with Shards(tmp_path) as shards:
        decoded.clear()
        bytes_in = sum(batch.bytes_in for number in range(SHARDS) for batch in shards.read(number))

        assert len(decoded) <= units + 1  # one additional unit is decoded to measure the size of a row
        size = (tmp_path / "a.csv").stat().st_size
        assert size <= bytes_in <= size + 256


def test_a_pass_lays_by_no_more_than_there_is_memory_for(tmp_path: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    batches(CsvReader, a_source(tmp_path))
    units = len(decoded)
    monkeypatch.setattr(windows, "MOST_BYTES", 50 * 20)
    monkeypatch.setattr(windows, "MOST_ROWS", ROWS // 2)
    with Shards(tmp_path) as shards:
        decoded.clear()
        for number in range(SHARDS):
            assert rows(shards.read(number))

        assert units < len(decoded) <= 2 * units + 1


@pytest.mark.usefixtures("decoded")
def test_without_room_on_the_disk_each_window_has_its_own_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[Any] = []

    def full(**_: object) -> Any:
        made.append(os.fdopen(os.open("/dev/full", os.O_RDWR), "r+b", buffering=0))
        return made[-1]

    monkeypatch.setattr(windows, "MOST_BYTES", 50 * 20)
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with Shards(tmp_path) as shards:
        assert rows(shards.read(0)) == expected(tmp_path, shards, 0)
        assert made
        assert all(file.closed for file in made)
        assert "has no room for the rows of a shuffle: No space left on device. The shuffle will read the input more often." in caplog.text


@pytest.mark.usefixtures("decoded")
def test_many_bad_records_are_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "MOST_BYTES", 50 * 20)
    monkeypatch.setattr(windows, "_MOST_BAD", 3)
    with Shards(tmp_path) as shards:
        assert rows(shards.read(0)) == expected(tmp_path, shards, 0)


@pytest.mark.slow
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_whole_job_makes_the_bytes_that_it_makes_in_memory(
    parallelism: int, tmp_path: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(folder: str) -> dict[str, bytes]:
        spec = {
            "source": a_source(tmp_path).model_dump(by_alias=True, exclude_none=True),
            "features": [{"name": "x"}, {"name": "s"}],
            "onBadRecord": {"policy": "Skip"},
            "splits": {"into": [{"name": "train", "fraction": 0.8}, {"name": "test", "fraction": 0.2}]},
            "shuffle": {"seed": 5},
            "workers": {"parallelism": parallelism},
            "output": {"uri": str(tmp_path / folder), "shards": {"count": 5}},
        }
        run_spec(spec)
        return {file.name: file.read_bytes() for file in (tmp_path / folder).glob("*.tfrecords")}

    monkeypatch.setattr(windows, "MOST_BYTES", 20 * 20)
    monkeypatch.setattr(shard_samples, "MOST_RECORDS", 16)
    gathered = made("gathered")
    decoded_with_passes = len(decoded)
    decoded.clear()
    monkeypatch.setattr(windows, "MOST_ROWS", 0)
    assert made("window by window") == gathered
    assert len(decoded) > 3 * decoded_with_passes
    monkeypatch.setattr(blocks, "KEPT_BYTES", 1 << 20)

    assert made("kept") == gathered
    assert len(gathered) == 10


def test_what_a_task_has_read_goes_when_the_task_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_source(tmp_path)
    made: list[weakref.ref[Any]] = []
    begin = CsvReader.__init__

    def noted(self: CsvReader, *given: Any, **more: Any) -> None:
        begin(self, *given, **more)
        made.append(weakref.ref(self))

    monkeypatch.setattr(CsvReader, "__init__", noted)
    was_on = gc.isenabled()
    gc.disable()
    try:
        spec = {"source": {"csv": {"uris": [str(tmp_path / "a.csv")], "columns": COLUMNS}}, "onBadRecord": {"policy": "Skip"}}
        output = {"uri": str(tmp_path / "out"), "shards": {"count": 4}}
        job = DataPrepJob.parse({"metadata": {"name": "job"}, "spec": {**spec, "output": output, "workers": {"parallelism": 2}}})
        run_job(job)
        left = [reader() for reader in made]
    finally:
        if was_on:
            gc.enable()
    assert len(made) >= 3
    assert left == [None] * len(made)
