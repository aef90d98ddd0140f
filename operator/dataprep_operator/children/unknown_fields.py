"""Translates the API server's errors about unknown pod fields into errors about fields of the DataPrepJob. All functions are pure.

The CRD accepts any fields in volumes, affinity and init containers, because their schemas depend on the cluster's Kubernetes version. The
API server checks the field names when the Job of the plan step is created.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from dataprep_api.spec import DataPrepJobSpec

_UNKNOWN: Final = re.compile(r'unknown field "spec\.template\.spec\.([^"]+)"')
_LISTS: Final = {
    "volumes": "spec.workers.volumes",
    "containers[0].volumeMounts": "spec.workers.volumeMounts",
    "containers[0].env": "spec.workers.env",
    "initContainers": "spec.workers.podTemplate.initContainers",
    "topologySpreadConstraints": "spec.workers.podTemplate.topologySpreadConstraints",
    "hostAliases": "spec.workers.podTemplate.hostAliases",
    "affinity": "spec.workers.affinity",
    "dnsConfig": "spec.workers.podTemplate.dnsConfig",
}
"""Maps a pod's fields to the DataPrepJob's fields from which they are copied."""
_COME_LAST: Final = ("volumes", "containers[0].volumeMounts")
"""The lists in which the operator puts its own items before the user's items."""


def in_the_users_words(message: str, job: Mapping[str, Any], spec: DataPrepJobSpec | None) -> str:
    """Prefix the message with the unknown fields, named as in the user's spec. `job` is the refused Job.

    A message about something else is returned unchanged.
    """
    if spec is None:
        return message
    fields = [_user_field(path, job, spec) for path in _UNKNOWN.findall(message)]
    user_fields = [field for field in fields if field is not None]
    return f"unknown field: {', '.join(user_fields)}. The API server says: {message}" if user_fields else message


def _user_field(path: str, job: Mapping[str, Any], spec: DataPrepJobSpec) -> str | None:
    """Return the field of the spec, such as `spec.workers.volumes[0].persistentVolumClaim`, or None for a field that the operator wrote."""
    name = next((name for name in _LISTS if re.match(rf"{re.escape(name)}[.\[]", path)), None)
    if name is None:
        return None
    rest = path.removeprefix(name)
    if name in _COME_LAST:
        index, rest = re.fullmatch(r"\[(\d+)\](.*)", rest).groups()  # type: ignore[union-attr]  # an item of a list has an index
        own = _count_own(name, job, spec)
        if int(index) < own:
            return None
        rest = f"[{int(index) - own}]{rest}"
    return _LISTS[name] + rest


def _count_own(name: str, job: Mapping[str, Any], spec: DataPrepJobSpec) -> int:
    """Return the number of items that the operator put before the user's items."""
    pod = job["spec"]["template"]["spec"]
    if name == "volumes":
        return len(pod["volumes"]) - len(spec.workers.volumes or [])
    return len(pod["containers"][0]["volumeMounts"]) - len(spec.workers.volume_mounts or [])
