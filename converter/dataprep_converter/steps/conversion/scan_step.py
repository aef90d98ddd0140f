"""The scan step: before the plan step, several processes examine the source's files. Each process examines one part.

The step only saves time. If results are missing or damaged, or if files have changed since they were scanned, the plan step examines these
files itself.
"""

import logging
import re
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from itertools import count, takewhile
from typing import Final

from dataprep_api import names
from dataprep_api.dataset.messages import ScanRequest
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning.scan import can_be_scanned, digest_of_rules, divide, scan_part
from dataprep_converter.planning.scan_listing import ListingOfPart, NewListing, read_listing
from dataprep_converter.runtime import plugins, scans
from dataprep_converter.runtime.ahead import mapped_ahead
from dataprep_converter.runtime.scan_results import FILES_AT_ONCE, StoredResults
from dataprep_converter.runtime.scans import Division, Document, Piece, Results, ScannedBefore, ScanOfPart, results_in
from dataprep_converter.steps.plan_step import check_stores, refuse_finished

logger = logging.getLogger(__name__)

_RULE_DIGITS: Final = 16
_DIGITS: Final = 28
"""How many digits of the listing's digest are part of a scan's name."""
_NAME: Final = re.compile("[0-9a-f]{56}")
"""The name of a scan: the digest of its rules (16 digits), the digest of its listing, and `Division.part_bytes` (12 digits). So all pods
of the scan read the stored listing, and divide the source as the plan pod did. This also holds for pods that run in a release that would
choose another length of the parts. If a release changes the rules of the division, the digest of the rules changes."""


def scan_request(job: DataPrepJob, access: Access) -> ScanRequest | None:
    """Returns the request for a scan by several pods, or None if this process can examine the source itself. Before the request is returned,
    the listing of the source is stored for these pods.

    Also returns None if the output's store keeps removed files, because the results would then occupy space in this store forever. Raises
    OutputExists when the output must not be replaced, and the errors of `check_stores` and of stores.
    """
    if not can_be_scanned(job.spec) or OutputFolder(job.spec.output.uri, access).keeps_removed_files:
        return None
    check_stores(job, access)
    with NewListing() as listing:
        division = divide(job.spec, access, listing=listing)
        if division.bytes <= scans.PART_BYTES or division.parts < 2:
            return None
        refuse_finished(job.spec, access)
        scan = name_of(job.spec, division)
        listing.put(OutputFolder(job.spec.output.uri, access), listing_of(scan))
    return ScanRequest(scan=scan, parts=division.parts, code_commit=plugins.commit())


def name_of(spec: DataPrepJobSpec, division: Division) -> str:
    """Returns the name of a scan."""
    return f"{digest_of_rules(spec)}{division.digest()[:_DIGITS]}{division.part_bytes:012x}"


def listing_of(scan: str) -> str:
    """Returns the path of the stored listing of the scan with this name."""
    return names.scan_listing(scan[:_RULE_DIGITS], scan[_RULE_DIGITS : _RULE_DIGITS + _DIGITS])


def run_scan_step(spec: DataPrepJobSpec, access: Access, part: int, *, scan: str) -> None:
    """Examines one part of the source and stores the results. Idempotent: a second call examines only the files and cells without a stored
    result.

    `scan` is the name of the scan in its ScanRequest. Raises BadSpec if `scan` isn't such a name.
    """
    folder, file = OutputFolder(spec.output.uri, access), partial(names.scan_file, digest_of_rules(spec), part)
    stored = list(takewhile(lambda path: folder.read(path) is not None, map(file, count())))
    numbers = count()

    def store(content: bytes) -> None:
        path = file(next(numbers))
        if path not in stored or folder.read(path) != content:
            folder.put_hidden(path, content)

    with _listing(spec, folder, part, scan) as listing:
        earlier = _results_in_files(folder, stored)
        examination = ScanOfPart(part, earlier=earlier, division=listing.division, stored_listing=listing.pieces, store=store)
        scan_part(spec, access, examination)
    store(examination.to_bytes())


def _listing(spec: DataPrepJobSpec, folder: OutputFolder, part: int, scan: str) -> ListingOfPart:
    """Returns the data that the part needs from the stored listing of the scan with this name."""
    if _NAME.fullmatch(scan) is None:
        raise BadSpec(f"Expected the name of a scan, 56 hexadecimal digits as reported by the plan step, got {scan!r}.")
    part_bytes = max(1, int(scan[-12:], 16))
    if scan[:_RULE_DIGITS] != digest_of_rules(spec):
        # This step may run a newer release than the plan step. The merge step will then run the newer release, too.
        logger.warning("the scan %s was made for another source, or by another release of dataprep", scan)
        return ListingOfPart(part_bytes)
    return read_listing(folder, listing_of(scan), part, part_bytes=part_bytes)


def scanned_before(spec: DataPrepJobSpec, access: Access) -> ScannedBefore | None:
    """Returns the stored results of a scan for the planner, or None for a source that is never scanned."""
    return ScannedBefore(partial(_results, spec, access)) if can_be_scanned(spec) else None


def remove_scan(spec: DataPrepJobSpec, access: Access) -> None:
    """Removes the stored listing and results of a scan."""
    folder = OutputFolder(spec.output.uri, access)
    with closing(mapped_ahead(folder.delete, folder.scan_files(digest_of_rules(spec)), most=FILES_AT_ONCE)) as removals:
        deque(removals, maxlen=0)


def _results(spec: DataPrepJobSpec, access: Access) -> Results:
    if access.scanned_here:
        return access.scanned_here
    folder = OutputFolder(spec.output.uri, access)
    return _results_in_files(folder, folder.scan_files(digest_of_rules(spec)))


def _results_in_files(folder: OutputFolder, files: Sequence[str]) -> Results:
    def read(path: str) -> dict[Piece, Document]:
        if names.is_of_scan_listing(path):
            return {}
        found = results_in(folder.read(path) or b"")
        if not found:
            logger.warning("%s is damaged or empty, so the files whose results it should contain are read again", folder.at(path))
        return found

    return StoredResults(files, read)
