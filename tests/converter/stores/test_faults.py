"""Injects faults between the converter and real servers, chosen at random with a seed.

Either the data set has exactly the same bytes, or the job reports the reason and no incomplete file is visible. CI tests one seed for each
store, and the nightly run tests 20. `make faults SEEDS=300` runs 300 for each store and writes docs/faults.md.
"""

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from tests.converter.stores import fault_report, small_jobs
from tests.converter.stores.lanes import (
    ANSWER_SECONDS,
    ANSWER_SECONDS_OF_PARTS,
    Lane,
    Stretching,
    azure_lane,
    hdfs_lane,
    http_lane,
    maxcompute_lane,
    of_objects,
    webhdfs_lane,
)
from tests.converter.stores.places import gcs, oss, s3
from tests.converter.stores.small_jobs import SmallJob, Whole, assert_nothing_broken, assert_whole

from dataprep_api.dataset.messages import CommitResult
from dataprep_api.reasons import Reason
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import ConvertError
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime.retry import RetryPolicy
from dataprep_converter.steps import preflight
from dataprep_converter.steps.conversion import convert_work as converter_working
from dataprep_converter.steps.conversion import shuffle
from storeservers.faulty import Fault, Kind

pytestmark = pytest.mark.store

_SEEDS_IN_CI, _SEEDS_AT_NIGHT = 1, 20
_FIRST_WITH_SCAN = 1139
"""By day, only this seed runs with a scan and a shuffle. On each of the two stores, its faults hit the scan and the first round of the
shuffle.
"""
_LANES, _LANES_OF = 4, {"maxcompute": 1}
"""The number of seeds that run concurrently. Concurrency saves time, because a run with faults mostly waits.

Each lane has its own place and its own proxy. MaxCompute has only one lane, because its client takes the proxy from the environment.
"""
_MOST_FAULTS = 6
Life = Callable[[DataPrepJob, Access], CommitResult]


@dataclass(frozen=True)
class Stretch:
    """A lane in which the job has run once without faults."""

    lane: Lane
    job: SmallJob
    expected: Whole
    life: Life
    requests: int
    """The number of requests in a complete run."""

    def faults(self, seed: int) -> list[Fault]:
        """Return one to six faults at random requests of a run of the job."""
        chosen = random.Random(f"{self.lane.name}-{seed}")  # noqa: S311 - the same faults each time
        numbers = chosen.sample(range(1, self.requests + 1), chosen.randint(1, min(_MOST_FAULTS, self.requests)))
        return [Fault(number, chosen.choice(self.lane.kinds)) for number in sorted(numbers)]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten timeouts from minutes to seconds."""
    from dataprep_converter.inputs import maxcompute
    from dataprep_converter.stores import http, store_requests
    from dataprep_converter.stores.objects import objects
    from dataprep_converter.stores.objects import oss as oss_store

    # WebHDFS keeps its timeout, because a NameNode that has just started takes seconds to send its first response. The proxy ends stalls
    # with a reset.
    for module in (oss_store, http):
        monkeypatch.setattr(module, "ANSWER_SECONDS", ANSWER_SECONDS)
    for module in (objects, store_requests):
        monkeypatch.setattr(module, "ANSWER_SECONDS", ANSWER_SECONDS_OF_PARTS)
    # pyodps only accepts integers.
    monkeypatch.setattr(maxcompute, "ANSWER_SECONDS", int(ANSWER_SECONDS))
    monkeypatch.setattr(converter_working, "_SHARD_RETRY_POLICY", RetryPolicy(attempts=3, first_delay_seconds=0.01))
    monkeypatch.setattr(shuffle, "_RETRY_POLICY", RetryPolicy(attempts=3, first_delay_seconds=0.01))
    monkeypatch.setattr(preflight, "_RETRY_SECONDS", 30.0)


def stretch(lane: Lane, job: SmallJob, life: Life) -> Stretch:
    lane.proxy.arm()
    life(job.to("whole"), Access([lane.place.settings]))
    requests = lane.proxy.count
    return Stretch(lane, job, small_jobs.whole(lane.seen, "whole"), life, requests)


_STRETCHES: dict[str, Stretching] = {
    "s3": of_objects("s3", "s3_server", s3, expired="ExpiredToken"),
    "oss": of_objects("oss", "oss_fake", oss, expired="SecurityTokenExpired"),
    "hdfs": hdfs_lane,
    "webhdfs": webhdfs_lane,
    "azure": azure_lane,
    "gcs": of_objects("gcs", "gcs_fake", gcs, expired="InvalidSecurity"),
    "http": http_lane,
    "maxcompute": maxcompute_lane,
}


@pytest.fixture(params=_STRETCHES)
def lanes(request: pytest.FixtureRequest) -> Iterator[list[Lane]]:
    with ExitStack() as stack:
        yield [stack.enter_context(_STRETCHES[request.param](request)) for _ in range(_LANES_OF.get(request.param, _LANES))]


@pytest.mark.parametrize("seeds", [_SEEDS_IN_CI, pytest.param(_SEEDS_AT_NIGHT, marks=pytest.mark.nightly)])
def test_faults_change_no_byte_or_are_named(lanes: Sequence[Lane], seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small_jobs.least_parts(monkeypatch, lanes[0].place)
    jobs = [lane.job or small_jobs.of_parts(lane.place) for lane in lanes]
    outcomes = lives_with_faults(lanes, jobs, int(os.environ.get("SEEDS", seeds)), small_jobs.live, report=True)
    hit = Counter(fault.kind for outcome in outcomes for fault in outcome.hits)
    assert len(hit) >= (min(8, len(lanes[0].kinds)) if len(outcomes) >= 20 else 1)


@pytest.mark.parametrize(
    ("lanes", "seeds"),
    [
        ("oss", _SEEDS_IN_CI),
        ("hdfs", _SEEDS_IN_CI),
        *(pytest.param(name, _SEEDS_AT_NIGHT, marks=pytest.mark.nightly) for name in _STRETCHES if name != "maxcompute"),
    ],
    indirect=["lanes"],
)
def test_faults_of_a_scan_and_of_a_shuffle_change_no_byte_or_are_named(
    lanes: Sequence[Lane], seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_jobs.least_parts(monkeypatch, lanes[0].place)
    small_jobs.small_parts(monkeypatch)
    small_jobs.two_rounds(monkeypatch)
    jobs = [small_jobs.shuffled(lane.job) if lane.job is not None else small_jobs.of_all_steps(lane.place) for lane in lanes]
    outcomes = lives_with_faults(lanes, jobs, seeds, small_jobs.live_with_scan, first=_FIRST_WITH_SCAN)
    lanes[0].proxy.arm()
    small_jobs.scan(jobs[0].to("scanned"), Access([lanes[0].place.settings]))
    of_scan = lanes[0].proxy.count
    hits = [fault.number for outcome in outcomes for fault in outcome.hits if isinstance(fault, Fault)]
    assert any(number <= of_scan for number in hits), "no fault hit the scan"


def lives_with_faults(
    lanes: Sequence[Lane], jobs: Sequence[SmallJob], seeds: int, life: Life, *, first: int = 0, report: bool = False
) -> list[fault_report.Outcome]:
    """Runs the jobs in the lanes with the faults of each seed, beginning with the seed `first`. Returns the outcomes.

    If `report` is set, also adds the outcomes to the report.
    """
    name, lanes = lanes[0].name, lanes[:seeds]
    outcomes: list[fault_report.Outcome] = []
    noting = threading.Lock()

    def along(number: int) -> None:
        here = stretch(lanes[number], jobs[number], life)
        for seed in range(number, seeds, len(lanes)):
            outcome = life_with_faults(here, first + seed)
            with noting:
                outcomes.append(outcome)
                if report:
                    fault_report.note(name, outcomes)

    with ThreadPoolExecutor(len(lanes)) as threads:
        list(threads.map(along, range(len(lanes))))
    assert len(outcomes) == seeds
    return outcomes


def life_with_faults(here: Stretch, seed: int) -> fault_report.Outcome:
    """Run the job with a few faults, and then once more without faults."""
    lane, place, job, expected = here.lane, here.lane.place, here.job, here.expected
    output = f"seed-{seed}"
    if lane.table is not None:
        lane.table.empty()
    lane.proxy.arm(here.faults(seed))
    reason = None
    try:
        here.life(job.to(output), Access([place.settings]))
    except ConvertError as exc:
        true = {Reason.STORE_UNREACHABLE} | {Reason.BAD_CREDENTIALS for fault in lane.proxy.hits if fault.kind is Kind.EXPIRED}
        if exc.reason not in true:
            raise AssertionError(f"{lane.name}, seed {seed}: not the reason, after {lane.proxy.hits}") from exc
        reason = exc.reason
    outcome = fault_report.Outcome(lane.proxy.hits, reason)
    lane.proxy.arm()
    try:
        assert_nothing_broken(lane.seen, output, expected)
        if lane.table is not None:
            assert len(lane.table.rows()) in ((0, small_jobs.RECORDS) if reason is not None else (small_jobs.RECORDS,))
        if reason is None:
            assert small_jobs.whole(lane.seen, output).visible == expected.visible
        here.life(job.to(output), Access([place.settings]))
        assert_whole(lane.seen, output, expected)
        if lane.table is not None:
            assert len(lane.table.rows()) == small_jobs.RECORDS
    except AssertionError as exc:
        raise AssertionError(f"{lane.name}, seed {seed}, after {outcome}") from exc
    return outcome
