"""Pods that run a user's program, with the Python API and a service account."""

import shutil
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from workbench.installation import CONVERTER_IMAGE, ROOT, TAG
from workbench.jobs import Document, Namespace
from workbench.stores import Stores, mount

OURS: Final = ("dataprep_io", "dataprep_frames")
CLIENT: Final = ("kubernetes", "aiohttp_retry", "dateutil", "durationpy", "websocket", "oauthlib", "requests_oauthlib")
"""The Kubernetes client, and those of its libraries that the converter's image lacks. They contain only Python code."""
UNFINISHED: Final = "*.pyc.*"
"""Byte code that another process is still writing. Python renames the file once it's complete, so a copy might not find it."""


def program_pod(namespace: Namespace, stores: Stores, name: str, *words: str, account: str) -> Document:
    """A pod that runs `python3` with these arguments. It meets the Pod Security Standard `restricted`.

    It uses the converter's image. The packages that a user would add to this image are in the shared folder.
    """
    libraries = stores.volume / f"{namespace.name}-libraries"
    installed = Path(str(distribution("kubernetes").locate_file("")))
    for package in (*(ROOT / "converter" / ours for ours in OURS), *(installed / client for client in CLIENT)):
        _copy(package, libraries)
    mounted = mount(namespace, stores)
    container = {
        "name": "program",
        "image": f"{CONVERTER_IMAGE}:{TAG}",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", *words],
        "env": [{"name": "PYTHONPATH", "value": f"/data/{libraries.name}"}],
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, *mounted["workers__volumeMounts"]],  # noqa: S108 - a path in the pod
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    spec = {
        "serviceAccountName": account,
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}, *mounted["workers__volumes"]],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _copy(package: Path, folder: Path) -> None:
    """Copies a package and its byte code, which stays valid because the times of the files stay the same. Others may read the copy."""
    shutil.copytree(package, folder / package.name, ignore=shutil.ignore_patterns(UNFINISHED))
    for path in (folder, folder / package.name, *(folder / package.name).rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
