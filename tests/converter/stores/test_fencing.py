"""Fencing: a process that commits a run sleeps while another run takes over the output folder, and then continues.

Wherever the process has slept, it must not finish its own data set, and must not damage the other run's data set. By default, the process
sleeps at every third operation of a commit on local files, in one of the `SITUATIONS`. On each other store, it sleeps at a seeded sample
of operations. `make nightly` tests each operation on files, and `make crashes` tests all operations in all situations.
"""

import os
import random
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Final

import pytest
from tests.converter.stores import small_jobs
from tests.converter.stores.crashing import Before, CrashingAccess, Operations, Point
from tests.converter.stores.places import Place, on_some
from tests.converter.stores.sleeping import Sleeper
from tests.converter.stores.small_jobs import SmallJob

from dataprep_api.dataset.plan import task
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import OutputLost
from dataprep_converter.dataset import manifest_table
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.dataset.stored_plan import load_plan
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime import makers
from dataprep_converter.steps.kinds import kind_of
from dataprep_converter.steps.plan_step import PlannedRun
from dataprep_converter.stores import MovesFiles
from dataprep_converter.tools.verification import verify

pytestmark = pytest.mark.slow

ALL = "CRASHES" in os.environ
AT_ONCE: Final = 4
"""The number of commits that sleep concurrently on a store other than files."""


@dataclass(frozen=True)
class Run:
    """A run. The fields contain only what differs between the runs' specs."""

    shards: int
    spec: dict[str, Any] = field(default_factory=dict)

    def job(self, of: SmallJob, output: str) -> DataPrepJob:
        return SmallJob(of.place, of.source, self.spec).to(output, shards={"count": self.shards})


EARLIER: Final = Run(3)
"""The run that finished first. Its files are left over when the next run commits."""
PAUSED: Final = Run(2)
NEWER: Final = Run(2, {"shuffle": {"seed": 3}})
"""A run that writes files with the same names as the paused run's files, but with other bytes."""


@dataclass(frozen=True)
class Situation:
    """What happens while the process sleeps."""

    newer: Run
    """The run that takes over the folder."""
    is_finished: bool
    """Whether the newer run is finished before the process wakes up. Otherwise, the newer run is half done at that time."""


SITUATIONS: Final = [Situation(newer, is_finished) for newer in (NEWER, EARLIER) for is_finished in (True, False)]
"""In the situations with EARLIER, the first run is started again, and writes the files that the paused run is removing. On object
stores, such a removal can't be prevented."""


@pytest.fixture(autouse=True)
def least_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    small_jobs.least_parts(monkeypatch)


@dataclass(frozen=True)
class Runs:
    """The runs of a test, which all read the same rows."""

    of: SmallJob

    @property
    def place(self) -> Place:
        return self.of.place

    @property
    def access(self) -> Access:
        return Access([self.place.settings])

    def lay(self, output: str, *, replaces: bool = True) -> PlannedRun:
        """Make all the shards of the run that will be paused, in a separate folder or in the earlier run's folder."""
        if replaces:
            small_jobs.live(EARLIER.job(self.of, output), self.access)
        paused = PAUSED.job(self.of, output)
        # If the run has a maker, the commit's last operation writes OWNER. The tests check that this doesn't replace the other run's OWNER.
        planned = small_jobs.plan(paused, self.access, maker=makers.this_process("small"))
        small_jobs.work(paused, self.access, planned)
        return planned

    def operations(self, output: str, planned: PlannedRun) -> list[str]:
        """Return the operations of an undisturbed commit of the run that will be paused, until it reads OWNER for the last time.

        After this, the commit has finished its data set.
        """
        counted = Operations()
        small_jobs.commit(PAUSED.job(self.of, output), CrashingAccess((self.place.settings,), counted), planned)
        looks = [number for number, name in enumerate(counted.names, start=1) if name.startswith("get ") and name.endswith("/OWNER")]
        return counted.names[: looks[-1]]

    def fence(self, output: str, planned: PlannedRun, point: Point | Before, situation: Situation) -> None:
        """Let the commit sleep at a point while the other run takes over. Check that the commit changes nothing after it has woken up."""
        paused, newer = PAUSED.job(self.of, output), situation.newer.job(self.of, output)

        def life(access: Access) -> None:
            small_jobs.commit(paused, access, planned)

        zombie = Sleeper(self.place, point, life)
        run = (live if situation.is_finished else half_done)(newer, self.access)
        before = contents(self.place, output, without=planned.result.run_id)
        raised = zombie.wakes_up()

        assert zombie.came_there
        after = contents(self.place, output, without=planned.result.run_id)
        if situation.is_finished:
            assert after == before
        elif self.place.sweeps:
            # On stores where uploads can't be swept, the commit may still write its files until the other run writes its own. On object
            # stores, a removal that the commit has already decided on can't be prevented. But it removes only files of the earlier run,
            # which the other run would remove too.
            removed = before.keys() - after.keys()
            assert after == {name: content for name, content in before.items() if name not in removed}
            assert not removed or not isinstance(self.place.store(), MovesFiles)
            assert [name for name in removed if not is_of_earlier(name, newer=run)] == []
        [error] = raised
        assert isinstance(error, OutputLost), error
        assert f"no longer belongs to run {planned.result.run_id}: run {run} has taken it over" in str(error)
        if not situation.is_finished:
            small_jobs.live(newer, self.access)
            assert verify(self.place.at(output), self.access).run_id == run
        assert self.place.leftovers(output) == 0


def live(job: DataPrepJob, access: Access) -> str:
    """Run all steps of a job. Return the run's id."""
    return small_jobs.live(job, access).run_id


def half_done(job: DataPrepJob, access: Access) -> str:
    """Take over the folder, and make the first shards. Return the run's id."""
    planned = small_jobs.plan(job, access)
    folder = OutputFolder(job.spec.output.uri, access).of_run(planned.result.run_id)
    plan = load_plan(folder, planned.result.plan_sha256)
    kind_of(job.spec).work(job.spec, plan=plan, shards=task(plan.head, 0), access=access, attempt="0", watch=lambda _: None)
    return planned.result.run_id


def is_of_earlier(name: str, *, newer: str) -> bool:
    """Return whether a file is a shard or an index of the earlier run, or is in that run's folder."""
    folder = re.match("_dataprep/([0-9a-f]{16})/", name)
    return f"-of-{EARLIER.shards:05}." in name or (folder is not None and folder[1] != newer)


def contents(place: Place, output: str, *, without: str) -> dict[str, bytes]:
    """Return all files in a folder, except those in one run's folder."""
    store, names = place.store(), small_jobs.listed(place, output)
    return {name: store.get(place.at(f"{output}/{name}")) for name in names if not name.startswith(f"_dataprep/{without}/")}


@pytest.mark.parametrize(
    "every", [3, pytest.param(1, marks=[pytest.mark.nightly, pytest.mark.skipif(ALL, reason="all operations are tested with `3`")])]
)
def test_a_commit_that_sleeps_while_another_run_takes_over_does_no_harm_on_files(local: Place, every: int) -> None:
    runs = Runs(small_jobs.of_rows(local))
    planned = runs.lay("laid")

    def copied(output: str) -> str:
        # Copy the files' modification times too, because the reports contain these times as pins.
        shutil.copytree(local.at("laid"), local.at(output))
        return output

    operations = runs.operations(copied("counted"), planned)
    points = [Point(number, "before") for number in range(1, len(operations) + 1)]
    pairs = [(point, situation) for point in points for situation in SITUATIONS]
    if not ALL:
        # Most metadata files and most reports are left out. They are all written or moved in the same way, so testing a few of them is
        # enough.
        few = [
            point
            for point in points
            if not re.search(r"/(loaders|files|paths|_tfds)/|croissant|move .*reports", operations[point.number - 1])
        ]
        pairs = list(zip(few[::every], cycle(SITUATIONS), strict=False))
    for point, situation in pairs:
        runs.fence(copied(f"{point.number}-{SITUATIONS.index(situation)}"), planned, point, situation)
    assert {name.partition(" ")[0] for name in operations} == {
        *("commit", "create", "get", "list", "make", "move", "open", "put", "read", "remove", "stage", "sweep", "write")
    }


@pytest.mark.parametrize("when", ["create", "commit"])
def test_a_commit_that_sleeps_before_it_writes_the_manifests_table_does_no_harm(
    local: Place, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.setattr(manifest_table, "MOST_LISTED_FILES", 1)
    runs = Runs(small_jobs.of_rows(local))
    for situation in SITUATIONS if ALL else SITUATIONS[:2]:
        output = str(SITUATIONS.index(situation))
        runs.fence(output, runs.lay(output), Before(when, "/manifest-files.parquet"), situation)


FINISH: Final = Before("commit", "/_SUCCESS")
READS_PLAN: Final = Point(3, "before")
"""The commit has opened the table of units, but hasn't read it yet."""
SAMPLE: Final[dict[str, list[tuple[Point | Before, Situation]]]] = {
    "hdfs": [(FINISH, SITUATIONS[1])],
    "webhdfs": [(Before("move"), SITUATIONS[3])],
    "s3": [(Point(random.Random(1).randrange(1, 40), "before"), SITUATIONS[0]), (FINISH, SITUATIONS[1])],  # noqa: S311 - the same each time
    "oss": [(Point(random.Random(2).randrange(1, 40), "before"), SITUATIONS[0]), (FINISH, SITUATIONS[1])],  # noqa: S311 - the same each time
    "abfs": [(FINISH, SITUATIONS[0]), (READS_PLAN, SITUATIONS[0])],
    "gs": [(FINISH, SITUATIONS[1])],
}
"""The points that are tested by default. Each commit has over 40 operations."""


@pytest.mark.store
def test_a_commit_that_sleeps_while_another_run_takes_over_does_no_harm_on_other_stores(remote: Place) -> None:
    scheme = remote.root.partition(":")[0]
    runs = Runs(small_jobs.of_rows(remote))
    pairs = SAMPLE[scheme]
    if ALL:
        situations = SITUATIONS if scheme in ("hdfs", "webhdfs") else SITUATIONS[:2]
        count = len(runs.operations("counted", runs.lay("counted")))
        pairs = [(Point(number, "before"), situation) for number in range(1, count + 1) for situation in situations]

    def sleeps(index: int) -> None:
        point, situation = pairs[index]
        runs.fence(str(index), runs.lay(str(index), replaces=ALL or situation.newer is EARLIER), point, situation)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(sleeps, range(len(pairs))))


@pytest.mark.store
@on_some("hdfs", "s3", "oss")
def test_a_finished_data_set_names_no_process(remote: Place) -> None:
    runs = Runs(small_jobs.of_rows(remote))
    planned = runs.lay("out", replaces=False)
    folder = OutputFolder(remote.at("out"), runs.access)
    owner = folder.owner()
    assert owner is not None
    assert owner.makers == [makers.this_process("small")]
    small_jobs.commit(PAUSED.job(runs.of, "out"), runs.access, planned)
    assert folder.owner() == owner.model_copy(update={"makers": []})
    assert verify(remote.at("out"), runs.access).run_id == planned.result.run_id


def test_a_plan_step_that_sleeps_while_another_run_takes_over_changes_nothing_or_takes_over_too(local: Place) -> None:
    runs = Runs(small_jobs.of_rows(local))
    small_jobs.live(EARLIER.job(runs.of, "laid"), runs.access)
    counted = Operations()
    shutil.copytree(local.at("laid"), local.at("counted"))
    small_jobs.plan(PAUSED.job(runs.of, "counted"), CrashingAccess((local.settings,), counted))
    first = next(number for number, name in enumerate(counted.names, start=1) if name.endswith("/OWNER") and name.startswith("create "))

    lost = 0
    for number in range(first - 1, len(counted.names) + 1, 1 if ALL else 2):
        output = str(number)
        shutil.copytree(local.at("laid"), local.at(output))
        paused, newer = PAUSED.job(runs.of, output), NEWER.job(runs.of, output)

        def life(access: Access, paused: DataPrepJob = paused) -> None:
            small_jobs.plan(paused, access)

        zombie = Sleeper(local, Point(number, "before"), life)
        run = live(newer, runs.access)
        whole = small_jobs.whole(local, output)
        raised = zombie.wakes_up()
        for error in raised:
            assert isinstance(error, OutputLost), error
            assert f"run {run} has taken it over" in str(error)
            lost += 1
        owner = OutputFolder(local.at(output), runs.access).owner()
        if owner is not None and owner.run_id == run:
            found = small_jobs.whole(local, output)
            assert (found.visible, found.manifest, found.success) == (whole.visible, whole.manifest, whole.success)
            assert verify(local.at(output), runs.access).run_id == run
        else:
            # The process that woke up has taken the folder back from the newer run. So there is no finished data set until the paused run
            # has ended.
            assert raised == []
            assert "_SUCCESS" not in small_jobs.listed(local, output)
            small_jobs.live(paused, runs.access)
            assert verify(local.at(output), runs.access).records_out == small_jobs.RECORDS - 1
    assert lost > 3
