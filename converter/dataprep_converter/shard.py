"""One shard: its samples through the pipeline into one file, and the report that commits it.

    select ─▶ read ─▶ transform ─▶ encode ─▶ compress ─▶ sink + digests ─▶ rename or complete ─▶ report

Reading is one thread ahead. A batch is digested and written by a thread of its own, while the statistics look at the same batch and the next one
is encoded.
"""

import hashlib
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import perf_counter

from dataprep_api import names
from dataprep_api.messages import BadRecord
from dataprep_api.plan import Shard
from dataprep_api.report import MAX_BAD_EXAMPLES, Companion, ShardReport
from dataprep_api.spec import BadRecords
from dataprep_converter.access import Access, Upload
from dataprep_converter.compression import Plain
from dataprep_converter.encoders import Buffer, Encoder
from dataprep_converter.errors import BadData
from dataprep_converter.indexing import RecordIndex, has_index
from dataprep_converter.output_folder import OutputFolder
from dataprep_converter.pipeline import Pipeline
from dataprep_converter.planning import Plan
from dataprep_converter.prefetching import prefetched
from dataprep_converter.publishing import publish
from dataprep_converter.quarantine import Quarantine
from dataprep_converter.readers import Batch
from dataprep_converter.redacting import redacted
from dataprep_converter.selection import Samples, Selection
from dataprep_converter.statistics import ShardStatistics
from dataprep_converter.units import samples_of_a_batch

MOST_RECORDS = 8192
_PIECE_BYTES = 256 << 10
"""What stays in a core's cache between its digest and the copy that a disk's `write` makes of it. Out of memory that copy takes three times as long."""


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
    raw_size: int = 0
    bad_examples: list[BadRecord] = field(default_factory=list)
    quarantine: Quarantine | None = None
    index: RecordIndex | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)

    def close(self) -> None:
        """Drops what was kept in temporary files."""
        if self.quarantine is not None:
            self.quarantine.close()


Watch = Callable[[Counts], None]
"""Called after every batch with the shard's counts so far."""


def make(
    shard: Shard,
    *,
    plan: Plan,
    pipeline: Pipeline,
    folder: OutputFolder,
    access: Access,
    attempt: str,
    watch: Watch,
) -> ShardReport:
    """Makes one shard and its report. Nothing is visible before the file is whole, and the report is written last."""
    begun = perf_counter()
    uri = names.join(folder.uri, shard.file)
    store = access.store(uri)
    tally = _Tally(
        statistics=ShardStatistics(
            pipeline.features, extent=pipeline.spec.output.statistics, records=shard.records, shards=plan.head.shards
        ),
        quarantine=Quarantine() if pipeline.spec.on_bad_record.policy == "Quarantine" else None,
    )
    quarantine: str | None = None
    quarantine_sha256: str | None = None
    try:
        upload = store.create(uri, hdfs=pipeline.spec.output.hdfs)
    except BaseException:
        tally.close()
        raise
    index_file = names.index_file(shard.file)
    try:
        if has_index(pipeline.spec.output):
            tally.index = RecordIndex(pipeline.spec.output.format, store, folder.at(index_file), hdfs=pipeline.spec.output.hdfs)
        encoder = pipeline.encoder()
        encoder.begin(shard, seed=plan.head.shuffle_seed or 0)
        sha256, raw_sha256 = _write(upload, shard, plan=plan, pipeline=pipeline, encoder=encoder, tally=tally, watch=watch)
        folder.check_owner()
        index = tally.index.publish(index_file) if tally.index is not None else None
        if tally.quarantine is not None and tally.quarantine.size:
            quarantine = names.quarantine_file(plan.head.run_id, shard.split, shard.index)
            quarantine_sha256 = tally.quarantine.put(store, folder.at(quarantine), hdfs=pipeline.spec.output.hdfs)
        companions = [_put(folder, shard, name, data, pipeline) for name, data in sorted(encoder.companions().items())]
        entry = publish(upload, store, uri, size=tally.counts.bytes_out, sha256=sha256)
    except BaseException:
        upload.abort()
        if tally.index is not None:
            tally.index.abort()
        raise
    finally:
        tally.close()
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
        size=tally.counts.bytes_out,
        raw_size=tally.raw_size,
        sha256=sha256,
        raw_sha256=raw_sha256,
        pin=entry.pin,
        companions=companions,
        index=index,
        statistics=tally.statistics.packed(),
        bad_examples=tally.bad_examples,
        bad_reasons=tally.refused,
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


def samples(shard: Shard, *, plan: Plan, most_records: int) -> Iterator[Samples]:
    """The samples of a shard in its order, in arrays of a batch each: `most_records` at most, as the pipeline has it."""
    selection = Selection(plan.head.splits[shard.part], plan.units, shuffle_seed=plan.head.shuffle_seed, codes=plan.codes)
    # The bytes of the shard don't depend on the size of the batches.
    size = samples_of_a_batch(plan.head.bytes_in, plan.head.samples, most=min(most_records, MOST_RECORDS))
    return selection.chunks(shard.first, shard.records, size=size)


def _put(folder: OutputFolder, shard: Shard, name: str, data: bytes, pipeline: Pipeline) -> Companion:
    """Writes a companion beside its shard, in one piece. Equal bytes at any attempt, so an existing one is replaced."""
    file = names.join(shard.file.rpartition("/")[0], name) if "/" in shard.file else name
    folder.put_visible(file, data, hdfs=pipeline.spec.output.hdfs)
    return Companion(file=file, size=len(data), sha256=hashlib.sha256(data).hexdigest())


def _write(
    upload: Upload,
    shard: Shard,
    *,
    plan: Plan,
    pipeline: Pipeline,
    encoder: Encoder,
    tally: _Tally,
    watch: Watch,
) -> tuple[str, str]:
    """Writes the shard's bytes to the upload. Returns the digests of the file and of the uncompressed records."""
    compress = encoder.compressor(pipeline.spec.output)
    digest = hashlib.sha256()
    raw_digest = digest if isinstance(compress, Plain) else hashlib.sha256()
    seconds = tally.seconds
    chunks = samples(shard, plan=plan, most_records=pipeline.most_records)
    room = memoryview(bytearray(_PIECE_BYTES))
    sending: deque[list[Future[float]]] = deque()
    with (
        # One thread each, so that batches keep their order.
        ThreadPoolExecutor(1, thread_name_prefix="sink") as sink,
        ThreadPoolExecutor(1, thread_name_prefix="digest") as digesting,
        closing(prefetched(pipeline.batches(plan.units, chunks, seconds, tally.refused), depth=1)) as batches,
    ):

        def settle(left: int = 0) -> None:
            """Waits until only so many batches are left to write."""
            while len(sending) > left:
                seconds["sink"] = seconds.get("sink", 0.0) + max([sent.result() for sent in sending.popleft()], default=0.0)

        def send(raw: Sequence[Buffer], packed: Sequence[Buffer]) -> None:
            """Sees to it that they are written and digested, behind one other batch at most."""
            settle(left=1)
            begun = [digesting.submit(_timed, raw_digest.update, raw)] if raw_digest is not digest else []
            size = sum(map(len, packed))
            if size and upload.blocks:
                begun.append(sink.submit(_timed, write_digested, _in_cache(packed, room)))
            elif size:
                begun.append(sink.submit(_timed, digest.update, packed))
                begun.append(_done(_timed(upload.write, packed)))
            sending.append(begun)
            tally.counts.bytes_out += size

        def write_digested(piece: Buffer) -> None:
            digest.update(piece)
            upload.write(piece)

        for batch in batches:
            _account(batch, plan=plan, policy=pipeline.spec.on_bad_record, tally=tally)
            started = perf_counter()
            raw = encoder.pieces(batch.records) if raw_digest is digest else [encoder.encode(batch.records)]
            packed = raw if raw_digest is digest else [compress.compress(*raw)]
            seconds["encode"] = seconds.get("encode", 0.0) + perf_counter() - started
            tally.raw_size += sum(map(len, raw))
            send(raw, packed)
            started = perf_counter()
            if tally.index is not None and (sizes := encoder.sizes()) is not None:
                tally.index.add(sizes)
            tally.statistics.add(batch.records)
            seconds["statistics"] = seconds.get("statistics", 0.0) + perf_counter() - started
            watch(tally.counts)
        for last in itertools.chain((encoder.close(),), encoder.rest()):
            tally.raw_size += len(last)
            send([last], [compress.compress(last)])
            # Of what an encoder gives here, nothing is promised beyond the next piece.
            settle()
        send([], [compress.finish()])
        settle()
    return digest.hexdigest(), raw_digest.hexdigest()


def _timed(take: Callable[[Buffer], object], pieces: Iterable[Buffer]) -> float:
    """How many seconds it took to take the pieces."""
    started = perf_counter()
    for piece in pieces:
        take(piece)
    return perf_counter() - started


def _in_cache(pieces: Iterable[Buffer], room: memoryview) -> Iterator[memoryview]:
    """The same bytes in pieces as large as the room at most. Small ones are gathered in it, so the one before is gone then."""
    filled = 0
    for each in pieces:
        piece = memoryview(each)
        if filled and filled + len(piece) > len(room):
            yield room[:filled]
            filled = 0
        if len(piece) < len(room):
            room[filled : filled + len(piece)] = piece
            filled += len(piece)
        else:
            for start in range(0, len(piece), len(room)):
                yield piece[start : start + len(room)]
    if filled:
        yield room[:filled]


def _done(seconds: float) -> Future[float]:
    done: Future[float] = Future()
    done.set_result(seconds)
    return done


def _account(batch: Batch, *, plan: Plan, policy: BadRecords, tally: _Tally) -> None:
    """Counts a batch and judges its bad records."""
    counts = tally.counts
    counts.records_in += batch.records.num_rows + len(batch.bad) + batch.filtered - batch.added
    counts.records_out += batch.records.num_rows
    counts.bad += len(batch.bad)
    counts.filtered += batch.filtered
    counts.added += batch.added
    counts.bytes_in += batch.bytes_in
    for bad in batch.bad:
        uri, row = plan.units.origin(bad.sample)
        if policy.policy == "Fail":
            raise BadData(f"{uri}, record {row}: {bad.reason}. Set onBadRecord.policy: Skip to leave such records out.", uri=uri)
        record = BadRecord(uri=redacted(uri), row=row, reason=bad.reason[:512])
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


def too_many(policy: BadRecords, *, bad: int, total: int) -> str | None:
    """Why so many bad records of a data set are more than the policy allows, or None."""
    if policy.max_count is not None and bad > policy.max_count:
        return f"{bad} bad records are more than onBadRecord.maxCount {policy.max_count}"
    if policy.max_fraction is not None and bad > policy.max_fraction * total:
        return f"{bad} bad records of {total} are more than onBadRecord.maxFraction {policy.max_fraction:g}"
    return None
