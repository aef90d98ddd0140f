"""The scan step: several processes examine the source's files before the plan step, each of them a part.

The step only saves time. A part that was never scanned, whose results are damaged, or whose files have changed since, is examined by the
plan step.
"""

import logging
from functools import partial

from dataprep_api import names
from dataprep_api.dataset.messages import ScanRequest
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning.scan import digest_of_rules, divide, is_scanned, scan_part
from dataprep_converter.runtime import plugins
from dataprep_converter.runtime.scan_results import StoredResults
from dataprep_converter.runtime.scans import Division, Document, Piece, Results, ScannedBefore, ScanOfPart, results_in
from dataprep_converter.steps.plan_step import check_stores

logger = logging.getLogger(__name__)

_DIGITS = 32
"""The number of digits of the listing's digest in the name of a scan."""


def scan_request(job: DataPrepJob, access: Access) -> ScanRequest | None:
    """Returns the request for a scan by several pods, or None if this process can examine the source itself.

    The results of a scan would take space for good in a store that keeps removed files, so there is none if the output is in such a store.

    Raises the errors of the plan step that need no plan, before any pod reads the source.
    """
    if not is_scanned(job.spec) or OutputFolder(job.spec.output.uri, access).keeps_removed_files:
        return None
    check_stores(job, access)
    division = divide(job.spec, access)
    if division.parts < 2:
        return None
    scan = f"{digest_of_rules(job.spec)}{division.digest()[:_DIGITS]}{division.group:08x}"
    return ScanRequest(scan=scan, parts=division.parts, code_commit=plugins.commit())


def run_scan_step(spec: DataPrepJobSpec, access: Access, part: int, *, scan: str) -> None:
    """Examines one part of the source and stores what was found. Idempotent: a second call examines only what the first call didn't store.

    `scan` is the name of the scan in its ScanRequest.
    """
    folder, path = OutputFolder(spec.output.uri, access), names.scan_file(digest_of_rules(spec), part)
    stored = folder.read(path)
    earlier = results_in(stored) if stored is not None else {}
    examination = ScanOfPart(part, earlier=earlier, division=Division(group=max(1, int(scan[-8:], 16))))
    scan_part(spec, access, examination)
    content = examination.to_bytes()
    if content != stored:
        folder.put_hidden(path, content)


def scanned_before(spec: DataPrepJobSpec, access: Access) -> ScannedBefore | None:
    """The results of a scan for the planner, or None for a source that is never scanned."""
    return ScannedBefore(partial(_results, spec, access)) if is_scanned(spec) else None


def remove_scan(spec: DataPrepJobSpec, access: Access) -> None:
    """Removes the results of a scan."""
    folder = OutputFolder(spec.output.uri, access)
    for path in folder.scan_files(digest_of_rules(spec)):
        folder.delete(path)


def _results(spec: DataPrepJobSpec, access: Access) -> Results:
    if access.scanned_here:
        return access.scanned_here
    folder = OutputFolder(spec.output.uri, access)

    def read(path: str) -> dict[Piece, Document]:
        found = results_in(folder.read(path) or b"")
        if not found:
            logger.warning("%s is damaged or empty; its part of the source is read again", folder.at(path))
        return found

    return StoredResults(folder.scan_files(digest_of_rules(spec)), read)
