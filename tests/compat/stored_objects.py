"""The stored custom resources and their children. They are keyed by the moment at which they were captured."""

import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.operator.world import NAMESPACE, World

from dataprep_api.generate import crd
from dataprep_operator.settings import PodDefaults

FILES = sorted(Path(__file__).parent.glob("objects-*.json.xz"))
STORED: dict[str, list[tuple[str, Any]]] = {
    moment: objects for file in FILES for moment, objects in json.loads(lzma.decompress(file.read_bytes())).items()
}
"""(plural, object) by moment. Children have six digits of the uid in their names."""


def at(moment: str, *, changed: Callable[[str], str] = str, **settings: Any) -> World:
    """A cluster with the earlier release's objects at this moment, and with this release's operator. `changed` edits the objects' JSON."""
    world = World(pods=PodDefaults(image="dataprep:2", **settings.pop("pods", {})), **settings)
    world.cluster._version = 1000
    for plural, body in json.loads(changed(json.dumps(STORED[moment]))):
        world.cluster.objects[(plural, NAMESPACE, body["metadata"]["name"])] = body
    world.restart()
    return world


def children(world: World, plural: str = "jobs") -> list[str]:
    return sorted(name for each, _, name in world.cluster.objects if each == plural)


DEFINITIONS = {"dataprepjobs": crd.crd, "dataprepcronjobs": crd.cron_crd, "dataprepprofiles": crd.profile_crd}
RESOURCES = {
    f"{moment} {body['metadata']['name']}": (plural, body)
    for moment, objects in STORED.items()
    for plural, body in objects
    if plural in DEFINITIONS
}


def without_summary(status: dict[str, Any]) -> dict[str, Any]:
    """Return the status without the conditions that summarize it, which earlier releases didn't write."""
    kept = [condition for condition in status["conditions"] if condition["type"] not in ("Ready", "Stalled")]
    return status | {"conditions": kept}
