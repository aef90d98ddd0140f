"""Renders the chart with Helm, and finds objects in Helm's output."""

import functools
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "charts" / "dataprep-operator"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML's C loader, if it is available. It takes a sixth of the time that the Python loader takes."""
WITHOUT_CRDS: dict[str, object] = {"crds": {"install": False}}
Objects = Sequence[dict[str, Any]]  # Any: Kubernetes objects as Helm renders them.
Render = Callable[..., Objects]


def run(helm: Path, *words: str | Path, values: Mapping[str, object] | None = None) -> subprocess.CompletedProcess[str]:
    command = [helm, *words, "--values=-"]
    return subprocess.run(command, input=json.dumps(values or {}), capture_output=True, text=True, check=False, timeout=60)


@functools.cache
def template_output(helm: Path, values: str) -> str:
    """Return the objects that the chart renders, as YAML. `values` is JSON."""
    done = run(helm, "template", "dp", str(CHART), "--namespace=dataprep", values=json.loads(values))
    assert done.returncode == 0, done.stderr
    return done.stdout


def of_kind(objects: Objects, *kinds: str) -> list[dict[str, Any]]:
    return [each for each in objects if each["kind"] in kinds]


def the(objects: Objects, kind: str) -> dict[str, Any]:
    (found,) = of_kind(objects, kind)
    return found


def environment(objects: Objects) -> dict[str, str]:
    container, *_ = the(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry.get("value", "") for entry in container["env"]}


NAMESPACED = WITHOUT_CRDS | {"namespaces": ["team-a", "team-b"]}
