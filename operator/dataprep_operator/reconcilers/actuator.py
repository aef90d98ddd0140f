"""Performs actions: writes statuses, creates and changes children, records Events. Every effect is safe to repeat."""

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from dataprep_api import KIND, names
from dataprep_api.reasons import Reason
from dataprep_api.resources.status import DataPrepJobStatus
from dataprep_operator.children import job_bodies, jobs, spark_jobs, unknown_fields
from dataprep_operator.cluster.cluster import CONFIG_MAPS, DATAPREPJOBS, JOBS, PODS, SECRETS, SERVICES, Body, Cluster
from dataprep_operator.decisions import handover
from dataprep_operator.decisions.action_kinds import (
    Action,
    CreateJob,
    DeleteJob,
    DeletePod,
    DeleteSelf,
    EmitEvent,
    Enqueue,
    EnsureConfigMap,
    FailPod,
    PatchJob,
    PatchJobStatus,
    SetFinalizer,
)
from dataprep_operator.decisions.events import Note
from dataprep_operator.decisions.status.next_status import as_json
from dataprep_operator.errors import AlreadyExists, ClusterError, Conflict, NotFound, Refused, SpecUnreadable, Unavailable
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.objects import pods, times
from dataprep_operator.objects.child_jobs import QUEUE
from dataprep_operator.objects.observed import Observed
from dataprep_operator.objects.owners import job_owner, owned_by
from dataprep_operator.objects.pods import Blockage, Pod
from dataprep_operator.objects.untrusted import Raw
from dataprep_operator.reconcilers.event_recorder import EventRecorder
from dataprep_operator.reconcilers.observer import Observer

logger = logging.getLogger(__name__)

_WEBHOOK = "failed calling webhook"
"""Part of the API server's message when an admission webhook doesn't respond."""


class ForeignChild(ClusterError):
    """An object with a child's name exists, but doesn't belong to the job."""


class LeftoverChild(ForeignChild):
    """The object belongs to a deleted job with the same name, and is about to be garbage-collected."""


class Actuator:
    """Makes all changes to the cluster for DataPrepJobs."""

    def __init__(self, *, cache: Cache, cluster: Cluster, observer: Observer, clock: Callable[[], datetime]) -> None:
        self._cache = cache
        self._cluster = cluster
        self._observer = observer
        self._clock = clock
        self._events = EventRecorder(cluster=cluster, clock=clock)

    # --- the job itself -----------------------------------------------------------------------------------------------------

    async def write_status(self, observed: Observed, desired: DataPrepJobStatus) -> Observed:
        """Write the status, and return the observed state with the new resourceVersion.

        If the job has changed since it was observed, this method refreshes the cache and raises Conflict.
        """
        target = (DATAPREPJOBS, observed.key.namespace, observed.key.name)
        try:
            response = await self._cluster.apply_status(
                *target, uid=observed.uid, resource_version=observed.version, status=as_json(desired)
            )
        except (Conflict, NotFound):
            await self._observer.refresh(observed.key)
            raise
        self._cache.put_status_response(response)
        self._observer.confirm(observed.uid)
        if desired.phase != observed.status.phase:
            logger.info("%s: %s → %s", observed.key, observed.status.phase or "new", desired.phase)
        return replace(observed, version=response["metadata"]["resourceVersion"])

    async def publish_handover(self, observed: Observed, desired: DataPrepJobStatus) -> str | None:
        """Ensure that the handover ConfigMap exists. If it can't be created, return the reason.

        The data set is complete even without this ConfigMap. Raises LeftoverChild if the ConfigMap of a deleted job with the same name
        still exists. The exception keeps the job from becoming Complete.
        """
        is_new = observed.status.phase != "Succeeded"
        try:
            if not is_new:
                if await self._handover_exists(observed):
                    return None
                await self._confirm_exists(observed)
            spec = observed.spec if is_new else await self._observer.spec_of_run(observed)
            if spec is None:
                return "the spec can't be read any more"
            await self._create_or_get(CONFIG_MAPS, handover.config_map(observed, spec, desired), observed)
        except LeftoverChild as exc:
            if is_new:
                raise
            return str(exc)
        except (Refused, ForeignChild, SpecUnreadable) as exc:
            return str(exc)
        except Unavailable as exc:
            # A failing webhook must not keep the job from completing. After any other outage, creating the ConfigMap is retried before the
            # job completes.
            if _WEBHOOK not in str(exc):
                raise
            return str(exc)
        if not is_new:
            logger.info("%s: recreated the ConfigMap for training", observed.key)
        return None

    async def _handover_exists(self, observed: Observed) -> bool:
        try:
            await self._get_owned(CONFIG_MAPS, {"kind": "ConfigMap", "metadata": {"name": observed.key.name}}, observed)
        except NotFound:
            return False
        return True

    async def _confirm_exists(self, observed: Observed) -> None:
        """Refresh the cache. Raises Conflict if the job was deleted or replaced, which the watch may have missed."""
        await self._observer.refresh(observed.key)
        raw = self._cache.job(observed.key)
        if raw is None or raw["metadata"]["uid"] != observed.uid:
            raise Conflict("the job was deleted during its reconciliation")

    async def _set_finalizer(self, observed: Observed, *, on: bool) -> None:
        """Add or remove the operator's finalizer, and keep all others. Raises Conflict if the job has changed since it was observed."""
        raw = self._cache.job(observed.key)
        if raw is None or raw["metadata"]["uid"] != observed.uid:
            return
        if raw["metadata"]["resourceVersion"] != observed.version:
            raise Conflict("the job changed during its reconciliation")
        others = [finalizer for finalizer in raw["metadata"].get("finalizers") or [] if finalizer != names.FINALIZER]
        metadata = {
            "uid": observed.uid,
            "resourceVersion": observed.version,
            "finalizers": [*others, *([names.FINALIZER] if on else [])],
        }
        try:
            response = await self._cluster.patch(DATAPREPJOBS, observed.key.namespace, observed.key.name, {"metadata": metadata})
        except (Conflict, NotFound):
            await self._observer.refresh(observed.key)
            raise
        if observed.deleting and not on:
            # Removing the last finalizer has deleted the job, so the response must not enter the cache.
            self._observer.forget(observed.uid)
            logger.info("%s: finalizer removed", observed.key)
        else:
            self._cache.put(Kind.DATAPREPJOBS, response)

    async def _delete(self, observed: Observed) -> None:
        """Delete the job. Raises Conflict if the job has changed since it was observed.

        Since the observation, the user may have requested a retry or a longer TTL.
        """
        target = (DATAPREPJOBS, observed.key.namespace, observed.key.name)
        try:
            await self._cluster.delete(*target, uid=observed.uid, resource_version=observed.version)
        except Conflict:
            await self._observer.refresh(observed.key)
            raise

    # --- children -----------------------------------------------------------------------------------------------------------

    async def perform(self, action: Action, *, observed: Observed, status: DataPrepJobStatus) -> None:
        """Perform one action."""
        match action:
            case CreateJob():
                await self._create(action, observed)
            case EnsureConfigMap(config_map=config_map):
                try:
                    await self._get_owned(CONFIG_MAPS, config_map, observed)
                except NotFound:
                    await self._create_or_get(CONFIG_MAPS, config_map, observed)
            case PatchJob(child=child, spec=spec, event_message=event_message):
                metadata: Body = {"uid": child.uid}
                if "suspend" in spec:
                    metadata["annotations"] = job_bodies.suspend_annotation(suspend=spec["suspend"], resumed=child.suspended_by_others)
                body = {"metadata": metadata, "spec": spec}
                await self._patch_child(JOBS, Kind.JOBS, child.namespace, child.name, child.uid, body)
                if event_message:
                    await self.record_events(observed, status, [Note("Normal", Reason.RESCALED, event_message)])
            case PatchJobStatus(child=child, status=job_status):
                body = {"metadata": {"uid": child.uid}, "status": job_status}
                await self._patch_child(JOBS, Kind.JOBS, child.namespace, child.name, child.uid, body, "status")
            case Enqueue(child=child, labels=labels, annotations=annotations):
                body = {"metadata": {"uid": child.uid, "labels": dict(labels), "annotations": dict(annotations)}}
                await self._patch_child(JOBS, Kind.JOBS, child.namespace, child.name, child.uid, body)
                logger.info("%s: Job %s put into the queue %s", observed.key, child.name, observed.queue)
            case DeleteJob(child=child):
                await self._cluster.delete(JOBS, child.namespace, child.name, uid=child.uid)
                logger.info("%s: Job %s deleted", observed.key, child.name)
            case DeletePod(pod=pod):
                await self._cluster.delete(PODS, pod.namespace, pod.name, uid=pod.uid)
            case FailPod(pod=pod):
                logger.warning("%s: pod %s marked as failed, because its node never confirmed its end", observed.key, pod.name)
                await self._patch_child(
                    PODS, Kind.PODS, pod.namespace, pod.name, pod.uid, _failed_pod_status(pod, now=self._clock()), "status"
                )
            case SetFinalizer(on=on):
                await self._set_finalizer(observed, on=on)
            case EmitEvent(note=note):
                await self.record_events(observed, status, [note])
            case DeleteSelf():
                await self._delete(observed)

    async def _create(self, action: CreateJob, observed: Observed) -> None:
        """Create the ConfigMap, the network of a Spark cluster, and then the Job.

        If the API server refuses the creation, the job's status reports the refusal, and the creation is retried.
        """
        try:
            spec = self._observer.frozen_spec(observed.uid)
            if spec is None:
                spec = jobs.read_spec(await self._create_or_get(CONFIG_MAPS, action.config_map, observed))
                self._observer.freeze_spec(observed.uid, spec)
            # Later Jobs are created without strict validation. A job that an earlier release planned may contain unknown fields, which the
            # API server has ignored so far. These fields must not fail the job now.
            labels = action.body["metadata"]["labels"]
            is_first = (labels[names.LABEL_STEP], labels[names.LABEL_ATTEMPT]) == (QUEUE, "1")
            is_strict = is_first or labels[names.LABEL_STEP] == "plan"
            body = await self._with_network(action.body, action.network, observed) if action.network is not None else action.body
            job = await self._create_or_get(JOBS, jobs.with_spec_digest(body, spec), observed, strict=is_strict)
        except Refused as exc:
            message = unknown_fields.in_the_users_words(str(exc), action.body, observed.spec)
            self._observer.set_refusal(observed.uid, Blockage(Reason.POD_REFUSED, message, fatal=not pods.is_temporary(message)))
            raise
        except ForeignChild as exc:
            self._observer.set_refusal(observed.uid, Blockage(Reason.CONFLICTING_CHILD, str(exc)))
            raise
        self._observer.set_refusal(observed.uid, None)
        self._cache.put(Kind.JOBS, job)
        logger.info("%s: Job %s created", observed.key, job["metadata"]["name"])

    async def _with_network(self, job: Body, network: spark_jobs.Network, observed: Observed) -> Body:
        """Create the Service and a new Secret. Return the Job whose pods mount this Secret.

        The operator can't read Secrets. If the operator crashes before it creates the Job, it later creates another Secret. Both Secrets
        are deleted with the DataPrepJob.
        """
        await self._create_or_get(SERVICES, network.service, observed)
        secret = spark_jobs.secret_of(network, suffix=secrets.token_hex(8), secret=secrets.token_urlsafe(32))
        await self._cluster.create(SECRETS, observed.key.namespace, secret)
        return spark_jobs.with_secret(job, secret["metadata"]["name"])

    # Any, because resources and objects are JSON objects of the API.
    async def _create_or_get(self, resource: Any, body: Body, observed: Observed, *, strict: bool = False) -> Raw:
        """Create the object, or return the existing object with its name."""
        try:
            return await self._cluster.create(resource, observed.key.namespace, body, strict=strict)
        except AlreadyExists:
            return await self._get_owned(resource, body, observed)

    # Any, because the object is a JSON object of the API.
    async def _get_owned(self, resource: Any, body: Body, observed: Observed) -> Raw:
        """Return the existing object. Raises ForeignChild if the uid of the object's owner isn't the job's uid."""
        name = body["metadata"]["name"]
        existing = await self._cluster.get(resource, observed.key.namespace, name)
        if not owned_by(existing, uid=observed.uid):
            owner = job_owner(existing)
            if owner.get("kind") == KIND and owner.get("name") == observed.key.name:
                raise LeftoverChild(
                    f"{body['kind']} {name} belongs to a deleted DataPrepJob with the same name as this DataPrepJob; waiting until it is deleted too."
                )
            raise ForeignChild(f"{body['kind']} {name} already exists and doesn't belong to this DataPrepJob; delete or rename it.")
        return existing

    async def _patch_child(self, resource: Any, kind: Kind, namespace: str, name: str, uid: str, body: Body, subresource: str = "") -> None:
        try:
            patched = await self._cluster.patch(resource, namespace, name, body, subresource=subresource)
        except NotFound:
            # The watch may have missed the deletion.
            self._cache.drop(kind, {"metadata": {"uid": uid, "namespace": namespace, "name": name}})
            raise
        self._cache.put(kind, patched)

    # --- Events -------------------------------------------------------------------------------------------------------------

    async def record_events(self, observed: Observed, status: DataPrepJobStatus, notes: Sequence[Note]) -> None:
        """Record each note as an Event about the job."""
        await self._events.record(observed.key, uid=observed.uid, attempt=status.attempt, notes=notes)


def _failed_pod_status(pod: Pod, *, now: datetime) -> Body:
    """Return the status that marks a pod on a lost node as failed.

    After this status is written, the Job controller replaces the pod. Because of the condition DisruptionTarget, the pod's end doesn't
    count as a failure.
    """
    message = "The node never confirmed the end of this pod, so the operator marked it as failed."
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByDataprepOperator",
        "message": message,
        # Keep the time of an earlier eviction, so that the eviction is counted only once.
        "lastTransitionTime": times.text(pod.disrupted_at or now),
    }
    return {
        # The node may have come back and confirmed the pod's end. With the resourceVersion, the update fails if the pod has changed.
        "metadata": {"uid": pod.uid, "resourceVersion": pod.version},
        "status": {"phase": "Failed", "reason": "NodeLost", "message": message, "conditions": [condition]},
    }
