"""The scan step: several processes read the source's text files before the plan step, each of them a part.

The step only saves time. A part that was never scanned, whose results are damaged, or whose files have changed since, is read by the plan
step.
"""

import logging
from functools import partial

from dataprep_api import names
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning.scan import digest_of_rules, is_scanned, scan_part
from dataprep_converter.runtime.scans import Document, Piece, ScannedBefore, ScanOfPart, results_in

logger = logging.getLogger(__name__)


def run_scan_step(spec: DataPrepJobSpec, access: Access, part: int) -> None:
    """Reads one part of the source and stores what was found. Idempotent: a second call reads only what the first call didn't store.

    `planning.scan.count_parts` returns the number of parts.
    """
    folder, path = OutputFolder(spec.output.uri, access), names.scan_file(digest_of_rules(spec), part)
    stored = folder.read(path)
    scan = ScanOfPart(part, earlier=results_in(stored) if stored is not None else {})
    scan_part(spec, access, scan)
    content = scan.to_bytes()
    if content != stored:
        folder.put_hidden(path, content)


def scanned_before(spec: DataPrepJobSpec, access: Access) -> ScannedBefore | None:
    """The stored results of a scan for the planner, or None for a source that is never scanned."""
    return ScannedBefore(partial(_load, spec, access)) if is_scanned(spec) else None


def remove_scan(spec: DataPrepJobSpec, access: Access) -> None:
    """Removes the results of a scan."""
    folder = OutputFolder(spec.output.uri, access)
    for path in folder.scan_files(digest_of_rules(spec)):
        folder.delete(path)


def _load(spec: DataPrepJobSpec, access: Access) -> dict[Piece, Document]:
    folder = OutputFolder(spec.output.uri, access)
    results: dict[Piece, Document] = {}
    for path in folder.scan_files(digest_of_rules(spec)):
        found = results_in(folder.read(path) or b"")
        if not found:
            logger.warning("%s is damaged or empty; its part of the source is read again", folder.at(path))
        results |= found
    return results
