"""Reconciles one DataPrepJob: observes it, derives its status, writes the status, and performs the actions."""

from collections.abc import Callable
from datetime import datetime

from dataprep_api import tracing
from dataprep_api.dataset.messages import CommitResult, PlanResult
from dataprep_api.resources.status import TERMINAL_PHASES, DataPrepJobStatus
from dataprep_api.stages import REFUSALS, SIDES
from dataprep_operator import metrics
from dataprep_operator.cluster.cluster import Cluster
from dataprep_operator.cluster.kueue import Kueue
from dataprep_operator.decisions import actions, events, handover
from dataprep_operator.decisions.status.next_status import next_status
from dataprep_operator.informer import log_context
from dataprep_operator.informer.cache import Cache
from dataprep_operator.objects import times
from dataprep_operator.objects.observed import Key, Observed
from dataprep_operator.reconcilers.actuator import Actuator
from dataprep_operator.reconcilers.lineage import LineageRecorder
from dataprep_operator.reconcilers.observer import Observer
from dataprep_operator.server.progress import ProgressStore
from dataprep_operator.settings import Settings


class Reconciler:
    """Reconciles DataPrepJobs. Reconciliation is level-triggered: it depends only on the observed state, so calls in any order converge."""

    def __init__(
        self,
        *,
        cache: Cache,
        cluster: Cluster,
        progress_store: ProgressStore,
        settings: Settings,
        clock: Callable[[], datetime] = times.now,
        lineage: LineageRecorder | None = None,
    ) -> None:
        self._cache = cache
        self._progress_store = progress_store
        self._settings = settings
        self._clock = clock
        self._lineage = lineage if lineage is not None else LineageRecorder(None)
        kueue = Kueue(cluster) if settings.kueue else None
        self._observer = Observer(cache=cache, cluster=cluster, progress_store=progress_store, defaults=settings.pods, kueue=kueue)
        self._actuator = Actuator(cache=cache, cluster=cluster, observer=self._observer, clock=clock)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile a job. Return the seconds after which to reconcile the job again even without an event."""
        with tracing.span("reconcile", job=key.name, namespace=key.namespace) as tell:
            return await self._reconcile(key, tell)

    async def _reconcile(self, key: Key, tell: tracing.Tell) -> float | None:
        now = self._clock()
        observed = await self._observer.observe(key, now=now)
        if observed is None:
            self._lineage.gone(key)
            return None
        self._lineage.seen(observed, observed.status)
        desired = next_status(observed, now=now, defaults=self._settings.pods)
        if self._needs_fresh_read(observed, desired, now=now):
            observed = await self._observer.observe(key, now=now, fresh=True)
            if observed is None:
                return None
            desired = next_status(observed, now=now, defaults=self._settings.pods)
        log_context.bind_run(desired.run_id)
        tell(phase=desired.phase, run_id=desired.run_id, attempt=desired.attempt)
        write_delay = self._progress_delay(observed, desired, now=now)
        if desired.phase == "Succeeded" and not observed.deleting:
            # Publish the handover before the status becomes Complete, because training Jobs may start as soon as the status is Complete.
            fault = await self._actuator.publish_handover(observed, desired)
            desired = handover.with_condition(desired, fault, now=now, generation=observed.generation)
        notes: list[events.Note] = []
        if write_delay is None and desired != observed.status:
            before, observed = observed.status, await self._actuator.write_status(observed, desired)
            notes = events.between(before, desired)
            _count_metrics(observed, before, desired, now=now)
            self._lineage.written(observed, before, desired)
        decision = actions.decide(observed, desired, now=now, defaults=self._settings.pods)
        try:
            for action in decision.actions:
                await self._actuator.perform(action, observed=observed, status=desired)
        finally:
            # Events are recorded last, because pods don't depend on them.
            await self._actuator.record_events(observed, desired, notes)
        if desired.phase in TERMINAL_PHASES:
            self._observer.forget(observed.uid)
        return _earliest(write_delay, decision.requeue_after_seconds)

    def _needs_fresh_read(self, observed: Observed, desired: DataPrepJobStatus, *, now: datetime) -> bool:
        """Return whether the job must be read from the API server before the next actions, because the cache may be outdated."""
        if _starts_or_rejects(observed, desired):
            # The spec is frozen when a job starts. But the cached spec lacks the CRD's new fields if the watch was opened before a CRD
            # upgrade.
            return self._observer.frozen_spec(observed.uid) is None
        if self._observer.is_confirmed(observed.uid) or (
            desired != observed.status and self._progress_delay(observed, desired, now=now) is None
        ):
            # The status write fails if the cached version is outdated.
            return False
        return bool(actions.decide(observed, desired, now=now, defaults=self._settings.pods).actions)

    def _progress_delay(self, observed: Observed, desired: DataPrepJobStatus, *, now: datetime) -> float | None:
        """Return for how many seconds to delay a status that differs only in its progress, or None to write it now."""
        before = observed.status.progress
        if before is None or desired.progress is None or desired.model_copy(update={"progress": before}) != observed.status:
            return None
        age = times.seconds_between(times.parse(before.updated_at), now)
        remaining = self._settings.progress_seconds - age if age is not None else 0.0
        return remaining if desired != observed.status and remaining > 0 else None


def _starts_or_rejects(observed: Observed, desired: DataPrepJobStatus) -> bool:
    """Return whether a job without any children is about to start or to be rejected."""
    if observed.deleting or observed.children:
        return False
    if desired.phase in TERMINAL_PHASES:
        return observed.status.start_time is None and (observed.status.phase != desired.phase or observed.restart_wanted)
    return desired.start_time is not None


def _has_records(status: DataPrepJobStatus) -> bool:
    return status.progress is not None and status.progress.records.in_ > 0


def _earliest(*delays: float | None) -> float | None:
    known_delays = [delay for delay in delays if delay is not None]
    return min(known_delays) if known_delays else None


def _count_metrics(observed: Observed, before: DataPrepJobStatus, after: DataPrepJobStatus, *, now: datetime) -> None:
    if _has_records(after) and not _has_records(before) and not after.reused:
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
        _count_commit(observed, attempt=after.attempt)


def _commit_of(observed: Observed, *, attempt: int) -> CommitResult | None:
    """Return the commit's result. If the plan pod did all steps of a small job, the plan pod's result contains it."""
    children = [child for step in ("commit", "plan") if (child := observed.child(step, attempt)) is not None]
    for result in map(observed.result_of, children):
        commit = result.commit if isinstance(result, PlanResult) else result
        if isinstance(commit, CommitResult):
            return commit
    return None


def _count_commit(observed: Observed, *, attempt: int) -> None:
    """Add the commit step's numbers to the metrics. Unknown label values are ignored, because a pod may report any text."""
    result = _commit_of(observed, attempt=attempt)
    if result is None:
        return
    for stage in (stage for side in SIDES for stage in side):
        metrics.STAGES.labels(stage=stage).inc(result.seconds.get(stage, 0.0))
    for reason in REFUSALS:
        metrics.BAD_RECORDS.labels(reason=reason).inc(result.bad_reasons.get(reason, 0))
    metrics.SHARDS.add(result.shards_within, result.shard_seconds)
