"""A shuffle in two rounds decodes each record once and reads it back once, for any number of workers."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders.specs import parse_job
from tests.converter.steps.two_rounds import SourceBytes, divide, make_rounds, planned

from dataprep_api.dataset.plan import task
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.shard_samples import samples_of
from dataprep_converter.readers import reader_class
from dataprep_converter.readers.base.blocks import Block, BlockReader
from dataprep_converter.readers.shuffle import shuffle_file
from dataprep_converter.readers.shuffle.divider import Divider
from dataprep_converter.readers.shuffle.task_reader import task_reader
from dataprep_converter.readers.text import stretches
from dataprep_converter.runtime import limits
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.steps.conversion.gather import gather_of

_pq: Any = pq  # the type stubs lack some options
ROWS, ROW_BYTES = 20_000, 200
_TEXT = "".join(chr(97 + number % 26) for number in range(ROW_BYTES))

pytestmark = pytest.mark.slow


def text(folder: Path) -> dict[str, Any]:
    (folder / "a.txt").write_text("".join(f"{number:08d}{_TEXT[8:]}\n" for number in range(ROWS)))
    return {"text": {"uris": [str(folder / "a.txt")]}}


def parquet(folder: Path, compression: str) -> dict[str, Any]:
    table = pa.table({"id": np.arange(ROWS), "text": [f"{number:08d}{_TEXT[8:]}" for number in range(ROWS)]})
    _pq.write_table(table, folder / "a.parquet", row_group_size=500, compression=compression, use_dictionary=False)
    return {"parquet": {"uris": [str(folder / "a.parquet")]}}


SOURCES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "text": text,
    "parquet": lambda folder: parquet(folder, "zstd"),
    "parquet without compression": lambda folder: parquet(folder, "none"),
}


class Decoded:
    """Counts the bytes of all decoded rows, both in blocks that readers decode and in batches that are read from a shuffle's files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        cached, stored = BlockReader.cached_block, shuffle_file.batches

        def block(reader: BlockReader, unit: Any, offset: int, row: int, load: Callable[[], Block]) -> Block:
            return cached(reader, unit, offset, row, lambda: self._counted_block(load()))

        def batches(part: memoryview, schema: pa.Schema) -> Any:
            for batch in stored(part, schema):
                self.bytes += batch.nbytes
                yield batch

        monkeypatch.setattr(BlockReader, "cached_block", block)
        monkeypatch.setattr(shuffle_file, "batches", batches)

    def _counted_block(self, block: Block) -> Block:
        self.bytes += block.records.nbytes
        return block


def read_all(plan: Plan, job: Any, access: Access) -> int:
    """Reads the samples of all convert tasks, one task after the other. Returns the number of records."""
    folder = OutputFolder(job.spec.output.uri, access).of_run(plan.head.run_id)
    records = 0
    for index in range(plan.head.tasks):
        shards = task(plan.head, index)
        source = reader_class(job.spec.data.kind)(job.spec.data.member, plan.head.reader_state, access)
        gather = gather_of(job.spec, shards, plan=plan, reader=source, folder=folder, access=access)
        assert gather is not None
        with task_reader(source, gather) as reader:
            for shard in shards:
                for batch in reader.read(plan.units, samples_of(shard, plan=plan, most_records=1000)):
                    records += batch.records.num_rows
    return records


@pytest.mark.parametrize(
    ("source", "workers"),
    [
        *((source, workers) for source in SOURCES for workers in (2, 10)),
        ("text", 100),
        *(pytest.param(source, 100, marks=pytest.mark.nightly) for source in list(SOURCES)[1:]),
        *(pytest.param(source, 1000, marks=pytest.mark.nightly) for source in SOURCES),
    ],
)
def test_records_are_decoded_once_and_read_back_once(tmp_path: Path, source: str, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    make_rounds(monkeypatch, slice_bytes=500_000, task_bytes=1)
    monkeypatch.setattr(stretches, "UNIT_BYTES", 100_000)
    written = SOURCES[source](tmp_path)
    output = {"uri": str(tmp_path / "out"), "shards": {"count": workers}}
    job = parse_job({"source": written, "shuffle": {"seed": 1}, "workers": {"parallelism": workers}, "output": output})
    access = Access()
    plan = planned(job, access)
    assert plan.head.tasks == workers

    decoded = Decoded(monkeypatch)
    first = divide(job, plan, access)
    once = decoded.bytes
    assert once >= ROWS * ROW_BYTES
    assert read_all(plan, job, access) == ROWS
    assert decoded.bytes <= 2.2 * once
    assert sum(each.records_in for each in first) == ROWS
    assert len(first) >= min(workers, 8)


def sizes_of_batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which the size of each divided batch is appended, in bytes."""
    sizes: list[int] = []
    add = Divider.add

    def measured(divider: Divider, batch: pa.RecordBatch, *rest: Any) -> None:
        sizes.append(batch.nbytes)
        add(divider, batch, *rest)

    monkeypatch.setattr(Divider, "add", measured)
    return sizes


def test_the_memory_of_the_first_round_does_not_depend_on_how_well_the_input_is_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_rounds(monkeypatch, slice_bytes=1 << 20)
    monkeypatch.setattr(limits, "memory_bytes", lambda **_: 64 << 20)
    rows, row_bytes = 2000, 20_000
    table = pa.table({"id": np.arange(50), "text": ["x" * row_bytes] * 50})
    with _pq.ParquetWriter(tmp_path / "a.parquet", table.schema, compression="zstd") as writer:
        for _ in range(0, rows, 50):
            writer.write_table(table)
    source = {"parquet": {"uris": [str(tmp_path / "a.parquet")]}}
    job = parse_job({"source": source, "shuffle": {"seed": 1}, "output": {"uri": str(tmp_path / "out"), "shards": {"count": 5}}})
    plan = planned(job, Access())
    sizes = sizes_of_batches(monkeypatch)
    divide(job, plan, Access())
    assert sum(sizes) >= rows * row_bytes
    assert max(sizes) <= 2 << 20


@pytest.mark.parametrize("rows", [10, 1000])
def test_rows_that_become_larger_do_not_make_a_large_batch(tmp_path: Path, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units with small rows are followed by units with large rows. The large rows take hardly any bytes in the compressed input."""
    make_rounds(monkeypatch, slice_bytes=1 << 30)
    monkeypatch.setattr(limits, "memory_bytes", lambda **_: 64 << 20)
    small, large = [f"{number:08d}" for number in range(rows)], ["x" * 20_000] * 50
    with _pq.ParquetWriter(tmp_path / "a.parquet", pa.schema([("text", pa.string())]), compression="zstd") as writer:
        for texts in [small] * 40 + [large] * 40:
            writer.write_table(pa.table({"text": texts}))
    source = {"parquet": {"uris": [str(tmp_path / "a.parquet")]}}
    job = parse_job({"source": source, "shuffle": {"seed": 1}, "output": {"uri": str(tmp_path / "out"), "shards": {"count": 5}}})
    plan = planned(job, Access())
    sizes = sizes_of_batches(monkeypatch)
    assert sum(each.records_in for each in divide(job, plan, Access())) == 40 * (rows + 50)
    assert max(sizes) <= 2 << 20
    assert len(sizes) <= 120  # a few small units share a batch


@pytest.mark.parametrize("kind", ["csv", "jsonl", "text"])
@pytest.mark.parametrize("compresses", [False, True], ids=["plain", "gzip"])
def test_the_first_round_reads_a_text_once(tmp_path: Path, kind: str, compresses: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Line numbers are stored with the records. So readers never go back in a compressed file, and they read the text only once."""
    make_rounds(monkeypatch, slice_bytes=1 << 20)
    monkeypatch.setattr(stretches, "UNIT_BYTES", 3000)
    monkeypatch.setattr(stretches, "InputCopy", None)
    rows = [f'{{"t": "{number:08d}{_TEXT[8:]}"}}\n' for number in range(2000)]
    content = "".join(rows).encode()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(gzip.compress(content, mtime=0) if compresses else content)
    source = {kind: {"uris": [str(tmp_path / "in" / "a")], **({"columns": [{"name": "t", "type": "String"}]} if kind == "csv" else {})}}
    job = parse_job({"source": source, "shuffle": {"seed": 1}, "output": {"uri": str(tmp_path / "out"), "shards": {"count": 5}}})
    plan = planned(job, Access())
    read = SourceBytes(monkeypatch, tmp_path / "in")
    assert sum(each.records_in for each in divide(job, plan, Access())) == len(rows)
    assert read.bytes <= 1.05 * (tmp_path / "in" / "a").stat().st_size + 100
