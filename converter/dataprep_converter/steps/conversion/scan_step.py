"""The scan step: several processes examine the source's files before the plan step, each process one part.

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
from dataprep_converter.runtime import plugins, scans
from dataprep_converter.runtime.ahead import mapped_ahead
from dataprep_converter.runtime.scan_results import FILES_AT_ONCE, StoredResults
from dataprep_converter.runtime.scans import Division, Document, Piece, Results, ScannedBefore, ScanOfPart, results_in
from dataprep_converter.steps.plan_step import check_stores, refuse_finished

logger = logging.getLogger(__name__)

_DIGITS: Final = 28
"""How many digits of the listing's digest are part of a scan's name."""
_NAME: Final = re.compile("[0-9a-f]{56}")
"""The name of a scan: the digest of its rules (16 digits), the digest of its listing, and `Division.part_bytes` (12 digits). So all pods of
the scan divide the source exactly as the plan pod did, even if their release would choose another length. If a release changes the rules of
the division, the digest of the rules changes."""


def scan_request(job: DataPrepJob, access: Access) -> ScanRequest | None:
    """Returns the request for a scan by several pods, or None if this process can examine the source itself.

    Also returns None if the output's store keeps removed files, because the results would then occupy space in this store forever. Raises
    OutputExists when the output must not be replaced, and the errors of `check_stores` and of stores.
    """
    if not can_be_scanned(job.spec) or OutputFolder(job.spec.output.uri, access).keeps_removed_files:
        return None
    check_stores(job, access)
    division = divide(job.spec, access)
    if division.bytes <= scans.PART_BYTES or division.parts < 2:
        return None
    refuse_finished(job.spec, access)
    scan = f"{digest_of_rules(job.spec)}{division.digest()[:_DIGITS]}{division.part_bytes:012x}"
    return ScanRequest(scan=scan, parts=division.parts, code_commit=plugins.commit())


def run_scan_step(spec: DataPrepJobSpec, access: Access, part: int, *, scan: str) -> None:
    """Examines one part of the source and stores what was found. Idempotent: a second call examines only the pieces without a stored
    result.

    `scan` is the name of the scan in its ScanRequest. Raises BadSpec for any other text.
    """
    division = _division(spec, scan)
    folder, file = OutputFolder(spec.output.uri, access), partial(names.scan_file, digest_of_rules(spec), part)
    stored = list(takewhile(lambda path: folder.read(path) is not None, map(file, count())))
    numbers = count()

    def store(content: bytes) -> None:
        path = file(next(numbers))
        if path not in stored or folder.read(path) != content:
            folder.put_hidden(path, content)

    examination = ScanOfPart(part, earlier=_results_in_files(folder, stored), division=division, store=store)
    scan_part(spec, access, examination)
    store(examination.to_bytes())


def _division(spec: DataPrepJobSpec, scan: str) -> Division:
    """Returns the division of the source by the scan of this name, without any pieces yet."""
    if _NAME.fullmatch(scan) is None:
        raise BadSpec(f"Expected the name of a scan, 56 hexadecimal digits as reported by the plan step, got {scan!r}.")
    if scan[:16] != digest_of_rules(spec):
        # The step may run in a newer release than the plan step. The merge step then runs in the newer release, too.
        logger.warning("the job's source, or this release of dataprep, is not that of the scan %s", scan)
    return Division(max(1, int(scan[-12:], 16)))


def scanned_before(spec: DataPrepJobSpec, access: Access) -> ScannedBefore | None:
    """Returns the stored results of a scan for the planner, or None for a source that is never scanned."""
    return ScannedBefore(partial(_results, spec, access)) if can_be_scanned(spec) else None


def remove_scan(spec: DataPrepJobSpec, access: Access) -> None:
    """Removes the stored results of a scan."""
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
        found = results_in(folder.read(path) or b"")
        if not found:
            logger.warning("%s is damaged or empty; its files of the source are read again", folder.at(path))
        return found

    return StoredResults(files, read)
