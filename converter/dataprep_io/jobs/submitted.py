"""The operations on a DataPrepJob on a cluster. Each function connects, does its work, and disconnects."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final

from dataprep_api import names
from dataprep_io.errors import ClusterError, JobNotFound
from dataprep_io.jobs import status
from dataprep_io.jobs.cluster import EVENTS, JOBS, PODS, Body, Cluster, connected
from dataprep_io.jobs.definition import Definition
from dataprep_io.jobs.place import Place
from dataprep_io.jobs.status import Event

_EXPIRED: Final = 401
_GONE: Final = 404
_CONFLICT: Final = 409
_TOO_MANY: Final = 429
_FAULT: Final = 500
_NEXT_POD_SECONDS: Final = 1.0
_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
TOLERATED_SECONDS: Final = 300
"""While a job is watched, the API server may be unreachable for this long, for example during an upgrade of the cluster."""


async def create(definition: Definition, place: Place) -> Place:
    """Creates the DataPrepJob, and returns its place. Raises ClusterError if a DataPrepJob of this name already exists."""
    async with connected(place) as cluster:
        try:
            await cluster.create(JOBS, definition.body(cluster.namespace))
        except ClusterError as exc:
            if exc.status != _CONFLICT:
                raise
            raise ClusterError(await _why_refused(cluster, definition.name), status=exc.status) from exc
        return place.within(cluster.namespace)


async def _why_refused(cluster: Cluster, name: str) -> str:
    """Returns the error message for a name that another DataPrepJob already has."""
    try:
        other = await cluster.get(JOBS, name)
    except JobNotFound:
        other = {"metadata": {"deletionTimestamp": "now"}}
    if "deletionTimestamp" in other["metadata"]:
        return f"The DataPrepJob {name} in the namespace {cluster.namespace} is still being deleted: submit again when it is gone."
    return (
        f"The namespace {cluster.namespace} already has a DataPrepJob {name}: delete it first, choose another name, or watch it with "
        "Job.attach."
    )


async def find(name: str, place: Place) -> tuple[Definition, Place]:
    """Returns the DataPrepJob of this name, and its place. Raises JobNotFound."""
    async with connected(place) as cluster:
        body = await cluster.get(JOBS, name)
        return Definition.of_object(body), place.within(cluster.namespace)


async def get(name: str, place: Place) -> Body:
    """Returns the DataPrepJob as the API server has it."""
    async with connected(place) as cluster:
        return await cluster.get(JOBS, name)


async def watch(name: str, place: Place, *, timeout: float | None, poll: float) -> AsyncGenerator[Body, None]:
    """Yields the DataPrepJob's current state every `poll` seconds until the job has ended. The last state shows that the job has ended.

    Raises TimeoutError after `timeout` seconds, and ClusterError if the API server can't be reached for several minutes.
    """
    began = reached = time.monotonic()
    while True:
        async with connected(place) as cluster:
            has_answered = False
            while True:
                try:
                    body = await cluster.get(JOBS, name)
                except ClusterError as exc:
                    if exc.status == _EXPIRED and has_answered:
                        break  # connect again, with new credentials
                    if not _is_temporary(exc) or time.monotonic() - reached > TOLERATED_SECONDS:
                        raise
                else:
                    has_answered, reached = True, time.monotonic()
                    yield body
                    if status.is_finished(body):
                        return
                left = poll if timeout is None else began + timeout - time.monotonic()
                if left <= 0 and timeout is not None:
                    raise TimeoutError(f"The job {name} hasn't ended within {timeout} seconds. The job continues.")
                await asyncio.sleep(min(poll, left))


def _is_temporary(error: ClusterError) -> bool:
    """Returns whether a later request may succeed: there was no response, there were too many requests, or the server had a fault."""
    return error.status is None or error.status == _TOO_MANY or error.status >= _FAULT


async def events(name: str, place: Place) -> Sequence[Event]:
    """Returns the events about the job, oldest first."""
    async with connected(place) as cluster:
        uid = (await cluster.get(JOBS, name))["metadata"]["uid"]
        found = await cluster.list(EVENTS, fieldSelector=f"involvedObject.uid={uid}")
    return sorted((status.event_of(event) for event in found), key=lambda event: event.time or datetime.min.replace(tzinfo=UTC))


async def logs(name: str, place: Place, *, failed: bool, follow: bool) -> AsyncGenerator[str, None]:
    """Yields the lines of the pods' logs, the oldest pod first. Each line begins with its pod's name. With `follow`, continues until the
    job has ended."""
    async with connected(place) as cluster:
        shown: set[str] = set()
        while True:
            job = await cluster.get(JOBS, name)
            for pod in await _pods_of(cluster, job):
                phase, pod_name = (pod.get("status") or {}).get("phase"), pod["metadata"]["name"]
                if pod_name in shown or phase == "Pending" or (failed and phase != "Failed"):
                    continue
                shown.add(pod_name)
                async with aclosing(_lines_of(cluster, pod, follow=follow)) as lines:
                    async for line in lines:
                        yield f"{pod_name}: {line}"
            if not follow or status.is_finished(job):
                return
            await asyncio.sleep(_NEXT_POD_SECONDS)


async def _pods_of(cluster: Cluster, job: Body) -> Sequence[Body]:
    """Returns the pods of a DataPrepJob, the oldest first.

    Selects them by the job's UID, because pods of a deleted job of the same name may still exist.
    """
    pods = await cluster.list(PODS, labelSelector=f"{names.LABEL_JOB_UID}={job['metadata']['uid']}")
    return sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))


async def _lines_of(cluster: Cluster, pod: Body, *, follow: bool) -> AsyncGenerator[str, None]:
    """Yields the log lines of the converter's container, without the log lines of sidecars."""
    container = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER, "")
    try:
        async with aclosing(cluster.log_lines(pod["metadata"]["name"], container=container, follow=follow)) as lines:
            async for line in lines:
                yield line
    except ClusterError as exc:
        if exc.status != _GONE:  # a cleanup rule may have removed the pod in the meantime
            raise


async def retry(name: str, place: Place) -> None:
    """Asks the operator to retry a failed job. Raises ClusterError if the job hasn't failed."""
    async with connected(place) as cluster:
        phase = status.phase_of(await cluster.get(JOBS, name))
        if phase != "Failed":
            raise ClusterError(f"The job {name} is {phase}: only a failed job can be retried.")
        wish = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        await cluster.merge(JOBS, name, {"metadata": {"annotations": {names.ANNOTATION_RETRY: wish}}})


async def set_suspended(name: str, place: Place, *, suspended: bool) -> None:
    """Suspends or resumes the job."""
    async with connected(place) as cluster:
        await cluster.merge(JOBS, name, {"spec": {"suspend": suspended}})


async def delete(name: str, place: Place) -> None:
    """Deletes the DataPrepJob. Does nothing if there is no such job."""
    async with connected(place) as cluster:
        try:
            await cluster.delete(JOBS, name)
        except JobNotFound:
            return
