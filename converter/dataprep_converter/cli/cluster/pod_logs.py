"""`dataprep logs`: the logs of a job's pods."""

import subprocess
import sys

from dataprep_api import names
from dataprep_api.exits import Exit
from dataprep_converter.cli.cluster import kubectl
from dataprep_converter.core.errors import NotFound


def show(job: str, *, namespace: str | None, failed: bool, follow: bool) -> Exit:
    """Prints each pod's name and log, oldest pod first. Raises NotFound if there are no pods to show."""
    pod_list = kubectl.get("pods", "--selector", f"{names.LABEL_JOB}={names.label_value(job)}", namespace=namespace)
    pods = sorted(pod_list["items"], key=lambda pod: pod["metadata"]["creationTimestamp"])
    pod_names = [pod["metadata"]["name"] for pod in pods if not failed or pod.get("status", {}).get("phase") == "Failed"]
    if not pod_names:
        raise NotFound(f"The job {job} has no {'failed ' if failed else ''}pods; a cleanup rule may have removed them.")
    worst = 0
    for name in pod_names:
        sys.stdout.write(f"==> {name}\n")
        sys.stdout.flush()
        command = [kubectl.program(), "logs", name, *kubectl.scope(namespace), *(["--follow"] if follow else [])]
        # A program in a pod can print anything, so write its log to our own output stream, which escapes control sequences.
        with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8", errors="backslashreplace") as process:  # noqa: S603  # a list, no shell
            for line in process.stdout or ():
                sys.stdout.write(line)
                sys.stdout.flush()
        worst = max(worst, process.returncode)
    return Exit.DONE if worst == 0 else Exit.NOT_FOUND
