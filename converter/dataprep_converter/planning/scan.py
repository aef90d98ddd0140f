"""Scans a job's source before the job is planned (`runtime/scans.py`).

`divide` and `scan_part` list the source in the same way as the planner, but ignore the units. A source is scanned if its reader class has a
stored form (`readers.HasStoredForm`).
"""

from collections import deque

from dataprep_api import canonical
from dataprep_api.dataset import run_id
from dataprep_api.dataset.messages import MOST_TASKS
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import BadData, BadSpec, NotFound
from dataprep_converter.inputs.access import Access, SkippedFiles
from dataprep_converter.readers import reader_class, stored_form
from dataprep_converter.readers.text import stretches
from dataprep_converter.readers.text_scan import files
from dataprep_converter.runtime.scans import Division, Scan, ScanOfPart


def can_be_scanned(spec: DataPrepJobSpec) -> bool:
    """Whether the job's source can be scanned."""
    return spec.source is not None and stored_form(spec.source.kind) is not None


def digest_of_rules(spec: DataPrepJobSpec) -> str:
    """Returns a digest of everything that determines what is found in a given version of a file. Results with another digest are never
    used."""
    rules = {
        "source": run_id.content(spec)["source"],
        "form": stored_form(spec.data.kind),
        "version": run_id.versions(spec).get(files.TEXT_UNITS, 1),
        "bytes": [stretches.UNIT_BYTES, stretches.LONGEST_RECORD, files.CELL_BYTES],
    }
    return canonical.sha256(rules)[:16]


def divide(spec: DataPrepJobSpec, access: Access, *, part_bytes: int | None = None, most: int | None = None) -> Division:
    """Lists the job's source and divides it into at most `most` parts. `part_bytes` is PART_BYTES by default.

    If the source has a fault, there are no parts, because the planner may find a fault of an earlier file first. Raises the errors of
    stores.
    """
    division = Division() if part_bytes is None else Division(part_bytes=part_bytes)
    try:
        _examine(spec, access, division)
    except (BadData, BadSpec, NotFound):
        return Division()
    division.limit_parts(MOST_TASKS if most is None else most)
    return division


def scan_part(spec: DataPrepJobSpec, access: Access, scan: ScanOfPart) -> None:
    """Examines one part of the source. A file with a fault gets no result, so that the planner examines it again and raises the error."""
    _examine(spec, access, scan)


def _examine(spec: DataPrepJobSpec, access: Access, scan: Scan) -> None:
    if not can_be_scanned(spec):
        return
    access.follow(spec, run_id.versions(spec))
    access.skipped = SkippedFiles()
    access.scan = scan
    files = access.progress.files
    try:
        discovery = reader_class(spec.data.kind).discover(access.unsigned(spec.data).member, access)
        deque(discovery.listing, maxlen=0)
    finally:
        access.scan = None
        # The planner lists the files again.
        access.progress.files = files
