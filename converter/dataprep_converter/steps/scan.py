"""The scan and merge steps: several pods scan the input in parts, and one pod makes the plan from their results.

The plan step asks for a scan with a ScanRequest if the environment variable `names.MAY_SCAN` allows it.
"""

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps.plan_step import PlannedRun


def scan_part(job: DataPrepJob, access: Access, scan: str, index: int) -> None:
    """Scans one part of the input and stores its result. Idempotent: a part whose result is stored is skipped."""
    raise NotImplementedError(f"This release can't scan part {index} of the scan {scan} of {job.metadata.name}.")


def planned_with(job: DataPrepJob, access: Access, scan: str) -> PlannedRun:
    """Makes the plan from the stored results of a scan, and claims the output folder as the plan step does."""
    raise NotImplementedError(f"This release can't plan {job.metadata.name} with the scan {scan}.")
