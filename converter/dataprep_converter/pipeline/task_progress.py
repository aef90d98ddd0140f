"""Progress: what a worker has done so far of a shard, and of a task, whose shards it makes or copies."""

from dataclasses import dataclass, field, fields, replace

from dataprep_api.dataset.messages import WorkResult
from dataprep_api.dataset.report import ShardReport
from dataprep_api.resources.status import RecordProgress


@dataclass
class Counts:
    """What happened to the records so far."""

    records_in: int = 0
    records_out: int = 0
    bad: int = 0
    filtered: int = 0
    added: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass
class TaskProgress(Counts):
    """Absolute counts of one task, for the progress reports: its finished shards and those in work."""

    shards_done: int = 0
    """Now or before."""
    shards_skipped: int = 0
    """Those done before."""
    shards_active: int = 0
    _base: Counts = field(default_factory=Counts, repr=False)
    _active: dict[int, Counts] = field(default_factory=dict, repr=False)

    def watch(self, shard: int, counts: Counts) -> None:
        """Takes the counts of a shard in work."""
        self._active[shard] = counts
        self._sum()

    def records(self) -> RecordProgress:
        """Records by fate."""
        return RecordProgress(in_=self.records_in, out=self.records_out, bad=self.bad, filtered=self.filtered, added=self.added)

    def finish(self, report: ShardReport, *, is_new: bool) -> None:
        """Takes a finished shard, made now or before."""
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
        """The counts as they are, which another thread or process may have."""
        return replace(self, _base=Counts(), _active={})

    def result(self, index: int) -> WorkResult:
        """Of the task, once all its shards are finished."""
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
