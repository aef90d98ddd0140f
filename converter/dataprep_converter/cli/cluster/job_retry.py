"""`dataprep retry`: retries a failed job. The retry makes only the missing files."""

from datetime import UTC, datetime

from dataprep_api import PLURAL, names
from dataprep_converter.cli.cluster import kubectl
from dataprep_converter.core.errors import BadSpec


def retry(job: str, *, namespace: str | None) -> str:
    """Requests a retry and returns a message. Raises BadSpec if the job hasn't failed, NotFound if there is no such job."""
    status = kubectl.get(PLURAL, job, namespace=namespace).get("status") or {}
    phase = status.get("phase") or "new"
    if phase != "Failed":
        raise BadSpec(f"{job} is {phase}: only a failed job can be retried.")
    wish = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    kubectl.run("annotate", PLURAL, job, f"{names.ANNOTATION_RETRY}={wish}", "--overwrite", namespace=namespace)
    why = next((condition["message"] for condition in status.get("conditions") or [] if condition["type"] == "Failed"), "")
    return f"{job} will be retried; it had failed with: {why}\n"
