"""`dataprep logs`: the logs of a job's pods, through the user's own kubectl and its rights."""

import json
import shutil
import subprocess
import sys

from dataprep_api import names
from dataprep_api.exits import Exit
from dataprep_converter.errors import BadSpec, NotFound


def show(job: str, *, namespace: str | None, failed: bool, follow: bool) -> Exit:
    """Prints each pod's name and log, oldest first. Raises NotFound when the job has no pods (any more)."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise BadSpec("dataprep logs needs kubectl on the PATH.")
    scope = ["--namespace", namespace] if namespace else []
    listed = subprocess.run(  # noqa: S603  # the arguments are a list, no shell
        [kubectl, "get", "pods", *scope, "--selector", f"{names.LABEL_JOB}={names.label_value(job)}", "--output", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        raise NotFound(f"kubectl get pods: {listed.stderr.strip()}")
    pods = sorted(json.loads(listed.stdout)["items"], key=lambda pod: pod["metadata"]["creationTimestamp"])
    chosen = [pod["metadata"]["name"] for pod in pods if not failed or pod.get("status", {}).get("phase") == "Failed"]
    if not chosen:
        raise NotFound(f"The job {job} has no {'failed ' if failed else ''}pods; a cleanup rule may have removed them.")
    worst = 0
    for name in chosen:
        sys.stdout.write(f"==> {name}\n")
        sys.stdout.flush()
        command = [kubectl, "logs", *scope, name, *(["--follow"] if follow else [])]
        worst = max(worst, subprocess.run(command, check=False).returncode)  # noqa: S603  # the arguments are a list, no shell
    return Exit.DONE if worst == 0 else Exit.NOT_FOUND
