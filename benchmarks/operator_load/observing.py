"""Reads the operator's metrics and the API server's objects while the operator works."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from kubernetes import client, watch
from prometheus_client.parser import text_string_to_metric_families
from urllib3.exceptions import ProtocolError

from dataprep_api import GROUP, VERSION
from dataprep_api.names import LABEL_STEP
from workbench.installation import Installation

REQUEST_SECONDS: Final = 60
_WRITES: Final = ("POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True)
class Reading:
    """The leader's metrics at one moment: unlabelled metrics by name, requests by method and code, and jobs by phase."""

    values: dict[str, float]
    requests: dict[tuple[str, str], float]
    jobs: dict[str, float]
    completed: float = 0.0
    """The number of jobs that have succeeded since this replica became the leader."""

    @property
    def writes(self) -> float:
        """The number of requests that change objects."""
        return sum(count for (method, _), count in self.requests.items() if method in _WRITES)

    @property
    def all_requests(self) -> float:
        """The number of all requests to the API server."""
        return sum(self.requests.values())


def read_leader(installation: Installation) -> Reading | None:
    """Returns the metrics of the leading replica, or None if there is no leader."""
    found = leader(installation)
    return None if found is None else found[1]


def leader(installation: Installation) -> tuple[str, Reading] | None:
    """Returns the name of the leader's pod and its metrics, or None if there is no leader."""
    for pod in installation.pods():
        if not any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", [])):
            continue
        reading = _parsed(_scrape(installation, pod["metadata"]["name"]))
        if reading.values.get("dataprep_leader") == 1:
            return pod["metadata"]["name"], reading
    return None


def _scrape(installation: Installation, pod: str) -> str:
    # The request goes through the API server's proxy, so that it works on any cluster.
    return installation.cluster.kubectl("get", "--raw", f"/api/v1/namespaces/{installation.namespace}/pods/{pod}:8080/proxy/metrics")


def _parsed(text: str) -> Reading:
    values: dict[str, float] = {}
    requests: dict[tuple[str, str], float] = {}
    jobs: dict[str, float] = {}
    completed = 0.0
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "dataprep_api_requests_total":
                requests[sample.labels["method"], sample.labels["code"]] = sample.value
            elif sample.name == "dataprep_jobs":
                jobs[sample.labels["phase"]] = sample.value
            elif sample.name == "dataprep_job_duration_seconds_count" and sample.labels["phase"] == "Succeeded":
                completed = sample.value
            elif not sample.labels:
                values[sample.name] = sample.value
    return Reading(values, requests, jobs, completed)


@dataclass
class Seen:
    """The events of a watch, with their times."""

    added: dict[str, float] = field(default_factory=dict)
    """For each object, the time when it was first seen."""
    ended: dict[str, float] = field(default_factory=dict)
    """For each pod, the time when it was first seen to have ended."""
    changes: int = 0
    objects: dict[str, Any] = field(default_factory=dict)


@contextmanager
def watching(list_them: Callable[..., Any], **options: Any) -> Iterator[Seen]:
    """Follows a list of objects in a thread while the block runs."""
    stream: Any = watch.Watch()  # type: ignore[no-untyped-call]
    seen, stopped = Seen(), threading.Event()

    def follow() -> None:
        while not stopped.is_set():
            with suppress(ProtocolError):  # an interrupted watch starts again and lists all objects
                for event in stream.stream(list_them, timeout_seconds=600, **options):
                    _take(seen, event["type"], event["raw_object"])

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        stopped.set()
        stream.stop()


def _take(seen: Seen, kind: str, found: dict[str, Any]) -> None:
    name, now = found["metadata"]["name"], time.monotonic()
    seen.added.setdefault(name, now)
    seen.objects[name] = found
    seen.changes += kind == "MODIFIED"
    if (found.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        seen.ended.setdefault(name, now)


def children(api: client.ApiClient, namespace: str) -> dict[tuple[str, str], int]:
    """Returns the number of Jobs for each DataPrepJob (by name) and step."""
    found: dict[tuple[str, str], int] = {}
    token: str | None = None
    batch: Any = client.BatchV1Api(api)  # Any: every field of the generated models can be None
    while True:
        page = batch.list_namespaced_job(namespace, limit=500, _continue=token)
        for each in page.items:
            key = (each.metadata.owner_references[0].name, each.metadata.labels[LABEL_STEP])
            found[key] = found.get(key, 0) + 1
        token = page.metadata._continue  # noqa: SLF001  # the generated client's name for it
        if not token:
            return found


def create(api: client.ApiClient, namespace: str, document: dict[str, Any]) -> float:
    """Creates a DataPrepJob. Returns the time just before the request."""
    begun = time.monotonic()
    client.CustomObjectsApi(api).create_namespaced_custom_object(
        GROUP, VERSION, namespace, "dataprepjobs", document, _request_timeout=REQUEST_SECONDS
    )
    return begun


def running(api: client.ApiClient, namespace: str, *, step: str) -> int:
    """Returns the number of running pods of this step."""
    core: Any = client.CoreV1Api(api)  # Any: every field of the generated models can be None
    chosen = {"label_selector": f"{LABEL_STEP}={step}", "field_selector": "status.phase=Running"}
    return len(core.list_namespaced_pod(namespace, _request_timeout=REQUEST_SECONDS, **chosen).items)
