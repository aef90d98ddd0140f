"""The NameNode and DataNodes die at seeded points in a job, and are restarted immediately or after the job.

Either the data set is the same, or the job reports the reason and no incomplete file is visible. CI runs the job once. `make faults
SEEDS=300` runs it thirty times and writes the results to docs/faults.md.
"""

import os
import random
from collections.abc import Iterator
from enum import StrEnum

import pytest
from tests.converter.stores import fault_report, small_jobs
from tests.converter.stores.crashing import CrashingAccess, Operations, Point
from tests.converter.stores.places import hdfs
from tests.converter.stores.small_jobs import assert_nothing_broken, assert_whole

from dataprep_api.reasons import Reason
from dataprep_converter.core.errors import ConvertError
from dataprep_converter.runtime.retry import RetryPolicy
from dataprep_converter.steps.conversion import convert_work as converter_working
from storeservers import HdfsCluster

pytestmark = pytest.mark.store

SEEDS = int(os.environ.get("SEEDS", "0")) // 10
"""The minimum number of deaths, for runs in which the environment asks for more deaths than a test has by default."""


class Death(StrEnum):
    """A kind of death: the server that dies, and whether it is restarted while the job runs."""

    DATA_NODE = "DataNode killed"
    NAME_NODE_RESTARTED = "NameNode killed and started again"
    DATA_NODE_RESTARTED = "DataNode killed and started again"
    NAME_NODE = "NameNode killed"

    def strike(self, cluster: HdfsCluster) -> None:
        """Kill the server. If this kind of death includes a restart, restart the server."""
        if self in (Death.NAME_NODE, Death.NAME_NODE_RESTARTED):
            cluster.kill_namenode()
        else:
            cluster.kill_datanode(0)
        if self.restarts:
            cluster.launch_missing()

    @property
    def restarts(self) -> bool:
        """Whether the server is restarted while the job runs."""
        return self in (Death.DATA_NODE_RESTARTED, Death.NAME_NODE_RESTARTED)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converter_working, "_SHARD_RETRY_POLICY", RetryPolicy(attempts=3, first_delay_seconds=0.01))


@pytest.fixture
def cluster(hdfs_cluster: HdfsCluster) -> Iterator[HdfsCluster]:
    """Yield the cluster, and start all servers that a test has left dead."""
    yield hdfs_cluster
    hdfs_cluster.start_missing()


@pytest.mark.parametrize("deaths", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_servers_that_die_change_no_byte_or_are_named(cluster: HdfsCluster, request: pytest.FixtureRequest, deaths: int) -> None:
    place = hdfs(request)
    job = small_jobs.of_rows(place)
    counted = Operations()
    small_jobs.live(job.to("whole"), CrashingAccess((place.settings,), counted))
    expected = small_jobs.whole(place, "whole")
    preflighted = max(number for number, name in enumerate(counted.names, start=1) if ".preflight-" in name)
    outcomes: list[fault_report.Outcome] = []
    deaths = max(deaths, SEEDS)
    for seed, death in zip(range(deaths), [*Death] * deaths, strict=False):
        output = f"seed-{seed}"
        # The preflight has a time limit, which a restart can exceed. So a server that is restarted dies after the preflight.
        first = preflighted + 1 if death.restarts else 1
        number = random.Random(f"hdfs-{seed}").randint(first, len(counted.names))  # noqa: S311 - the same moments each time
        operations = Operations(Point(number, "before"), lambda _, death=death: death.strike(cluster))  # type: ignore[misc] # mypy can't infer a lambda with a default
        reason = None
        try:
            small_jobs.live(job.to(output), CrashingAccess((place.settings,), operations))
        except ConvertError as exc:
            if exc.reason is not Reason.STORE_UNREACHABLE:
                raise AssertionError(f"seed {seed}: not the reason, after {death} before {counted.names[number - 1]}") from exc
            reason = exc.reason
        assert operations.reached
        outcomes.append(fault_report.Outcome([fault_report.Hit(death)], reason))
        try:
            cluster.start_missing()
            assert_nothing_broken(place, output, expected)
            small_jobs.live(job.to(output), CrashingAccess((place.settings,), Operations()))
            assert_whole(place, output, expected)
        except AssertionError as exc:
            raise AssertionError(f"seed {seed}: {death} before {counted.names[number - 1]}, {reason}") from exc
    fault_report.note("hdfs servers", outcomes)
