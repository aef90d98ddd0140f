"""The requests that submitted jobs send to the API server, with the credentials of the user's kubeconfig or of the program's own pod.

Objects are kept as the API's JSON, so their type is Any.
"""

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from dataprep_api import GROUP, PLURAL, VERSION
from dataprep_io.errors import ClusterError, JobNotFound
from dataprep_io.jobs.place import Place

try:
    import aiohttp
    from kubernetes.aio import config
    from kubernetes.aio.client import ApiClient, Configuration
except ImportError as exc:
    raise ImportError(f"Submitting jobs needs the Kubernetes client: pip install 'dataprep-operator[cluster]' ({exc})") from exc

Body = dict[str, Any]
JOBS: Final = f"apis/{GROUP}/{VERSION}/namespaces/{{}}/{PLURAL}"
PODS: Final = "api/v1/namespaces/{}/pods"
EVENTS: Final = "api/v1/namespaces/{}/events"
TIMEOUT_SECONDS: Final = 30
_ENDLESS: Final = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT_SECONDS)
"""The timeout for logs. With the client's default timeout, each response would end after five minutes."""
_PAGE: Final = "500"
_NOT_LOGGED_IN: Final = 401
_NAMESPACE_OF_POD: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_KUBECONFIG: Final = "~/.kube/config"


class Cluster:
    """A connection to an API server."""

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self._client = client
        self.namespace = namespace
        """The namespace of the user's jobs."""

    async def get(self, path: str, name: str, **query: str) -> Body:
        """Returns an object. Raises JobNotFound if there is no such DataPrepJob."""
        return await self._json("GET", self._path(path, name), query=query)

    async def list(self, path: str, **query: str) -> Sequence[Body]:
        """Returns the namespace's objects that match a query."""
        found: list[Body] = []
        place = ""
        while True:
            page = await self._json("GET", self._path(path), query={**query, "limit": _PAGE, "continue": place})
            found += page.get("items") or []
            place = (page.get("metadata") or {}).get("continue") or ""
            if not place:
                return found

    async def create(self, path: str, body: Body) -> Body:
        """Creates an object. The API server refuses unknown fields."""
        return await self._json("POST", self._path(path), query={"fieldValidation": "Strict"}, body=body)

    async def merge(self, path: str, name: str, body: Body) -> Body:
        """Changes the given fields of an object."""
        return await self._json("PATCH", self._path(path, name), body=body, content_type="application/merge-patch+json")

    async def delete(self, path: str, name: str) -> None:
        """Deletes an object, and its dependents in the background."""
        await self._json("DELETE", self._path(path, name), body={"propagationPolicy": "Background"})

    async def log_lines(self, pod: str, *, container: str, follow: bool) -> AsyncGenerator[str, None]:
        """Yields the log lines of a pod's container. With `follow`, waits for further lines until the container ends."""
        query = {"container": container, "follow": "true" if follow else ""}
        response = await self._send("GET", f"{self._path(PODS, pod)}/log", query=query, timeout=_ENDLESS)
        rest = b""
        try:
            async for chunk in response.content.iter_any():
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield line.decode(errors="backslashreplace")
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise ClusterError(f"The connection to the log of the pod {pod} ended early: {type(exc).__name__}: {exc}") from exc
        finally:
            response.close()
        if rest:
            yield rest.decode(errors="backslashreplace")

    def _path(self, path: str, name: str = "") -> str:
        """Returns the path of one object or, without a name, of the namespace's objects."""
        folder = "/" + path.format(quote(self.namespace, safe=""))
        return f"{folder}/{quote(name, safe='')}" if name else folder

    async def _json(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Body | None = None,
        content_type: str = "application/json",
    ) -> Body:
        response = await self._send(method, path, query=query, body=body, content_type=content_type)
        try:
            document: Body = json.loads(await response.read())
        except ValueError as exc:
            raise ClusterError(f"{method} {path}: the response isn't JSON; is there a proxy in between?", status=response.status) from exc
        return document

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Body | None = None,
        content_type: str = "application/json",
        timeout: float | aiohttp.ClientTimeout = TIMEOUT_SECONDS,
    ) -> aiohttp.ClientResponse:
        """Sends a request. Raises ClusterError with the API server's message if the server refuses the request."""
        chosen = {name: value for name, value in (query or {}).items() if value}
        target = f"{path}?{urlencode(chosen)}" if chosen else path
        headers = {"Accept": "application/json, */*;q=0.5", "Content-Type": content_type}
        try:
            request = await self._client.param_serialize(method, target, header_params=headers, body=body, auth_settings=["BearerToken"])
            answer = await self._client.call_api(*request, _request_timeout=timeout)
            response: aiohttp.ClientResponse = answer.response
            content = await response.read() if response.status >= 400 else b""
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise ClusterError(f"The API server can't be reached: {type(exc).__name__}: {exc}") from exc
        if response.status >= 400:
            raise _error(f"{method} {path}", response.status, content)
        return response


@asynccontextmanager
async def connected(place: Place) -> AsyncIterator[Cluster]:
    """Connects to the cluster of `place.kubeconfig`. Without a kubeconfig, tries KUBECONFIG, ~/.kube/config and this pod's cluster, in this
    order.

    Raises ClusterError if there is no usable configuration.
    """
    configuration = Configuration()
    namespace = await _load(place, configuration)
    # Proxies in environment variables are meant for the internet, not for the API server.
    configuration.client_session_kwargs = {"trust_env": False}
    client = ApiClient(configuration)
    try:
        yield Cluster(client, place.namespace or namespace or "default")
    finally:
        await client.close()  # type: ignore[no-untyped-call]  # the client is partly typed


async def _load(place: Place, configuration: Configuration) -> str | None:
    """Fills in the configuration, and returns the namespace of the kubeconfig's context or of this pod. Raises ClusterError."""
    named = os.fspath(place.kubeconfig) if place.kubeconfig else os.environ.get("KUBECONFIG")
    file = named or str(Path(_KUBECONFIG).expanduser())
    if not any(Path(each).exists() for each in file.split(os.pathsep)):
        if named:
            raise ClusterError(f"There is no kubeconfig {named}.")
        return _load_of_pod(configuration)
    try:
        await config.load_kube_config(config_file=file, context=place.context, client_configuration=configuration)  # type: ignore[no-untyped-call]
        contexts, current = config.list_kube_config_contexts(config_file=file)  # type: ignore[no-untyped-call]  # see above
    except Exception as exc:  # the client has no common exception for invalid files
        raise ClusterError(f"The kubeconfig {file} isn't usable: {exc}") from exc
    chosen = next((each for each in contexts if each["name"] == place.context), current)
    namespace: str | None = chosen["context"].get("namespace")
    return namespace


def _load_of_pod(configuration: Configuration) -> str | None:
    """Fills in the configuration with the credentials of this pod, and returns the pod's namespace. Raises ClusterError."""
    try:
        config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # see above
    except (config.ConfigException, OSError) as exc:
        raise ClusterError(f"There is no kubeconfig {_KUBECONFIG}, and this isn't a pod of a cluster: {exc}") from exc
    return _NAMESPACE_OF_POD.read_text() if _NAMESPACE_OF_POD.exists() else None


def _error(request: str, status: int, content: bytes) -> ClusterError:
    """Returns the error for a failed response, with the API server's message."""
    try:
        message = json.loads(content).get("message") or ""
    except (ValueError, AttributeError):
        message = content[:300].decode(errors="replace")
    text = message or f"{request}: HTTP {status}"
    if status == _NOT_LOGGED_IN:
        text = f"The API server refuses the credentials: {text}. They may have expired: log in again."
    return JobNotFound(text, status=status) if status == 404 and f"/{PLURAL}/" in request else ClusterError(text, status=status)
