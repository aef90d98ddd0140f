"""An indexed cache of the watched objects: DataPrepJobs, DataPrepCronJobs, DataPrepProfiles, and the operator's Jobs and pods."""

import json
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeVar, get_args

from dataprep_api import CRON_KIND, KIND, names
from dataprep_api.reasons import Reason
from dataprep_api.resources import profile
from dataprep_api.resources.status import TERMINAL_PHASES, Phase
from dataprep_operator.informer.job_pods import JobPods, merge_tasks
from dataprep_operator.objects import job_steps, outputs, pods, times, untrusted
from dataprep_operator.objects.child_jobs import Child, read
from dataprep_operator.objects.finished_tasks import FinishedTasks, SucceededWorker
from dataprep_operator.objects.observed import Key
from dataprep_operator.objects.owners import controller, job_owner
from dataprep_operator.objects.pods import Pod
from dataprep_operator.objects.untrusted import Raw

K = TypeVar("K")
_Owner = tuple[str, str]
"""The owner's namespace and uid. Owner references to an object in another namespace are ignored."""
V = TypeVar("V")

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_DROPPED_VERSIONS: Final = 10_000
"""Number of deleted objects whose versions are remembered. Fewer objects than this are deleted while one request is in flight."""


class Kind(StrEnum):
    """The watched kinds. The values are the plural names of the resources."""

    DATAPREPJOBS = "dataprepjobs"
    DATAPREPCRONJOBS = "dataprepcronjobs"
    DATAPREPPROFILES = "dataprepprofiles"
    JOBS = "jobs"
    PODS = "pods"


@dataclass(frozen=True, slots=True)
class _Entry:
    """A DataPrepJob and its indexed fields.

    The job is kept as JSON text, which takes a fifth of the memory that Python objects would take.
    """

    text: str
    uid: str
    version: int
    phase: str | None
    has_started: bool
    is_deleted: bool
    is_being_removed: bool
    """Whether the job was deleted but still exists, because the operator's finalizer keeps it until the output is removed."""
    records_per_second: float
    output: str | None
    """The location that the job writes to (see `outputs.py`)."""
    dependencies: tuple[Key, ...]
    cron_uid: str | None
    """The uid of the DataPrepCronJob that created the job."""

    @property
    def is_unfinished(self) -> bool:
        return self.phase not in TERMINAL_PHASES and not self.is_deleted

    def raw(self) -> Raw:
        """Return the object without the fields that `_slim` drops."""
        raw: Raw = json.loads(self.text)
        return raw


class Cache:
    """The newest known version of every object. Not thread-safe."""

    def __init__(self) -> None:
        self._jobs: dict[Key, _Entry] = {}
        self._keys_by_uid: dict[str, Key] = {}
        self._children: dict[str, Child] = {}
        self._children_of: defaultdict[_Owner, set[str]] = defaultdict(set)
        self._pods: dict[str, Pod | SucceededWorker] = {}
        self._pods_of: defaultdict[_Owner, JobPods] = defaultdict(JobPods)
        self._pods_by_name: dict[tuple[str, str], str] = {}
        self._versions: dict[str, int] = {}
        self._written_versions: dict[str, int] = {}
        """The versions of jobs after the operator's own status writes, keyed by uid."""
        self._dropped_versions: OrderedDict[str, int] = OrderedDict()
        """Versions of recently deleted objects, keyed by uid.

        If a response about an object arrives after the object's deletion event, the remembered version shows that the response is outdated.
        """
        self._outputs: defaultdict[str, set[Key]] = defaultdict(set)
        self._waiters: defaultdict[Key, set[Key]] = defaultdict(set)
        """Maps a job to the jobs that wait for it. A job that has started no longer waits."""
        self._crons: dict[Key, Raw] = {}
        self._profiles: dict[str, Raw] = {}
        """The DataPrepProfiles by uid. There is no other index, because there are few profiles."""
        self._jobs_of_cron: defaultdict[_Owner, set[Key]] = defaultdict(set)
        """Jobs, keyed by the uid of their DataPrepCronJob."""

    # --- updates ------------------------------------------------------------------------------------------------------

    def put(self, kind: Kind, raw: Raw) -> bool:
        """Store an object if the cache has no newer version of it. Return whether the object's owner must be reconciled."""
        uid, version = raw["metadata"]["uid"], _version(raw)
        if version and max(self._versions.get(uid, 0), self._dropped_versions.get(uid, 0)) > version:
            return False
        self._versions[uid] = version
        match kind:
            case Kind.DATAPREPJOBS:
                self._put_job(raw)
                return not version or self._written_versions.get(uid) != version
            case Kind.DATAPREPCRONJOBS:
                self._put_cron(_slim(raw))
            case Kind.DATAPREPPROFILES:
                self._put_profile(_slim(raw))
            case Kind.JOBS:
                return self._put_child(raw)
            case Kind.PODS:
                return self._put_pod(raw)
        return True

    def put_status_response(self, raw: Raw) -> None:
        """Store the response to a status update, so that the watch event for this update doesn't cause another reconcile."""
        self._written_versions[raw["metadata"]["uid"]] = _version(raw)
        self.put(Kind.DATAPREPJOBS, raw)

    def drop(self, kind: Kind, raw: Raw) -> Key | None:
        """Forget a deleted object. Return the key to reconcile."""
        key, uid = self.key_of(kind, raw), raw["metadata"]["uid"]
        self._dropped_versions[uid] = max(_version(raw), self._versions.get(uid, 0), self._dropped_versions.get(uid, 0))
        self._drop(kind, uid)
        if len(self._dropped_versions) > _MAX_DROPPED_VERSIONS:
            self._dropped_versions.popitem(last=False)
        return key

    def prune(self, kind: Kind, *, namespace: str | None, listed_uids: Iterable[str], known_uids: Iterable[str]) -> list[Key]:
        """Forget the objects that were known before a new listing and are missing from it. Return the keys to reconcile."""
        deleted_uids = set(known_uids) - set(listed_uids)
        keys = []
        for uid in deleted_uids & set(self.uids(kind, namespace=namespace)):
            key = self._key_of_uid(kind, uid)
            raw = self._jobs[key].raw() if kind is Kind.DATAPREPJOBS and key in self._jobs else None
            self._drop(kind, uid)
            others = self.dependents(raw) if raw is not None else []
            if key is not None:
                keys += [key, *others]
        return keys

    # --- lookups --------------------------------------------------------------------------------------------------------

    def job(self, key: Key) -> Raw | None:
        """Return the DataPrepJob with this key, if it exists."""
        entry = self._jobs.get(key)
        return entry.raw() if entry is not None else None

    def keys(self) -> list[Key]:
        """Return the keys of all DataPrepJobs and DataPrepCronJobs."""
        return [*self._jobs, *self._crons]

    def keys_in(self, namespace: str | None) -> list[Key]:
        """Return the keys of all DataPrepJobs and DataPrepCronJobs in one namespace."""
        return [key for key in (*self._jobs, *self._crons) if key.namespace == namespace]

    def knows(self, key: Key) -> bool:
        """Return whether the DataPrepJob or DataPrepCronJob exists."""
        return key in self._jobs or key in self._crons

    def active_keys(self) -> list[Key]:
        """Return the keys of unfinished jobs, deleted jobs and all DataPrepCronJobs. There may be thousands of finished jobs."""
        return [*(key for key, entry in self._jobs.items() if entry.is_unfinished or entry.is_deleted), *self._crons]

    def is_new(self, key: Key) -> bool:
        """Return whether the job has never been reconciled. Such a job has priority, because its user waits for the plan Job."""
        entry = self._jobs.get(key)
        return entry is not None and not entry.phase

    def has_succeeded(self, key: Key) -> bool:
        """Return whether the job has succeeded.

        Succeeded jobs have low priority: there may be thousands, and only their ConfigMaps are checked.
        """
        entry = self._jobs.get(key)
        return entry is not None and entry.phase == "Succeeded" and not entry.is_deleted

    def cron(self, key: Key) -> Raw | None:
        """Return the DataPrepCronJob with this key, if it exists."""
        return self._crons.get(key)

    def profile(self, namespace: str, name: str) -> Raw | None:
        """Return the DataPrepProfile with this name. If the profile was just deleted and created again, the newer profile is returned."""
        matches = [raw for raw in self._profiles.values() if (raw["metadata"]["namespace"], raw["metadata"]["name"]) == (namespace, name)]
        return max(matches, key=_version, default=None)

    def not_started(self, namespace: str) -> list[Key]:
        """Return the jobs of a namespace that have not started. Only jobs that have not started depend on the namespace's profiles."""
        return [key for key, entry in self._jobs.items() if key.namespace == namespace and not entry.has_started]

    def jobs_of_cron(self, namespace: str, uid: str) -> list[Raw]:
        """Return the DataPrepJobs that the DataPrepCronJob with this uid controls."""
        return [self._jobs[key].raw() for key in sorted(self._jobs_of_cron.get((namespace, uid), ()))]

    def dependents(self, job: Raw) -> list[Key]:
        """Return the other objects to reconcile when a DataPrepJob changes.

        These are its DataPrepCronJob, the jobs that depend on it, and the jobs that wait to write or remove the same output.
        """
        metadata, owner = job["metadata"], controller(job)
        crons = [Key(metadata["namespace"], untrusted.text(owner.get("name")), CRON_KIND)] if owner.get("kind") == CRON_KIND else []
        key, entry = Key(metadata["namespace"], metadata["name"]), self._jobs.get(Key(metadata["namespace"], metadata["name"]))
        output = self._place_of(job)
        others = sorted(self._outputs.get(output, set()) - {key}) if output is not None else []
        # Unfinished jobs with the same output wait for the end of this job. Deleted jobs that are still removing the output are reconciled
        # after every change of this job.
        is_over = entry is None or not entry.is_unfinished
        waiting_for_output = [
            other for other in others if self._jobs[other].is_being_removed or (is_over and self._jobs[other].is_unfinished)
        ]
        return [*self.waiters(key), *waiting_for_output, *crons]

    def phases(self) -> dict[str, int]:
        """Return the number of jobs in each phase."""
        counts: dict[str, int] = dict.fromkeys(get_args(Phase), 0)
        for entry in self._jobs.values():
            phase = entry.phase or "Pending"
            counts[phase] = counts.get(phase, 0) + 1
        return counts

    def records_per_second(self) -> float:
        """Return the sum of the rates of all running jobs, according to their statuses."""
        return sum(entry.records_per_second for entry in self._jobs.values() if entry.phase == "Running")

    def children_of(self, namespace: str, uid: str) -> tuple[Child, ...]:
        """Return the Jobs that the DataPrepJob controls, oldest attempt first."""
        matches = [self._children[child_uid] for child_uid in self._children_of.get((namespace, uid), ())]
        return tuple(sorted(matches, key=lambda child: (child.attempt, child.name)))

    def pods_of(self, namespace: str, job_uid: str) -> tuple[Pod, ...]:
        """Return the pods that the Job controls, sorted by name. The pods' labels are ignored, because anybody can set them.

        Worker pods that have succeeded are included only if they were disrupted or deleted.
        """
        job_pods = self._pods_of.get((namespace, job_uid))
        return job_pods.whole() if job_pods is not None else ()

    def succeeded_workers_of(self, namespace: str, job_uid: str) -> tuple[SucceededWorker, ...]:
        """Return the succeeded pods of an Indexed Job, in any order."""
        job_pods = self._pods_of.get((namespace, job_uid))
        return job_pods.succeeded() if job_pods is not None else ()

    def finished_tasks(self, children: Iterable[Child]) -> FinishedTasks:
        """Return the tasks that the convert Jobs among these Jobs have finished.

        If several Jobs have finished the same task, the last Job's result counts.
        """
        found = [self._pods_of.get((child.namespace, child.uid)) for child in children if child.step == "convert"]
        return merge_tasks([job_pods for job_pods in found if job_pods is not None])

    def pod(self, namespace: str, name: str) -> Pod | SucceededWorker | None:
        """Return the pod with this name, if it exists."""
        uid = self._pods_by_name.get((namespace, name))
        return self._pods.get(uid) if uid else None

    def child_of(self, pod: Pod | SucceededWorker) -> Child | None:
        """Return the child Job that controls the pod, if it exists."""
        return self._child(pod.namespace, pod.owner_uid)

    def uids(self, kind: Kind, *, namespace: str | None) -> list[str]:
        """Return the uids of all cached objects of a kind. If `namespace` is None, all namespaces are included."""
        match kind:
            case Kind.DATAPREPJOBS:
                return [uid for uid, key in self._keys_by_uid.items() if key.kind == KIND and namespace in (None, key.namespace)]
            case Kind.DATAPREPCRONJOBS:
                return [uid for uid, key in self._keys_by_uid.items() if key.kind == CRON_KIND and namespace in (None, key.namespace)]
            case Kind.DATAPREPPROFILES:
                return [uid for uid, raw in self._profiles.items() if namespace in (None, raw["metadata"]["namespace"])]
            case Kind.JOBS:
                return [uid for uid, child in self._children.items() if namespace in (None, child.namespace)]
            case Kind.PODS:
                return [uid for uid, pod in self._pods.items() if namespace in (None, pod.namespace)]

    def key_of(self, kind: Kind, raw: Raw) -> Key | None:
        """Return the key to reconcile when an object changes: the object's own key, or the key of its DataPrepJob."""
        metadata = raw["metadata"]
        if kind is Kind.DATAPREPCRONJOBS:
            return Key(metadata["namespace"], metadata["name"], CRON_KIND)
        if kind is Kind.DATAPREPPROFILES:
            return None
        if kind is Kind.DATAPREPJOBS:
            return Key(metadata["namespace"], metadata["name"])
        if kind is Kind.JOBS:
            owner = job_owner(raw)
            return Key(metadata["namespace"], untrusted.text(owner.get("name"))) if owner else None
        child = self._child(metadata["namespace"], untrusted.text(controller(raw).get("uid")))
        if child is not None:
            return Key(child.namespace, child.owner_name)
        # If the pod's Job is gone, the pod's label identifies the DataPrepJob, which must be in the same namespace.
        key = self._keys_by_uid.get(untrusted.text(untrusted.mapping(metadata.get("labels")).get(names.LABEL_JOB_UID)))
        return key if key is not None and key.namespace == metadata["namespace"] else None

    def rival_of(self, key: Key) -> Key | None:
        """Return the job with the best claim to the output of `key`, or None if `key` itself has the best claim.

        Only unfinished jobs are compared. Jobs that wait for `key` aren't considered, because they start later.
        """
        own_entry = self._jobs.get(key)
        others = [
            (other, self._jobs[other])
            for other in self._keys_with_same_output(key)
            if self._jobs[other].is_unfinished and not self._depends_on(other, key)
        ]
        if own_entry is None or not others:
            return None
        best_claim, rival = min((claim(entry.raw()), other) for other, entry in others)
        return rival if best_claim < claim(own_entry.raw()) else None

    def removing(self, key: Key) -> Key | None:
        """Return a deleted job that is still removing the same output, if any."""
        return next((other for other in sorted(self._keys_with_same_output(key)) if self._jobs[other].is_being_removed), None)

    def output_user_of(self, key: Key, *, runs: Iterable[str]) -> Key | None:
        """Return another job with the same output that still writes to it, or that has finished with the data set of one of `runs`."""
        return next((other for other in sorted(self._keys_with_same_output(key)) if _uses_output(self._jobs[other].raw(), set(runs))), None)

    def waiters(self, key: Key) -> list[Key]:
        """Return the jobs that wait for the job `key`, which might not exist."""
        return sorted(self._waiters.get(key, ()))

    def wait_cycle(self, key: Key) -> tuple[Key, ...]:
        """Return a cycle of jobs from `key` back to itself, or an empty tuple if there is none.

        Each job in the cycle waits for the next job, because its spec names the next job or because both have the same output.
        """
        came_from: dict[Key, Key] = {}
        pending = [key]
        while pending:
            current = pending.pop()
            for next_key in self._blockers_of(current):
                if next_key == key:
                    path = [current]
                    while path[-1] != key:
                        path.append(came_from[path[-1]])
                    return (*reversed(path), key)
                if next_key not in came_from:
                    came_from[next_key] = current
                    pending.append(next_key)
        return ()

    # --- internals --------------------------------------------------------------------------------------------------------

    def _child(self, namespace: str, uid: str) -> Child | None:
        child = self._children.get(uid)
        return child if child is not None and child.namespace == namespace else None

    def _keys_with_same_output(self, key: Key) -> set[Key]:
        """Return the other jobs with the same output."""
        own_entry = self._jobs.get(key)
        return self._outputs.get(own_entry.output, set()) - {key} if own_entry is not None and own_entry.output is not None else set()

    def _blockers_of(self, key: Key) -> list[Key]:
        entry = self._jobs.get(key)
        if entry is None:
            return []
        rival = self.rival_of(key) if entry.is_unfinished else None
        return [*entry.dependencies, *([rival] if rival is not None else [])]

    def _depends_on(self, key: Key, other: Key) -> bool:
        """Return whether `key` waits for `other`, directly or through other jobs."""
        seen, pending = {key}, [key]
        while pending:
            entry = self._jobs.get(pending.pop())
            new_keys = set(entry.dependencies) - seen if entry is not None else set()
            if other in new_keys:
                return True
            seen |= new_keys
            pending += new_keys
        return False

    def _place_of(self, job: Raw) -> str | None:
        spec = untrusted.mapping(job.get("spec"))
        return outputs.place_of(job, self.profile(job["metadata"]["namespace"], spec.get("profile") or profile.DEFAULT))

    def _put_profile(self, raw: Raw) -> None:
        before = self._profiles.get(raw["metadata"]["uid"])
        self._profiles[raw["metadata"]["uid"]] = raw
        if before is None or before.get("spec") != raw.get("spec"):
            self._update_outputs(raw["metadata"]["namespace"])

    def _update_outputs(self, namespace: str) -> None:
        """Recompute the output locations of a namespace's jobs, because a profile may set the endpoints of their stores."""
        for key, entry in [item for item in self._jobs.items() if item[0].namespace == namespace]:
            self._index(key, replace(entry, output=self._place_of(entry.raw())))

    def _put_job(self, raw: Raw) -> None:
        key, entry = Key(raw["metadata"]["namespace"], raw["metadata"]["name"]), _entry(raw, output=self._place_of(raw))
        before = self._jobs.get(key)
        if before is not None and before.uid != entry.uid:
            if before.version > entry.version:
                return
            self._drop(Kind.DATAPREPJOBS, before.uid)
        self._index(key, entry)
        self._keys_by_uid[entry.uid] = key

    def _put_cron(self, raw: Raw) -> None:
        key = Key(raw["metadata"]["namespace"], raw["metadata"]["name"], CRON_KIND)
        before = self._crons.get(key)
        if before is not None and before["metadata"]["uid"] != raw["metadata"]["uid"]:
            if _version(before) > _version(raw):
                return
            self._drop(Kind.DATAPREPCRONJOBS, before["metadata"]["uid"])
        self._crons[key] = raw
        self._keys_by_uid[raw["metadata"]["uid"]] = key

    def _put_child(self, raw: Raw) -> bool:
        child = read(raw)
        before = self._children.get(child.uid)
        if before is not None and before.owner_uid != child.owner_uid:
            _discard(self._children_of, (before.namespace, before.owner_uid), child.uid)
        self._children[child.uid] = child
        self._children_of[child.namespace, child.owner_uid].add(child.uid)
        if job_steps.is_indexed(child.step) and (before is None or not job_steps.is_indexed(before.step)):
            # The watches aren't synchronized, so pods may arrive before their Job.
            for pod in self.pods_of(child.namespace, child.uid):
                self._keep_pod(pod)
        return child != before

    def _put_pod(self, raw: Raw) -> bool:
        pod = pods.read(raw)
        before = self._pods.get(pod.uid)
        if before is not None and before.owner_uid != pod.owner_uid:
            self._discard_pod(before)
        after = self._keep_pod(pod)
        self._pods_by_name[(pod.namespace, pod.name)] = pod.uid
        return (replace(after, version=before.version) if isinstance(after, Pod) and isinstance(before, Pod) else after) != before

    def _keep_pod(self, pod: Pod) -> Pod | SucceededWorker:
        """Store a pod, and return it as stored."""
        child = self.child_of(pod)
        kept = self._pods_of[pod.namespace, pod.owner_uid].put(pod, is_worker=child is not None and job_steps.is_indexed(child.step))
        self._pods[pod.uid] = kept
        return kept

    def _discard_pod(self, pod: Pod | SucceededWorker) -> None:
        """Remove a pod from the pods of its Job."""
        owner = (pod.namespace, pod.owner_uid)
        self._pods_of[owner].discard(pod.uid)
        if not self._pods_of[owner]:
            del self._pods_of[owner]

    def _drop(self, kind: Kind, uid: str) -> None:
        self._versions.pop(uid, None)
        self._written_versions.pop(uid, None)
        if kind is Kind.DATAPREPJOBS:
            key = self._keys_by_uid.pop(uid, None)
            # A new job with the same name may already use the key.
            if key is not None and key in self._jobs and self._jobs[key].uid == uid:
                self._index(key, None)
        elif kind is Kind.DATAPREPCRONJOBS:
            key = self._keys_by_uid.pop(uid, None)
            if key is not None and self._crons.get(key, {"metadata": {"uid": ""}})["metadata"]["uid"] == uid:
                del self._crons[key]
        elif kind is Kind.DATAPREPPROFILES:
            raw_profile = self._profiles.pop(uid, None)
            if raw_profile is not None:
                self._update_outputs(raw_profile["metadata"]["namespace"])
        elif kind is Kind.JOBS:
            child = self._children.pop(uid, None)
            if child is not None:
                _discard(self._children_of, (child.namespace, child.owner_uid), uid)
        else:
            pod = self._pods.pop(uid, None)
            if pod is not None:
                self._discard_pod(pod)
                if self._pods_by_name.get((pod.namespace, pod.name)) == uid:
                    del self._pods_by_name[(pod.namespace, pod.name)]

    def _key_of_uid(self, kind: Kind, uid: str) -> Key | None:
        if kind in (Kind.DATAPREPJOBS, Kind.DATAPREPCRONJOBS, Kind.DATAPREPPROFILES):
            return self._keys_by_uid.get(uid)
        child = self._children.get(uid) if kind is Kind.JOBS else self.child_of(self._pods[uid])
        return Key(child.namespace, child.owner_name) if child is not None else None

    def _index(self, key: Key, entry: _Entry | None) -> None:
        """Replace or remove a job's entry, and update the indexes."""
        before = self._jobs.pop(key, None)
        if before is not None:
            for dependency in before.dependencies:
                _discard(self._waiters, dependency, key)
            if before.cron_uid is not None:
                _discard(self._jobs_of_cron, (key.namespace, before.cron_uid), key)
            if before.output is not None:
                _discard(self._outputs, before.output, key)
        if entry is not None:
            self._jobs[key] = entry
            for dependency in entry.dependencies:
                self._waiters[dependency].add(key)
            if entry.cron_uid is not None:
                self._jobs_of_cron[key.namespace, entry.cron_uid].add(key)
            if entry.output is not None:
                self._outputs[entry.output].add(key)


def _entry(raw: Raw, *, output: str | None) -> _Entry:
    metadata, status, owner = raw["metadata"], untrusted.mapping(raw.get("status")), controller(raw)
    rate = untrusted.mapping(status.get("progress")).get("recordsPerSecond")
    is_deleted = "deletionTimestamp" in metadata
    return _Entry(
        text=json.dumps(_slim(raw), separators=(",", ":")),
        uid=metadata["uid"],
        version=_version(raw),
        phase=untrusted.text(status.get("phase")) or None,
        has_started=bool(status.get("startTime")),
        is_deleted=is_deleted,
        is_being_removed=is_deleted and names.FINALIZER in _list(metadata.get("finalizers")),
        records_per_second=float(rate) if isinstance(rate, int | float) else 0.0,
        output=output,
        dependencies=tuple(_dependencies_of(raw)),
        cron_uid=(untrusted.text(owner.get("uid")) or None) if owner.get("kind") == CRON_KIND else None,
    )


Claim = tuple[int, datetime, str]
_WORKS, _IS_STOPPED, _NOT_STARTED = range(3)
"""The ranks of jobs with the same output."""
_STOPPED: Final = frozenset({Reason.OUTPUT_IN_USE, Reason.SUSPENDED})
"""Reasons of the condition `Running` that mean that a started job's pods aren't working. Such a job has no claim to its output, or is
suspended."""


def claim(raw: Raw) -> Claim:
    """Return a job's sort key among the jobs with the same output. The job with the smallest key has the best claim.

    Started jobs come before jobs that have not started. Among the started jobs, stopped jobs come last. Jobs of the same rank are sorted by
    age, oldest first, and then by uid. The age of a retried job counts from its retry. Sorting by age alone isn't enough, because one job
    may have been created in the same second in which another job was retried.
    """
    status, uid = untrusted.mapping(raw.get("status")), raw["metadata"]["uid"]
    since = times.parse(raw["metadata"].get("creationTimestamp"))
    conditions = untrusted.conditions(status)
    failed, running = conditions.get("Failed", {}), conditions.get("Running", {})
    if failed.get("status") == "False":
        since = times.parse(failed.get("lastTransitionTime")) or since
    if untrusted.text(status.get("phase")) in TERMINAL_PHASES:
        # A finished job is sorted as if it were being retried now, so that running jobs come first.
        return _NOT_STARTED, times.now(), uid
    is_stopped = untrusted.text(running.get("reason")) in _STOPPED
    rank = _NOT_STARTED if not status.get("startTime") else _IS_STOPPED if is_stopped else _WORKS
    return rank, since or times.now(), uid


def _dependencies_of(raw: Raw) -> list[Key]:
    """Return the jobs that a job waits for. Started and succeeded jobs don't wait, but a failed job waits again after a retry."""
    spec, status = untrusted.mapping(raw.get("spec")), untrusted.mapping(raw.get("status"))
    if status.get("startTime") or status.get("phase") == "Succeeded":
        return []
    run_after = spec.get("runAfter")
    from_job = untrusted.mapping(untrusted.mapping(spec.get("source")).get("fromJob"))
    job_names = [untrusted.text(name) for name in (from_job.get("name"), *(run_after if isinstance(run_after, list) else []))]
    return [Key(raw["metadata"]["namespace"], name) for name in dict.fromkeys(job_names) if name]


def _uses_output(raw: Raw, runs: set[str]) -> bool:
    status = untrusted.mapping(raw.get("status"))
    if "deletionTimestamp" in raw["metadata"]:
        return False
    is_over = untrusted.text(status.get("phase")) in TERMINAL_PHASES
    return untrusted.text(status.get("runId")) in runs if is_over else bool(status.get("startTime"))


def _version(raw: Raw) -> int:
    return untrusted.number(raw["metadata"].get("resourceVersion"))


# Any, because the value is arbitrary JSON.
def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _discard(index: defaultdict[K, set[V]], key: K, value: V) -> None:
    index[key].discard(value)
    if not index[key]:
        del index[key]


def _slim(raw: Raw) -> Raw:
    """Return the object without kubectl's last-applied annotation and without `managedFields`, which are half of the object."""
    metadata = {key: value for key, value in raw["metadata"].items() if key != "managedFields"}
    if _LAST_APPLIED in untrusted.mapping(metadata.get("annotations")):
        metadata["annotations"] = {key: value for key, value in metadata["annotations"].items() if key != _LAST_APPLIED}
    return {**raw, "metadata": metadata}
