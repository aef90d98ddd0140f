"""Reads and writes the reports of a run's shards.

Each shard has its own report, which commits the shard. When a worker has finished several consecutive shards of a task, it also stores
their reports together, as a *bundle*. Bundles only reduce the number of requests: if a report isn't in a bundle, the shard's own report is
read. Only a shard's own report commits the shard. So a report in a bundle counts only if a listing shows that the shard's own report
exists.

If a shard was made again, its report in a bundle can be older than its own report. The two reports then differ at least in the pins of
files. So if a file's pin differs from the pin in the bundle, the caller reads the shard's own report (see `own`).
"""

import logging
from collections.abc import Container, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

import numpy as np
import numpy.typing as npt

from dataprep_api.dataset.plan import FEWEST_BUNDLED, MOST_BUNDLED, PlanHead, bundles
from dataprep_api.dataset.report import ShardReport
from dataprep_converter.core.errors import ConvertError, NotWhole
from dataprep_converter.dataset.output_folder import RunFolder
from dataprep_converter.runtime.ahead import mapped_ahead
from dataprep_converter.sampling.plan import Plan

logger = logging.getLogger(__name__)

_PARALLEL_READS: Final = 16
_BUNDLES_AHEAD: Final = 4
"""The number of bundles that are read at the same time. Their reports take a few megabytes each."""


@dataclass
class StoredReports:
    """The reports of a run's shards, in the order of shard numbers. They are read during the iteration, a few bundles ahead."""

    folder: RunFolder
    count: int
    """The number of shards."""
    bundles: Sequence[range] = ()
    """The ranges of shards that may have a bundle, in order."""
    plan_sha256: str = ""
    """The plan to which the reports in bundles must belong."""
    own: Container[int] = frozenset()
    """The numbers of shards whose own reports are read."""
    bundled: int = field(default=0, init=False)
    """The number of reports that the last iteration took from bundles."""

    @classmethod
    def of_plan(cls, folder: RunFolder, plan: Plan, *, own: Container[int] = frozenset()) -> "StoredReports":
        """Returns the reports of the shards in this plan."""
        return cls(folder, plan.head.shards, list(bundles(plan.head)), plan.sha256, own)

    @classmethod
    def of_data_set(cls, folder: RunFolder, count: int, *, own: Container[int] = frozenset()) -> "StoredReports":
        """Returns the reports of a finished data set with this number of shards. Without an intact plan, no bundles are read."""
        found = _plan_head(folder) if count >= FEWEST_BUNDLED else None
        if found is None or found[0].shards != count:
            return cls(folder, count)
        return cls(folder, count, list(bundles(found[0])), sha256(found[1]).hexdigest(), own)

    def __iter__(self) -> Generator[ShardReport | None]:
        """Yields each shard's report, or None if the report is missing or damaged."""
        self.bundled = 0
        exist = self._exist()
        with (
            ThreadPoolExecutor(_PARALLEL_READS, thread_name_prefix="reports") as readers,
            closing(mapped_ahead(lambda part: self._read(*part, exist, readers), self._parts(), most=_BUNDLES_AHEAD)) as parts,
        ):
            for reports, bundled in parts:
                self.bundled += bundled
                yield from reports

    def _parts(self) -> Iterator[tuple[range, bool]]:
        """Yields (range, whether it may have a bundle) pairs. Together, the ranges contain all shard numbers, in order."""
        done = 0
        for bundle in self.bundles:
            yield from ((part, False) for part in _pieces(range(done, bundle.start)))
            yield bundle, True
            done = bundle.stop
        yield from ((part, False) for part in _pieces(range(done, self.count)))

    def _exist(self) -> npt.NDArray[np.bool_]:
        """Returns, for each shard, whether its own report exists.

        If there are no bundles, the result isn't needed, so nothing is listed.
        """
        exist = np.zeros(self.count, np.bool_)
        for number in self.folder.existing_reports() if self.bundles else ():
            if number < self.count:
                exist[number] = True
        return exist

    def _read(
        self, numbers: range, is_bundled: bool, exist: npt.NDArray[np.bool_], readers: ThreadPoolExecutor
    ) -> tuple[list[ShardReport | None], int]:
        """Returns the reports of these shards, and how many of them are from a bundle."""
        found: dict[int, ShardReport | None] = {}
        for report in self.folder.bundle(numbers.start) if is_bundled else ():
            belongs = (report.run_id, report.plan_sha256) == (self.folder.run_id, self.plan_sha256)
            if belongs and report.number in numbers and exist[report.number] and report.number not in self.own:
                found[report.number] = report
        bundled = len(found)
        missing = [number for number in numbers if number not in found]
        found |= zip(missing, readers.map(self.folder.report, missing), strict=True)
        return [found[number] for number in numbers], bundled


def own_reports(folder: RunFolder, count: int) -> StoredReports:
    """Returns the shards' own reports. No bundles are read."""
    return StoredReports(folder, count)


class BundleWriter:
    """Stores the reports of a worker's shards together, as soon as all shards of a bundle are finished."""

    def __init__(self, folder: RunFolder, head: PlanHead) -> None:
        self._folder = folder
        self._bundles = bundles(head)
        self._bundle = range(0)
        self._reports: list[ShardReport] = []

    def add(self, report: ShardReport) -> None:
        """Adds the report of the next shard. Shards are added in order, but some may be left out."""
        while self._bundle.stop <= report.number and (following := next(self._bundles, None)) is not None:
            self._bundle = following
            self._reports = []
        if report.number not in self._bundle:
            return
        self._reports.append(report)
        if len(self._reports) < len(self._bundle):
            return
        try:
            self._folder.put_bundle(self._reports)
        except ConvertError as exc:
            # Without the bundle, the commit step reads the shards' own reports.
            logger.warning("the reports of the shards from %s to %s were not stored together: %s", self._reports[0].file, report.file, exc)


def _plan_head(folder: RunFolder) -> tuple[PlanHead, bytes] | None:
    try:
        return folder.plan_head()
    except NotWhole:
        return None


def _pieces(numbers: range) -> Iterator[range]:
    return (numbers[start : start + MOST_BUNDLED] for start in range(0, len(numbers), MOST_BUNDLED))
