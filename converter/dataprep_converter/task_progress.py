"""Progress of one task: what a worker has done so far, made or copied."""

from dataclasses import dataclass, field

from dataprep_api.report import ShardReport
from dataprep_api.status import RecordProgress
from dataprep_converter.shard import Counts


@dataclass
class TaskProgress:
    """Absolute counts of one task, for the progress reports."""

    shards_done: int = 0
    shards_active: int = 0
    records_in: int = 0
    records_out: int = 0
    bad: int = 0
    filtered: int = 0
    added: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    _base: Counts = field(default_factory=Counts, repr=False)

    def watch(self, counts: Counts) -> None:
        """Takes the counts of the shard in work."""
        self.records_in = self._base.records_in + counts.records_in
        self.records_out = self._base.records_out + counts.records_out
        self.bad = self._base.bad + counts.bad
        self.filtered = self._base.filtered + counts.filtered
        self.added = self._base.added + counts.added
        self.bytes_in = self._base.bytes_in + counts.bytes_in
        self.bytes_out = self._base.bytes_out + counts.bytes_out

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
