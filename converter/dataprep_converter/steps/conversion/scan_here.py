"""The scan on one machine: several processes examine a large source before `dataprep run` plans the job.

They examine parts of the source, like the pods of a scan. But their results aren't stored: they stay in the memory of the process that
plans. The scan only saves time. If a part has an error, or if its process was killed too often, the plan step examines the part, and raises
the same error as without a scan.
"""

import logging
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Final

from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import ConvertError
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning.scan import divide, is_scanned, scan_part
from dataprep_converter.runtime import ahead, scans
from dataprep_converter.runtime.scans import Division, Document, Piece, ScanOfPart, results_in
from dataprep_converter.steps.kinds import Watch
from dataprep_converter.steps.processes import MOST_RESTARTS, DoTask, may_hang, run_in_processes

logger = logging.getLogger(__name__)

_PARTS_OF_A_PROCESS: Final = 4
"""Each process examines about this many parts, so that all processes end at about the same time. With more parts, the source would only be
listed more often."""
_MOST_PIECES: Final = 200_000
"""For more pieces, one process plans alone. The results of this many pieces take about 300 MiB."""


def scan_here(job: DataPrepJob, *, access: Access, workers: int, watch: Watch) -> None:
    """Scans a source of more than PART_BYTES in several processes. `access` keeps the results for the planner.

    Raises the errors that the plan step raises before it reads files.
    """
    if workers < 2 or not is_scanned(job.spec):
        return
    most = workers * _PARTS_OF_A_PROCESS
    division = divide(job.spec, access, part_bytes=scans.PART_BYTES // _PARTS_OF_A_PROCESS, most=most)
    if division.bytes <= scans.PART_BYTES or division.parts < 2 or division.pieces > _MOST_PIECES:
        return
    progress, scanned = access.progress, dict[int, int]()
    progress.scanned, progress.to_scan = 0, division.bytes

    def show(part: int, size: int) -> None:
        scanned[part] = size
        progress.scanned = sum(scanned.values())
        watch.scanned(progress)

    try:
        access.scanned_here = _results(job, division, access, workers=workers, show=show)
    finally:
        progress.to_scan = 0


def _results(
    job: DataPrepJob, division: Division, access: Access, *, workers: int, show: Callable[[int, int], None]
) -> dict[Piece, Document]:
    parts = _Parts(job.spec, division.part_bytes, division.group)
    found: dict[Piece, Document] = {}
    remaining = list(range(division.parts))
    for restarts in range(1 + MOST_RESTARTS):
        own = None if may_hang(job) or restarts else parts.begin(access)
        done = run_in_processes(job, parts, remaining, access, own=own, workers=workers, watch=show, stops_at_error=False)
        for content in done.results.values():
            found |= results_in(content)
        remaining = [part for part in remaining if part not in done.results]
        if not done.errors:
            break
        error = done.errors[0]
        if isinstance(error, ConvertError):
            logger.info("the scan ended early, and the plan step reads the rest: %s", error)
            break
        if not isinstance(error, BrokenProcessPool):
            raise error
        if restarts < MOST_RESTARTS:
            logger.warning("a process was killed; its part of the scan is tried again (%d of %d)", restarts + 1, MOST_RESTARTS)
        else:
            logger.warning("processes were killed %d times; they may have run out of memory. This process reads the rest.", restarts + 1)
    return found


@dataclass(frozen=True)
class _Parts:
    """The parts of a source, as `Tasks`. The progress of a task is a number of bytes, and its result is the content of a file with
    results."""

    spec: DataPrepJobSpec
    part_bytes: int
    group: int

    def begin(self, access: Access, *, is_stopped: Callable[[], bool] | None = None) -> DoTask[int, bytes]:
        """See `Tasks`."""
        if is_stopped is not None:
            ahead.end_when(is_stopped)

        def do(part: int, tell: Callable[[int], None]) -> bytes:
            division = Division(part_bytes=self.part_bytes, group=self.group)
            examination = ScanOfPart(part, division=division, watch=tell)
            scan_part(self.spec, access, examination)
            return examination.to_bytes()

        return do
