"""The only client of the API server. The client limits the rate of requests, and translates the API server's errors into the operator's
errors.

Tests replace `Cluster` with a fake. Objects are kept as the API's JSON, so that unknown fields survive. Therefore their type is Any.
"""

import json
import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self
from urllib.parse import quote, urlencode

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration

from dataprep_api import API_VERSION, CRON_KIND, CRON_PLURAL, GROUP, KIND, PLURAL, PROFILE_KIND, PROFILE_PLURAL, VERSION
from dataprep_operator import metrics
from dataprep_operator.cluster.clock import Clock
from dataprep_operator.cluster.ratelimit import TokenBucket
from dataprep_operator.errors import AlreadyExists, ClusterError, Conflict, NotFound, NotServed, Refused, Unavailable

logger = logging.getLogger(__name__)

Body = dict[str, Any]
JsonPatch = list[Body]
FIELD_MANAGER: Final = "dataprep-operator"
TIMEOUT_SECONDS: Final = 30
PAGE: Final = 500


@dataclass(frozen=True)
class Resource:
    """A resource type and its API path."""

    prefix: str
    plural: str
    kind: str = ""
    """The kind, set only for the operator's custom resources, whose status the operator writes."""

    def path(self, namespace: str, name: str = "", *, subresource: str = "") -> str:
        """Return the path of one object or of all objects in a namespace.

        Without a namespace, return the path of all objects in the cluster.
        """
        if not namespace:
            return f"/{self.prefix}/{self.plural}"
        parts = [self.prefix, "namespaces", quote(namespace, safe=""), self.plural, quote(name, safe=""), subresource]
        return "/" + "/".join(part for part in parts if part)


DATAPREPJOBS: Final = Resource(f"apis/{GROUP}/{VERSION}", PLURAL, KIND)
DATAPREPCRONJOBS: Final = Resource(f"apis/{GROUP}/{VERSION}", CRON_PLURAL, CRON_KIND)
DATAPREPPROFILES: Final = Resource(f"apis/{GROUP}/{VERSION}", PROFILE_PLURAL, PROFILE_KIND)
JOBS: Final = Resource("apis/batch/v1", "jobs")
PODS: Final = Resource("api/v1", "pods")
CONFIG_MAPS: Final = Resource("api/v1", "configmaps")
SERVICES: Final = Resource("api/v1", "services")
SECRETS: Final = Resource("api/v1", "secrets")
"""The operator may create Secrets, but not read them."""
EVENTS: Final = Resource("api/v1", "events")
NAMESPACES: Final = Resource("api/v1", "")
"""To address a Namespace object, pass its name as the namespace, and no object name."""
LEASES: Final = Resource("apis/coordination.k8s.io/v1", "leases")
TOKEN_REVIEWS: Final = Resource("apis/authentication.k8s.io/v1", "tokenreviews")
ACCESS_REVIEWS: Final = Resource("apis/authorization.k8s.io/v1", "subjectaccessreviews")
_CANT_APPLY: Final = re.compile(r"HTTP 500: failed to create (typed|manager)")
"""Matches the API server's error that it can't compare an object with its schema. There are two causes: a key in a stored list has a type
that the schema doesn't allow, or an old CRD lacks a status field. A retry doesn't help."""
_ALLOWED_ON_STANDBY: Final = tuple(f"/{resource.prefix}/" for resource in (LEASES, TOKEN_REVIEWS, ACCESS_REVIEWS))
"""Paths of the resources that even a standby may write. Creating a review changes nothing in the cluster."""


class Cluster(Protocol):
    """The requests that the operator sends to the API server. Every method raises ClusterError on failure."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Body:
        """Return the object."""
        ...

    async def list(self, resource: Resource, namespace: str, *, labels: str = "", fields: str = "") -> Sequence[Body]:
        """Return the namespace's objects that match the selectors."""
        ...

    async def create(self, resource: Resource, namespace: str, body: Body, *, strict: bool = False) -> Body:
        """Create the object. With `strict`, unknown fields are refused instead of ignored. Raises AlreadyExists."""
        ...

    async def replace(self, resource: Resource, namespace: str, name: str, body: Body) -> Body:
        """Replace the object. Raises Conflict if the object no longer has the body's resourceVersion."""
        ...

    async def patch(self, resource: Resource, namespace: str, name: str, body: Body, *, subresource: str = "") -> Body:
        """Patch the object, by strategic merge for Kubernetes' built-in kinds and by JSON merge for DataPrepJobs."""
        ...

    async def apply_status(self, resource: Resource, namespace: str, name: str, *, uid: str, resource_version: str, status: Body) -> Body:
        """Write the complete status of a custom resource. Raises Conflict if the object has changed since `resource_version`."""
        ...

    async def delete(self, resource: Resource, namespace: str, name: str, *, uid: str, resource_version: str | None = None) -> None:
        """Delete the object with this uid, and its dependents in the background. Does nothing if the object doesn't exist.

        With a resource version, raises Conflict if the object has changed since that version.
        """
        ...

    async def document(self, path: str) -> Body:
        """Return a JSON document that is not a Kubernetes object, such as the signing keys."""
        ...


class KubernetesCluster:
    """Talks to a real API server."""

    def __init__(
        self, client: ApiClient, *, qps: float, burst: int, clock: Clock | None = None, may_write: Callable[[], bool] = lambda: True
    ) -> None:
        self._client = client
        self._bucket = TokenBucket(rate=qps, burst=burst)
        self.clock = clock or Clock()
        self.may_write = may_write
        """Returns whether this replica is certainly the leader. The function is called before every write that only the leader may make."""

    @classmethod
    async def connect(cls, *, qps: float, burst: int, clock: Clock | None = None, may_write: Callable[[], bool] = lambda: True) -> Self:
        """Connect to the cluster of `KUBECONFIG`, or, if the variable is not set, to the cluster that this pod runs in."""
        configuration = Configuration()
        if os.environ.get("KUBECONFIG"):
            await config.load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # the client is partly typed
        else:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # as above
        return cls.of(configuration, qps=qps, burst=burst, clock=clock, may_write=may_write)

    @classmethod
    def of(
        cls,
        configuration: Configuration,
        *,
        qps: float,
        burst: int,
        clock: Clock | None = None,
        may_write: Callable[[], bool] = lambda: True,
    ) -> Self:
        """Connect to the cluster of `configuration`."""
        cluster = cls(ApiClient(configuration), qps=qps, burst=burst, clock=clock, may_write=may_write)
        # Proxies in environment variables are meant for the internet, not for the API server.
        configuration.client_session_kwargs = {"trust_env": False, "request_class": _guarded_request_class(lambda: cluster.may_write())}
        return cluster

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()  # type: ignore[no-untyped-call]  # as above

    async def get(self, resource: Resource, namespace: str, name: str) -> Body:
        """GET one object."""
        return await self._request("GET", resource.path(namespace, name))

    async def list(self, resource: Resource, namespace: str, *, labels: str = "", fields: str = "") -> Sequence[Body]:
        """GET the list of objects, page by page."""
        result: list[Body] = []
        query = {"labelSelector": labels, "fieldSelector": fields, "limit": str(PAGE), "continue": ""}
        while True:
            page = await self._request("GET", resource.path(namespace), query=query)
            result += page.get("items") or []
            query["continue"] = (page.get("metadata") or {}).get("continue") or ""
            if not query["continue"]:
                return result

    async def create(self, resource: Resource, namespace: str, body: Body, *, strict: bool = False) -> Body:
        """POST the object."""
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict" if strict else ""}
        return await self._request("POST", resource.path(namespace), query=query, body=body)

    async def replace(self, resource: Resource, namespace: str, name: str, body: Body) -> Body:
        """PUT the object, guarded by its resourceVersion."""
        return await self._request("PUT", resource.path(namespace, name), query={"fieldManager": FIELD_MANAGER}, body=body)

    async def patch(self, resource: Resource, namespace: str, name: str, body: Body, *, subresource: str = "") -> Body:
        """PATCH the object."""
        path = resource.path(namespace, name, subresource=subresource)
        content_type = "application/merge-patch+json" if resource is DATAPREPJOBS else "application/strategic-merge-patch+json"
        return await self._request("PATCH", path, query={"fieldManager": FIELD_MANAGER}, body=body, content_type=content_type)

    async def apply_status(self, resource: Resource, namespace: str, name: str, *, uid: str, resource_version: str, status: Body) -> Body:
        """Write the status by server-side apply, which removes fields that are left out and does nothing if the status is unchanged.

        If the API server can't apply the object at all, its status is replaced instead.
        """
        metadata = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": resource_version}
        body = {"apiVersion": API_VERSION, "kind": resource.kind, "metadata": metadata, "status": status}
        path = resource.path(namespace, name, subresource="status")
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        try:
            applied = await self._request("PATCH", path, query=query, body=body, content_type="application/apply-patch+yaml")
        except Unavailable as exc:
            if _CANT_APPLY.search(str(exc)) is None:
                raise
            logger.warning("%s/%s: the status is replaced, because it can't be applied: %s", namespace, name, exc)
        else:
            if applied.get("status") == status:
                return applied
            # Server-side apply doesn't remove fields that an earlier replacement wrote, so replace the status again.
            resource_version = applied["metadata"]["resourceVersion"]
        # The resourceVersion belongs to the object with this uid, so it isn't necessary to compare the uid.
        replacement: JsonPatch = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version},
            {"op": "add", "path": "/status", "value": status},
        ]
        query = {"fieldManager": FIELD_MANAGER}
        return await self._request("PATCH", path, query=query, body=replacement, content_type="application/json-patch+json")

    async def delete(self, resource: Resource, namespace: str, name: str, *, uid: str, resource_version: str | None = None) -> None:
        """DELETE, guarded by the uid and, if given, the resourceVersion."""
        conditions = {"uid": uid} | ({"resourceVersion": resource_version} if resource_version is not None else {})
        options = {"propagationPolicy": "Background", "preconditions": conditions}
        try:
            await self._request("DELETE", resource.path(namespace, name), body=options)
        except NotFound:
            return
        except Conflict:
            # Without a resourceVersion, a conflict means that the uid differs: the object to delete is gone, and another object has its
            # name.
            if resource_version is not None:
                raise

    async def document(self, path: str) -> Body:
        """GET a path that doesn't belong to a Kubernetes object."""
        return await self._request("GET", path)

    async def check_served(self) -> None:
        """Raise NotServed when a CRD is missing. Without this check, kopf would only warn once and then watch nothing."""
        try:
            document = await self._request("GET", f"/{DATAPREPJOBS.prefix}")
        except NotFound:
            document = {}
        served_plurals = {resource["name"] for resource in document.get("resources") or []}
        missing_crds = [
            f"{resource.plural}.{GROUP}"
            for resource in (DATAPREPJOBS, DATAPREPCRONJOBS, DATAPREPPROFILES)
            if resource.plural not in served_plurals
        ]
        if missing_crds:
            raise NotServed(
                f"Not installed: the CRD {' and the CRD '.join(missing_crds)}. An administrator must install them once: kubectl apply --server-side -f crds/."
            )

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Body | JsonPatch | None = None,
        content_type: str = "application/json",
    ) -> Body:
        await self._bucket.wait()
        if _needs_leadership(method, path) and not self.may_write():
            raise Unavailable(f"{method} {path}: not sent, because the Lease was not renewed in time")
        parameters = {key: value for key, value in (query or {}).items() if value}
        target = f"{path}?{urlencode(parameters)}" if parameters else path
        # Accept any content type, because the signing keys are served only as application/jwk-set+json.
        headers = {"Accept": "application/json, */*;q=0.5", "Content-Type": content_type}
        started_at = time.monotonic()
        try:
            request = await self._client.param_serialize(method, target, header_params=headers, body=body, auth_settings=["BearerToken"])
            response = await self._client.call_api(*request, _request_timeout=TIMEOUT_SECONDS)
            content = await response.read()  # type: ignore[no-untyped-call]  # as above
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            metrics.API_REQUESTS.labels(method=method, code="none").inc()
            raise Unavailable(f"{method} {path}: {type(exc).__name__}: {exc}") from exc
        metrics.API_REQUESTS.labels(method=method, code=str(response.status)).inc()
        self.clock.observe(response.headers.get("Date"), took_seconds=time.monotonic() - started_at)
        if response.status >= 400:
            raise _error(method, path, response.status, content)
        try:
            result = json.loads(content)
        except ValueError as exc:
            raise Unavailable(
                f"{method} {path}: HTTP {response.status}, but the response isn't JSON; is there a proxy in between?"
            ) from exc
        return result if isinstance(result, dict) else {}


def _needs_leadership(method: str, path: str) -> bool:
    return method != "GET" and not path.startswith(_ALLOWED_ON_STANDBY)


def _guarded_request_class(may_write: Callable[[], bool]) -> type[aiohttp.ClientRequest]:
    """Return a request class that checks `may_write` again right before the first byte is sent.

    The process may have been paused since the earlier call of `may_write`.
    """

    class Request(aiohttp.ClientRequest):
        async def write_bytes(
            self, writer: aiohttp.abc.AbstractStreamWriter, conn: "aiohttp.connector.Connection", content_length: int | None = None
        ) -> None:
            if _needs_leadership(self.method, self.url.path) and not may_write():
                conn.close()
                return
            await super().write_bytes(writer, conn, content_length)

    return Request


def _error(method: str, path: str, status: int, content: bytes) -> ClusterError:
    """Translate an error response, keeping the API server's message."""
    try:
        document = json.loads(content)
        reason, message = document.get("reason") or "", document.get("message") or ""
    except (ValueError, AttributeError):
        reason, message = "", content[:300].decode(errors="replace")
    text = message or f"{method} {path}: HTTP {status}"
    if status == 404:
        return NotFound(text)
    if status == 409:
        return AlreadyExists(text) if reason == "AlreadyExists" else Conflict(text)
    if status in (400, 403, 405, 413, 415, 422):
        return Refused(text)
    return Unavailable(f"{method} {path}: HTTP {status}: {text}")
