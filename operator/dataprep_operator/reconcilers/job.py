"""One look at one job: observe, decide, write, act. Everything the operator does to a job is in `reconcile`."""

from collections.abc import Callable
from datetime import datetime

from dataprep_api import tracing
from dataprep_api.dataset.messages import CommitResult
from dataprep_api.resources.status import TERMINAL_PHASES, DataPrepJobStatus
from dataprep_api.stages import REFUSALS, SIDES
from dataprep_operator import metrics
from dataprep_operator.cluster.cluster import Cluster
from dataprep_operator.cluster.kueue import Kueue
from dataprep_operator.decisions import actions, events, handover, status
from dataprep_operator.informer import log_context
from dataprep_operator.informer.cache import Cache
from dataprep_operator.objects import times
from dataprep_operator.objects.observed import Key, Observed
from dataprep_operator.reconcilers.actuator import Actuator
from dataprep_operator.reconcilers.observer import Observer
from dataprep_operator.server.progress import Board
from dataprep_operator.settings import Settings


class Reconciler:
    """Level-triggered: it never asks what happened, only what is. Any number of calls, in any order, end in the same state."""

    def __init__(
        self, *, cache: Cache, cluster: Cluster, board: Board, settings: Settings, clock: Callable[[], datetime] = times.now
    ) -> None:
        self._cache = cache
        self._board = board
        self._settings = settings
        self._clock = clock
        kueue = Kueue(cluster) if settings.kueue else None
        self._observer = Observer(cache=cache, cluster=cluster, board=board, defaults=settings.pods, kueue=kueue)
        self._hands = Actuator(cache=cache, cluster=cluster, observer=self._observer, clock=clock)

    async def reconcile(self, key: Key) -> float | None:
        """Bring one job forward. Returns the seconds after which it must be looked at even if nothing happens."""
        with tracing.span("reconcile", job=key.name, namespace=key.namespace) as tell:
            return await self._reconcile(key, tell)

    async def _reconcile(self, key: Key, tell: tracing.Tell) -> float | None:
        now = self._clock()
        seen = await self._observer.look(key, now=now)
        if seen is None:
            return None
        desired = status.following(seen, now=now, defaults=self._settings.pods)
        if self._must_ask(seen, desired, now=now):
            seen = await self._observer.look(key, now=now, fresh=True)
            if seen is None:
                return None
            desired = status.following(seen, now=now, defaults=self._settings.pods)
        log_context.learn(desired.run_id)
        tell(phase=desired.phase, run_id=desired.run_id, attempt=desired.attempt)
        wait = self._too_soon(seen, desired, now=now)
        if desired.phase == "Succeeded" and not seen.deleting:
            # Before the status says Complete: who waits for that may start at once.
            fault = await self._hands.hand_over(seen, desired)
            desired = handover.told(desired, fault, now=now, generation=seen.generation)
        notes: list[events.Note] = []
        if wait is None and desired != seen.status:
            before, seen = seen.status, await self._hands.write_status(seen, desired)
            notes = events.about(before, desired)
            _count(seen, before, desired, now=now)
        try:
            for action in actions.actions(seen, desired, now=now, defaults=self._settings.pods):
                await self._hands.perform(action, seen=seen, status=desired)
        finally:
            # Last: pods don't wait for them.
            await self._hands.tell(seen, desired, notes)
        if desired.phase in TERMINAL_PHASES:
            self._observer.forget(seen.uid)
        return _sooner(wait, actions.wake_after_seconds(seen, desired, now=now, defaults=self._settings.pods))

    def _must_ask(self, seen: Observed, desired: DataPrepJobStatus, *, now: datetime) -> bool:
        """Whether what the watch tells of the job is not enough for what is about to be done."""
        if _begins(seen, desired):
            # A watch from before an upgrade of the CustomResourceDefinition tells of jobs without its new fields. What a job begins with stays.
            return self._observer.frozen(seen.uid) is None
        if self._observer.has_met(seen.uid) or (desired != seen.status and self._too_soon(seen, desired, now=now) is None):
            # A status is written only over the version that was looked at.
            return False
        return bool(actions.actions(seen, desired, now=now, defaults=self._settings.pods))

    def _too_soon(self, seen: Observed, desired: DataPrepJobStatus, *, now: datetime) -> float | None:
        """How long a status that differs in its progress only must wait; None when it may be written."""
        before = seen.status.progress
        if before is None or desired.progress is None or desired.model_copy(update={"progress": before}) != seen.status:
            return None
        age = times.seconds_between(times.parse(before.updated_at), now)
        left = self._settings.progress_seconds - age if age is not None else 0.0
        return left if desired != seen.status and left > 0 else None


def _begins(seen: Observed, desired: DataPrepJobStatus) -> bool:
    """Whether the decision is about a job of which nothing has been made: that it starts, or that it can't."""
    if seen.deleting or seen.children:
        return False
    if desired.phase in TERMINAL_PHASES:
        return seen.status.start_time is None and seen.status.phase != desired.phase
    return desired.start_time is not None


def _records_seen(status: DataPrepJobStatus) -> bool:
    return status.progress is not None and status.progress.records.in_ > 0


def _sooner(*waits: float | None) -> float | None:
    known = [wait for wait in waits if wait is not None]
    return min(known) if known else None


def _count(seen: Observed, before: DataPrepJobStatus, after: DataPrepJobStatus, *, now: datetime) -> None:
    if _records_seen(after) and not _records_seen(before) and not after.reused:
        metrics.FIRST_RECORD.observe(times.seconds_between(times.parse(after.start_time), now) or 0.0)
    if after.phase not in TERMINAL_PHASES or before.phase in TERMINAL_PHASES:
        return
    if after.timings is not None and after.timings.total_seconds is not None:
        metrics.JOB_DURATION.labels(phase=after.phase).observe(after.timings.total_seconds)
    if after.phase == "Failed":
        metrics.FAILURES.labels(reason=after.failures[0].reason if after.failures else "").inc()
    elif after.progress is not None and not after.reused:
        records = after.progress.records
        for fate, count in (("in", records.in_), ("out", records.out), ("bad", records.bad), ("filtered", records.filtered)):
            metrics.RECORDS.labels(fate=fate).inc(count)
        metrics.BYTES.inc(after.progress.bytes_out)
        _count_work(seen, attempt=after.attempt)


def _count_work(seen: Observed, *, attempt: int) -> None:
    """What the commit step says about the work. Only words of ours become labels: a pod may say anything."""
    child = seen.child("commit", attempt)
    result = seen.result_of(child) if child is not None else None
    if not isinstance(result, CommitResult):
        return
    for stage in (stage for side in SIDES for stage in side):
        metrics.STAGES.labels(stage=stage).inc(result.seconds.get(stage, 0.0))
    for reason in REFUSALS:
        metrics.BAD_RECORDS.labels(reason=reason).inc(result.bad_reasons.get(reason, 0))
    metrics.SHARDS.add(result.shards_within, result.shard_seconds)
