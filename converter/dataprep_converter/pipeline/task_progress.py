"""Progress counts of a worker, for its current shards and for its task."""

from dataclasses import dataclass, field, fields, replace

from dataprep_api.dataset.messages import WorkResult
from dataprep_api.dataset.report import ShardReport
from dataprep_api.resources.status import RecordProgress


@dataclass
class Counts:
    """Counts of records and bytes so far."""

    records_in: int = 0
    records_out: int = 0
    bad: int = 0
    filtered: int = 0
    added: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass
class TaskProgress(Counts):
    """Absolute counts of one task, for progress reports. The counts include finished shards and shards in progress."""

    shards_done: int = 0
    """Number of shards finished by this attempt or by an earlier attempt."""
    shards_skipped: int = 0
    """Number of shards finished by an earlier attempt."""
    shards_active: int = 0
    _base: Counts = field(default_factory=Counts, repr=False)
    _active: dict[int, Counts] = field(default_factory=dict, repr=False)

    def watch(self, shard: int, counts: Counts) -> None:
        """Updates the counts of a shard in progress."""
        self._active[shard] = counts
        self._sum()

    def records(self) -> RecordProgress:
        """Returns the record counts for a report."""
        return RecordProgress(in_=self.records_in, out=self.records_out, bad=self.bad, filtered=self.filtered, added=self.added)

    def finish(self, report: ShardReport, *, is_new: bool) -> None:
        """Adds a finished shard. If `is_new` is false, an earlier attempt finished the shard."""
        base = self._base
        base.records_in += report.records_in
        base.records_out += report.records_out
        base.bad += report.bad
        base.filtered += report.filtered
        base.added += report.added
        base.bytes_in += report.bytes_in
        base.bytes_out += report.size
        self._active.pop(report.number, None)
        self.shards_done += 1
        self.shards_skipped += not is_new
        self._sum()

    def now(self) -> "TaskProgress":
        """Returns a snapshot of the counts, for another thread or process."""
        return replace(self, _base=Counts(), _active={})

    def result(self, index: int) -> WorkResult:
        """Returns the result of the task, after all its shards are finished."""
        return WorkResult(
            index=index,
            shards_done=self.shards_done,
            shards_skipped=self.shards_skipped,
            records=self.records(),
            bytes_out=self.bytes_out,
        )

    def _sum(self) -> None:
        for each in fields(Counts):
            setattr(self, each.name, sum([getattr(counts, each.name) for counts in (self._base, *self._active.values())]))
        self.shards_active = len(self._active)
