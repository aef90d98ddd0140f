"""The scan on one machine: several processes examine a large source before `dataprep run` plans the job.

Each process examines parts of the source, like a pod of a scan. Unlike a pod, the process stores the results in `$TMPDIR`, where they are
kept until the job is planned. The scan only saves time. If a part has an error, or if its process was killed too often, the plan step
examines the part itself, and raises the same error as without a scan.
"""

import logging
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import ConvertError
from dataprep_converter.dataset.stored_folder import StoredFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning.scan import can_be_scanned, divide, scan_part
from dataprep_converter.planning.scan_listing import NewListing, read_listing
from dataprep_converter.runtime import ahead, scans
from dataprep_converter.runtime.scanned_here import ScannedHere
from dataprep_converter.runtime.scans import Division, ScanOfPart
from dataprep_converter.steps.kinds import Watch
from dataprep_converter.steps.plan_step import refuse_finished
from dataprep_converter.steps.processes import MOST_RESTARTS, DoTask, may_hang, run_in_processes

logger = logging.getLogger(__name__)

_PARTS_OF_A_PROCESS: Final = 4
"""Each process examines at most about this many parts, so that all processes end at about the same time."""
_LISTING: Final = "listing"
"""The path of the stored listing in its temporary folder."""


def scan_here(job: DataPrepJob, *, access: Access, workers: int, watch: Watch) -> None:
    """Scans a source of more than PART_BYTES in several processes. `access` keeps the results for the planner.

    Raises OutputExists when the output must not be replaced, and the errors of stores.
    """
    if workers < 2 or not can_be_scanned(job.spec):
        return
    with ExitStack() as cleanup:
        listing = cleanup.enter_context(NewListing())
        division = divide(job.spec, access, most=workers * _PARTS_OF_A_PROCESS, listing=listing)
        if division.bytes <= scans.PART_BYTES or division.parts < 2:
            return
        refuse_finished(job.spec, access)
        listed = Path(cleanup.enter_context(TemporaryDirectory(prefix="dataprep-listing-")))
        listing.put(StoredFolder(str(listed), access), _LISTING)
        _scan_listed(job, division, access, listed, workers=workers, watch=watch)


def _scan_listed(job: DataPrepJob, division: Division, access: Access, listed: Path, *, workers: int, watch: Watch) -> None:
    """Scans a source whose listing is stored in the folder `listed`."""
    progress, scanned = access.progress, dict[int, int]()
    progress.scanned, progress.to_scan = 0, division.bytes

    def show(part: int, size: int) -> None:
        scanned[part] = size
        progress.scanned = sum(scanned.values())
        watch.scanned(progress)

    try:
        with ExitStack() as cleanup:
            folder = Path(cleanup.enter_context(TemporaryDirectory(prefix="dataprep-scan-")))
            parts = _Parts(job.spec, division.part_bytes, listed, folder)
            _scan_parts(job, parts, division.parts, access, workers=workers, show=show)
            access.scanned_here = ScannedHere(folder, cleanup.pop_all())
    finally:
        progress.to_scan = 0


def _scan_parts(job: DataPrepJob, parts: "_Parts", count: int, access: Access, *, workers: int, show: Callable[[int, int], None]) -> None:
    """Examines all parts. The tasks store the results in the folder of `parts`."""
    remaining = list(range(count))
    for restarts in range(1 + MOST_RESTARTS):
        own = None if may_hang(job) or restarts else parts.begin(access)
        done = run_in_processes(job, parts, remaining, access, own=own, workers=workers, watch=show, stops_at_error=False, publishes=False)
        remaining = [part for part in remaining if part not in done.results]
        if not done.errors:
            break
        error = done.errors[0]
        if not isinstance(error, BrokenProcessPool):
            # An error of the source will occur again in the plan step. Any other error, such as a lack of memory in one of the processes,
            # may not occur again.
            level = logging.INFO if isinstance(error, ConvertError) else logging.WARNING
            logger.log(level, "the scan ended early, and the plan step reads the rest: %s", str(error) or repr(error))
            break
        if restarts < MOST_RESTARTS:
            logger.warning("a process was killed; its part of the scan is tried again (%d of %d)", restarts + 1, MOST_RESTARTS)
        else:
            logger.warning("processes were killed %d times; they may have run out of memory. This process reads the rest.", restarts + 1)


@dataclass(frozen=True)
class _Parts:
    """The parts of a source, as `Tasks`. A task reports its progress in bytes, and stores its results as files in the folder."""

    spec: DataPrepJobSpec
    part_bytes: int
    listed: Path
    """The folder with the stored listing of the source."""
    folder: Path

    def begin(self, access: Access, *, is_stopped: Callable[[], bool] | None = None) -> DoTask[int, None]:
        """See `Tasks`."""
        if is_stopped is not None:
            ahead.end_when(is_stopped)

        def do(part: int, tell: Callable[[int], None]) -> None:
            numbers = count()

            def store(content: bytes) -> None:
                (self.folder / f"{part}-{next(numbers)}").write_bytes(content)

            with read_listing(StoredFolder(str(self.listed), access), _LISTING, part, part_bytes=self.part_bytes) as listing:
                examination = ScanOfPart(part, division=listing.division, stored_listing=listing.pieces, watch=tell, store=store)
                scan_part(self.spec, access, examination)
            store(examination.to_bytes())

        return do
