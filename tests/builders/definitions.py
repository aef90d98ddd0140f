"""CustomResourceDefinitions as a later release might define them."""

import copy
from collections.abc import Iterator
from typing import Any

SHARED_LISTS: dict[str, tuple[str, list[str]]] = {
    "spec.stores": ("map", ["uriPrefix"]),
    "spec.runAfter": ("set", []),
    "spec.workers.env": ("map", ["name"]),
    "spec.workers.imagePullSecrets": ("map", ["name"]),
    "spec.workers.volumes": ("map", ["name"]),
    "spec.workers.volumeMounts": ("map", ["mountPath"]),
    "spec.workers.podTemplate.initContainers": ("map", ["name"]),
    "spec.workers.podTemplate.topologySpreadConstraints": ("map", ["topologyKey", "whenUnsatisfiable"]),
    "spec.workers.podTemplate.hostAliases": ("map", ["ip"]),
    "status.conditions": ("map", ["type"]),
}
"""The lists whose items can belong to different managers. docs/gitops.md gives the reasons."""


def with_second_version(definition: dict[str, Any]) -> dict[str, Any]:  # Any: YAML
    """Return the definition with a copy of its version under the name v1beta1."""
    whole = copy.deepcopy(definition)
    (version,) = whole["spec"]["versions"]
    whole["spec"]["versions"].append(version | {"name": "v1beta1", "storage": False})
    return whole


def every_schema(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield `schema` and all nested schemas, each with its path."""
    yield path, schema
    for name, member in schema.get("properties", {}).items():
        yield from every_schema(member, f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if inner in schema:
            yield from every_schema(schema[inner], f"{path}.{inner}")
