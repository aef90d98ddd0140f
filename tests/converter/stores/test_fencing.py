"""Fencing: a process of a run's commit sleeps while another run takes the output folder over, and then continues.

Wherever the process has slept, it must neither finish its own data set nor damage the other run's. By default, this tests each operation of a
commit on files in one of the `SITUATIONS`, and a seeded sample of operations on each other store. `make crashes` tests all operations, each
in all situations.
"""

import os
import random
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import pytest
from tests.converter.stores import small_jobs
from tests.converter.stores.crashing import CrashingAccess, Operations, Point
from tests.converter.stores.places import PLACES, Place, in_memory
from tests.converter.stores.sleeping import Sleeper
from tests.converter.stores.small_jobs import SmallJob, Whole

from dataprep_api.dataset.plan import task
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import OutputLost
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.dataset.stored_plan import load_plan
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps.kinds import kind_of
from dataprep_converter.steps.plan_step import PlannedRun
from dataprep_converter.tools.verification import verify

pytestmark = pytest.mark.slow

ALL = "CRASHES" in os.environ
SAMPLE: Final = {"hdfs": 2, "webhdfs": 2, "s3": 4, "oss": 4, "abfs": 3, "gs": 3}
"""The number of operations in a store's sample."""
AT_ONCE: Final = 4

EARLIER: Final[dict[str, Any]] = {"shards": {"count": 3}}
"""The output of the run that finished first. Its files are left over when the next run commits."""
PAUSED: Final[dict[str, Any]] = {"shards": {"count": 2}}
NEWER: Final[dict[str, Any]] = {"shards": {"count": 2}, "index": False}
"""The output of a run with the same names and other bytes as the paused one."""


@dataclass(frozen=True)
class Situation:
    """What happens while the process sleeps."""

    newer: dict[str, Any]
    """The output of the run that takes the folder over."""
    spec: dict[str, Any]
    is_finished: bool
    """Whether that run is finished before the process wakes up, or half done."""


SHUFFLED: Final[dict[str, Any]] = {"shuffle": {"seed": 3}}
OTHER_BYTES: Final = [Situation(NEWER, SHUFFLED, is_finished) for is_finished in (True, False)]
"""The newer run writes the same names as the paused one."""
SITUATIONS: Final = [*OTHER_BYTES, *(Situation(EARLIER, {}, is_finished) for is_finished in (True, False))]
"""Or the newer run is that of the files that the paused run is removing. Such a removal can't be prevented on object stores."""


@pytest.fixture(autouse=True)
def least_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    small_jobs.least_parts(monkeypatch)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Place]:
    with in_memory(tmp_path) as place:
        yield place


@pytest.fixture(params=PLACES[1:])
def remote(request: pytest.FixtureRequest) -> Place:
    place: Place = request.param(request)
    return place


@dataclass(frozen=True)
class Runs:
    """The three runs of a test."""

    job: SmallJob

    @property
    def place(self) -> Place:
        return self.job.place

    @property
    def access(self) -> Access:
        return Access([self.place.settings])

    def newer(self, output: str, situation: Situation) -> DataPrepJob:
        return SmallJob(self.place, self.job.source, {**self.job.spec, **situation.spec}).to(output, **situation.newer)

    def whole(self, situation: Situation) -> Whole:
        """Return the newer run's data set, made in a folder of its own."""
        output = f"whole-{SITUATIONS.index(situation)}"
        small_jobs.live(self.newer(output, situation), self.access)
        return small_jobs.whole(self.place, output)

    def lay(self, output: str) -> PlannedRun:
        """Finish the earlier run in a folder, and make all the shards of the run that will be paused."""
        small_jobs.live(self.job.to(output, **EARLIER), self.access)
        job = self.job.to(output, **PAUSED)
        planned = small_jobs.plan(job, self.access)
        small_jobs.work(job, self.access, planned)
        return planned

    def operations(self, output: str, planned: PlannedRun) -> list[str]:
        """Return the operations of a complete commit of the run that will be paused."""
        counted = Operations()
        small_jobs.commit(self.job.to(output, **PAUSED), CrashingAccess((self.place.settings,), counted), planned)
        return counted.names

    def fenced(self, output: str, planned: PlannedRun, point: Point, situation: Situation, expected: Whole) -> bool:
        """Let the commit sleep at a point, and check the newer run's data set. Return whether the commit came to the point."""
        paused, newer = self.job.to(output, **PAUSED), self.newer(output, situation)
        zombie = Sleeper(self.place, point, lambda access: small_jobs.commit(paused, access, planned) and None)
        run = half_done(newer, self.access)
        before = None
        if situation.is_finished:
            small_jobs.live(newer, self.access)
            before = contents(self.place, output, without=planned.result.run_id)
        raised = zombie.wakes_up()
        if before is not None:
            assert contents(self.place, output, without=planned.result.run_id) == before
        if zombie.came_there:
            [error] = raised
            assert isinstance(error, OutputLost), error
            assert f"no longer belongs to run {planned.result.run_id}: run {run} has taken it over" in str(error)
        small_jobs.live(newer, self.access)
        found = small_jobs.whole(self.place, output)
        assert (found.visible, found.manifest, found.success) == (expected.visible, expected.manifest, expected.success)
        verify(self.place.at(output), self.access)
        assert self.place.leftovers(output) == 0
        return zombie.came_there


def half_done(job: DataPrepJob, access: Access) -> str:
    """Take the folder over, and make the first shards. Return the run's id."""
    planned = small_jobs.plan(job, access)
    folder = OutputFolder(job.spec.output.uri, access).of_run(planned.result.run_id)
    plan = load_plan(folder, planned.result.plan_sha256)
    kind_of(job.spec).work(job.spec, plan=plan, shards=task(plan.head, 0), access=access, attempt="0", watch=lambda _: None)
    return planned.result.run_id


def contents(place: Place, output: str, *, without: str) -> dict[str, bytes]:
    """Return all files of a folder, except those in the folder of one run."""
    store, names = place.store(), small_jobs.listed(place, output)
    return {name: store.get(place.at(f"{output}/{name}")) for name in names if not name.startswith(f"_dataprep/{without}/")}


def pairs(points: Sequence[Point], situations: Sequence[Situation]) -> list[tuple[Point, Situation]]:
    """Return each point with each situation for `make crashes`, or else each point with one of the situations."""
    if ALL:
        return [(point, situation) for point in points for situation in situations]
    return list(zip(points, cycle(situations), strict=False))


def before_the_end(operations: Sequence[str]) -> list[Point]:
    """Return the points before each operation, up to the last look at OWNER. After that, a commit has finished its data set."""
    last = max(number for number, name in enumerate(operations, start=1) if name.startswith("get ") and name.endswith("/OWNER"))
    return [Point(number, "before") for number in range(1, last + 1)]


def test_a_commit_that_sleeps_while_another_run_takes_over_does_no_harm_on_files(local: Place) -> None:
    runs = Runs(small_jobs.of_rows(local))
    expected = {id(situation): runs.whole(situation) for situation in SITUATIONS}
    planned = runs.lay("laid")

    def copied(output: str) -> str:
        # Copy the files' modification times too, because the reports contain them as pins.
        shutil.copytree(local.at("laid"), local.at(output))
        return output

    points = before_the_end(runs.operations(copied("counted"), planned))
    slept = 0
    for point, situation in pairs(points, SITUATIONS):
        output = copied(f"{point.number}-{SITUATIONS.index(situation)}")
        slept += runs.fenced(output, planned, point, situation, expected[id(situation)])
    assert slept >= len(points) - 2


@pytest.mark.store
def test_a_commit_that_sleeps_while_another_run_takes_over_does_no_harm_on_other_stores(remote: Place) -> None:
    scheme = remote.root.partition(":")[0]
    situations = SITUATIONS if scheme in ("hdfs", "webhdfs") else OTHER_BYTES
    runs = Runs(small_jobs.of_rows(remote))
    expected = {id(situation): runs.whole(situation) for situation in situations}
    points = before_the_end(runs.operations("counted", runs.lay("counted")))
    # The last operations make the data set visible as a whole.
    chosen = points if ALL else [*random.Random(9).sample(points[:-4], SAMPLE[scheme] - 2), *points[-4:-2]]  # noqa: S311 - the same points each time

    def sleeps(pair: tuple[Point, Situation]) -> bool:
        point, situation = pair
        output = f"{point.number}-{situations.index(situation)}"
        return runs.fenced(output, runs.lay(output), point, situation, expected[id(situation)])

    with ThreadPoolExecutor(AT_ONCE) as threads:
        assert all(threads.map(sleeps, pairs(chosen, situations)))
