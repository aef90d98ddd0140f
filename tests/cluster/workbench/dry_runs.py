"""Sends dry runs, in which the API server checks an object or a change without storing it.

All requests use the test process's connection. With kubectl, each of the hundreds of requests would take a tenth of a second of processor
time.
"""

import json
from typing import Any, Final

from kubecluster import Cluster
from workbench.jobs import Document, client_of

_MERGE: Final = "application/merge-patch+json"


def answer_to_object(cluster: Cluster, namespace: str, document: Document) -> str:
    """Returns `created`, or the API server's refusal, which has a line for each faulty or unknown field."""
    query = [("dryRun", "All"), ("fieldValidation", "Strict")]
    return _answer(cluster, "POST", _path(namespace, document["apiVersion"], document["kind"]), query, document, done="created")


def answer_to_patch(cluster: Cluster, namespace: str, document: Document, patch: Document) -> str:
    """Sends a merge patch of the object with this kind and name.

    Returns `patched`, or the API server's refusal, which has a line for each faulty field.
    """
    path = f"{_path(namespace, document['apiVersion'], document['kind'])}/{document['metadata']['name']}"
    return _answer(cluster, "PATCH", path, [("dryRun", "All")], patch, done="patched")


def _path(namespace: str, version: str, kind: str) -> str:
    return f"/apis/{version}/namespaces/{namespace}/{kind.lower()}s"


def _answer(cluster: Cluster, method: str, path: str, query: list[tuple[str, str]], body: Document, *, done: str) -> str:
    client = client_of(cluster.kubeconfig)
    headers = {"Content-Type": _MERGE if method == "PATCH" else "application/json"}
    request = client.param_serialize(method, path, query_params=query, header_params=headers, body=body, auth_settings=["BearerToken"])
    answer = client.call_api(*request)
    text = answer.read()  # type: ignore[no-untyped-call]  # it has no types
    if answer.status in (200, 201):
        return done
    said: dict[str, Any] = json.loads(text)
    causes = said.get("details", {}).get("causes", [])
    return "\n".join([said["message"], *(f"{cause.get('field', '')}: {cause['message']}" for cause in causes)])
