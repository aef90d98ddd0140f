"""The program in `tests/cluster/go/health`, which derives an object's health from its status, with the code of kstatus and of Argo CD."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from storeservers import cache

ROOT = Path(__file__).parents[2]
_MODULE = ROOT / "tests/cluster/go/health"
_SCRIPT = ROOT / "charts/dataprep-operator/files/argocd/health.lua"


def program() -> Path:
    """Return the program's path. The first call on a machine builds the program."""
    key = cache.key_of(_MODULE / "go.mod", _MODULE / "go.sum", _MODULE / "main.go")
    return cache.entry(f"bin-health-{key}", _build) / "health"


def _build(into: Path) -> None:
    cache.build(["go", "build", "-mod=readonly", "-trimpath", "-o", str(into / "health"), "."], cwd=_MODULE)


def health_of(objects: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the (kstatus, Argo CD health) of each object."""
    command = [program(), _SCRIPT]
    answer = subprocess.run(command, input=json.dumps(list(objects)), capture_output=True, text=True, check=True, timeout=60)
    return [(each["kstatus"], each["health"]) for each in json.loads(answer.stdout)]
