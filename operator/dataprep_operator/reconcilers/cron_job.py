"""One look at one DataPrepCronJob: observe, decide, make, write, remove. Everything the operator does to one is in `reconcile`."""

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
from dataprep_operator.decisions.crons import Decision, Made, SeenCron
from dataprep_operator.decisions.schedules import BadSchedule, Schedule
from dataprep_operator.errors import AlreadyExists, Conflict, NotFound, OperatorError, Refused
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.objects import times
from dataprep_operator.objects.observed import Key, controller
from dataprep_operator.objects.untrusted import Raw
from dataprep_operator.reconcilers.event_recorder import EventRecorder

logger = logging.getLogger(__name__)

# What the API server refuses may be allowed later, when a quota has room.
_REFUSED_AGAIN_SECONDS: Final = 60.0


class CronStatusUnreadable(OperatorError):
    """The stored status is not of this version's form; nothing is done to what can't be understood."""


class CronReconciler:
    """Level-triggered, and with nothing in memory: what it needs to know is in the API."""

    def __init__(self, *, cache: Cache, cluster: Cluster, clock: Callable[[], datetime] = times.now) -> None:
        self._cache = cache
        self._cluster = cluster
        self._clock = clock
        self._teller = EventRecorder(cluster=cluster, clock=clock)

    async def reconcile(self, key: Key) -> float | None:
        """Do what is due. Returns the seconds after which it must be looked at even if nothing happens."""
        raw = self._cache.cron(key)
        if raw is None or "deletionTimestamp" in raw["metadata"]:
            return None
        now = self._clock()
        seen = _look(key, raw, self._cache)
        decision = crons.decide(seen, now=now)
        if decision.due is not None:
            # Before the status says so: a crash in between finds the job. The other way round it would be lost.
            decision = await self._make(seen, decision, decision.due, now=now)
        if decision.status != seen.status:
            await self._write_status(seen, decision.status)
        notes = [*decision.notes, *crons.told(seen.status, decision.status)]
        await self._teller.tell(key, uid=seen.uid, attempt=0, notes=notes)
        for job in decision.removals:
            await self._remove(key, job)
        return decision.wake_after_seconds

    async def _remove(self, key: Key, job: Made) -> None:
        """Remove a job, unless it has changed since it was looked at: a failed one may be retried, a running one may just have succeeded."""
        place = (DATAPREPJOBS, key.namespace, job.name)
        try:
            await self._cluster.delete(*place, uid=job.uid, resource_version=job.version)
        except Conflict:
            self._cache.put(Kind.DATAPREPJOBS, await self._cluster.get(*place))
            raise
        logger.info("%s: %s deleted", key, job.name)

    async def _make(self, seen: SeenCron, decision: Decision, due: datetime, *, now: datetime) -> Decision:
        """Make the job. One that is there already is ours, or in the way."""
        body = crons.job(seen, due)
        name = body["metadata"]["name"]
        try:
            raw = await self._created(seen.key.namespace, name, body)
        except Refused as exc:
            said = f"The job due at {times.text(due)} was refused: {exc}"
            status = crons.not_made(seen, decision.status, Reason.JOB_REFUSED, said, now=now)
            wait = min(_REFUSED_AGAIN_SECONDS, decision.wake_after_seconds or _REFUSED_AGAIN_SECONDS)
            return replace(decision, status=status, wake_after_seconds=wait)
        if controller(raw).get("uid") != seen.uid:
            said = f"DataPrepJob {name} exists and doesn't belong to this DataPrepCronJob; delete it, or wait for the next time."
            return replace(decision, status=crons.not_made(seen, decision.status, Reason.CONFLICTING_CHILD, said, now=now))
        self._cache.put(Kind.DATAPREPJOBS, raw)
        logger.info("%s: %s made for %s", seen.key, name, times.text(due))
        job = replace(crons.read_made(raw), scheduled=due)
        return replace(decision, status=crons.made(seen, decision.status, job, now=now))

    async def _created(self, namespace: str, name: str, body: dict[str, object]) -> Raw:
        try:
            return await self._cluster.create(DATAPREPJOBS, namespace, body)
        except AlreadyExists:
            return await self._cluster.get(DATAPREPJOBS, namespace, name)

    async def _write_status(self, seen: SeenCron, status: DataPrepCronJobStatus) -> None:
        """Write the status, unless the object has changed since it was looked at; then the cache learns the newer one and Conflict is raised."""
        place = (DATAPREPCRONJOBS, seen.key.namespace, seen.key.name)
        version = seen.raw["metadata"]["resourceVersion"]
        try:
            written = await self._cluster.apply_status(*place, uid=seen.uid, resource_version=version, status=crons.as_json(status))
        except (Conflict, NotFound):
            try:
                self._cache.put(Kind.DATAPREPCRONJOBS, await self._cluster.get(*place))
            except NotFound:
                self._cache.drop(Kind.DATAPREPCRONJOBS, seen.raw)
            raise
        self._cache.put(Kind.DATAPREPCRONJOBS, written)


def _look(key: Key, raw: Raw, cache: Cache) -> SeenCron:
    """The object and its jobs, as the caches show them."""
    metadata = raw["metadata"]
    created = times.parse(metadata["creationTimestamp"])
    assert created is not None  # noqa: S101 - every object of the API server has a creation time
    seen = SeenCron(
        key=key,
        uid=metadata["uid"],
        generation=metadata.get("generation", 1),
        created=created,
        raw=raw,
        status=_status(raw),
        spec=None,
        schedule=None,
        jobs=tuple(crons.read_made(each) for each in cache.made_by(key.namespace, metadata["uid"])),
    )
    try:
        spec = DataPrepCronJob.parse({key: value for key, value in raw.items() if key != "status"}).spec
        return replace(seen, spec=spec, schedule=Schedule.parse(spec.schedule, spec.time_zone))
    except (SpecError, BadSchedule) as exc:
        return replace(seen, faults=str(exc))


def _status(raw: Raw) -> DataPrepCronJobStatus:
    try:
        return DataPrepCronJobStatus.model_validate(raw.get("status") or {})
    except ValidationError as exc:
        raise CronStatusUnreadable(f"the stored status can't be read: {exc.errors()[0]['loc']}: {exc.errors()[0]['msg']}") from exc
