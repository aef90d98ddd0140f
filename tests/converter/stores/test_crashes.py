"""Crash points: a job is killed before and after every operation on its store, and then run again.

By default, the tests cover a small seeded sample of points on the file store, HDFS, S3 and OSS. On the other stores, they cover only the
completion of an upload. `make nightly` tests all points of the file store, with SIGKILL, and a sample of points on every other store.
`make crashes` tests all points on the other stores.
"""

import gc
import os
import random
import shutil
import signal
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest
from tests.converter.stores import small_jobs
from tests.converter.stores.crashing import Before, CrashingAccess, Killed, Operations, Point, dies, stops
from tests.converter.stores.places import PLACES, Place, gcs, on_some
from tests.converter.stores.sleeping import Sleeper
from tests.converter.stores.small_jobs import SmallJob, Whole, assert_nothing_broken, assert_whole

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import ConvertError
from dataprep_converter.dataset import manifest_table
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime.retry import RetryPolicy
from dataprep_converter.steps.conversion import convert_work as converter_working
from dataprep_converter.steps.conversion import shuffle
from dataprep_converter.tools.verification import verify

pytestmark = pytest.mark.slow

ALL = "CRASHES" in os.environ
"""Whether to test all points instead of a sample, as in `make crashes`."""
SAMPLE = {"hdfs": 1, "webhdfs": 0, "s3": 1, "oss": 2, "abfs": 0, "gs": 0}
"""The number of points in a store's sample, besides the last points. HDFS has few because closing a file takes half a second, and S3
because its parts are 5 MiB long.

A store with the number 0 differs from hdfs or s3 only in how it completes an upload, so `COMPLETION` is its only point.
"""
NIGHTLY_SAMPLE = {"hdfs": 1, "webhdfs": 1, "s3": 2, "oss": 2, "abfs": 1, "gs": 1}
"""The number of points in a store's sample at night, besides the last points."""
COMPLETION = Before("commit", ".tfrecords")
"""The point before the upload of the first shard is completed. The shard's index is completed earlier, and its name has a different
ending."""
AT_ONCE = 4
"""The number of lives that run concurrently on a remote store."""
Life = Callable[[DataPrepJob, Access], object]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a shard again immediately if its temporary file was swept (deleted as a leftover). Upload even small files in parts."""
    monkeypatch.setattr(converter_working, "_SHARD_RETRY_POLICY", RetryPolicy(attempts=3, first_delay_seconds=0))
    monkeypatch.setattr(shuffle, "_RETRY_POLICY", RetryPolicy(attempts=3, first_delay_seconds=0))
    small_jobs.least_parts(monkeypatch)


@pytest.fixture
def two_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    small_jobs.two_rounds(monkeypatch)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    small_jobs.small_parts(monkeypatch)
    small_jobs.small_cells(monkeypatch)


def accessed(place: Place) -> Access:
    return Access([place.settings])


def finished(job: SmallJob, *, life: Life = small_jobs.live) -> Whole:
    life(job.to("whole"), accessed(job.place))
    return small_jobs.whole(job.place, "whole")


def finished_and_counted(job: SmallJob, *, life: Life = small_jobs.live) -> tuple[Whole, list[str]]:
    """Run all steps of a job. Return its output, and its operations on the store, in order."""
    counted = Operations()
    life(job.to("whole"), CrashingAccess((job.place.settings,), counted))
    return small_jobs.whole(job.place, "whole"), counted.names


def killed_for_real(job: DataPrepJob, place: Place, point: Point | Before, *, life: Life = small_jobs.live) -> bool:
    """Run the job in a child process. Return whether the child was killed."""
    child = os.fork()
    if child == 0:
        # The threads of clients that earlier tests left behind exist only in the parent. So the child would wait forever if it destroyed
        # these clients.
        gc.freeze()
        code = 1
        try:
            life(job, CrashingAccess((place.settings,), Operations(point, dies)))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.waitstatus_to_exitcode(status) == 0
    return False


def stopped(job: DataPrepJob, place: Place, point: Point | Before, *, life: Life = small_jobs.live) -> bool:
    """Run the job in this process, and refuse all operations from the point on. Return whether the job reached the point."""
    operations = Operations(point, stops)
    try:
        life(job, CrashingAccess((place.settings,), operations))
    except (Killed, Exception):
        # If an exception ends the preflight's thread, the preflight reports it as an error of the store.
        if not operations.dead:
            raise
    return operations.dead


def points_of(names: list[str], *, sample: int | None = None) -> list[Point]:
    """Return the points before each operation and after the last one, or a seeded sample that includes the last points."""
    # Because a thread reads ahead, the number of operations varies by one or two.
    count = len(names)
    points = [Point(number, "before") for number in range(1, count + 1)] + [Point(count, "after")]
    if ALL or sample is None:
        return points
    return [*random.Random(6).sample(points[:-2], sample), *points[-2:]]  # noqa: S311 - the same points each time


@pytest.mark.parametrize(
    ("made", "sample"),
    [
        pytest.param(small_jobs.of_rows, 5, id="rows"),
        pytest.param(small_jobs.of_rows, None, id="rows at every operation", marks=pytest.mark.nightly),
        pytest.param(small_jobs.of_a_join, 3, id="join"),
        pytest.param(
            small_jobs.of_a_join,
            15,
            id="join, more points",
            marks=[pytest.mark.nightly, pytest.mark.skipif(ALL, reason="all points are tested with `join`")],
        ),
        pytest.param(small_jobs.of_a_shuffle, 6, id="shuffle"),
        pytest.param(small_jobs.of_a_shuffle, None, id="shuffle at every operation", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.usefixtures("two_rounds")
def test_a_kill_at_every_operation_costs_nothing_on_files(local: Place, made: Callable[[Place], SmallJob], sample: int | None) -> None:
    job = made(local)
    expected, names = finished_and_counted(job)
    points = points_of(names, sample=sample)

    killed = 0
    for point in points:
        output = f"{point.number}-{point.when}"
        killed += killed_for_real(job.to(output), local, point)
        assert_nothing_broken(local, output, expected)
        small_jobs.live(job.to(output), accessed(local))
        assert_whole(local, output, expected)
    assert killed >= len(points) - 2


@pytest.mark.usefixtures("small_parts", "two_rounds")
@pytest.mark.parametrize(
    ("made", "sample"),
    [
        pytest.param(small_jobs.of_rows, 8, id="rows"),
        pytest.param(small_jobs.of_rows, None, id="rows at every operation", marks=pytest.mark.nightly),
        pytest.param(small_jobs.of_a_shuffle, None, id="shuffle at every operation", marks=pytest.mark.nightly),
    ],
)
def test_a_kill_at_every_operation_of_a_job_with_a_scan_costs_nothing(
    local: Place, made: Callable[[Place], SmallJob], sample: int | None
) -> None:
    job = made(local)
    expected = finished(job)
    counted = Operations()
    small_jobs.live_with_scan(job.to("counted"), CrashingAccess((local.settings,), counted))
    assert_whole(local, "counted", expected)
    points = points_of(counted.names)
    if sample is not None and not ALL:
        # Most of the points are in two steps: the scan, and the planning that uses the scan's results.
        planned = next(number for number, name in enumerate(counted.names) if name.endswith("/plan.json") and name.startswith("put "))
        points = [*random.Random(11).sample(points[: planned + 4], sample), *points[-2:]]  # noqa: S311 - the same points each time

    killed = 0
    for point in points:
        output = f"{point.number}-{point.when}"
        killed += killed_for_real(job.to(output), local, point, life=small_jobs.live_with_scan)
        assert_nothing_broken(local, output, expected)
        small_jobs.live_with_scan(job.to(output), accessed(local))
        assert_whole(local, output, expected)
    assert killed >= len(points) - 2


MANY_SHARDS: Final = (
    Before("put", "/from-00000000.jsonl"),
    Before("create", "/manifest-files.parquet"),
    Before("write", "/manifest-files.parquet"),
    Before("commit", "/manifest-files.parquet"),
    Before("put", "/manifest.json"),
)
"""The points before the reports are stored together, before and while the manifest's table is written, and between the table and the
manifest."""


def test_a_kill_while_the_files_of_many_shards_are_written_costs_nothing(local: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_table, "MOST_LISTED_FILES", 3)
    job = small_jobs.of_many_shards(local)
    expected, names = finished_and_counted(job)
    points: list[Point | Before] = [*MANY_SHARDS, *(points_of(names) if ALL else ())]

    killed = 0
    for number, point in enumerate(points):
        output = f"life-{number}"
        killed += killed_for_real(job.to(output), local, point)
        assert_nothing_broken(local, output, expected)
        small_jobs.live(job.to(output), accessed(local))
        assert_whole(local, output, expected)
    assert killed >= len(points) - (2 if ALL else 0)


@pytest.mark.parametrize("overwrite", ["Never", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("IfChanged", "Always"))])
def test_a_kill_at_any_operation_of_a_small_job_in_one_pod_costs_nothing(local: Place, overwrite: str) -> None:
    job = small_jobs.of_rows(local)
    expected = finished(job)
    counted = Operations()
    small_jobs.live_in_one_pod(job.to("counted", overwrite=overwrite), CrashingAccess((local.settings,), counted))
    assert_whole(local, "counted", expected)
    points = [Point(number, "before") for number in range(1, len(counted.names) + 1)] + [Point(len(counted.names), "after")]

    killed = 0
    # If a pod is killed after it has written `_SUCCESS`, its result is lost. `last` is the number of points after `_SUCCESS`. It is less
    # than ten, so every second one of these points is tested.
    last = len(counted.names) - max(index for index, name in enumerate(counted.names) if "_SUCCESS" in name)
    assert last < 10
    chosen = points if ALL else [*random.Random(9).sample(points[:-10], 5), *points[-10::2]]  # noqa: S311 - the same points each time
    for point in chosen:
        output = f"{point.number}-{point.when}"
        small = job.to(output, overwrite=overwrite)
        killed += killed_for_real(small, local, point, life=small_jobs.live_in_one_pod)
        assert_nothing_broken(local, output, expected)
        small_jobs.live_in_one_pod(small, accessed(local))
        assert_whole(local, output, expected)
    assert killed >= len(chosen) - (4 if ALL else 2)


def test_a_kill_at_any_operation_of_a_small_job_over_its_own_data_set_costs_nothing(local: Place) -> None:
    job = small_jobs.of_rows(local)
    expected = finished(job)

    def laid(output: str) -> DataPrepJob:
        # Copy the files' modification times too, because the data set's reports contain these times as pins.
        shutil.copytree(local.at("whole"), local.at(output))
        return job.to(output, overwrite="Always")

    counted = Operations()
    small_jobs.live_in_one_pod(laid("counted"), CrashingAccess((local.settings,), counted))
    assert_whole(local, "counted", expected)
    points = [Point(number, "before") for number in range(1, len(counted.names) + 1)] + [Point(len(counted.names), "after")]

    killed = 0
    chosen = points if ALL else [*random.Random(10).sample(points[:-10], 5), *points[-10::2]]  # noqa: S311 - the same points each time
    for point in chosen:
        output = f"{point.number}-{point.when}"
        again = laid(output)
        killed += killed_for_real(again, local, point, life=small_jobs.live_in_one_pod)
        assert_nothing_broken(local, output, expected)
        small_jobs.live_in_one_pod(again, accessed(local))
        assert_whole(local, output, expected)
    assert killed >= len(chosen) - (4 if ALL else 2)


def test_a_kill_at_any_operation_of_an_extension_leaves_the_old_data_set_or_the_new_one(local: Place) -> None:
    job = small_jobs.of_files(local, "a", "c")
    small_jobs.live(job.to("old", overwrite="Extend"), accessed(local))
    old = small_jobs.whole(local, "old")
    small_jobs.of_files(local, "b")

    def laid(output: str) -> DataPrepJob:
        # Copy the files' modification times too, because the data set's reports contain these times as pins.
        shutil.copytree(local.at("old"), local.at(output))
        return job.to(output, overwrite="Extend")

    small_jobs.live(laid("whole"), accessed(local))
    new = small_jobs.whole(local, "whole")
    counted = Operations()
    small_jobs.live(laid("counted"), CrashingAccess((local.settings,), counted))
    points = [Point(number, "before") for number in range(1, len(counted.names) + 1)] + [Point(len(counted.names), "after")]

    killed = 0
    chosen = points if ALL else [*random.Random(7).sample(points[:-40], 5), *points[-40::8]]  # noqa: S311 - the same points each time
    for point in chosen:
        output = f"{point.number}-{point.when}"
        extension = laid(output)
        killed += killed_for_real(extension, local, point)
        seen = small_jobs.visible(local, output)
        assert old.visible.items() <= seen.items() <= new.visible.items()
        if "_SUCCESS" in small_jobs.listed(local, output):
            found = small_jobs.whole(local, output)
            assert (found.visible, found.manifest, found.success) in [(each.visible, each.manifest, each.success) for each in (old, new)]
        small_jobs.live(extension, accessed(local))
        assert_whole(local, output, new)
    assert killed >= min(len(chosen), 20) - 2


def test_a_kill_at_any_operation_of_a_copy_costs_nothing(local: Place) -> None:
    expected = finished(small_jobs.of_rows(local))
    counted = Operations()
    small_jobs.live(small_jobs.a_copy(local.at("whole"), local.at("counted")), CrashingAccess((local.settings,), counted))
    points = [Point(number, "before") for number in range(1, len(counted.names) + 1)] + [Point(len(counted.names), "after")]

    killed = 0
    chosen = points if ALL else [*random.Random(8).sample(points[:-20], 5), *points[-20::4]]  # noqa: S311 - the same points each time
    for point in chosen:
        output = f"{point.number}-{point.when}"
        copy = small_jobs.a_copy(local.at("whole"), local.at(output))
        killed += killed_for_real(copy, local, point)
        assert_nothing_broken(local, output, expected)
        small_jobs.live(copy, accessed(local))
        assert_whole(local, output, expected)
    assert killed >= len(chosen) - (4 if ALL else 2)


@pytest.mark.store
@on_some("hdfs", "s3", "oss")
def test_a_copy_goes_to_another_store_and_back_and_is_resumed_on_the_way(local: Place, remote: Place) -> None:
    expected = finished(small_jobs.of_rows(local))
    both = (local.settings, remote.settings)
    there = small_jobs.a_copy(local.at("whole"), remote.at("copy"))
    for number in (12, 40):
        operations = Operations(Point(number, "before"), stops)
        with pytest.raises((Killed, Exception)):
            small_jobs.live(there, CrashingAccess(both, operations))
        assert operations.dead
        assert_nothing_broken(remote, "copy", expected)
    small_jobs.live(there, Access(both))
    assert_whole(remote, "copy", expected)
    small_jobs.live(small_jobs.a_copy(remote.at("copy"), local.at("back")), Access(both))
    assert_whole(local, "back", expected)
    assert verify(remote.at("copy"), Access(both)).records_out == small_jobs.RECORDS - 1


@pytest.mark.store
@pytest.mark.parametrize(
    ("life", "samples"),
    [
        pytest.param(small_jobs.live, SAMPLE, id="three steps"),
        pytest.param(
            small_jobs.live,
            NIGHTLY_SAMPLE,
            id="three steps, more points",
            marks=[pytest.mark.nightly, pytest.mark.skipif(ALL, reason="all points are tested with `three steps`")],
        ),
        pytest.param(small_jobs.live_in_one_pod, NIGHTLY_SAMPLE, id="one pod", marks=pytest.mark.nightly),
    ],
)
def test_a_death_at_any_operation_costs_nothing_on_other_stores(
    remote: Place, life: Life, samples: Mapping[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_jobs.least_parts(monkeypatch, remote)
    job = small_jobs.of_parts(remote)
    expected, names = finished_and_counted(job, life=life)
    sample = samples[remote.root.partition(":")[0]]
    points: list[Point | Before] = [COMPLETION] if sample == 0 and not ALL else [*points_of(names, sample=sample)]

    def dies_and_lives(number: int) -> bool:
        output = f"life-{number}"
        died = stopped(job.to(output), remote, points[number], life=life)
        assert_nothing_broken(remote, output, expected)
        life(job.to(output), accessed(remote))
        assert_whole(remote, output, expected)
        return died

    # The runs are independent, and mostly wait for the store.
    with ThreadPoolExecutor(AT_ONCE) as threads:
        assert sum(threads.map(dies_and_lives, range(len(points)))) >= max(1, len(points) - 2)


Step = Callable[[DataPrepJob, Access], None]
PlaceMaker = Callable[[pytest.FixtureRequest], Place]


def planning(job: DataPrepJob, access: Access) -> None:
    small_jobs.plan(job, access)


def working(job: DataPrepJob, access: Access) -> None:
    small_jobs.work(job, access, small_jobs.plan(job, Access(access.settings)))


def dividing(job: DataPrepJob, access: Access) -> None:
    small_jobs.divide(job, access, small_jobs.plan(job, Access(access.settings)))


def committing(job: DataPrepJob, access: Access) -> None:
    plain = Access(access.settings)
    planned = small_jobs.plan(job, plain)
    small_jobs.work(job, plain, planned)
    small_jobs.commit(job, access, planned)


EVERY: Final = pytest.mark.parametrize(
    "every", [8, pytest.param(4, marks=[pytest.mark.nightly, pytest.mark.skipif(ALL, reason="all points are tested with `8`")])]
)
"""By default, a process sleeps before every eighth operation. At night, it sleeps before every fourth operation."""


@EVERY
@pytest.mark.parametrize(
    ("life", "made"),
    [
        *((life, small_jobs.of_rows) for life in (planning, working, committing)),
        (dividing, small_jobs.of_a_shuffle),
        pytest.param(working, small_jobs.of_a_shuffle, marks=pytest.mark.nightly),
        pytest.param(committing, small_jobs.of_a_shuffle, marks=pytest.mark.nightly),
    ],
)
@pytest.mark.usefixtures("two_rounds")
def test_a_zombie_that_wakes_up_after_the_end_does_no_harm(local: Place, life: Step, made: Callable[[Place], SmallJob], every: int) -> None:
    job = made(local)
    expected = finished(job)
    slept = 0
    for point in sleeps(job, life, every=every):
        output = f"{point.number}-{point.when}"
        zombie = Sleeper(local, point, lambda access, output=output: life(job.to(output), access))  # type: ignore[misc] # mypy can't infer a lambda with a default
        small_jobs.live(job.to(output), accessed(local))
        assert_nothing_broken(local, output, expected)
        # The process that wakes up is allowed to fail, but only with one of our own errors.
        assert all(isinstance(each, ConvertError) for each in zombie.wakes_up())
        assert_whole(local, output, expected)
        slept += zombie.came_there
    assert slept > 20 // every


def scanning(job: DataPrepJob, access: Access) -> None:
    small_jobs.scan(job, access)


@pytest.mark.usefixtures("small_parts")
def test_a_pod_of_a_scan_that_wakes_up_after_the_end_leaves_at_most_its_result(local: Place) -> None:
    """If such a pod leaves its result, the next plan step removes it."""
    job = small_jobs.of_rows(local)
    expected = finished(job)
    left = 0
    for point in sleeps(job, scanning, every=4):
        output = f"{point.number}-{point.when}"
        zombie = Sleeper(local, point, lambda access, output=output: scanning(job.to(output), access))  # type: ignore[misc] # see above
        small_jobs.live_with_scan(job.to(output), accessed(local))
        assert_whole(local, output, expected)
        assert all(isinstance(each, ConvertError) for each in zombie.wakes_up())
        assert_nothing_broken(local, output, expected)
        left += any("/scan-" in name for name in small_jobs.listed(local, output))
        small_jobs.live(job.to(output), accessed(local))
        assert_whole(local, output, expected)
    assert left > 3


@EVERY
@pytest.mark.usefixtures("two_rounds")
@pytest.mark.parametrize("made", [small_jobs.of_rows, small_jobs.of_a_shuffle])
def test_two_workers_at_the_same_task_make_one_data_set(local: Place, made: Callable[[Place], SmallJob], every: int) -> None:
    """One worker sleeps at each of its operations. In the meantime, the other worker does the complete task, and the commit step runs."""
    job = made(local)
    expected = finished(job)
    slept = 0
    for point in sleeps(job, working, every=every):
        output = f"{point.number}-{point.when}"
        planned = small_jobs.plan(job.to(output), accessed(local))
        first = Sleeper(local, point, lambda access, output=output, planned=planned: small_jobs.work(job.to(output), access, planned))  # type: ignore[misc] # see above
        small_jobs.work(job.to(output), accessed(local), planned)
        assert first.wakes_up() == []
        small_jobs.commit(job.to(output), accessed(local), planned)
        assert_whole(local, output, expected)
        slept += first.came_there
    assert slept > 20 // every


def test_two_workers_one_of_whom_dies_make_one_data_set(local: Place) -> None:
    """When the other worker has finished the task, the first worker wakes up, does one more operation and dies. The shard isn't made
    again."""
    job = small_jobs.of_rows(local)
    expected = finished(job)
    for point in sleeps(job, working, every=4):
        output = f"{point.number}-{point.when}"
        planned = small_jobs.plan(job.to(output), accessed(local))
        first = Sleeper(local, point, lambda access, output=output, planned=planned: small_jobs.work(job.to(output), access, planned))  # type: ignore[misc] # see above
        small_jobs.work(job.to(output), accessed(local), planned)
        first.wakes_up_and_dies()
        small_jobs.commit(job.to(output), accessed(local), planned)
        assert_whole(local, output, expected)


@pytest.mark.store
@pytest.mark.parametrize(
    "made", [*(place for place in PLACES if place.id in ("s3", "oss")), pytest.param(gcs, id="gcs", marks=pytest.mark.nightly)]
)
def test_a_worker_that_wakes_up_in_an_upload_after_the_end_begins_no_other(request: pytest.FixtureRequest, made: PlaceMaker) -> None:
    """The commit has swept the worker's parts, and the shard exists.

    The worker doesn't upload the shard again, and leaves no unfinished upload.
    """
    place = made(request)
    job = small_jobs.of_parts(place)
    expected = finished(job)
    counted = Operations()
    working(job.to("counted"), CrashingAccess((place.settings,), counted))
    uploading = [
        number for number, name in enumerate(counted.names, start=1) if name.startswith(("write ", "commit ")) and ".tfrecords" in name
    ]
    assert len(uploading) >= 4
    for number in uploading if ALL else (uploading[-1], uploading[-2]):
        output = f"woken-{number}"
        planned = small_jobs.plan(job.to(output), accessed(place))
        first = Sleeper(
            place,
            Point(number, "before"),
            lambda access, output=output, planned=planned: small_jobs.work(job.to(output), access, planned),  # type: ignore[misc] # see above
        )
        small_jobs.work(job.to(output), accessed(place), planned)
        small_jobs.commit(job.to(output), accessed(place), planned)
        assert_whole(place, output, expected)
        begun = created(first)
        assert first.wakes_up() == []
        # Shards that the worker had not started are made once more, with the same bytes. The shard of the interrupted upload
        # is not made again.
        assert created(first).count(begun[-1]) == 1
        assert_whole(place, output, expected)


def created(sleeper: Sleeper) -> list[str]:
    """Return the shards whose uploads the process has begun so far."""
    return [name for name in sleeper.names if name.startswith("create ") and ".tfrecords" in name]


def sleeps(job: SmallJob, life: Step, *, every: int) -> list[Point]:
    """Return the points before every `every`-th operation of one step, or before each operation if `ALL` is set."""
    counted = Operations()
    life(job.to(f"counted-{life.__name__}"), CrashingAccess((job.place.settings,), counted))
    return [Point(number, "before") for number in range(1, len(counted.names) + 1, 1 if ALL else every)]
