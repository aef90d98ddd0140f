"""Reconciles one DataPrepCronJob: observes it, decides, creates the due job, writes the status, and deletes old jobs."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from pydantic import ValidationError

from dataprep_api.errors import SpecError
from dataprep_api.reasons import Reason
from dataprep_api.resources.cron import DataPrepCronJob, DataPrepCronJobStatus
from dataprep_operator.cluster.cluster import DATAPREPCRONJOBS, DATAPREPJOBS, Cluster
from dataprep_operator.decisions import crons
from dataprep_operator.decisions.crons import Decision, ObservedCron, ScheduledJob
from dataprep_operator.decisions.schedules import BadSchedule, Schedule
from dataprep_operator.errors import AlreadyExists, Conflict, NotFound, OperatorError, Refused
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.objects import times
from dataprep_operator.objects.observed import Key
from dataprep_operator.objects.owners import controller
from dataprep_operator.objects.untrusted import Raw
from dataprep_operator.reconcilers.event_recorder import EventRecorder

logger = logging.getLogger(__name__)

# A refused creation is retried, because the reason may disappear, for example when a quota has room again.
_RETRY_REFUSED_SECONDS: Final = 60.0


class CronStatusUnreadable(OperatorError):
    """The stored status can't be parsed, so the DataPrepCronJob isn't reconciled."""


class CronReconciler:
    """Reconciles DataPrepCronJobs. The reconciler is level-triggered and stateless, because the complete state is in the API."""

    def __init__(self, *, cache: Cache, cluster: Cluster, clock: Callable[[], datetime] = times.now) -> None:
        self._cache = cache
        self._cluster = cluster
        self._clock = clock
        self._events = EventRecorder(cluster=cluster, clock=clock)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile a DataPrepCronJob. Return the seconds after which to reconcile the DataPrepCronJob again even without an event."""
        raw = self._cache.cron(key)
        if raw is None or "deletionTimestamp" in raw["metadata"]:
            return None
        now = self._clock()
        observed = _observe(key, raw, self._cache)
        decision = crons.decide(observed, now=now)
        if decision.due is not None:
            # Create the job before writing the status. After a crash between these two steps, the existing job shows that its scheduled
            # time was handled.
            decision = await self._create_due_job(observed, decision, decision.due, now=now)
        if decision.status != observed.status:
            await self._write_status(observed, decision.status)
        notes = [*decision.notes, *crons.notes_between(observed.status, decision.status)]
        await self._events.record(key, uid=observed.uid, attempt=0, notes=notes)
        for job in decision.removals:
            await self._delete(key, job)
        return decision.requeue_after_seconds

    async def _delete(self, key: Key, job: ScheduledJob) -> None:
        """Delete a job.

        Raises Conflict if the job has changed since it was observed: a failed job may have been retried, or a running job may have
        succeeded.
        """
        target = (DATAPREPJOBS, key.namespace, job.name)
        try:
            await self._cluster.delete(*target, uid=job.uid, resource_version=job.version)
        except Conflict:
            self._cache.put(Kind.DATAPREPJOBS, await self._cluster.get(*target))
            raise
        logger.info("%s: %s deleted", key, job.name)

    async def _create_due_job(self, observed: ObservedCron, decision: Decision, due: datetime, *, now: datetime) -> Decision:
        """Create the due job. If a job with its name exists but doesn't belong to this DataPrepCronJob, the returned status reports a
        conflict."""
        body = crons.job_body(observed, due)
        name = body["metadata"]["name"]
        try:
            raw = await self._create_or_get(observed.key.namespace, name, body)
        except Refused as exc:
            message = f"The job due at {times.text(due)} was refused: {exc}"
            status = crons.with_failure(observed, decision.status, Reason.JOB_REFUSED, message, now=now)
            delay = min(_RETRY_REFUSED_SECONDS, decision.requeue_after_seconds or _RETRY_REFUSED_SECONDS)
            return replace(decision, status=status, requeue_after_seconds=delay)
        if controller(raw).get("uid") != observed.uid:
            message = f"DataPrepJob {name} already exists and doesn't belong to this DataPrepCronJob; delete it, or wait for the next time."
            return replace(decision, status=crons.with_failure(observed, decision.status, Reason.CONFLICTING_CHILD, message, now=now))
        self._cache.put(Kind.DATAPREPJOBS, raw)
        logger.info("%s: %s created for %s", observed.key, name, times.text(due))
        job = replace(crons.read_job(raw), scheduled=due)
        return replace(decision, status=crons.with_created_job(observed, decision.status, job, now=now))

    async def _create_or_get(self, namespace: str, name: str, body: dict[str, object]) -> Raw:
        try:
            return await self._cluster.create(DATAPREPJOBS, namespace, body)
        except AlreadyExists:
            return await self._cluster.get(DATAPREPJOBS, namespace, name)

    async def _write_status(self, observed: ObservedCron, status: DataPrepCronJobStatus) -> None:
        """Write the status. If the object has changed since it was observed, refresh the cache and raise Conflict."""
        target = (DATAPREPCRONJOBS, observed.key.namespace, observed.key.name)
        version = observed.raw["metadata"]["resourceVersion"]
        try:
            response = await self._cluster.apply_status(*target, uid=observed.uid, resource_version=version, status=crons.as_json(status))
        except (Conflict, NotFound):
            try:
                self._cache.put(Kind.DATAPREPCRONJOBS, await self._cluster.get(*target))
            except NotFound:
                self._cache.drop(Kind.DATAPREPCRONJOBS, observed.raw)
            raise
        self._cache.put(Kind.DATAPREPCRONJOBS, response)


def _observe(key: Key, raw: Raw, cache: Cache) -> ObservedCron:
    """Return the DataPrepCronJob and its jobs, from the cache."""
    metadata = raw["metadata"]
    created = times.parse(metadata["creationTimestamp"])
    assert created is not None  # noqa: S101 - the API server always sets it
    observed = ObservedCron(
        key=key,
        uid=metadata["uid"],
        generation=metadata.get("generation", 1),
        created=created,
        raw=raw,
        status=_status(raw),
        spec=None,
        schedule=None,
        jobs=tuple(crons.read_job(job) for job in cache.jobs_of_cron(key.namespace, metadata["uid"])),
    )
    try:
        spec = DataPrepCronJob.parse({key: value for key, value in raw.items() if key != "status"}).spec
        return replace(observed, spec=spec, schedule=Schedule.parse(spec.schedule, spec.time_zone))
    except (SpecError, BadSchedule) as exc:
        return replace(observed, faults=str(exc))


def _status(raw: Raw) -> DataPrepCronJobStatus:
    try:
        # Ignore unknown fields, which a newer operator may have written before it was rolled back.
        return DataPrepCronJobStatus.model_validate(raw.get("status") or {}, extra="ignore")
    except ValidationError as exc:
        raise CronStatusUnreadable(f"the stored status can't be read: {exc.errors()[0]['loc']}: {exc.errors()[0]['msg']}") from exc
