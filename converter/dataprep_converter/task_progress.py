"""Progress of one task: what a worker has done so far, made or copied."""

from dataclasses import dataclass, field, fields

from dataprep_api.messages import WorkResult
from dataprep_api.report import ShardReport
from dataprep_api.status import RecordProgress
from dataprep_converter.shard import Counts


@dataclass
class TaskProgress(Counts):
    """Absolute counts of one task, for the progress reports: its finished shards and the one in work."""

    shards_done: int = 0
    shards_active: int = 0
    _base: Counts = field(default_factory=Counts, repr=False)

    def watch(self, counts: Counts) -> None:
        """Takes the counts of the shard in work."""
        for each in fields(Counts):
            setattr(self, each.name, getattr(self._base, each.name) + getattr(counts, each.name))

    def records(self) -> RecordProgress:
        """Records by fate."""
        return RecordProgress(in_=self.records_in, out=self.records_out, bad=self.bad, filtered=self.filtered, added=self.added)

    def finish(self, report: ShardReport) -> None:
        """Takes a finished shard, made now or before."""
        base = self._base
        base.records_in += report.records_in
        base.records_out += report.records_out
        base.bad += report.bad
        base.filtered += report.filtered
        base.added += report.added
        base.bytes_in += report.bytes_in
        base.bytes_out += report.size
        self.watch(Counts())
        self.shards_done += 1
        self.shards_active = 0

    def result(self, index: int, *, skipped: int) -> WorkResult:
        """Of the task, once all its shards are finished; `skipped` of them had been before."""
        return WorkResult(
            index=index, shards_done=self.shards_done, shards_skipped=skipped, records=self.records(), bytes_out=self.bytes_out
        )
