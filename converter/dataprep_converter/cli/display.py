"""Shows the progress of a job on this machine: a live bar on a terminal, plain lines elsewhere."""

import sys
import time
from typing import TYPE_CHECKING, TextIO

from dataprep_api.dataset.messages import CommitResult, PlanResult
from dataprep_api.stages import READ_WAIT, verdict
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.runtime.plan_progress import PlanProgress

if TYPE_CHECKING:
    from rich.progress import Progress, Task, TaskID

_LINE_SECONDS = 2.0


class Display:
    """Sums the counts of all tasks and shows records, rate and remaining time."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._tasks: dict[int, TaskProgress] = {}
        self._is_shuffling = False
        self._total = 0
        self._ignored = 0
        self._started = 0.0
        self._round_started = 0.0
        self._shown_at = 0.0
        self._bar: tuple[Progress, TaskID] | None = None
        self._planning: Progress | None = None

    def planning(self, progress: PlanProgress) -> None:
        """Shows that the plan is being made. On a terminal, a bar shows the counts, and disappears when the plan is made."""
        if self._stream.isatty() and not self._quiet:
            self._start_planning_bar(progress)
        else:
            self._say("planning …")

    def scanned(self, progress: PlanProgress) -> None:
        """Shows how much of the input has been scanned. On a terminal, the planning bar already shows this."""
        now = time.monotonic()
        if self._planning is None and now - self._shown_at >= _LINE_SECONDS:
            self._shown_at = now
            self._say(f"planning: {planning_text(progress)}")

    def step(self, name: str) -> None:
        """Shows that a step begins."""
        self.close()
        self._say(f"{name} …")

    def planned(self, plan: PlanResult) -> None:
        """Shows the plan's figures and warnings."""
        self.close()
        self._total = plan.records
        self._ignored = plan.ignored or 0
        self._started = self._round_started = time.monotonic()
        splits = ", ".join(f"{split.name} {split.records:,} in {split.shards} shard{'s' * (split.shards != 1)}" for split in plan.splits)
        # The number of records that a script makes is known only at the end.
        records = (
            f": {plan.records:,} record{'s' * (plan.records != 1)} ({splits}), {plan.tasks} task{'s' * (plan.tasks != 1)}"
            if plan.splits
            else ""
        )
        self._say(f"planned run {plan.run_id}{records}")
        for warning in plan.warnings:
            self._say(f"warning: {warning}")
        if self._stream.isatty() and not self._quiet and plan.splits and not plan.reused:
            self._start_bar()

    def shuffle_progress(self, index: int, progress: TaskProgress) -> None:
        """Takes the new counts of one task of a shuffle's first round and shows the sums over all its tasks."""
        self._is_shuffling = True
        self._show("shuffling", index, progress)

    def progress(self, index: int, progress: TaskProgress) -> None:
        """Takes the new counts of one task and shows the sums over all tasks."""
        if self._is_shuffling:
            self._is_shuffling = False
            self._tasks, self._round_started = {}, time.monotonic()
        self._show("converting", index, progress)

    def _show(self, what: str, index: int, progress: TaskProgress) -> None:
        self._tasks[index] = progress
        now = time.monotonic()
        records_in = sum(task.records_in for task in self._tasks.values())
        if self._bar is not None:
            bar, task = self._bar
            bar.update(task, description=what, completed=records_in, rates=self._rates(now, records_in))
        elif now - self._shown_at >= _LINE_SECONDS:
            self._shown_at = now
            self._say(f"{what}: {records_in:,} of {self._total:,} records, {self._rates(now, records_in)}")

    def reused(self, result: CommitResult) -> None:
        """Shows that a finished data set is reused."""
        self._say(f"reused: there is a finished data set with the same spec and inputs ({result.manifest_uri})")

    def finished(self, result: CommitResult) -> None:
        """Shows the result of a finished job."""
        seconds = max(1e-3, time.monotonic() - self._started)
        out = result.records.out
        self._say(
            f"done: {out:,} record{'s' * (out != 1)}, {result.bytes_out:,} bytes "
            f"in {result.files} file{'s' * (result.files != 1)}, {seconds:.1f} s"
            f" ({out / seconds:,.0f} records/s, {result.bytes_out / seconds / 1e6:,.0f} MB/s)"
        )
        bottleneck = verdict(result.seconds)
        if bottleneck is not None:
            self._say(f"{bottleneck}; over all workers, encoding waited {result.seconds.get(READ_WAIT, 0.0):,.1f} s for reading")
        if self._ignored:
            files = f"{self._ignored:,} file{'s' * (self._ignored != 1)}"
            self._say(f"ignored: {files} among the inputs (hidden, of another kind, or part of a data set)")
        if result.records.filtered:
            self._say(f"filtered out: {result.records.filtered:,} record{'s' * (result.records.filtered != 1)}")
        if result.records.bad:
            self._say(f"left out: {result.records.bad:,} bad record{'s' * (result.records.bad != 1)}, for example:")
            for bad in result.bad[:5]:
                self._say(f"  {bad.uri}, record {bad.row}: {bad.reason}")
        if result.quarantine_uri is not None:
            self._say(f"all bad records are kept in {result.quarantine_uri}")
        for warning in result.warnings:
            self._say(f"warning: {warning}")

    def close(self) -> None:
        """Ends the progress bars."""
        if self._planning is not None:
            self._planning.stop()
            self._planning = None
        if self._bar is not None:
            self._bar[0].stop()
            self._bar = None

    def _say(self, line: str) -> None:
        if not self._quiet:
            self._stream.write(f"{line}\n")
            self._stream.flush()

    def _start_planning_bar(self, progress: PlanProgress) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
        from rich.text import Text

        from dataprep_converter.core.redaction import raw

        class Counts(ProgressColumn):
            """The counts, read again each time the bar is drawn."""

            def render(self, task: "Task") -> Text:
                """Returns the text, and moves the bar once the number of records to read is known."""
                if progress.to_scan:
                    task.total, task.completed = progress.to_scan, progress.scanned
                elif progress.to_read:
                    task.total, task.completed = progress.to_read, progress.read
                else:
                    task.total = None
                return Text(planning_text(progress))

        self._planning = Progress(
            TextColumn("planning"), BarColumn(bar_width=20), Counts(), console=Console(file=raw(self._stream)), transient=True
        )
        self._planning.add_task("plan", total=None)
        self._planning.start()

    def _start_bar(self) -> None:
        # Imported here because rich loads slowly and most jobs run without a terminal.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        from dataprep_converter.core.redaction import raw

        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[rates]}"),
            console=Console(file=raw(self._stream)),
        )
        self._bar = (bar, bar.add_task("converting", total=max(1, self._total), rates=""))
        bar.start()

    def _rates(self, now: float, records_in: int) -> str:
        seconds = max(1e-3, now - self._round_started)
        bytes_out = sum(task.bytes_out for task in self._tasks.values())
        rate = records_in / seconds
        time_left = (
            f", {duration((self._total - records_in) / rate)} left" if records_in >= 0.05 * self._total and seconds > 2 and rate > 0 else ""
        )
        return f"{rate:,.0f} records/s, {bytes_out / seconds / 1e6:,.0f} MB/s{time_left}"


def planning_text(progress: PlanProgress) -> str:
    """Describes the progress of a plan in at most 50 characters, or in a few more if the numbers are very large."""
    if progress.to_scan:
        # Show a percentage instead of bytes, because opening a file also counts as some bytes.
        return f"scanned {100 * progress.scanned // progress.to_scan} %"
    if progress.to_read:
        return f"read {progress.read:,} of {progress.to_read:,} records"
    parts = [f"{progress.files:,} file{'s' * (progress.files != 1)}"] * bool(progress.files)
    parts += [f"{progress.records:,} record{'s' * (progress.records != 1)}", f"{progress.size / 1e6:,.1f} MB"] * bool(progress.records)
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Formats a duration as `1h02m`, `3m20s` or `12s`."""
    rounded = int(seconds + 0.5)
    if rounded >= 3600:
        return f"{rounded // 3600}h{rounded % 3600 // 60:02d}m"
    return f"{rounded // 60}m{rounded % 60:02d}s" if rounded >= 60 else f"{rounded}s"
