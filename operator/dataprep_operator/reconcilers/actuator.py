"""Carries decisions out: writes statuses, makes and changes children, tells Events. Each effect is safe to repeat."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from dataprep_api import KIND, names
from dataprep_api.reasons import Reason
from dataprep_api.resources.status import DataPrepJobStatus
from dataprep_operator.children import jobs
from dataprep_operator.cluster.cluster import CONFIG_MAPS, DATAPREPJOBS, JOBS, PODS, Body, Cluster
from dataprep_operator.decisions import handover
from dataprep_operator.decisions.actions import (
    Action,
    CreateJob,
    DeleteJob,
    DeletePod,
    DeleteSelf,
    Enqueue,
    FailPod,
    Guard,
    KeepConfigMap,
    PatchJob,
    Tell,
)
from dataprep_operator.decisions.events import Note
from dataprep_operator.decisions.status import as_json
from dataprep_operator.errors import AlreadyExists, ClusterError, Conflict, NotFound, Refused, SpecUnreadable, Unavailable
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.objects import observed, pods, times
from dataprep_operator.objects.observed import Observed
from dataprep_operator.objects.pods import Blockage, Pod
from dataprep_operator.objects.untrusted import Raw
from dataprep_operator.reconcilers.event_recorder import EventRecorder
from dataprep_operator.reconcilers.observer import Observer

logger = logging.getLogger(__name__)

_WEBHOOK = "failed calling webhook"
"""What the API server says when admission asks somebody who doesn't answer."""


class ForeignChild(ClusterError):
    """An object with the name of a child belongs to someone else."""


class LeftOver(ForeignChild):
    """It belongs to a deleted job of the same name, and Kubernetes is about to remove it."""


class Actuator:
    """All effects on the cluster."""

    def __init__(self, *, cache: Cache, cluster: Cluster, observer: Observer, clock: Callable[[], datetime]) -> None:
        self._cache = cache
        self._cluster = cluster
        self._observer = observer
        self._clock = clock
        self._teller = EventRecorder(cluster=cluster, clock=clock)

    # --- the job itself -----------------------------------------------------------------------------------------------------

    async def write_status(self, seen: Observed, desired: DataPrepJobStatus) -> Observed:
        """Write the status, unless the job has changed since it was looked at; then the cache learns the newer one and Conflict is raised.

        Returns what was seen under its new version, over which the actions that follow may write.
        """
        place = (DATAPREPJOBS, seen.key.namespace, seen.key.name)
        try:
            written = await self._cluster.apply_status(*place, uid=seen.uid, resource_version=seen.version, status=as_json(desired))
        except (Conflict, NotFound):
            await self._observer.refresh(seen.key)
            raise
        self._cache.put_written(written)
        self._observer.met(seen.uid)
        if desired.phase != seen.status.phase:
            logger.info("%s: %s → %s", seen.key, seen.status.phase or "new", desired.phase)
        return replace(seen, version=written["metadata"]["resourceVersion"])

    async def hand_over(self, seen: Observed, desired: DataPrepJobStatus) -> str | None:
        """Make sure of the ConfigMap that tells a training Job what was made. Returns why that can't be now; the data set is whole without it.

        That of a job which this one has replaced goes by itself, so its end is waited for before this one is Complete: the look is made again.
        """
        is_new = seen.status.phase != "Succeeded"
        try:
            if not is_new:
                if await self._is_handed_over(seen):
                    return None
                await self._must_be_there(seen)
            spec = seen.spec if is_new else await self._observer.spec_of_the_run(seen)
            if spec is None:
                return "the spec can't be read any more"
            await self._ensure(CONFIG_MAPS, handover.config_map(seen, spec, desired), seen)
        except LeftOver as exc:
            if is_new:
                raise
            return str(exc)
        except (Refused, ForeignChild, SpecUnreadable) as exc:
            return str(exc)
        except Unavailable as exc:
            # Without the webhook, and so for nobody else's sake, may the job wait to be Complete.
            if _WEBHOOK not in str(exc):
                raise
            return str(exc)
        if not is_new:
            logger.info("%s: the ConfigMap for training was gone, and is made again", seen.key)
        return None

    async def _is_handed_over(self, seen: Observed) -> bool:
        try:
            await self._found(CONFIG_MAPS, {"kind": "ConfigMap", "metadata": {"name": seen.key.name}}, seen)
        except NotFound:
            return False
        return True

    async def _must_be_there(self, seen: Observed) -> None:
        """Raises Conflict for a job that is gone, or replaced, and of which a watch that was cut has not said so. The cache then knows."""
        await self._observer.refresh(seen.key)
        now = self._cache.job(seen.key)
        if now is None or now["metadata"]["uid"] != seen.uid:
            raise Conflict("the job was deleted while it was looked at")

    async def _guard(self, seen: Observed, *, on: bool) -> None:
        """Set or take away our finalizer, unless the job has changed since it was looked at. Others' finalizers stay."""
        raw = self._cache.job(seen.key)
        if raw is None or raw["metadata"]["uid"] != seen.uid:
            return
        if raw["metadata"]["resourceVersion"] != seen.version:
            raise Conflict("the job changed while it was looked at")
        others = [each for each in raw["metadata"].get("finalizers") or [] if each != names.FINALIZER]
        metadata = {
            "uid": seen.uid,
            "resourceVersion": seen.version,
            "finalizers": [*others, *([names.FINALIZER] if on else [])],
        }
        try:
            written = await self._cluster.patch(DATAPREPJOBS, seen.key.namespace, seen.key.name, {"metadata": metadata})
        except (Conflict, NotFound):
            await self._observer.refresh(seen.key)
            raise
        if seen.deleting and not on:
            # Without its last finalizer it is gone; the answer is a farewell, and must not come back into the cache.
            self._observer.forget(seen.uid)
            logger.info("%s: its output needs no removal any more", seen.key)
        else:
            self._cache.put(Kind.DATAPREPJOBS, written)

    async def _delete(self, seen: Observed) -> None:
        """Remove the job itself, unless it has changed since it was looked at: somebody may just have asked for a retry, or for more time."""
        place = (DATAPREPJOBS, seen.key.namespace, seen.key.name)
        try:
            await self._cluster.delete(*place, uid=seen.uid, resource_version=seen.version)
        except Conflict:
            await self._observer.refresh(seen.key)
            raise

    # --- children -----------------------------------------------------------------------------------------------------------

    async def perform(self, action: Action, *, seen: Observed, status: DataPrepJobStatus) -> None:
        """Carry out one action."""
        match action:
            case CreateJob():
                await self._create(action, seen)
            case KeepConfigMap(config_map=config_map):
                try:
                    await self._found(CONFIG_MAPS, config_map, seen)
                except NotFound:
                    await self._ensure(CONFIG_MAPS, config_map, seen)
            case PatchJob(child=child, spec=spec, told=told):
                metadata: Body = {"uid": child.uid}
                if "suspend" in spec:
                    metadata["annotations"] = jobs.asked(suspend=spec["suspend"], again=child.suspended_by_others)
                body = {"metadata": metadata, "spec": spec}
                await self._on_child(JOBS, Kind.JOBS, child.namespace, child.name, child.uid, body)
                if told:
                    await self.tell(seen, status, [Note("Normal", Reason.RESCALED, told)])
            case Enqueue(child=child, labels=labels, annotations=annotations):
                body = {"metadata": {"uid": child.uid, "labels": dict(labels), "annotations": dict(annotations)}}
                await self._on_child(JOBS, Kind.JOBS, child.namespace, child.name, child.uid, body)
                logger.info("%s: Job %s put into the queue %s", seen.key, child.name, seen.queue)
            case DeleteJob(child=child):
                await self._cluster.delete(JOBS, child.namespace, child.name, uid=child.uid)
                logger.info("%s: Job %s deleted", seen.key, child.name)
            case DeletePod(pod=pod):
                await self._cluster.delete(PODS, pod.namespace, pod.name, uid=pod.uid)
            case FailPod(pod=pod):
                logger.warning("%s: pod %s was never confirmed as ended by its node; it is declared failed", seen.key, pod.name)
                await self._on_child(PODS, Kind.PODS, pod.namespace, pod.name, pod.uid, _failed_pod(pod, now=self._clock()), "status")
            case Guard(on=on):
                await self._guard(seen, on=on)
            case Tell(note=note):
                await self.tell(seen, status, [note])
            case DeleteSelf():
                await self._delete(seen)

    async def _create(self, action: CreateJob, seen: Observed) -> None:
        """Make the ConfigMap, which the first child needs, and the Job. What the API server says against it becomes the job's reason, and is tried again."""
        try:
            spec = self._observer.frozen(seen.uid)
            if spec is None:
                spec = jobs.kept_spec(await self._ensure(CONFIG_MAPS, action.config_map, seen))
                self._observer.froze(seen.uid, spec)
            made = await self._ensure(JOBS, jobs.marked(action.body, spec), seen)
        except Refused as exc:
            self._observer.refused(seen.uid, Blockage(Reason.POD_REFUSED, str(exc), fatal=not pods.may_pass(str(exc))))
            raise
        except ForeignChild as exc:
            self._observer.refused(seen.uid, Blockage(Reason.CONFLICTING_CHILD, str(exc)))
            raise
        self._observer.refused(seen.uid, None)
        self._cache.put(Kind.JOBS, made)
        logger.info("%s: Job %s created", seen.key, made["metadata"]["name"])

    # Any kind of child, as the API's JSON.
    async def _ensure(self, resource: Any, body: Body, seen: Observed) -> Raw:
        """The object, made or found."""
        try:
            return await self._cluster.create(resource, seen.key.namespace, body)
        except AlreadyExists:
            return await self._found(resource, body, seen)

    # Any: the same.
    async def _found(self, resource: Any, body: Body, seen: Observed) -> Raw:
        """The object of that name as it is. One that is there counts only when it is ours, by the owner's uid."""
        name = body["metadata"]["name"]
        found = await self._cluster.get(resource, seen.key.namespace, name)
        if not observed.owned_by(found, uid=seen.uid):
            owner = observed.controller(found)
            if owner.get("kind") == KIND and owner.get("name") == seen.key.name:
                raise LeftOver(f"{body['kind']} {name} is of a deleted DataPrepJob of the same name; its end is waited for.")
            raise ForeignChild(f"{body['kind']} {name} exists and doesn't belong to this DataPrepJob; delete or rename it.")
        return found

    async def _on_child(self, resource: Any, kind: Kind, namespace: str, name: str, uid: str, body: Body, subresource: str = "") -> None:
        try:
            changed = await self._cluster.patch(resource, namespace, name, body, subresource=subresource)
        except NotFound:
            # The watch will say so too, if it has not missed it.
            self._cache.drop(kind, {"metadata": {"uid": uid, "namespace": namespace, "name": name}})
            raise
        self._cache.put(kind, changed)

    # --- Events -------------------------------------------------------------------------------------------------------------

    async def tell(self, seen: Observed, status: DataPrepJobStatus, notes: Sequence[Note]) -> None:
        """Tell each note as an Event about the job."""
        await self._teller.tell(seen.key, uid=seen.uid, attempt=status.attempt, notes=notes)


def _failed_pod(pod: Pod, *, now: datetime) -> Body:
    """The status of a pod that is given up: the Job controller then makes another, and DisruptionTarget keeps it uncounted."""
    message = "The node never confirmed the end of this pod, so the operator gave it up."
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByDataprepOperator",
        "message": message,
        # One that was evicted before is no other eviction.
        "lastTransitionTime": times.text(pod.disrupted_at or now),
    }
    return {
        # Only what was looked at: the node may have come back and told of the end after all.
        "metadata": {"uid": pod.uid, "resourceVersion": pod.version},
        "status": {"phase": "Failed", "reason": "NodeLost", "message": message, "conditions": [condition]},
    }
