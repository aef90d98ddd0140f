"""The program in `tests/cluster/go/argo`, which checks WorkflowTemplates and waits for resources with Argo's own packages."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.availability import unavailable

from storeservers import cache

ROOT = Path(__file__).resolve().parents[2]
_MODULE = ROOT / "tests/cluster/go/argo"


def argo(*arguments: str | Path) -> Any:
    """Run the program with these arguments, and return its JSON output. The first call builds the program, which takes minutes."""
    try:
        key = cache.key_of(*(_MODULE / name for name in ("go.mod", "go.sum", "main.go")))
        program = cache.entry(f"bin-argo-{key}", _build) / "argo"
    except (cache.BuildFailed, FileNotFoundError) as exc:
        unavailable(f"Argo's packages can't be built: {exc}")
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout)


def _build(into: Path) -> None:
    command = ["go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", str(into / "argo"), "."]
    cache.build(command, cwd=_MODULE, environment={"CGO_ENABLED": "0", "GOWORK": "off"})
