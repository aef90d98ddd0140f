"""Collects the observed state of a job from the cache, the frozen spec, and a few requests for data that isn't watched."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from dataprep_api import API_VERSION, KIND, canonical, names
from dataprep_api.errors import SpecError
from dataprep_api.reasons import ConditionType, Reason
from dataprep_api.resources import profile
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.resources.status import DataPrepJobStatus, FromJob
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.children import jobs, privileges, scripts, spark_jobs
from dataprep_operator.children.metadata import child_name, spec_config_map_name
from dataprep_operator.cluster.cluster import CONFIG_MAPS, DATAPREPJOBS, NAMESPACES, PODS, Cluster
from dataprep_operator.cluster.kueue import Kueue
from dataprep_operator.cluster.warning_events import WarningEvents
from dataprep_operator.decisions import conditions, queueing, steps
from dataprep_operator.errors import NotFound, OperatorError, Refused, SpecUnreadable
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.objects import pods, times, untrusted
from dataprep_operator.objects.child_jobs import CLEANUP, QUEUE_DOMAIN, QUEUE_LABEL, Child
from dataprep_operator.objects.observed import Admission, Dependency, Key, LiveProgress, Observed
from dataprep_operator.objects.owners import owned_by
from dataprep_operator.objects.pods import STUCK_CREATING_SECONDS, Blockage, Pod
from dataprep_operator.objects.untrusted import Raw
from dataprep_operator.server.progress import ProgressStore
from dataprep_operator.settings import PodDefaults

# Number of stuck pods whose Events are read. The pods of a step have the same template, so a few of them are representative.
MOST_LOOK_UPS: Final = 2
MOST_RETRY_TEXT: Final = 256
"""Maximum length of `status.handledRetry`."""
# Spec fields that may change while a job runs. The spec's other fields are frozen when the job starts.
_LIVE_FIELDS: Final = (
    "suspend",
    "activeDeadlineSeconds",
    "stepDeadlines",
    "blockedDeadlineSeconds",
    "maxEvictions",
    "ttlSecondsAfterFinished",
    "cleanup",
    "deletionPolicy",
    "retry",
)
# Parsing a spec takes an eighth of a millisecond, and a parsed spec takes 20 KB of memory.
_MAX_PARSED_SPECS: Final = 256


class StatusUnreadable(OperatorError):
    """The stored status can't be parsed, so the job isn't reconciled."""


@dataclass(frozen=True)
class _SpecResult:
    """The result of parsing a spec: the parsed spec, or else the reason why it is rejected."""

    source: str
    """The spec as JSON text."""
    spec: DataPrepJobSpec | None
    faults: str = ""
    too_new: tuple[str, ...] = ()


class Observer:
    """Observes jobs. An Observer's state is only a cache, which may be lost at any time."""

    def __init__(
        self, *, cache: Cache, cluster: Cluster, progress_store: ProgressStore, defaults: PodDefaults, kueue: Kueue | None = None
    ) -> None:
        self._cache = cache
        self._cluster = cluster
        self._progress_store = progress_store
        self._defaults = defaults
        self._kueue = kueue
        self._warning_events = WarningEvents(cluster)
        self._frozen_specs: dict[str, str] = {}
        """Frozen specs as JSON text, which takes a seventh of the memory that Python objects would take."""
        self._spec_results: dict[str, _SpecResult] = {}
        self._refusals: dict[str, Blockage] = {}
        self._confirmed_uids: set[str] = set()
        self._children: dict[str, dict[tuple[str, int], datetime | None]] = {}
        """Maps a job's uid to an inner mapping, which has a key (step and attempt) for every child that the job ever had.

        Each value of the inner mapping is the time when the child was first found missing, or None if the child exists.
        """
        self._uids: dict[Key, str] = {}
        """The uids of observed jobs."""

    async def observe(self, key: Key, *, now: datetime, fresh: bool = False) -> Observed | None:
        """Return the job and everything that belongs to it, or None if the job is gone or another controller runs it (`managedBy`).

        With `fresh`, the job is first read from the API server.
        """
        if fresh:
            await self.refresh(key)
        raw = self._cache.job(key)
        self._track_uid(key, raw["metadata"]["uid"] if raw is not None else None)
        if raw is None or untrusted.mapping(raw.get("spec")).get("managedBy") not in (None, names.CONTROLLER):
            return None
        status = _status(raw)
        observed = await self._with_spec(_from_raw(key, raw, status))
        children = self._cache.children_of(observed.key.namespace, observed.uid)
        missing_since = self._missing_since(observed.uid, children, now=now)
        observed = replace(observed, missing_since=missing_since, kueue=self._kueue is not None)
        if observed.deleting and observed.has_finalizer:
            return await self._observe_removal(observed, children, now=now)
        rival = await self._rival(key) if not observed.finished or observed.restart_wanted else None
        observed = replace(
            observed,
            children=children,
            rival=rival,
            dependencies=self._dependencies(observed),
            output_remover=self._cache.removing(key) if _not_started(observed) else None,
            wait_cycle=self._cache.wait_cycle(key) if _not_started(observed) else (),
            refusal=self._refusals.get(observed.uid),
        )
        observed = self._with_pods(observed)
        if any(pod.awaits_finalizer(now) for own_pods in observed.pods.values() for pod in own_pods):
            observed = replace(observed, namespace_terminating=await self._namespace_terminating(key.namespace))
        if not observed.finished:
            observed = await self._with_final_pods(observed)
            observed = replace(
                observed, start_blockage=await self._start_blockage(observed, now=now), admission=await self._admission(observed, now=now)
            )
            observed = replace(observed, live_progress=self._live_progress(observed, now=now))
        return observed

    async def _observe_removal(self, observed: Observed, children: tuple[Child, ...], *, now: datetime) -> Observed:
        """Return the state of a deleted job that waits for the removal of its output.

        Pods are listed from the API server, because the cache can't find pods whose Job is gone.
        """
        labels = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY},{names.LABEL_JOB_UID}={observed.uid}"
        listed_pods = [pods.read(raw) for raw in await self._cluster.list(PODS, observed.key.namespace, labels=labels)]
        observed = replace(
            observed,
            children=children,
            pods={child.uid: tuple(pod for pod in listed_pods if pod.owner_uid == child.uid) for child in children},
            writing_pods=tuple(pod for pod in listed_pods if not pod.finished and _may_write(observed, pod)),
            namespace_terminating=await self._namespace_terminating(observed.key.namespace),
            refusal=self._refusals.get(observed.uid),
        )
        cleanup = observed.child(CLEANUP, 1)
        blockage = await self._start_blockage_of(observed, cleanup, now=now) if cleanup is not None else None
        return replace(
            observed, output_user=self._cache.output_user_of(observed.key, runs=observed.written_run_ids), start_blockage=blockage
        )

    def set_refusal(self, uid: str, refusal: Blockage | None) -> None:
        """Remember the API server's refusal to create a child, or forget the earlier refusal if `refusal` is None."""
        if refusal is None:
            self._refusals.pop(uid, None)
        else:
            self._refusals[uid] = refusal

    # Any, because a spec is a JSON object of the API.
    def freeze_spec(self, uid: str, spec: Mapping[str, Any]) -> None:
        """Remember the spec in the job's immutable ConfigMap."""
        self._frozen_specs[uid] = json.dumps(spec, separators=(",", ":"))

    def confirm(self, uid: str) -> None:
        """Mark the job as read from the API server.

        Before that, the cached job may lack the previous leader's changes.
        """
        self._confirmed_uids.add(uid)

    def is_confirmed(self, uid: str) -> bool:
        """Return whether the job has been read from the API server."""
        return uid in self._confirmed_uids

    # Any, because a spec is a JSON object of the API.
    def frozen_spec(self, uid: str) -> Mapping[str, Any] | None:
        """Return the spec in the job's ConfigMap, if known. The run uses this spec even if the job's spec was edited later."""
        text = self._frozen_specs.get(uid)
        return json.loads(text) if text is not None else None

    def _track_uid(self, key: Key, uid: str | None) -> None:
        """Forget the job that had this key before, if that job was deleted or replaced."""
        old_uid = self._uids.pop(key, None)
        if old_uid is not None and old_uid != uid:
            self.forget(old_uid)
            self._confirmed_uids.discard(old_uid)
        if uid is not None:
            self._uids[key] = uid

    def forget(self, uid: str) -> None:
        """Forget a job that is deleted or finished."""
        for memory in (self._frozen_specs, self._spec_results, self._refusals, self._children):
            memory.pop(uid, None)
        self._progress_store.forget(uid)

    # --- the spec -------------------------------------------------------------------------------------------------------

    async def _with_spec(self, observed: Observed) -> Observed:
        in_use = not observed.finished or observed.restart_wanted or (observed.deleting and observed.has_finalizer)
        live_spec = observed.raw_spec
        frozen_spec = await self._frozen_spec(observed, live_spec) if observed.status.start_time and in_use else None
        missing_profile = None
        spec: Mapping[str, Any]
        if frozen_spec is not None:
            spec = _overlay(frozen_spec, live_spec)
        else:
            spec, missing_profile = self._merge_profile(observed.key.namespace, live_spec) if in_use else (live_spec, None)
        source = json.dumps(spec, sort_keys=True)
        result = self._spec_results.pop(observed.uid, None)
        if result is None or result.source != source:
            result = _parse(observed.key, spec, source=source, defaults=self._defaults)
        self._spec_results[observed.uid] = result
        if len(self._spec_results) > _MAX_PARSED_SPECS:
            self._spec_results.pop(next(iter(self._spec_results)))
        return replace(
            observed,
            spec=result.spec,
            faults=result.faults,
            too_new=result.too_new,
            raw_spec=frozen_spec if frozen_spec is not None else spec,
            profile=spec.get("profile") if missing_profile is None else None,
            profile_missing=missing_profile,
        )

    # Any, because specs are JSON objects of the API.
    def _merge_profile(self, namespace: str, spec: Mapping[str, Any]) -> tuple[Mapping[str, Any], str | None]:
        """Return the spec with its profile's defaults. If the profile is missing, return the unchanged spec and the profile's name."""
        name = spec.get("profile")
        raw_profile = self._cache.profile(namespace, name or profile.DEFAULT)
        if raw_profile is None:
            return spec, name
        return profile.with_defaults(spec, untrusted.mapping(raw_profile.get("spec")), name=raw_profile["metadata"]["name"]), None

    async def _frozen_spec(self, observed: Observed, live_spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if observed.uid not in self._frozen_specs:
            unedited_spec = self._unedited_spec(observed, live_spec)
            if unedited_spec is not None:
                self.freeze_spec(observed.uid, unedited_spec)
                return unedited_spec
            try:
                config_map = await self._cluster.get(CONFIG_MAPS, observed.key.namespace, spec_config_map_name(observed))
            except NotFound:
                return None
            if not owned_by(config_map, uid=observed.uid):
                return None
            self.freeze_spec(observed.uid, jobs.read_spec(config_map))
        return self.frozen_spec(observed.uid)

    async def spec_of_run(self, observed: Observed) -> DataPrepJobSpec | None:
        """Return the spec that a finished job ran with. The live spec may have been edited after the job started. Raises SpecUnreadable."""
        frozen_spec = await self._frozen_spec(observed, observed.raw_spec)
        spec = _parse(observed.key, observed.raw_spec if frozen_spec is None else frozen_spec, source="", defaults=self._defaults).spec
        output_uri = observed.status.output.uri if observed.status.output is not None else None
        if frozen_spec is None and spec is not None and spec.output.uri != output_uri:
            raise SpecUnreadable("the spec that the run used is gone, and the job's current spec has another output")
        return spec

    def _unedited_spec(self, observed: Observed, live_spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the live spec if the children's digests prove that it is unchanged.

        Comparing the digests saves a new leader from reading every ConfigMap.
        """
        digests = {child.spec_sha256 for child in self._cache.children_of(observed.key.namespace, observed.uid)}
        if len(digests) != 1 or None in digests:
            return None
        spec = jobs.frozen_form(self._merge_profile(observed.key.namespace, live_spec)[0], observed.status.from_job)
        return spec if canonical.sha256(spec) in digests else None

    def _missing_since(self, uid: str, children: tuple[Child, ...], *, now: datetime) -> Mapping[tuple[str, int], datetime]:
        present = {(child.step, child.attempt): None for child in children}
        missing = {child_id: since or now for child_id, since in self._children.get(uid, {}).items() if child_id not in present}
        if children or missing:
            self._children[uid] = {**present, **missing}
        return missing

    def _dependencies(self, observed: Observed) -> tuple[Dependency, ...]:
        """Return the jobs that this job waits for. A started job no longer waits for other jobs."""
        if observed.spec is None or not _not_started(observed):
            return ()
        return tuple(_dependency(name, self._cache.job(Key(observed.key.namespace, name))) for name in observed.spec.awaited_jobs)

    def _live_progress(self, observed: Observed, *, now: datetime) -> LiveProgress:
        attempt = observed.status.attempt
        if observed.status.step == "Plan":
            return self._progress_store.planning(observed.uid, attempt=attempt, now=now)
        return self._progress_store.live(observed.uid, finished=self._cache.finished_tasks(observed.children), attempt=attempt, now=now)

    # --- lookups --------------------------------------------------------------------------------------------------------

    async def _rival(self, key: Key) -> Key | None:
        """Return the job that has a better claim to the output, if any.

        The job with the better claim is first read again, in case the watch missed that job's end.
        """
        rival = self._cache.rival_of(key)
        if rival is None:
            return None
        await self.refresh(rival)
        return self._cache.rival_of(key)

    async def refresh(self, key: Key) -> None:
        """Update the cache with the job from the API server."""
        cached = self._cache.job(key)
        try:
            raw = await self._cluster.get(DATAPREPJOBS, key.namespace, key.name)
            self._cache.put(Kind.DATAPREPJOBS, raw)
            self.confirm(raw["metadata"]["uid"])
        except NotFound:
            # Drop only the job that was cached before the request, because the watch may since have delivered a new job with the same name.
            if cached is not None:
                self._cache.drop(Kind.DATAPREPJOBS, cached)

    def _with_pods(self, observed: Observed) -> Observed:
        """Return the observed state with the cached pods of all children."""
        return replace(
            observed,
            pods={child.uid: self._cache.pods_of(child.namespace, child.uid) for child in observed.children},
            succeeded_workers={child.uid: self._cache.succeeded_workers_of(child.namespace, child.uid) for child in observed.children},
        )

    async def _with_final_pods(self, observed: Observed) -> Observed:
        """List the step's pods again if the step has ended but no cached pod has its result.

        The watch of Jobs may be ahead of the watch of pods.
        """
        child = observed.current_child(observed.status)
        if child is None or not steps.lacks_result(observed, child):
            return observed
        for raw in await self._cluster.list(
            PODS, observed.key.namespace, labels=f"{names.LABEL_JOB_UID}={observed.uid},{names.LABEL_STEP}={child.step}"
        ):
            self._cache.put(Kind.PODS, raw)
        return self._with_pods(observed)

    async def _namespace_terminating(self, namespace: str) -> bool:
        """Return whether the namespace is terminating.

        A terminating namespace isn't deleted before its pods are gone. However, a Job with a back-off limit per index keeps a failed pod
        until the Job has created the pod's replacement. Creating pods is forbidden in a terminating namespace, so the failed pod is removed
        only if its Job is deleted.
        """
        try:
            raw = await self._cluster.get(NAMESPACES, namespace, "")
        except (NotFound, Refused):  # older installations lack the permission
            return False
        return (raw.get("status") or {}).get("phase") == "Terminating"

    async def _start_blockage(self, observed: Observed, *, now: datetime) -> Blockage | None:
        """Return why pods can't be created or started, according to the Events of the Job and its pods."""
        child = observed.current_child(observed.status)
        return await self._start_blockage_of(observed, child, now=now) if child is not None else None

    async def _start_blockage_of(self, observed: Observed, child: Child, *, now: datetime) -> Blockage | None:
        if child.finished or child.suspended:
            return None
        own_pods = observed.pods_of(child)
        if not observed.has_pods(child):
            return await self._pod_creation_blockage(child, now=now)
        if observed.has_started(child):
            return None
        for pod in [pod for pod in own_pods if pod.stuck_creating(now)][:MOST_LOOK_UPS]:
            message = pods.missing_mount(await self._warning_events.about(pod.namespace, pod.uid, now=now))
            if message is not None:
                # If the operator's ConfigMap is missing, the operator recreates it and the kubelet retries, so the job needn't fail.
                return Blockage(Reason.CONFIG_MISSING, message, fatal=spec_config_map_name(observed) not in message)
        return None

    async def _admission(self, observed: Observed, *, now: datetime) -> Admission | None:
        """Return the queued Job's state in Kueue, or None if Kueue has already admitted the Job or isn't used."""
        child = queueing.queued_job(observed, observed.status.attempt)
        if self._kueue is None or observed.queue is None or child is None or child.finished or child.deleting:
            return None
        condition = conditions.find(observed.status.conditions, ConditionType.QUOTA_RESERVED)
        if not child.suspended and condition is not None and condition.status == "True":
            return None
        return await self._kueue.admission(child, queue=observed.queue, now=now)

    async def _pod_creation_blockage(self, child: Child, *, now: datetime) -> Blockage | None:
        waited_seconds = times.seconds_between(child.started_at or child.created, now)
        if waited_seconds is None or waited_seconds < STUCK_CREATING_SECONDS:
            return None
        message = pods.pod_creation_error(await self._warning_events.about(child.namespace, child.uid, now=now))
        return None if message is None else Blockage(Reason.POD_REFUSED, message, fatal=not pods.is_temporary(message))


def _may_write(observed: Observed, pod: Pod) -> bool:
    """Return whether a pod of a deleted job may still write. Only names are compared, because the pod's Job may be gone."""
    name = pod.owner_name or pod.name
    return name.startswith(f"{observed.child_prefix}-") and not name.startswith(child_name(observed, CLEANUP, 1))


def _not_started(observed: Observed) -> bool:
    return observed.status.start_time is None and (not observed.finished or observed.restart_wanted)


def _dependency(name: str, raw: Raw | None) -> Dependency:
    if raw is None:
        return Dependency(name, None)
    status = untrusted.mapping(raw.get("status"))
    phase, output = untrusted.text(status.get("phase")) or "Pending", untrusted.mapping(status.get("output"))
    if phase != "Succeeded":
        return Dependency(name, phase)
    try:
        return Dependency(name, phase, FromJob(uri=output["uri"], digest=output.get("digest")))
    except (KeyError, ValidationError):
        return Dependency(name, "Succeeded, but doesn't report its output")


def _status(raw: Raw) -> DataPrepJobStatus:
    try:
        # Ignore unknown fields, which a newer operator may have written before it was rolled back.
        return DataPrepJobStatus.model_validate(raw.get("status") or {}, extra="ignore")
    except ValidationError as exc:
        raise StatusUnreadable(f"the stored status can't be read: {exc.errors()[0]['loc']}: {exc.errors()[0]['msg']}") from exc


def _from_raw(key: Key, raw: Raw, status: DataPrepJobStatus) -> Observed:
    metadata = raw["metadata"]
    labels, annotations = untrusted.mapping(metadata.get("labels")), untrusted.mapping(metadata.get("annotations"))
    spec, finalizers = untrusted.mapping(raw.get("spec")), metadata.get("finalizers")
    return Observed(
        key=key,
        uid=metadata["uid"],
        version=metadata["resourceVersion"],
        generation=untrusted.number(metadata.get("generation"), 1),
        status=status,
        spec=None,
        raw_spec=spec,
        spec_digest=_digest(spec) if status.start_time is None else "",
        deleting="deletionTimestamp" in metadata,
        has_finalizer=isinstance(finalizers, list) and names.FINALIZER in finalizers,
        deletes_output=spec.get("deletionPolicy") == "Delete",
        retry=_shorten_retry(annotations.get(names.ANNOTATION_RETRY)),
        queue=untrusted.text(labels.get(QUEUE_LABEL)) or None,
        queue_labels=_queue_marks(labels) if labels.get(QUEUE_LABEL) else {},
        queue_annotations=_queue_marks(annotations) if labels.get(QUEUE_LABEL) else {},
    )


def _shorten_retry(retry: Any) -> str | None:  # Any, because anybody can set the annotation
    """Return the annotation's value, shortened to fit the status.

    A long value is truncated, and a digest is appended so that the value stays unique.
    """
    if not isinstance(retry, str) or len(retry) <= MOST_RETRY_TEXT:
        return retry if isinstance(retry, str) else None
    return f"{retry[:128]} {hashlib.sha256(retry.encode()).hexdigest()}"


def _queue_marks(marks: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in marks.items() if key.partition("/")[0] == QUEUE_DOMAIN}


def _digest(spec: Mapping[str, Any]) -> str:
    """Return a digest of the fields that can't change after the start."""
    workers = {key: value for key, value in untrusted.mapping(spec.get("workers")).items() if key != "parallelism"}
    frozen_fields = {key: value for key, value in spec.items() if key not in _LIVE_FIELDS} | {"workers": workers}
    return canonical.sha256(frozen_fields)


def _overlay(frozen_spec: Mapping[str, Any], live_spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the frozen spec with the live spec's values for the fields that may change."""
    spec = {key: value for key, value in frozen_spec.items() if key not in _LIVE_FIELDS}
    spec |= {key: live_spec[key] for key in _LIVE_FIELDS if key in live_spec}
    parallelism = untrusted.mapping(live_spec.get("workers")).get("parallelism")
    return spec if parallelism is None else spec | {"workers": {**untrusted.mapping(spec.get("workers")), "parallelism": parallelism}}


def _parse(key: Key, spec: Mapping[str, Any], *, source: str, defaults: PodDefaults) -> _SpecResult:
    document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": key.name}, "spec": dict(spec)}
    try:
        parsed_spec = DataPrepJob.parse(document).spec
    except SpecError as exc:
        if all(fault.unknown for fault in exc.faults):
            # The API server prunes fields that the CRD lacks. So if a stored field is unknown to this operator, the CRD is newer than the
            # operator.
            return _SpecResult(source, None, too_new=tuple(fault.path for fault in exc.faults))
        return _SpecResult(source, None, str(exc))
    privilege_fault = privileges.fault(parsed_spec, defaults)
    if privilege_fault is not None:
        return _SpecResult(source, None, privilege_fault)
    framework_fault = scripts.framework_fault(parsed_spec, defaults)
    if framework_fault is not None:
        return _SpecResult(source, None, framework_fault)
    spark_fault = spark_jobs.fault(parsed_spec, defaults)
    if spark_fault is not None:
        return _SpecResult(source, None, spark_fault)
    return _SpecResult(source, parsed_spec)
