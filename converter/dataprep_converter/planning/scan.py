"""Scans a job's source before the job is planned (`runtime/scans.py`).

`divide` lists the source in the same way as the planner, but ignores the units. `scan_part` reads the stored listing (`scan_listing.py`).
If there is none, it lists the source as `divide` does. A source is scanned if its reader class has a stored form (`readers.HasStoredForm`).
"""

from collections import deque
from typing import Final

from dataprep_api import canonical
from dataprep_api.dataset import run_id
from dataprep_api.dataset.messages import MOST_TASKS
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import BadData, BadSpec, NotFound
from dataprep_converter.inputs.access import Access, SkippedFiles
from dataprep_converter.planning.scan_listing import NewListing
from dataprep_converter.readers import reader_class, stored_form
from dataprep_converter.readers.text import stretches
from dataprep_converter.readers.text_scan import files
from dataprep_converter.runtime import scans
from dataprep_converter.runtime.scans import Division, Scan, ScanOfPart

_DIVISION: Final = 2
"""The version of the rules by which `runtime/scans.py` divides a source into parts."""


def can_be_scanned(spec: DataPrepJobSpec) -> bool:
    """Whether the job's source can be scanned."""
    return spec.source is not None and stored_form(spec.source.kind) is not None


def digest_of_rules(spec: DataPrepJobSpec) -> str:
    """Returns a digest of the rules that determine a scan's results and its division into parts. Stored results with a different digest are
    never used."""
    rules = {
        "source": run_id.content(spec)["source"],
        "form": stored_form(spec.data.kind),
        "version": run_id.versions(spec).get(files.TEXT_UNITS, 1),
        "division": _DIVISION,
        "bytes": [stretches.UNIT_BYTES, stretches.LONGEST_RECORD, files.CELL_BYTES],
    }
    return canonical.sha256(rules)[:16]


def divide(spec: DataPrepJobSpec, access: Access, *, most: int | None = None, listing: NewListing | None = None) -> Division:
    """Lists the job's source and divides it into at most `most` parts. The default of `most` is `most_parts` for the job's pods. If
    `listing` is given, adds the pieces of the source (its files and cells) to the listing.

    If the source has a fault, returns no parts instead of raising an error: the planner reports faults, and might find another one in an
    earlier file. Errors of stores are raised.
    """
    division = Division(keep=listing.add if listing is not None else None)
    try:
        _examine(spec, access, division)
    except (BadData, BadSpec, NotFound):
        return Division()
    division.divide_into(most or most_parts(division.length, pods=spec.workers.parallelism))
    return division


def most_parts(length: int, *, pods: int) -> int:
    """Returns the maximum number of parts of a scan.

    This is the smallest multiple of `pods` that keeps the average part at or below PART_BYTES. If that would be more than MOST_TASKS parts,
    returns the largest multiple up to MOST_TASKS, but at least `pods`.

    So all pods are busy until the end, unless `divide_into` makes fewer parts to avoid very short ones. There are as few parts as possible,
    because a pod has to start for each part.
    """
    parts_of_a_pod = min(-(-length // (pods * scans.PART_BYTES)), MOST_TASKS // pods)
    return pods * max(1, parts_of_a_pod)


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
