"""DataPrepJobs on the cluster: applies them, watches them and reads their results."""

import copy
import functools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import yaml
from kubernetes.client import ApiClient
from kubernetes.client.exceptions import NotFoundException
from kubernetes.config import new_client_from_config

from dataprep_api import GROUP, VERSION
from kubecluster import Cluster

Document = dict[str, Any]
Documents = list[Document]
Events = list[tuple[str, str]]


# How long a test waits on a shared machine. This has nothing to do with the product's timeouts.
PATIENCE_SECONDS = 300


READ: Final = {
    "configmaps": "/api/v1",
    "events": "/api/v1",
    "pods": "/api/v1",
    "resourcequotas": "/api/v1",
    "jobs": "/apis/batch/v1",
    "dataprepcronjobs": f"/apis/{GROUP}/{VERSION}",
    "dataprepjobs": f"/apis/{GROUP}/{VERSION}",
    "workloads": "/apis/kueue.x-k8s.io/v1beta2",
}
"""API groups of the kinds that tests read."""


class JobNotAsExpected(AssertionError):
    """A job did not reach the expected state. The message contains its status, its pods and the end of the operator's log."""


@dataclass(frozen=True)
class Namespace:
    """A namespace for a single test."""

    cluster: Cluster
    name: str

    def kubectl(self, *words: str, stdin: str | None = None, timeout_seconds: float = 120) -> str:
        """Runs kubectl in this namespace."""
        return self.cluster.kubectl("--namespace", self.name, *words, stdin=stdin, timeout_seconds=timeout_seconds)

    def apply(self, *documents: Mapping[str, Any]) -> str:
        """Applies the documents with strict field validation."""
        text = "\n---\n".join(json.dumps(document) for document in documents)
        return self.kubectl("apply", "--validate=strict", "--filename=-", stdin=text)

    def get(self, kind: str, name: str) -> Document:
        """One object of a kind in `READ`."""
        return self._read(f"{READ[kind]}/namespaces/{self.name}/{kind}/{name}")

    def all(self, kind: str, *, selector: str = "", fields: str = "") -> Documents:
        """All objects of a kind in `READ` that match these selectors, sorted by name."""
        query = [("labelSelector", selector), ("fieldSelector", fields)]
        return cast("Documents", self._read(f"{READ[kind]}/namespaces/{self.name}/{kind}", query)["items"])

    def create(self, *secrets: Document, labels: Mapping[str, str]) -> None:
        """Creates the namespace, and these Secrets in it."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name, "labels": dict(labels)}}
        self._send("POST", "/api/v1/namespaces", body=namespace)
        for secret in secrets:
            self._send("POST", f"/api/v1/namespaces/{self.name}/secrets", body=secret)

    def delete(self) -> None:
        """Begins to delete the namespace, unless a test has already deleted it."""
        try:
            self._send("DELETE", f"/api/v1/namespaces/{self.name}")
        except NotFoundException:
            return

    def _read(self, path: str, query: Sequence[tuple[str, str]] = ()) -> Document:
        return self._send("GET", path, query=query)

    def _send(self, method: str, path: str, *, query: Sequence[tuple[str, str]] = (), body: Document | None = None) -> Document:
        client = client_of(self.cluster.kubeconfig)
        headers = {} if body is None else {"Content-Type": "application/json"}
        request = client.param_serialize(
            method, path, query_params=list(query), header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        answer = client.call_api(*request)
        answer.read()  # type: ignore[no-untyped-call]  # it has no types
        # Raises an error for any other status.
        return cast("Document", client.response_deserialize(answer, dict.fromkeys(("200", "201", "202"), "object")).data)

    def job(self, name: str) -> Document:
        """One DataPrepJob."""
        return self.get("dataprepjobs", name)

    def status(self, name: str) -> Document:
        """A DataPrepJob's status, empty until the first one is written."""
        found: Document = self.job(name).get("status", {})
        return found

    def pods(self, job: str, *, step: str = "") -> Documents:
        """A DataPrepJob's pods, of one step or of all."""
        return self.all("pods", selector=f"dataprep.io/job={job}" + (f",dataprep.io/step={step}" if step else ""))

    def events(self, job: str) -> Events:
        """(reason, message) of the events on a DataPrepJob, oldest first."""
        found = self.all("events", fields=f"involvedObject.kind=DataPrepJob,involvedObject.name={job}")
        items = sorted(found, key=lambda item: str(item["metadata"]["creationTimestamp"]))
        return [(item["reason"], item["message"]) for item in items]

    def wait(self, name: str, until: Callable[[Document], bool], *, what: str, seconds: float = PATIENCE_SECONDS) -> Document:
        """Polls until the status satisfies `until`.

        If the status never satisfies `until`, raises JobNotAsExpected with all that is known about the job.
        """
        deadline = time.monotonic() + seconds
        while True:
            status = self.status(name)
            if until(status):
                return status
            if time.monotonic() > deadline:
                raise JobNotAsExpected(f"{name} was not {what} within {seconds:.0f} s.\n{self.story(name)}")
            time.sleep(0.5)

    def wait_phase(self, name: str, phase: str, *, seconds: float = PATIENCE_SECONDS) -> Document:
        """Polls until the job reaches the phase. Fails immediately if the job ends in a different phase."""

        def reached(status: Document) -> bool:
            now = status.get("phase")
            if now in ("Succeeded", "Failed") and now != phase:
                raise JobNotAsExpected(f"{name} is {now} instead of {phase}.\n{self.story(name)}")
            return bool(now == phase)

        return self.wait(name, reached, what=phase, seconds=seconds)

    def story(self, name: str) -> str:
        """All that is known about a job, for the message of a failed test."""
        parts = [json.dumps(self.status(name), indent=1)]
        for pod in self.pods(name):
            state = [status.get("state") for status in pod.get("status", {}).get("containerStatuses", [])]
            parts.append(f"pod {pod['metadata']['name']} {pod.get('status', {}).get('phase')} {json.dumps(state)}")
        parts += [f"event {reason}: {message}" for reason, message in self.events(name)]
        return "\n".join(parts)


@functools.cache
def client_of(kubeconfig: Path) -> ApiClient:
    """This process's client, whose connection stays open: tests poll several times a second, and running kubectl each time would cost more
    than the work under test."""
    return cast("ApiClient", new_client_from_config(str(kubeconfig)))  # type: ignore[no-untyped-call]  # it has no types


def condition(status: Document, kind: str) -> Document:
    """A condition, or an empty document."""
    return next((c for c in status.get("conditions", []) if c["type"] == kind), {})


EACH_STEP: Final = {"onePod": "Never"}
"""Fields of `workers` that give each step of a small job its own pods, so that a test can act while a given step runs."""


def example(file: str, *, one_pod: bool = False, **changes: Any) -> Document:
    """A job from `examples/` with a changed spec: `example(path, name="x", output={...})` replaces complete fields.

    By default, each step has its own pods. With `one_pod`, a small job runs in a single pod, as it does for users.
    """
    with Path(file).open(encoding="utf-8") as text:
        document: Document = next(d for d in yaml.safe_load_all(text) if d["kind"] == "DataPrepJob")
    document = copy.deepcopy(document)
    document["metadata"]["name"] = changes.pop("name", document["metadata"]["name"])
    for field, value in changes.items():
        here = document["spec"]
        *above, last = field.split("__")
        for part in above:
            here = here.setdefault(part, {})
        here[last] = value
    if not one_pod:
        document["spec"]["workers"] = EACH_STEP | document["spec"].get("workers", {})
    return document
