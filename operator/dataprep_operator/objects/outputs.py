"""Maps a job's output to its location, to detect jobs that would overwrite each other's output. All functions are pure.

`names.normalised` returns the canonical form of a URI. But the location of a URI also depends on the bucket's endpoint, the volume mounts
and the namespace, so this module considers these as well.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from dataprep_api import names
from dataprep_api.errors import SpecError
from dataprep_api.resources import profile
from dataprep_api.resources.params import fill
from dataprep_operator.objects import untrusted

_AMAZON: Final = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")
_ALIBABA: Final = ".aliyuncs.com"
_CLUSTER: Final = (".svc.cluster.local", ".svc")
_PORTS: Final = {"http": 80, "https": 443}
_ENDPOINT_VARIABLES: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""Environment variables from which the converter takes a store's endpoint if the store's settings contain no endpoint.

The first variable that is set is used.
"""


# Any, because a job and a profile are unvalidated JSON objects of the API.
def place_of(raw: Mapping[str, Any], defaults: Mapping[str, Any] | None) -> str | None:
    """Return the location of a job's output, or None if the spec names no valid location. `defaults` is the job's profile."""
    spec, namespace = untrusted.mapping(raw.get("spec")), str(raw["metadata"]["namespace"])
    if defaults is not None:
        spec = profile.with_defaults(spec, untrusted.mapping(defaults.get("spec")), name="")
    output, version = untrusted.mapping(spec.get("output")), untrusted.mapping(spec.get("output")).get("version")
    uri = output.get("uri")
    if not isinstance(uri, str):
        return None
    params = {str(key): str(value) for key, value in untrusted.mapping(spec.get("params")).items()}
    try:
        uri = str(fill(names.join(uri, version) if isinstance(version, str) else uri, params, path="spec.output.uri"))
        location = names.normalised(uri)
        if location.startswith("s3://"):
            endpoint = _endpoint(
                uri, fill(untrusted.mappings(spec.get("stores")), params, path="spec.stores"), untrusted.mapping(spec.get("workers"))
            )
            return _bucket(location, endpoint, namespace=namespace)
    except (SpecError, ValueError):
        return None
    return location if "://" in location else _path(location, untrusted.mapping(spec.get("workers")), namespace=namespace)


def _endpoint(uri: str, stores: Sequence[Mapping[str, Any]], workers: Mapping[str, Any]) -> str | None:
    matching_stores = [store for store in stores if isinstance(store.get("uriPrefix"), str) and uri.startswith(store["uriPrefix"])]
    store = max(matching_stores, key=lambda candidate: len(candidate["uriPrefix"]), default={})
    variables = {
        variable["name"]: variable.get("value")
        for variable in untrusted.mappings(workers.get("env"))
        if isinstance(variable.get("name"), str)
    }
    endpoints = [store.get("endpoint"), *(variables.get(name) for name in _ENDPOINT_VARIABLES)]
    return next((value for value in endpoints if isinstance(value, str) and value), None)


def _bucket(location: str, endpoint: str | None, *, namespace: str) -> str:
    """Return the location of a path in a bucket.

    Amazon's and Alibaba's bucket names are unique across all of their endpoints. For other services, the endpoint is part of the location.
    """
    if endpoint is None:
        return location
    parts = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
    host, port = (parts.hostname or "").rstrip("."), parts.port
    if host.endswith(_AMAZON):
        return location
    if host.endswith(_ALIBABA):
        return f"oss{location.removeprefix('s3')}"
    for suffix in _CLUSTER:
        host = host.removesuffix(suffix)
    # A single-label host is a Service in the pods' namespace.
    host = host if "." in host or ":" in host else f"{host}.{namespace}"
    service = host if port in (None, _PORTS.get(parts.scheme.lower())) else f"{host}:{port}"
    return f"{location} at {service}{parts.path.rstrip('/')}"


def _path(path: str, workers: Mapping[str, Any], *, namespace: str) -> str:
    """Return the location of a file path, which depends on the volume that is mounted there.

    A volume claim is the same location wherever it is mounted. The same path on two volume claims is two locations.
    """
    unmounted_location = f"{path} of {namespace}"
    mounts = [
        (_normalised_path(mount["mountPath"]), mount)
        for mount in untrusted.mappings(workers.get("volumeMounts"))
        if isinstance(mount.get("mountPath"), str)
    ]
    covering_mounts = [
        (mount_path, mount) for mount_path, mount in mounts if path == mount_path or path.startswith(f"{mount_path.rstrip('/')}/")
    ]
    if not covering_mounts:
        return unmounted_location
    mount_path, mount = max(covering_mounts, key=lambda candidate: len(candidate[0]))
    volume = next(
        (item for item in untrusted.mappings(workers.get("volumes")) if item.get("name") == mount.get("name")),
        {},
    )
    sub_path = str(mount.get("subPath") or mount.get("subPathExpr") or "")
    inner_path = _normalised_path("/".join((sub_path, path[len(mount_path.rstrip("/")) :])).lstrip("/"))
    for kind, field, suffix in (("persistentVolumeClaim", "claimName", f" of {namespace}"), ("nfs", "path", ""), ("hostPath", "path", "")):
        source = untrusted.mapping(volume.get(kind))
        if isinstance(source.get(field), str):
            root = f"{source.get('server') or ''}:{source[field].rstrip('/')}" if kind != "persistentVolumeClaim" else source[field]
            return f"{kind} {root}/{inner_path}{suffix}"
    # Volumes of other types are distinguished by their definitions.
    return f"{json.dumps(volume, sort_keys=True)} {unmounted_location}" if volume else unmounted_location


def _normalised_path(path: str) -> str:
    """Normalise a volume's path, which is unchecked text. Text that can't be parsed as a URI, such as `//[`, is returned unchanged."""
    try:
        return names.normalised(path)
    except ValueError:
        return path
