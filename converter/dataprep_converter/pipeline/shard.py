"""One shard: its samples through the pipeline into one file, and the report that commits it.

    select ─▶ read ─▶ transform ─▶ encode ─▶ compress ─▶ sink + digests ─▶ rename or complete ─▶ report

Reading is one thread ahead. A batch is digested and written by a thread of its own, while the statistics look at the same batch and the next one
is encoded. A shard whose batches are all encoded can be left to another thread, which waits for the sink and publishes it.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import perf_counter
from types import TracebackType

from dataprep_api import names
from dataprep_api.dataset.messages import BadRecord
from dataprep_api.dataset.plan import Shard
from dataprep_api.dataset.report import MAX_BAD_EXAMPLES, Companion, Lossy, ShardReport
from dataprep_api.shown import shown
from dataprep_api.spec import BadRecords
from dataprep_api.stages import READ_WAIT
from dataprep_converter.core.errors import BadData
from dataprep_converter.dataset.output_folder import RunFolder
from dataprep_converter.formats.encoder import Encoder
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.pipeline import Pipeline
from dataprep_converter.pipeline.quarantine import Quarantine
from dataprep_converter.pipeline.record_index import RecordIndex, index_line
from dataprep_converter.pipeline.shard_sink import ShardSink
from dataprep_converter.records import lossy
from dataprep_converter.records.batch import Batch
from dataprep_converter.records.too_many import too_many
from dataprep_converter.runtime.prefetch import prefetched
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.sampling.selection import Samples, Selection
from dataprep_converter.sampling.units import samples_of_a_batch
from dataprep_converter.statistics.statistics import ShardStatistics
from dataprep_converter.stores import Store, Upload
from dataprep_converter.stores.publish import publish

MOST_RECORDS = 16384
"""Of a batch."""


@dataclass
class Counts:
    """What happened to the records so far; the one thing that changes while a shard is made."""

    records_in: int = 0
    records_out: int = 0
    bad: int = 0
    filtered: int = 0
    added: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass
class _Tally:
    """What the report says beyond the counts."""

    statistics: ShardStatistics
    counts: Counts = field(default_factory=Counts)
    bad_examples: list[BadRecord] = field(default_factory=list)
    quarantine: Quarantine | None = None
    index: RecordIndex | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    lossy: list[Lossy] = field(default_factory=list)

    def close(self) -> None:
        """Drops what was kept in temporary files."""
        if self.quarantine is not None:
            self.quarantine.close()


Watch = Callable[[Counts], None]
"""Called after every batch with the shard's counts so far."""


def begin(
    shard: Shard,
    *,
    plan: Plan,
    pipeline: Pipeline,
    folder: RunFolder,
    access: Access,
    attempt: str,
    watch: Watch,
) -> Callable[[], ShardReport]:
    """Reads and encodes a shard. What it returns waits until all is written and publishes it, which another thread may do while the next shard is read.

    Nothing is visible before the file is whole, and the report is written last. What is returned has to be called, once.
    """
    begun = perf_counter()
    uri = names.join(folder.uri, shard.file)
    store = access.store(uri)
    index_file = names.index_file(shard.file)
    with ExitStack() as held:
        tally = _Tally(
            statistics=ShardStatistics(
                pipeline.features, extent=pipeline.spec.output.statistics, records=shard.records, shards=plan.head.shards
            ),
            quarantine=Quarantine() if pipeline.spec.on_bad_record.policy == "Quarantine" else None,
        )
        held.callback(tally.close)
        upload = store.create(uri, hdfs=pipeline.spec.output.hdfs)
        held.push(_aborting(upload))
        if (line := index_line(pipeline.spec.output)) is not None:
            tally.index = RecordIndex(line, store, folder.at(index_file), hdfs=pipeline.spec.output.hdfs)
            held.push(_aborting(tally.index))
        encoder = pipeline.encoder()
        encoder.begin(shard, seed=plan.head.shuffle_seed or 0)
        sink = held.enter_context(ShardSink(upload, encoder.compressor(pipeline.spec.output), tally.seconds))
        _fill(sink, shard, plan=plan, pipeline=pipeline, encoder=encoder, tally=tally, watch=watch)
        beside = sorted(encoder.companions().items())
        kept = held.pop_all()

    def end() -> ShardReport:
        with kept:
            # While the last batches are still being written.
            statistics = tally.statistics.packed()
            sha256, raw_sha256 = sink.finish()
            folder.check_owner()
            index = tally.index.publish(index_file) if tally.index is not None else None
            quarantine, quarantine_sha256 = _put_quarantined(tally.quarantine, folder, store, shard, plan, pipeline)
            companions = [_put(folder, shard, name, data, pipeline) for name, data in beside]
            entry = publish(upload, store, uri, size=sink.size, sha256=sha256)
        report = ShardReport(
            run_id=plan.head.run_id,
            plan_sha256=plan.sha256,
            number=shard.number,
            split=shard.split,
            file=shard.file,
            records_in=tally.counts.records_in,
            records_out=tally.counts.records_out,
            bad=tally.counts.bad,
            filtered=tally.counts.filtered,
            added=tally.counts.added,
            size=sink.size,
            raw_size=sink.raw_size,
            sha256=sha256,
            raw_sha256=raw_sha256,
            pin=entry.pin,
            companions=companions,
            index=index,
            statistics=statistics,
            bad_examples=tally.bad_examples,
            bad_reasons=tally.refused,
            lossy=tally.lossy,
            quarantine=quarantine,
            quarantine_sha256=quarantine_sha256,
            bytes_in=tally.counts.bytes_in,
            attempt=attempt,
            seconds={stage: round(value, 3) for stage, value in tally.seconds.items()},
            took_seconds=round(perf_counter() - begun, 3),
            finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        folder.put_report(report)
        return report

    return end


def selection_of(shard: Shard, plan: Plan) -> Selection:
    """Which samples the split of a shard has, and in which order."""
    return Selection(
        plan.head.splits[shard.part],
        plan.units,
        shuffle_seed=plan.head.shuffle_seed,
        shuffle_version=plan.head.version_of("shuffle"),
        codes=plan.codes,
    )


def samples(shard: Shard, *, plan: Plan, most_records: int) -> Iterator[Samples]:
    """The samples of a shard in its order, in arrays of a batch each: `most_records` at most, as the pipeline has it."""
    selection = selection_of(shard, plan)
    # The bytes of the shard don't depend on the size of the batches.
    size = samples_of_a_batch(plan.head.bytes_in, plan.head.samples, most=min(most_records, MOST_RECORDS))
    return selection.chunks(shard.first, shard.records, size=size)


def _put_quarantined(
    quarantine: Quarantine | None, folder: RunFolder, store: Store, shard: Shard, plan: Plan, pipeline: Pipeline
) -> tuple[str | None, str | None]:
    """Path and digest of the file of bad records, when there are some."""
    if quarantine is None or not quarantine.size:
        return None, None
    path = names.quarantine_file(plan.head.run_id, shard.split, shard.index)
    return path, quarantine.put(store, folder.at(path), hdfs=pipeline.spec.output.hdfs)


def _put(folder: RunFolder, shard: Shard, name: str, data: bytes, pipeline: Pipeline) -> Companion:
    """Writes a companion beside its shard, in one piece. Equal bytes at any attempt, so an existing one is replaced."""
    file = names.join(shard.file.rpartition("/")[0], name) if "/" in shard.file else name
    folder.put_visible(file, data, hdfs=pipeline.spec.output.hdfs)
    return Companion(file=file, size=len(data), sha256=hashlib.sha256(data).hexdigest())


def _fill(
    sink: ShardSink,
    shard: Shard,
    *,
    plan: Plan,
    pipeline: Pipeline,
    encoder: Encoder,
    tally: _Tally,
    watch: Watch,
) -> None:
    """Sends all records of the shard to the sink."""
    seconds = tally.seconds
    chunks = samples(shard, plan=plan, most_records=pipeline.most_records)
    with closing(prefetched(pipeline.batches(plan.units, chunks, seconds, tally.refused), depth=1)) as batches:
        while True:
            started = perf_counter()
            batch = next(batches, None)
            seconds[READ_WAIT] = seconds.get(READ_WAIT, 0.0) + perf_counter() - started
            if batch is None:
                break
            _account(batch, plan=plan, policy=pipeline.spec.on_bad_record, tally=tally)
            started = perf_counter()
            pieces = encoder.pieces(batch.records) if sink.is_plain else [encoder.encode(batch.records)]
            packed = sink.compressed(pieces)
            seconds["encode"] = seconds.get("encode", 0.0) + perf_counter() - started
            sink.send(pieces, packed)
            tally.counts.bytes_out = sink.size
            started = perf_counter()
            if tally.index is not None and (sizes := encoder.sizes()) is not None:
                tally.index.add(sizes)
            tally.statistics.add(batch.records)
            seconds["statistics"] = seconds.get("statistics", 0.0) + perf_counter() - started
            watch(tally.counts)
    for last in itertools.chain((encoder.close(),), encoder.rest()):
        if last:
            sink.send([last], sink.compressed([last]))
            # Of what an encoder gives here, nothing is promised beyond the next piece.
            sink.settle()


def _aborting(upload: Upload | RecordIndex) -> Callable[[type[BaseException] | None, BaseException | None, TracebackType | None], None]:
    """What drops the upload when an error leaves the context."""
    return lambda kind, _error, _trace: upload.abort() if kind is not None else None


def _account(batch: Batch, *, plan: Plan, policy: BadRecords, tally: _Tally) -> None:
    """Counts a batch and judges its bad records."""
    counts = tally.counts
    counts.records_in += batch.records.num_rows + len(batch.bad) + batch.filtered - batch.added
    counts.records_out += batch.records.num_rows
    counts.bad += len(batch.bad)
    counts.filtered += batch.filtered
    counts.added += batch.added
    counts.bytes_in += batch.bytes_in
    if batch.lossy:
        tally.lossy = lossy.merged([*tally.lossy, *batch.lossy])
    for bad in batch.bad:
        uri, row = plan.units.origin(bad.sample)
        if policy.policy == "Fail":
            raise BadData(f"{uri}, record {row}: {bad.reason}. Set onBadRecord.policy: Skip to leave such records out.", uri=uri)
        record = BadRecord(uri=shown(uri), row=row, reason=shown(bad.reason)[:512])
        if len(tally.bad_examples) < MAX_BAD_EXAMPLES:
            tally.bad_examples.append(record)
        if tally.quarantine is not None:
            tally.quarantine.add(record, bad.raw)
    # The commit step judges all shards together; a shard that is beyond the bounds by itself need not be finished.
    total = sum(split.records for split in plan.head.splits)
    fault = too_many(policy, bad=counts.bad, total=total)
    if fault is not None:
        first = tally.bad_examples[0]
        raise BadData(f"{fault}; the first: {first.uri}, record {first.row}: {first.reason}", uri=first.uri)
