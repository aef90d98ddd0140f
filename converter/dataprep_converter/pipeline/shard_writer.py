"""Writes one shard: runs its samples through the pipeline into one file, and writes the report that marks the shard as finished.

    select ─▶ read ─▶ transform ─▶ encode ─▶ compress ─▶ sink + digests ─▶ rename or complete ─▶ report

One thread reads ahead by one batch, unless the records must be read by the calling thread. Other threads digest and write a batch while the
batch's statistics are computed and the next batch is encoded. After all batches are encoded, another thread can wait for the sink and
publish the shard.
"""

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from time import perf_counter
from types import TracebackType

from dataprep_api import names
from dataprep_api.dataset.messages import BadRecord
from dataprep_api.dataset.plan import Shard
from dataprep_api.dataset.report import MAX_BAD_EXAMPLES, Companion, Lossy, ShardReport
from dataprep_api.redaction import for_display
from dataprep_api.stages import READ_WAIT
from dataprep_converter.core.errors import BadData
from dataprep_converter.dataset.output_folder import RunFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.bad_record_advice import advice_for
from dataprep_converter.pipeline.null_counts import count_nulls, is_of_a_null
from dataprep_converter.pipeline.pipeline import BatchStream, Pipeline
from dataprep_converter.pipeline.quarantine import Quarantine
from dataprep_converter.pipeline.record_index import RecordIndex, index_line
from dataprep_converter.pipeline.shard_samples import samples_of
from dataprep_converter.pipeline.shard_sink import ShardSink
from dataprep_converter.pipeline.task_progress import Counts
from dataprep_converter.records import lossy
from dataprep_converter.records.batch import Batch
from dataprep_converter.records.too_many import too_many
from dataprep_converter.runtime.prefetch import prefetched
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.statistics.statistics import ShardStatistics
from dataprep_converter.stores import Upload
from dataprep_converter.stores.publish import publish

Watch = Callable[[Counts], None]
"""Called after every batch with the shard's counts so far."""


class ShardWriter:
    """Writes one shard: `encode`, then `publish`, which can run in another thread while the next shard is encoded.

    The file is not visible before it is complete, and the report is written last. After `encode` has returned, `publish` must be called
    exactly once. If `encode` or `publish` fails, the written data is discarded.
    """

    def __init__(
        self,
        shard: Shard,
        *,
        plan: Plan,
        pipeline: Pipeline,
        folder: RunFolder,
        access: Access,
        attempt: str,
        reads_ahead: bool = True,
    ) -> None:
        """Begins to write. Without `reads_ahead`, the thread that calls `encode` also reads the records."""
        self._started = perf_counter()
        self._reads_ahead = reads_ahead
        self._shard = shard
        self._plan = plan
        self._pipeline = pipeline
        self._folder = folder
        self._attempt = attempt
        self._uri = folder.at(shard.file)
        self._store = access.store(self._uri)
        self._counts = Counts()
        self._bad_examples: list[BadRecord] = []
        self._lossy: list[Lossy] = []
        self._seconds: defaultdict[str, float] = defaultdict(float)
        """Seconds spent in each stage, except the stages of the sink and the pipeline."""
        self._batches: BatchStream = pipeline.batches(plan.units, samples_of(shard, plan=plan, most_records=pipeline.most_records))
        self._companions: list[tuple[str, bytes]] = []
        output = pipeline.spec.output
        with ExitStack() as resources:
            self._statistics = ShardStatistics(pipeline.features, extent=output.statistics, records=shard.records, shards=plan.head.shards)
            self._quarantine = Quarantine() if pipeline.spec.on_bad_record.policy == "Quarantine" else None
            if self._quarantine is not None:
                resources.callback(self._quarantine.close)
            self._upload = self._store.create(self._uri, hdfs=output.hdfs)
            resources.push(_aborting(self._upload))
            self._index = None
            if (line := index_line(output)) is not None:
                self._index = RecordIndex(line, self._store, folder.at(names.index_file(shard.file)), hdfs=output.hdfs)
                resources.push(_aborting(self._index))
            self._encoder = resources.enter_context(pipeline.encoder())
            self._encoder.begin(shard, seed=plan.head.shuffle_seed or 0)
            self._sink = resources.enter_context(ShardSink(self._upload, self._encoder.compressor(output)))
            self._resources = resources.pop_all()

    def encode(self, watch: Watch) -> None:
        """Reads and encodes all records, and sends them to the sink."""
        with ExitStack() as on_error:
            on_error.push(self._resources)
            self._send_batches(watch)
            for last in itertools.chain((self._encoder.close(),), self._encoder.rest()):
                if last:
                    self._sink.send([last], self._sink.compress([last]))
                    # An encoder can reuse the buffer of `last` for the next piece, so wait until the buffer is written.
                    self._sink.settle()
            self._companions = sorted(self._encoder.companions().items())
            on_error.pop_all()

    def publish(self) -> ShardReport:
        """Waits until everything is written, gives the file its final name, and writes the report."""
        shard, counts = self._shard, self._counts
        with self._resources:
            # Pack the statistics now, because the sink might still be writing the last batches.
            statistics = self._statistics.packed()
            sha256, raw_sha256 = self._sink.finish()
            self._folder.check_owner()
            index = self._index.publish(names.index_file(shard.file)) if self._index is not None else None
            quarantine, quarantine_sha256 = self._put_quarantine()
            companions = [self._put_companion(name, data) for name, data in self._companions]
            entry = publish(self._upload, self._store, self._uri, size=self._sink.size, sha256=sha256)
        seconds = {**self._batches.seconds, **self._seconds, "sink": self._sink.seconds}
        report = ShardReport(
            run_id=self._plan.head.run_id,
            plan_sha256=self._plan.sha256,
            number=shard.number,
            split=shard.split,
            file=shard.file,
            records_in=counts.records_in,
            records_out=counts.records_out,
            bad=counts.bad,
            filtered=counts.filtered,
            added=counts.added,
            size=self._sink.size,
            raw_size=self._sink.raw_size,
            sha256=sha256,
            raw_sha256=raw_sha256,
            pin=entry.pin,
            companions=companions,
            index=index,
            statistics=statistics,
            bad_examples=self._bad_examples,
            bad_reasons=dict(self._batches.refused),
            lossy=self._lossy,
            quarantine=quarantine,
            quarantine_sha256=quarantine_sha256,
            bytes_in=counts.bytes_in,
            attempt=self._attempt,
            seconds={stage: round(value, 3) for stage, value in seconds.items()},
            took_seconds=round(perf_counter() - self._started, 3),
            finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        self._folder.put_report(report)
        return report

    def _send_batches(self, watch: Watch) -> None:
        """Sends the shard's batches to the sink."""
        sink, encoder, seconds = self._sink, self._encoder, self._seconds
        read = iter(self._batches)
        with closing(prefetched(read, depth=1) if self._reads_ahead else read) as batches:
            while True:
                started = perf_counter()
                batch = next(batches, None)
                seconds[READ_WAIT] += perf_counter() - started
                if batch is None:
                    return
                self._count(batch, batches)
                started = perf_counter()
                pieces = encoder.pieces(batch.records) if sink.is_plain else [encoder.encode(batch.records)]
                packed = sink.compress(pieces)
                seconds["encode"] += perf_counter() - started
                sink.send(pieces, packed)
                self._counts.bytes_out = sink.size
                started = perf_counter()
                if self._index is not None and (sizes := encoder.sizes()) is not None:
                    self._index.add(sizes)
                self._statistics.add(batch.records)
                seconds["statistics"] += perf_counter() - started
                watch(self._counts)

    def _count(self, batch: Batch, coming: Iterator[Batch]) -> None:
        """Counts a batch and its bad records. Raises BadData if the policy doesn't allow so many bad records.

        `coming` yields the following batches: their nulls are also counted for the error message.
        """
        counts, policy = self._counts, self._pipeline.spec.on_bad_record
        records_before = counts.records_in
        counts.records_in += batch.records_in
        counts.records_out += batch.records.num_rows
        counts.bad += len(batch.bad)
        counts.filtered += batch.filtered
        counts.added += batch.added
        counts.bytes_in += batch.bytes_in
        if batch.lossy:
            self._lossy = lossy.merge_entries([*self._lossy, *batch.lossy])
        for bad in batch.bad:
            uri, row = self._plan.units.origin(bad.sample)
            if policy.policy == "Fail":
                explained = ""
                if is_of_a_null(bad.reason, batch):
                    nulls = count_nulls(batch, coming, shard=self._shard, before=records_before)
                    explained = nulls.explain(self._pipeline.defaults)
                advice = advice_for(bad.reason, self._pipeline.spec, first=self._plan.units.unit(0).uri)
                raise BadData(f"{uri}, record {row}: {bad.reason}. {explained}{advice}", uri=uri)
            record = BadRecord(uri=for_display(uri), row=row, reason=for_display(bad.reason)[:512])
            if len(self._bad_examples) < MAX_BAD_EXAMPLES:
                self._bad_examples.append(record)
            if self._quarantine is not None:
                self._quarantine.add(record, bad.raw)
        # The commit step checks the bad records of all shards together. But a single shard that already exceeds the limits needn't be
        # finished.
        total = sum(split.records for split in self._plan.head.splits)
        fault = too_many(policy, bad=counts.bad, total=total)
        if fault is not None:
            first = self._bad_examples[0]
            raise BadData(f"{fault}; the first: {first.uri}, record {first.row}: {first.reason}", uri=first.uri)

    def _put_quarantine(self) -> tuple[str | None, str | None]:
        """Writes the file of bad records, if there are any. Returns its path and digest."""
        if self._quarantine is None or not self._quarantine.size:
            return None, None
        path = names.quarantine_file(self._plan.head.run_id, self._shard.split, self._shard.index)
        return path, self._quarantine.put(self._store, self._folder.at(path), hdfs=self._pipeline.spec.output.hdfs)

    def _put_companion(self, name: str, data: bytes) -> Companion:
        """Writes a companion file in the shard's folder. An existing file is replaced, because every attempt writes the same bytes."""
        file = names.join(self._shard.file.rpartition("/")[0], name) if "/" in self._shard.file else name
        self._folder.put_visible(file, data, hdfs=self._pipeline.spec.output.hdfs)
        return Companion(file=file, size=len(data), sha256=hashlib.sha256(data).hexdigest())


def _aborting(upload: Upload | RecordIndex) -> Callable[[type[BaseException] | None, BaseException | None, TracebackType | None], None]:
    """Returns an exit callback that aborts the upload on an error."""
    return lambda kind, _error, _trace: upload.abort() if kind is not None else None
